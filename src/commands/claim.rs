//! `DQ.CLAIM queue [COUNT n] [LEASE ms]`
//!
//! Takes up to `COUNT` due jobs (1, at most 1,000), in the order of due time and then push, and answers an array of
//! them, each `[receipt, payload, id, attempt, lease-ms, retries-left]`; later versions only append. Empty where none
//! is due. One reply carries at most 8 MiB of payload; a single larger job passes alone.
//!
//! * `LEASE ms`: how long this claim holds its jobs, 1 to `dq.max-lease`; else the job's own lease, else `dq.lease`.
//!
//! `receipt` names this claim of this job, for ACK, RETRY, RELEASE, FAIL and EXTEND. `attempt` is 1 for a first claim
//! and grows with each failure and each lease that ran out.
//!
//! Errors: `DQDISABLED`, `READONLY`, `WRONGTYPE`.
//!
//! O(M log N) for M jobs claimed from a queue of N.

use super::options::{lease, queue, MAX_LIST};
use super::push::LEASE_ARG;
use crate::core::args::{count, is, unknown_option, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::Taken;
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::{settings, trampoline};

pub const COMMAND: Command = Command {
    name: c"dq.claim",
    summary: c"Takes the due jobs of a queue that come first, each under a lease.",
    complexity: c"O(M log N) for M jobs claimed from a queue of N.",
    arity: -2,
    access: Access::Write,
    fast: true,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(c"count", ArgKind::Integer).token(c"COUNT").optional(),
        LEASE_ARG,
    ],
    run: || trampoline!(run),
};

/// What a caller asks for.
struct Wanted<'a> {
    queue: QueueName<'a>,
    count: usize,
    lease: Option<u64>,
}

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let wanted = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    if !settings::is_enabled() {
        return Err("DQDISABLED dq.enabled is no".into());
    }
    let taken = engine::change(ctx, &wanted.queue, |queue| Ok(queue.claim(wanted.count, wanted.lease)))?;
    ctx.reply_array(taken.len());
    taken.iter().for_each(|job| reply_taken(ctx, job));
    Ok(())
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<Wanted<'a>, ArgError> {
    let queue = queue(&mut rest)?;
    let (mut jobs, mut held) = (Once::default(), Once::default());
    while let Some(option) = rest.next() {
        if is(option, "COUNT") {
            jobs.set("COUNT", count("COUNT", rest.value("COUNT")?, 1, MAX_LIST as u64)?)?;
        } else if is(option, "LEASE") {
            held.set("LEASE", lease("LEASE", rest.value("LEASE")?)?)?;
        } else if is(option, "BLOCK") {
            return Err(ArgError::new("BLOCK is not supported in this version: CLAIM answers at once"));
        } else {
            return Err(unknown_option(option));
        }
    }
    let count = usize::try_from(jobs.get().unwrap_or(1)).unwrap_or(MAX_LIST);
    Ok(Wanted { queue, count, lease: held.get() })
}

fn reply_taken(ctx: &Ctx, job: &Taken) {
    ctx.reply_array(6);
    ctx.reply_bytes(&job.receipt);
    ctx.reply_bytes(job.payload());
    ctx.reply_bytes(job.id.as_bytes());
    ctx.reply_integer(i64::from(job.attempt));
    ctx.reply_integer(i64::try_from(job.lease_ms).unwrap_or(i64::MAX));
    ctx.reply_integer(i64::from(job.retries_left));
}

//! `DQ.CLAIM queue [COUNT n] [LEASE ms] [BLOCK ms]`
//!
//! Takes up to `COUNT` due jobs (1, at most 1,000), in the order of due time and then push, and answers an array of
//! them, each `[receipt, payload, id, attempt, lease-ms, retries-left]`; later versions only append. Empty where none
//! is due or the wait ran out. One reply carries at most 8 MiB of payload; a single larger job passes alone.
//!
//! * `LEASE ms`: how long this claim holds its jobs, 1 to `dq.max-lease`; else the job's own lease, else `lease`.
//! * `BLOCK ms`: where none is due, wait for one, up to 24 h; 0 for ever. Waiters are served first come, first served,
//!   and a claim that does not wait takes only what they leave. `COUNT` above 1 answers with what is due, not when
//!   `COUNT` is reached. A queue that is paused or at its `max-leased` keeps its waiters waiting. In MULTI and in a
//!   script it does not wait.
//!
//! `receipt` names this claim of this job, for ACK, RETRY, RELEASE, FAIL and EXTEND. `attempt` is 1 for a first claim
//! and grows with each failure and each lease that ran out. A job whose waiter is gone before it could be told goes back
//! with its old due time, and nothing is counted.
//!
//! Errors: `DQDISABLED`, `READONLY`, `WRONGTYPE`; `UNBLOCKED` for a waiter whose node became a replica, was disabled, or
//! gave the queue's slot away.
//!
//! O(M log N) for M jobs claimed from a queue of N.

use super::options::{lease, queue, MAX_LIST};
use super::push::LEASE_ARG;
use crate::core::args::{count, duration, is, unknown_option, ArgError, Cursor, Once};
use crate::engine::{self, Claimed, Order, Wanted};
use crate::queue::Taken;
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::settings::DAY;
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.claim",
    summary: c"Takes the due jobs of a queue that come first, each under a lease; waits for one where it is asked to.",
    complexity: c"O(M log N) for M jobs claimed from a queue of N.",
    arity: -2,
    access: Access::Write,
    fast: true,
    waits: true,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key), COUNT_ARG, LEASE_ARG, BLOCK_ARG],
    run: || trampoline!(run),
};

pub const COUNT_ARG: Arg = Arg::new(c"count", ArgKind::Integer).token(c"COUNT").optional();
pub const BLOCK_ARG: Arg = Arg::new(c"block", ArgKind::Integer).token(c"BLOCK").optional();

/// The longest wait, in ms.
const MAX_BLOCK: u64 = DAY;

/// The options that CLAIM and MCLAIM share.
#[derive(Default)]
pub struct ClaimOptions {
    count: Once<u64>,
    lease: Once<u64>,
    block: Once<u64>,
}

impl ClaimOptions {
    /// Reads the option `name` and its value; `false` where it is none of these.
    pub fn read(&mut self, name: &[u8], rest: &mut Cursor) -> Result<bool, ArgError> {
        if is(name, "COUNT") {
            self.count.set("COUNT", count("COUNT", rest.value("COUNT")?, 1, MAX_LIST as u64)?)?;
        } else if is(name, "LEASE") {
            self.lease.set("LEASE", lease("LEASE", rest.value("LEASE")?)?)?;
        } else if is(name, "BLOCK") {
            self.block.set("BLOCK", duration("BLOCK", rest.value("BLOCK")?, 0, MAX_BLOCK)?)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    pub fn wanted(&self, order: Order, reply: fn(&Ctx, &Claimed)) -> Wanted {
        let count = usize::try_from(self.count.get().unwrap_or(1)).unwrap_or(MAX_LIST);
        Wanted { count, lease: self.lease.get(), order, reply }
    }

    pub fn block(&self) -> Option<u64> {
        self.block.get()
    }
}

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let mut rest = Cursor::new(args.bytes());
    let name = queue(&mut rest).map_err(String::from)?;
    let mut options = ClaimOptions::default();
    while let Some(option) = rest.next() {
        if !options.read(option, &mut rest).map_err(String::from)? {
            return Err(unknown_option(option).into());
        }
    }
    engine::claim(ctx, &[name], options.wanted(Order::Strict, reply_jobs), options.block())
}

fn reply_jobs(ctx: &Ctx, claimed: &Claimed) {
    ctx.reply_array(claimed.jobs.len());
    for job in &claimed.jobs {
        ctx.reply_array(JOB_FIELDS);
        reply_job(ctx, job);
    }
}

/// What `reply_job` writes.
pub const JOB_FIELDS: usize = 6;

pub fn reply_job(ctx: &Ctx, job: &Taken) {
    ctx.reply_bytes(&job.receipt_text());
    ctx.reply_bytes(job.payload());
    ctx.reply_bytes(job.id.as_bytes());
    ctx.reply_integer(i64::from(job.attempt));
    ctx.reply_integer(i64::try_from(job.lease_ms).unwrap_or(i64::MAX));
    ctx.reply_integer(i64::from(job.retries_left));
}

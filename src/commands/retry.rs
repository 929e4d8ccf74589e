//! `DQ.RETRY queue receipt [DELAY ms] [ERROR text] [STACK text]`
//!
//! Gives a failed job back to be run again and answers the ms until then, or -1 where its retries are used up and it
//! is now a dead letter. The failure is counted.
//!
//! * `DELAY ms`: 0 to `max-delay`. Without it the job waits 1 s after the first failure, then 2 s, 4 s, 8 s … up to
//!   5 minutes: `min(cap, base · 2^(failures - 1))`, by `BACKOFF` of the job, else `backoff-base` and
//!   `backoff-cap`. `backoff-jitter` percent of it, at most, are added at random.
//! * `ERROR`, `STACK`: kept with the job, byte for byte, each cut at `max-error`.
//!
//! A receipt whose lease ran out, but whose job nobody has claimed since, counts as one failure and no lapse.
//!
//! Errors: `DQSTALE`, `DQDELAY`, `READONLY`, `WRONGTYPE`; a text that is no receipt.
//!
//! O(log N) with N jobs in the queue.

use super::options::{delay, queue, receipt, NoteOptions};
use crate::core::args::{is, unknown_option, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::core::receipt::Receipt;
use crate::engine;
use crate::queue::{FailNote, Reach, Retried};
use crate::redis::{random, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.retry",
    summary: c"Gives a failed job back, to be run again after its backoff.",
    complexity: c"O(log N) with N jobs in the queue.",
    arity: -3,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(c"receipt", ArgKind::Text),
        Arg::new(c"delay", ArgKind::Integer).token(c"DELAY").optional(),
        ERROR_ARG,
        STACK_ARG,
    ],
    run: || trampoline!(run),
};

pub const ERROR_ARG: Arg = Arg::new(c"error", ArgKind::Text).token(c"ERROR").optional();
pub const STACK_ARG: Arg = Arg::new(c"stack", ArgKind::Text).token(c"STACK").optional();

/// What a worker says of a failure.
struct Failure<'a> {
    queue: QueueName<'a>,
    receipt: Receipt,
    delay: Option<u64>,
    note: FailNote<'a>,
}

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let failure = parse(ctx, Cursor::new(args.bytes())).map_err(String::from)?;
    let retried = engine::change(ctx, &failure.queue, Reach::ALL, |queue| {
        queue.retry(&failure.receipt, failure.delay, failure.note, random())
    })?;
    match retried {
        Retried::In(ms) => ctx.reply_integer(i64::try_from(ms).unwrap_or(i64::MAX)),
        Retried::Dead => ctx.reply_integer(-1),
    }
    Ok(())
}

fn parse<'a>(ctx: &Ctx, mut rest: Cursor<'_, 'a>) -> Result<Failure<'a>, ArgError> {
    let queue = queue(&mut rest)?;
    let receipt = receipt(rest.value("receipt")?)?;
    let (mut wait, mut note) = (Once::default(), NoteOptions::default());
    while let Some(option) = rest.next() {
        if is(option, "DELAY") {
            wait.set("DELAY", delay(ctx, &queue, "DELAY", rest.value("DELAY")?)?)?;
        } else if !note.read(option, &mut rest)? {
            return Err(unknown_option(option));
        }
    }
    Ok(Failure { queue, receipt, delay: wait.get(), note: note.note() })
}

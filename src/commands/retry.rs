//! ```text
//! DQ.RETRY queue receipt [DELAY ms] [ERROR text] [STACK text]
//! ```
//!
//! Gives a failed job back to be run again, and counts the failure: for what may go better next time, such as a time-out or
//! a 503. Where the job's retries are used up it becomes a dead letter with the reason `retries-exhausted`: `RETRIES 3`
//! allows three failures, and the fourth kills.
//!
//! # Options
//!
//! | option | range | default | |
//! | --- | --- | --- | --- |
//! | `DELAY ms` | 0 to `max-delay` (7 d) | the backoff | when the job is due again |
//! | `ERROR text` | cut at `max-error` (64 KiB), never refused; [shorter at `maxmemory`](../operations.md#when-memory-is-full) | | what went wrong; it replaces that of the failure before |
//! | `STACK text` | the same | | the stack of it |
//!
//! The backoff is 1 s after the first failure, then 2 s, 4 s, 8 s … up to 5 minutes: `min(cap, base · 2^(failures − 1))`, by
//! the job's BACKOFF, else `backoff-base` and `backoff-cap`. Up to `backoff-jitter` percent of it are added at random; never
//! is it less.
//!
//! A receipt whose lease ran out, but whose job nobody has claimed since, counts as one failure and no lapse.
//!
//! # Reply
//!
//! The ms until the job is due again, an integer; -1 where it is now a dead letter.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `DQLOST` | the receipt is of a claim that has ended: the job is done, dead, or somebody else's |
//! | `DQDELAY` | DELAY is over `max-delay` |
//! | `ERR` | the text is no receipt, or an option is unknown or given twice |
//!
//! and [those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH mail 'to whom?' RETRIES 1
//! "8yTJwU4bgrg"
//! 127.0.0.1:6380> DQ.CLAIM mail
//! 1) 1) "8yTJwU4bgrg:1.k3f"
//!    2) "to whom?"
//!    3) "8yTJwU4bgrg"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 1
//! 127.0.0.1:6380> DQ.RETRY mail 8yTJwU4bgrg:1.k3f ERROR 'mail server is busy'
//! (integer) 1158
//! 127.0.0.1:6380> DQ.CLAIM mail BLOCK 5000
//! 1) 1) "8yTJwU4bgrg:2.k3f"
//!    2) "to whom?"
//!    3) "8yTJwU4bgrg"
//!    4) (integer) 2
//!    5) (integer) 30000
//!    6) (integer) 0
//! (1.16s)
//! 127.0.0.1:6380> DQ.RETRY mail 8yTJwU4bgrg:2.k3f ERROR 'mail server is gone'
//! (integer) -1
//! 127.0.0.1:6380> DQ.RETRY mail 8yTJwU4bgrg:2.k3f ERROR 'mail server is gone'
//! (error) DQLOST the receipt is of a claim that has ended
//! ```
//!
//! # See also
//!
//! [DQ.FAIL](fail.md) for what can never go well, [DQ.RELEASE](release.md) for what is no failure, [DQ.REPLAY](replay.md).

use super::options::{delay, queue, receipt, unknown_option, NoteOptions};
use crate::core::args::{is, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::core::receipt::Receipt;
use crate::engine;
use crate::queue::{FailNote, Reach, Retried};
use crate::redis::{handler, random, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

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
    run: handler(run),
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
    let retried = engine::settle(ctx, &failure.queue, Reach::ALL, |queue| {
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
            return Err(unknown_option(&COMMAND, option));
        }
    }
    Ok(Failure { queue, receipt, delay: wait.get(), note: note.note() })
}

//! ```text
//! DQ.FAIL queue receipt [ERROR text] [STACK text]
//! ```
//!
//! Makes the job a dead letter at once, with the reason `failed`: for what no retry can mend, such as a payload that does
//! not parse. The letter keeps payload, error and stack, for somebody to look at and to [replay](replay.md). A queue keeps at
//! most `dead-max` (100,000) letters, for `dead-max-age` (90 d); the oldest goes first, and DQ.STATS counts it as
//! `dead-evicted`.
//!
//! # Options
//!
//! | option | range | |
//! | --- | --- | --- |
//! | `ERROR text` | cut at `max-error` (64 KiB), never refused; [shorter at `maxmemory`](../operations.md#when-memory-is-full) | what went wrong |
//! | `STACK text` | the same | the stack of it |
//!
//! A receipt whose lease ran out, but whose job nobody has claimed since, acts as in time; where the job has become a dead
//! letter by that lapse, the letter takes this reason, error and stack.
//!
//! # Reply
//!
//! OK.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `DQLOST` | the receipt is of a claim that has ended: the job is done, dead, or somebody else's |
//! | `ERR` | the text is no receipt, or an option is unknown or given twice |
//!
//! and [those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH mail 'to whom?'
//! "8yTJw6gc796"
//! 127.0.0.1:6380> DQ.CLAIM mail
//! 1) 1) "8yTJw6gc796:1.k3f"
//!    2) "to whom?"
//!    3) "8yTJw6gc796"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 127.0.0.1:6380> DQ.FAIL mail 8yTJw6gc796:1.k3f ERROR 'no such address'
//! OK
//! 127.0.0.1:6380> DQ.GET mail 8yTJw6gc796
//!  1) "id"
//!  2) "8yTJw6gc796"
//!  3) "state"
//!  4) "dead"
//!  5) "payload"
//!  6) "to whom?"
//!  7) "attempt"
//!  8) (integer) 1
//!  9) "failures"
//! 10) (integer) 0
//! 11) "lapses"
//! 12) (integer) 0
//! 13) "releases"
//! 14) (integer) 0
//! 15) "claims"
//! 16) (integer) 1
//! 17) "retries-left"
//! 18) (integer) 300
//! 19) "retries"
//! 20) (integer) 300
//! 21) "lease-ms"
//! 22) (integer) 30000
//! 23) "backoff-base-ms"
//! 24) (integer) 1000
//! 25) "backoff-cap-ms"
//! 26) (integer) 300000
//! 27) "pushed-at"
//! 28) (integer) 1796012447834
//! 29) "died-at"
//! 30) (integer) 1796012447837
//! 31) "reason"
//! 32) "failed"
//! 33) "error"
//! 34) "no such address"
//! ```
//!
//! # See also
//!
//! [DQ.RETRY](retry.md), [DQ.PEEK](peek.md) `STATE dead`, [DQ.REPLAY](replay.md), [DQ.CANCEL](cancel.md).

use super::options::{queue, receipt, unknown_option, NoteOptions};
use super::retry::{ERROR_ARG, STACK_ARG};
use crate::core::args::{ArgError, Cursor};
use crate::core::names::QueueName;
use crate::core::receipt::Receipt;
use crate::engine;
use crate::queue::{FailNote, Reach};
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

pub const COMMAND: Command = Command {
    name: c"dq.fail",
    summary: c"Makes a claimed job a dead letter.",
    complexity: c"O(log N) with N jobs and letters in the queue.",
    arity: -3,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key), Arg::new(c"receipt", ArgKind::Text), ERROR_ARG, STACK_ARG],
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, receipt, note) = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    engine::settle(ctx, &name, Reach::ALL, |queue| queue.fail(&receipt, note))?;
    ctx.reply_ok();
    Ok(())
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, Receipt, FailNote<'a>), ArgError> {
    let name = queue(&mut rest)?;
    let receipt = receipt(rest.value("receipt")?)?;
    let mut note = NoteOptions::default();
    while let Some(option) = rest.next() {
        if !note.read(option, &mut rest)? {
            return Err(unknown_option(&COMMAND, option));
        }
    }
    Ok((name, receipt, note.note()))
}

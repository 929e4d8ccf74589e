//! ```text
//! DQ.CANCEL queue [STATE ready|delayed|leased|dead] id [id ...]
//! ```
//!
//! Takes the jobs of 1 to 1,000 ids out for good. Of each id the live job is meant, else the dead letter. The id is free at
//! once. A worker that holds a cancelled job is not told: it finds its receipt stale. An id that is named twice counts once.
//!
//! # Options
//!
//! | option | |
//! | --- | --- |
//! | `STATE` | only what is in that state goes |
//!
//! STATE as the first word after the queue is always the option: a job whose id is that word is cancelled by naming a state,
//! or another id before it.
//!
//! # Reply
//!
//! How many went, an integer. An id that is not there is no error.
//!
//! # Errors
//!
//! `ERR` where there are more than 1,000 ids, or STATE is none of the four; and [those of every command](README.md#errors).
//! An error changed nothing: none of the jobs went.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH bills 'may' ID bill-9 DELAY 1h
//! "bill-9"
//! 127.0.0.1:6380> DQ.CANCEL bills STATE dead bill-9
//! (integer) 0
//! 127.0.0.1:6380> DQ.CANCEL bills bill-9 bill-10
//! (integer) 1
//! ```
//!
//! # See also
//!
//! [DQ.PURGE](purge.md) for whole states, [DQ.RESCHEDULE](reschedule.md), [DQ.PUSH](push.md) `REPLACE`.

use super::options::{ids, queue, state};
use super::peek::STATE_ARG;
use crate::core::args::{is, ArgError, Cursor};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::{JobState, Reach};
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply, Text};

pub const COMMAND: Command = Command {
    name: c"dq.cancel",
    summary: c"Takes jobs or dead letters out for good, by their ids.",
    complexity: c"O(M log N) for M ids in a queue of N.",
    arity: -3,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key), STATE_ARG, Arg::new(c"id", ArgKind::Text).multiple()],
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, state, ids) = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    let cancelled =
        engine::change(ctx, &name, Reach::ALL, |queue| Ok(ids.iter().filter(|id| queue.cancel(id, state)).count()))?;
    ctx.reply_integer(cancelled as i64);
    Ok(())
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, Option<JobState>, Vec<Text>), ArgError> {
    let name = queue(&mut rest)?;
    let mut of = None;
    if rest.peek().is_some_and(|first| is(first, "STATE")) {
        rest.next();
        of = Some(state(rest.value("STATE")?)?);
    }
    Ok((name, of, ids(rest.rest())?))
}

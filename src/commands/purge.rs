//! ```text
//! DQ.PURGE queue STATE ready|delayed|leased|dead [ready|delayed|leased|dead ...]
//! ```
//!
//! Takes all jobs out for good that are in one of these states now. Their ids are free as they go. A worker that holds such
//! a job finds its receipt stale.
//!
//! The first 1,000 of a state go at once, the rest [in slices](README.md#very-many-jobs). A job that leaves the state before
//! its turn, because it is claimed, say, or its lease ends, stays; so does what comes into the state meanwhile.
//!
//! # Options
//!
//! | option | |
//! | --- | --- |
//! | `STATE` | one to four of `ready`, `delayed`, `leased`, `dead`, each once |
//!
//! # Reply
//!
//! How many it will remove, an integer. `purging` in DQ.STATS says how many are still to be looked at.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `DQDISABLED` | `dq.enabled` is no |
//! | `ERR` | STATE is missing, or names something else, or names a state twice |
//!
//! and [those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.MPUSH bills DELAY 1h PAYLOADS 'may' 'june'
//! 1) "8yTJwGtj1Wq"
//! 2) "8yTJwGtj1Wr"
//! 127.0.0.1:6380> DQ.PUSH bills 'july'
//! "8yTJwGu0ceu"
//! 127.0.0.1:6380> DQ.PURGE bills STATE delayed dead
//! (integer) 2
//! 127.0.0.1:6380> DQ.PURGE bills STATE all
//! (error) ERR STATE must be ready, delayed, leased or dead, not 'all'
//! 127.0.0.1:6380> DQ.PURGE bills dead
//! (error) ERR STATE is missing before 'dead'
//! ```
//!
//! # See also
//!
//! [DQ.CANCEL](cancel.md) by ids, [DQ.DROP](drop.md) for the whole queue.

use super::options::{queue, state, unknown_option};
use super::peek::STATES;
use crate::core::args::{is, missing, missing_before, missing_value, ArgError, Cursor};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::JobState;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

pub const COMMAND: Command = Command {
    name: c"dq.purge",
    summary: c"Takes all jobs of one state or several out for good.",
    complexity: c"O(N log N) for N jobs, in slices.",
    arity: -2,
    access: Access::Write,
    fast: false,
    waits: false,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key), Arg::new(c"state", STATES).token(c"STATE").multiple()],
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, states) = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    let purged = engine::change_all(ctx, &name, |queue| Ok(queue.purge(&states)))?;
    ctx.reply_integer(i64::try_from(purged).unwrap_or(i64::MAX));
    Ok(())
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, Vec<JobState>), ArgError> {
    let name = queue(&mut rest)?;
    let option = rest.next().ok_or_else(|| missing("STATE"))?;
    if !is(option, "STATE") {
        let is_state = state(option).is_ok();
        return Err(if is_state { missing_before("STATE", option) } else { unknown_option(&COMMAND, option) });
    }
    let mut states = Vec::new();
    for arg in rest {
        let state = state(arg)?;
        if states.contains(&state) {
            return Err(ArgError::new(format_args!("STATE names {} twice", state.name())));
        }
        states.push(state);
    }
    if states.is_empty() {
        return Err(missing_value("STATE"));
    }
    Ok((name, states))
}

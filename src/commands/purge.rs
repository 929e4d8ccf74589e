//! `DQ.PURGE queue STATE ready|delayed|leased|dead [ready|delayed|leased|dead ...]`
//!
//! Takes all jobs out for good that are in one of the states now, and answers how many it will remove. Their ids are
//! free as they go. A worker that holds a purged job finds its receipt stale.
//!
//! Of a state with more than 1,000 jobs the first 1,000 go at once and the rest in slices, while the server serves
//! others; `purging` in STATS says how many are left. What comes into the state meanwhile stays, and so does a job that
//! leaves it before its turn: one that is claimed, or whose lease ends. A further PURGE of the state begins anew. A
//! restart, a failover or `dq.enabled no` ends it where it is, and asking again goes on.
//!
//! Errors: `DQDISABLED`, `READONLY`, `WRONGTYPE`.
//!
//! O(N log N) for N jobs, in slices.

use super::options::{queue, state};
use super::peek::STATES;
use crate::core::args::{is, unknown_option, ArgError, Cursor};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::JobState;
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.purge",
    summary: c"Takes all jobs of one state or several out for good.",
    complexity: c"O(N log N) for N jobs, in slices.",
    arity: -4,
    access: Access::Write,
    fast: false,
    waits: false,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key), Arg::new(c"state", STATES).token(c"STATE").multiple()],
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, states) = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    let purged = engine::change_all(ctx, &name, |queue| Ok(queue.purge(&states)))?;
    ctx.reply_integer(i64::try_from(purged).unwrap_or(i64::MAX));
    Ok(())
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, Vec<JobState>), ArgError> {
    let name = queue(&mut rest)?;
    let option = rest.value("STATE")?;
    if !is(option, "STATE") {
        return Err(unknown_option(option));
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
        return Err(ArgError::new("STATE needs a value"));
    }
    Ok((name, states))
}

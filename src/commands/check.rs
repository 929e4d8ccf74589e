//! `DQ.CHECK queue [REPAIR]`
//!
//! Looks over every entry of the queue and answers an array of what breaks an invariant, each `[problem, id]`; empty
//! where all is well; at most 1,000 entries.
//!
//! * `REPAIR`: mends it, and answers `[problem, id, mended]`, the last 1 or 0; all is mended, and the first 1,000 are told.
//!
//! | problem | what it is | what REPAIR does |
//! | --- | --- | --- |
//! | `due-without-job`, `leased-without-job` | an index entry whose job is gone | the entry goes |
//! | `job-without-index` | a job that no claim can reach | it is due now, its receipt late, one lapse counted; it does not die of it |
//! | `due-and-leased` | a job in two places | the lease holds |
//! | `dead-without-time` | a dead letter that no list shows | it died now |
//! | `time-without-dead` | a time whose dead letter is gone | the time goes |
//! | `bad-score` | a score that is no whole number of ms | a fraction is rounded up; what is no time becomes now |
//! | `bad-record`, `bad-letter` | bytes that cannot be read | nothing: they stay, and are told of again |
//!
//! A queue of more than 1,000 entries is looked over in slices of about 1 ms, while the caller waits and the server
//! serves others; such a one is refused in MULTI and in scripts, and so is REPAIR of any.
//!
//! For the server the command reads: replicas answer it, and who may only read may call it. REPAIR is for a primary, and
//! for users who may DQ.PURGE the queue. It waits while writes are paused.
//!
//! Errors: `WRONGTYPE`; `UNBLOCKED` where the server gave the walk up. Of REPAIR also `READONLY`, `NOPERM`, `DQDISABLED`,
//! and what the server says where it refuses writes (`NOREPLICAS`, `MISCONF`); what was mended until then stays so.
//!
//! O(N) with N entries in the queue, and O(log N) for each that is mended.

use super::options::queue;
use crate::core::args::{is, unknown_option, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::CheckWalk;
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.check",
    summary: c"What breaks an invariant of a queue, mended if asked for.",
    complexity: c"O(N) with N entries in the queue, in slices.",
    arity: -2,
    access: Access::Read,
    fast: false,
    waits: true,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key), Arg::new(c"repair", ArgKind::Token).token(c"REPAIR").optional()],
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, repair) = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    if repair {
        let purge = [&b"DQ.PURGE"[..], name.as_bytes(), b"STATE", b"ready"];
        engine::begin_repair(ctx, &name, &purge, reply_mended)
    } else {
        engine::begin_check(ctx, &name, reply_problems)
    }
}

fn reply_problems(ctx: &Ctx, walk: &CheckWalk) {
    let problems = walk.problems();
    ctx.reply_array(problems.len());
    for (problem, id, _) in problems {
        ctx.reply_array(2);
        ctx.reply_bytes(problem.name().as_bytes());
        ctx.reply_bytes(id);
    }
}

fn reply_mended(ctx: &Ctx, walk: &CheckWalk) {
    let problems = walk.problems();
    ctx.reply_array(problems.len());
    for (problem, id, mended) in problems {
        ctx.reply_array(3);
        ctx.reply_bytes(problem.name().as_bytes());
        ctx.reply_bytes(id);
        ctx.reply_integer(i64::from(mended));
    }
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, bool), ArgError> {
    let name = queue(&mut rest)?;
    let mut repair = Once::default();
    for option in rest {
        if !is(option, "REPAIR") {
            return Err(unknown_option(option));
        }
        repair.set("REPAIR", ())?;
    }
    Ok((name, repair.is_set()))
}

//! ```text
//! DQ.CHECK queue [REPAIR]
//! ```
//!
//! Looks over every entry of the queue and tells what breaks its rules. A problem comes from outside: somebody wrote into the
//! keys, or an eviction policy threw one away.
//!
//! # Options
//!
//! | option | |
//! | --- | --- |
//! | `REPAIR` | mends what it finds. No record is thrown away. What a worker finished meanwhile stays finished, and a second REPAIR has nothing to mend |
//!
//! | problem | what it is | what REPAIR does |
//! | --- | --- | --- |
//! | `due-without-job`, `leased-without-job` | an index entry whose job is gone | the entry goes |
//! | `job-without-index` | a job that no claim can reach | it is due now, its receipt is [late](README.md#late-receipts), and one lapse is counted, which never makes it a dead letter |
//! | `due-and-leased` | a job in two places | the lease holds, and the job is due again when it ends |
//! | `dead-without-time` | a dead letter that no list shows | it died now |
//! | `time-without-dead` | the time of a dead letter that is gone | the time goes |
//! | `bad-score` | a score that is no whole number of ms from 0 to 2⁴³ (the year 2248), in an index or in the IDs that are taken | a fraction is rounded up; what is no time becomes now: the job is due, the lease ends, the letter died, the ID is taken for `id-keep` more |
//! | `bad-record`, `bad-letter` | bytes that cannot be read | nothing: mend them by hand, or take them out by [DQ.CANCEL](cancel.md) |
//!
//! A queue of more than 1,000 entries is looked over in slices of about 1 ms, while the caller waits and the server serves
//! others; such a one is refused in MULTI and in scripts, and so is REPAIR of any.
//!
//! For the server the command reads: replicas answer it, and a user who may only read may call it. REPAIR is for a primary,
//! and for users who may DQ.PURGE the queue. A module that calls it without a user may, too. It waits while writes are paused.
//!
//! # Reply
//!
//! An array of `[problem, id]`, empty where all is well, at most 1,000. With REPAIR of `[problem, id, mended]`, the last 1 or
//! 0: all is mended, and the first 1,000 are told.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `UNBLOCKED` | the queue's keys were replaced before the check was whole (FLUSHALL, FLUSHDB, SWAPDB, DEBUG RELOAD, a full sync of a replica, DQ.DROP, RESTORE, RENAME, on a primary also DEL), the server became a replica, or `dq.enabled` was set to no. Ask again |
//! | `READONLY` | of REPAIR: this is a replica |
//! | `NOPERM` | of REPAIR: the user may not DQ.PURGE the queue |
//! | `DQDISABLED` | of REPAIR: `dq.enabled` is no |
//! | `NOREPLICAS`, `MISCONF` | of REPAIR: the server refuses writes |
//! | `ERR` | more than 1,000 entries, or REPAIR, in MULTI or a script |
//!
//! and [those of every command](README.md#errors). An error of the check changed nothing. What a REPAIR had mended before an
//! `UNBLOCKED` or a refusal of writes stays mended.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH calls 'one' ID call-1
//! "call-1"
//! 127.0.0.1:6380> DQ.CHECK calls
//! (empty array)
//! ```
//!
//! Somebody deletes a key by hand:
//!
//! ```console
//! 127.0.0.1:6380> DEL dq:{calls}:due
//! (integer) 1
//! 127.0.0.1:6380> DQ.CHECK calls
//! 1) 1) "job-without-index"
//!    2) "call-1"
//! 127.0.0.1:6380> DQ.CHECK calls REPAIR
//! 1) 1) "job-without-index"
//!    2) "call-1"
//!    3) (integer) 1
//! 127.0.0.1:6380> DQ.CLAIM calls
//! 1) 1) "8yTJvp0LCwC:2.k3f:call-1"
//!    2) "one"
//!    3) "call-1"
//!    4) (integer) 2
//!    5) (integer) 30000
//!    6) (integer) 300
//! ```
//!
//! # See also
//!
//! [Keys and the job record](../keys.md), [DQ.STATS](stats.md) `dangling`.

use super::options::{queue, unknown_option};
use crate::core::args::{is, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::CheckWalk;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

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
    run: handler(run),
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
            return Err(unknown_option(&COMMAND, option));
        }
        repair.set("REPAIR", ())?;
    }
    Ok((name, repair.is_set()))
}

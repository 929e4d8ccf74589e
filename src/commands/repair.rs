//! ```text
//! DQ.REPAIR queue
//! ```
//!
//! Looks over every entry of a queue, as [DQ.CHECK](check.md) does, and repairs what it finds. No record is thrown away.
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH calls 'one' ID call-1
//! "call-1"
//! 127.0.0.1:6380> DEL dq:{calls}:due
//! (integer) 1
//! 127.0.0.1:6380> DQ.REPAIR calls
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
//! What a worker settles meanwhile stays settled. A second DQ.REPAIR has nothing to repair.
//!
//! | problem | what DQ.REPAIR does |
//! | --- | --- |
//! | `due-without-job`, `leased-without-job` | the entry goes |
//! | `job-without-index` | it is due now, its receipt is [late](README.md#late-receipts), and one lapse is counted, which never makes it a dead letter |
//! | `due-out-of-place` | it moves to the place with its due time; it goes if the job has another entry |
//! | `due-and-leased` | the lease holds, and the job is due again when it ends |
//! | `dead-without-time` | it died now |
//! | `time-without-dead` | the time goes |
//! | `bad-score` | a fraction is rounded up; what is no time becomes now: the job is due, the lease ends, the letter died, the ID is taken for `id-keep` more |
//! | `bad-record`, `bad-letter` | the bytes stay: correct them by hand, or take them out by [DQ.CANCEL](cancel.md) after this. The member of `due` becomes the id alone, since nothing tells the place |
//!
//! DQ.REPAIR works in slices of about 1 ms, while the caller waits and the server serves others. So it is refused in MULTI
//! and in scripts. It waits while writes are paused.
//!
//! # Reply
//!
//! An array of `[problem, id, repaired]`, empty if all is well. The last element is 1 or 0. All problems are repaired; the
//! reply has the first 1,000.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `UNBLOCKED` | the queue's keys were replaced before it was over (FLUSHALL, FLUSHDB, SWAPDB, DEBUG RELOAD, a full sync of a replica, DQ.DROP, RESTORE, RENAME, on a primary also DEL), the server became a replica, or `dq.enabled` was set to no. Ask again |
//! | `READONLY` | this is a replica |
//! | `DQDISABLED` | `dq.enabled` is no |
//! | `NOREPLICAS`, `MISCONF` | the server refuses writes |
//! | `ERR` | it was called in MULTI or a script |
//!
//! and [those of every command](README.md#errors). What was repaired before an `UNBLOCKED` or a refusal of writes stays
//! repaired.
//!
//! # See also
//!
//! [DQ.CHECK](check.md), [Keys and the job record](../keys.md).

use super::options::only_queue;
use crate::engine;
use crate::queue::CheckWalk;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

pub const COMMAND: Command = Command {
    name: c"dq.repair",
    summary: c"Checks a queue's invariants and repairs what breaks them.",
    complexity: c"O(N) with N entries in the queue, in slices.",
    arity: 2,
    access: Access::Write,
    fast: false,
    waits: true,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key)],
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let name = only_queue(args.bytes()).map_err(String::from)?;
    engine::begin_repair(ctx, &name, reply)
}

fn reply(ctx: &Ctx, walk: &CheckWalk) {
    let problems = walk.problems();
    ctx.reply_array(problems.len());
    for (problem, id, repaired) in problems {
        ctx.reply_array(3);
        ctx.reply_bytes(problem.name().as_bytes());
        ctx.reply_bytes(id);
        ctx.reply_integer(i64::from(repaired));
    }
}

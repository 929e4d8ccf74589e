//! ```text
//! DQ.CHECK queue
//! ```
//!
//! Looks over every entry of the queue and tells what breaks its rules. A problem comes from outside: somebody wrote into the
//! keys, or an eviction policy threw one away.
//!
//! | problem | what it is |
//! | --- | --- |
//! | `due-without-job`, `leased-without-job` | an index entry whose job is gone |
//! | `job-without-index` | a job that no claim can reach |
//! | `due-out-of-place` | a member of `due` that is not [the place](../keys.md#places) of its job: somebody wrote it, or the id was pushed again after its job lost the record |
//! | `due-and-leased` | a job in two places |
//! | `dead-without-time` | a dead letter that no list shows |
//! | `time-without-dead` | the time of a dead letter that is gone |
//! | `bad-score` | a score that is no whole number of ms from 0 to 2⁴³ (the year 2248), in an index or in the IDs that are taken |
//! | `bad-record`, `bad-letter` | bytes that cannot be read |
//!
//! [DQ.REPAIR](repair.md) repairs them. A queue of more than 1,000 entries is looked over in slices of about 1 ms, while the
//! caller waits and the server serves others; such a one is refused in MULTI and in scripts.
//!
//! The command reads: replicas answer it, and a user who may only read may call it.
//!
//! # Reply
//!
//! An array of `[problem, id]`, empty if all is well, at most 1,000.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `UNBLOCKED` | the queue's keys were replaced before the check was whole (FLUSHALL, FLUSHDB, SWAPDB, DEBUG RELOAD, a full sync of a replica, DQ.DROP, RESTORE, RENAME, on a primary also DEL), the server became a replica, or `dq.enabled` was set to no. Ask again |
//! | `ERR` | more than 1,000 entries, in MULTI or a script |
//!
//! and [those of every command](README.md#errors).
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
//! ```
//!
//! # See also
//!
//! [DQ.REPAIR](repair.md), [Keys and the job record](../keys.md), [DQ.STATS](stats.md) `dangling`.

use super::options::only_queue;
use crate::engine;
use crate::queue::CheckWalk;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

pub const COMMAND: Command = Command {
    name: c"dq.check",
    summary: c"Checks a queue's invariants.",
    complexity: c"O(N) with N entries in the queue, in slices.",
    arity: 2,
    access: Access::Read,
    fast: false,
    waits: true,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key)],
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let name = only_queue(args.bytes()).map_err(String::from)?;
    engine::begin_check(ctx, &name, reply)
}

fn reply(ctx: &Ctx, walk: &CheckWalk) {
    let problems = walk.problems();
    ctx.reply_array(problems.len());
    for (problem, id, _) in problems {
        ctx.reply_array(2);
        ctx.reply_bytes(problem.name().as_bytes());
        ctx.reply_bytes(id);
    }
}

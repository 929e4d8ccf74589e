//! `DQ.CHECK queue`
//!
//! Looks over every entry of the queue and answers an array of what breaks an invariant, each `[problem, id]`; empty
//! where all is well; at most 1,000 entries.
//!
//! `due-without-job`, `leased-without-job`: an index entry whose job is gone. `job-without-index`: a job that no claim
//! can reach. `due-and-leased`: a job in two places. `dead-without-time`, `time-without-dead`: a dead letter that is
//! half there. `bad-score`: a score that is no whole number of ms. `bad-record`, `bad-letter`: bytes that cannot be
//! read.
//!
//! A queue of more than 1,000 entries is looked over in slices of about 1 ms, while the caller waits and the server
//! serves others; such a one is refused in MULTI and in scripts.
//!
//! Errors: `WRONGTYPE`; `UNBLOCKED` where the server gave the walk up.
//!
//! O(N) with N entries in the queue.

use super::options::only_queue;
use crate::engine;
use crate::queue::CheckWalk;
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.check",
    summary: c"What breaks an invariant of a queue.",
    complexity: c"O(N) with N entries in the queue, in slices.",
    arity: 2,
    access: Access::Read,
    fast: false,
    waits: true,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key)],
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let name = only_queue(args.bytes()).map_err(String::from)?;
    engine::begin_check(ctx, &name, reply_problems)
}

fn reply_problems(ctx: &Ctx, walk: &CheckWalk) {
    let problems = walk.problems();
    ctx.reply_array(problems.len());
    for (problem, id) in problems {
        ctx.reply_array(2);
        ctx.reply_bytes(problem.name().as_bytes());
        ctx.reply_bytes(id);
    }
}

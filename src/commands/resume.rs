//! `DQ.RESUME queue`
//!
//! Lets the queue be claimed from again, and answers OK, also where it was not paused. Those who wait are served. The
//! time in which it was paused makes no job stale.
//!
//! Errors: `READONLY`, `WRONGTYPE`.
//!
//! O(1).

use super::options::only_queue;
use crate::engine;
use crate::queue::Reach;
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.resume",
    summary: c"Lets a paused queue be claimed from again.",
    complexity: c"O(1).",
    arity: 2,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key)],
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let name = only_queue(args.bytes()).map_err(String::from)?;
    engine::change(ctx, &name, Reach::ALL, |queue| {
        queue.resume();
        Ok(())
    })?;
    ctx.reply_ok();
    Ok(())
}

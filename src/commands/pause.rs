//! `DQ.PAUSE queue`
//!
//! Stops the claims of the queue until DQ.RESUME, and answers OK: CLAIM answers empty, and those who wait go on
//! waiting. All else goes on: PUSH, ACK, RETRY, leases that end. It is kept with the queue, over restarts and failovers.
//! A queue that is not there is made. Nothing becomes stale while it is paused.
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
    name: c"dq.pause",
    summary: c"Stops the claims of a queue; all else goes on.",
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
        queue.pause();
        Ok(())
    })?;
    ctx.reply_ok();
    Ok(())
}

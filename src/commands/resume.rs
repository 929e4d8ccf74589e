//! ```text
//! DQ.RESUME queue
//! ```
//!
//! Lets the queue that [DQ.PAUSE](pause.md) stopped be claimed from again. Those who wait are served. The time in which it was
//! paused makes no job stale.
//!
//! # Reply
//!
//! OK, also where the queue was not paused.
//!
//! # Errors
//!
//! [Those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PAUSE faxes
//! OK
//! 127.0.0.1:6380> DQ.RESUME faxes
//! OK
//! 127.0.0.1:6380> DQ.RESUME faxes
//! OK
//! ```
//!
//! # See also
//!
//! [DQ.PAUSE](pause.md).

use super::options::only_queue;
use crate::engine;
use crate::queue::Reach;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

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
    run: handler(run),
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

//! ```text
//! DQ.PAUSE queue
//! ```
//!
//! Stops the claims of the queue until [DQ.RESUME](resume.md): CLAIM answers empty, and those who wait go on waiting. All else
//! goes on: PUSH, ACK, RETRY, leases that end. It is kept with the queue, over restarts and failovers; a queue that is not
//! there is made. No job becomes stale by the time in which its queue was paused.
//!
//! # Reply
//!
//! OK, also where the queue was paused already.
//!
//! # Errors
//!
//! `OOM` if the server is at `maxmemory` and the queue would be new; and [those of every command](README.md#errors). An
//! error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PAUSE faxes
//! OK
//! 127.0.0.1:6380> DQ.PUSH faxes 'to press'
//! "8yTJwE2sNOa"
//! 127.0.0.1:6380> DQ.CLAIM faxes
//! (empty array)
//! 127.0.0.1:6380> DQ.RESUME faxes
//! OK
//! 127.0.0.1:6380> DQ.CLAIM faxes
//! 1) 1) "8yTJwE2sNOa:1.k3f"
//!    2) "to press"
//!    3) "8yTJwE2sNOa"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! ```
//!
//! # See also
//!
//! [DQ.RESUME](resume.md), [DQ.CONFIG](config.md) `max-leased` to slow a queue down instead.

use super::options::only_queue;
use crate::engine;
use crate::queue::Reach;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

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
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let name = only_queue(args.bytes()).map_err(String::from)?;
    engine::change(ctx, &name, Reach::ALL, |queue| queue.pause())?;
    ctx.reply_ok();
    Ok(())
}

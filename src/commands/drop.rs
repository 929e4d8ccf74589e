//! ```text
//! DQ.DROP queue [FORCE]
//! ```
//!
//! Removes the whole queue in one step, whatever its size: jobs, dead letters, ids that are taken, PAUSE, its settings. The
//! memory is freed in the background. Clients that wait for the queue go on waiting, and what DQ.STATS counts goes on.
//!
//! # Options
//!
//! | option | |
//! | --- | --- |
//! | `FORCE` | also where jobs are leased: their receipts are stale then |
//!
//! # Reply
//!
//! How many jobs and dead letters went, an integer; 0 where there was no such queue.
//!
//! # Errors
//!
//! `ERR` while jobs are leased and FORCE is not given, and [those of every command](README.md#errors). An error changed
//! nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.MPUSH bills PAYLOADS 'may' 'june'
//! 1) "8yTJw3gt1MW"
//! 2) "8yTJw3gt1MX"
//! 127.0.0.1:6380> DQ.CLAIM bills
//! 1) 1) "8yTJw3gt1MW:1.k3f"
//!    2) "may"
//!    3) "8yTJw3gt1MW"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 127.0.0.1:6380> DQ.DROP bills
//! (error) ERR 1 job of the queue is leased; FORCE drops it all the same
//! 127.0.0.1:6380> DQ.DROP bills FORCE
//! (integer) 2
//! 127.0.0.1:6380> DQ.DROP bills
//! (integer) 0
//! ```
//!
//! # See also
//!
//! [DQ.PURGE](purge.md), [DQ.CANCEL](cancel.md).

use super::options::{queue, unknown_option};
use crate::core::args::{is, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

pub const COMMAND: Command = Command {
    name: c"dq.drop",
    summary: c"Removes a whole queue.",
    complexity: c"O(1), and O(N) for N entries in the background.",
    arity: -2,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key), Arg::new(c"force", ArgKind::Token).token(c"FORCE").optional()],
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, force) = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    let gone = engine::drop_queue(ctx, &name, force)?;
    ctx.reply_integer(i64::try_from(gone).unwrap_or(i64::MAX));
    Ok(())
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, bool), ArgError> {
    let name = queue(&mut rest)?;
    let mut force = Once::default();
    for option in rest {
        if !is(option, "FORCE") {
            return Err(unknown_option(&COMMAND, option));
        }
        force.set("FORCE", ())?;
    }
    Ok((name, force.is_set()))
}

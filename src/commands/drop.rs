//! `DQ.DROP queue [FORCE]`
//!
//! Removes the whole queue in one step: jobs, dead letters, ids that are taken, PAUSE. The memory is freed in the
//! background. Answers how many jobs and dead letters went; 0 where there was no such queue. Refused while jobs are
//! leased, unless `FORCE` is given: then workers find their receipts stale. Clients that wait for the queue go on
//! waiting, and what STATS counts goes on.
//!
//! Errors: `READONLY`, `WRONGTYPE`; jobs that are leased.
//!
//! O(1), and O(N) for N entries in the background.

use super::options::queue;
use crate::core::args::{is, unknown_option, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::Reach;
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;

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
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, force) = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    let gone = engine::change(ctx, &name, Reach::ALL, |queue| queue.drop_all(force))?;
    ctx.reply_integer(i64::try_from(gone).unwrap_or(i64::MAX));
    Ok(())
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, bool), ArgError> {
    let name = queue(&mut rest)?;
    let mut force = Once::default();
    for option in rest {
        if !is(option, "FORCE") {
            return Err(unknown_option(option));
        }
        force.set("FORCE", ())?;
    }
    Ok((name, force.is_set()))
}

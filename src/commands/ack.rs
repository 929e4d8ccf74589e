//! `DQ.ACK queue receipt [receipt ...] [EACH]`
//!
//! Finishes the jobs of up to 1,000 receipts and answers how many it finished; with `EACH` an array of 1 and 0, in the
//! order of the receipts. A stale receipt finishes nothing and is counted in STATS. A receipt whose lease ran out, but
//! whose job nobody has claimed since, still finishes it, also where the job has become a dead letter by that lapse.
//!
//! Errors: `READONLY`, `WRONGTYPE`; a text that is no receipt.
//!
//! O(M log N) for M receipts in a queue of N.

use super::options::{queue, receipts};
use crate::core::args::{is, Cursor};
use crate::engine;
use crate::queue::Reach;
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.ack",
    summary: c"Finishes claimed jobs.",
    complexity: c"O(M log N) for M receipts in a queue of N.",
    arity: -3,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(c"receipt", ArgKind::Text).multiple(),
        Arg::new(c"each", ArgKind::Token).token(c"EACH").optional(),
    ],
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let mut rest = Cursor::new(args.bytes());
    let name = queue(&mut rest).map_err(String::from)?;
    let (list, each) = match rest.rest() {
        [list @ .., last] if is(last, "EACH") => (list, true),
        list => (list, false),
    };
    let receipts = receipts(list).map_err(String::from)?;
    let finished = engine::change(ctx, &name, Reach::FINISH, |queue| Ok(queue.ack(&receipts)))?;
    if each {
        ctx.reply_array(finished.len());
        finished.iter().for_each(|done| ctx.reply_integer(i64::from(*done)));
    } else {
        ctx.reply_integer(finished.iter().map(|done| i64::from(*done)).sum());
    }
    Ok(())
}

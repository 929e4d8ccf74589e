//! `DQ.EXTEND queue ms receipt [receipt ...]`
//!
//! Makes the leases of up to 1,000 receipts end `ms` from now (1 to `dq.max-lease`) and answers an array: the ms now
//! left of each lease, -1 where the receipt is stale. A receipt whose lease ran out, but whose job nobody has claimed
//! since, takes the lease back, and the lapse is not counted.
//!
//! Errors: `READONLY`, `WRONGTYPE`; a text that is no receipt.
//!
//! O(M log N) for M receipts in a queue of N.

use super::options::{lease, queue, receipts};
use crate::core::args::Cursor;
use crate::engine;
use crate::queue::Reach;
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.extend",
    summary: c"Makes the leases of claimed jobs longer.",
    complexity: c"O(M log N) for M receipts in a queue of N.",
    arity: -4,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(c"milliseconds", ArgKind::Integer),
        Arg::new(c"receipt", ArgKind::Text).multiple(),
    ],
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let mut rest = Cursor::new(args.bytes());
    let name = queue(&mut rest).map_err(String::from)?;
    let ms = rest.value("ms").and_then(|ms| lease("ms", ms)).map_err(String::from)?;
    let receipts = receipts(rest.rest()).map_err(String::from)?;
    let extended: Vec<bool> = engine::change(ctx, &name, Reach::FINISH, |queue| {
        Ok(receipts.iter().map(|receipt| queue.extend(receipt, ms)).collect())
    })?;
    reply_ms_or_stale(ctx, &extended, ms);
    Ok(())
}

/// For each receipt `ms`, or -1 where it was stale.
pub fn reply_ms_or_stale(ctx: &Ctx, done: &[bool], ms: u64) {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    ctx.reply_array(done.len());
    done.iter().for_each(|done| ctx.reply_integer(if *done { ms } else { -1 }));
}

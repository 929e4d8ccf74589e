//! `DQ.RELEASE queue [DELAY ms] RECEIPTS receipt [receipt ...]`
//!
//! Gives the jobs of up to 1,000 receipts back without counting a failure: a worker that stops, a job that is not
//! wanted yet, a rate limit. They are due in `DELAY` (0 to `max-delay`; at once where it is not given). Answers an
//! array: the ms until each is due, -1 where the receipt is stale. A receipt whose lease ran out, but whose job nobody
//! has claimed since, sets the due time, and the lapse is not counted.
//!
//! Errors: `DQDELAY`, `READONLY`, `WRONGTYPE`; a text that is no receipt.
//!
//! O(M log N) for M receipts in a queue of N.

use super::extend::reply_ms_or_stale;
use super::options::{delay, queue, receipts};
use crate::core::args::{is, unknown_option, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::core::receipt::Receipt;
use crate::engine;
use crate::queue::Reach;
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace};
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.release",
    summary: c"Gives claimed jobs back without counting a failure.",
    complexity: c"O(M log N) for M receipts in a queue of N.",
    arity: -4,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(c"delay", ArgKind::Integer).token(c"DELAY").optional(),
        Arg::new(c"receipt", ArgKind::Text).token(c"RECEIPTS").multiple(),
    ],
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, wait, receipts) = parse(ctx, Cursor::new(args.bytes())).map_err(String::from)?;
    let released: Vec<bool> = engine::change(ctx, &name, Reach::FINISH, |queue| {
        Ok(receipts.iter().map(|receipt| queue.release(receipt, wait)).collect())
    })?;
    reply_ms_or_stale(ctx, &released, wait);
    Ok(())
}

fn parse<'a>(ctx: &Ctx, mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, u64, Vec<Receipt>), ArgError> {
    let name = queue(&mut rest)?;
    let mut wait = Once::default();
    while let Some(option) = rest.next() {
        if is(option, "RECEIPTS") {
            return Ok((name, wait.get().unwrap_or(0), receipts(rest.rest())?));
        }
        if !is(option, "DELAY") {
            return Err(unknown_option(option));
        }
        wait.set("DELAY", delay(ctx, &name, "DELAY", rest.value("DELAY")?)?)?;
    }
    Err(ArgError::new("RECEIPTS is missing"))
}

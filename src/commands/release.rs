//! ```text
//! DQ.RELEASE queue [DELAY ms] RECEIPTS receipt [receipt ...]
//! ```
//!
//! Gives the jobs of 1 to 1,000 receipts back without counting a failure: a worker that stops, a job that is not wanted yet,
//! a rate limit. It is counted as a release, which nothing is ever refused for. A job that repeats itself is one that is
//! released with a DELAY each time.
//!
//! # Options
//!
//! | option | range | default | |
//! | --- | --- | --- | --- |
//! | `DELAY ms` | 0 to `max-delay` (7 d) | 0: at once | when the jobs are due again |
//!
//! A receipt whose lease ran out, but whose job nobody has claimed since, sets the due time, and the lapse is not counted.
//!
//! # Reply
//!
//! An array of integers in the order of the receipts: the ms until each job is due, -1 where the receipt is stale.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `DQDELAY` | DELAY is over `max-delay` |
//! | `ERR` | a text is no receipt, there are none or more than 1,000, or RECEIPTS is missing |
//!
//! and [those of every command](README.md#errors). An error changed nothing: none of the jobs is given back.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.MPUSH calls PAYLOADS 'one' 'two'
//! 1) "8yTJwO4jWAy"
//! 2) "8yTJwO4jWAz"
//! 127.0.0.1:6380> DQ.CLAIM calls COUNT 2
//! 1) 1) "8yTJwO4jWAy:1.k3f"
//!    2) "one"
//!    3) "8yTJwO4jWAy"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 2) 1) "8yTJwO4jWAz:1.k3f"
//!    2) "two"
//!    3) "8yTJwO4jWAz"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 127.0.0.1:6380> DQ.RELEASE calls RECEIPTS 8yTJwO4jWAy:1.k3f
//! 1) (integer) 0
//! 127.0.0.1:6380> DQ.RELEASE calls DELAY 10s RECEIPTS 8yTJwO4jWAy:1.k3f 8yTJwO4jWAz:1.k3f
//! 1) (integer) -1
//! 2) (integer) 10000
//! 127.0.0.1:6380> DQ.RELEASE calls 8yTJwO4jWAy:1.k3f
//! (error) ERR RECEIPTS is missing before '8yTJwO4jWAy:1.k3f'
//! ```
//!
//! # See also
//!
//! [DQ.RETRY](retry.md), [DQ.CLAIM](claim.md).

use super::extend::reply_ms_or_stale;
use super::options::{delay, queue, receipt, receipts, unknown_option};
use crate::core::args::{is, missing, missing_before, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::core::receipt::Receipt;
use crate::engine;
use crate::queue::Reach;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace};

pub const COMMAND: Command = Command {
    name: c"dq.release",
    summary: c"Gives claimed jobs back without counting a failure.",
    complexity: c"O(M log N) for M receipts in a queue of N.",
    arity: -2,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(c"delay", ArgKind::Integer).token(c"DELAY").optional(),
        Arg::new(c"receipt", ArgKind::Text).token(c"RECEIPTS").multiple(),
    ],
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, wait, receipts) = parse(ctx, Cursor::new(args.bytes())).map_err(String::from)?;
    let released: Vec<bool> = engine::settle(ctx, &name, Reach::FINISH, |queue| {
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
            let is_receipt = receipt(option).is_ok();
            return Err(if is_receipt { missing_before("RECEIPTS", option) } else { unknown_option(&COMMAND, option) });
        }
        wait.set("DELAY", delay(ctx, &name, "DELAY", rest.value("DELAY")?)?)?;
    }
    Err(missing("RECEIPTS"))
}

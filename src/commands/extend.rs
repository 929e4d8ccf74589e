//! ```text
//! DQ.EXTEND queue ms receipt [receipt ...]
//! ```
//!
//! Lets the leases of 1 to 1,000 receipts end `ms` from now: for a handler that needs longer than the lease. It sets the
//! end, and adds nothing to it, so it can shorten a lease too. A worker that extends at each third of its lease keeps a job
//! for hours, and when it dies the job comes back within the lease. A receipt whose lease ran out, but whose job nobody has
//! claimed since, takes the lease back, and the lapse is not counted.
//!
//! # Options
//!
//! | option | range | |
//! | --- | --- | --- |
//! | `ms` | 1 ms to `dq.max-lease` (12 h) | until the leases end |
//!
//! # Reply
//!
//! An array of integers in the order of the receipts: the ms now left of each lease, -1 where the receipt is stale.
//!
//! # Errors
//!
//! `ERR` where a text is no receipt, there are more than 1,000, or `ms` is out of its range; and
//! [those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH films 'to be cut'
//! "8yTJw5BwdH6"
//! 127.0.0.1:6380> DQ.CLAIM films
//! 1) 1) "8yTJw5BwdH6:1.k3f"
//!    2) "to be cut"
//!    3) "8yTJw5BwdH6"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 127.0.0.1:6380> DQ.EXTEND films 5m 8yTJw5BwdH6:1.k3f
//! 1) (integer) 300000
//! 127.0.0.1:6380> DQ.ACK films 8yTJw5BwdH6:1.k3f
//! (integer) 1
//! 127.0.0.1:6380> DQ.EXTEND films 5m 8yTJw5BwdH6:1.k3f
//! 1) (integer) -1
//! 127.0.0.1:6380> DQ.EXTEND films 13h 8yTJw5BwdH6:1.k3f
//! (error) ERR ms must be at most 12h (dq.max-lease), not 13h
//! ```
//!
//! # See also
//!
//! [DQ.CLAIM](claim.md), [A worker that lasts](../workers.md#a-worker-that-lasts).

use super::options::{lease, queue, receipts};
use crate::core::args::Cursor;
use crate::engine;
use crate::queue::Reach;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

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
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let mut rest = Cursor::new(args.bytes());
    let name = queue(&mut rest).map_err(String::from)?;
    let ms = rest.value("ms").and_then(|ms| lease("ms", ms)).map_err(String::from)?;
    let receipts = receipts(rest.rest()).map_err(String::from)?;
    let extended: Vec<bool> = engine::settle(ctx, &name, Reach::FINISH, |queue| {
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

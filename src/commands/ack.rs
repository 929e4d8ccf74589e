//! ```text
//! DQ.ACK queue receipt [receipt ...] [EACH]
//! ```
//!
//! Finishes the jobs of 1 to 1,000 receipts: they are done, and gone. A stale receipt finishes nothing, which is no error;
//! DQ.STATS counts it as `lease-lost`. A receipt whose lease ran out, but whose job nobody has claimed since, still
//! finishes it, also if the job became a dead letter by that lapse or as a stale job: [late
//! receipts](README.md#late-receipts).
//!
//! # Options
//!
//! | option | |
//! | --- | --- |
//! | `EACH` | answers for each receipt instead of a sum |
//!
//! # Reply
//!
//! How many jobs it finished, an integer. With EACH an array of 1 and 0, in the order of the receipts.
//!
//! # Errors
//!
//! `ERR` where a text is no receipt, or there are more than 1,000; and [those of every command](README.md#errors). An error
//! changed nothing: none of the jobs is finished.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.MPUSH calls PAYLOADS 'one' 'two'
//! 1) "8yTJvjBa4Y4"
//! 2) "8yTJvjBa4Y5"
//! 127.0.0.1:6380> DQ.CLAIM calls COUNT 2
//! 1) 1) "8yTJvjBa4Y4:1.k3f"
//!    2) "one"
//!    3) "8yTJvjBa4Y4"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 2) 1) "8yTJvjBa4Y5:1.k3f"
//!    2) "two"
//!    3) "8yTJvjBa4Y5"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 127.0.0.1:6380> DQ.ACK calls 8yTJvjBa4Y4:1.k3f
//! (integer) 1
//! 127.0.0.1:6380> DQ.ACK calls 8yTJvjBa4Y4:1.k3f 8yTJvjBa4Y5:1.k3f EACH
//! 1) (integer) 0
//! 2) (integer) 1
//! 127.0.0.1:6380> DQ.ACK calls nonsense
//! (error) ERR invalid receipt 'nonsense'
//! ```
//!
//! # See also
//!
//! [DQ.CLAIM](claim.md), [DQ.RETRY](retry.md), [DQ.FAIL](fail.md), [DQ.RELEASE](release.md).

use super::options::{queue, receipts};
use crate::core::args::{is, ArgError, Cursor};
use crate::engine;
use crate::queue::Reach;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

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
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let mut rest = Cursor::new(args.bytes());
    let name = queue(&mut rest).map_err(String::from)?;
    let (list, each) = match rest.rest() {
        [list @ .., last] if is(last, "EACH") => (list, true),
        list => (list, false),
    };
    let receipts = receipts(list).map_err(|error| {
        let misplaced = list.iter().any(|arg| is(arg, "EACH"));
        String::from(if misplaced { ArgError::new("EACH must come after the receipts") } else { error })
    })?;
    let finished = engine::settle(ctx, &name, Reach::FINISH, |queue| Ok(queue.ack(&receipts)))?;
    if each {
        ctx.reply_array(finished.len());
        finished.iter().for_each(|done| ctx.reply_integer(i64::from(*done)));
    } else {
        ctx.reply_integer(finished.iter().map(|done| i64::from(*done)).sum());
    }
    Ok(())
}

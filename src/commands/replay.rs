//! ```text
//! DQ.REPLAY queue [REASON reason] [COUNT n] [DELAY ms] [SPREAD ms] ALL | IDS id [id ...]
//! ```
//!
//! Makes dead letters jobs again: of 1 to 1,000 ids, or all that are there now. Failures, lapses and releases count from
//! zero; the last error stays, until the next. One that was `stale` never failed, and goes on as it was. A letter whose id is
//! live is skipped. Receipts of the earlier life are stale.
//!
//! # Options
//!
//! | option | range | default | |
//! | --- | --- | --- | --- |
//! | `REASON reason` | `failed`, `retries-exhausted`, `lapses-exhausted`, `stale` | all | only letters that died of it |
//! | `COUNT n` | 1 to 1,000,000,000,000 | all | at most so many, those that died first |
//! | `DELAY ms` | 0 to `max-delay` (7 d) | 0 | when the first is due |
//! | `SPREAD ms` | 0 to `max-delay`, less DELAY | 0 | due one after the other, evenly over this time, in the order in which they died; without it all at one time, in push order |
//! | `ALL` | | | all that are there now |
//! | `IDS id …` | 1 to 1,000 ids; all that follows are ids | | these; one call replays at most 8 MiB of them, or a single larger one |
//!
//! ALL counts the letters first, and then goes on [in slices](README.md#very-many-jobs). Of more than 1,000 the caller waits
//! for the count, about a second for 1,000,000; such a call is refused in MULTI and in scripts. A job that dies again
//! meanwhile is not replayed by the same call. A further ALL of the same REASON begins anew with what is left.
//!
//! # Reply
//!
//! How many become jobs, an integer. With IDS, how many it did: fewer where the 8 MiB were used up, so send the rest again.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `DQDELAY` | DELAY, or DELAY and SPREAD together, are over `max-delay` |
//! | `OOM` | the server is at `maxmemory` |
//! | `DQDISABLED` | of ALL: `dq.enabled` is no |
//! | `UNBLOCKED` | of ALL: the queue's keys were replaced or deleted during the count, or the server became a replica: nothing is replayed. Ask again |
//! | `ERR` | ALL or IDS is missing, the reason is none of the four, or an option is unknown, given twice or out of its range |
//!
//! and [those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH mail 'to ann'
//! "8yTK19sYu2q"
//! 127.0.0.1:6380> DQ.CLAIM mail
//! 1) 1) "8yTK19sYu2q:1.k3f"
//!    2) "to ann"
//!    3) "8yTK19sYu2q"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 127.0.0.1:6380> DQ.FAIL mail 8yTK19sYu2q:1.k3f ERROR 'no such address'
//! OK
//! 127.0.0.1:6380> DQ.REPLAY mail
//! (error) ERR ALL or IDS is missing
//! 127.0.0.1:6380> DQ.REPLAY mail REASON stale ALL
//! (integer) 0
//! 127.0.0.1:6380> DQ.REPLAY mail REASON failed DELAY 1m IDS 8yTK19sYu2q
//! (integer) 1
//! 127.0.0.1:6380> DQ.GET mail 8yTK19sYu2q
//!  1) "id"
//!  2) "8yTK19sYu2q"
//!  3) "state"
//!  4) "delayed"
//!  5) "payload"
//!  6) "to ann"
//!  7) "attempt"
//!  8) (integer) 1
//!  9) "failures"
//! 10) (integer) 0
//! 11) "lapses"
//! 12) (integer) 0
//! 13) "releases"
//! 14) (integer) 0
//! 15) "claims"
//! 16) (integer) 1
//! 17) "retries-left"
//! 18) (integer) 300
//! 19) "retries"
//! 20) (integer) 300
//! 21) "lease-ms"
//! 22) (integer) 30000
//! 23) "backoff-base-ms"
//! 24) (integer) 1000
//! 25) "backoff-cap-ms"
//! 26) (integer) 300000
//! 27) "pushed-at"
//! 28) (integer) 1796012516243
//! 29) "due-at"
//! 30) (integer) 1796012576245
//! 31) "error"
//! 32) "no such address"
//! ```
//!
//! All that failed, slowly:
//!
//! ```console
//! 127.0.0.1:6380> DQ.MPUSH bills PAYLOADS 'may' 'june'
//! 1) "8yTK19t86Iy"
//! 2) "8yTK19t86Iz"
//! 127.0.0.1:6380> DQ.CLAIM bills COUNT 2
//! 1) 1) "8yTK19t86Iy:1.p7Q"
//!    2) "may"
//!    3) "8yTK19t86Iy"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 2) 1) "8yTK19t86Iz:1.p7Q"
//!    2) "june"
//!    3) "8yTK19t86Iz"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 127.0.0.1:6380> DQ.FAIL bills 8yTK19t86Iy:1.p7Q
//! OK
//! 127.0.0.1:6380> DQ.FAIL bills 8yTK19t86Iz:1.p7Q
//! OK
//! 127.0.0.1:6380> DQ.REPLAY bills REASON failed SPREAD 10m ALL
//! (integer) 2
//! ```
//!
//! # See also
//!
//! [DQ.FAIL](fail.md), [DQ.PEEK](peek.md) `STATE dead`, [DQ.CANCEL](cancel.md).

use super::claim::COUNT_ARG;
use super::options::{max_delay, queue, unknown_option};
use super::reschedule::{Which, WHICH_ARG};
use crate::core::args::{count, delay, is, missing, printable, too_long_together, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::core::record::Reason;
use crate::engine;
use crate::queue::{Reach, Replay};
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

pub const COMMAND: Command = Command {
    name: c"dq.replay",
    summary: c"Makes dead letters jobs again.",
    complexity: c"O(N log N) for N letters, in slices.",
    arity: -2,
    access: Access::WriteMore,
    fast: false,
    waits: true,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(c"reason", ArgKind::Text).token(c"REASON").optional(),
        COUNT_ARG,
        Arg::new(c"delay", ArgKind::Integer).token(c"DELAY").optional(),
        Arg::new(c"spread", ArgKind::Integer).token(c"SPREAD").optional(),
        WHICH_ARG,
    ],
    run: handler(run),
};

/// The most for COUNT.
const MAX_COUNT: u64 = 1_000_000_000_000;

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, replay, which) = parse(ctx, Cursor::new(args.bytes())).map_err(String::from)?;
    match which {
        Which::All => engine::replay_all(ctx, &name, replay, reply_count),
        Which::Ids(ids) => {
            reply_count(ctx, engine::change(ctx, &name, Reach::ALL, |queue| Ok(queue.replay(&ids, &replay)))?);
            Ok(())
        }
    }
}

fn reply_count(ctx: &Ctx, count: u64) {
    ctx.reply_integer(i64::try_from(count).unwrap_or(i64::MAX));
}

fn parse<'a>(ctx: &Ctx, mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, Replay, Which), ArgError> {
    let name = queue(&mut rest)?;
    let max = max_delay(ctx, &name);
    let (mut reason, mut most, mut which) = (Once::default(), Once::default(), Once::default());
    let (mut wait, mut spread) = (Once::default(), Once::default());
    while let Some(option) = rest.next() {
        if is(option, "REASON") {
            reason.set("REASON", reason_of(rest.value("REASON")?)?)?;
        } else if is(option, "COUNT") {
            most.set("COUNT", count("COUNT", rest.value("COUNT")?, 1, MAX_COUNT)?)?;
        } else if is(option, "DELAY") {
            wait.set("DELAY", delay("DELAY", rest.value("DELAY")?, max)?)?;
        } else if is(option, "SPREAD") {
            spread.set("SPREAD", delay("SPREAD", rest.value("SPREAD")?, max)?)?;
        } else if let Some(named) = Which::read(option, &mut rest)? {
            which.set("ALL or IDS", named)?;
        } else {
            return Err(unknown_option(&COMMAND, option));
        }
    }
    let which = which.get().ok_or_else(|| missing("ALL or IDS"))?;
    let (delay, spread) = (wait.get().unwrap_or(0), spread.get().unwrap_or(0));
    let last = delay.saturating_add(spread);
    if last > max {
        return Err(too_long_together(last, max));
    }
    Ok((name, Replay { reason: reason.get(), count: most.get().unwrap_or(u64::MAX), delay, spread }, which))
}

fn reason_of(arg: &[u8]) -> Result<Reason, ArgError> {
    Reason::parse(&arg.to_ascii_lowercase()).ok_or_else(|| {
        let names = Reason::ALL.map(Reason::as_str).join(", ");
        ArgError::new(format_args!("REASON must be one of {names}, not '{}'", printable(arg)))
    })
}

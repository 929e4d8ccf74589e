//! `DQ.REPLAY queue [REASON reason] [COUNT n] [DELAY ms] [SPREAD ms] ALL | IDS id [id ...]`
//!
//! Makes dead letters jobs again, and answers how many: of up to 1,000 ids, or all that are there now. Failures, lapses
//! and releases count from zero, except of a letter with the reason `stale`, which never failed; the last error stays.
//! A letter whose id is live is skipped. Receipts of the earlier life are stale.
//!
//! * `REASON`: only letters that died of it: `failed`, `retries-exhausted`, `lease-expired`, `stale`.
//! * `COUNT n`: at most so many, 1 to 1,000,000,000,000, those that died first.
//! * `DELAY ms`: when the first is due, 0 to `max-delay` from now; else at once.
//! * `SPREAD ms`: the jobs are due one after the other, evenly over this time, in the order in which they died; else
//!   all at one time, in push order. DELAY and SPREAD together are at most `max-delay`.
//! * `IDS`: one call replays at most 8 MiB of records, or a single larger one, and answers how many it did.
//! * `ALL`: the letters are counted first. Where there are more than 1,000, the caller waits for that, about a second for
//!   1,000,000, and such a call is refused in MULTI and in scripts. Then they become jobs in slices, while the server serves
//!   others; `replaying` in STATS says how many are left. A job that dies meanwhile, one
//!   of those that were replayed among them, stays dead. A further ALL of the same REASON begins anew with what is left.
//!   A restart, a failover or `dq.enabled no` ends it where it is, and asking again goes on.
//!
//! Errors: `DQDELAY`, `OOM`, `READONLY`, `WRONGTYPE`; `DQDISABLED` for ALL; `UNBLOCKED` where the count was given up.
//!
//! O(N log N) for N letters, in slices.

use super::claim::COUNT_ARG;
use super::options::{max_delay, queue};
use super::reschedule::{Which, WHICH_ARG};
use crate::core::args::{count, delay, is, printable, unknown_option, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::core::record::Reason;
use crate::engine;
use crate::queue::{Reach, Replay};
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.replay",
    summary: c"Makes dead letters jobs again.",
    complexity: c"O(N log N) for N letters, in slices.",
    arity: -3,
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
    run: || trampoline!(run),
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
            return Err(unknown_option(option));
        }
    }
    let which = which.get().ok_or_else(|| ArgError::new("ALL or IDS is missing"))?;
    let (delay, spread) = (wait.get().unwrap_or(0), spread.get().unwrap_or(0));
    if delay.saturating_add(spread) > max {
        let text = format_args!("DELAY and SPREAD together must be at most {max} ms (max-delay)");
        return Err(ArgError::with_code("DQDELAY", text));
    }
    Ok((name, Replay { reason: reason.get(), count: most.get().unwrap_or(u64::MAX), delay, spread }, which))
}

fn reason_of(arg: &[u8]) -> Result<Reason, ArgError> {
    Reason::parse(&arg.to_ascii_lowercase()).ok_or_else(|| {
        let names = Reason::ALL.map(Reason::as_str).join(", ");
        ArgError::new(format_args!("REASON must be one of {names}, not '{}'", printable(arg)))
    })
}

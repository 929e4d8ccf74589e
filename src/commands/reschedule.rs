//! ```text
//! DQ.RESCHEDULE queue DELAY ms | AT unix-ms ALL | IDS id [id ...]
//! ```
//!
//! Gives ready and delayed jobs another due time: 1 to 1,000 by their ids, or all that are there now. They stay the same
//! jobs, with their counts. A leased one is left as it is.
//!
//! # Options
//!
//! One of DELAY and AT, and one of ALL and IDS:
//!
//! | option | range | |
//! | --- | --- | --- |
//! | `DELAY ms` | 0 to `max-delay` (7 d) | from now |
//! | `AT unix-ms` | from 100000000000 on, and at most `max-delay` from now | by the server's clock; a time in the past means now |
//! | `ALL` | | the first 1,000 jobs move at once, the rest [in slices](README.md#very-many-jobs) |
//! | `IDS id …` | 1 to 1,000 ids; all that follows are ids | these, each once |
//!
//! # Reply
//!
//! How many moved, an integer. With ALL, how many there are: `rescheduling` in DQ.STATS says how many are still to move.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `DQDELAY` | the new time is more than `max-delay` from now |
//! | `DQDISABLED` | of ALL: `dq.enabled` is no |
//! | `ERR` | DELAY or AT is missing, ALL or IDS is missing, or an option is unknown, given twice or out of its range |
//!
//! and [those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH bills 'june' ID bill-11
//! "bill-11"
//! 127.0.0.1:6380> DQ.RESCHEDULE bills DELAY 2h IDS bill-11 bill-12
//! (integer) 1
//! 127.0.0.1:6380> DQ.RESCHEDULE bills DELAY 0 ALL
//! (integer) 1
//! 127.0.0.1:6380> DQ.RESCHEDULE bills ALL
//! (error) ERR DELAY or AT is missing
//! ```
//!
//! # See also
//!
//! [DQ.PUSH](push.md) `REPLACE`, [DQ.REPLAY](replay.md) for dead letters.

use super::options::{delay, due_at, ids, queue, unknown_option};
use crate::core::args::{is, missing, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::{Due, Reach};
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply, Text};

pub const COMMAND: Command = Command {
    name: c"dq.reschedule",
    summary: c"Gives ready and delayed jobs another due time.",
    complexity: c"O(M log N) for M jobs of a queue of N, in slices.",
    arity: -2,
    access: Access::Write,
    fast: false,
    waits: false,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(
            c"due",
            ArgKind::OneOf(&[
                Arg::new(c"delay", ArgKind::Integer).token(c"DELAY"),
                Arg::new(c"unix-time-milliseconds", ArgKind::UnixTime).token(c"AT"),
            ]),
        ),
        WHICH_ARG,
    ],
    run: handler(run),
};

pub const WHICH_ARG: Arg = Arg::new(
    c"which",
    ArgKind::OneOf(&[
        Arg::new(c"all", ArgKind::Token).token(c"ALL"),
        Arg::new(c"id", ArgKind::Text).token(c"IDS").multiple(),
    ]),
);

/// Which jobs are meant.
pub enum Which {
    All,
    Ids(Vec<Text>),
}

impl Which {
    /// Reads ALL, or IDS and all that follows; `None` where `name` is neither.
    pub fn read(name: &[u8], rest: &mut Cursor) -> Result<Option<Which>, ArgError> {
        if is(name, "ALL") {
            return Ok(Some(Which::All));
        }
        if is(name, "IDS") {
            return Ok(Some(Which::Ids(ids(&rest.collect::<Vec<_>>())?)));
        }
        Ok(None)
    }
}

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, due, which) = parse(ctx, Cursor::new(args.bytes())).map_err(String::from)?;
    let moved = match which {
        Which::All => engine::change_all(ctx, &name, |queue| Ok(queue.reschedule_all(due)))?,
        Which::Ids(ids) => engine::change(ctx, &name, Reach::ALL, |queue| Ok(queue.reschedule(&ids, due)))?,
    };
    ctx.reply_integer(i64::try_from(moved).unwrap_or(i64::MAX));
    Ok(())
}

fn parse<'a>(ctx: &Ctx, mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, Due, Which), ArgError> {
    let name = queue(&mut rest)?;
    let (mut due, mut which) = (Once::default(), Once::default());
    while let Some(option) = rest.next() {
        if is(option, "DELAY") {
            due.set("DELAY or AT", Due::In(delay(ctx, &name, "DELAY", rest.value("DELAY")?)?))?;
        } else if is(option, "AT") {
            due.set("DELAY or AT", due_at(ctx, &name, rest.value("AT")?)?)?;
        } else if let Some(named) = Which::read(option, &mut rest)? {
            which.set("ALL or IDS", named)?;
        } else {
            return Err(unknown_option(&COMMAND, option));
        }
    }
    let due = due.get().ok_or_else(|| missing("DELAY or AT"))?;
    let which = which.get().ok_or_else(|| missing("ALL or IDS"))?;
    Ok((name, due, which))
}

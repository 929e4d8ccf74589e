//! ```text
//! DQ.QUEUES [MATCH pattern]
//! ```
//!
//! The queues of the selected database on this server, in the order of their names. A queue that clients wait for is
//! listed even if it has no job and no key: a worker that waits for `mial` shows beside `mail`.
//!
//! # Options
//!
//! | option | |
//! | --- | --- |
//! | `MATCH pattern` | only names that match it, as in KEYS: `*`, `?`, `[a-z]`, `[^a]`, a backslash before what stands for itself |
//!
//! It names no key, so like KEYS it shows names to which a user has no access. Of more than 1,000 queues the caller waits
//! while they are looked at in slices and the server serves others; such a call is refused in MULTI and in scripts. Every
//! queue that is there from the beginning to the end is in the list, or the call ends with an error. A
//! replica, and a primary that is still looking for its queues, go through all keys of the database for it. The answer is
//! written in one step: some 0.15 ms for 1,000 queues.
//!
//! # Reply
//!
//! An array, each entry `[name, ready, delayed, leased, dead, waiting, paused]`, the name a string and the rest integers;
//! later versions may add to an entry. `waiting`: clients that wait; `paused`: 1 or 0.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `UNBLOCKED` | the data of the database were replaced before the list was whole (FLUSHALL, FLUSHDB, SWAPDB, DEBUG RELOAD, a full sync of a replica, slots that move in one step), the server became a replica, or `dq.enabled` was set to no. Ask again |
//! | `ERR` | more than 1,000 queues in MULTI or a script, or an option is unknown, given twice or lacks its value |
//!
//! An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH faxes 'to press'
//! "8yTJwLMByuO"
//! 127.0.0.1:6380> DQ.PUSH mail 'to ann' DELAY 1h
//! "8yTJwLMTa2S"
//! 127.0.0.1:6380> DQ.QUEUES
//! 1) 1) "faxes"
//!    2) (integer) 1
//!    3) (integer) 0
//!    4) (integer) 0
//!    5) (integer) 0
//!    6) (integer) 0
//!    7) (integer) 0
//! 2) 1) "mail"
//!    2) (integer) 0
//!    3) (integer) 1
//!    4) (integer) 0
//!    5) (integer) 0
//!    6) (integer) 0
//!    7) (integer) 0
//! 127.0.0.1:6380> DQ.QUEUES MATCH fa*
//! 1) 1) "faxes"
//!    2) (integer) 1
//!    3) (integer) 0
//!    4) (integer) 0
//!    5) (integer) 0
//!    6) (integer) 0
//!    7) (integer) 0
//! ```
//!
//! # See also
//!
//! [DQ.STATS](stats.md).

use super::options::unknown_option;
use crate::core::args::{is, ArgError, Cursor, Once};
use crate::engine::{self, QueueRow};
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

pub const COMMAND: Command = Command {
    name: c"dq.queues",
    summary: c"The queues of this node and how many jobs they have.",
    complexity: c"O(N log M) for N queues of up to M jobs, in slices.",
    arity: -1,
    access: Access::Read,
    fast: false,
    waits: true,
    key: KeyPlace::None,
    args: &[Arg::new(c"pattern", ArgKind::Pattern).token(c"MATCH").optional()],
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let pattern = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    engine::list_queues(ctx, pattern, reply_rows)
}

fn reply_rows(ctx: &Ctx, rows: &[QueueRow]) {
    ctx.reply_array(rows.len());
    for QueueRow { name, counts, paused, waiting } in rows {
        let numbers = [counts.ready, counts.delayed, counts.leased, counts.dead, *waiting as u64, u64::from(*paused)];
        ctx.reply_array(1 + numbers.len());
        ctx.reply_bytes(name);
        numbers.into_iter().for_each(|number| ctx.reply_integer(i64::try_from(number).unwrap_or(i64::MAX)));
    }
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<&'a [u8], ArgError> {
    let mut pattern = Once::default();
    while let Some(option) = rest.next() {
        if !is(option, "MATCH") {
            return Err(unknown_option(&COMMAND, option));
        }
        pattern.set("MATCH", rest.value("MATCH")?)?;
    }
    Ok(pattern.get().unwrap_or(b"*"))
}

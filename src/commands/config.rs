//! ```text
//! DQ.CONFIG queue GET [field]
//! DQ.CONFIG queue SET field value [field value ...]
//! DQ.CONFIG queue RESET field [field ...]
//! ```
//!
//! The settings of one queue, which count over the server's. They are kept with the queue, in its header: over restarts and
//! failovers, on every replica, and when the queue is empty. [DQ.DROP](drop.md) takes them away.
//!
//! # Options
//!
//! | | |
//! | --- | --- |
//! | `GET` | shows one field, or all |
//! | `SET` | gives the queue values of its own, all or none. A queue that is not there is made. A value that is the same as the server's is kept too, and stays when the server's changes |
//! | `RESET` | lets the server's values count again |
//!
//! | field | |
//! | --- | --- |
//! | `lease` | how long a claim holds a job; never longer than `dq.max-lease` |
//! | `max-retries`, `max-lapses` | failures that a job survives; leases that ran out, at which it is dead |
//! | `backoff-base`, `backoff-cap`, `backoff-jitter` | the waits after failures |
//! | `max-delay`, `max-payload`, `max-length` | what is over them is refused: `DQDELAY`, `DQSIZE`, `DQFULL` |
//! | `max-leased` | jobs leased at once, 0 to 1,000,000,000,000; 0, the default: any number. The server has no such setting |
//! | `max-error` | what is kept of ERROR and of STACK |
//! | `far-horizon`, `far-alarm` | which jobs are far, and how many raise the alarm |
//! | `stale-after`, `stale-policy` | which jobs are stale, and what becomes of them |
//! | `dead-max`, `dead-max-age` | how many dead letters are kept, and how long |
//! | `id-keep` | how long an ID stays taken after its push |
//!
//! Their ranges and defaults are those of the [server's settings](../settings.md) of the same names. The other settings are
//! the server's alone. A value counts at the moment of use, for jobs that are there too, unless the job brought its own.
//!
//! **`max-leased`** keeps what your handlers call from being asked by too many at once: CLAIM answers fewer jobs, and those
//! who wait go on waiting until an ACK, or whatever else ends a lease, makes room; then the first in line has its job at
//! once. A queue without room is behind, not stale. A smaller value than there are leases takes none away, and a late EXTEND
//! takes its lease back all the same.
//!
//! # Reply
//!
//! GET answers an array of rows, one for the field or one for each: `[field, value, source]`; later versions may add to a row.
//! The value is the one that counts. Its source is `queue` where the queue has its own, `server` where that of the server
//! counts, and `invalid` where it does because somebody wrote something into the header that is no value.
//!
//! SET answers OK. RESET answers how many of the fields the queue had of its own, an integer.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `READONLY` | this is a replica; GET is refused there, too. HGETALL of the queue's name shows what it has of its own |
//! | `OOM` | SET: the server is at `maxmemory`, and the queue would be new |
//! | `ERR` | no such field, a field that is named twice, or a value out of its range; the text names the range |
//!
//! and [those of every command](README.md#errors). An error changed nothing: no field is set.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.CONFIG faxes SET max-length 1000 stale-policy keep
//! OK
//! 127.0.0.1:6380> DQ.CONFIG faxes GET max-length
//! 1) 1) "max-length"
//!    2) "1000"
//!    3) "queue"
//! 127.0.0.1:6380> DQ.CONFIG faxes GET lease
//! 1) 1) "lease"
//!    2) "30s"
//!    3) "server"
//! 127.0.0.1:6380> DQ.CONFIG faxes SET max-leased 5 lease 31d
//! (error) ERR lease must be a duration from 1ms to 30d: a whole number of ms, which ms, s, m, h or d may follow
//! 127.0.0.1:6380> DQ.CONFIG faxes RESET max-length stale-policy
//! (integer) 2
//! ```
//!
//! # See also
//!
//! [Settings](../settings.md).

use super::options::queue;
use crate::core::args::{is, printable, repeated_option, ArgError, Cursor};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::{Reach, Source};
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::settings::{Setting, OF_QUEUES};

pub const COMMAND: Command = Command {
    name: c"dq.config",
    summary: c"The settings of one queue, which count over the server's.",
    complexity: c"O(M) for M fields.",
    arity: -3,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(
            c"action",
            ArgKind::OneOf(&[
                Arg::new(c"get", ArgKind::Block(&[GET_ARG, FIELD_ARG.optional()])),
                Arg::new(
                    c"set",
                    ArgKind::Block(&[
                        SET_ARG,
                        Arg::new(c"setting", ArgKind::Block(&[FIELD_ARG, Arg::new(c"value", ArgKind::Text)]))
                            .multiple(),
                    ]),
                ),
                Arg::new(c"reset", ArgKind::Block(&[RESET_ARG, FIELD_ARG.multiple()])),
            ]),
        ),
    ],
    run: handler(run),
};

const GET_ARG: Arg = Arg::new(c"get", ArgKind::Token).token(c"GET");
const SET_ARG: Arg = Arg::new(c"set", ArgKind::Token).token(c"SET");
const RESET_ARG: Arg = Arg::new(c"reset", ArgKind::Token).token(c"RESET");
const FIELD_ARG: Arg = Arg::new(c"field", ArgKind::Text);

/// What is to be done.
enum Action {
    Get(Vec<&'static Setting>),
    Set(Vec<(&'static Setting, u64)>),
    Reset(Vec<&'static Setting>),
}

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, action) = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    match action {
        Action::Get(fields) => {
            let rows = engine::look(ctx, &name, |queue, _| Ok(queue.show_rules(&fields)))?;
            reply_rows(ctx, &rows);
        }
        Action::Set(values) => {
            engine::change(ctx, &name, Reach::ALL, |queue| queue.set_rules(&values))?;
            ctx.reply_ok();
        }
        Action::Reset(fields) => {
            let reset = engine::change(ctx, &name, Reach::ALL, |queue| Ok(queue.reset_rules(&fields)))?;
            ctx.reply_integer(i64::try_from(reset).unwrap_or(i64::MAX));
        }
    }
    Ok(())
}

fn reply_rows(ctx: &Ctx, rows: &[(&Setting, u64, Source)]) {
    ctx.reply_array(rows.len());
    for (field, value, source) in rows {
        ctx.reply_array(3);
        ctx.reply_bytes(field.short_name().as_bytes());
        ctx.reply_bytes(field.format(*value).as_bytes());
        ctx.reply_bytes(match source {
            Source::Queue => b"queue",
            Source::Server => b"server",
            Source::Invalid => b"invalid",
        });
    }
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, Action), ArgError> {
    let name = queue(&mut rest)?;
    let action = rest.value("queue")?;
    let action = if is(action, "GET") {
        let fields = match rest.rest() {
            [] => OF_QUEUES.to_vec(),
            [arg] => vec![field(arg)?],
            _ => return Err(ArgError::new("GET takes one field, or none for all")),
        };
        Action::Get(fields)
    } else if is(action, "SET") {
        Action::Set(values(&mut rest)?)
    } else if is(action, "RESET") {
        Action::Reset(fields(&mut rest)?)
    } else {
        return Err(ArgError::new(format_args!(
            "GET, SET or RESET must follow the queue, not '{}'",
            printable(action)
        )));
    };
    Ok((name, action))
}

fn values(rest: &mut Cursor) -> Result<Vec<(&'static Setting, u64)>, ArgError> {
    let mut values: Vec<(&Setting, u64)> = Vec::new();
    while let Some(arg) = rest.next() {
        let field = field(arg)?;
        let value = rest.value(field.short_name())?;
        let value = field
            .read(value)
            .ok_or_else(|| ArgError::new(format_args!("{} must be {}", field.short_name(), field.expectation())))?;
        if values.iter().any(|(set, _)| set.is(field)) {
            return Err(repeated_option(field.short_name()));
        }
        values.push((field, value));
    }
    if values.is_empty() {
        return Err(ArgError::new("SET needs a field and its value"));
    }
    Ok(values)
}

fn fields(rest: &mut Cursor) -> Result<Vec<&'static Setting>, ArgError> {
    let mut fields: Vec<&Setting> = Vec::new();
    for arg in rest {
        let field = field(arg)?;
        if fields.iter().any(|named| named.is(field)) {
            return Err(repeated_option(field.short_name()));
        }
        fields.push(field);
    }
    if fields.is_empty() {
        return Err(ArgError::new("RESET needs a field"));
    }
    Ok(fields)
}

fn field(arg: &[u8]) -> Result<&'static Setting, ArgError> {
    OF_QUEUES.into_iter().find(|setting| is(arg, setting.short_name())).ok_or_else(|| {
        let names = OF_QUEUES.map(Setting::short_name).join(", ");
        ArgError::new(format_args!("a queue has no setting '{}'; there are {names}", printable(arg)))
    })
}

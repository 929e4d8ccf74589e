//! `DQ.CONFIG queue GET [field] | SET field value [field value ...] | RESET field [field ...]`
//!
//! The settings of one queue, which count over the server's. They are kept with the queue, over restarts and failovers.
//!
//! * `GET`: an array of rows, one for the field or one for each, `[field, value, source]`; later versions only append.
//!   The value is the one that counts. Its source is `queue` where the queue has its own, `server` where that of the
//!   server counts, and `invalid` where it does because what the header holds is no value: somebody wrote it there.
//! * `SET`: gives the queue values of its own, all or none, and answers OK. A queue that is not there is made. A value
//!   that is the same as the server's is kept too: it stays when the server's changes.
//! * `RESET`: lets the server's values count again, and answers how many the queue had of its own.
//!
//! The fields, each as the server's setting `dq.…` of that name: `lease`, `max-retries`, `max-lapses`, `backoff-base`,
//! `backoff-cap`, `backoff-jitter`, `max-delay`, `max-payload`, `max-length`, `max-error`, `far-horizon`, `far-alarm`,
//! `stale-after`, `stale-policy`, `dead-max`, `dead-max-age`, `id-keep`. And one that only a queue has:
//!
//! * `max-leased`: no more jobs than that are leased at once, 0 to 1,000,000,000,000; 0, the default, for any number.
//!   CLAIM gives fewer, and those who wait go on waiting until ACK or whatever else ends a lease makes room. A late
//!   EXTEND takes its lease back all the same.
//!
//! A value counts at the moment of use, for jobs that are there too, unless the job brought its own. An empty queue with
//! settings stays: `dq.idle-queue-ttl` does not count.
//!
//! Errors: `READONLY`, for GET too; `WRONGTYPE`.
//!
//! O(M) for M fields.

use super::options::queue;
use crate::core::args::{is, missing_value, printable, repeated_option, unknown_option, ArgError, Cursor};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::{Reach, Source};
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::settings::{Setting, OF_QUEUES};
use crate::trampoline;

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
    run: || trampoline!(run),
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
            engine::change(ctx, &name, Reach::ALL, |queue| {
                queue.set_rules(&values);
                Ok(())
            })?;
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
        let fields = match rest.next() {
            None => OF_QUEUES.to_vec(),
            Some(arg) => vec![field(arg)?],
        };
        rest.next().map_or(Ok(Action::Get(fields)), |extra| Err(unknown_option(extra)))?
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
        return Err(missing_value("SET"));
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
        return Err(missing_value("RESET"));
    }
    Ok(fields)
}

fn field(arg: &[u8]) -> Result<&'static Setting, ArgError> {
    OF_QUEUES.into_iter().find(|setting| is(arg, setting.short_name())).ok_or_else(|| {
        let names = OF_QUEUES.map(Setting::short_name).join(", ");
        ArgError::new(format_args!("a queue has no setting '{}'; there are {names}", printable(arg)))
    })
}

//! ```text
//! DQ.GET queue id
//! ```
//!
//! Shows one job: the live one of that id, else its dead letter. It changes nothing and claims nothing.
//!
//! # Reply
//!
//! Nil where there is neither. Else a map (an array of names and values in RESP2):
//!
//! | field | |
//! | --- | --- |
//! | `id` | |
//! | `state` | `ready`, `delayed`, `leased` or `dead`; `lost` where no index has the job, which [DQ.CHECK](check.md) tells of |
//! | `payload` | byte for byte |
//! | `attempt` | the number of its current or next claim, as workers count |
//! | `failures`, `lapses`, `releases`, `claims` | RETRYs, leases that ran out, RELEASEs, claims that ended |
//! | `retries-left` | how many more failures it survives |
//! | `retries`, `lease-ms`, `backoff-base-ms`, `backoff-cap-ms` | what rules it: its own value, else the queue's, else the server's |
//! | `pushed-at` | Unix time in ms; nil where the id does not tell |
//! | `due-at`, `lease-ends-at` or `died-at` | Unix time in ms, by its state |
//! | `reason` | of a dead letter: `failed`, `retries-exhausted`, `lapses-exhausted`, `stale` |
//! | `error`, `stack` | where there are any |
//!
//! Times are [queue time](../concepts.md#the-clock), which is that of the server's clock unless somebody set it.
//!
//! # Errors
//!
//! `ERR` where the record cannot be read, and [those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH mail 'to ann' ID welcome:ann DELAY 10m
//! "welcome:ann"
//! 127.0.0.1:6380> DQ.GET mail welcome:ann
//!  1) "id"
//!  2) "welcome:ann"
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
//! 16) (integer) 0
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
//! 28) (integer) 1796012448178
//! 29) "due-at"
//! 30) (integer) 1796013048179
//! 127.0.0.1:6380> DQ.GET mail welcome:bob
//! (nil)
//! ```
//!
//! # See also
//!
//! [DQ.PEEK](peek.md) for many, [DQ.STATS](stats.md).

use super::options::queue;
use crate::core::args::{ArgError, Cursor};
use crate::core::ids;
use crate::core::life;
use crate::core::names::QueueName;
use crate::core::record::Job;
use crate::engine;
use crate::queue::{lease_of, policy_of, JobState, Place, Rules};
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply, Text};

pub const COMMAND: Command = Command {
    name: c"dq.get",
    summary: c"One job or dead letter, in full.",
    complexity: c"O(log N) with N jobs in the queue.",
    arity: 3,
    access: Access::Read,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key), Arg::new(c"id", ArgKind::Text)],
    run: handler(run),
};

/// One value of the map.
enum Value<'a> {
    Bytes(&'a [u8]),
    Integer(u64),
    Nil,
}

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, id) = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    let found = engine::look(ctx, &name, |queue, _| Ok((queue.view(&Text::new(id))?, queue.rules())))?;
    let (Some(view), rules) = found else {
        ctx.reply_null();
        return Ok(());
    };
    let job = view.job().ok_or_else(|| crate::queue::Fault::BadRecord.to_string())?;
    reply_job(ctx, id, view.place, &job, &rules);
    Ok(())
}

/// Writes the map of one job.
pub fn reply_job(ctx: &Ctx, id: &[u8], place: Place, job: &Job, rules: &Rules) {
    let mut fields = of_job(id, place, job, rules);
    fields.extend(of_place(place));
    fields.extend(
        [("error", job.error), ("stack", job.stack)]
            .into_iter()
            .filter_map(|(name, text)| text.map(|text| (name, Value::Bytes(text)))),
    );
    ctx.reply_map(fields.len());
    for (field, value) in fields {
        ctx.reply_bytes(field.as_bytes());
        match value {
            Value::Bytes(bytes) => ctx.reply_bytes(bytes),
            Value::Integer(number) => ctx.reply_integer(i64::try_from(number).unwrap_or(i64::MAX)),
            Value::Nil => ctx.reply_null(),
        }
    }
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, &'a [u8]), ArgError> {
    let name = queue(&mut rest)?;
    let id = rest.value("id")?;
    Ok((name, id))
}

fn of_job<'a>(id: &'a [u8], place: Place, job: &Job<'a>, rules: &Rules) -> Vec<(&'static str, Value<'a>)> {
    let policy = policy_of(job, rules);
    let state = place.state().map_or("lost", JobState::name);
    let pushed_at = job.birth.or_else(|| ids::decode(id)).map(ids::ms_of);
    let count = |count: u32| Value::Integer(u64::from(count));
    vec![
        ("id", Value::Bytes(id)),
        ("state", Value::Bytes(state.as_bytes())),
        ("payload", Value::Bytes(job.payload)),
        ("attempt", count(life::attempt(job))),
        ("failures", count(job.failures)),
        ("lapses", count(job.lapses)),
        ("releases", count(job.releases)),
        ("claims", count(job.claims)),
        ("retries-left", count(life::retries_left(job, policy.retries))),
        ("retries", count(policy.retries)),
        ("lease-ms", Value::Integer(lease_of(job, None, rules))),
        ("backoff-base-ms", Value::Integer(policy.backoff.base_ms)),
        ("backoff-cap-ms", Value::Integer(policy.backoff.cap_ms)),
        ("pushed-at", pushed_at.map_or(Value::Nil, Value::Integer)),
    ]
}

fn of_place(place: Place) -> Vec<(&'static str, Value<'static>)> {
    match place {
        Place::Ready { due_at } | Place::Delayed { due_at } => vec![("due-at", Value::Integer(due_at))],
        Place::Leased { ends_at } => vec![("lease-ends-at", Value::Integer(ends_at))],
        Place::Dead { died_at, reason } => vec![
            ("died-at", died_at.map_or(Value::Nil, Value::Integer)),
            ("reason", Value::Bytes(reason.as_str().as_bytes())),
        ],
        Place::Nowhere => Vec::new(),
    }
}

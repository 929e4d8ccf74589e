//! The state of a queue as its keys and its figures show it.

use std::collections::BTreeMap;

use redis::{Connection, Value};

use crate::common::dump::show;
use crate::common::msgpack::Record;
use crate::common::queue::companion_key;
use crate::common::{pairs, text};

pub type Scores = Vec<(Vec<u8>, String)>;
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the keys of one queue hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    pub header: Map,
    pub due: Scores,
    pub leased: Scores,
    pub jobs: Map,
    pub ids: Scores,
    pub dead: Map,
    pub dead_at: Scores,
}

/// The keys, and what DQ.STATS and DQ.CHECK say.
#[derive(Clone, Debug)]
pub struct Seen {
    pub keys: Keys,
    pub stats: Vec<(String, i64)>,
    pub check: Value,
}

fn read_keys(pipe: &mut redis::Pipeline, name: &[u8]) {
    let key = |companion| companion_key(name, companion);
    let range = |pipe: &mut redis::Pipeline, companion| {
        pipe.cmd("ZRANGE").arg(key(companion)).arg(0).arg(-1).arg("WITHSCORES");
    };
    pipe.cmd("HGETALL").arg(name);
    range(pipe, "due");
    range(pipe, "leased");
    pipe.cmd("HGETALL").arg(key("jobs"));
    range(pipe, "ids");
    pipe.cmd("HGETALL").arg(key("dead"));
    range(pipe, "dead:at");
}

fn keys_of(values: &[Value]) -> Keys {
    fn of<T: redis::FromRedisValue>(value: &Value) -> T {
        redis::from_redis_value(value).unwrap_or_else(|e| panic!("{value:?}: {e}"))
    }
    Keys {
        header: of(&values[0]),
        due: of(&values[1]),
        leased: of(&values[2]),
        jobs: of(&values[3]),
        ids: of(&values[4]),
        dead: of(&values[5]),
        dead_at: of(&values[6]),
    }
}

/// Looks at queues all at once.
pub fn look(con: &mut Connection, names: &[Vec<u8>]) -> Vec<Seen> {
    let mut pipe = redis::pipe();
    for name in names {
        read_keys(&mut pipe, name);
        pipe.cmd("DQ.STATS").arg(name);
        pipe.cmd("DQ.CHECK").arg(name);
    }
    let values: Vec<Value> = pipe.query(con).expect("the server answers");
    let seen = |values: &[Value]| Seen {
        keys: keys_of(values),
        stats: pairs(&values[7])
            .into_iter()
            .map(|(name, value)| match value {
                Value::Int(value) => (name, value),
                other => panic!("{name} is {other:?}"),
            })
            .collect(),
        check: values[8].clone(),
    };
    values.chunks(9).map(seen).collect()
}

/// The keys alone, as a server without the module has them too.
pub fn look_at_keys(con: &mut Connection, names: &[Vec<u8>]) -> Vec<Keys> {
    let mut pipe = redis::pipe();
    names.iter().for_each(|name| read_keys(&mut pipe, name));
    let values: Vec<Value> = pipe.query(con).expect("the server answers");
    values.chunks(7).map(keys_of).collect()
}

/// Lines that tell of all that is there.
pub fn lines(keys: &Keys) -> Vec<String> {
    let mut all = Vec::new();
    for (field, value) in &keys.header {
        all.push(format!("header {} {}", show(field), show(value)));
    }
    for (name, scores) in [("due", &keys.due), ("leased", &keys.leased), ("ids", &keys.ids), ("dead:at", &keys.dead_at)]
    {
        all.extend(scores.iter().map(|(id, score)| format!("{name} {} {score}", show(id))));
    }
    for (id, record) in &keys.jobs {
        let record = Record::read(record).map_or_else(|e| e, |record| line_of(&record));
        all.push(format!("jobs {} {record}", show(id)));
    }
    for (id, letter) in &keys.dead {
        let letter =
            Record::read_letter(letter).map_or_else(|e| e, |(reason, record)| format!("{reason} {}", line_of(&record)));
        all.push(format!("dead {} {letter}", show(id)));
    }
    all
}

/// The beginning of a text, its length, and a sum that tells it from others (FNV-1a).
fn digest(text: &[u8]) -> String {
    let step = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(16_777_619);
    let sum = text.iter().fold(2_166_136_261u32, step);
    format!("{:?}({} bytes, {sum:08x})", show(&text[..text.len().min(20)]), text.len())
}

/// A record in one line.
pub fn line_of(record: &Record) -> String {
    let text = |text: &Option<Vec<u8>>| text.as_ref().map(|text| digest(text));
    format!(
        "{} birth {:?} failures {} lapses {} releases {} claims {} late {} retries {:?} lease {:?} \
         backoff {:?} {:?} error {:?} stack {:?}",
        digest(&record.payload),
        record.birth,
        record.failures,
        record.lapses,
        record.releases,
        record.claims,
        record.late,
        record.retries,
        record.lease,
        record.backoff_base,
        record.backoff_cap,
        text(&record.error),
        text(&record.stack),
    )
}

/// An error reply as the server sent it.
pub fn reply_of(result: redis::RedisResult<Value>) -> Result<Value, String> {
    match result {
        Ok(Value::ServerError(error)) => Err(format!("{} {}", error.code(), error.details().unwrap_or_default())),
        Ok(value) => Ok(value),
        Err(error) => match (error.code(), error.detail()) {
            (Some(code), Some(detail)) => Err(format!("{code} {detail}")),
            _ => panic!("not an error of the server: {error:?}"),
        },
    }
}

/// A reply in one line.
pub fn show_reply(reply: &Result<Value, String>) -> String {
    fn of(value: &Value) -> String {
        match value {
            Value::Nil => "nil".into(),
            Value::Int(number) => number.to_string(),
            Value::BulkString(bytes) => format!("\"{}\"", show(&bytes[..bytes.len().min(60)])),
            Value::Array(items) => format!("[{}]", items.iter().map(of).collect::<Vec<_>>().join(" ")),
            other => text(other),
        }
    }
    reply.as_ref().map_or_else(|error| format!("-{error}"), of)
}

//! Jobs as pages show them: a page of one state, one job whole.

use redis::{Cmd, Value};
use serde::Serialize;

use crate::node::command;
use crate::payload::{views, Views};
use crate::reply::{bytes, int, list, pairs, text};
use crate::shapes::READ;
use crate::visible::{line, visible};

/// Jobs of a page.
pub const PAGE: i64 = 50;
/// Letters of a payload and of an error in a list.
const GLIMPSE: usize = 140;

/// The reason of a dead letter whose worker gave up on it.
const FAILED: &str = "failed";

/// A job in a list.
#[derive(Serialize, Default, Clone)]
pub struct Brief {
    pub id: String,
    pub state: String,
    pub payload: String,
    pub bytes: usize,
    pub attempt: i64,
    pub failures: i64,
    pub lapses: i64,
    /// Unix ms of what orders the list: due, the end of the lease, or death.
    pub at: i64,
    pub pushed_at: Option<i64>,
    pub reason: String,
    pub error: String,
    /// The beginning of the error that its shape is made of.
    #[serde(skip)]
    pub error_head: String,
}

/// A page of jobs.
#[derive(Serialize, Default)]
pub struct Page {
    /// What gives the next page; "0" where there is none.
    pub next: String,
    pub jobs: Vec<Brief>,
}

/// One job with all there is to know.
#[derive(Serialize)]
pub struct Whole {
    #[serde(flatten)]
    pub brief: Brief,
    pub views: Views,
    pub error_text: Option<String>,
    pub stack: Option<String>,
    /// The fields that are numbers, as DQ.GET names them.
    pub numbers: Vec<(String, i64)>,
}

/// DQ.PEEK of a state, from a cursor on.
pub fn peek(queue: &[u8], state: &str, count: i64, after: &[u8]) -> Cmd {
    let mut command = redis::cmd("DQ.PEEK");
    command.arg(queue).arg("STATE").arg(state).arg("COUNT").arg(count);
    if !after.is_empty() {
        command.arg("AFTER").arg(after);
    }
    command
}

/// The cursor that stands before all entries of a time in ms: a cursor is the time and the id of the last entry.
pub fn cursor_at(ms: i64) -> Vec<u8> {
    format!("{ms}:").into_bytes()
}

pub fn get(queue: &[u8], id: &[u8]) -> Cmd {
    command("DQ.GET", &[queue, id])
}

pub fn page(reply: &Value) -> Page {
    let parts = list(reply);
    Page {
        next: parts.first().map(text).unwrap_or_default(),
        jobs: parts.get(1).map(list).unwrap_or_default().iter().filter(|job| **job != Value::Nil).map(brief).collect(),
    }
}

pub fn brief(job: &Value) -> Brief {
    let mut brief = Brief::default();
    for (name, value) in pairs(job) {
        match name.as_str() {
            "id" => brief.id = text(value),
            "state" => brief.state = text(value),
            "payload" => {
                brief.payload = line(bytes(value), GLIMPSE);
                brief.bytes = bytes(value).len();
            }
            "attempt" => brief.attempt = int(value),
            "failures" => brief.failures = int(value),
            "lapses" => brief.lapses = int(value),
            "due-at" | "lease-ends-at" | "died-at" => brief.at = int(value),
            "pushed-at" if *value != Value::Nil => brief.pushed_at = Some(int(value)),
            "reason" => brief.reason = text(value),
            "error" => {
                brief.error = line(bytes(value), GLIMPSE);
                brief.error_head = line(bytes(value), READ);
            }
            _ => {}
        }
    }
    // FAIL counts no failure, since the job has no next attempt; it failed all the same.
    if brief.reason == FAILED {
        brief.failures += 1;
    }
    brief
}

/// The job that DQ.GET answered; nothing where there is none.
pub fn whole(reply: &Value) -> Option<Whole> {
    let fields = pairs(reply);
    let find = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| *value);
    let note = |name| find(name).map(|value| visible(bytes(value)));
    let payload = find("payload").map(bytes)?;
    let numbers = fields.iter().filter(|(_, value)| matches!(value, Value::Int(_)));
    Some(Whole {
        brief: brief(reply),
        views: views(payload),
        error_text: note("error"),
        stack: note("stack"),
        numbers: numbers.map(|(name, value)| (name.clone(), int(value))).collect(),
    })
}

/// The bytes of the payload, for a download.
pub fn payload_of(reply: &Value) -> Option<Vec<u8>> {
    pairs(reply).into_iter().find(|(name, _)| name == "payload").map(|(_, value)| bytes(value).to_vec())
}

//! What pages read of the servers, by the budget that all browsers share.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use serde::Serialize;
use serde_json::{json, Value as Json};

use crate::budget::Budget;
use crate::cache::{Cache, Shared};
use crate::dead::{newest, Dead};
use crate::jobs::{self, PAGE};
use crate::link::Link;
use crate::node::command;
use crate::reply::{list, pairs, text};
use crate::sample::now_ms;
use crate::stats::{Counts, Stats};
use crate::trouble::{Kind, Trouble};
use crate::visible::visible;

/// How old what is shown of jobs may be.
const FRESH: Duration = Duration::from_secs(1);

pub struct Pages {
    pub link: Arc<Link>,
    pub dead: Arc<Dead>,
    budget: Budget,
    cache: Cache<Json>,
}

impl Pages {
    pub fn new(link: Arc<Link>, dead: Arc<Dead>) -> Pages {
        Pages { link, dead, budget: Budget::new(), cache: Cache::new(FRESH) }
    }

    /// A command that reads, when its turn has come.
    pub async fn ask(&self, queue: &[u8], command: Cmd) -> Result<Value, Trouble> {
        self.link.nodes()?;
        self.budget.take().await?;
        self.link.ask(queue, command).await
    }

    /// How the queue stands now, and not at the last look.
    pub async fn counts(&self, queue: &[u8]) -> Result<Counts, Trouble> {
        Ok(Counts::of(&Stats::of(&self.ask(queue, command("DQ.STATS", &[queue])).await?)))
    }

    /// A page of jobs of one state.
    pub async fn jobs(&self, queue: &[u8], state: &str, after: &[u8]) -> Result<Shared<Json>, Trouble> {
        let make = async {
            let reply = self.ask(queue, jobs::peek(queue, state, PAGE, after)).await?;
            Ok(to_json(&jobs::page(&reply)))
        };
        self.cache.get(named("jobs", &[queue, state.as_bytes(), after]), make).await
    }

    pub async fn newest_dead(&self, queue: &[u8], ahead_ms: i64) -> Result<Shared<Json>, Trouble> {
        let make = async { newest(self, queue, now_ms() as i64 + ahead_ms).await.map(|page| to_json(&page)) };
        self.cache.get(named("newest", &[queue]), make).await
    }

    pub async fn groups(&self, queue: &[u8], dead: usize) -> Result<Shared<Json>, Trouble> {
        let make = async { self.dead.groups(self, queue, dead).await.map(|seen| to_json(&seen)) };
        self.cache.get(named("groups", &[queue]), make).await
    }

    /// One job whole; null where no job has the id.
    pub async fn job(&self, queue: &[u8], id: &[u8]) -> Result<Shared<Json>, Trouble> {
        let make = async {
            let reply = self.ask(queue, jobs::get(queue, id)).await?;
            Ok(jobs::whole(&reply).map_or(Json::Null, |job| to_json(&job)))
        };
        self.cache.get(named("job", &[queue, id]), make).await
    }

    pub async fn payload(&self, queue: &[u8], id: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        Ok(jobs::payload_of(&self.ask(queue, jobs::get(queue, id)).await?))
    }

    /// The settings of a queue: by DQ.CONFIG, else those of its own from its header, else what would be needed.
    pub async fn settings(&self, queue: &[u8]) -> Result<Shared<Json>, Trouble> {
        let make = async {
            match self.ask(queue, command("DQ.CONFIG", &[queue, b"GET"])).await {
                Ok(reply) => Ok(by_config(&reply)),
                Err(trouble) if is_refused(&trouble) => self.header(queue).await,
                Err(trouble) => Err(trouble),
            }
        };
        self.cache.get(named("settings", &[queue]), make).await
    }

    async fn header(&self, queue: &[u8]) -> Result<Json, Trouble> {
        match self.ask(queue, command("HGETALL", &[queue])).await {
            Ok(reply) => Ok(by_header(&reply)),
            Err(trouble) if trouble.kind == Kind::Permission => {
                Ok(json!({ "rows": [], "needs": ["+hgetall", "+dq.config"] }))
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// What was read is out of date: something was done.
    pub fn forget(&self, queue: &[u8]) {
        self.cache.clear();
        self.dead.forget(queue);
    }
}

/// A user who only reads, and a replica.
fn is_refused(trouble: &Trouble) -> bool {
    trouble.kind == Kind::Permission || trouble.detail.starts_with("READONLY")
}

fn by_config(reply: &Value) -> Json {
    let rows = list(reply).iter().map(list).filter(|row| row.len() >= 3);
    let rows: Vec<Json> =
        rows.map(|row| json!({ "name": text(&row[0]), "value": shown(&row[1]), "source": text(&row[2]) })).collect();
    json!({ "rows": rows, "needs": [] })
}

/// What of the header is no setting.
const MARKS: [&str; 3] = ["dq", "made", "paused"];

fn by_header(reply: &Value) -> Json {
    let own = pairs(reply).into_iter().filter(|(name, _)| !MARKS.contains(&name.as_str()));
    let rows: Vec<Json> = own
        .map(|(name, value)| json!({ "name": visible(name.as_bytes()), "value": shown(value), "source": "queue" }))
        .collect();
    json!({ "rows": rows, "needs": ["+dq.config"] })
}

fn shown(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        other => visible(crate::reply::bytes(other)),
    }
}

fn to_json(value: &impl Serialize) -> Json {
    serde_json::to_value(value).unwrap_or_default()
}

/// A name for the cache that no other page has.
fn named(what: &str, parts: &[&[u8]]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| crate::sample::key(part)).collect();
    format!("{what}/{}", parts.join("/"))
}

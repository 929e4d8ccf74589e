//! What can be done about a queue, and what is said when it is done.

use redis::Cmd;
use serde::Deserialize;

use crate::pages::Pages;
use crate::reply::int;
use crate::trouble::{Kind, Trouble};

/// One thing to do, as a page asks for it.
#[derive(Deserialize, Debug)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Action {
    Pause,
    Resume,
    /// Takes jobs out for good.
    Cancel {
        ids: Vec<String>,
        state: Option<State>,
    },
    /// Gives ready and delayed jobs another due time: those of the ids, or all.
    Reschedule {
        ids: Option<Vec<String>>,
        delay_ms: u64,
    },
    /// Makes dead letters jobs again: those of the ids, of a group, of a reason, or all.
    Replay {
        ids: Option<Vec<String>>,
        group: Option<String>,
        reason: Option<Reason>,
        #[serde(default)]
        spread_ms: u64,
    },
    /// Takes all jobs of the states out for good.
    Purge {
        states: Vec<State>,
    },
}

#[derive(Deserialize, Debug, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ready,
    Delayed,
    Leased,
    Dead,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Delayed => "delayed",
            State::Leased => "leased",
            State::Dead => "dead",
        }
    }
}

#[derive(Deserialize, Debug, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    Failed,
    RetriesExhausted,
    LeaseExpired,
    Stale,
}

impl Reason {
    fn word(self) -> &'static str {
        match self {
            Reason::Failed => "failed",
            Reason::RetriesExhausted => "retries-exhausted",
            Reason::LeaseExpired => "lease-expired",
            Reason::Stale => "stale",
        }
    }
}

/// Ids of one command.
const IDS: usize = 1000;

/// Does it, and says what was done.
pub async fn run(pages: &Pages, queue: &[u8], action: &Action) -> Result<String, Trouble> {
    let done = match action {
        Action::Pause => ask(pages, queue, "DQ.PAUSE", &[])
            .await
            .map(|_| "Paused: nothing is claimed until it is resumed".to_string()),
        Action::Resume => {
            ask(pages, queue, "DQ.RESUME", &[]).await.map(|_| "Resumed: its jobs are claimed again".to_string())
        }
        Action::Cancel { ids, state } => cancel(pages, queue, ids, *state).await,
        Action::Reschedule { ids, delay_ms } => reschedule(pages, queue, ids.as_deref(), *delay_ms).await,
        Action::Replay { ids, group, reason, spread_ms } => {
            let ids = match (ids, group) {
                (Some(ids), _) => Some(ids.clone()),
                (None, Some(group)) => Some(pages.dead.ids(queue, group).await),
                (None, None) => None,
            };
            match ids {
                Some(ids) => replay_ids(pages, queue, &ids).await,
                None => replay_all(pages, queue, *reason, *spread_ms).await,
            }
        }
        Action::Purge { states } => purge(pages, queue, states).await,
    };
    pages.forget(queue);
    done
}

async fn ask(pages: &Pages, queue: &[u8], name: &str, words: &[&str]) -> Result<i64, Trouble> {
    let mut command = Cmd::new();
    command.arg(name).arg(queue).arg(words);
    pages.link.ask(queue, command).await.map(|reply| int(&reply))
}

async fn cancel(pages: &Pages, queue: &[u8], ids: &[String], state: Option<State>) -> Result<String, Trouble> {
    let mut went = 0;
    for some in some(ids)?.chunks(IDS) {
        let mut words = state.map_or(Vec::new(), |state| vec!["STATE", state.word()]);
        words.extend(some.iter().map(String::as_str));
        went += ask(pages, queue, "DQ.CANCEL", &words).await?;
    }
    Ok(of("Cancelled", went, ids.len()))
}

async fn reschedule(pages: &Pages, queue: &[u8], ids: Option<&[String]>, delay_ms: u64) -> Result<String, Trouble> {
    let delay = delay_ms.to_string();
    let Some(ids) = ids else {
        let moved = ask(pages, queue, "DQ.RESCHEDULE", &["DELAY", &delay, "ALL"]).await?;
        return Ok(format!("Rescheduled {}{}", jobs(moved), slices(moved)));
    };
    let mut moved = 0;
    for some in some(ids)?.chunks(IDS) {
        let mut words = vec!["DELAY", &delay, "IDS"];
        words.extend(some.iter().map(String::as_str));
        moved += ask(pages, queue, "DQ.RESCHEDULE", &words).await?;
    }
    Ok(of("Rescheduled", moved, ids.len()))
}

/// A call replays at most 8 MiB: what it left is asked for again, until nothing more comes back.
async fn replay_ids(pages: &Pages, queue: &[u8], ids: &[String]) -> Result<String, Trouble> {
    let mut replayed = 0;
    for some in some(ids)?.chunks(IDS) {
        let mut words = vec!["IDS"];
        words.extend(some.iter().map(String::as_str));
        let mut left = some.len() as i64;
        while left > 0 {
            let now = ask(pages, queue, "DQ.REPLAY", &words).await?;
            replayed += now;
            left = if now == 0 { 0 } else { left - now };
        }
    }
    Ok(of("Replayed", replayed, ids.len()))
}

async fn replay_all(pages: &Pages, queue: &[u8], reason: Option<Reason>, spread_ms: u64) -> Result<String, Trouble> {
    let spread = spread_ms.to_string();
    let mut words = reason.map_or(Vec::new(), |reason| vec!["REASON", reason.word()]);
    if spread_ms > 0 {
        words.extend(["SPREAD", &spread]);
    }
    words.push("ALL");
    let replayed = ask(pages, queue, "DQ.REPLAY", &words).await?;
    Ok(format!("Replayed {}{}", letters(replayed), slices(replayed)))
}

async fn purge(pages: &Pages, queue: &[u8], states: &[State]) -> Result<String, Trouble> {
    let mut words = vec!["STATE"];
    words.extend(states.iter().map(|state| state.word()));
    let gone = ask(pages, queue, "DQ.PURGE", &words).await?;
    Ok(format!("Purged {}{}", jobs(gone), slices(gone)))
}

fn some(ids: &[String]) -> Result<&[String], Trouble> {
    if ids.is_empty() {
        return Err(Trouble::new(Kind::Refused, "No job was named", &["It may be gone meanwhile: look again."]));
    }
    Ok(ids)
}

fn jobs(count: i64) -> String {
    format!("{count} {}", if count == 1 { "job" } else { "jobs" })
}

fn letters(count: i64) -> String {
    format!("{count} dead {}", if count == 1 { "letter" } else { "letters" })
}

/// How many of those that were asked for.
fn of(what: &str, count: i64, asked: usize) -> String {
    if count as usize >= asked {
        format!("{what} {}", jobs(count))
    } else {
        format!("{what} {count} of {asked}: the others were gone, or in another state")
    }
}

/// Of more than a thousand the rest follows by itself.
fn slices(count: i64) -> &'static str {
    if count > 1000 {
        "; the server goes on with them by itself, and the queue's page shows how many are left"
    } else {
        ""
    }
}

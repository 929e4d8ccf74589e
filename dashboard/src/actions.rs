//! What can be done about a queue, and what is said when it is done.

use redis::Cmd;
use serde::Deserialize;

use crate::attention::grouped;
use crate::dead::{self, Shown};
use crate::pages::Pages;
use crate::reply::int;
use crate::trouble::{Kind, Trouble};

/// One thing to do, as a page asks for it.
#[derive(Deserialize, Debug)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Action {
    Pause,
    Resume,
    /// Takes jobs out for good: those of the ids, or the dead letters of a group.
    Cancel {
        ids: Option<Vec<String>>,
        group: Option<Shown>,
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
        group: Option<Shown>,
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
    LapsesExhausted,
    Stale,
}

impl Reason {
    fn word(self) -> &'static str {
        match self {
            Reason::Failed => "failed",
            Reason::RetriesExhausted => "retries-exhausted",
            Reason::LapsesExhausted => "lapses-exhausted",
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
        Action::Cancel { ids: Some(ids), state, .. } => cancel(pages, queue, ids, *state).await,
        Action::Cancel { group: Some(group), .. } => match dead::ids(pages, queue, group).await {
            Ok(ids) => cancel(pages, queue, &ids, Some(State::Dead)).await,
            Err(trouble) => Err(trouble),
        },
        Action::Cancel { .. } => cancel(pages, queue, &[], None).await,
        Action::Reschedule { ids, delay_ms } => reschedule(pages, queue, ids.as_deref(), *delay_ms).await,
        Action::Replay { ids: Some(ids), spread_ms, .. } => replay_ids(pages, queue, ids, None, *spread_ms).await,
        Action::Replay { group: Some(group), spread_ms, .. } => match dead::ids(pages, queue, group).await {
            Ok(ids) => replay_ids(pages, queue, &ids, Some(&group.reason), *spread_ms).await,
            Err(trouble) => Err(trouble),
        },
        Action::Replay { reason, spread_ms, .. } => replay_all(pages, queue, *reason, *spread_ms).await,
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
        went +=
            ask(pages, queue, "DQ.CANCEL", &words).await.map_err(|trouble| after("Cancelled", went, ids, trouble))?;
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
        moved += ask(pages, queue, "DQ.RESCHEDULE", &words)
            .await
            .map_err(|trouble| after("Rescheduled", moved, ids, trouble))?;
    }
    Ok(of("Rescheduled", moved, ids.len()))
}

/// Replays letters by their ids. A call replays at most 8 MiB: what it left is asked for again, until nothing more comes
/// back. Each call has its part of the time that the jobs are spread over. `reason` leaves out letters that died anew of
/// another one meanwhile.
async fn replay_ids(
    pages: &Pages,
    queue: &[u8],
    ids: &[String],
    reason: Option<&str>,
    spread_ms: u64,
) -> Result<String, Trouble> {
    let mut replayed = 0;
    let part = |done: usize| (u128::from(spread_ms) * done as u128 / ids.len() as u128) as u64;
    for (place, some) in some(ids)?.chunks(IDS).enumerate() {
        let (from, to) = (part(place * IDS), part(place * IDS + some.len()));
        let (delay, spread) = (from.to_string(), (to - from).to_string());
        let mut words = reason.map_or(Vec::new(), |reason| vec!["REASON", reason]);
        if spread_ms > 0 {
            words.extend(["DELAY", &delay, "SPREAD", &spread]);
        }
        words.push("IDS");
        words.extend(some.iter().map(String::as_str));
        let mut left = some.len() as i64;
        while left > 0 {
            let now = ask(pages, queue, "DQ.REPLAY", &words)
                .await
                .map_err(|trouble| after("Replayed", replayed, ids, trouble))?;
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
    format!("{} {}", grouped(count), if count == 1 { "job" } else { "jobs" })
}

fn letters(count: i64) -> String {
    format!("{} dead {}", grouped(count), if count == 1 { "letter" } else { "letters" })
}

/// How many of those that were asked for.
fn of(what: &str, count: i64, asked: usize) -> String {
    if count as usize >= asked {
        format!("{what} {}", jobs(count))
    } else {
        let (count, asked) = (grouped(count), grouped(asked as i64));
        format!("{what} {count} of {asked}: the others were gone, or in another state")
    }
}

/// What went wrong, and how many jobs were done before it did.
fn after(what: &str, count: i64, ids: &[String], mut trouble: Trouble) -> Trouble {
    if count > 0 {
        trouble.advice.push(format!("{what} {} of {} before that.", grouped(count), grouped(ids.len() as i64)));
    }
    trouble
}

/// Says that the rest of more than a thousand follows.
fn slices(count: i64) -> &'static str {
    if count > 1000 {
        "; the server goes on with them on its own, and the queue's page shows how many are left"
    } else {
        ""
    }
}

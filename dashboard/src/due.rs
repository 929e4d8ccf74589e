//! When the delayed jobs come due: how many in the next seconds, hours, days.
//!
//! ZCOUNT tells it at once for a queue of any length. A user who may not run that sees the next thousand jobs by
//! DQ.PEEK, and the rest as one number.

use std::collections::HashMap;

use redis::Cmd;
use serde::Serialize;

use crate::jobs::peek;
use crate::node::{command, Node};
use crate::reply::{int, list, pairs};
use crate::sample::now_ms;
use crate::trouble::{Kind, Trouble};

/// The upper ends of the bars, in seconds from now; the last bar has none.
pub const EDGES: [i64; 12] =
    [10, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 4 * 86400, 7 * 86400];

/// Jobs that are counted one by one where ZCOUNT is not allowed.
const PEEKED: i64 = 1000;

/// How many jobs come due in each bar.
#[derive(Clone, Default, Serialize)]
pub struct Bars {
    /// Unix time in ms of the count.
    pub at: u64,
    /// One more than there are edges.
    pub bars: Vec<i64>,
    /// Jobs that are later than what was counted, by how much is not known.
    pub beyond: i64,
    /// What would have to be allowed to count them all.
    pub needs: Option<&'static str>,
}

/// The bars of the queues that somebody looked at.
#[derive(Default)]
pub struct Due {
    pub bars: HashMap<Vec<u8>, Bars>,
    no_zcount: bool,
}

impl Due {
    /// Which of the queues has the oldest bars.
    pub fn oldest<'a>(&self, queues: impl Iterator<Item = &'a Vec<u8>>) -> Option<&'a Vec<u8>> {
        queues.min_by_key(|queue| self.bars.get(*queue).map_or(0, |bars| bars.at))
    }

    pub fn tidy(&mut self, is_there: impl Fn(&[u8]) -> bool) {
        self.bars.retain(|queue, _| is_there(queue));
    }

    /// The bars of all of these queues together.
    pub fn sum<'a>(&self, queues: impl Iterator<Item = &'a Vec<u8>>) -> Bars {
        let mut all = Bars { bars: vec![0; EDGES.len() + 1], at: now_ms(), ..Bars::default() };
        for queue in queues {
            let Some(bars) = self.bars.get(queue) else { continue };
            all.bars.iter_mut().zip(&bars.bars).for_each(|(sum, more)| *sum += more);
            all.beyond += bars.beyond;
            all.at = all.at.min(bars.at);
            all.needs = all.needs.or(bars.needs);
        }
        all
    }
}

/// Counts for one queue. `now` is queue time in ms, `delayed` what the last look said.
pub async fn count(
    node: &Node,
    queue: &[u8],
    now: i64,
    delayed: i64,
    no_zcount: bool,
) -> (Result<Bars, Trouble>, bool) {
    if !no_zcount {
        match by_zcount(node, queue, now).await {
            Err(trouble) if trouble.kind == Kind::Permission => {}
            answer => return (answer, false),
        }
    }
    (by_peek(node, queue, now, delayed).await, true)
}

impl Due {
    pub fn is_without_zcount(&self) -> bool {
        self.no_zcount
    }

    pub fn put(&mut self, queue: &[u8], bars: Bars, no_zcount: bool) {
        self.no_zcount = no_zcount;
        self.bars.insert(queue.to_vec(), bars);
    }
}

async fn by_zcount(node: &Node, queue: &[u8], now: i64) -> Result<Bars, Trouble> {
    let key = due_key(queue);
    let from = format!("({now}");
    let ends = EDGES.iter().map(|edge| (now + edge * 1000).to_string()).chain(["+inf".to_string()]);
    let commands: Vec<Cmd> = ends.map(|end| command("ZCOUNT", &[&key, from.as_bytes(), end.as_bytes()])).collect();
    let mut bars = Vec::new();
    let mut before = 0;
    for answer in node.ask_all(commands).await {
        let up_to = int(&answer?);
        bars.push((up_to - before).max(0));
        before = up_to.max(before);
    }
    Ok(Bars { at: now_ms(), bars, beyond: 0, needs: None })
}

async fn by_peek(node: &Node, queue: &[u8], now: i64, delayed: i64) -> Result<Bars, Trouble> {
    let reply = node.ask(peek(queue, "delayed", PEEKED, b"")).await?;
    let jobs = list(&reply).get(1).map(list).unwrap_or_default();
    let mut bars = vec![0; EDGES.len() + 1];
    for job in jobs {
        let due = pairs(job).into_iter().find(|(name, _)| name == "due-at").map_or(now, |(_, at)| int(at));
        bars[EDGES.iter().position(|edge| due - now <= edge * 1000).unwrap_or(EDGES.len())] += 1;
    }
    let beyond = if (jobs.len() as i64) < PEEKED { 0 } else { (delayed - PEEKED).max(0) };
    Ok(Bars { at: now_ms(), bars, beyond, needs: Some("+zcount") })
}

/// The key of the queue's due times; a name with a hash tag and more is used as it is.
fn due_key(queue: &[u8]) -> Vec<u8> {
    let has_tag = queue
        .iter()
        .position(|byte| *byte == b'{')
        .is_some_and(|open| queue[open + 1..].iter().position(|byte| *byte == b'}').is_some_and(|length| length > 0));
    let (before, after): (&[u8], &[u8]) = if has_tag { (b"dq:", b":due") } else { (b"dq:{", b"}:due") };
    [before, queue, after].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_that_of_the_readme() {
        assert_eq!(due_key(b"mail"), b"dq:{mail}:due");
        assert_eq!(due_key(b"{tenant7}:mail"), b"dq:{tenant7}:mail:due");
    }

    #[test]
    fn bars_add_up_and_are_as_old_as_the_oldest() {
        let (mut due, one, two) = (Due::default(), b"one".to_vec(), b"two".to_vec());
        let bars = |at, count| Bars { at, bars: vec![count; EDGES.len() + 1], beyond: 1, needs: None };
        due.put(&one, bars(50, 2), false);
        due.put(&two, bars(40, 3), false);
        let all = due.sum([&one, &two].into_iter());
        assert_eq!((all.bars[3], all.beyond, all.at), (5, 2, 40));
        assert_eq!(due.oldest([&one, &two].into_iter()), Some(&two));
    }
}

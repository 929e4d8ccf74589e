//! The figures of one queue: what DQ.QUEUES and DQ.STATS told, and what changed meanwhile.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use redis::Value;
use serde::Serialize;

use crate::reply::{int, pairs};

/// How a queue stands: what DQ.QUEUES tells of every queue at every look.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Counts {
    pub ready: i64,
    pub delayed: i64,
    pub leased: i64,
    pub dead: i64,
    pub waiting: i64,
    pub paused: bool,
}

impl Counts {
    /// The same by DQ.STATS.
    pub fn of(stats: &Stats) -> Counts {
        Counts {
            ready: stats.get("ready"),
            delayed: stats.get("delayed"),
            leased: stats.get("leased"),
            dead: stats.get("dead"),
            waiting: stats.get("waiting"),
            paused: stats.get("paused") != 0,
        }
    }
}

/// All fields of DQ.STATS, in the server's order.
#[derive(Clone, Default)]
pub struct Stats(Vec<(String, i64)>);

impl Stats {
    pub fn of(reply: &Value) -> Stats {
        Stats(pairs(reply).into_iter().map(|(name, value)| (name, int(value))).collect())
    }

    /// A field; 0 where the module does not have it.
    pub fn get(&self, name: &str) -> i64 {
        self.0.iter().find(|(field, _)| field == name).map_or(0, |(_, value)| *value)
    }

    pub fn all(&self) -> &[(String, i64)] {
        &self.0
    }
}

/// What only grows, as far as a rate is made of it.
#[derive(Clone, Copy, Default)]
pub struct Counters {
    pub pushed: i64,
    pub claimed: i64,
    pub acked: i64,
    pub retried: i64,
    pub failed: i64,
    pub lapsed: i64,
    pub stale: i64,
    pub evicted: i64,
}

impl Counters {
    fn of(stats: &Stats) -> Counters {
        Counters {
            pushed: stats.get("pushed"),
            claimed: stats.get("claimed"),
            acked: stats.get("acked"),
            retried: stats.get("retried"),
            failed: stats.get("failed"),
            lapsed: stats.get("lapsed"),
            stale: stats.get("stale-purged"),
            evicted: stats.get("dead-evicted"),
        }
    }

    /// Attempts that did not end well.
    pub fn bad(&self) -> i64 {
        self.retried + self.failed + self.lapsed
    }

    /// What was counted since `before`; nothing where the server began anew.
    fn since(&self, before: &Counters) -> Counters {
        let grew = |now: i64, then: i64| (now - then).max(0);
        Counters {
            pushed: grew(self.pushed, before.pushed),
            claimed: grew(self.claimed, before.claimed),
            acked: grew(self.acked, before.acked),
            retried: grew(self.retried, before.retried),
            failed: grew(self.failed, before.failed),
            lapsed: grew(self.lapsed, before.lapsed),
            stale: grew(self.stale, before.stale),
            evicted: grew(self.evicted, before.evicted),
        }
    }
}

/// How long what was counted is remembered.
const MEMORY: Duration = Duration::from_secs(60);

/// A rate is that of the last seconds, so that it can be read while it changes.
const CALM: Duration = Duration::from_secs(5);

/// The counters at the looks of the last minute.
#[derive(Default)]
pub struct Recent(VecDeque<(Instant, Counters)>);

impl Recent {
    pub fn add(&mut self, at: Instant, stats: &Stats) {
        let now = Counters::of(stats);
        // A server that began anew counts from zero: what was before says nothing about what is.
        if self.0.back().is_some_and(|(_, last)| last.claimed > now.claimed || last.pushed > now.pushed) {
            self.0.clear();
        }
        self.0.push_back((at, now));
        while self.0.len() > 2 && self.0[1].0 + MEMORY < at {
            self.0.pop_front();
        }
    }

    /// What was counted within the last minute, and over how many seconds that is.
    pub fn last_minute(&self) -> (Counters, f64) {
        self.span(MEMORY)
    }

    /// What was counted between the last two looks.
    pub fn last_look(&self) -> (Counters, f64) {
        self.span(Duration::ZERO)
    }

    /// What was counted in the last seconds.
    pub fn lately(&self) -> (Counters, f64) {
        self.span(CALM)
    }

    fn span(&self, length: Duration) -> (Counters, f64) {
        let Some((at, now)) = self.0.back() else { return (Counters::default(), 0.0) };
        let before = self.0.iter().rev().skip(1).find(|(then, _)| *then + length <= *at).or(self.0.front());
        before.map_or((Counters::default(), 0.0), |(then, before)| {
            (now.since(before), at.duration_since(*then).as_secs_f64())
        })
    }
}

/// A count as a number a second.
pub fn per_second(count: i64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(pushed: i64, acked: i64) -> Stats {
        Stats(vec![("pushed".to_string(), pushed), ("acked".to_string(), acked), ("claimed".to_string(), acked)])
    }

    #[test]
    fn a_rate_is_what_grew_by_the_time_it_took() {
        let (mut recent, begin) = (Recent::default(), Instant::now());
        assert_eq!(recent.lately().1, 0.0);
        for second in 0..100 {
            recent.add(begin + Duration::from_secs(second), &stats(second as i64 * 10, second as i64 * 7));
        }
        let (counted, seconds) = recent.lately();
        assert_eq!((per_second(counted.pushed, seconds), per_second(counted.acked, seconds)), (10.0, 7.0));
        let (counted, seconds) = recent.last_minute();
        assert_eq!((counted.pushed, seconds), (600, 60.0));
        assert_eq!(recent.last_look().0.pushed, 10);
        assert!(recent.0.len() < 65, "{} looks are kept", recent.0.len());
    }

    #[test]
    fn a_server_that_began_anew_gives_no_rate_of_what_it_had_forgotten() {
        let (mut recent, begin) = (Recent::default(), Instant::now());
        recent.add(begin, &stats(1000, 1000));
        recent.add(begin + Duration::from_secs(1), &stats(5, 0));
        assert_eq!(recent.lately().0.pushed, 0);
        recent.add(begin + Duration::from_secs(2), &stats(8, 1));
        assert_eq!(recent.lately().0.pushed, 3);
    }
}

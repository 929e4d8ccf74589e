//! The metrics of one queue: what DQ.QUEUES and DQ.STATS reported, and what changed meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use serde::Serialize;

use crate::reply::{int, pairs};

/// How many jobs a queue has: what DQ.QUEUES reports for every queue at every look.
#[derive(Clone, Copy, Default, PartialEq, Serialize)]
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

    /// The jobs that `max-length` limits.
    pub fn live(&self) -> i64 {
        self.ready + self.delayed + self.leased
    }
}

/// All fields of DQ.STATS, in the server's order.
#[derive(Clone, Default)]
pub struct Stats(Arc<[(String, i64)]>);

impl Stats {
    pub fn of(reply: &Value) -> Stats {
        Stats(pairs(reply).into_iter().map(|(name, value)| (name, int(value))).collect())
    }

    /// A field; 0 if the module does not have it.
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
    pub refused: i64,
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
            refused: stats.get("refused-full"),
        }
    }

    /// Attempts that their worker reported as failed.
    pub fn failures(&self) -> i64 {
        self.retried + self.failed
    }

    /// Attempts that were not acknowledged.
    pub fn bad(&self) -> i64 {
        self.failures() + self.lapsed
    }

    /// What was counted since `before`; nothing if the server began anew.
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
            refused: grew(self.refused, before.refused),
        }
    }
}

/// What was counted within a time.
#[derive(Clone, Copy, Default)]
pub struct Window {
    pub counted: Counters,
    /// How long the time is, in seconds; 0 if it is not known yet.
    pub seconds: f64,
}

impl Window {
    /// A count as a number a second.
    pub fn rate(&self, of: impl Fn(&Counters) -> i64) -> f64 {
        if self.seconds > 0.0 {
            of(&self.counted) as f64 / self.seconds
        } else {
            0.0
        }
    }
}

/// How long what was counted is remembered.
const MEMORY: Duration = Duration::from_secs(60);

/// A rate is that of the last seconds, so that it can be read while it changes.
const CALM: Duration = Duration::from_secs(5);

/// The counters at the looks of the last minute; of a queue that is looked at less often, at the last two.
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

    /// What was counted within the last minute, and a little more: the time begins at a look, and ends `now`, so that
    /// "in the last …" is true of it.
    pub fn last_minute(&self, now: Instant) -> Window {
        let Window { counted, seconds } = self.span(MEMORY);
        let since = self.0.back().map_or(Duration::ZERO, |(at, _)| now.saturating_duration_since(*at));
        Window { counted, seconds: if seconds > 0.0 { seconds + since.as_secs_f64() } else { 0.0 } }
    }

    /// What was counted between the last two looks.
    pub fn last_look(&self) -> Window {
        self.span(Duration::ZERO)
    }

    /// What was counted in the last seconds before the last look.
    pub fn lately(&self) -> Window {
        self.span(CALM)
    }

    fn span(&self, length: Duration) -> Window {
        let Some((at, now)) = self.0.back() else { return Window::default() };
        let before = self.0.iter().rev().skip(1).find(|(then, _)| *then + length <= *at).or(self.0.front());
        before.map_or(Window::default(), |(then, before)| Window {
            counted: now.since(before),
            seconds: at.duration_since(*then).as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(pushed: i64, acked: i64) -> Stats {
        let fields = [("pushed", pushed), ("acked", acked), ("claimed", acked)];
        Stats(fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }

    #[test]
    fn a_rate_is_what_grew_by_the_time_it_took() {
        let (mut recent, begin) = (Recent::default(), Instant::now());
        assert_eq!(recent.lately().seconds, 0.0);
        let at = |second| begin + Duration::from_secs(second);
        for second in 0..100 {
            recent.add(at(second), &stats(second as i64 * 10, second as i64 * 7));
        }
        let lately = recent.lately();
        assert_eq!((lately.rate(|of| of.pushed), lately.rate(|of| of.acked)), (10.0, 7.0));
        let minute = recent.last_minute(at(99));
        assert_eq!((minute.counted.pushed, minute.seconds), (600, 60.0));
        assert_eq!(recent.last_look().counted.pushed, 10);
        assert!(recent.0.len() < 65, "{} looks are kept", recent.0.len());
        // What was counted then is no longer of the last minute.
        assert_eq!(recent.last_minute(at(159)).seconds, 120.0);
    }

    #[test]
    fn a_server_that_began_anew_gives_no_rate_of_what_it_had_forgotten() {
        let (mut recent, begin) = (Recent::default(), Instant::now());
        recent.add(begin, &stats(1000, 1000));
        recent.add(begin + Duration::from_secs(1), &stats(5, 0));
        assert_eq!(recent.lately().counted.pushed, 0);
        recent.add(begin + Duration::from_secs(2), &stats(8, 1));
        assert_eq!(recent.lately().counted.pushed, 3);
    }
}

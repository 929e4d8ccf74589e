//! Which queues need a person's attention, and why, in plain words.

use serde::Serialize;

use crate::stats::{Counts, Window};

/// How urgent it is, the most urgent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing happens, and nothing has to.
    Idle,
    Flowing,
    /// Worth knowing.
    Note,
    /// Not as it should be.
    Warn,
    /// Jobs are not done.
    Bad,
}

/// What is known of the queue.
#[derive(Clone, Default)]
pub struct Facts {
    pub counts: Counts,
    /// How long the first ready job has been due, in ms.
    pub late_ms: i64,
    /// Whether it may have been due for longer: it was not looked up, but the queue was seen to stand still for so long.
    pub at_least: bool,
    pub far_alarm: bool,
    pub far: i64,
    /// 0: no limit.
    pub max_length: i64,
    pub held: i64,
    pub dangling: i64,
    /// Jobs that REPLAY ALL, PURGE and RESCHEDULE ALL have still to look at.
    pub replaying: i64,
    pub purging: i64,
    pub rescheduling: i64,
    pub lately: Window,
    pub minute: Window,
    /// The most common error of jobs that will be retried, and of the dead letters.
    pub retry_error: Option<String>,
    pub dead_error: Option<String>,
}

/// Why a queue is where it is in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    pub level: Level,
    pub text: String,
    /// How many jobs it is about: of two reasons of a level the one of more jobs is worse.
    pub jobs: i64,
}

impl Reason {
    fn new(level: Level, jobs: i64, text: String) -> Reason {
        Reason { level, text, jobs }
    }

    /// What the list is sorted by: the level, and the order of magnitude of the jobs, so that a queue stays in its place
    /// while its numbers change a little.
    pub fn rank(&self) -> (Level, u32) {
        (self.level, self.jobs.max(0).checked_ilog10().map_or(0, |digits| digits + 1))
    }
}

/// A job that has been due for longer is late: workers that are there take it in a ms.
const LATE_MS: i64 = 2_000;
/// Fewer attempts than these say nothing about a queue as a whole.
const FEW: i64 = 3;
/// Percent of the attempts that fail: from there on it is worth a look, and from there on most of the work is lost.
const SOME: i64 = 10;
const MOST: i64 = 50;

/// The most urgent reason first.
pub fn reasons(facts: &Facts) -> Vec<Reason> {
    let all = [
        failing(facts),
        full(facts),
        late(facts),
        stale(facts),
        lapsed(facts),
        died(facts),
        held(facts),
        evicted(facts),
        far(facts),
        broken(facts),
        paused(facts),
        busy(facts),
        dead(facts),
    ];
    let mut found: Vec<Reason> = all.into_iter().flatten().collect();
    if found.iter().all(|reason| reason.level < Level::Note) {
        found.push(calm(facts));
    }
    found.sort_by_key(|reason| std::cmp::Reverse(reason.level));
    found
}

fn failing(facts: &Facts) -> Option<Reason> {
    let counted = facts.minute.counted;
    let (failed, ended) = (counted.failures(), counted.failures() + counted.acked);
    if failed < FEW || failed * 100 < ended * SOME {
        return None;
    }
    let share = failed * 100 / ended;
    let (level, what) = match share {
        100 => (Level::Bad, "every attempt fails".to_string()),
        MOST.. => (Level::Bad, format!("{share} % of the attempts fail")),
        _ => (Level::Warn, format!("{share} % of the attempts fail")),
    };
    let error = facts.retry_error.as_ref().filter(|_| counted.retried > 0).or(facts.dead_error.as_ref());
    let text = format!("{what}: {} in {}{}", grouped(failed), window(&facts.minute), mostly(error));
    Some(Reason::new(level, failed, text))
}

fn full(facts: &Facts) -> Option<Reason> {
    let (max, refused) = (facts.max_length, facts.minute.counted.refused);
    let is_full = max > 0 && facts.counts.live() >= max;
    let pushes = || format!("{} refused in {}", count(refused, "push", "pushes"), window(&facts.minute));
    let limit = format!("max-length is {}", grouped(max));
    match (is_full, refused > 0) {
        (true, true) => Some(Reason::new(Level::Bad, refused, format!("full: {}, {limit}", pushes()))),
        (true, false) => {
            Some(Reason::new(Level::Warn, facts.counts.live(), format!("full: {limit}, pushes are refused")))
        }
        (false, true) => Some(Reason::new(Level::Warn, refused, format!("was full: {}, {limit}", pushes()))),
        (false, false) => None,
    }
}

fn late(facts: &Facts) -> Option<Reason> {
    let Counts { ready, leased, waiting, paused, .. } = facts.counts;
    if facts.late_ms < LATE_MS || ready == 0 {
        return None;
    }
    let late = format!("late by {}{}", if facts.at_least { "at least " } else { "" }, duration(facts.late_ms));
    let claims = facts.lately.rate(|of| of.claimed);
    let is_claimed = claims > 0.0 && !facts.at_least;
    let (level, text) = match () {
        () if paused => (Level::Warn, format!("{late}: paused")),
        () if waiting > 0 => {
            (Level::Warn, format!("{late}, though {} for jobs: is max-leased reached?", workers_wait(waiting)))
        }
        () if !is_claimed && leased == 0 => (Level::Bad, format!("{late}: no worker claims or waits")),
        () if !is_claimed => (Level::Bad, format!("{late}: {} in progress, nothing claimed", jobs(leased))),
        () => {
            let (pushes, done) = (facts.lately.rate(|of| of.pushed), facts.lately.rate(|of| of.acked));
            let trend = match () {
                () if done == 0.0 => "and nothing is acknowledged".to_string(),
                () if pushes > done => {
                    format!("and falls behind: {} acknowledged a second, {} pushed", rate(done), rate(pushes))
                }
                () => format!("and catches up: {} acknowledged a second, {} pushed", rate(done), rate(pushes)),
            };
            (Level::Warn, format!("{late} {trend}"))
        }
    };
    Some(Reason::new(level, ready, text))
}

fn broken(facts: &Facts) -> Option<Reason> {
    (facts.dangling > 0).then(|| {
        let entries = count(facts.dangling, "index entry", "index entries");
        Reason::new(Level::Warn, facts.dangling, format!("{entries} without a readable job: DQ.CHECK tells more"))
    })
}

fn died(facts: &Facts) -> Option<Reason> {
    let died = facts.minute.counted.failed;
    (died > 0).then(|| {
        // Said already by a reason before this one.
        let error = mostly(facts.dead_error.as_ref().filter(|_| failing(facts).is_none()));
        Reason::new(Level::Warn, died, format!("{} died in {}{error}", jobs(died), window(&facts.minute)))
    })
}

fn stale(facts: &Facts) -> Option<Reason> {
    let stale = facts.minute.counted.stale;
    (stale > 0).then(|| {
        let text = format!(
            "{} in {}: nobody works on the queue",
            count(stale, "stale job purged", "stale jobs purged"),
            window(&facts.minute)
        );
        Reason::new(Level::Bad, stale, text)
    })
}

fn lapsed(facts: &Facts) -> Option<Reason> {
    let counted = facts.minute.counted;
    (counted.lapsed > 0).then(|| {
        let none_done = counted.acked == 0 && counted.lapsed >= FEW;
        let leases = count(counted.lapsed, "lease", "leases");
        let text = format!("{leases} lapsed in {}: workers crash or are slow", window(&facts.minute));
        Reason::new(if none_done { Level::Bad } else { Level::Warn }, counted.lapsed, text)
    })
}

fn held(facts: &Facts) -> Option<Reason> {
    (facts.held > 0).then(|| {
        let text = format!("{} stale, and no room for dead letters: dead-max is reached", jobs(facts.held));
        Reason::new(Level::Bad, facts.held, text)
    })
}

fn evicted(facts: &Facts) -> Option<Reason> {
    let evicted = facts.minute.counted.evicted;
    (evicted > 0).then(|| {
        let letters = count(evicted, "dead letter", "dead letters");
        Reason::new(Level::Warn, evicted, format!("{letters} evicted in {}", window(&facts.minute)))
    })
}

fn far(facts: &Facts) -> Option<Reason> {
    facts.far_alarm.then(|| {
        Reason::new(Level::Warn, facts.far, format!("far-future alarm: {} due far in the future", jobs(facts.far)))
    })
}

fn paused(facts: &Facts) -> Option<Reason> {
    (facts.counts.paused && facts.late_ms < LATE_MS).then(|| Reason::new(Level::Note, 0, "paused".to_string()))
}

fn busy(facts: &Facts) -> Option<Reason> {
    let under_way = [("replaying", facts.replaying), ("purging", facts.purging), ("rescheduling", facts.rescheduling)];
    let (what, left) = under_way.into_iter().find(|(_, left)| *left > 0)?;
    Some(Reason::new(Level::Note, left, format!("{what}: {} to go", grouped(left))))
}

fn dead(facts: &Facts) -> Option<Reason> {
    let dead = facts.counts.dead;
    (dead > 0).then(|| Reason::new(Level::Note, dead, count(dead, "dead letter", "dead letters")))
}

/// What is said if nothing is wrong.
fn calm(facts: &Facts) -> Reason {
    let Counts { ready, delayed, leased, waiting, .. } = facts.counts;
    let done = facts.lately.rate(|of| of.acked);
    let (level, text) = match () {
        () if done > 0.0 => (Level::Flowing, "flowing".to_string()),
        () if leased > 0 => (Level::Flowing, format!("{} in progress", jobs(leased))),
        () if ready > 0 => (Level::Flowing, format!("{} just due", jobs(ready))),
        () if waiting > 0 => (Level::Idle, workers_wait(waiting)),
        () if delayed > 0 => (Level::Idle, "nothing due yet".to_string()),
        () => (Level::Idle, "empty".to_string()),
    };
    Reason::new(level, 0, text)
}

/// The error that most of the jobs have, at the end of a reason.
fn mostly(error: Option<&String>) -> String {
    error.map_or(String::new(), |error| format!(", mostly “{error}”"))
}

/// How long ago the time of a window began, as a part of a sentence.
fn window(window: &Window) -> String {
    match window.seconds.round() as i64 {
        s @ ..45 => format!("the last {} s", s.max(1)),
        45..=75 => "the last minute".to_string(),
        s => format!("the last {} min", (s + 59) / 60),
    }
}

fn workers_wait(number: i64) -> String {
    format!("{} {}", count(number, "worker", "workers"), if number == 1 { "waits" } else { "wait" })
}

fn jobs(number: i64) -> String {
    count(number, "job", "jobs")
}

fn count(number: i64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// A number with a comma at each thousand.
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if number < 0 {
        out.insert(0, '-');
    }
    out
}

fn rate(rate: f64) -> String {
    if rate < 10.0 {
        format!("{rate:.1}")
    } else {
        grouped(rate.round() as i64)
    }
}

/// Two units at the most: "12 s", "3 min 5 s", "2 d 4 h".
fn duration(ms: i64) -> String {
    let s = ms / 1000;
    let parts = [(s / 86400, "d"), (s / 3600 % 24, "h"), (s / 60 % 60, "min"), (s % 60, "s")];
    let first = parts.iter().position(|(n, _)| *n > 0).unwrap_or(3);
    let two = parts[first..].iter().take(2).filter(|(n, unit)| *n > 0 || *unit == "s" && first == 3);
    two.map(|(n, unit)| format!("{n} {unit}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Counters;

    fn first(facts: Facts) -> (Level, String) {
        let reason = reasons(&facts).remove(0);
        (reason.level, reason.text)
    }

    fn facts(counts: Counts, late_ms: i64) -> Facts {
        Facts { counts, late_ms, lately: Window { seconds: 5.0, ..Default::default() }, ..Default::default() }
    }

    fn in_a_minute(counted: Counters) -> Facts {
        Facts { minute: Window { counted, seconds: 60.0 }, ..facts(Counts::default(), 0) }
    }

    #[test]
    fn the_reason_is_told_in_plain_words() {
        let ready = Counts { ready: 5, ..Default::default() };
        assert_eq!(first(facts(ready, 12_000)), (Level::Bad, "late by 12 s: no worker claims or waits".into()));
        let unseen = Facts { at_least: true, ..facts(ready, 12_000) };
        assert_eq!(first(unseen), (Level::Bad, "late by at least 12 s: no worker claims or waits".into()));
        let paused = Counts { paused: true, ..ready };
        assert_eq!(first(facts(paused, 65_000)), (Level::Warn, "late by 1 min 5 s: paused".into()));
        let waits = Counts { waiting: 2, ..Default::default() };
        assert_eq!(first(facts(waits, 0)), (Level::Idle, "2 workers wait".into()));
        let dead = Counts { dead: 1_234, ..Default::default() };
        assert_eq!(first(facts(dead, 0)), (Level::Note, "1,234 dead letters".into()));
    }

    #[test]
    fn only_what_is_acknowledged_catches_up() {
        let mut slow = facts(Counts { ready: 9, leased: 4, ..Default::default() }, 3_000);
        slow.lately.counted = Counters { claimed: 600, acked: 100, pushed: 500, ..Default::default() };
        let behind = "late by 3 s and falls behind: 20 acknowledged a second, 100 pushed";
        assert_eq!(first(slow.clone()), (Level::Warn, behind.into()));
        slow.lately.counted.pushed = 10;
        assert!(first(slow.clone()).1.contains("catches up"));
        slow.lately.counted.acked = 0;
        assert_eq!(first(slow).1, "late by 3 s and nothing is acknowledged");
    }

    #[test]
    fn a_queue_that_fails_is_not_a_queue_that_flows() {
        let all = in_a_minute(Counters { claimed: 3000, retried: 3000, ..Default::default() });
        let text = "every attempt fails: 3,000 in the last minute, mostly “HTTP 502”";
        let all = Facts { retry_error: Some("HTTP 502".into()), ..all };
        assert_eq!(first(all), (Level::Bad, text.into()));
        let most = in_a_minute(Counters { retried: 4, failed: 2, acked: 4, ..Default::default() });
        assert_eq!(first(most), (Level::Bad, "60 % of the attempts fail: 6 in the last minute".into()));
        let some = in_a_minute(Counters { retried: 12, acked: 88, ..Default::default() });
        assert_eq!(first(some).0, Level::Warn);
        let few = in_a_minute(Counters { retried: 9, acked: 91, ..Default::default() });
        assert_eq!(first(few).0, Level::Idle);
    }

    #[test]
    fn a_full_queue_says_so_and_how_many_pushes_it_refused() {
        let counts = Counts { ready: 6, delayed: 3, leased: 1, ..Default::default() };
        let full = Facts { max_length: 10, ..facts(counts, 0) };
        assert_eq!(first(full.clone()), (Level::Warn, "full: max-length is 10, pushes are refused".into()));
        let refusing = Window { counted: Counters { refused: 7, ..Default::default() }, seconds: 20.0 };
        let full = Facts { minute: refusing, ..full };
        assert_eq!(
            first(full.clone()),
            (Level::Bad, "full: 7 pushes refused in the last 20 s, max-length is 10".into())
        );
        assert!(first(Facts { max_length: 100, ..full }).1.starts_with("was full: 7 pushes refused"));
    }

    #[test]
    fn what_is_urgent_comes_first() {
        let mut all = facts(Counts { ready: 5, dead: 3, ..Default::default() }, 12_000);
        all.minute = Window { counted: Counters { failed: 1, acked: 90, ..Default::default() }, seconds: 60.0 };
        all.replaying = 7;
        let levels: Vec<Level> = reasons(&all).into_iter().map(|reason| reason.level).collect();
        assert_eq!(levels, [Level::Bad, Level::Warn, Level::Note, Level::Note]);
        let rank = |jobs| Reason::new(Level::Bad, jobs, String::new()).rank();
        assert!(rank(1000) > rank(999) && rank(900) == rank(500) && rank(1) > rank(0));
    }

    #[test]
    fn a_time_is_what_it_says() {
        let shown =
            [0.4, 44.0, 45.0, 75.0, 76.0, 130.0].map(|seconds| window(&Window { seconds, ..Default::default() }));
        assert_eq!(
            shown,
            ["the last 1 s", "the last 44 s", "the last minute", "the last minute", "the last 2 min", "the last 3 min"]
        );
    }

    #[test]
    fn numbers_and_durations_are_for_people() {
        let shown: Vec<String> = [0, 999, 1000, 1234567, -1234].into_iter().map(grouped).collect();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567", "-1,234"]);
        let shown: Vec<String> = [0, 59_999, 60_000, 3_605_000, 187_200_000].into_iter().map(duration).collect();
        assert_eq!(shown, ["0 s", "59 s", "1 min", "1 h", "2 d 4 h"]);
    }
}

//! What of a queue wants a person's attention, and why, in plain words.

use serde::Serialize;

use crate::stats::{per_second, Counters, Counts};

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
#[derive(Clone, Copy, Default)]
pub struct Facts {
    pub counts: Counts,
    /// How long the first ready job has been due, in ms.
    pub late_ms: i64,
    pub far_alarm: bool,
    pub far: i64,
    pub held: i64,
    pub dangling: i64,
    /// Jobs that REPLAY ALL, PURGE and RESCHEDULE ALL have still to look at.
    pub replaying: i64,
    pub purging: i64,
    pub rescheduling: i64,
    pub lately: Counters,
    pub lately_s: f64,
    pub minute: Counters,
}

/// A job that has been due for longer is late: workers that are there take it in a ms.
const LATE_MS: i64 = 2_000;

/// The most urgent reason first.
pub fn reasons(facts: &Facts) -> Vec<(Level, String)> {
    let all = [
        late(facts),
        broken(facts),
        died(facts),
        lapsed(facts),
        held(facts),
        far(facts),
        paused(facts),
        busy(facts),
        dead(facts),
    ];
    let mut found: Vec<(Level, String)> = all.into_iter().flatten().collect();
    if found.iter().all(|(level, _)| *level < Level::Note) {
        found.push(calm(facts));
    }
    found.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    found
}

fn late(facts: &Facts) -> Option<(Level, String)> {
    let Counts { ready, leased, waiting, paused, .. } = facts.counts;
    if facts.late_ms < LATE_MS || ready == 0 {
        return None;
    }
    let late = format!("late by {}", duration(facts.late_ms));
    let claims = per_second(facts.lately.claimed, facts.lately_s);
    Some(match () {
        () if paused => (Level::Warn, format!("{late}: paused")),
        () if waiting > 0 => {
            (Level::Warn, format!("{late}, though there are workers that wait: is max-leased reached?"))
        }
        () if leased == 0 && claims == 0.0 => (Level::Bad, format!("{late}: no worker claims or waits")),
        () if claims == 0.0 => (Level::Bad, format!("{late}: {} in hand, nothing claimed", jobs(leased))),
        () => {
            let pushes = per_second(facts.lately.pushed, facts.lately_s);
            let trend = if pushes > claims { "and falls behind" } else { "and catches up" };
            (Level::Warn, format!("{late} {trend}: {} claimed a second, {} pushed", rate(claims), rate(pushes)))
        }
    })
}

fn broken(facts: &Facts) -> Option<(Level, String)> {
    (facts.dangling > 0).then(|| {
        (
            Level::Note,
            format!("{} met without a readable job: DQ.CHECK tells more", count(facts.dangling, "entry", "entries")),
        )
    })
}

fn died(facts: &Facts) -> Option<(Level, String)> {
    let died = facts.minute.failed + facts.minute.stale;
    (died > 0).then(|| (Level::Warn, format!("{} died in the last minute", jobs(died))))
}

fn lapsed(facts: &Facts) -> Option<(Level, String)> {
    let lapsed = facts.minute.lapsed;
    (lapsed > 0).then(|| {
        (
            Level::Warn,
            format!("{} ran out in the last minute: workers die or are slow", count(lapsed, "lease", "leases")),
        )
    })
}

fn held(facts: &Facts) -> Option<(Level, String)> {
    (facts.held > 0).then(|| (Level::Warn, format!("{} stale, and no room for dead letters", jobs(facts.held))))
}

fn far(facts: &Facts) -> Option<(Level, String)> {
    facts.far_alarm.then(|| (Level::Warn, format!("far alarm: {} due far in the future", jobs(facts.far))))
}

fn paused(facts: &Facts) -> Option<(Level, String)> {
    (facts.counts.paused && facts.late_ms < LATE_MS).then(|| (Level::Note, "paused".to_string()))
}

fn busy(facts: &Facts) -> Option<(Level, String)> {
    let under_way = [("replaying", facts.replaying), ("purging", facts.purging), ("rescheduling", facts.rescheduling)];
    let (what, left) = under_way.into_iter().find(|(_, left)| *left > 0)?;
    Some((Level::Note, format!("{what}: {} to go", grouped(left))))
}

fn dead(facts: &Facts) -> Option<(Level, String)> {
    (facts.counts.dead > 0).then(|| (Level::Note, count(facts.counts.dead, "dead letter", "dead letters")))
}

/// What is said where nothing is wrong.
fn calm(facts: &Facts) -> (Level, String) {
    let Counts { ready, delayed, leased, waiting, .. } = facts.counts;
    let done = per_second(facts.lately.acked, facts.lately_s);
    match () {
        () if done > 0.0 => (Level::Flowing, "flows".to_string()),
        () if leased > 0 => (Level::Flowing, format!("{} in hand", jobs(leased))),
        () if ready > 0 => (Level::Flowing, format!("{} just due", jobs(ready))),
        () if waiting > 0 => {
            (Level::Idle, format!("{} {}", workers(waiting), if waiting == 1 { "waits" } else { "wait" }))
        }
        () if delayed > 0 => (Level::Idle, "nothing due yet".to_string()),
        () => (Level::Idle, "empty".to_string()),
    }
}

fn jobs(number: i64) -> String {
    count(number, "job", "jobs")
}

fn workers(number: i64) -> String {
    count(number, "worker", "workers")
}

fn count(number: i64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// A number with a comma at each thousand.
fn grouped(number: i64) -> String {
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

    fn first(facts: Facts) -> (Level, String) {
        reasons(&facts).remove(0)
    }

    fn facts(counts: Counts, late_ms: i64) -> Facts {
        Facts { counts, late_ms, lately_s: 5.0, ..Default::default() }
    }

    #[test]
    fn the_reason_is_told_in_plain_words() {
        let ready = Counts { ready: 5, ..Default::default() };
        assert_eq!(first(facts(ready, 12_000)), (Level::Bad, "late by 12 s: no worker claims or waits".into()));
        let paused = Counts { paused: true, ..ready };
        assert_eq!(first(facts(paused, 65_000)), (Level::Warn, "late by 1 min 5 s: paused".into()));
        let waits = Counts { waiting: 2, ..Default::default() };
        assert_eq!(first(facts(waits, 0)), (Level::Idle, "2 workers wait".into()));
        let dead = Counts { dead: 1_234, ..Default::default() };
        assert_eq!(first(facts(dead, 0)), (Level::Note, "1,234 dead letters".into()));
        let mut slow = facts(Counts { ready: 9, leased: 4, ..Default::default() }, 3_000);
        slow.lately = Counters { claimed: 100, pushed: 500, ..Default::default() };
        assert_eq!(first(slow), (Level::Warn, "late by 3 s and falls behind: 20 claimed a second, 100 pushed".into()));
        slow.lately.pushed = 10;
        assert!(first(slow).1.contains("catches up"));
    }

    #[test]
    fn what_is_urgent_comes_first() {
        let mut all = facts(Counts { ready: 5, dead: 3, ..Default::default() }, 12_000);
        all.minute.failed = 1;
        all.replaying = 7;
        let levels: Vec<Level> = reasons(&all).into_iter().map(|(level, _)| level).collect();
        assert_eq!(levels, [Level::Bad, Level::Warn, Level::Note, Level::Note]);
    }

    #[test]
    fn numbers_and_durations_are_for_people() {
        let shown: Vec<String> = [0, 999, 1000, 1234567, -1234].into_iter().map(grouped).collect();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567", "-1,234"]);
        let shown: Vec<String> = [0, 59_999, 60_000, 3_605_000, 187_200_000].into_iter().map(duration).collect();
        assert_eq!(shown, ["0 s", "59 s", "1 min", "1 h", "2 d 4 h"]);
    }
}

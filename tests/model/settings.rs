//! The settings as docs/settings.md has them.

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Duration,
    Number,
    Word(&'static [&'static str]),
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    pub default: u64,
    /// Whether a queue can have a value of its own.
    pub of_queues: bool,
}

const fn server(name: &'static str, kind: Kind, default: u64) -> Setting {
    Setting { name, kind, default, of_queues: false }
}

const fn both(name: &'static str, kind: Kind, default: u64) -> Setting {
    Setting { name, kind, default, of_queues: true }
}

use Kind::{Duration, Number, Word};

/// All of them; those that a queue can have in the order in which DQ.CONFIG GET has them.
pub const ALL: [Setting; 24] = [
    both("lease", Duration, 30 * SECOND),
    both("max-retries", Number, 300),
    both("max-lapses", Number, 5),
    both("backoff-base", Duration, SECOND),
    both("backoff-cap", Duration, 5 * MINUTE),
    both("backoff-jitter", Number, 0),
    both("max-delay", Duration, 7 * DAY),
    both("max-payload", Number, MIB),
    both("max-length", Number, 0),
    both("max-leased", Number, 0),
    both("max-error", Number, 64 * KIB),
    both("far-horizon", Duration, HOUR),
    both("far-alarm", Number, 100_000),
    both("stale-after", Duration, 5 * MINUTE),
    both("stale-policy", Word(&["dead", "drop", "keep"]), 0),
    both("dead-max", Number, 100_000),
    both("dead-max-age", Duration, 90 * DAY),
    both("id-keep", Duration, 5 * MINUTE),
    server("max-lease", Duration, 12 * HOUR),
    server("purge-interval", Duration, 5 * MINUTE),
    server("takeover-grace", Duration, 5 * SECOND),
    server("idle-queue-ttl", Duration, DAY),
    server("clock-step", Word(&["slew", "follow"]), 0),
    server("enabled", Word(&["yes", "no"]), 0),
];

/// The setting of that name.
pub fn setting(name: &str) -> &'static Setting {
    ALL.iter().find(|setting| setting.name == name).unwrap_or_else(|| panic!("there is no setting {name}"))
}

/// Those that a queue can have.
pub fn of_queues() -> impl Iterator<Item = &'static Setting> {
    ALL.iter().filter(|setting| setting.of_queues)
}

impl Setting {
    /// The value as the server shows it.
    pub fn show(&self, value: u64) -> String {
        match self.kind {
            Number => value.to_string(),
            Word(words) => words[value as usize].to_string(),
            Duration => {
                let units = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s")];
                match units.iter().find(|(unit, _)| value >= *unit && value.is_multiple_of(*unit)) {
                    Some((unit, name)) => format!("{}{name}", value / unit),
                    None => format!("{value}ms"),
                }
            }
        }
    }
}

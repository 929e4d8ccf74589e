//! What all browsers are shown: one look at the servers, made once however many ask for it.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use percent_encoding::{percent_encode, NON_ALPHANUMERIC};
use serde::Serialize;

use crate::attention::Level;
use crate::server::Facts;
use crate::stats::{Counts, Stats};
use crate::trouble::Trouble;

/// One look.
#[derive(Clone, Default)]
pub struct Sample {
    /// Grows with each look.
    pub number: u64,
    /// Unix time in ms by this machine.
    pub at: u64,
    /// What stands in the way, and since when; the rows are those of the last look that worked.
    pub trouble: Option<(Trouble, u64)>,
    pub servers: Vec<Facts>,
    /// The queues, the most urgent first.
    pub rows: Vec<Row>,
    /// All figures of each queue, and when they were asked for.
    pub stats: HashMap<Vec<u8>, (Stats, u64)>,
}

/// A queue at a glance.
#[derive(Clone, Serialize)]
pub struct Row {
    #[serde(skip)]
    pub raw: Vec<u8>,
    /// The name as a page's address has it.
    pub key: String,
    /// The name for the eye.
    pub name: String,
    pub level: Level,
    /// Why it is where it is, the most urgent reason first.
    pub why: Vec<String>,
    #[serde(flatten)]
    pub counts: Counts,
    pub late_ms: i64,
    pub far: i64,
    pub far_alarm: bool,
    pub memory: i64,
    pub pushed: f64,
    pub acked: f64,
    pub bad: f64,
    pub p50_us: i64,
    pub p99_us: i64,
    pub max_us: i64,
    pub replaying: i64,
    pub purging: i64,
    pub rescheduling: i64,
    /// How old the figures of DQ.STATS are, in ms; nil before the first.
    pub age_ms: Option<u64>,
    /// Ready and leased jobs at the last looks.
    pub backlog: Vec<f32>,
    pub node: String,
}

/// Everything together.
#[derive(Default, Serialize)]
pub struct Totals {
    pub queues: usize,
    pub attention: usize,
    pub ready: i64,
    pub delayed: i64,
    pub leased: i64,
    pub dead: i64,
    pub waiting: i64,
    pub pushed: f64,
    pub acked: f64,
    pub bad: f64,
    pub late_ms: i64,
    pub memory: i64,
}

impl Totals {
    pub fn of(rows: &[Row]) -> Totals {
        let mut all = Totals { queues: rows.len(), ..Totals::default() };
        for row in rows {
            all.attention += usize::from(row.level >= Level::Warn);
            all.ready += row.counts.ready;
            all.delayed += row.counts.delayed;
            all.leased += row.counts.leased;
            all.dead += row.counts.dead;
            all.waiting += row.counts.waiting;
            all.pushed += row.pushed;
            all.acked += row.acked;
            all.bad += row.bad;
            all.late_ms = all.late_ms.max(row.late_ms);
            all.memory += row.memory;
        }
        all
    }
}

impl Sample {
    pub fn row(&self, queue: &[u8]) -> Option<&Row> {
        self.rows.iter().find(|row| row.raw == queue)
    }
}

/// A queue's name in an address: letters and digits as they are, all other bytes by their numbers.
pub fn key(queue: &[u8]) -> String {
    percent_encode(queue, NON_ALPHANUMERIC).to_string()
}

/// Unix time in ms by this machine.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

//! What all browsers are shown: one look at the servers, made once however many ask for it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use percent_encoding::{percent_encode, NON_ALPHANUMERIC};
use serde::Serialize;

use crate::attention::Level;
use crate::server::Facts;
use crate::stats::{Counts, Stats};
use crate::trouble::Trouble;

/// One look.
#[derive(Default)]
pub struct Sample {
    /// Grows with each look.
    pub number: u64,
    /// When the rows were asked for, as Unix time in ms by this machine.
    pub at: u64,
    /// What stands in the way, and since when; the rows are those of the last look that worked.
    pub trouble: Option<(Trouble, u64)>,
    pub servers: Vec<Facts>,
    /// The queues, the most urgent first.
    pub rows: Arc<Vec<Row>>,
    pub totals: Totals,
    /// All metrics of each queue, and when they were asked for.
    pub stats: HashMap<Vec<u8>, (Stats, u64)>,
    /// The places of the rows in each order but the first, once somebody asked for it.
    pub orders: [OnceLock<Vec<usize>>; Sort::COUNT],
}

/// What the list of queues is sorted by.
#[derive(Clone, Copy, PartialEq)]
pub enum Sort {
    Attention,
    Name,
    Late,
    Ready,
    Dead,
    Done,
}

impl Sort {
    pub const COUNT: usize = 6;

    /// As an address names it; what needs attention for any other name.
    pub fn of(name: &str) -> Sort {
        match name {
            "name" => Sort::Name,
            "late" => Sort::Late,
            "ready" => Sort::Ready,
            "dead" => Sort::Dead,
            "done" => Sort::Done,
            _ => Sort::Attention,
        }
    }

    fn compare(self, a: &Row, b: &Row) -> Ordering {
        match self {
            Sort::Attention => Ordering::Equal,
            Sort::Name => a.raw.cmp(&b.raw),
            Sort::Late => b.late_ms.cmp(&a.late_ms),
            Sort::Ready => b.counts.ready.cmp(&a.counts.ready),
            Sort::Dead => b.counts.dead.cmp(&a.counts.dead),
            Sort::Done => b.acked.total_cmp(&a.acked),
        }
    }
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
    /// How old the metrics of DQ.STATS are, in ms; nil before the first.
    pub age_ms: Option<u64>,
    /// How many seconds the rates are the mean of.
    pub rate_s: f64,
    /// Ready and leased jobs at the last looks.
    pub backlog: Vec<f32>,
    pub node: String,
}

/// Everything together.
#[derive(Clone, Default, Serialize)]
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
    /// The rows in an order; rows that are equal in it stay in that of attention.
    pub fn sorted(&self, sort: Sort) -> impl Iterator<Item = &Row> {
        let order = self.orders[sort as usize].get_or_init(|| {
            let mut order: Vec<usize> = (0..self.rows.len()).collect();
            order.sort_by(|a, b| sort.compare(&self.rows[*a], &self.rows[*b]));
            order
        });
        order.iter().map(|place| &self.rows[*place])
    }

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

//! What is counted of a queue on this node since the module was loaded.

use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};

/// A number that only grows.
#[derive(Default)]
pub struct Counter(Cell<u64>);

impl Counter {
    pub fn add(&self, more: usize) {
        self.0.set(self.0.get().saturating_add(more as u64));
    }

    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// Every count of one queue.
#[derive(Default)]
pub struct Metrics {
    pub pushed: Counter,
    pub deduplicated: Counter,
    pub claimed: Counter,
    pub acked: Counter,
    pub retried: Counter,
    pub released: Counter,
    pub failed: Counter,
    pub lapsed: Counter,
    pub lease_lost: Counter,
    pub stale_purged: Counter,
    /// What of `stale_purged` is logged.
    pub stale_logged: Cell<u64>,
    /// Stale jobs that the last purge left in their place because there was no room for more dead letters.
    pub stale_held: Cell<u64>,
    pub dead_evicted: Counter,
    /// Pushes that were refused because the queue was at its `max-length`.
    pub refused_full: Counter,
    pub replayed: Counter,
    pub cancelled: Counter,
    pub purged: Counter,
    pub rescheduled: Counter,
    /// Jobs that became dead letters, for whatever reason.
    pub buried: Counter,
    /// Index entries that were met without a readable job.
    pub dangling: Counter,
    /// Times the header was made again after it was taken away.
    pub headers_remade: Counter,
    pub lateness: Lateness,
}

impl Metrics {
    /// Dead letters made so far.
    pub fn dead_letters(&self) -> u64 {
        self.buried.get()
    }
}

/// How long after its due time a job was claimed, in µs, to two digits.
#[derive(Default)]
pub struct Lateness(RefCell<Option<Histogram<u32>>>);

/// Digits of a figure that are kept.
const DIGITS: u8 = 2;

impl Lateness {
    pub fn record(&self, late_us: u64) {
        let mut histogram = self.0.borrow_mut();
        if histogram.is_none() {
            *histogram = Histogram::new(DIGITS).ok();
        }
        if let Some(histogram) = histogram.as_mut() {
            // It grows to fit, and only memory that is out could stop it: then this one figure is left out.
            let _ = histogram.record(late_us);
        }
    }

    /// The value at or under which a share of `quantile` (0 to 1) of the claims lies; 0 where there is none.
    pub fn at(&self, quantile: f64) -> u64 {
        self.0.borrow().as_ref().map_or(0, |histogram| histogram.value_at_quantile(quantile))
    }

    pub fn max(&self) -> u64 {
        self.0.borrow().as_ref().map_or(0, Histogram::max)
    }
}

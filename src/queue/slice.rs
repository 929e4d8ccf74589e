//! How much work one turn may do.

use std::time::{Duration, Instant};

/// Jobs a turn may move.
const JOBS: usize = 500;
/// Bytes of records a turn may hand to the replicas and the AOF.
const BYTES: usize = 1024 * 1024;
/// Time a turn may take.
const TIME: Duration = Duration::from_millis(1);

/// What is left of one turn. The first job always fits, so that every turn gets on.
pub struct Slice {
    jobs: usize,
    bytes: usize,
    until: Instant,
}

impl Slice {
    pub fn new() -> Slice {
        Slice { jobs: JOBS, bytes: BYTES, until: Instant::now() + TIME }
    }

    /// Jobs that may still be looked at.
    pub fn jobs(&self) -> usize {
        if self.is_over() {
            0
        } else {
            self.jobs
        }
    }

    pub fn spend(&mut self, bytes: usize) {
        self.jobs = self.jobs.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub fn is_over(&self) -> bool {
        self.jobs == 0 || self.bytes == 0 || Instant::now() >= self.until
    }
}

/// Whether a step did all that there was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    More,
}

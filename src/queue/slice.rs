//! How much work one turn may do.

use std::time::{Duration, Instant};

/// Jobs a turn may move.
const JOBS: usize = 500;
/// Bytes of records a turn may hand to the replicas and the AOF.
const BYTES: usize = 1024 * 1024;
/// Time a turn may take.
const TIME: Duration = Duration::from_millis(1);

/// Jobs that a command may move by itself: 1,000, and the look that finds no more.
const JOBS_AT_ONCE: usize = 1001;
/// Bytes of records that a command may hand to the replicas and the AOF.
const BYTES_AT_ONCE: usize = 8 * 1024 * 1024;

/// What is left of one turn. The first job always fits, so that every turn gets on.
pub struct Slice {
    jobs: usize,
    bytes: usize,
    /// `None`: what one command does by itself does not depend on how fast the machine is.
    until: Option<Instant>,
}

impl Slice {
    pub fn new() -> Slice {
        Slice { jobs: JOBS, bytes: BYTES, until: Some(Instant::now() + TIME) }
    }

    /// What a command does before it answers.
    pub fn at_once() -> Slice {
        Slice { jobs: JOBS_AT_ONCE, bytes: BYTES_AT_ONCE, until: None }
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

    /// Bytes that were read or written for a job that is counted already.
    pub fn spend_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub fn is_over(&self) -> bool {
        self.jobs == 0 || self.bytes == 0 || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Whether a step did all that there was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    More,
}

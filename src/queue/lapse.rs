//! Leases that end: the job is due again, and the lapse is counted; after too many it is a dead letter.

use super::finish::decoded;
use super::policy::policy_of;
use super::{Progress, Queue, Slice};
use crate::core::life::{self, Next};
use crate::redis::{random, Text};

/// Leases that are looked at together.
const BATCH: usize = 64;

/// What one step of lease ends came to.
#[derive(Default)]
pub struct LapseReport {
    pub lapsed: usize,
    pub dead: usize,
}

impl Queue<'_> {
    /// Ends the leases that ran out, as far as the slice goes.
    pub fn end_leases(&mut self, slice: &mut Slice, report: &mut LapseReport) -> Progress {
        while !slice.is_over() {
            let ended = self.leased.first(self.now(), slice.jobs().min(BATCH));
            if ended.is_empty() {
                return Progress::Done;
            }
            for (id, _) in ended {
                if slice.is_over() {
                    return Progress::More;
                }
                slice.spend(self.end_lease(&id, report));
            }
        }
        Progress::More
    }

    /// Ends one lease; says how many bytes the replicas and the AOF get.
    fn end_lease(&mut self, id: &Text, report: &mut LapseReport) -> usize {
        let record = self.jobs.get(id);
        let Some(mut job) = record.as_ref().and_then(|record| decoded(record).ok()) else {
            self.put_off_lease(id);
            return 0;
        };
        let bytes = job.payload.len();
        let policy = policy_of(&job, &self.rules());
        match life::lapse(&mut job, &policy, random()) {
            Next::Due { in_ms } => {
                self.make_due(id, job.birth, in_ms);
                self.write_record(id, &job);
            }
            Next::Dead(reason) => {
                self.bury(id, reason, job);
                report.dead += 1;
            }
        }
        report.lapsed += 1;
        self.state.metrics.lapsed.add(1);
        bytes
    }

    /// When the next lease ends.
    pub fn next_lease_end(&mut self) -> Option<u64> {
        self.leased.first(u64::MAX, 1).first().map(|(_, at)| *at)
    }
}

//! The look over a queue: stale jobs, ids that are free again.

use super::due::{id_in, is_place};
use super::{Progress, Queue, Slice};
use crate::core::record::{Job, Reason};
use crate::redis::Text;
use crate::settings::{StalePolicy, STALE_POLICY};
use std::borrow::Cow;

/// Entries that are looked at together.
const BATCH: usize = 64;

/// What one step of the purge came to.
#[derive(Default)]
pub struct PurgeReport {
    pub purged: usize,
    pub held: usize,
}

impl Queue<'_> {
    /// Whether a job has been ready since `since` or before.
    pub fn has_ready_since(&mut self, since: u64) -> bool {
        !self.due.first(since, 1).is_empty()
    }

    /// Whether a worker claimed or held a job after `since`, so that the queue is behind rather than abandoned.
    pub fn is_worked_on_since(&mut self, since: u64) -> bool {
        self.state.worked_on.get() > since || self.leased.len() > 0
    }

    /// Whether jobs could be claimed all the time from `since` on.
    pub fn is_open_since(&mut self, since: u64) -> bool {
        !self.is_paused() && self.state.resumed_at.get() <= since
    }

    /// Deals by `stale-policy` with the jobs that have been ready since `since` or before.
    pub fn purge_stale(&mut self, since: u64, slice: &mut Slice, report: &mut PurgeReport) -> Progress {
        let policy = StalePolicy::of(self.rules().get(&STALE_POLICY));
        if policy == StalePolicy::Keep {
            return Progress::Done;
        }
        while !slice.is_over() {
            for (member, at) in self.due.first(since, slice.jobs().min(BATCH)) {
                if policy == StalePolicy::Dead && self.dead_is_full() {
                    report.held = self.ready_since(since);
                    return Progress::Done;
                }
                slice.spend(self.purge_one(&member, at, policy, report));
            }
            if !self.has_ready_since(since) {
                return Progress::Done;
            }
        }
        Progress::More
    }

    fn purge_one(&mut self, member: &Text, at: u64, policy: StalePolicy, report: &mut PurgeReport) -> usize {
        let id = id_in(member);
        let Some(record) = self.jobs.get(&id) else {
            self.put_off_due(member);
            return 0;
        };
        let member = match Job::decode(record.as_bytes()) {
            Ok(job) if !is_place(member, job.birth) => match self.move_to_place(member, &id, job.birth, at) {
                Some(place) => Cow::Owned(place),
                None => return 0,
            },
            _ => Cow::Borrowed(member),
        };
        report.purged += 1;
        self.state.metrics.stale_purged.add(1);
        if policy == StalePolicy::Dead {
            self.unindex_member(&id, &member);
            self.bury_record(&id, Reason::Stale, record.as_bytes());
            return record.as_bytes().len();
        }
        self.remove_due_job(&id, &member);
        0
    }

    /// Says how many stale jobs had to stay.
    pub fn note_held(&mut self, held: usize) {
        self.state.metrics.stale_held.set(held as u64);
    }

    fn ready_since(&mut self, since: u64) -> usize {
        let later = self.ctx.zcount_above(&self.state.keys.due, since);
        self.due.len().saturating_sub(usize::try_from(later).unwrap_or(0))
    }

    /// Frees the caller's ids whose time is over.
    pub fn sweep_ids(&mut self, slice: &mut Slice) -> Progress {
        while !slice.is_over() {
            let free = self.ids.first(self.now(), slice.jobs().min(BATCH));
            if free.is_empty() {
                return Progress::Done;
            }
            for (id, _) in &free {
                self.ids.remove(id);
                slice.spend(0);
            }
        }
        Progress::More
    }
}

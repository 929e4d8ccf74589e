//! Claims: the due jobs that come first go into a worker's hands, each under a lease.

use super::due::{id_in, is_place};
use super::policy::{lease_of, retries_of};
use super::{Queue, Rules, DANGLING_PUT_OFF_MS};
use crate::core::ids::{valid_caller_id, IdBuf};
use crate::core::life;
use crate::core::receipt::{self, Receipt, ReceiptText, Tenure};
use crate::core::record::Job;
use crate::redis::Text;
use std::ops::Range;

/// The payload that one reply carries at most, in bytes; a single larger job passes alone.
pub const MAX_REPLY_BYTES: usize = 8 * 1024 * 1024;

/// Index entries without a job that one claim puts off before it gives up.
const MAX_DANGLING: usize = 1000;

/// What all jobs of one claim are taken by.
struct Terms {
    tenure: Tenure,
    /// The lease that the claim asks for.
    lease: Option<u64>,
    rules: Rules,
}

/// A job in a worker's hands.
pub struct Taken {
    pub id: Text,
    pub(super) birth: Option<u64>,
    /// The member of `due` that stood for it.
    member: Text,
    claim: u32,
    tenure: Tenure,
    pub attempt: u32,
    pub lease_ms: u64,
    pub retries_left: u32,
    /// How long after its due time it was claimed, in µs.
    pub late_us: u64,
    pub(super) due_at: u64,
    record: Text,
    payload: Range<usize>,
}

impl Taken {
    /// Gives the member back if the record cannot be read, or if somebody wrote an id that no receipt can name.
    fn new(id: Text, member: Text, record: Text, due_at: u64, terms: &Terms) -> Result<Taken, Text> {
        let bytes = record.as_bytes();
        let job = match Job::decode(bytes) {
            Ok(job) if valid_caller_id(id.as_bytes()) => job,
            _ => return Err(member),
        };
        let start = job.payload.as_ptr() as usize - bytes.as_ptr() as usize;
        Ok(Taken {
            birth: job.birth,
            member,
            claim: life::current_claim(&job),
            tenure: terms.tenure,
            attempt: life::attempt(&job),
            lease_ms: lease_of(&job, terms.lease, &terms.rules),
            retries_left: life::retries_left(&job, retries_of(&job, &terms.rules)),
            late_us: 0,
            due_at,
            payload: start..start + job.payload.len(),
            id,
            record,
        })
    }

    /// The text that names this claim.
    pub fn receipt_text(&self) -> ReceiptText {
        receipt::write(self.id.as_bytes(), self.birth, self.claim, Some(self.tenure))
    }

    pub(super) fn receipt(&self) -> Option<Receipt> {
        let (birth, claim, tenure) = (self.birth, self.claim, Some(self.tenure));
        IdBuf::new(self.id.as_bytes()).map(|id| Receipt { id, birth, claim, tenure })
    }

    pub fn payload(&self) -> &[u8] {
        &self.record.as_bytes()[self.payload.clone()]
    }
}

impl Queue<'_> {
    /// Claims up to `count` due jobs, in the order of due time and then push, and leaves one for each of the `ahead` who
    /// came before. Nothing of a paused queue, and no more than its `max-leased`.
    pub fn claim(&mut self, count: usize, lease: Option<u64>, ahead: usize) -> Vec<Taken> {
        self.state.worked_on.set(self.now());
        if self.is_paused() || !self.has_jobs() {
            return Vec::new();
        }
        let count = self.room_for_leases().map_or(count, |room| count.min(room.saturating_sub(ahead)));
        let count = if ahead == 0 { count } else { self.due_beyond(ahead, count) };
        let mut taken = self.take_due(count, lease);
        self.due.expect_removals(taken.len());
        self.leased.expect_puts(taken.len());
        for job in &mut taken {
            self.due.remove(&job.member);
            let ends_at = self.after(job.lease_ms);
            self.state.arrivals.leased.note(&job.id);
            self.lease(&job.id, ends_at);
            self.state.tenure.note(job.id.as_bytes(), ends_at, true);
            self.remember_lease(job, ends_at);
            job.late_us = self.now_us.saturating_sub(job.due_at.saturating_mul(1000));
        }
        taken
    }

    fn due_beyond(&mut self, ahead: usize, count: usize) -> usize {
        self.due.first(self.now(), ahead.saturating_add(count)).len().saturating_sub(ahead)
    }

    fn take_due(&mut self, count: usize, lease: Option<u64>) -> Vec<Taken> {
        let mut terms = None;
        let (mut taken, mut bytes, mut dangling) = (Vec::new(), 0usize, 0);
        while count > 0 && taken.is_empty() && dangling < MAX_DANGLING {
            let due = self.due.first(self.now(), count);
            if due.is_empty() {
                break;
            }
            let terms = terms.get_or_insert_with(|| self.terms(lease));
            for (member, due_at) in due {
                let Some(job) = self.take_entry(member, due_at, terms) else {
                    dangling += 1;
                    continue;
                };
                bytes = bytes.saturating_add(job.payload().len());
                if bytes > MAX_REPLY_BYTES && !taken.is_empty() {
                    return taken;
                }
                taken.push(job);
            }
        }
        taken
    }

    fn terms(&mut self, lease: Option<u64>) -> Terms {
        Terms { tenure: self.state.tenure.current(), lease, rules: self.rules() }
    }

    /// The job of an entry of `due`. `None` if the entry has none, or is not that of its job: then it is met no more.
    fn take_entry(&mut self, member: Text, due_at: u64, terms: &Terms) -> Option<Taken> {
        let id = id_in(&member).into_owned();
        let taken = match self.jobs.get(&id) {
            Some(record) => Taken::new(id, member, record, due_at, terms),
            None => Err(member),
        };
        let mut taken = match taken {
            Ok(taken) => taken,
            Err(member) => {
                self.put_off_due(&member);
                return None;
            }
        };
        if !is_place(&taken.member, taken.birth) {
            match self.move_to_place(&taken.member, &taken.id, taken.birth, due_at) {
                Some(place) => taken.member = place,
                None => {
                    self.state.metrics.dangling.add(1);
                    return None;
                }
            }
        }
        Some(taken)
    }

    pub(super) fn put_off_due(&mut self, member: &Text) {
        self.due.put(member, self.now().saturating_add(DANGLING_PUT_OFF_MS));
        self.state.metrics.dangling.add(1);
    }

    pub(super) fn put_off_lease(&mut self, id: &Text) {
        self.lease(id, self.now().saturating_add(DANGLING_PUT_OFF_MS));
        self.state.metrics.dangling.add(1);
    }
}

//! Leases of jobs with a large payload, remembered so that ACK and EXTEND need not copy a record out of its key only to
//! read which claim runs. What is not remembered is read; what does not agree with the key is not believed.

use super::{Queue, Taken};
use crate::core::receipt::Receipt;
use crate::core::table::fit;
use crate::redis::Text;
use crate::settings::MAX_LEASED;
use foldhash::fast::RandomState;
use std::cell::RefCell;
use std::collections::HashMap;

/// A payload of so many bytes is large: remembering its lease takes some 100 bytes.
const LARGE: usize = 4096;

struct Lease {
    receipt: Receipt,
    ends_at: u64,
}

/// The leases that this node gave for large jobs of one queue, by the job's id.
#[derive(Default)]
pub struct Leases(RefCell<HashMap<Box<[u8]>, Lease, RandomState>>);

impl Leases {
    pub fn clear(&self) {
        self.0.take();
    }

    fn note(&self, receipt: Receipt, ends_at: u64) {
        self.0.borrow_mut().insert(receipt.id.to_vec().into(), Lease { receipt, ends_at });
    }

    fn forget(&self, id: &[u8]) {
        let mut leases = self.0.borrow_mut();
        if !leases.is_empty() {
            leases.remove(id);
            fit(&mut leases);
        }
    }

    fn move_end(&self, id: &[u8], ends_at: u64) {
        if let Some(lease) = self.0.borrow_mut().get_mut(id) {
            lease.ends_at = ends_at;
        }
    }

    /// When the lease ends that the receipt names.
    fn end_of(&self, receipt: &Receipt) -> Option<u64> {
        self.0.borrow().get(&*receipt.id).filter(|lease| lease.receipt == *receipt).map(|lease| lease.ends_at)
    }
}

impl Queue<'_> {
    pub(super) fn lease(&mut self, id: &Text, ends_at: u64) {
        self.leased.put(id, ends_at);
        self.state.leases.move_end(id.as_bytes(), ends_at);
        self.note_lease_end(ends_at);
    }

    /// Sees to it that a lease which another hand may have given ends in time.
    pub(super) fn see_to_lease(&mut self, id: &Text) {
        if let Some(ends_at) = self.leased.score(id) {
            self.note_lease_end(ends_at);
        }
    }

    fn note_lease_end(&mut self, ends_at: u64) {
        self.first_lease_end = Some(self.first_lease_end.map_or(ends_at, |first| first.min(ends_at)));
    }

    pub(super) fn remember_lease(&self, taken: &Taken, ends_at: u64) {
        if taken.payload().len() >= LARGE {
            if let Some(receipt) = taken.receipt() {
                self.state.leases.note(receipt, ends_at);
            }
        }
    }

    /// Ends a lease; `false` where there was none. Until now the queue was worked on. Where it was at its `max-leased`
    /// those who wait are looked at now.
    pub(super) fn unlease(&mut self, id: &Text) -> bool {
        self.state.leases.forget(id.as_bytes());
        self.state.tenure.forget(id.as_bytes());
        let max = self.state.header.borrow().rules.limit(&MAX_LEASED);
        let was_full = max.is_some_and(|max| self.leased.len() as u64 >= max);
        let was_leased = self.leased.remove(id);
        if was_leased {
            self.state.worked_on.set(self.now());
        }
        if was_leased && was_full {
            self.first_due = Some(self.now());
        }
        was_leased
    }

    /// Ends the lease of the receipt's claim; `false` where it is none, or another's. That of this node's own claim need
    /// not be looked at first.
    pub(super) fn unlease_for(&mut self, id: &Text, receipt: &Receipt) -> bool {
        (self.is_own(receipt) || self.is_leased_by(id, receipt)) && self.unlease(id)
    }

    /// The lease of a receipt that stands ends then.
    pub(super) fn prolong(&mut self, id: &Text, receipt: &Receipt, ends_at: u64) {
        self.lease(id, ends_at);
        self.state.tenure.note(id.as_bytes(), ends_at, self.is_own(receipt));
    }

    /// Whether the lease that runs may be that of the receipt's claim, and not of another one with its number.
    pub(super) fn is_leased_by(&mut self, id: &Text, receipt: &Receipt) -> bool {
        let Some(ends_at) = self.leased.score(id) else { return false };
        self.is_own(receipt) || !self.state.tenure.is_own(id.as_bytes(), ends_at)
    }

    fn is_own(&self, receipt: &Receipt) -> bool {
        self.state.tenure.is_present(receipt.tenure)
    }

    /// How many more jobs may be leased; `None` for any number.
    pub(super) fn room_for_leases(&mut self) -> Option<usize> {
        let max = self.rules().limit(&MAX_LEASED)?;
        Some(usize::try_from(max).unwrap_or(usize::MAX).saturating_sub(self.leased.len()))
    }

    /// Whether the receipt is known, without a look at the record, to name the claim that runs.
    pub(super) fn is_known_holder(&mut self, id: &Text, receipt: &Receipt) -> bool {
        let end = self.state.leases.end_of(receipt);
        end.is_some() && self.leased.score(id) == end && self.jobs.has(id)
    }
}

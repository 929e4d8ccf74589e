//! The ends of a job that a worker tells: done, or failed for good.

use super::locate::Located;
use super::{Fault, Queue, Rules};
use crate::core::life::{self, Place};
use crate::core::receipt::Receipt;
use crate::core::record::{Job, Letter, Reason};
use crate::redis::{Ctx, Text};
use crate::settings::MAX_ERROR;
use smallvec::SmallVec;

/// How much of an error is kept while the server is over `maxmemory`, in bytes, and nothing of a stack: RETRY and FAIL are
/// never refused, and must not be a way to use still more memory.
const ERROR_WITHOUT_MEMORY: usize = 256;

/// What a worker says of a failure; cut at `max-error`, never refused.
#[derive(Clone, Copy, Default)]
pub struct FailNote<'a> {
    pub error: Option<&'a [u8]>,
    pub stack: Option<&'a [u8]>,
}

impl<'a> FailNote<'a> {
    pub(super) fn write_to(&self, job: &mut Job<'a>, rules: &Rules, ctx: &Ctx) {
        let max = rules.size(&MAX_ERROR);
        let bytes = self.error.map_or(0, <[u8]>::len) + self.stack.map_or(0, <[u8]>::len);
        if bytes > ERROR_WITHOUT_MEMORY && ctx.is_out_of_memory() {
            let max = if max == 0 { ERROR_WITHOUT_MEMORY } else { max.min(ERROR_WITHOUT_MEMORY) };
            life::set_error(job, self.error, None, max);
        } else {
            life::set_error(job, self.error, self.stack, max);
        }
    }
}

impl Queue<'_> {
    /// ACK; for each receipt whether it finished its job, `false` where it is stale.
    pub fn ack(&mut self, receipts: &[Receipt]) -> SmallVec<[bool; 8]> {
        self.leased.expect_removals(receipts.len());
        self.jobs.expect_removals(receipts.len());
        receipts.iter().map(|receipt| self.ack_one(receipt)).collect()
    }

    fn ack_one(&mut self, receipt: &Receipt) -> bool {
        let id = Text::new(&receipt.id);
        let finished = if self.take_out(&id, receipt) {
            self.jobs.remove(&id)
        } else {
            self.locate_letter(&id, receipt).map(|_| self.remove_letter(&id)).is_some()
        };
        let counter = if finished { &self.state.metrics.acked } else { &self.state.metrics.lease_lost };
        counter.add(1);
        finished
    }

    /// Takes a job out of the index in which it is, where the receipt stands for it there.
    fn take_out(&mut self, id: &Text, receipt: &Receipt) -> bool {
        if self.is_known_holder(id, receipt) {
            return self.unlease(id);
        }
        let Some(record) = self.jobs.get(id) else { return false };
        match decoded(&record).ok().and_then(|job| life::place_named(&job, receipt)) {
            Some(Place::Leased) => self.unlease_for(id, receipt),
            Some(Place::Due) => self.leased.score(id).is_none() && self.remove_due(id, receipt.birth),
            None => false,
        }
    }

    /// FAIL: straight to the dead letters.
    pub fn fail(&mut self, receipt: &Receipt, note: FailNote) -> Result<(), Fault> {
        match self.locate(receipt) {
            None => return Err(Fault::Stale),
            Some(Located::Live { id, record, standing }) => {
                let mut job = decoded(&record)?;
                life::bury(&mut job, standing);
                note.write_to(&mut job, &self.rules(), self.ctx);
                self.bury(&id, Reason::Failed, job);
            }
            Some(Located::Letter { id, letter }) => {
                let mut letter = Letter::decode(letter.as_bytes()).map_err(|_| Fault::Stale)?;
                letter.reason = Reason::Failed;
                letter.job.late = false;
                note.write_to(&mut letter.job, &self.rules(), self.ctx);
                self.rewrite_letter(&id, &letter);
            }
        }
        self.state.metrics.failed.add(1);
        Ok(())
    }
}

/// The job in a record that `locate` has read already.
pub(super) fn decoded(record: &Text) -> Result<Job<'_>, Fault> {
    Job::decode(record.as_bytes()).map_err(|_| Fault::Stale)
}

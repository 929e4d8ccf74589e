//! The ends of a job that a worker tells: done, or failed for good.

use super::locate::Located;
use super::{Fault, Queue};
use crate::core::life;
use crate::core::receipt::Receipt;
use crate::core::record::{Job, Letter, Reason};
use crate::redis::Text;
use crate::settings;

/// What a worker says of a failure; cut at `dq.max-error`, never refused.
#[derive(Clone, Copy, Default)]
pub struct FailNote<'a> {
    pub error: Option<&'a [u8]>,
    pub stack: Option<&'a [u8]>,
}

impl<'a> FailNote<'a> {
    pub(super) fn write_to(&self, job: &mut Job<'a>) {
        life::set_error(job, self.error, self.stack, settings::MAX_ERROR.size());
    }
}

impl Queue<'_> {
    /// ACK of one receipt; `false` where it is stale.
    pub fn ack(&mut self, receipt: &Receipt) -> bool {
        match self.locate(receipt) {
            None => return false,
            Some(Located::Live { id, .. }) => {
                self.unindex(&id);
                self.jobs.remove(&id);
            }
            Some(Located::Letter { id, .. }) => self.remove_letter(&id),
        }
        self.state.metrics.acked.add(1);
        true
    }

    /// FAIL: straight to the dead letters.
    pub fn fail(&mut self, receipt: &Receipt, note: FailNote) -> Result<(), Fault> {
        match self.locate(receipt) {
            None => return Err(Fault::Stale),
            Some(Located::Live { id, record, standing }) => {
                let mut job = decoded(&record)?;
                life::bury(&mut job, standing);
                note.write_to(&mut job);
                self.bury(&id, Reason::Failed, &job);
            }
            Some(Located::Letter { id, letter }) => {
                let mut letter = Letter::decode(letter.as_bytes()).map_err(|_| Fault::Stale)?;
                letter.reason = Reason::Failed;
                letter.job.late = false;
                note.write_to(&mut letter.job);
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

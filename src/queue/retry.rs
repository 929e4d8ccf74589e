//! Work given back: after a failure, or without one.

use super::finish::decoded;
use super::policy::policy_of;
use super::{FailNote, Fault, Queue};
use crate::core::life::{self, Next};
use crate::core::receipt::Receipt;
use crate::redis::Text;

/// What a RETRY comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// The job runs again in so many ms.
    In(u64),
    /// The retries are used up: a dead letter.
    Dead,
}

impl Queue<'_> {
    /// RETRY: a failure is counted, and the job is due again after `delay` or its backoff.
    pub fn retry(
        &mut self,
        receipt: &Receipt,
        delay: Option<u64>,
        note: FailNote,
        random: u64,
    ) -> Result<Retried, Fault> {
        let (id, record, standing) = self.locate_job(receipt).ok_or(Fault::Stale)?;
        let mut job = decoded(&record)?;
        note.write_to(&mut job, &self.rules(), self.ctx);
        let policy = policy_of(&job, &self.rules());
        match life::fail_again(&mut job, standing, &policy, delay, random) {
            Next::Due { in_ms } => {
                self.make_due(&id, job.birth, in_ms);
                self.write_record(&id, &job);
                self.state.metrics.retried.add(1);
                Ok(Retried::In(in_ms))
            }
            Next::Dead(reason) => {
                self.bury(&id, reason, job);
                self.state.metrics.failed.add(1);
                Ok(Retried::Dead)
            }
        }
    }

    /// RELEASE of one receipt: due again in `delay` ms, no failure counted; `false` where it is stale.
    pub fn release(&mut self, receipt: &Receipt, delay: u64) -> bool {
        let Some((id, record, standing)) = self.locate_job(receipt) else { return false };
        let Ok(mut job) = decoded(&record) else { return false };
        life::release(&mut job, standing);
        self.make_due(&id, job.birth, delay);
        self.write_record(&id, &job);
        self.state.metrics.released.add(1);
        true
    }

    pub(super) fn make_due(&mut self, id: &Text, birth: Option<u64>, in_ms: u64) {
        if !self.unlease(id) && birth.is_some() {
            // The job is due already, and its entry may be one that the first version wrote.
            self.due.remove(id);
        }
        self.put_due(id, birth, self.after(in_ms));
    }
}

//! A lease made longer, or taken back.

use super::finish::decoded;
use super::locate::Located;
use super::{Queue, Taken};
use crate::core::life::{self, Standing};
use crate::core::receipt::Receipt;
use crate::redis::Text;

impl Queue<'_> {
    /// EXTEND of one receipt: the lease ends `ms` from now; `false` where it is stale. A late one takes the lease back,
    /// and the lapse is not counted.
    pub fn extend(&mut self, receipt: &Receipt, ms: u64) -> bool {
        let id = Text::new(&receipt.id);
        if self.is_known_holder(&id, receipt) {
            self.prolong(&id, receipt, self.after(ms));
            return true;
        }
        let Some((id, record, standing)) = self.locate_job(receipt) else { return false };
        if standing == Standing::Late {
            let Ok(mut job) = decoded(&record) else { return false };
            life::take_back(&mut job);
            self.remove_due(&id, job.birth);
            self.state.arrivals.leased.note(&id);
            self.write_record(&id, &job);
        }
        self.prolong(&id, receipt, self.after(ms));
        true
    }

    /// Undoes a claim that nobody was told of: the job is due as it was, and nothing is counted. A job that has moved
    /// on since is left alone.
    pub fn give_back(&mut self, taken: &Taken) {
        let Some(receipt) = taken.receipt() else { return };
        if let Some(Located::Live { id, standing: Standing::Current, .. }) = self.locate_live(&taken.id, &receipt) {
            self.unlease(&id);
            self.put_due(&id, taken.birth, taken.due_at);
        }
    }
}

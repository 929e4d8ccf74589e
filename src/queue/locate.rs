//! From a receipt to what it names.

use super::Queue;
use crate::core::life::{self, Place, Standing};
use crate::core::receipt::Receipt;
use crate::core::record::{Job, Letter};
use crate::redis::Text;

/// What a receipt that still stands may act on.
pub(super) enum Located {
    /// The job is in its lease, or late and due again.
    Live { id: Text, record: Text, standing: Standing },
    /// The job became a dead letter when this claim's lease ended, or later as a stale job that nobody had claimed again.
    Letter { id: Text, letter: Text },
}

impl Queue<'_> {
    /// How many receipts were stale so far.
    pub fn lease_lost(&self) -> u64 {
        self.state.metrics.lease_lost.get()
    }

    /// `None` where the receipt is stale, which is counted.
    pub(super) fn locate(&mut self, receipt: &Receipt) -> Option<Located> {
        let id = Text::new(&receipt.id);
        let located = self.locate_live(&id, receipt).or_else(|| self.locate_letter(&id, receipt));
        if located.is_none() {
            self.state.metrics.lease_lost.add(1);
        }
        located
    }

    /// As `locate`, where a dead letter is of no use.
    pub(super) fn locate_job(&mut self, receipt: &Receipt) -> Option<(Text, Text, Standing)> {
        let id = Text::new(&receipt.id);
        match self.locate_live(&id, receipt) {
            Some(Located::Live { id, record, standing }) => Some((id, record, standing)),
            _ => {
                self.state.metrics.lease_lost.add(1);
                None
            }
        }
    }

    pub(super) fn locate_live(&mut self, id: &Text, receipt: &Receipt) -> Option<Located> {
        let record = self.jobs.get(id)?;
        let place = life::place_named(&Job::decode(record.as_bytes()).ok()?, receipt)?;
        let is_there = match place {
            Place::Leased => self.is_leased_by(id, receipt),
            Place::Due => self.leased.score(id).is_none() && self.find_due(id, receipt.birth).is_some(),
        };
        is_there.then(|| Located::Live { id: id.clone(), record, standing: life::standing_in(place) })
    }

    /// A letter whose id was pushed again is of an earlier job: its receipts are stale.
    pub(super) fn locate_letter(&mut self, id: &Text, receipt: &Receipt) -> Option<Located> {
        if self.jobs.has(id) {
            return None;
        }
        let letter = self.dead.get(id)?;
        let standing = life::letter_standing(&Letter::decode(letter.as_bytes()).ok()?, receipt);
        (standing == Standing::Late).then(|| Located::Letter { id: id.clone(), letter })
    }

    /// Takes the job of this id and birth out of the index that it is in.
    pub(super) fn unindex(&mut self, id: &Text, birth: Option<u64>) {
        if !self.unlease(id) {
            self.remove_due(id, birth);
        }
    }

    /// As `unindex`, for a live job of any birth.
    pub(super) fn unindex_by_id(&mut self, id: &Text) {
        if !self.unlease(id) {
            self.remove_due_by_id(id);
        }
    }

    /// As `unindex`, for the job of this member of `due`.
    pub(super) fn unindex_member(&mut self, id: &Text, member: &Text) {
        self.due.remove(member);
        self.unlease(id);
    }
}

//! Jobs and dead letters that are taken out by their id.

use super::{JobState, Queue};
use crate::redis::Text;

impl Queue<'_> {
    /// CANCEL of one id: the job in `state`, or without it the live one, else the dead letter; `false` where there is
    /// none.
    pub fn cancel(&mut self, id: &Text, state: Option<JobState>) -> bool {
        let is_live = self.jobs.has(id);
        let cancelled = match state {
            None if is_live => self.remove_job(id),
            None | Some(JobState::Dead) => self.cancel_letter(id),
            Some(_) => is_live && self.place_of(id).state() == state && self.remove_job(id),
        };
        self.state.metrics.cancelled.add(usize::from(cancelled));
        cancelled
    }

    /// `false` where there is none.
    pub(super) fn cancel_letter(&mut self, id: &Text) -> bool {
        let is_there = self.dead.has(id);
        if is_there {
            self.remove_letter(id);
        }
        is_there
    }

    /// Takes a live job out for good, and frees its id; `false` where there was none.
    pub(super) fn remove_job(&mut self, id: &Text) -> bool {
        self.unindex_by_id(id);
        self.remove_record(id)
    }

    /// As `remove_job`, for the job of this member of `due`.
    pub(super) fn remove_due_job(&mut self, id: &Text, member: &Text) -> bool {
        self.unindex_member(id, member);
        self.remove_record(id)
    }

    fn remove_record(&mut self, id: &Text) -> bool {
        if self.ids.score(id).is_some() {
            self.ids.remove(id);
        }
        self.jobs.remove(id)
    }
}

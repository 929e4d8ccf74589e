//! Due jobs that get another due time.

use super::bulk::{Bulk, Walk};
use super::{Due, Progress, Queue, Slice};
use crate::redis::{Position, Text};

/// All that is due moves to one time.
pub struct RescheduleAll {
    to: u64,
    pub(super) walk: Walk,
}

impl RescheduleAll {
    pub(super) fn step(&mut self, queue: &mut Queue, slice: &mut Slice) -> Progress {
        while let Some((member, score)) = self.walk.next(&mut queue.due, slice) {
            if score == self.to as f64 {
                // Those that were moved stand here, and this is where they are to be.
                self.walk.skip(self.to);
            } else {
                queue.move_due(member, score as u64, self.to, slice);
            }
        }
        self.walk.progress()
    }
}

impl Queue<'_> {
    /// The jobs of `ids` that are ready or delayed are due at another time; says how many.
    pub fn reschedule(&mut self, ids: &[Text], due: Due) -> u64 {
        let to = self.time_of(due);
        let mut slice = Slice::at_once();
        let mut move_one = |id: &Text| match self.find_due_by_id(id) {
            Some((member, at)) => self.move_due(member.into_owned(), at, to, &mut slice),
            None => false,
        };
        ids.iter().filter(|id| move_one(id)).count() as u64
    }

    /// As `reschedule`, for all that are due now, in slices; says how many move.
    pub fn reschedule_all(&mut self, due: Due) -> u64 {
        let len = self.due.len() as u64;
        let walk = Walk::new(&self.state.arrivals.due, Position::start(), len);
        let before = self.state.metrics.rescheduled.get();
        let left = self.begin(Bulk::Reschedule(RescheduleAll { to: self.time_of(due), walk }));
        self.state.metrics.rescheduled.get() - before + left
    }

    fn time_of(&self, due: Due) -> u64 {
        match due {
            Due::In(delay) => self.after(delay),
            Due::At(at) => at.max(self.now()),
        }
    }

    fn move_due(&mut self, member: Text, at: u64, to: u64, slice: &mut Slice) -> bool {
        let Some((_, member)) = self.job_at(member, at, slice) else { return false };
        self.set_due(&member, to);
        self.state.metrics.rescheduled.add(1);
        true
    }
}

//! What is done about each problem that a look over the queue finds. No record goes.

use super::check::{is_time, Part, Problem};
use super::finish::decoded;
use super::{Queue, Slice};
use crate::core::life;
use crate::redis::Text;
use crate::settings::ID_KEEP;

impl Queue<'_> {
    /// Mends one problem of an entry of `part`; `false` where it stays as it is: bytes that cannot be read are nobody's
    /// to throw away.
    pub(super) fn mend(&mut self, problem: Problem, part: Part, id: &Text, slice: &mut Slice) -> bool {
        match problem {
            // Of a job in two places the lease holds: its worker is not joined by another.
            Problem::DueAndLeased => {
                self.see_to_lease(id);
                self.due.remove(id)
            }
            Problem::DueWithoutJob | Problem::LeasedWithoutJob => {
                self.forget_lost(id);
                true
            }
            Problem::JobWithoutIndex => self.find_again(id, slice),
            Problem::DeadWithoutTime => {
                self.state.arrivals.dead.note(id);
                self.dead_at.put(id, self.now());
                true
            }
            Problem::TimeWithoutDead => self.dead_at.remove(id),
            Problem::BadScore => self.mend_score(part, id),
            Problem::BadRecord | Problem::BadLetter => false,
        }
    }

    /// Nothing is left of a job that was lost, and nobody's next push is taken for it.
    fn forget_lost(&mut self, id: &Text) {
        self.due.remove(id);
        self.unlease(id);
        self.ids.remove(id);
    }

    /// A job that no index has is due now. A worker may hold it, so its claim ends as one whose lease did. One that cannot
    /// be read only gets its entry.
    fn find_again(&mut self, id: &Text, slice: &mut Slice) -> bool {
        let Some(record) = self.jobs.get(id) else { return false };
        slice.spend_bytes(record.as_bytes().len());
        let Ok(mut job) = decoded(&record) else {
            self.put_off_due(id);
            return true;
        };
        life::lose(&mut job);
        self.write_record(id, &job);
        self.put_due(id, self.now());
        self.state.metrics.lapsed.add(1);
        true
    }

    /// A fraction becomes the whole ms behind it. What is no time becomes now: a job is due, a lease ends; and an id is
    /// taken for `id-keep` from now.
    fn mend_score(&mut self, part: Part, id: &Text) -> bool {
        let (now, keep) = (self.now(), self.rules().get(&ID_KEEP));
        let index = match part {
            Part::Due => &mut self.due,
            Part::Leased => &mut self.leased,
            Part::DeadAt => &mut self.dead_at,
            Part::Ids => &mut self.ids,
            Part::Jobs | Part::Dead => return false,
        };
        let Some(score) = index.raw_score(id) else { return true };
        let (was_at, at) = if is_time(score) { (score.floor() as u64, score.ceil() as u64) } else { (now, now) };
        match part {
            Part::Ids if is_time(score) => self.ids.put(id, at),
            Part::Ids => self.ids.put(id, now.saturating_add(keep)),
            Part::Due => self.set_due(id, at),
            Part::Leased => {
                let is_own = self.state.tenure.is_own(id.as_bytes(), was_at);
                self.lease(id, at);
                self.state.tenure.note(id.as_bytes(), at, is_own);
            }
            _ => self.dead_at.put(id, at),
        }
        true
    }
}

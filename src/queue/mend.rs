//! What is done about each problem that a look over the queue finds. No record goes.

use super::check::{is_time, Met, Part, Problem};
use super::finish::decoded;
use super::{Queue, Slice};
use crate::core::life;
use crate::redis::Text;
use crate::settings::ID_KEEP;

impl Queue<'_> {
    /// Mends one problem of an entry of `part`; `false` where it stays as it is: bytes that cannot be read are nobody's
    /// to throw away.
    pub(super) fn mend(&mut self, problem: Problem, part: Part, entry: &Met, slice: &mut Slice) -> bool {
        let id = &entry.id;
        match problem {
            // If a job is in both indexes, keep the lease, so that no second worker gets it.
            Problem::DueAndLeased => {
                self.see_to_lease(id);
                self.due.remove(&entry.name)
            }
            Problem::DueOutOfPlace => {
                // A record that was met in `jobs` told the birth: then it is the id itself that stands in `due`.
                let (member, birth) =
                    if part == Part::Jobs { (id, entry.birth) } else { (&entry.name, self.birth_of(id)) };
                self.mend_place(member, id, birth);
                true
            }
            Problem::DueWithoutJob => {
                self.due.remove(&entry.name);
                self.forget_lost(id);
                true
            }
            Problem::LeasedWithoutJob => {
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
            Problem::BadScore => self.mend_score(part, &entry.name),
            Problem::BadRecord => {
                if part == Part::Due {
                    // Nobody can tell the place of such a job: its id is where DQ.CANCEL looks for it.
                    self.mend_place(&entry.name, id, None);
                }
                false
            }
            Problem::BadLetter => false,
        }
    }

    /// Nothing is left of a job that was lost, and nobody's next push is taken for it.
    fn forget_lost(&mut self, id: &Text) {
        self.unlease(id);
        self.ids.remove(id);
    }

    /// As `move_to_place`, with a score that is a time.
    fn mend_place(&mut self, member: &Text, id: &Text, birth: Option<u64>) {
        if let Some(score) = self.due.raw_score(member) {
            let at = self.mended_time(score);
            self.move_to_place(member, id, birth, at);
        }
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
        self.put_due(id, job.birth, self.now());
        self.state.metrics.lapsed.add(1);
        true
    }

    /// A fraction becomes the whole ms behind it. What is no time becomes now: a job is due, a lease ends; and an id is
    /// taken for `id-keep` from now.
    fn mend_score(&mut self, part: Part, name: &Text) -> bool {
        let (now, keep) = (self.now(), self.rules().get(&ID_KEEP));
        let index = match part {
            Part::Due => &mut self.due,
            Part::Leased => &mut self.leased,
            Part::DeadAt => &mut self.dead_at,
            Part::Ids => &mut self.ids,
            Part::Jobs | Part::Dead => return false,
        };
        let Some(score) = index.raw_score(name) else { return true };
        let was_at = if is_time(score) { score.floor() as u64 } else { now };
        let at = self.mended_time(score);
        match part {
            Part::Ids if is_time(score) => self.ids.put(name, at),
            Part::Ids => self.ids.put(name, now.saturating_add(keep)),
            Part::Due => self.set_due(name, at),
            Part::Leased => {
                let is_own = self.state.tenure.is_own(name.as_bytes(), was_at);
                self.lease(name, at);
                self.state.tenure.note(name.as_bytes(), at, is_own);
            }
            _ => self.dead_at.put(name, at),
        }
        true
    }

    /// A fraction becomes the whole ms behind it, and what is no time becomes now: a job is due, a lease ends.
    fn mended_time(&self, score: f64) -> u64 {
        if is_time(score) {
            score.ceil() as u64
        } else {
            self.now()
        }
    }
}

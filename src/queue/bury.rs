//! Dead letters and their bounds.

use super::{Progress, Queue, Slice};
use crate::core::record::{bury_record, Encoded, Job, Letter, Reason};
use crate::redis::Text;
use crate::settings;

/// Letters that one death may push out. One keeps the bound; the second works off a bound that was lowered.
const EVICTED_BY_ONE: usize = 2;

impl Queue<'_> {
    /// Makes a live job a dead letter. Its id is free from now on.
    pub(super) fn bury(&mut self, id: &Text, reason: Reason, job: Job) {
        self.unindex(id, job.birth);
        self.put_letter(id, &Letter::new(reason, job).encode());
    }

    /// As `bury`, with the record byte for byte, for a job that is in no index now.
    pub(super) fn bury_record(&mut self, id: &Text, reason: Reason, record: &[u8]) {
        self.put_letter(id, &bury_record(reason, record));
    }

    fn put_letter(&mut self, id: &Text, letter: &Encoded) {
        self.make_room_for(id);
        self.dead.put(id, Text::of_parts(letter.parts()));
        self.state.arrivals.dead.note(id);
        self.dead_at.put(id, self.now());
        self.state.metrics.buried.add(1);
        self.jobs.remove(id);
        if self.ids.score(id).is_some() {
            self.ids.remove(id);
        }
    }

    /// A letter of the same id gives way, and the oldest ones do where there is no room.
    fn make_room_for(&mut self, id: &Text) {
        if self.dead.has(id) {
            self.state.metrics.dead_evicted.add(1);
            return;
        }
        let Some(max) = self.rules().limit(&settings::DEAD_MAX) else { return };
        let over = (self.dead_at.len() as u64 + 1).saturating_sub(max);
        self.evict_oldest(usize::try_from(over).unwrap_or(usize::MAX).min(EVICTED_BY_ONE), u64::MAX);
    }

    /// Evicts up to `count` letters from `up_to` or before; says how many.
    fn evict_oldest(&mut self, count: usize, up_to: u64) -> usize {
        let oldest = self.dead_at.first(up_to, count);
        for (id, _) in &oldest {
            self.remove_letter(id);
        }
        self.state.metrics.dead_evicted.add(oldest.len());
        oldest.len()
    }

    pub(super) fn remove_letter(&mut self, id: &Text) {
        self.dead.remove(id);
        self.dead_at.remove(id);
    }

    pub(super) fn rewrite_letter(&mut self, id: &Text, letter: &Letter) {
        self.dead.put(id, Text::of_parts(letter.encode().parts()));
    }

    /// Whether a further letter would push one out.
    pub(super) fn dead_is_full(&mut self) -> bool {
        self.rules().limit(&settings::DEAD_MAX).is_some_and(|max| self.dead_at.len() as u64 >= max)
    }

    /// Evicts what is over `dead-max` or older than `dead-max-age`.
    pub fn trim_dead(&mut self, slice: &mut Slice) -> Progress {
        let rules = self.rules();
        let max = rules.limit(&settings::DEAD_MAX);
        let aged_at = rules.limit(&settings::DEAD_MAX_AGE).and_then(|age| self.now().checked_sub(age));
        while !slice.is_over() {
            let over = max.map_or(0, |max| (self.dead_at.len() as u64).saturating_sub(max));
            let evicted = if over > 0 {
                self.evict_oldest(1, u64::MAX)
            } else if let Some(aged_at) = aged_at {
                self.evict_oldest(1, aged_at)
            } else {
                0
            };
            if evicted == 0 {
                return Progress::Done;
            }
            slice.spend(0);
        }
        Progress::More
    }
}

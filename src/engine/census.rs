//! How many jobs all queues have together, for INFO, and the alarms that go by how many a queue has. The queues are
//! counted one after the other, a slice at a time, by a timer of their own: also while writes are refused or paused.

use super::alerts::Alert;
use super::index::QueueNumber;
use super::schedule::Map;
use super::{Node, NODE};
use crate::core::args::printable;
use crate::core::table::{fit, fit_line};
use crate::queue::{Counts, Queue, Slice, State};
use crate::redis::{boot_us, Ctx};
use crate::settings;
use std::collections::VecDeque;

/// A queue is counted again when its count is so old, in ms. With what a round takes, none becomes older than 10 s.
const MOST_AGE_MS: u64 = 8000;
const LEAST_AGE_MS: u64 = 1000;
/// So much older a count may become for each queue that there is, in ms.
const AGE_PER_QUEUE_MS: u64 = 5;
/// Between two slices, in ms.
const PAUSE_MS: u64 = 10;

/// The counts of all queues.
#[derive(Default)]
pub struct Census {
    /// Each queue, and when it was counted, in ms of boot time; the oldest count first.
    line: VecDeque<(u64, QueueNumber)>,
    counts: Map<QueueNumber, Counts>,
    total: Counts,
    /// Queues from this number on are not in the line yet.
    next_number: QueueNumber,
}

impl Census {
    pub fn total(&self) -> Counts {
        self.total
    }

    /// Counts all queues anew.
    pub fn begin_again(&mut self) {
        self.line.iter_mut().for_each(|(counted_at, _)| *counted_at = 0);
        self.counts.clear();
        self.total = Counts::default();
    }

    pub fn forget(&mut self, number: QueueNumber) {
        if let Some(counts) = self.counts.remove(&number) {
            self.total = self.total - counts;
            fit(&mut self.counts);
        }
    }

    fn note(&mut self, number: QueueNumber, counts: Counts, now: u64) {
        self.forget(number);
        self.total = self.total + counts;
        self.counts.insert(number, counts);
        self.line.push_back((now, number));
    }

    /// A queue that is only waited for has nothing to count yet.
    fn put_off(&mut self, number: QueueNumber, now: u64) {
        self.forget(number);
        self.line.push_back((now, number));
    }

    /// Queues that are known and new here come first. All that were ever known have numbers below `next_number`.
    fn admit(&mut self, known: impl Iterator<Item = QueueNumber>, next_number: QueueNumber) {
        for number in known {
            self.line.push_front((0, number));
        }
        self.next_number = next_number;
    }

    fn is_due(&self, now: u64) -> bool {
        let age = (self.line.len() as u64 * AGE_PER_QUEUE_MS).clamp(LEAST_AGE_MS, MOST_AGE_MS);
        self.line.front().is_some_and(|(counted_at, _)| counted_at.saturating_add(age) <= now)
    }

    fn pop(&mut self, now: u64) -> Option<QueueNumber> {
        if !self.is_due(now) {
            return None;
        }
        let (_, number) = self.line.pop_front()?;
        fit_line(&mut self.line);
        Some(number)
    }
}

fn now_ms() -> u64 {
    boot_us() / 1000
}

fn turn(ctx: &Ctx) {
    NODE.census_alarm.fired();
    NODE.take_census_turn(ctx);
}

impl Node {
    /// Called again and again; begins to count where counts are old.
    pub(super) fn count_if_due(&self, ctx: &Ctx) {
        if !self.is_acting() {
            return;
        }
        {
            let (mut census, index) = (self.census.borrow_mut(), self.index.borrow());
            let new = index.from(census.next_number).map(|known| known.number);
            census.admit(new, index.next_number());
        }
        if self.census_alarm.is_armed() {
            self.census_alarm.rearm_if_held_back(ctx, turn);
        } else if self.census.borrow().is_due(now_ms()) {
            self.census_alarm.arm(ctx, 0, turn);
        }
    }

    fn take_census_turn(&self, ctx: &Ctx) {
        let mut slice = Slice::new();
        let now_us = self.now_us(ctx);
        while !slice.is_over() {
            let number = self.census.borrow_mut().pop(now_ms());
            let Some(number) = number else { return };
            slice.spend(0);
            let known = self.index.borrow().get(number).map(|known| (known.db, known.state()));
            match known {
                Some((db, Some(state))) if ctx.select_db(db) => self.count(ctx, number, &state, now_us),
                Some((_, None)) => self.census.borrow_mut().put_off(number, now_ms()),
                _ => {}
            }
        }
        self.census_alarm.arm(ctx, PAUSE_MS, turn);
    }

    fn count(&self, ctx: &Ctx, number: QueueNumber, state: &State, now_us: u64) {
        let mut queue = Queue::to_count(self.scene(ctx, now_us), state);
        let counts = queue.counts();
        self.census.borrow_mut().note(number, counts, now_ms());
        self.look_for_far(ctx, number, state, counts, &mut queue);
        self.look_for_room(ctx, number, state, counts, &mut queue);
    }

    /// Raises the far-future alarm, or ends it.
    fn look_for_far(&self, ctx: &Ctx, number: QueueNumber, state: &State, counts: Counts, queue: &mut Queue) {
        let rules = queue.rules();
        let (alarm, horizon) = (rules.get(&settings::FAR_ALARM), rules.get(&settings::FAR_HORIZON));
        let far = if alarm == 0 || is_well_below(counts.delayed, alarm) { 0 } else { queue.far(horizon) };
        let name = || printable(state.name());
        if alarm > 0 && far >= alarm {
            let line = || {
                let name = name();
                format!("dq: queue {name}: {far} jobs are due in more than {horizon} ms (dq.far-horizon, dq.far-alarm)")
            };
            if self.begin_trouble(ctx, number, Alert::FarAlarm, line) {
                self.alert(ctx, number, state, Alert::FarAlarm, queue.now());
            }
        } else if alarm == 0 || is_well_below(far, alarm) {
            let line = || format!("dq: queue {}: the far alarm is over, {far} jobs are far", name());
            self.end_trouble(ctx, number, Alert::FarAlarm, line);
        }
    }

    /// Whether a queue that refused jobs because it was full has room again.
    fn look_for_room(&self, ctx: &Ctx, number: QueueNumber, state: &State, counts: Counts, queue: &mut Queue) {
        let live = counts.ready + counts.delayed + counts.leased;
        if queue.rules().limit(&settings::MAX_LENGTH).is_none_or(|max| is_well_below(live, max)) {
            let line = || format!("dq: queue {}: there is room for jobs again", printable(state.name()));
            self.end_trouble(ctx, number, Alert::Full, line);
        }
    }
}

/// Whether `count` is so far below `limit` that what began there is over, and will not begin again at once.
fn is_well_below(count: u64, limit: u64) -> bool {
    u128::from(count) * 10 < u128::from(limit) * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_ready(ready: u64) -> Counts {
        Counts { ready, ..Counts::default() }
    }

    #[test]
    fn the_oldest_count_is_taken_first_and_a_new_queue_before_it() {
        let mut census = Census::default();
        census.admit([0, 1].into_iter(), 2);
        assert_eq!([census.pop(5000), census.pop(5000), census.pop(5000)], [Some(1), Some(0), None]);
        census.note(1, of_ready(1), 5000);
        census.note(0, of_ready(2), 5500);
        assert_eq!(census.pop(5999), None);
        census.admit([2].into_iter(), 3);
        assert_eq!([census.pop(6000), census.pop(6000), census.pop(6000)], [Some(2), Some(1), None]);
    }

    #[test]
    fn the_total_is_the_sum_of_the_last_counts() {
        let mut census = Census::default();
        census.note(0, of_ready(5), 0);
        census.note(1, of_ready(7), 0);
        census.note(0, of_ready(2), 0);
        assert_eq!(census.total().ready, 9);
        census.forget(1);
        census.forget(1);
        assert_eq!(census.total().ready, 2);
        census.begin_again();
        assert_eq!(census.total().ready, 0);
    }

    #[test]
    fn many_queues_are_counted_less_often_but_in_time() {
        let mut census = Census::default();
        for number in 0..10_000 {
            census.note(number, Counts::default(), 1);
        }
        assert!(!census.is_due(8000));
        assert!(census.is_due(8001));
    }

    #[test]
    fn well_below_is_under_nine_tenths() {
        assert!(is_well_below(0, 1) && is_well_below(89, 100));
        assert!(!is_well_below(90, 100) && !is_well_below(1, 1));
        assert!(is_well_below(1, u64::MAX));
    }
}

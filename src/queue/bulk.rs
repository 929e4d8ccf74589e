//! Work on all jobs of a state, a slice at a time, on what was there when it was asked for.

use super::arrivals::{Arrivals, Watch};
use super::clear::Purge;
use super::replay::ReplayAll;
use super::reschedule::RescheduleAll;
use super::{Progress, Queue, Slice, State};
use crate::redis::{Position, Text, ZsetKey};
use std::collections::VecDeque;
use std::rc::Rc;

/// Entries of an index that are looked up together.
const BATCH: usize = 128;

/// What is under way.
pub enum Bulk {
    Purge(Purge),
    Replay(ReplayAll),
    Reschedule(RescheduleAll),
}

impl Bulk {
    fn step(&mut self, queue: &mut Queue, slice: &mut Slice) -> Progress {
        match self {
            Bulk::Purge(purge) => purge.step(queue, slice),
            Bulk::Replay(all) => all.step(queue, slice),
            Bulk::Reschedule(all) => all.step(queue, slice),
        }
    }

    /// How many entries it has still to look at, at most.
    fn left(&self) -> u64 {
        match self {
            Bulk::Purge(purge) => purge.walk.left,
            Bulk::Replay(all) => all.left(),
            Bulk::Reschedule(all) => all.walk.left,
        }
    }

    /// Whether it does all that `other` has still to do, so that asking twice is as good as once.
    fn covers(&self, other: &Bulk) -> bool {
        match (self, other) {
            (Bulk::Purge(purge), Bulk::Purge(other)) => purge.covers(other),
            (Bulk::Replay(all), Bulk::Replay(other)) => all.covers(other),
            (Bulk::Reschedule(_), Bulk::Reschedule(_)) => true,
            _ => false,
        }
    }
}

/// How many entries are still to be looked at, by what for.
#[derive(Default)]
pub struct UnderWay {
    pub purging: u64,
    pub replaying: u64,
    pub rescheduling: u64,
}

impl State {
    /// Leaves all of it to `Queue::go_on`.
    pub fn add_bulk(&self, bulk: Bulk) {
        let mut under_way = self.bulk.borrow_mut();
        under_way.retain(|other| !bulk.covers(other));
        under_way.push(bulk);
    }

    pub fn under_way(&self) -> UnderWay {
        let mut sum = UnderWay::default();
        for bulk in self.bulk.borrow().iter() {
            match bulk {
                Bulk::Purge(_) => sum.purging += bulk.left(),
                Bulk::Replay(_) => sum.replaying += bulk.left(),
                Bulk::Reschedule(_) => sum.rescheduling += bulk.left(),
            }
        }
        sum
    }
}

/// A walk over one index, in its order, past what came into it since.
pub(super) struct Walk {
    watch: Watch,
    position: Position,
    batch: VecDeque<(Text, f64)>,
    is_over: bool,
    pub left: u64,
}

impl Walk {
    /// Over the `len` entries behind `position`.
    pub fn new(arrivals: &Rc<Arrivals>, position: Position, len: u64) -> Walk {
        Walk { watch: Watch::new(arrivals), position, batch: VecDeque::new(), is_over: false, left: len }
    }

    /// The next entry of `index`; `None` where the slice is over, or the walk. What was looked up ahead holds for this
    /// slice only.
    pub fn next(&mut self, index: &mut ZsetKey, slice: &mut Slice) -> Option<(Text, f64)> {
        while !self.is_over && !slice.is_over() {
            let Some((id, score)) = self.batch.pop_front() else {
                // At least one, also where the time is over just now: none would say that the walk is.
                self.batch = index.beyond(&self.position, slice.jobs().clamp(1, BATCH)).into();
                self.is_over = self.batch.is_empty();
                continue;
            };
            slice.spend(0);
            self.position = Position::behind(score, &id);
            self.left = self.left.saturating_sub(1);
            if !self.watch.has_come(&id) {
                return Some((id, score));
            }
        }
        self.batch.clear();
        None
    }

    /// Begins anew, past what came since the first beginning.
    pub fn restart(&mut self) {
        self.position = Position::start();
        self.batch.clear();
        self.is_over = false;
    }

    /// Goes on behind every entry of this score.
    pub fn skip(&mut self, score: u64) {
        self.position = Position::above(score);
        self.batch.clear();
    }

    pub fn progress(&self) -> Progress {
        if self.is_over {
            Progress::Done
        } else {
            Progress::More
        }
    }
}

impl Queue<'_> {
    /// Does the first of it, and leaves the rest to `go_on`; says how much is left.
    pub(super) fn begin(&mut self, mut bulk: Bulk) -> u64 {
        if bulk.step(self, &mut Slice::at_once()) == Progress::Done {
            return 0;
        }
        let left = bulk.left();
        self.state.add_bulk(bulk);
        left
    }

    /// Goes on with what is under way, as far as the slice goes.
    pub fn go_on(&mut self, slice: &mut Slice) -> Progress {
        let mut under_way = self.state.bulk.take();
        under_way.retain_mut(|bulk| slice.is_over() || bulk.step(self, slice) == Progress::More);
        if under_way.is_empty() {
            return Progress::Done;
        }
        under_way.rotate_left(1);
        self.state.bulk.replace(under_way);
        Progress::More
    }
}

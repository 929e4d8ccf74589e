//! How many jobs a queue has, at a cost that lets them be counted again and again.

use super::{Queue, Scene, State};
use crate::redis::Purpose;
use std::ops::{Add, Sub};

/// Jobs by their state.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub ready: u64,
    pub delayed: u64,
    pub leased: u64,
    pub dead: u64,
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, more: Counts) -> Counts {
        Counts {
            ready: self.ready + more.ready,
            delayed: self.delayed + more.delayed,
            leased: self.leased + more.leased,
            dead: self.dead + more.dead,
        }
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, less: Counts) -> Counts {
        Counts {
            ready: self.ready - less.ready,
            delayed: self.delayed - less.delayed,
            leased: self.leased - less.leased,
            dead: self.dead - less.dead,
        }
    }
}

impl<'a> Queue<'a> {
    /// Opens the queue as it stands, only to count. A key that is not a queue's counts as empty, and one that is absent
    /// as no miss in the server's statistics.
    pub fn to_count(scene: Scene<'a>, state: &'a State) -> Queue<'a> {
        Queue::new(scene, state, Purpose::Change)
    }

    pub fn counts(&mut self) -> Counts {
        let delayed = self.due_after(self.now());
        Counts {
            ready: self.due.len() as u64 - delayed,
            delayed,
            leased: self.leased.len() as u64,
            dead: self.dead.len() as u64,
        }
    }

    /// Jobs that are due later than `horizon` ms from now.
    pub fn far(&mut self, horizon: u64) -> u64 {
        self.due_after(self.now().saturating_add(horizon))
    }

    /// Jobs that are due later than `at`. In most queues all are on one side of it, as the two ends tell.
    pub(super) fn due_after(&mut self, at: u64) -> u64 {
        let all = self.due.len() as u64;
        if self.due.first(at, 1).is_empty() {
            all
        } else if self.due.last().is_none_or(|(_, last)| last <= at) {
            0
        } else {
            u64::try_from(self.ctx.zcount_above(&self.state.keys.due, at)).unwrap_or(0).min(all)
        }
    }
}

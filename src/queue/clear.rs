//! PURGE: all jobs of a state go for good.

use super::bulk::{Bulk, Walk};
use super::{JobState, Progress, Queue, Slice};
use crate::redis::{Position, Text};

/// All jobs of one state go.
pub struct Purge {
    state: JobState,
    /// What is due up to then, in ms, was ready when it was given.
    now: u64,
    pub(super) walk: Walk,
}

impl Purge {
    pub(super) fn step(&mut self, queue: &mut Queue, slice: &mut Slice) -> Progress {
        loop {
            let index = match self.state {
                JobState::Ready | JobState::Delayed => &mut queue.due,
                JobState::Leased => &mut queue.leased,
                JobState::Dead => &mut queue.dead_at,
            };
            let Some((member, score)) = self.walk.next(index, slice) else { return self.walk.progress() };
            if self.state == JobState::Ready && score > self.now as f64 {
                return Progress::Done;
            }
            if queue.purge_entry(member, score, self.state, slice) {
                queue.state.metrics.purged.add(1);
            }
        }
    }

    /// As `Bulk::covers`.
    pub(super) fn covers(&self, other: &Purge) -> bool {
        self.state == other.state
    }
}

impl Queue<'_> {
    /// Takes the jobs of these states out that are there now, in slices; says how many go.
    pub fn purge(&mut self, states: &[JobState]) -> u64 {
        let before = self.state.metrics.purged.get();
        let left: u64 = states.iter().map(|state| self.purge_state(*state)).sum();
        self.state.metrics.purged.get() - before + left
    }

    fn purge_state(&mut self, state: JobState) -> u64 {
        let (now, arrivals) = (self.now(), &self.state.arrivals);
        let delayed = self.due_after(now);
        let walk = match state {
            JobState::Ready => {
                let ready = (self.due.len() as u64).saturating_sub(delayed);
                Walk::new(&arrivals.due, Position::start(), ready)
            }
            JobState::Delayed => Walk::new(&arrivals.due, Position::above(now), delayed),
            JobState::Leased => Walk::new(&arrivals.leased, Position::start(), self.leased.len() as u64),
            JobState::Dead => Walk::new(&arrivals.dead, Position::start(), self.dead_at.len() as u64),
        };
        self.begin(Bulk::Purge(Purge { state, now, walk }))
    }

    /// An entry without a job is DQ.CHECK's.
    fn purge_entry(&mut self, member: Text, score: f64, state: JobState, slice: &mut Slice) -> bool {
        match state {
            JobState::Dead => self.cancel_letter(&member),
            JobState::Leased => self.jobs.has(&member) && self.remove_job(&member),
            JobState::Ready | JobState::Delayed => {
                let job = self.job_at(member, score as u64, slice);
                job.is_some_and(|(id, member)| self.remove_due_job(&id, &member))
            }
        }
    }
}

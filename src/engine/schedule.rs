//! What is to be done when. Pure: it holds plain times and keys.

use crate::core::table::fit;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A map that is looked into at every command. Its seed is drawn, so that no choice of names can slow it down.
pub type Map<K, V> = HashMap<K, V, RandomState>;

/// Tasks by their time. A task is named by a key and stands at one time at most.
pub struct Schedule<K> {
    times: Map<K, (u64, u64)>,
    tasks: BTreeMap<(u64, u64), K>,
    /// Tells tasks of one time apart, in the order they were set.
    sequence: u64,
}

impl<K: Clone + Eq + Hash> Default for Schedule<K> {
    fn default() -> Self {
        Schedule { times: Map::default(), tasks: BTreeMap::new(), sequence: 0 }
    }
}

impl<K: Clone + Eq + Hash> Schedule<K> {
    /// Sets the task to `at`, whenever it was to be before.
    pub fn set(&mut self, task: K, at: u64) {
        self.remove(&task);
        let place = (at, self.sequence);
        self.sequence += 1;
        self.times.insert(task.clone(), place);
        self.tasks.insert(place, task);
    }

    /// Sets the task to `at` unless it is to be done before that.
    pub fn set_by(&mut self, task: K, at: u64) {
        if self.times.get(&task).is_none_or(|(set, _)| *set > at) {
            self.set(task, at);
        }
    }

    pub fn remove(&mut self, task: &K) {
        if let Some(place) = self.times.remove(task) {
            self.tasks.remove(&place);
            fit(&mut self.times);
        }
    }

    pub fn has(&self, task: &K) -> bool {
        self.times.contains_key(task)
    }

    pub fn any(&self, is: impl Fn(&K) -> bool) -> bool {
        self.times.keys().any(is)
    }

    /// When the task is to be done.
    pub fn at(&self, task: &K) -> Option<u64> {
        self.times.get(task).map(|(at, _)| *at)
    }

    /// The time of the next task.
    pub fn next_at(&self) -> Option<u64> {
        self.tasks.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next task that is to be done by `now`.
    pub fn pop(&mut self, now: u64) -> Option<K> {
        if self.next_at()? > now {
            return None;
        }
        let (_, task) = self.tasks.pop_first()?;
        self.times.remove(&task);
        fit(&mut self.times);
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_come_by_time_and_then_in_the_order_they_were_set() {
        let mut schedule = Schedule::default();
        schedule.set("late", 30);
        schedule.set("first", 10);
        schedule.set("second", 10);
        assert_eq!(schedule.next_at(), Some(10));
        assert_eq!(schedule.pop(9), None);
        assert_eq!(schedule.pop(10), Some("first"));
        assert_eq!(schedule.pop(10), Some("second"));
        assert_eq!(schedule.pop(10), None);
        assert_eq!(schedule.pop(100), Some("late"));
        assert_eq!(schedule.next_at(), None);
    }

    #[test]
    fn a_task_stands_at_one_time() {
        let mut schedule = Schedule::default();
        schedule.set("task", 10);
        schedule.set("task", 20);
        assert_eq!(schedule.pop(15), None);
        schedule.set_by("task", 30);
        assert_eq!(schedule.next_at(), Some(20));
        schedule.set_by("task", 12);
        assert_eq!(schedule.pop(12), Some("task"));
        assert_eq!(schedule.pop(1000), None);
    }

    #[test]
    fn a_removed_task_does_not_come() {
        let mut schedule = Schedule::default();
        schedule.set(1, 10);
        schedule.set(2, 10);
        schedule.remove(&1);
        schedule.remove(&3);
        assert_eq!(schedule.pop(10), Some(2));
        assert_eq!(schedule.pop(10), None);
    }
}

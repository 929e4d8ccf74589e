//! The queues that this node knows, and what is to be done in them when.

use super::schedule::{Map, Schedule};
use crate::core::names::QueueName;
use crate::core::table::fit;
use crate::queue::State;
use crate::settings;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A queue by the number that the index gave it; never used again for another.
pub type QueueNumber = u64;

/// What is to be done in a queue by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// A queue was found, or its header went.
    Meet(QueueNumber),
    /// A job is due that somebody waits for.
    Serve(QueueNumber),
    /// Leases end.
    Leases(QueueNumber),
    /// Stale jobs, free ids, old letters, a header that went missing or is of no more use.
    Upkeep(QueueNumber),
    /// Work on very many jobs goes on.
    Bulk(QueueNumber),
}

impl Task {
    pub fn number(self) -> QueueNumber {
        match self {
            Task::Meet(number)
            | Task::Serve(number)
            | Task::Leases(number)
            | Task::Upkeep(number)
            | Task::Bulk(number) => number,
        }
    }
}

/// A queue that the index holds.
#[derive(Clone)]
pub struct Known {
    pub number: QueueNumber,
    pub db: i32,
    pub state: Rc<State>,
}

/// Nothing in here is needed to find a job again; the keys are the truth.
#[derive(Default)]
pub struct Index {
    by_name: Map<i32, Map<Box<[u8]>, Known>>,
    by_number: BTreeMap<QueueNumber, Known>,
    next_number: QueueNumber,
    pub schedule: Schedule<Task>,
}

impl Index {
    pub fn find(&self, db: i32, name: &[u8]) -> Option<&Known> {
        self.by_name.get(&db)?.get(name)
    }

    /// The queues of that name, one a database.
    pub fn named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a Known> {
        self.by_name.values().filter_map(move |names| names.get(name))
    }

    pub fn get(&self, number: QueueNumber) -> Option<&Known> {
        self.by_number.get(&number)
    }

    /// Every queue that was ever known here has a smaller number.
    pub fn next_number(&self) -> QueueNumber {
        self.next_number
    }

    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = &Known> {
        self.by_number.values()
    }

    /// The queues from this number on, in the order of their numbers.
    pub fn from(&self, number: QueueNumber) -> impl Iterator<Item = &Known> {
        self.by_number.range(number..).map(|(_, known)| known)
    }

    /// Any one queue.
    pub fn any(&self) -> Option<&Known> {
        self.by_number.values().next()
    }

    /// Knows the queue from now on; the one that it knows already stays as it is.
    pub fn adopt(&mut self, db: i32, state: Rc<State>) -> QueueNumber {
        let names = self.by_name.entry(db).or_default();
        if let Some(known) = names.get(state.name()) {
            return known.number;
        }
        let number = self.next_number;
        self.next_number += 1;
        let known = Known { number, db, state };
        names.insert(known.state.name().into(), known.clone());
        self.by_number.insert(number, known);
        number
    }

    /// As `adopt`, for a name that was found.
    pub fn adopt_name(&mut self, db: i32, name: &QueueName, now: u64) -> QueueNumber {
        match self.find(db, name.as_bytes()) {
            Some(known) => known.number,
            None => self.adopt(db, Rc::new(State::new(name, now))),
        }
    }

    pub fn forget(&mut self, number: QueueNumber) {
        if let Some(known) = self.by_number.remove(&number) {
            if let Some(names) = self.by_name.get_mut(&known.db) {
                names.remove(known.state.name());
                fit(names);
            }
            for task in [Task::Meet, Task::Serve, Task::Leases, Task::Upkeep, Task::Bulk] {
                self.schedule.remove(&task(number));
            }
        }
    }

    /// The queues of one database, or of all.
    pub fn numbers_in(&self, db: Option<i32>) -> Vec<QueueNumber> {
        self.by_number.values().filter(|known| db.is_none_or(|db| db == known.db)).map(|known| known.number).collect()
    }

    /// The databases that have a queue.
    pub fn databases(&self) -> impl Iterator<Item = i32> + '_ {
        self.by_name.iter().filter(|(_, names)| !names.is_empty()).map(|(db, _)| *db)
    }

    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Sets what is to be done first in a queue that was just found.
    pub fn meet(&mut self, number: QueueNumber, now: u64) {
        self.schedule.set_by(Task::Meet(number), now);
        self.schedule.set_by(Task::Leases(number), now);
        self.schedule.set_by(Task::Upkeep(number), now.saturating_add(settings::PURGE_INTERVAL.get()));
    }

    /// As `meet`, unless the queue is looked after already.
    pub fn meet_new(&mut self, number: QueueNumber, now: u64) {
        if !self.schedule.has(&Task::Upkeep(number)) {
            self.meet(number, now);
        }
    }

    /// Sees to it that a queue, which may have no key yet, is looked over some day and forgotten where it has none.
    pub fn keep(&mut self, number: QueueNumber, now: u64) {
        if !self.schedule.has(&Task::Upkeep(number)) {
            self.schedule.set(Task::Upkeep(number), now.saturating_add(settings::PURGE_INTERVAL.get()));
        }
    }

    /// Meets every queue anew, whatever was to be done before.
    pub fn meet_all(&mut self, now: u64) {
        self.schedule = Schedule::default();
        for number in self.numbers_in(None) {
            self.meet(number, now);
        }
    }
}

//! The queues that this node knows, and what is to be done in them when.

use super::schedule::{Map, Schedule};
use crate::core::names::QueueName;
use crate::core::table::fit_set;
use crate::queue::State;
use crate::redis::Text;
use crate::settings;
use foldhash::fast::RandomState;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
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
pub struct Known {
    pub number: QueueNumber,
    pub db: i32,
    name: Text,
    /// `None` while the queue has no keys and is only waited for.
    state: RefCell<Option<Rc<State>>>,
}

impl Known {
    pub fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// The name as a string of the server.
    pub fn name_text(&self) -> &Text {
        &self.name
    }

    /// What is remembered of the queue; `None` while it has no keys and is only waited for.
    pub fn state(&self) -> Option<Rc<State>> {
        self.state.borrow().clone()
    }

    /// The same, or a fresh state for one step.
    pub fn state_or_fresh(&self, now: u64) -> Rc<State> {
        let fresh = || QueueName::parse(self.name()).expect("the index holds only names that were parsed");
        self.state().unwrap_or_else(|| Rc::new(State::new(&fresh(), now)))
    }

    fn waiting_bytes(&self) -> usize {
        waiting_bytes_of(self.name())
    }
}

/// Bytes that are taken for strings of so many bytes: the allocator rounds each up, by a quarter at most.
pub fn allocated(bytes: usize) -> usize {
    bytes + bytes / 4
}

/// Bytes that the index takes for a queue of that name while it is only waited for.
pub fn waiting_bytes_of(name: &[u8]) -> usize {
    ONLY_WAITED_FOR + allocated(name.len())
}

/// Bytes that the index takes for a queue that is only waited for, without its name: the entry itself, its places in the
/// two maps, the task that looks for its keys. Measured by `cargo test --test blocking memory::`.
const ONLY_WAITED_FOR: usize = 240;

/// A queue in the map of names.
struct ByName(Rc<Known>);

impl Borrow<[u8]> for ByName {
    fn borrow(&self) -> &[u8] {
        self.0.name()
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &ByName) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for ByName {}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.name().hash(hasher);
    }
}

/// Nothing in here is needed to find a job again; the keys are the truth.
#[derive(Default)]
pub struct Index {
    by_name: Map<i32, HashSet<ByName, RandomState>>,
    by_number: BTreeMap<QueueNumber, Rc<Known>>,
    next_number: QueueNumber,
    /// Bytes for queues that are only waited for.
    waiting_bytes: usize,
    pub schedule: Schedule<Task>,
}

impl Index {
    pub fn find(&self, db: i32, name: &[u8]) -> Option<&Known> {
        self.by_name.get(&db)?.get(name).map(|known| &*known.0)
    }

    /// The queues of that name, one a database.
    pub fn named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a Known> {
        self.by_name.values().filter_map(move |names| names.get(name)).map(|known| &*known.0)
    }

    pub fn get(&self, number: QueueNumber) -> Option<&Known> {
        self.by_number.get(&number).map(|known| &**known)
    }

    /// Every queue that was ever known here has a smaller number.
    pub fn next_number(&self) -> QueueNumber {
        self.next_number
    }

    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// What is remembered of every queue that is more than waited for.
    pub fn states(&self) -> impl Iterator<Item = Rc<State>> + '_ {
        self.by_number.values().filter_map(|known| known.state())
    }

    /// The queues from this number on, in the order of their numbers.
    pub fn from(&self, number: QueueNumber) -> impl Iterator<Item = &Known> {
        self.by_number.range(number..).map(|(_, known)| &**known)
    }

    /// Any one queue.
    pub fn any(&self) -> Option<&Known> {
        self.by_number.values().next().map(|known| &**known)
    }

    /// Bytes for queues that are known only because clients wait for them.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Knows the queue from now on; the one that it knows already stays as it is.
    pub fn adopt(&mut self, db: i32, state: &Rc<State>) -> QueueNumber {
        let number = match self.find(db, state.name()) {
            Some(known) => known.number,
            None => return self.insert(db, state.keys.header.clone(), Some(Rc::clone(state))),
        };
        if let Some(known) = self.by_number.get(&number).filter(|known| known.state.borrow().is_none()) {
            self.waiting_bytes -= known.waiting_bytes();
            known.state.replace(Some(Rc::clone(state)));
            // Only its keys were looked for: from now on all is to be done in it.
            self.schedule.remove(&Task::Upkeep(number));
        }
        number
    }

    /// As `adopt`, for a name that was found.
    pub fn adopt_name(&mut self, db: i32, name: &QueueName, now: u64) -> QueueNumber {
        match self.find(db, name.as_bytes()).filter(|known| known.state.borrow().is_some()) {
            Some(known) => known.number,
            None => self.adopt(db, &Rc::new(State::new(name, now))),
        }
    }

    /// Knows a queue that a client waits for. One without keys is forgotten when the last client has left.
    pub fn await_name(&mut self, db: i32, name: &QueueName) -> QueueNumber {
        match self.find(db, name.as_bytes()) {
            Some(known) => known.number,
            None => self.insert(db, Text::new(name.as_bytes()), None),
        }
    }

    fn insert(&mut self, db: i32, name: Text, state: Option<Rc<State>>) -> QueueNumber {
        let number = self.next_number;
        self.next_number += 1;
        let known = Rc::new(Known { number, db, name, state: RefCell::new(state) });
        self.waiting_bytes += if known.state.borrow().is_none() { known.waiting_bytes() } else { 0 };
        self.by_name.entry(db).or_default().insert(ByName(Rc::clone(&known)));
        self.by_number.insert(number, known);
        number
    }

    /// The keys of a queue that clients wait for are gone: nothing is remembered of it but its name.
    pub fn only_wait_for(&mut self, number: QueueNumber) {
        if let Some(known) = self.by_number.get(&number) {
            if known.state.take().is_some() {
                self.waiting_bytes += known.waiting_bytes();
            }
        }
    }

    /// Whether the queue is known for no other reason than that clients wait, or waited, for it.
    pub fn is_only_waited_for(&self, number: QueueNumber) -> bool {
        self.get(number).is_some_and(|known| known.state.borrow().is_none())
    }

    pub fn forget(&mut self, number: QueueNumber) {
        if let Some(known) = self.by_number.remove(&number) {
            if known.state.borrow().is_none() {
                self.waiting_bytes -= known.waiting_bytes();
            }
            if let Some(names) = self.by_name.get_mut(&known.db) {
                names.remove(known.name());
                fit_set(names);
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

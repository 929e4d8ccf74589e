//! What this node remembers of a queue: the names of its keys and what was counted. None of it is needed to find a
//! job again; the keys are the truth.

use super::arrivals::Arrivals;
use super::bulk::Bulk;
use super::header::{MARK, PAUSED};
use super::leases::Leases;
use super::metrics::Metrics;
use super::rules::Rules;
use super::tenure::LeasesOfTenure;
use crate::core::names::{Companion, QueueName};
use crate::redis::Text;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The names of a queue's keys, as strings of the server, made once.
pub struct Keys {
    pub header: Text,
    pub due: Text,
    pub leased: Text,
    pub jobs: Text,
    pub ids: Text,
    pub dead: Text,
    pub dead_at: Text,
    /// The fields of the header.
    pub mark: Text,
    pub paused: Text,
}

impl Keys {
    pub fn new(name: &QueueName) -> Keys {
        let key = |companion| Text::new(&name.key(companion));
        Keys {
            header: Text::new(name.as_bytes()),
            due: key(Companion::Due),
            leased: key(Companion::Leased),
            jobs: key(Companion::Jobs),
            ids: key(Companion::Ids),
            dead: key(Companion::Dead),
            dead_at: key(Companion::DeadAt),
            mark: Text::new(MARK),
            paused: Text::new(PAUSED),
        }
    }

    /// Every key that the queue may have.
    pub fn all(&self) -> [&Text; 7] {
        [&self.header, &self.due, &self.leased, &self.jobs, &self.ids, &self.dead, &self.dead_at]
    }
}

/// What the header says; `None` for a field that it lacks.
#[derive(Clone, Default)]
pub struct Header {
    pub made: Option<Text>,
    pub paused: Option<Text>,
    pub rules: Rules,
}

/// What came into the indexes since walks over them began.
#[derive(Default)]
pub struct IndexArrivals {
    pub due: Rc<Arrivals>,
    pub leased: Rc<Arrivals>,
    pub dead: Rc<Arrivals>,
}

/// One queue in one database, as this node knows it.
pub struct State {
    pub keys: Keys,
    pub metrics: Metrics,
    pub leases: Leases,
    pub tenure: LeasesOfTenure,
    /// Queue time of the last claim that named the queue, or of the last end of a lease, or of when this node first saw
    /// the queue, in ms.
    pub worked_on: Cell<u64>,
    /// Queue time of the last change by a command, in ms.
    pub last_change: Cell<u64>,
    /// The header as it was last known.
    pub header: RefCell<Header>,
    /// Whether the key still says what `header` does: nothing was told since of a key of that name that came or went.
    pub header_holds: Cell<bool>,
    /// Queue time of the last RESUME, in ms.
    pub resumed_at: Cell<u64>,
    /// Whether the newest ids on the keys were looked at since others may have made some.
    pub ids_are_known: Cell<bool>,
    /// Whether an id was met that is of a time yet to come, so that one to be made may be taken.
    pub ids_are_ahead: Cell<bool>,
    /// The number of the last rotating claim that the queue served; 0 if it has served none.
    pub served: Cell<u64>,
    /// Work on very many jobs that is under way.
    pub bulk: RefCell<Vec<Bulk>>,
    pub arrivals: IndexArrivals,
}

impl State {
    pub fn new(name: &QueueName, now: u64) -> State {
        State {
            keys: Keys::new(name),
            metrics: Metrics::default(),
            leases: Leases::default(),
            tenure: LeasesOfTenure::default(),
            worked_on: Cell::new(now),
            last_change: Cell::new(now),
            header: RefCell::default(),
            header_holds: Cell::new(false),
            resumed_at: Cell::new(0),
            ids_are_known: Cell::new(false),
            ids_are_ahead: Cell::new(false),
            served: Cell::new(0),
            bulk: RefCell::default(),
            arrivals: IndexArrivals::default(),
        }
    }

    /// Others may change the keys from now on, or did.
    pub fn forget_what_may_change(&self) {
        self.header_holds.set(false);
        self.forget_what_is_in_them();
    }

    /// The keys may be others' work: ids that this node did not make, leases that it did not give.
    pub fn forget_what_is_in_them(&self) {
        self.ids_are_known.set(false);
        self.tenure.end();
        self.leases.clear();
    }

    /// The keys are others now: nothing that was known of them holds.
    pub fn forget_keys(&self) {
        self.header.replace(Header::default());
        self.forget_what_may_change();
        self.resumed_at.set(0);
        self.served.set(0);
        self.end_bulk();
    }

    /// Whether work on very many jobs is under way.
    pub fn has_bulk(&self) -> bool {
        !self.bulk.borrow().is_empty()
    }

    /// What is under way ends where it is.
    pub fn end_bulk(&self) {
        self.bulk.borrow_mut().clear();
    }

    pub fn name(&self) -> &[u8] {
        self.keys.header.as_bytes()
    }
}

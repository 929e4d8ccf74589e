//! The ids that came into an index while a walk over it goes on: the walk is for what was there when it began.

use crate::redis::Text;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// What came into one index, for as long as somebody watches.
#[derive(Default)]
pub struct Arrivals {
    /// The number of the latest watch that had begun when the id came last.
    came: RefCell<HashMap<Box<[u8]>, u64>>,
    watches: Cell<usize>,
    latest: Cell<u64>,
}

impl Arrivals {
    pub fn note(&self, id: &Text) {
        if self.watches.get() > 0 {
            self.came.borrow_mut().insert(id.as_bytes().into(), self.latest.get());
        }
    }
}

/// A watch from the moment it was made.
pub struct Watch {
    arrivals: Rc<Arrivals>,
    number: u64,
}

impl Watch {
    pub fn new(arrivals: &Rc<Arrivals>) -> Watch {
        arrivals.watches.set(arrivals.watches.get() + 1);
        arrivals.latest.set(arrivals.latest.get() + 1);
        Watch { arrivals: Rc::clone(arrivals), number: arrivals.latest.get() }
    }

    /// Whether the id came into the index since.
    pub fn has_come(&self, id: &Text) -> bool {
        self.arrivals.came.borrow().get(id.as_bytes()).is_some_and(|came| *came >= self.number)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.arrivals.watches.set(self.arrivals.watches.get() - 1);
        if self.arrivals.watches.get() == 0 {
            self.arrivals.came.take();
        }
    }
}

//! What INFO says of the node.

use super::NODE;
use crate::redis::{Info, InfoSection};

pub struct NodeInfo;

impl Info for NodeInfo {
    fn write(section: &InfoSection) {
        let clock = NODE.clock.figures();
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        section.text("version", env!("CARGO_PKG_VERSION"));
        section.integer("acting", i64::from(NODE.is_acting()));
        section.integer("takes_writes", i64::from(NODE.availability.borrow().is_open()));
        section.integer("queues", count(NODE.index.borrow().len()));
        section.integer("waiting", count(NODE.waiters.borrow().len()));
        section.integer("clock_offset_ms", clock.offset_ms);
        section.integer("clock_steps", i64::try_from(clock.steps).unwrap_or(i64::MAX));
        section.integer("clock_held", i64::from(clock.held));
    }
}

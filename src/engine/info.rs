//! What INFO says of the node.

use super::alerts::Alert;
use super::warnings::refused_when_aof_is_loaded;
use super::NODE;
use crate::queue::Counter;
use crate::redis::{marks_removed, timer_figures, Info, InfoSection};

/// What was counted on this node since the module was loaded.
#[derive(Default)]
pub struct Figures {
    pub leases: TaskFigures,
    pub upkeep: TaskFigures,
    pub bulk: TaskFigures,
    pub lapsed: Counter,
    pub purged: Counter,
    /// Pushes that were refused with DQFULL.
    pub refused_full: Counter,
    /// Claims with BLOCK that were refused because waiting clients take too much memory.
    pub refused_waiting: Counter,
    /// Commands with receipts for a queue that does not exist.
    pub unknown_queue: Counter,
}

/// How often a task was carried out, and how long that took.
#[derive(Default)]
pub struct TaskFigures {
    pub runs: Counter,
    pub us: Counter,
}

pub struct NodeInfo;

impl Info for NodeInfo {
    fn write(section: &InfoSection) {
        section.text("version", env!("CARGO_PKG_VERSION"));
        section.integer("acting", i64::from(NODE.is_acting()));
        section.integer("takes_writes", i64::from(NODE.availability.borrow().is_open()));
        section.integer("aof_loadable", i64::from(refused_when_aof_is_loaded().is_none()));
        section.count("queues", NODE.index.borrow().len() as u64);
        section.count("waiting", NODE.waiters.borrow().len() as u64);
        section.count("waiting_bytes", NODE.waiting_bytes() as u64);
        section.count("waiting_max_bytes", NODE.max_waiting_bytes() as u64);
        if NODE.is_acting() {
            write_queues(section);
        }
        write_clock(section);
        write_timers(section);
    }
}

/// What the census found, which goes on only where the node acts.
fn write_queues(section: &InfoSection) {
    let total = NODE.census.borrow().total();
    section.count("jobs_ready", total.ready);
    section.count("jobs_delayed", total.delayed);
    section.count("jobs_leased", total.leased);
    section.count("jobs_dead", total.dead);
    let alerts = NODE.alerts.borrow();
    section.count("queues_far", alerts.troubled(Alert::FarAlarm));
    section.count("queues_behind", alerts.troubled(Alert::Behind));
    section.count("queues_full", alerts.troubled(Alert::Full));
}

fn write_clock(section: &InfoSection) {
    let clock = NODE.clock.figures();
    section.integer("clock_offset_ms", clock.offset_ms);
    section.count("clock_steps", clock.steps);
    section.integer("clock_held", i64::from(clock.held));
}

fn write_timers(section: &InfoSection) {
    let (timers, figures) = (timer_figures(), &NODE.figures);
    section.count("cross_slot_refusals", marks_removed().count);
    section.count("refused_full", figures.refused_full.get());
    section.count("refused_waiting", figures.refused_waiting.get());
    section.count("unknown_queue", figures.unknown_queue.get());
    section.count("leases_lapsed", figures.lapsed.get());
    section.count("stale_purged", figures.purged.get());
    section.count("timer_runs", timers.runs);
    section.count("timer_us", timers.us);
    section.count("timer_longest_us", timers.longest_us);
    section.count("timer_lease_runs", figures.leases.runs.get());
    section.count("timer_lease_us", figures.leases.us.get());
    section.count("timer_purge_runs", figures.upkeep.runs.get());
    section.count("timer_purge_us", figures.upkeep.us.get());
    section.count("timer_bulk_runs", figures.bulk.runs.get());
    section.count("timer_bulk_us", figures.bulk.us.get());
}

//! How the queues are found again: by one walk over the keyspace after a load or a promotion, and by the events of
//! keys that come and go without a command of the module. A queue that neither has met yet is found by its first
//! command.

use super::index::{Known, Task};
use super::{Node, NODE};
use crate::core::names::{self, QueueName};
use crate::queue::{Queue, Scene, Slice, State};
use crate::redis::{Ctx, Events, KeyEvent, KeyspaceScan};

/// Marks that are kept; more of them cost more than a walk.
const MAX_MARKS: usize = 10_000;
/// How long a mark waits for others to join it, in ms.
const MARKS_WAIT_MS: u64 = 2;

/// What is still to be looked at.
#[derive(Default)]
pub struct Discovery {
    walk: Option<Walk>,
    /// Names of queues, with their database, some key of which came or went.
    marks: Vec<(i32, Vec<u8>)>,
}

#[derive(Default)]
struct Walk {
    db: i32,
    scan: KeyspaceScan,
}

impl Discovery {
    pub fn scan_all(&mut self) {
        self.walk = Some(Walk::default());
        self.marks.clear();
    }

    pub fn is_over(&self) -> bool {
        self.walk.is_none() && self.marks.is_empty()
    }

    fn mark(&mut self, db: i32, name: &[u8]) {
        // The keys of one queue often come and go together.
        if self.marks.last().is_some_and(|(of, last)| *of == db && last == name) {
            return;
        }
        if self.marks.len() < MAX_MARKS {
            self.marks.push((db, name.to_vec()));
        } else {
            self.scan_all();
        }
    }

    /// Goes on with the walk as far as the slice goes; returns what was found.
    fn step(&mut self, ctx: &Ctx, slice: &mut Slice) -> Vec<(i32, Vec<u8>)> {
        let mut found = Vec::new();
        while let Some(walk) = &mut self.walk {
            if slice.is_over() {
                break;
            }
            if !ctx.select_db(walk.db) {
                self.walk = None;
                break;
            }
            let db = walk.db;
            let more = walk.scan.step(ctx, &mut |key| {
                slice.spend(0);
                if let Some((name, _)) = names::queue_of(key) {
                    found.push((db, name.as_bytes().to_vec()));
                }
            });
            if !more {
                *walk = Walk { db: db + 1, scan: KeyspaceScan::default() };
            }
        }
        found
    }
}

impl Node {
    /// Where the keys of a marked queue are. Valkey 9.1 tells of a MOVE within MULTI as if all of it were in the database
    /// that the client had selected, so where the keys are not there, every database is looked into.
    fn places_of(&self, ctx: &Ctx, (db, name): (i32, Vec<u8>)) -> Vec<(i32, Vec<u8>)> {
        let Ok(queue) = QueueName::parse(&name) else { return Vec::new() };
        let state = State::new(&queue, 0);
        let scene = Scene { cluster: false, ..self.scene(ctx, 0) };
        let is_in = |db: i32| ctx.select_db(db) && Queue::look(scene, &state).is_ok_and(|mut queue| queue.exists());
        let places = if is_in(db) || self.has_left(db, &name) {
            vec![db]
        } else {
            (0..).take_while(|db| ctx.select_db(*db)).filter(|db| is_in(*db)).collect()
        };
        places.into_iter().map(|db| (db, name.clone())).collect()
    }

    /// Whether this node of a cluster knows a queue whose keys went, as it seems: it is looked at and forgotten where its
    /// slot has left.
    fn has_left(&self, db: i32, name: &[u8]) -> bool {
        self.cluster.get() && self.index.borrow().find(db, name).is_some_and(|known| known.state().is_some())
    }

    /// Adopts the queues that were found since the last turn.
    pub(super) fn discover(&self, ctx: &Ctx, now: u64, slice: &mut Slice) {
        let marks = std::mem::take(&mut self.discovery.borrow_mut().marks);
        let mut found: Vec<_> = marks.into_iter().flat_map(|mark| self.places_of(ctx, mark)).collect();
        found.extend(self.discovery.borrow_mut().step(ctx, slice));
        let mut index = self.index.borrow_mut();
        for (db, name) in found {
            if let Ok(name) = QueueName::parse(&name) {
                let number = index.adopt_name(db, &name, now);
                index.meet(number, now);
                if self.waiters.borrow().count(number) > 0 {
                    index.schedule.set(Task::Serve(number), now);
                }
            }
        }
    }
}

/// A key came from elsewhere: what was known of its queue does not hold, and receipts of earlier claims do not act on
/// later ones. This is done at once, since a claim may follow in the same MULTI, and also while DQ does not act. It is
/// done in every database, since the event may name the wrong one (see `places_of`).
fn forget_queues_of(key: &[u8]) {
    if let Some((name, _)) = names::queue_of(key) {
        NODE.index
            .borrow()
            .named(name.as_bytes())
            .filter_map(Known::state)
            .for_each(|state| state.forget_what_is_in_them());
    }
}

/// What the server tells the module of.
pub struct ServerEvents;

impl Events for ServerEvents {
    fn role_changed(ctx: &Ctx, primary: bool) {
        NODE.primary.set(primary);
        if primary {
            NODE.take_over(ctx);
        } else {
            NODE.give_up_walks(None);
            NODE.stand_down(ctx);
        }
    }

    fn loading_started(ctx: &Ctx) {
        NODE.loading.set(true);
        NODE.give_up_walks(None);
        NODE.stand_down(ctx);
    }

    fn loading_ended(ctx: &Ctx) {
        NODE.loading.set(false);
        // A replica that loads into a second keyspace serves clients meanwhile.
        NODE.give_up_walks(None);
        if NODE.primary.get() {
            NODE.begin_anew(ctx);
        }
    }

    fn flushed(_: &Ctx, db: Option<i32>) {
        NODE.give_up_walks(db);
        let numbers = NODE.index.borrow().numbers_in(db);
        for number in numbers {
            if NODE.waiters.borrow().count(number) == 0 {
                NODE.forget(number);
            } else {
                NODE.only_wait_for(number);
            }
        }
    }

    fn swapped(ctx: &Ctx, first: i32, second: i32) {
        for db in [first, second] {
            NODE.give_up_walks(Some(db));
            let index = NODE.index.borrow();
            let known = index.numbers_in(Some(db)).into_iter().filter_map(|number| index.get(number));
            known.filter_map(Known::state).for_each(|state| state.forget_keys());
        }
        NODE.start(ctx);
    }

    fn slots_moved(ctx: &Ctx) {
        NODE.give_up_walks(None);
        NODE.index.borrow().states().for_each(|state| state.forget_what_may_change());
        if NODE.is_acting() {
            NODE.discovery.borrow_mut().scan_all();
            NODE.slots_looked_at.set(0);
            NODE.hurry(ctx, Task::Meet, 0);
            NODE.wake_by(ctx, NODE.now(ctx));
        }
    }

    fn config_changed(ctx: &Ctx) {
        NODE.look_at_memory_limit(ctx);
        NODE.warn(ctx);
    }

    fn tick(ctx: &Ctx) {
        NODE.begin(ctx);
        // Looks at the clock, where no command does.
        NODE.now(ctx);
        NODE.turn_if_held_back(ctx);
        NODE.walk_if_held_back(ctx);
        NODE.release_if_held_back(ctx);
        NODE.watch_for_refusals(ctx);
        NODE.count_if_due(ctx);
        NODE.tell_of_cross_slot_refusals(ctx);
        NODE.warn_now_and_then(ctx);
    }

    fn key(ctx: &Ctx, event: KeyEvent, db: i32, key: &[u8]) {
        NODE.index.borrow().named(key).filter_map(Known::state).for_each(|state| state.header_holds.set(false));
        // On a replica, the key of an index goes each time that the index is empty: then its entries are gone, too.
        if NODE.has_walks() && (NODE.is_acting() || event == KeyEvent::Came) {
            NODE.give_up_walks_of(db, names::queue_of(key).map_or(key, |(name, _)| name.as_bytes()));
        }
        if event == KeyEvent::Came {
            forget_queues_of(key);
        }
        if !NODE.is_acting() {
            return;
        }
        let companion_of = names::queue_of(key).map(|(name, _)| name.as_bytes());
        let name = companion_of.unwrap_or(key);
        let index = NODE.index.borrow();
        let known = index.find(db, name);
        // Whatever comes or goes of a queue can make its jobs claimable: a header without a pause, leases that went while
        // it was at its `max-leased`. A companion that comes makes a queue known.
        if known.is_some() || event == KeyEvent::Came && companion_of.is_some() {
            if let Some(state) = known.and_then(Known::state) {
                state.end_bulk();
                // Of a queue whose companion went, what is left is as it was.
                if event == KeyEvent::Came || companion_of.is_none() {
                    state.forget_what_is_in_them();
                }
            }
            drop(index);
            NODE.discovery.borrow_mut().mark(db, name);
            NODE.wake_by(ctx, NODE.now(ctx).saturating_add(MARKS_WAIT_MS));
        }
    }
}

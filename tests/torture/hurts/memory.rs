//! maxmemory is reached, and nothing may be evicted.

use super::arena::{alone, Arena, Hurt, Keeping};
use crate::common::wait_for;

pub const NO_MEMORY: Hurt = Hurt { name: "maxmemory", begin: limit, end: lift };

fn limit(arena: &mut Arena) {
    arena.server.run(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let (refused, acts) = (arena.ledger.refused("OOM"), arena.ledger.pages().acts.len());
    // More than the workers can have in hand: so some was claimed since.
    let more = arena.plan.workers * 3 + 5;
    wait_for("pushes to be refused, and jobs to be finished", || {
        let goes_on = arena.refused_since.is_some() || arena.ledger.done_since(acts) > more || arena.is_empty();
        arena.ledger.refused("OOM") > refused && goes_on
    });
    arena.see("pushes refused");
}

fn lift(arena: &mut Arena) {
    arena.server.run(&["CONFIG", "SET", "maxmemory", "0"]);
}

impl Arena {
    fn is_empty(&self) -> bool {
        self.plan.queues.iter().all(|queue| self.server.queue(queue).stats(["ready", "delayed", "leased"]) == [0, 0, 0])
    }
}

#[test]
fn pushes_are_refused_and_the_rest_goes_on() {
    let (arena, times) = alone(Keeping::EverySecond, &NO_MEMORY, 2);
    let settled = arena.settle();
    assert_eq!(settled.seen["pushes refused"], times as u64);
    assert!(settled.seen["commands refused: OOM"] > 0);
}

#[test]
fn all_can_be_finished_without_memory() {
    let mut arena = Arena::start(Keeping::EverySecond);
    arena.load(500);
    (NO_MEMORY.begin)(&mut arena);
    let settled = arena.settle();
    assert!(settled.seen["commands refused: OOM"] > 0);
}

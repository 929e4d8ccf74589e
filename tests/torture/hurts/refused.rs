//! The server takes no writes: for lack of replicas, or because clients are paused.

use super::arena::{alone, over, Arena, Hurt, Keeping};
use super::figures::Figures;
use crate::common::wait_for;
use crate::ledger::now_us;

pub const NO_REPLICAS: Hurt = Hurt { name: "min-replicas-to-write", begin: want_replicas, end: want_none };
pub const PAUSED_WRITES: Hurt = Hurt { name: "CLIENT PAUSE WRITE", begin: pause_writes, end: unpause };
pub const PAUSED: Hurt = Hurt { name: "CLIENT PAUSE ALL", begin: pause_all, end: over };

/// How long a pause of all clients lasts: none of them can end it.
const PAUSE_MS: u64 = 1200;

/// Waits until clients are refused with this code, and sees to it that nothing moves as long as they are.
pub fn stands_still(arena: &mut Arena) {
    // While there are several reasons the server names one.
    let refusals = |arena: &Arena| arena.ledger.refused("MISCONF") + arena.ledger.refused("NOREPLICAS");
    let before = refusals(arena);
    wait_for("a write to be refused", || refusals(arena) > before);
    stands_still_now(arena);
}

fn stands_still_now(arena: &mut Arena) {
    arena.refused_since = Some(now_us());
    let figures = Figures::read(&arena.server, &arena.plan.queues);
    arena.last(400);
    Figures::read(&arena.server, &arena.plan.queues).assert_stand_still(&figures);
    arena.see("stood still");
}

fn want_replicas(arena: &mut Arena) {
    arena.server.run(&["CONFIG", "SET", "min-replicas-to-write", "5"]);
    stands_still(arena);
}

fn want_none(arena: &mut Arena) {
    arena.takes_writes_again();
    arena.server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
}

fn pause_writes(arena: &mut Arena) {
    arena.server.run(&["CLIENT", "PAUSE", "86400000", "WRITE"]);
    stands_still_now(arena);
}

fn pause_all(arena: &mut Arena) {
    let asked = now_us();
    arena.server.run(&["CLIENT", "PAUSE", &PAUSE_MS.to_string(), "ALL"]);
    let from = now_us();
    // Answered after the pause, whether writes are taken then or not; PING is refused where a save has failed.
    arena.server.run(&["ECHO", "it is over"]);
    assert!(now_us() >= asked + PAUSE_MS * 1000, "it was no pause");
    arena.see("paused");
    arena.grace(from, asked + PAUSE_MS * 1000);
}

fn unpause(arena: &mut Arena) {
    arena.takes_writes_again();
    arena.server.run(&["CLIENT", "UNPAUSE"]);
}

#[test]
fn a_primary_without_its_replicas_does_nothing() {
    let (arena, times) = alone(Keeping::EverySecond, &NO_REPLICAS, 2);
    let settled = arena.settle();
    assert_eq!(settled.seen["stood still"], times as u64);
    assert!(settled.seen["commands refused: NOREPLICAS"] > 0);
}

#[test]
fn nothing_moves_while_writes_are_paused() {
    let (arena, times) = alone(Keeping::EverySecond, &PAUSED_WRITES, 2);
    assert_eq!(arena.settle().seen["stood still"], times as u64);
}

#[test]
fn a_pause_of_all_clients() {
    let (arena, times) = alone(Keeping::EverySecond, &PAUSED, 2);
    assert_eq!(arena.settle().seen["paused"], times as u64);
}

//! Workers stand still for longer than their leases, and die.

use super::arena::{over, Arena, Hurt, Keeping};
use crate::common::wait_for;
use crate::ledger::{Told, Verb};

pub const FROZEN_WORKERS: Hurt = Hurt { name: "SIGSTOP of workers", begin: freeze, end: go_on };
pub const DEAD_WORKER: Hurt = Hurt { name: "kill -9 of a worker", begin: kill, end: over };

const WORKERS: usize = 3;

fn freeze(arena: &mut Arena) {
    arena.gang.be(WORKERS);
    arena.gang.freeze();
    let ms = arena.plan.lease_ms + arena.some_ms(100, 500);
    arena.last(ms);
    arena.see("workers stood still");
}

fn go_on(arena: &mut Arena) {
    arena.gang.go_on();
}

fn kill(arena: &mut Arena) {
    arena.gang.be(WORKERS);
    let which = arena.dice.next();
    arena.gang.kill_one(which);
    arena.see("workers killed");
}

/// Waits until the worker processes have jobs in hand.
fn wait_for_claims(arena: &mut Arena) {
    arena.gang.be(WORKERS);
    let before = arena.gang.claims();
    wait_for("the worker processes to work", || arena.gang.claims() > before + 20);
}

#[test]
fn workers_that_stand_still_for_longer_than_their_leases() {
    let mut arena = Arena::start(Keeping::EverySecond);
    for _ in 0..5 {
        wait_for_claims(&mut arena);
        arena.live_through(&FROZEN_WORKERS);
    }
    let ledger = arena.ledger.clone();
    let settled = arena.settle();
    assert!(settled.cases("claimed again after its lease ended") > 0, "{:?}", settled.tally);
    let pages = ledger.pages();
    let of_processes = |receipt: &str| pages.claims.iter().any(|claim| claim.worker >= 100 && claim.receipt == receipt);
    let stale = pages.acts.iter().filter(|act| act.verb == Verb::Ack && act.told == Told::Stale);
    assert!(stale.filter(|act| of_processes(&act.receipt)).count() > 0, "no ACK came too late");
}

#[test]
fn workers_that_die() {
    let mut arena = Arena::start(Keeping::Always);
    for _ in 0..6 {
        wait_for_claims(&mut arena);
        (DEAD_WORKER.begin)(&mut arena);
    }
    assert_eq!(arena.settle().seen["workers killed"], 6);
}

//! Workers stand still for longer than their leases, and die.

use super::arena::{over, Arena, Hurt, Keeping};
use crate::common::wait_for;

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
    let mut freezes = 0;
    // Workers that wait for a job hold none when they are stopped, and then nothing comes late.
    while freezes < 5 || arena.gang.late_acks() == 0 {
        assert!(freezes < 50, "no ACK came too late");
        wait_for_claims(&mut arena);
        arena.live_through(&FROZEN_WORKERS);
        freezes += 1;
    }
    let settled = arena.settle();
    assert!(settled.cases("claimed again after its lease ended") > 0, "{:?}", settled.tally);
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

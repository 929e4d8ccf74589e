//! The server ends, by kill -9, by a power cut, by SHUTDOWN, and comes again.

use super::arena::{alone, over, Arena, Hurt, Keeping};
use crate::ledger::now_us;

pub const KILL: Hurt = Hurt { name: "kill -9", begin: Arena::crash, end: over };
pub const POWER_CUT: Hurt = Hurt { name: "power cut", begin: Arena::crash_without_power, end: over };
pub const SHUTDOWN: Hurt = Hurt { name: "SHUTDOWN", begin: shut_down, end: over };
pub const NOSAVE: Hurt = Hurt { name: "SHUTDOWN NOSAVE", begin: shut_down_unsaved, end: over };

fn shut_down(arena: &mut Arena) {
    let begun = now_us();
    if arena.shut_down("SAVE", None) {
        arena.saved = begun;
    }
}

fn shut_down_unsaved(arena: &mut Arena) {
    let safe_at = (arena.keeping == Keeping::Snapshots).then_some(arena.saved);
    arena.shut_down("NOSAVE", safe_at);
}

#[test]
fn kill_with_every_write_synced() {
    let (arena, times) = alone(Keeping::Always, &KILL, 3);
    assert_eq!(arena.settle().seen["restarts"], times as u64);
}

#[test]
fn a_power_cut_with_every_write_synced() {
    let (arena, times) = alone(Keeping::Always, &POWER_CUT, 3);
    assert_eq!(arena.settle().seen["restarts"], times as u64);
}

#[test]
fn kill_with_a_sync_a_second() {
    let (arena, times) = alone(Keeping::EverySecond, &KILL, 3);
    assert_eq!(arena.settle().seen["restarts"], times as u64);
}

#[test]
fn a_power_cut_with_a_sync_a_second() {
    let (arena, _) = alone(Keeping::EverySecond, &POWER_CUT, 3);
    arena.assert_seen("bytes lost in a power cut");
    let settled = arena.settle();
    assert!(settled.cases("push undone") + settled.cases("ended again") > 0, "nothing was lost: {:?}", settled.tally);
}

#[test]
fn kill_with_snapshots_only() {
    let mut arena = Arena::start(Keeping::Snapshots);
    for _ in 0..3 {
        arena.load(200);
        arena.snapshot();
        arena.load(200);
        arena.crash();
        arena.check_figures();
    }
    arena.load(200);
    let settled = arena.settle();
    assert!(settled.cases("push undone") > 0, "nothing was lost: {:?}", settled.tally);
}

#[test]
fn shutdown_loses_nothing() {
    for keeping in [Keeping::EverySecond, Keeping::Snapshots] {
        let (arena, times) = alone(keeping, &SHUTDOWN, 2);
        assert_eq!(arena.settle().seen["restarts"], times as u64);
    }
}

#[test]
fn shutdown_nosave_loses_what_no_snapshot_has() {
    let (arena, times) = alone(Keeping::EverySecond, &NOSAVE, 2);
    let settled = arena.settle();
    assert_eq!(settled.seen["restarts"], times as u64);
    assert_eq!(settled.cases("push undone"), 0, "the append only file was written: {:?}", settled.tally);
    let (arena, _) = alone(Keeping::Snapshots, &NOSAVE, 2);
    let settled = arena.settle();
    assert!(settled.cases("push undone") > 0, "nothing was lost: {:?}", settled.tally);
}

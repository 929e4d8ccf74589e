//! The disk is full, and has room again.

use super::arena::{alone, Arena, Hurt, Keeping};
use super::refused::stands_still;
use crate::common::wait_for;
use crate::ledger::now_us;

pub const FULL_DISK: Hurt = Hurt { name: "full disk", begin: fill, end: free };

fn fill(arena: &mut Arena) {
    arena.full_since = Some(now_us());
    arena.disk.fill();
    if arena.keeping == Keeping::Always {
        return end_and_come_back(arena);
    }
    if arena.keeping == Keeping::Snapshots {
        assert!(!arena.snapshot(), "a snapshot was written to a full disk");
    }
    stands_still(arena);
}

/// A server that must sync each write and cannot ends, before it answers.
fn end_and_come_back(arena: &mut Arena) {
    arena.server.ended();
    let gone = now_us();
    arena.port.close();
    arena.see("ended at a full disk");
    arena.disk.free();
    arena.full_since = None;
    arena.come_back(gone);
}

fn free(arena: &mut Arena) {
    if arena.full_since.is_none() {
        return;
    }
    arena.takes_writes_again();
    arena.disk.free();
    wait_for("a snapshot to be written", || arena.snapshot());
    wait_for("the append only file to be written", || {
        arena.server.info("persistence", "aof_last_write_status") == "ok"
    });
    arena.full_since = None;
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    for keeping in [Keeping::EverySecond, Keeping::Snapshots] {
        let (arena, _) = alone(keeping, &FULL_DISK, 2);
        let settled = arena.settle();
        assert!(settled.seen["commands refused: MISCONF"] > 0);
    }
}

#[test]
fn a_full_disk_ends_the_server_that_must_sync_each_write() {
    let (arena, times) = alone(Keeping::Always, &FULL_DISK, 2);
    assert_eq!(arena.settle().seen["ended at a full disk"], times as u64);
}

#[test]
fn kill_at_a_full_disk() {
    let mut arena = Arena::start(Keeping::EverySecond);
    for _ in 0..2 {
        arena.load(150);
        (FULL_DISK.begin)(&mut arena);
        arena.crash();
        (FULL_DISK.end)(&mut arena);
        arena.check_figures();
    }
    arena.load(150);
    arena.settle();
}

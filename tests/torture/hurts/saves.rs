//! Snapshots and rewrites of the append only file in the middle of the load, and a kill in the middle of them.

use super::arena::{alone, over, Arena, Hurt, Keeping};
use crate::common::wait_for;
use crate::ledger::now_us;

pub const SNAPSHOT: Hurt = Hurt { name: "BGSAVE", begin: begin_snapshot, end: over };
pub const REWRITE: Hurt = Hurt { name: "BGREWRITEAOF", begin: begin_rewrite, end: over };
pub const KILL_IN_SAVE: Hurt = Hurt { name: "kill -9 in the middle of a save", begin: kill_in_save, end: over };
pub const RELOAD: Hurt = Hurt { name: "DEBUG RELOAD", begin: reload, end: over };
/// Alone only: afterwards Redis 7.0 does not know where to cut off what a full disk took only half of.
const LOAD_AOF: Hurt = Hurt { name: "DEBUG LOADAOF", begin: load_aof, end: over };

impl Arena {
    fn is_saving(&self) -> bool {
        let progress = |field: &str| self.server.info("persistence", field) == "1";
        progress("rdb_bgsave_in_progress") || progress("aof_rewrite_in_progress") || progress("aof_rewrite_scheduled")
    }

    /// BGSAVE, as soon as nothing else is being saved; gives when it was asked for.
    pub fn begin_snapshot(&self) -> u64 {
        loop {
            wait_for("no save to be running", || !self.is_saving());
            let begun = now_us();
            if self.server.try_run(&["BGSAVE"]).is_ok() {
                return begun;
            }
        }
    }

    /// A snapshot; the disk has it where this gives true.
    pub fn snapshot(&mut self) -> bool {
        let begun = self.begin_snapshot();
        wait_for("the save to end", || !self.is_saving());
        let is_saved = self.server.info("persistence", "rdb_last_bgsave_status") == "ok";
        if is_saved {
            self.saved = begun;
            self.see("snapshots");
        }
        is_saved
    }

    /// Makes saves last long enough for something to happen meanwhile.
    fn slow_saves(&self, us_per_key: u32) {
        self.server.run(&["CONFIG", "SET", "rdb-key-save-delay", &us_per_key.to_string()]);
    }
}

fn begin_snapshot(arena: &mut Arena) {
    arena.slow_saves(5000);
    arena.snapshot();
}

fn begin_rewrite(arena: &mut Arena) {
    arena.slow_saves(5000);
    wait_for("no save to be running", || !arena.is_saving());
    let answer = arena.server.try_run(&["BGREWRITEAOF"]);
    wait_for("the rewrite to end", || !arena.is_saving());
    if answer.is_ok() && arena.server.info("persistence", "aof_last_bgrewrite_status") == "ok" {
        arena.see("rewrites");
    }
}

fn kill_in_save(arena: &mut Arena) {
    arena.slow_saves(40_000);
    let snapshot = arena.keeping == Keeping::Snapshots || arena.dice.one_in(2);
    if snapshot {
        arena.begin_snapshot();
    } else {
        wait_for("no save to be running", || !arena.is_saving());
        let _ = arena.server.try_run(&["BGREWRITEAOF"]);
    }
    let ms = arena.some_ms(0, 150);
    arena.last(ms);
    if arena.is_saving() {
        arena.see("killed in a save");
    }
    arena.crash();
}

/// The server puts its data down and loads them again, in one step.
fn reload(arena: &mut Arena) {
    let begun = now_us();
    if load_anew(arena, "RELOAD") {
        arena.saved = begun;
    }
}

/// It loads its append only file again.
fn load_aof(arena: &mut Arena) {
    load_anew(arena, "LOADAOF");
}

fn load_anew(arena: &mut Arena, what: &str) -> bool {
    let begun = now_us();
    let done = arena.server.try_run(&["DEBUG", what]).is_ok();
    if done {
        arena.grace(now_us(), begun);
        arena.count_anew();
        arena.see("reloads");
    }
    done
}

#[test]
fn snapshots_under_load() {
    let (arena, times) = alone(Keeping::Snapshots, &SNAPSHOT, 3);
    assert_eq!(arena.settle().seen["snapshots"], times as u64);
}

#[test]
fn rewrites_under_load() {
    let (arena, times) = alone(Keeping::EverySecond, &REWRITE, 3);
    assert_eq!(arena.settle().seen["rewrites"], times as u64);
}

#[test]
fn kill_in_the_middle_of_a_save() {
    for keeping in [Keeping::Always, Keeping::Snapshots] {
        let (arena, _) = alone(keeping, &KILL_IN_SAVE, 2);
        arena.assert_seen("killed in a save");
        arena.settle();
    }
}

#[test]
fn reloads_under_load() {
    let mut arena = Arena::start(Keeping::EverySecond);
    for hurt in [&RELOAD, &LOAD_AOF, &RELOAD, &LOAD_AOF] {
        arena.live_through(hurt);
    }
    assert_eq!(arena.settle().seen["reloads"], 4);
}

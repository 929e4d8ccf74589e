//! A replica that comes and goes, and takes over.

use super::arena::{over, Arena, Hurt, Keeping};
use crate::common::{wait_for, Server};
use crate::ledger::now_us;

pub const COMES: Hurt = Hurt { name: "a replica comes", begin: come, end: over };
pub const GOES: Hurt = Hurt { name: "a replica is killed", begin: go, end: over };
pub const FULL_SYNC: Hurt = Hurt { name: "a full sync", begin: sync_anew, end: over };
pub const FAILOVER: Hurt = Hurt { name: "FAILOVER", begin: fail_over, end: over };
pub const HAND_OVER: Hurt = Hurt { name: "REPLICAOF NO ONE after WAIT", begin: hand_over, end: over };

impl Arena {
    /// The replica, which may be on its way.
    fn replica(&mut self) -> &mut Server {
        if self.replica.is_none() {
            let diskless = if self.dice.one_in(2) { "yes" } else { "no" };
            self.server.run(&["CONFIG", "SET", "repl-diskless-sync", diskless]);
            self.replica = Some(self.builder(&self.other_disk).replica_of(&self.server).start());
            self.see(&format!("replicas, diskless {diskless}"));
        }
        self.replica.as_mut().expect("it was made")
    }

    fn full_syncs(&self) -> u64 {
        self.server.info("stats", "sync_full").parse().expect("a number")
    }

    /// Waits until the replica has been fed, and keeps its own data as it should.
    fn wait_for_replica(&mut self) {
        self.replica();
        let replica = self.replica.as_ref().expect("it was made");
        wait_for("the replica to be fed", || replica.info("replication", "master_link_status") == "up");
        wait_for("the replica to have written its data", || {
            let no = |field: &str| replica.info("persistence", field) == "0";
            no("aof_rewrite_in_progress") && no("aof_rewrite_scheduled")
        });
    }

    /// The replica, which has all that the primary had, is the primary from now on.
    fn swap(&mut self, from: u64, begun: u64) {
        let replica = self.replica.take().expect("it was promoted");
        self.replica = Some(std::mem::replace(&mut self.server, replica));
        std::mem::swap(&mut self.disk, &mut self.other_disk);
        if self.keeping == Keeping::Snapshots {
            self.snapshot();
        }
        self.took_over(from, begun);
    }
}

fn come(arena: &mut Arena) {
    arena.replica();
}

fn go(arena: &mut Arena) {
    let full = arena.full_syncs();
    arena.replica().kill();
    let ms = arena.some_ms(0, 300);
    arena.last(ms);
    let port = arena.server.port;
    let builder = arena.builder(&arena.other_disk).line(&format!("replicaof 127.0.0.1 {port}"));
    arena.replica().start_again_as(builder);
    wait_for("the replica to ask", || arena.full_syncs() > full || arena.replica_is_up());
    arena.see("replicas killed");
}

impl Arena {
    fn replica_is_up(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.info("replication", "master_link_status") == "up")
    }
}

/// The primary has nothing to go on with: another history.
fn sync_anew(arena: &mut Arena) {
    arena.wait_for_replica();
    let full = arena.full_syncs();
    arena.server.run(&["DEBUG", "CHANGE-REPL-ID"]);
    arena.server.run(&["CLIENT", "KILL", "TYPE", "replica"]);
    wait_for("a full sync", || arena.full_syncs() > full);
    arena.see("full syncs");
}

fn fail_over(arena: &mut Arena) {
    arena.wait_for_replica();
    let begun = arena.about_to_take_over();
    let port = arena.replica().port.to_string();
    // A replica has what it needs a moment before the server holds it for online.
    wait_for("the failover to begin", || {
        arena.server.try_run(&["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "20000"]).is_ok()
    });
    let role = |server: &Server| server.info("replication", "role");
    wait_for("the failover", || {
        arena.replica.as_ref().is_some_and(|replica| role(replica) == "master") && role(&arena.server) == "slave"
    });
    arena.swap(now_us(), begun);
    arena.see("failovers");
}

/// Nobody writes until the replica has all, and it is the primary.
fn hand_over(arena: &mut Arena) {
    arena.wait_for_replica();
    arena.port.close();
    arena.server.run(&["CLIENT", "PAUSE", "86400000", "WRITE"]);
    let begun = arena.about_to_take_over();
    arena.replica.as_ref().expect("it is there").catch_up(&arena.server);
    arena.replica().run(&["REPLICAOF", "NO", "ONE"]);
    let port = arena.replica().port.to_string();
    arena.server.run(&["REPLICAOF", "127.0.0.1", &port]);
    arena.server.run(&["CLIENT", "UNPAUSE"]);
    arena.swap(now_us(), begun);
    arena.see("hand-overs");
}

#[test]
fn a_replica_that_comes_and_goes_is_equal_in_the_end() {
    let mut arena = Arena::start(Keeping::EverySecond);
    for hurt in [&COMES, &GOES, &FULL_SYNC, &GOES] {
        arena.live_through(hurt);
    }
    let settled = arena.settle();
    assert_eq!((settled.seen["replicas killed"], settled.seen["full syncs"]), (2, 1));
}

#[test]
fn a_clean_failover_loses_nothing() {
    let mut arena = Arena::start(Keeping::Always);
    for hurt in [&FAILOVER, &HAND_OVER, &FAILOVER] {
        arena.live_through(hurt);
    }
    let settled = arena.settle();
    assert_eq!((settled.seen["failovers"], settled.seen["hand-overs"]), (2, 1));
    assert_eq!(settled.cases("push undone"), 0, "{:?}", settled.tally);
}

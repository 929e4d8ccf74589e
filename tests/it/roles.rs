//! Promotion, demotion, and writes that are paused or refused.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use crate::common::*;
use crate::{args, err, ok};

/// Waits until the server's clock has passed `at`.
fn wait_clock(q: &mut Queue, at: i64) {
    wait_for("the clock", || q.now() > at);
}

#[test]
fn a_promoted_replica_takes_over_the_lease_ends() {
    // The primary never ends a lease itself here.
    let mut primary = Server::with_grace().set("takeover-grace", "1h").start();
    let mut replica = Server::with_grace().set("takeover-grace", "1s").replica_of(&primary).start();
    let mut q = primary.queue("q");
    for i in 0..3 {
        q.push(i);
    }
    ok!(q, "PUSH", "soon", "DELAY", 300);
    let held = q.claim_with(args!["LEASE", "10m"]).remove(0);
    let over = q.claim_with(args!["LEASE", 1]).remove(0);
    let jobs = [held, over];
    assert_replica_same(&primary, &replica);
    drop(q);
    primary.kill();
    let mut r = replica.queue("q");
    let promoted = r.now();
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    r.wait_lapse(&jobs[1].id);
    let due = r.due_at(&jobs[1].id);
    assert!(due >= promoted + 1000, "within the grace: {} ms", due - promoted);
    assert_eq!(r.record(&jobs[1].id).lapses, 1);
    assert_eq!(r.ack(&jobs[0].receipt), 1, "a receipt of the old primary");
    let mut left = 3;
    wait_for("the other jobs", || {
        left -= r.claim_n(10).len();
        left == 0
    });
    let newer = r.push("newer");
    assert!(newer > jobs[1].id, "ids go on rising");
    replica.assert_alive();
}

#[test]
fn a_demoted_primary_stops_its_timers() {
    let one = Server::start();
    let two = Server::start();
    let mut q = one.queue("q");
    q.push("x");
    q.claim_with(args!["LEASE", 200]);
    q.unwatched();
    let mut other = two.queue("other");
    other.push("y");
    let held = other.claim_with(args!["LEASE", "1h"]).remove(0);
    one.run(&["REPLICAOF", "127.0.0.1", &two.port.to_string()]);
    assert_replica_same(&two, &one);
    // The primary's lease ends there, and the replica only follows.
    other.extend(1, &held.receipt);
    other.wait_lapse(&held.id);
    assert_replica_same(&two, &one);
    assert_error(&err!(q, "PUSH", "x"), "READONLY", &[]);
    assert_eq!(other.record(&held.id).lapses, 1);
    one.run(&["REPLICAOF", "NO", "ONE"]);
    let mut back = one.queue("other");
    assert_eq!(back.claim().payload, b"y");
}

#[test]
fn a_failover_in_the_middle_loses_nothing() {
    let mut one = Server::builder().aof().start();
    let mut two = Server::builder().aof().replica_of(&one).start();
    two.catch_up(&one);
    let mut q = one.queue("q");
    for i in 0..50 {
        q.push(i);
    }
    let jobs = q.claim_with(args!["COUNT", 30, "LEASE", 100]);
    q.unwatched();
    one.run(&["FAILOVER"]);
    wait_for("the failover", || {
        two.info("replication", "role") == "master"
            && one.info("replication", "role") == "slave"
            && one.info("replication", "master_link_status") == "up"
    });
    let mut q = two.queue("q");
    for job in &jobs {
        q.wait_lapse(&job.id);
    }
    assert_replica_same(&two, &one);
    let mut ids: Vec<String> = q.claim_n(100).into_iter().map(|job| job.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 50);
    assert_replica_same(&two, &one);
    one.assert_alive();
    two.assert_alive();
}

#[test]
fn nothing_is_written_by_timers_while_writes_are_paused() {
    for kind in ["WRITE", "ALL"] {
        // No timer acts before the pause: the settings that let them come within it.
        let mut server = Server::with_grace()
            .set("takeover-grace", "1h")
            .set("purge-interval", "10")
            .set("stale-after", "20")
            .set("stale-policy", "keep")
            .aof()
            .start();
        let mut q = server.queue("q");
        for i in 0..3 {
            ok!(q, "PUSH", i, "ID", format!("id-{i}"), "KEEP", 300);
        }
        let jobs = q.claim_with(args!["COUNT", 2, "LEASE", 1]);
        let paused = q.now();
        server.run(&["CLIENT", "PAUSE", "2000", kind]);
        if kind == "WRITE" {
            let before = server.dump();
            for (name, value) in [("takeover-grace", "500"), ("stale-policy", "dead")] {
                server.set(name, value);
            }
            wait_clock(&mut q, paused + 1000);
            let after = server.dump();
            if q.now() < paused + 1900 {
                assert_eq!(after, before);
            }
            server.set("stale-policy", "keep");
        } else {
            // Answered when the pause is over.
            server.set("takeover-grace", "500");
        }
        q.wait_lapse(&jobs[0].id);
        let due = q.due_at(&jobs[0].id);
        assert!(due >= paused + 2000 + 500 - 300, "after the pause a grace: {} ms", due - paused);
        q.wait_stat("lapsed", 2);
        server.assert_alive();
        // What the timers wrote before and after is in the append only file.
        q.unwatched();
        server.kill();
        server.start_again_as(Server::with_grace().set("takeover-grace", "1h").aof());
        let mut q = server.queue("q");
        q.check_clean();
        let [live, leased, dead] = q.stats(["ready", "leased", "dead"]);
        assert_eq!((live + dead, leased), (3, 0));
    }
}

#[test]
fn nothing_is_written_by_timers_while_a_replica_is_attached_and_writes_are_paused() {
    let mut primary = Server::builder().start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.catch_up(&primary);
    let mut q = primary.queue("q");
    for i in 0..20 {
        q.push(i);
    }
    let jobs = q.claim_with(args!["COUNT", 20, "LEASE", 50]);
    q.unwatched();
    primary.run(&["CLIENT", "PAUSE", "600", "WRITE"]);
    q.watched();
    for job in &jobs {
        q.wait_lapse(&job.id);
    }
    primary.assert_alive();
    assert_replica_same(&primary, &replica);
}

#[test]
fn nothing_is_written_by_timers_while_writes_are_refused() {
    let server = Server::with_grace().set("takeover-grace", "1h").start();
    let mut q = server.queue("q");
    for i in 0..3 {
        q.push(i);
    }
    let jobs = q.claim_with(args!["COUNT", 2, "LEASE", 1]);
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    server.set("takeover-grace", "700");
    let (before, from) = (server.dump(), q.now());
    wait_clock(&mut q, from + 1000);
    assert_error(&err!(q, "PUSH", "x"), "NOREPLICAS", &[]);
    assert_error(&err!(q, "CLAIM"), "NOREPLICAS", &[]);
    assert_eq!(server.dump(), before);
    assert_eq!(q.stats(["leased", "ready", "lapsed"]), [2, 1, 0]);
    let accepted = q.now();
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    q.wait_lapse(&jobs[0].id);
    let due = q.due_at(&jobs[0].id);
    assert!(
        due >= accepted + 700 - 300,
        "the time of refusal counts as time down, and a grace follows it: {} ms",
        due - accepted
    );
}

#[test]
fn nothing_is_written_by_timers_after_a_failed_save() {
    let server = Server::with_grace()
        .set("takeover-grace", "1h")
        .line("save 3600 1000000")
        .line("enable-protected-configs yes")
        .start();
    let mut q = server.queue("q");
    q.push("x");
    let job = q.claim_with(args!["LEASE", 1]).remove(0);
    // A save to the name of a folder fails, for root too.
    fs::create_dir(server.dir().join("folder")).expect("the folder is made");
    server.run(&["CONFIG", "SET", "dbfilename", "folder"]);
    server.run(&["BGSAVE"]);
    wait_for("the save to fail", || server.info("persistence", "rdb_last_bgsave_status") == "err");
    server.set("takeover-grace", "0");
    let (before, from) = (server.dump(), q.now());
    wait_clock(&mut q, from + 500);
    assert_error(&err!(q, "PUSH", "x"), "MISCONF", &[]);
    assert_eq!(server.dump(), before);
    server.run(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    q.wait_lapse(&job.id);
    assert_eq!(q.stat("lapsed"), 1);
}

#[test]
fn a_shutdown_that_waits_for_a_replica_is_not_disturbed() {
    let mut primary = Server::builder().line("save 3600 1").line("shutdown-timeout 2").start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.catch_up(&primary);
    let mut q = primary.queue("q");
    replica.signal(libc::SIGSTOP);
    for i in 0..20 {
        q.push(i);
    }
    q.claim_with(args!["COUNT", 20, "LEASE", 300]);
    q.unwatched();
    let before = primary.dump();
    primary.signal(libc::SIGTERM);
    let status = primary.ended();
    replica.signal(libc::SIGCONT);
    assert!(status.success(), "it ended by {:?}\n{}", status.signal(), primary.log());
    let builder = Server::with_grace().set("takeover-grace", "1h");
    primary.start_again_as(builder);
    let after = primary.dump();
    // Leases may have ended before the shutdown began, but nothing is lost and nothing half done.
    let count = |keys: &dump::Keyspace| keys.0.keys().filter(|(_, k)| k.ends_with(b":jobs")).count();
    assert_eq!(count(&after), count(&before));
    let mut q = primary.queue("q");
    q.check_clean();
    let [ready, leased] = q.stats(["ready", "leased"]);
    assert_eq!(ready + leased, 20);
}

#[test]
fn paused_clients_are_served_when_the_pause_ends() {
    let mut server = Server::builder().aof().start();
    let mut q = server.queue("q");
    q.push("x");
    let begin = q.now();
    server.run(&["CLIENT", "PAUSE", "500", "WRITE"]);
    let job = q.claim();
    assert!(q.now() >= begin + 450, "the claim waited");
    assert_eq!(q.ack(&job.receipt), 1);
    server.assert_alive();
}

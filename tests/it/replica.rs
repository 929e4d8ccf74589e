//! Replicas hold the same data as their primary, with the module and without it.

use crate::common::scenarios;
use crate::common::*;
use crate::{args, ok};

#[test]
fn replicas_hold_the_same_after_every_scenario() {
    let primary = Server::start();
    let with = Server::builder().replica_of(&primary).start();
    let without = Server::builder().without_module().replica_of(&primary).start();
    for replica in [&with, &without] {
        replica.catch_up(&primary);
    }
    for (name, scenario) in scenarios::ALL {
        eprintln!("scenario {name}");
        scenario(&mut primary.queue(name));
        assert_replica_same(&primary, &with);
        assert_replica_same(&primary, &without);
    }
    scenarios::check_all(&with);
}

#[test]
fn what_the_purge_and_the_trims_do_reaches_the_replicas() {
    let primary = Server::builder()
        .set("purge-interval", "10")
        .set("stale-after", "100")
        .set("stale-policy", "keep")
        .set("dead-max", "40")
        .start();
    let with = Server::builder().replica_of(&primary).start();
    let without = Server::builder().without_module().replica_of(&primary).start();
    let mut q = primary.queue("q");
    for i in 0..60 {
        ok!(q, "PUSH", i, "ID", format!("id-{i}"), "KEEP", 1);
    }
    for job in q.claim_n(20) {
        ok!(q, "FAIL", job.receipt, "ERROR", "e");
    }
    primary.set("stale-policy", "dead");
    q.wait_stat("stale-purged", 20);
    assert_replica_same(&primary, &with);
    assert_replica_same(&primary, &without);
    primary.set("stale-policy", "drop");
    primary.set("dead-max", "3");
    wait_for("the trims", || q.stats(["dead", "ready", "dead-evicted"]) == [3, 0, 37]);
    assert_replica_same(&primary, &with);
    assert_replica_same(&primary, &without);
}

#[test]
fn a_full_sync_in_the_middle_of_it_all() {
    let primary = Server::start();
    scenarios::run_all(&primary);
    let mut q = primary.queue("q");
    let replica = Server::builder().replica_of(&primary).start();
    // Goes on while the replica is fed from a fork.
    wait_for("the sync", || {
        let job = q.push_and_claim(vec![7u8; 1000]);
        ok!(q, "RETRY", job.receipt, "DELAY", "1h");
        replica.info("replication", "master_link_status") == "up"
    });
    assert_replica_same(&primary, &replica);
}

#[test]
fn a_replica_refuses_writes_and_serves_reads() {
    let primary = Server::start();
    let mut q = primary.queue("q");
    let id = q.push("payload");
    q.push("other");
    let held = q.claim();
    let replica = Server::builder().replica_of(&primary).start();
    assert_replica_same(&primary, &replica);
    let mut r = replica.queue("q");
    for (name, words) in super::bad_input::all_commands(&held.receipt, &id) {
        if super::bad_input::READS.contains(&name) {
            continue;
        }
        assert_error(&r.err(name, words), "READONLY", &[]);
    }
    assert_eq!(r.stats(["ready", "leased", "dead"]), [1, 1, 0]);
    assert_eq!(r.field(&id, "payload"), "payload");
    assert_eq!(r.state(&id), "leased");
    let page = list(&ok!(r, "PEEK", "STATE", "leased"));
    assert_eq!(list(&page[1]).len(), 1);
    r.check_clean();
}

#[test]
fn a_replica_serves_as_of_its_own_clock() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut q = primary.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "DELAY", 400));
    replica.catch_up(&primary);
    let mut r = replica.queue("q");
    r.wait_stat("ready", 1);
    assert_eq!(r.state(&id), "ready");
    assert!(r.stat("oldest-ready-age-ms") >= 0);
}

#[test]
fn a_replica_keeps_no_timers() {
    let primary = Server::with_grace().set("takeover-grace", "1h").start();
    // Even one that may be written to acts only when it is promoted.
    let replica = Server::builder()
        .set("purge-interval", "10")
        .set("stale-after", "50")
        .line("replica-read-only no")
        .replica_of(&primary)
        .start();
    let mut q = primary.queue("q");
    q.unwatched();
    for i in 0..3 {
        ok!(q, "PUSH", i, "ID", format!("id-{i}"), "KEEP", 1);
    }
    q.claim_with(args!["LEASE", 1]);
    assert_replica_same(&primary, &replica);
    primary.signal(libc::SIGSTOP);
    let before = replica.dump();
    let mut r = replica.queue("q");
    let ends = r.score("leased", "id-0").expect("it is leased");
    wait_for("the lease to be over", || r.now() > ends + 500);
    assert_eq!(replica.dump(), before);
    primary.signal(libc::SIGCONT);
}

#[test]
fn timers_of_the_primary_are_decided_once() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut q = primary.queue("q");
    for i in 0..200 {
        q.push(i);
    }
    let jobs = q.claim_with(args!["COUNT", 200, "LEASE", 20]);
    for job in &jobs {
        q.wait_lapse(&job.id);
    }
    assert_replica_same(&primary, &replica);
    assert_eq!(replica.queue("q").stat("ready"), 200);
}

#[test]
fn wait_says_how_many_have_it() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.catch_up(&primary);
    let mut q = primary.queue("q");
    let id = q.push("x");
    assert_eq!(q.raw::<i64>(args!["WAIT", 1, 30_000]), 1);
    assert_eq!(replica.queue("q").state(&id), "ready");
    let job = q.claim();
    assert_eq!(q.raw::<i64>(args!["WAIT", 1, 30_000]), 1);
    assert_eq!(replica.queue("q").state(&id), "leased");
    q.ack(&job.receipt);
    assert_eq!(q.raw::<i64>(args!["WAIT", 1, 30_000]), 1);
    assert_eq!(replica.queue("q").state(&id), "gone");
}

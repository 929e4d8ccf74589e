//! Waiters when the server's role changes.

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

#[test]
fn a_demoted_node_sends_its_waiters_away() {
    let Scene { primary, replica } = Scene::new();
    let mut q = primary.queue("q");
    let mut one = Client::waiting(&primary, "q", &["BLOCK", "0"]);
    let mut two = Client::resp3(&primary);
    two.wait_for_job(&primary, args!["DQ.MCLAIM", 2, "q", "other", "BLOCK", "1h"]);
    ok!(q, "PUSH", "x", "DELAY", 2000);
    assert_replica_same(&primary, &replica);
    q.unwatched();
    primary.run(&["REPLICAOF", "127.0.0.1", &replica.port.to_string()]);
    assert_error(&one.error(), "UNBLOCKED", &[]);
    assert_error(&two.error(), "UNBLOCKED", &[]);
    wait_for("nobody to wait", || primary.info("dq", "dq_waiting") == "0" && blocked_clients(&primary) == 0);
    let error = primary.try_run(&["DQ.CLAIM", "q", "BLOCK", "0"]).expect_err("a replica gives out nothing");
    assert_eq!(error.code(), Some("READONLY"));

    // The new primary serves, and the old one again when it is one again.
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    let mut there = Client::waiting(&replica, "q", &["BLOCK", "0"]);
    let job = there.job();
    assert_eq!((&job.payload[..], job.attempt), (&b"x"[..], 1));
    primary.run(&["REPLICAOF", "NO", "ONE"]);
    let mut again = Client::waiting(&primary, "q", &["BLOCK", "0"]);
    if q.stat("ready") + q.stat("delayed") == 0 {
        q.push("y");
    }
    again.job();
    assert_whole(&primary);
    assert_whole(&replica);
}

#[test]
fn a_replica_lets_nobody_wait() {
    let scene = Scene::new();
    scene.queue("q").push("x");
    assert_replica_same(&scene.primary, &scene.replica);
    for words in [&["DQ.CLAIM", "q", "BLOCK", "0"][..], &["DQ.MCLAIM", "2", "q", "r", "BLOCK", "0"]] {
        let error = scene.replica.try_run(words).expect_err("a replica gives out nothing");
        assert_eq!(error.code(), Some("READONLY"));
    }
    scene.replica.run(&["CONFIG", "SET", "replica-read-only", "no"]);
    let error = scene.replica.try_run(&["DQ.CLAIM", "q", "BLOCK", "0"]).expect_err("a replica gives out nothing");
    assert_eq!(error.code(), Some("READONLY"));
    assert_eq!(blocked_clients(&scene.replica), 0);
    scene.end();
}

#[test]
fn a_stream_of_jobs_goes_over_to_the_promoted_replica() {
    let Scene { primary, replica } = Scene::new();
    let mut q = primary.queue("q");
    for i in 0..100 {
        ok!(q, "PUSH", i, "DELAY", 100 + i * 10);
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut worker = Client::new(&primary);
    for _ in 0..30 {
        worker.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
        let job = worker.job();
        assert!(seen.insert(job.payload));
        worker.call(args!["DQ.ACK", "q", job.receipt]);
    }
    let mut waiter = Client::new(&primary);
    waiter.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
    q.unwatched();
    // Writes stop, the replica has all, and takes over.
    primary.run(&["FAILOVER"]);
    wait_for("the replica to be promoted", || replica.info("replication", "role") == "master");
    match waiter.read() {
        Ok(reply) => assert!(seen.insert(Job::of(&list(&reply)[0]).payload)),
        Err(error) => assert_error(&error, "UNBLOCKED", &[]),
    }
    let mut worker = Client::new(&replica);
    while seen.len() < 100 {
        worker.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
        let job = worker.job();
        assert_eq!(job.attempt, 1);
        assert!(seen.insert(job.payload), "given twice");
        worker.call(args!["DQ.ACK", "q", job.receipt]);
    }
    replica.run(&["PING"]);
    wait_for("the old primary to follow", || primary.info("replication", "role") == "slave");
    assert_replica_same(&replica, &primary);
    assert_whole(&replica);
}

#[test]
fn waiters_of_a_node_that_loads_are_sent_away_or_served_after() {
    let scene = Scene::of(Server::builder().line("save 3600 1"));
    let mut q = scene.queue("q");
    ok!(q, "PUSH", "x", "DELAY", 100);
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    scene.run(&["DEBUG", "RELOAD"]);
    match waiter.read() {
        Ok(reply) => assert_eq!(list(&reply).len(), 1),
        Err(error) => {
            assert_error(&error, "UNBLOCKED", &[]);
            waiter.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
            assert_eq!(waiter.job().payload, b"x");
        }
    }
    assert_eq!(q.stats(["waiting", "leased"]), [0, 1]);
    scene.end();
}

//! DQ.REPAIR of very much, and where writes are paused or refused.

use std::time::{Duration, Instant};

use redis::Value;

use crate::bulk::{scene, N};
use crate::common::*;
use crate::roles::fail_to_save;
use crate::slices::pinged;
use crate::{args, ok};

fn told(reply: &Value) -> usize {
    list(reply).len()
}

#[test]
fn very_many_jobs_are_found_again_while_others_are_served() {
    let (mut server, mut q) = scene();
    let replica = Server::builder().replica_of(&server).start();
    replica.catch_up(&server);
    let ids = q.push_many(N, &args!["DELAY", "1h"]);
    q.raw::<i64>(args!["DEL", q.key("due")]);
    let mut worker = server.queue("q");
    worker.unwatched();
    let reply = pinged(&server, "60,000 found again", || {
        std::thread::scope(|scope| {
            let repair = scope.spawn(|| ok!(q, "REPAIR"));
            // Who works meanwhile is not disturbed.
            while !repair.is_finished() {
                worker.push("meanwhile");
                let job = worker.claim();
                assert_eq!(worker.ack(&job.receipt), 1);
            }
            repair.join().expect("it is answered")
        })
    });
    assert_eq!(told(&reply), 1000, "the first of them");
    assert_eq!(told(&ok!(q, "REPAIR")), 0);
    q.check_clean();
    assert_eq!(q.stats(["ready", "delayed", "leased"]).iter().sum::<i64>(), ids.len() as i64);
    assert_replica_same(&server, &replica);
    let before = server.dump();
    server.crash_and_restart();
    assert_eq!(server.dump(), before);
}

#[test]
fn it_waits_while_writes_are_paused() {
    let (mut server, mut q) = scene();
    let id = q.push("x");
    for kind in ["WRITE", "ALL"] {
        q.raw::<i64>(args!["ZREM", q.key("due"), &id]);
        let begin = Instant::now();
        server.run(&["CLIENT", "PAUSE", "700", kind]);
        assert_eq!(told(&ok!(q, "REPAIR")), 1);
        assert!(begin.elapsed() >= Duration::from_millis(650), "{kind}: {:?}", begin.elapsed());
        q.check_clean();
        server.assert_alive();
    }
}

#[test]
fn it_is_refused_where_writes_are() {
    let (mut server, mut q) = scene();
    let id = q.push("x");
    q.raw::<i64>(args!["ZREM", q.key("due"), &id]);
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_error(&q.err("REPAIR", args![]), "NOREPLICAS", &[]);
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_eq!(told(&ok!(q, "REPAIR")), 1);
    q.check_clean();
    server.assert_alive();
}

#[test]
fn it_is_refused_after_a_failed_save() {
    let mut server = Server::builder()
        .line("save 3600 1000000")
        .line("enable-protected-configs yes")
        .set("stale-policy", "keep")
        .start();
    let mut q = server.queue("q");
    q.unwatched();
    let held = q.push_and_claim("held");
    let id = q.push("x");
    q.raw::<i64>(args!["ZREM", q.key("due"), &id]);
    fail_to_save(&server);
    assert_error(&q.err("REPAIR", args![]), "MISCONF", &[]);
    assert_eq!(told(&ok!(q, "CHECK")), 1, "to look is allowed");
    server.run(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    assert_eq!(told(&ok!(q, "REPAIR")), 1);
    q.check_clean();
    assert_eq!(q.ack(&held.receipt), 1);
    server.assert_alive();
}

#[test]
fn what_ends_it_leaves_every_job_whole() {
    for ending in [&["CONFIG", "SET", "dq.enabled", "no"][..], &["REPLICAOF", "127.0.0.1", "1"]] {
        let (mut server, mut q) = scene();
        q.push_many(N, &args!["DELAY", "1h"]);
        q.raw::<i64>(args!["DEL", q.key("due")]);
        let refusal = std::thread::scope(|scope| {
            let repair = scope.spawn(|| q.call("REPAIR", args![]));
            let mut other = server.queue("q");
            other.unwatched();
            wait_for("it to begin", || other.stat("ready") > 0);
            server.run(ending);
            repair.join().expect("it is answered").expect_err("it was not over")
        });
        // The server itself sends those away who wait on a primary that becomes a replica.
        let code = if ending[0] == "CONFIG" { "DQDISABLED" } else { "UNBLOCKED" };
        assert_eq!(refusal.code(), Some(code), "{refusal}");
        server.run(&["CONFIG", "SET", "dq.enabled", "yes"]);
        server.run(&["REPLICAOF", "NO", "ONE"]);
        let mut q = server.queue("q");
        q.unwatched();
        assert!(q.stat("ready") < N as i64);
        assert_eq!(told(&ok!(q, "REPAIR")), 1000);
        q.check_clean();
        assert_eq!(q.stat("ready"), N as i64);
        server.assert_alive();
    }
}

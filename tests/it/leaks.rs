//! Memory that is used is given back: by every command, and by every error.

use super::bad_input::all_commands;
use crate::args;
use crate::common::*;

/// The server's memory once it has settled.
fn used(server: &Server) -> i64 {
    server.run(&["MEMORY", "PURGE"]);
    server.info("memory", "used_memory").parse().expect("bytes")
}

/// Runs `round` often enough to see a leak of 20 bytes a turn among the noise.
fn assert_no_growth(server: &Server, what: &str, mut round: impl FnMut()) {
    for _ in 0..500 {
        round();
    }
    let before = used(server);
    for _ in 0..5000 {
        round();
    }
    let grown = used(server) - before;
    assert!(grown < 100_000, "{what}: {grown} bytes more after 5,000 rounds");
}

#[test]
fn a_jobs_life_leaves_nothing() {
    let server = Server::builder().set("purge-interval", "10").set("dead-max", "5").start();
    let mut q = server.queue("q");
    q.unwatched();
    let big = vec![b'p'; 3000];
    assert_no_growth(&server, "push, claim, ack", || {
        let job = q.push_and_claim(&big[..]);
        assert_eq!(q.ack(&job.receipt), 1);
    });
    assert_no_growth(&server, "push with an id, claim, retry, release, extend, ack", || {
        q.ok("PUSH", args![&big[..], "ID", "mine", "KEEP", 0, "RETRIES", 3, "BACKOFF", 1, 1]);
        let job = q.claim();
        q.ok("RETRY", args![job.receipt, "DELAY", 0, "ERROR", &big[..], "STACK", &big[..]]);
        let job = q.claim();
        q.release(&job.receipt);
        let job = q.claim();
        q.extend(5000, &job.receipt);
        assert_eq!(q.ack(&job.receipt), 1);
    });
    assert_no_growth(&server, "stats, get, check", || {
        q.ok("STATS", args![]);
        q.ok("GET", args!["mine"]);
        q.ok("CHECK", args![]);
    });
    assert_no_growth(&server, "fail, letters evicted", || {
        let job = q.push_and_claim(&big[..100]);
        q.ok("FAIL", args![job.receipt, "ERROR", "e"]);
        let dead = q.key("dead");
        wait_for("the trim", || q.raw::<i64>(args!["HLEN", &dead]) <= 5);
    });
}

#[test]
fn errors_leave_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    let spent = q.push_and_claim("x");
    q.ack(&spent.receipt);
    q.unwatched();
    let text = vec![b'%'; 500];
    for (name, words) in all_commands(&spent.receipt, "none") {
        assert_no_growth(&server, &format!("bad options of {name}"), || {
            let mut words = words.clone();
            words.insert(0, text.clone());
            if name == "CANCEL" {
                // Any bytes are an id.
                words.insert(0, b"STATE".to_vec());
            }
            assert!(q.call(name, words).is_err());
        });
        assert_no_growth(&server, &format!("a bad name in {name}"), || {
            let name_before = std::mem::replace(&mut q.name, b"dq:x".to_vec());
            assert!(q.call(name, words.clone()).is_err());
            q.name = name_before;
        });
    }
}

#[test]
fn a_crowd_of_queues_that_went_is_not_paid_for() {
    const QUEUES: usize = 20_000;
    let server = Server::builder().set("purge-interval", "10").start();
    let mut con = server.conn();
    let before = used(&server);
    for from in (0..QUEUES).step_by(1000) {
        let mut pipe = redis::pipe();
        for i in from..from + 1000 {
            pipe.cmd("DQ.PUSH").arg(format!("queue-{i}")).arg("x").ignore();
        }
        pipe.exec(&mut con).expect("the pushes answer");
    }
    let full = used(&server);
    redis::cmd("FLUSHALL").exec(&mut con).expect("FLUSHALL answers");
    wait_for("the queues to be forgotten", || server.info("dq", "dq_queues") == "0");
    // Some are left in the line of those to be counted, for some seconds.
    wait_for("the memory to be given back", || used(&server) - before < 300_000);
    assert!(full - before > 20_000_000, "{QUEUES} queues took {} bytes", full - before);
}

#[test]
fn queues_that_come_and_go_leave_nothing() {
    let server = Server::builder().set("purge-interval", "10").set("idle-queue-ttl", "1s").start();
    let mut con = server.conn();
    let mut round = || {
        let mut pipe = redis::pipe();
        for i in 0..500 {
            pipe.cmd("DQ.PUSH").arg(format!("queue-{i}")).arg("x").ignore();
        }
        pipe.exec(&mut con).expect("the pushes answer");
        redis::cmd("FLUSHALL").exec(&mut con).expect("FLUSHALL answers");
    };
    for _ in 0..3 {
        round();
    }
    let before = used(&server);
    for _ in 0..30 {
        round();
    }
    let grown = used(&server) - before;
    assert!(grown < 300_000, "{grown} bytes more after 15,000 queues of 500 names");
}

//! DQ.CANCEL.

use crate::common::*;
use crate::{args, err, ok};

/// One job in each state, by the state's name.
fn one_of_each(q: &mut Queue) -> Vec<Job> {
    ok!(q, "PUSH", "x", "ID", "dead");
    let dead = q.claim();
    q.fail(&dead.receipt);
    ok!(q, "PUSH", "x", "ID", "leased");
    let leased = q.claim_with(args!["LEASE", "1h"]);
    ok!(q, "PUSH", "x", "ID", "ready");
    ok!(q, "PUSH", "x", "ID", "delayed", "DELAY", "1h");
    leased
}

#[test]
fn each_state_goes() {
    let server = Server::start();
    for state in ["ready", "delayed", "leased", "dead"] {
        for words in [args![state], args!["STATE", state, state], args!["state", state.to_uppercase(), state]] {
            let mut q = server.queue("q");
            one_of_each(&mut q);
            assert_eq!(int(&q.ok("CANCEL", words)), 1, "{state}");
            assert_eq!(q.state(state), "gone");
            let left: i64 = q.stats(["ready", "delayed", "leased", "dead"]).iter().sum();
            assert_eq!((left, q.stat(state)), (3, 0));
            server.run(&["FLUSHALL"]);
        }
    }
}

#[test]
fn only_the_state_that_was_named() {
    let server = Server::start();
    let mut q = server.queue("q");
    one_of_each(&mut q);
    let states = ["ready", "delayed", "leased", "dead"];
    for state in states {
        let others = states.into_iter().filter(|other| *other != state).collect::<Vec<_>>();
        assert_eq!(int(&ok!(q, "CANCEL", "STATE", state, others)), 0, "{state}");
    }
    assert_eq!(q.stat("cancelled"), 0);
    assert_eq!(int(&ok!(q, "CANCEL", &states)), 4);
    assert_eq!(q.stat("cancelled"), 4);
    assert_eq!(int(&ok!(q, "CANCEL", &states)), 0, "asked twice");
    let keys: Vec<_> = server.dump().0.into_keys().map(|(_, key)| key).collect();
    assert_eq!(keys, [b"q".to_vec()]);
}

#[test]
fn a_queue_that_is_not_there() {
    let server = Server::start();
    assert_eq!(int(&ok!(server.queue("q"), "CANCEL", "a", "b")), 0);
    assert_eq!(server.dump(), Default::default(), "nothing is made");
}

#[test]
fn the_live_job_goes_before_the_letter() {
    let server = Server::start();
    let mut q = server.queue("q");
    for end in ["FAIL", "none"] {
        ok!(q, "PUSH", end, "ID", "mine");
        if end == "FAIL" {
            let job = q.claim();
            q.fail(&job.receipt);
        }
    }
    assert_eq!(int(&ok!(q, "CANCEL", "mine", "mine", "mine")), 1, "an id counts once");
    assert_eq!(q.state("mine"), "dead");
    assert_eq!(int(&ok!(q, "CANCEL", "mine")), 1);
    assert_eq!(q.state("mine"), "gone");
}

#[test]
fn the_letter_goes_and_the_live_job_stays() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "ID", "mine");
    let job = q.claim();
    q.fail(&job.receipt);
    ok!(q, "PUSH", "x", "ID", "mine", "KEEP", "1h");
    assert_eq!(int(&ok!(q, "CANCEL", "STATE", "dead", "mine")), 1);
    assert_eq!(q.state("mine"), "ready");
    assert!(ok!(q, "PUSH", "y", "ID", "mine", "NX") == redis::Value::Nil, "its id stays taken");
}

#[test]
fn receipts_of_a_cancelled_job_are_stale() {
    let server = Server::start();
    let mut q = server.queue("q");
    let held = one_of_each(&mut q).remove(0).receipt;
    assert_eq!(int(&ok!(q, "CANCEL", "leased")), 1);
    for again in [false, true] {
        if again {
            // Pushed again under its id: the old receipt is of an earlier job.
            ok!(q, "PUSH", "y", "ID", "leased");
            q.claim_n(2);
        }
        assert_eq!(q.ack(&held), 0);
        assert_eq!(q.extend(5000, &held), -1);
        assert_eq!(q.release(&held), -1);
        assert_error(&err!(q, "RETRY", &held), "DQLOST", &[]);
        assert_error(&err!(q, "FAIL", &held), "DQLOST", &[]);
    }
    assert_eq!(q.state("leased"), "leased");
}

#[test]
fn a_late_receipt_of_a_cancelled_job_is_stale() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    let job = q.claim_and_lapse();
    assert_eq!(int(&ok!(q, "CANCEL", &job.id)), 1);
    assert_eq!(q.ack(&job.receipt), 0);
    assert_eq!(q.extend(5000, &job.receipt), -1);
    assert_error(&err!(q, "RETRY", &job.receipt), "DQLOST", &[]);
}

#[test]
fn the_id_is_free_at_once() {
    let server = Server::start();
    let mut q = server.queue("q");
    for state in ["ready", "delayed", "leased"] {
        let delay = if state == "delayed" { "1h" } else { "0" };
        ok!(q, "PUSH", "x", "ID", state, "KEEP", "1h", "DELAY", delay);
        if state == "leased" {
            q.claim_n(2);
        }
        assert_eq!(int(&ok!(q, "CANCEL", state)), 1);
        assert_eq!(text(&ok!(q, "PUSH", "y", "ID", state, "NX", "DELAY", "1h")), state);
    }
}

#[test]
fn ids_of_any_bytes() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "ID", "STATE", "DELAY", "1h");
    ok!(q, "PUSH", "x", "ID", "other", "DELAY", "1h");
    let long = vec![b'x'; 100_000];
    for id in [&b""[..], b"\0", b"\xff\xfe", b"%s%n", b"-1", b"9223372036854775807", &long] {
        assert_eq!(int(&ok!(q, "CANCEL", id)), 0);
    }
    assert_eq!(int(&ok!(q, "CANCEL", "other", "STATE")), 2, "not the first word: an id");
    ok!(q, "PUSH", "x", "ID", "STATE", "DELAY", "1h");
    assert_eq!(int(&ok!(q, "CANCEL", "STATE", "delayed", "STATE")), 1);
    // What another hand put there goes too.
    q.unwatched();
    q.push("x");
    q.raw::<i64>(args!["HSET", q.key("jobs"), &b"\xff"[..], "no record"]);
    assert_eq!(int(&ok!(q, "CANCEL", &b"\xff"[..])), 1);
    q.watched();
}

#[test]
fn bad_options() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    for bad in [&b""[..], b"lost", b"\0", b"\xff", b"x"] {
        assert_error(&err!(q, "CANCEL", "STATE", bad, "x"), "ERR", &["STATE", "ready, delayed, leased or dead"]);
    }
    assert_error(&err!(q, "CANCEL", "STATE"), "ERR", &["STATE"]);
    assert_error(&err!(q, "CANCEL", "STATE", "dead"), "ERR", &["ids", "1 to 1000"]);
    let many: Vec<String> = (0..1001).map(|i| i.to_string()).collect();
    assert_error(&err!(q, "CANCEL", &many), "ERR", &["ids", "1 to 1000"]);
    assert_eq!(int(&ok!(q, "CANCEL", &many[1..])), 0);
}

#[test]
fn in_a_transaction_and_a_script() {
    let server = Server::start();
    let mut q = server.queue("q");
    let script = "redis.call('DQ.PUSH', KEYS[1], 'x', 'ID', 'mine') return redis.call('DQ.CANCEL', KEYS[1], 'mine')";
    assert_eq!(q.raw::<i64>(args!["EVAL", script, 1, "q"]), 1);
    let (_, gone): (String, i64) = redis::pipe()
        .atomic()
        .cmd("DQ.PUSH")
        .arg(&["q", "x", "ID", "mine"])
        .cmd("DQ.CANCEL")
        .arg(&["q", "mine"])
        .query(&mut q.con)
        .expect("it runs");
    assert_eq!(gone, 1);
    assert_eq!(q.stat("ready"), 0);
}

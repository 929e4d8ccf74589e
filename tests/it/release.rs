//! DQ.RELEASE.

use crate::common::*;
use crate::{args, err, ok};

#[test]
fn a_released_job_is_due_and_nothing_is_counted_against_it() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let before = q.now();
    assert_eq!(q.release(&job.receipt), 0);
    assert_between(q.due_at(&job.id), before, q.now());
    let record = q.record(&job.id);
    assert_eq!((record.failures, record.lapses, record.releases), (0, 0, 1));
    let again = q.claim();
    assert_eq!((again.attempt, again.retries_left), (1, 300));
    assert_ne!(again.receipt, job.receipt);
    assert_eq!(q.stats(["released", "retried", "lapsed"]), [1, 0, 0]);
    assert_eq!(q.field(&job.id, "releases"), "1");
}

#[test]
fn delay_sets_the_due_time() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let before = q.now();
    let reply = ok!(q, "RELEASE", "DELAY", "10m", "RECEIPTS", &job.receipt);
    assert_eq!(ints(&reply), [600_000]);
    assert_between(q.due_at(&job.id), before + 600_000, q.now() + 600_000);
    assert!(q.claim_n(1).is_empty());
    assert_eq!(q.state(&job.id), "delayed");
}

#[test]
fn several_receipts_are_answered_one_by_one() {
    let server = Server::start();
    let mut q = server.queue("q");
    for i in 0..3 {
        q.push(i);
    }
    let jobs = q.claim_n(3);
    assert_eq!(q.ack(&jobs[1].receipt), 1);
    let reply = ok!(
        q,
        "RELEASE",
        "delay",
        "5s",
        "receipts",
        &jobs[0].receipt,
        &jobs[1].receipt,
        &jobs[2].receipt,
        &jobs[0].receipt
    );
    assert_eq!(ints(&reply), [5000, -1, 5000, -1]);
    assert_eq!(q.stats(["released", "lease-lost", "delayed"]), [2, 2, 2]);
}

#[test]
fn a_stale_receipt_changes_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    let first = q.push_and_claim("x");
    assert_eq!(q.release(&first.receipt), 0);
    let before = server.dump();
    assert_eq!(q.release(&first.receipt), -1, "spent");
    assert_eq!(server.dump(), before);
    let second = q.claim();
    let before = server.dump();
    assert_eq!(q.release(&first.receipt), -1, "stale");
    assert_eq!(server.dump(), before);
    assert_eq!(q.ack(&second.receipt), 1);
}

#[test]
fn releases_are_never_used_up() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "RETRIES", 0));
    for turn in 1..=20 {
        let job = q.claim();
        assert_eq!((job.attempt, job.retries_left), (1, 0));
        assert_eq!(q.release(&job.receipt), 0);
        assert_eq!(q.record(&id).releases, turn);
    }
    assert_eq!(q.stats(["released", "dead", "ready"]), [20, 0, 1]);
}

#[test]
fn bad_options_are_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let r = job.receipt.as_str();
    for bad in NOT_NUMBERS {
        let e = err!(q, "RELEASE", "DELAY", bad, "RECEIPTS", r);
        assert_error(&e, "ERR", &["DELAY"]);
    }
    let e = err!(q, "RELEASE", "DELAY", "8d", "RECEIPTS", r);
    assert_error(&e, "DQDELAY", &["DELAY"]);
    for beyond in BEYOND {
        let e = err!(q, "RELEASE", "DELAY", beyond, "RECEIPTS", r);
        assert!(e.starts_with("ERR ") || e.starts_with("DQDELAY "), "{e}");
    }
    for words in [
        args![r],
        args!["RECEIPTS"],
        args!["DELAY", 5],
        args!["DELAY", "RECEIPTS", r],
        args!["DELAY", 5, "DELAY", 5, "RECEIPTS", r],
        args!["FOO", "RECEIPTS", r],
        args!["%s", 5, "RECEIPTS", r],
        args!["\0", "RECEIPTS", r],
        args!["ERROR", "e", "RECEIPTS", r],
    ] {
        assert_error(&q.err("RELEASE", words), "ERR", &[]);
    }
    assert_eq!(q.ack(r), 1);
}

#[test]
fn what_follows_receipts_is_a_receipt() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let e = err!(q, "RELEASE", "RECEIPTS", &job.receipt, "DELAY", 5);
    assert_error(&e, "ERR", &["receipt"]);
}

//! DQ.EXTEND.

use crate::common::*;
use crate::{args, err, ok};

#[test]
fn a_lease_ends_later() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let before = q.now();
    assert_eq!(q.extend(600_000, &job.receipt), 600_000);
    let ends = q.score("leased", &job.id).expect("it is leased");
    assert_between(ends, before + 600_000, q.now() + 600_000);
    assert_eq!(q.ack(&job.receipt), 1, "the receipt survives");
}

#[test]
fn a_lease_may_be_made_shorter() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    assert_eq!(q.extend(1, &job.receipt), 1);
    q.wait_lapse(&job.id);
    assert_eq!(q.stat("lapsed"), 1);
}

#[test]
fn an_extended_lease_does_not_end_at_its_old_time() {
    let server = Server::with_grace().set("takeover-grace", "1h").start();
    let mut q = server.queue("q");
    q.push("long");
    q.push("short");
    let jobs = q.claim_with(args!["COUNT", 2, "LEASE", 200]);
    assert_eq!(q.extend(3_600_000, &jobs[0].receipt), 3_600_000);
    server.set("takeover-grace", "0");
    q.wait_lapse(&jobs[1].id);
    assert_eq!(q.state(&jobs[0].id), "leased");
    assert_eq!(q.stats(["leased", "lapsed"]), [1, 1]);
}

#[test]
fn several_receipts_are_answered_one_by_one() {
    let server = Server::start();
    let mut q = server.queue("q");
    for i in 0..3 {
        q.push(i);
    }
    let jobs = q.claim_n(3);
    assert_eq!(q.release(&jobs[1].receipt), 0);
    let reply = ok!(q, "EXTEND", "2m", &jobs[0].receipt, &jobs[1].receipt, &jobs[2].receipt, &jobs[0].receipt);
    assert_eq!(ints(&reply), [120_000, -1, 120_000, 120_000]);
    assert_eq!(q.stat("lease-lost"), 1);
}

#[test]
fn the_record_is_not_touched() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let before = q.record(&job.id);
    q.extend(5000, &job.receipt);
    assert_eq!(q.record(&job.id), before);
}

#[test]
fn bad_times_are_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let r = job.receipt.as_str();
    for bad in NOT_NUMBERS.iter().copied().chain(BEYOND.iter().map(|b| b.as_bytes())).chain([
        &b"0"[..],
        b"43200001",
        b"13h",
        b"1d",
    ]) {
        let e = err!(q, "EXTEND", bad, r);
        assert_error(&e, "ERR", &["12h"]);
    }
    assert_eq!(ints(&ok!(q, "EXTEND", "12h", r)), [43_200_000]);
    server.set("max-lease", "1m");
    assert_error(&err!(q, "EXTEND", "60001", r), "ERR", &["1m", "dq.max-lease"]);
    assert_eq!(ints(&ok!(q, "EXTEND", "1M", r)), [60_000]);
}

#[test]
fn extending_on_a_queue_that_is_not_there_makes_nothing() {
    let server = Server::start();
    let receipt = server.queue("q").push_and_claim("x").receipt;
    let mut other = server.queue("other");
    assert_eq!(other.extend(5000, &receipt), -1);
    assert_eq!(other.release(&receipt), -1);
    assert_error(&err!(other, "RETRY", &receipt), "DQLOST", &[]);
    assert_error(&err!(other, "FAIL", &receipt), "DQLOST", &[]);
    assert_eq!(other.raw::<i64>(args!["EXISTS", "other"]), 0);
}

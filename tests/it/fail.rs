//! DQ.FAIL.

use crate::common::*;
use crate::{err, ok};

#[test]
fn a_failed_job_is_a_dead_letter() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "payload", "RETRIES", 7));
    let job = q.claim();
    let before = q.now();
    let reply = ok!(q, "FAIL", &job.receipt, "ERROR", "no such user", "STACK", "a\nb");
    assert_eq!(text(&reply), "OK");
    assert_between(q.score("dead:at", &id).expect("a letter"), before, q.now());
    let (reason, record) = q.letter(&id);
    assert_eq!(reason, "failed");
    assert_eq!(record.payload, b"payload");
    assert_eq!(record.retries, Some(7));
    assert_eq!(record.error.as_deref(), Some(&b"no such user"[..]));
    assert_eq!(record.stack.as_deref(), Some(&b"a\nb"[..]));
    assert_eq!(q.field(&id, "state"), "dead");
    assert_eq!(q.field(&id, "reason"), "failed");
    assert_eq!(q.field(&id, "error"), "no such user");
    assert_eq!(q.field(&id, "stack"), "a\nb");
    assert_between(q.field(&id, "died-at").parse().expect("ms"), before, q.now());
    assert_eq!(q.stats(["failed", "dead", "leased", "ready"]), [1, 1, 0, 0]);
    assert!(q.claim_n(1).is_empty());
}

#[test]
fn texts_may_be_left_out() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    q.fail(&job.receipt);
    let (reason, record) = q.letter(&job.id);
    assert_eq!(reason, "failed");
    assert_eq!((record.error, record.stack), (None, None));
}

#[test]
fn texts_are_kept_byte_for_byte_and_cut_at_the_limit() {
    let server = Server::start();
    let mut q = server.queue("q");
    for odd in odd_bytes() {
        let job = q.push_and_claim("x");
        ok!(q, "FAIL", &job.receipt, "STACK", &odd[..], "ERROR", &odd[..]);
        let cut = &odd[..odd.len().min(65_536)];
        let (_, record) = q.letter(&job.id);
        assert_eq!(record.error.unwrap_or_default(), cut);
        assert_eq!(record.stack.unwrap_or_default(), cut);
    }
}

#[test]
fn a_stale_receipt_is_dqstale() {
    let server = Server::start();
    let mut q = server.queue("q");
    let first = q.push_and_claim("x");
    assert_eq!(q.release(&first.receipt), 0);
    assert_error(&err!(q, "FAIL", &first.receipt), "DQLOST", &[]);
    let second = q.claim();
    assert_error(&err!(q, "FAIL", &first.receipt, "ERROR", "e"), "DQLOST", &[]);
    q.fail(&second.receipt);
    let e = err!(q, "FAIL", &second.receipt, "ERROR", "again");
    assert_error(&e, "DQLOST", &[]);
    let e = err!(q, "RETRY", &second.receipt);
    assert_error(&e, "DQLOST", &[]);
    assert_eq!(q.ack(&second.receipt), 0, "a failed job's letter stays");
    assert_eq!(q.extend(5000, &second.receipt), -1);
    assert_eq!(q.release(&second.receipt), -1);
    assert_eq!(q.stats(["failed", "dead", "lease-lost"]), [1, 1, 7]);
}

#[test]
fn bad_options_are_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let r = job.receipt.as_str();
    for option in ["ERROR", "STACK"] {
        assert_error(&err!(q, "FAIL", r, option), "ERR", &[option]);
        let e = err!(q, "FAIL", r, option, 5, option, 5);
        assert_error(&e, "ERR", &[option]);
    }
    for option in [&b"FOO"[..], b"", b"\0", b"%s", b"\xff", b"DELAY", b"REASON"] {
        assert_error(&err!(q, "FAIL", r, option, 5), "ERR", &[]);
    }
    ok!(q, "FAIL", r, "error", "ERROR", "stack", "STACK");
    let (_, record) = q.letter(&job.id);
    assert_eq!(record.error.as_deref(), Some(&b"ERROR"[..]));
}

#[test]
fn the_letter_holds_the_record_as_it_was() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "ID", "mine", "RETRIES", 5, "LEASE", "9s", "BACKOFF", "2s", "3s");
    let job = q.claim();
    ok!(q, "RETRY", job.receipt, "DELAY", 0, "ERROR", "first");
    q.claim_and_lapse();
    let job = q.claim();
    assert_eq!(q.release(&job.receipt), 0);
    let live = q.record("mine");
    let job = q.claim();
    ok!(q, "FAIL", job.receipt, "ERROR", "last");
    let (_, dead) = q.letter("mine");
    assert_eq!((dead.failures, dead.lapses, dead.releases), (1, 1, 1));
    assert_eq!(dead.claims, 4);
    assert_eq!(dead.birth, live.birth);
    assert_eq!((dead.retries, dead.lease), (Some(5), Some(9000)));
    assert_eq!((dead.backoff_base, dead.backoff_cap), (Some(2000), Some(3000)));
    assert_eq!(dead.error.as_deref(), Some(&b"last"[..]));
}

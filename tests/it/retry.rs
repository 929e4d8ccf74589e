//! DQ.RETRY: backoff, counted failures, used-up retries.

use crate::common::*;
use crate::{err, ok};

#[test]
fn a_retry_makes_the_job_due_again() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let before = q.now();
    let reply = ok!(q, "RETRY", &job.receipt, "ERROR", "it broke", "STACK", "at line 5");
    let after = q.now();
    assert_eq!(int(&reply), 1000);
    assert_between(q.due_at(&job.id), before + 1000, after + 1000);
    let record = q.record(&job.id);
    assert_eq!((record.failures, record.lapses, record.claims), (1, 0, 1));
    assert_eq!(record.error.as_deref(), Some(&b"it broke"[..]));
    assert_eq!(record.stack.as_deref(), Some(&b"at line 5"[..]));
    assert_eq!(record.payload, b"x");
    assert_eq!(q.state(&job.id), "delayed");
    assert_eq!(q.field(&job.id, "error"), "it broke");
    assert_eq!(q.field(&job.id, "stack"), "at line 5");
    assert_eq!(q.stats(["retried", "leased", "delayed"]), [1, 0, 1]);
}

#[test]
fn backoff_doubles_from_one_second_to_five_minutes() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("x");
    let mut delays = Vec::new();
    for turn in 0..12 {
        let job = q.claim();
        assert_eq!(job.attempt, turn + 1);
        let delay = q.retry(&job.receipt);
        let due = q.due_at(&id);
        assert_between(due, q.now() + delay, q.now() + delay);
        delays.push(delay / 1000);
        assert_eq!(delay % 1000, 0);
        q.make_due(&id);
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
}

#[test]
fn backoff_is_the_servers_where_the_job_has_none() {
    let server = Server::start();
    server.set("backoff-base", "7s");
    server.set("backoff-cap", "20s");
    let mut q = server.queue("q");
    let id = q.push("x");
    let mut delays = Vec::new();
    for _ in 0..4 {
        let job = q.claim();
        delays.push(q.retry(&job.receipt));
        q.make_due(&id);
    }
    assert_eq!(delays, [7000, 14_000, 20_000, 20_000]);
}

#[test]
fn a_value_not_carried_is_the_servers_at_the_moment_of_use() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    server.set("backoff-base", "9s");
    server.set("max-retries", "2");
    let job = q.claim();
    assert_eq!(job.retries_left, 2);
    assert_eq!(q.retry(&job.receipt), 9000);
}

#[test]
fn jitter_only_adds() {
    let server = Server::start();
    server.set("backoff-jitter", "50");
    server.set("backoff-cap", "1d");
    server.set("backoff-base", "1h");
    let mut q = server.queue("q");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..40 {
        let job = q.push_and_claim("x");
        let delay = q.retry(&job.receipt);
        assert!((3_600_000..=5_400_000).contains(&delay), "{delay}");
        seen.insert(delay);
    }
    assert!(seen.len() > 1, "forty equal delays are no jitter");
    server.set("backoff-jitter", "0");
    let job = q.push_and_claim("x");
    assert_eq!(q.retry(&job.receipt), 3_600_000);
}

#[test]
fn delay_overrides_backoff_and_the_failure_still_counts() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("x");
    for (turn, (given, ms)) in [("0", 0), ("5s", 5000), ("7d", 604_800_000)].iter().enumerate() {
        let job = q.claim();
        let before = q.now();
        assert_eq!(int(&ok!(q, "RETRY", &job.receipt, "DELAY", given)), *ms);
        assert_between(q.due_at(&id), before + ms, q.now() + ms);
        assert_eq!(q.record(&id).failures, turn as u64 + 1);
        q.make_due(&id);
    }
    let job = q.claim();
    assert_eq!(q.retry(&job.receipt), 8000, "the fourth failure's backoff");
}

#[test]
fn retries_allow_that_many_failures_before_the_one_that_kills() {
    let server = Server::start();
    let mut q = server.queue("q");
    for retries in [0, 1, 3] {
        let id = text(&ok!(q, "PUSH", "x", "RETRIES", retries));
        for turn in 0..retries {
            let job = q.claim();
            assert_eq!(job.retries_left, retries - turn);
            assert_eq!(int(&ok!(q, "RETRY", &job.receipt, "DELAY", 0)), 0);
        }
        let job = q.claim();
        assert_eq!(job.retries_left, 0);
        let before = q.now();
        let reply = ok!(q, "RETRY", &job.receipt, "ERROR", "the last", "STACK", "trace");
        assert_eq!(int(&reply), -1);
        assert_between(q.score("dead:at", &id).expect("a letter"), before, q.now());
        let (reason, record) = q.letter(&id);
        assert_eq!(reason, "retries-exhausted");
        assert_eq!(record.payload, b"x");
        assert_eq!(record.failures, retries as u64 + 1);
        assert_eq!(record.error.as_deref(), Some(&b"the last"[..]));
        assert_eq!(record.stack.as_deref(), Some(&b"trace"[..]));
        assert_eq!(q.state(&id), "dead");
        assert_eq!(q.field(&id, "reason"), "retries-exhausted");
        assert!(q.claim_n(5).is_empty());
    }
    assert_eq!(q.stats(["dead", "ready", "leased"]), [3, 0, 0]);
}

#[test]
fn used_up_retries_die_even_with_a_delay() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "RETRIES", 0);
    let job = q.claim();
    assert_eq!(int(&ok!(q, "RETRY", &job.receipt, "DELAY", "1h")), -1);
    assert_eq!(q.state(&job.id), "dead");
}

#[test]
fn the_servers_retries_hold_where_the_job_has_none() {
    let server = Server::start();
    server.set("max-retries", "1");
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    ok!(q, "RETRY", &job.receipt, "DELAY", 0);
    let job = q.claim();
    assert_eq!(q.retry(&job.receipt), -1);
}

#[test]
fn a_stale_receipt_is_dqstale() {
    let server = Server::start();
    let mut q = server.queue("q");
    let first = q.push_and_claim("x");
    assert_eq!(q.retry(&first.receipt), 1000);
    assert_error(&err!(q, "RETRY", &first.receipt), "DQLOST", &[]);
    q.make_due(&first.id);
    let second = q.claim();
    let e = err!(q, "RETRY", &first.receipt, "DELAY", 5, "ERROR", "e");
    assert_error(&e, "DQLOST", &[]);
    assert_eq!(q.ack(&second.receipt), 1);
    assert_error(&err!(q, "RETRY", &second.receipt), "DQLOST", &[]);
    assert_eq!(q.stats(["lease-lost", "retried"]), [3, 1]);
}

#[test]
fn texts_are_kept_byte_for_byte_and_cut_at_the_limit() {
    let server = Server::start();
    server.set("max-error", "100000");
    let mut q = server.queue("q");
    let id = q.push("x");
    for odd in odd_bytes() {
        let job = q.claim();
        ok!(q, "RETRY", &job.receipt, "DELAY", 0, "ERROR", &odd[..], "STACK", &odd[..]);
        let record = q.record(&id);
        assert_eq!(record.error.unwrap_or_default(), odd);
        assert_eq!(record.stack.unwrap_or_default(), odd);
    }
    server.set("max-error", "10");
    let job = q.claim();
    ok!(q, "RETRY", &job.receipt, "DELAY", 0, "ERROR", "0123456789abc", "STACK", "0123456789");
    let record = q.record(&id);
    assert_eq!(record.error.as_deref(), Some(&b"0123456789"[..]));
    assert_eq!(record.stack.as_deref(), Some(&b"0123456789"[..]));
    server.set("max-error", "65536");
    let job = q.claim();
    let long = vec![b'e'; 70_000];
    ok!(q, "RETRY", &job.receipt, "ERROR", &long[..]);
    assert_eq!(q.record(&id).error.map(|e| e.len()), Some(65_536));
}

#[test]
fn bad_options_are_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let r = job.receipt.as_str();
    for bad in NOT_NUMBERS {
        assert_error(&err!(q, "RETRY", r, "DELAY", bad), "ERR", &["DELAY"]);
    }
    for over in ["604800001", "8d"] {
        assert_error(&err!(q, "RETRY", r, "DELAY", over), "DQDELAY", &["DELAY", "7d"]);
    }
    for beyond in BEYOND {
        let e = err!(q, "RETRY", r, "DELAY", beyond);
        assert!(e.starts_with("ERR ") || e.starts_with("DQDELAY "), "{e}");
    }
    for option in ["DELAY", "ERROR", "STACK"] {
        assert_error(&err!(q, "RETRY", r, option), "ERR", &[option]);
        let e = err!(q, "RETRY", r, option, 5, option, 5);
        assert_error(&e, "ERR", &[option]);
    }
    for option in [&b"FOO"[..], b"", b"\0", b"%s", b"\xff", b"AT", b"REASON"] {
        assert_error(&err!(q, "RETRY", r, option, 5), "ERR", &[]);
    }
    assert_error(&err!(q, "RETRY", r, r), "ERR", &[]);
    assert_eq!(int(&ok!(q, "RETRY", r, "stack", "s", "delay", 5, "error", "e")), 5);
}

#[test]
fn the_jobs_own_options_outlive_a_retry() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "ID", "mine", "RETRIES", 5, "LEASE", "9s", "BACKOFF", "2s", "3s");
    let birth = q.record("mine").birth;
    assert!(birth.is_some(), "a caller's id carries a birth");
    let job = q.claim();
    assert_eq!(q.retry(&job.receipt), 2000);
    let record = q.record("mine");
    assert_eq!(record.birth, birth);
    assert_eq!((record.retries, record.lease), (Some(5), Some(9000)));
    assert_eq!((record.backoff_base, record.backoff_cap), (Some(2000), Some(3000)));
}

//! DQ.CLAIM: what it hands out, in what order, how much, and for how long.

use redis::Value;

use crate::common::*;
use crate::{args, err, ok};

#[test]
fn a_claim_moves_the_job_to_its_lease() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("payload");
    let before = q.now();
    let reply = ok!(q, "CLAIM");
    let after = q.now();
    assert_eq!(list(&reply).len(), 1);
    let job = Job::of(&list(&reply)[0]);
    assert_eq!(job.id, id);
    assert_eq!(job.payload, b"payload");
    assert_eq!(job.attempt, 1);
    assert_eq!(job.lease_ms, 30_000);
    assert_eq!(job.retries_left, 300);
    let ends = q.score("leased", &id).expect("it is leased");
    assert_between(ends, before + 30_000, after + 30_000);
    assert_eq!(q.score("due", &id), None);
    assert_eq!(q.state(&id), "leased");
    assert_eq!(q.stats(["claimed", "leased", "ready"]), [1, 1, 0]);
}

#[test]
fn a_claim_answers_empty_where_nothing_is_due() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_eq!(ok!(q, "CLAIM"), Value::Array(vec![]));
    assert_eq!(ok!(q, "CLAIM", "COUNT", 1000), Value::Array(vec![]));
    assert_eq!(server.dump(), Default::default(), "a claim makes nothing");
    ok!(q, "PUSH", "x", "DELAY", "1h");
    assert_eq!(ok!(q, "CLAIM"), Value::Array(vec![]));
}

#[test]
fn one_job_is_held_by_one() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    assert_eq!(q.claim_n(10).len(), 1);
    assert!(q.claim_n(10).is_empty());
    assert!(server.queue("q").claim_n(10).is_empty());
}

#[test]
fn a_claim_does_not_rewrite_the_record() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "RETRIES", 9, "LEASE", "9s"));
    let key = q.key("jobs");
    let before: Vec<u8> = q.raw(args!["HGET", &key, &id]);
    q.claim();
    let after: Vec<u8> = q.raw(args!["HGET", &key, &id]);
    assert_eq!(before, after);
}

#[test]
fn count_bounds_the_batch() {
    let server = Server::start();
    let mut q = server.queue("q");
    for i in 0..25 {
        q.push(i);
    }
    assert_eq!(q.claim_n(1).len(), 1);
    assert_eq!(q.claim_n(10).len(), 10);
    assert_eq!(q.claim_with(args!["count", 4]).len(), 4);
    assert_eq!(q.claim_n(1000).len(), 10);
    assert_eq!(q.stats(["claimed", "leased"]), [25, 25]);
}

#[test]
fn jobs_leave_by_due_time_and_then_by_push() {
    let server = Server::start();
    let mut q = server.queue("q");
    let base = q.now();
    let mut expected = Vec::new();
    for i in 0..60_i64 {
        let id = text(&ok!(q, "PUSH", i, "DELAY", "1h"));
        let due = base - 1000 + (i * 37) % 20;
        q.raw::<i64>(args!["ZADD", q.key("due"), "XX", due, &id]);
        expected.push((due, id));
    }
    expected.sort();
    let expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
    let mut claimed: Vec<String> = Vec::new();
    for count in [1, 7, 52] {
        claimed.extend(q.claim_n(count).into_iter().map(|job| job.id));
    }
    assert_eq!(claimed, expected);
}

#[test]
fn a_retried_job_has_no_privilege_and_no_penalty() {
    let server = Server::start();
    let mut q = server.queue("q");
    let first = q.push("first");
    let job = q.claim();
    let second = q.push("second");
    ok!(q, "RETRY", job.receipt, "DELAY", 0);
    let due = q.due_at(&second);
    // Due in the same ms as a later push, the older id goes first.
    q.raw::<i64>(args!["ZADD", q.key("due"), "XX", due, &first]);
    let order: Vec<String> = q.claim_n(2).into_iter().map(|job| job.id).collect();
    assert_eq!(order, [first, second]);
}

#[test]
fn the_lease_is_the_claims_then_the_jobs_then_the_servers() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", 1, "LEASE", "50s");
    ok!(q, "PUSH", 2, "LEASE", "50s");
    q.push(3);
    let before = q.now();
    let job = q.claim_with(args!["LEASE", "70s"]).remove(0);
    assert_eq!(job.lease_ms, 70_000);
    let ends = q.score("leased", &job.id).expect("it is leased");
    assert_between(ends, before + 70_000, q.now() + 70_000);
    assert_eq!(q.claim().lease_ms, 50_000);
    server.set("lease", "20s");
    assert_eq!(q.claim().lease_ms, 20_000);
}

#[test]
fn bad_options_are_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    for bad in NOT_NUMBERS.iter().copied().chain([
        &b"0"[..],
        b"1001",
        b"5s",
        b"9223372036854775807",
        b"9223372036854775808",
        b"18446744073709551615",
        b"4294967297",
    ]) {
        assert_error(&err!(q, "CLAIM", "COUNT", bad), "ERR", &["COUNT", "1000"]);
    }
    for bad in NOT_NUMBERS.iter().copied().chain([
        &b"0"[..],
        b"13h",
        b"43200001",
        b"9223372036854775807",
        b"18446744073709551615",
    ]) {
        assert_error(&err!(q, "CLAIM", "LEASE", bad), "ERR", &["LEASE", "12h"]);
    }
    for bad in NOT_NUMBERS.iter().copied().chain([&b"25h"[..], b"86400001", b"9223372036854775807"]) {
        assert_error(&err!(q, "CLAIM", "BLOCK", bad), "ERR", &["BLOCK", "1d"]);
    }
    assert_error(&err!(q, "CLAIM", "BLOCK"), "ERR", &["BLOCK"]);
    assert_error(&err!(q, "CLAIM", "BLOCK", 1, "BLOCK", 1), "ERR", &["BLOCK"]);
    for option in [&b"FOO"[..], b"", b"\0", b"%s", b"\xff", b"DELAY", b"x"] {
        assert_error(&err!(q, "CLAIM", option), "ERR", &[]);
        assert_error(&err!(q, "CLAIM", option, 5), "ERR", &[]);
    }
    assert_error(&err!(q, "CLAIM", "COUNT"), "ERR", &["COUNT"]);
    assert_error(&err!(q, "CLAIM", "LEASE"), "ERR", &["LEASE"]);
    let e = err!(q, "CLAIM", "COUNT", 1, "COUNT", 1);
    assert_error(&e, "ERR", &["COUNT"]);
    let e = err!(q, "CLAIM", "LEASE", 1, "COUNT", 1, "lease", 1);
    assert_error(&e, "ERR", &["LEASE"]);
    assert_eq!(q.claim_with(args!["lease", "12H", "count", 1000]).len(), 1);
}

#[test]
fn a_wait_that_runs_out_answers_empty() {
    let server = Server::start();
    let mut q = server.queue("q");
    let begin = q.now();
    assert_eq!(ok!(q, "CLAIM", "BLOCK", 60), Value::Array(vec![]));
    assert!(q.now() >= begin + 55, "it waited");
    assert_eq!(server.dump(), Default::default(), "a wait makes nothing");
    q.push("x");
    assert_eq!(q.claim_with(args!["block", "1H", "COUNT", 5, "LEASE", "1m"]).len(), 1, "nothing to wait for");
}

#[test]
fn in_a_transaction_and_a_script_nobody_waits() {
    let server = Server::start();
    let mut q = server.queue("q");
    let (jobs,): (Vec<Value>,) = redis::pipe()
        .atomic()
        .cmd("DQ.CLAIM")
        .arg("q")
        .arg("BLOCK")
        .arg(0)
        .query(&mut q.con)
        .expect("the transaction runs");
    assert!(jobs.is_empty());
    let jobs: Vec<Value> = q.raw(args!["EVAL", "return redis.call('DQ.CLAIM', KEYS[1], 'BLOCK', 0)", 1, "q"]);
    assert!(jobs.is_empty());
}

#[test]
fn one_reply_carries_eight_mib() {
    let server = Server::start();
    let mut q = server.queue("q");
    let payload = vec![1u8; 1 << 20];
    for _ in 0..10 {
        q.push(&payload[..]);
    }
    assert_eq!(q.claim_n(10).len(), 8);
    assert_eq!(q.claim_n(10).len(), 2);
}

#[test]
fn a_single_larger_job_passes_alone() {
    let server = Server::start();
    server.set("max-payload", "0");
    let mut q = server.queue("q");
    let large = vec![1u8; 9 << 20];
    q.push("small");
    q.push(&large[..]);
    q.push("small");
    let lengths = |jobs: Vec<Job>| -> Vec<usize> { jobs.iter().map(|job| job.payload.len()).collect() };
    assert_eq!(lengths(q.claim_n(10)), [5]);
    assert_eq!(lengths(q.claim_n(10)), [9 << 20]);
    assert_eq!(lengths(q.claim_n(10)), [5]);
}

#[test]
fn a_claim_works_in_a_transaction_and_a_script() {
    let server = Server::start();
    let mut q = server.queue("q");
    let first = q.push("one");
    let second = q.push("two");
    let third = q.push("three");
    let (claimed,): ((Value,),) = redis::pipe()
        .atomic()
        .cmd("DQ.CLAIM")
        .arg("q")
        .query(&mut q.con)
        .map(|value: (Value,)| (value,))
        .expect("the transaction runs");
    assert_eq!(Job::of(&list(&claimed.0)[0]).id, first);
    let claimed: Value = q.raw(args!["EVAL", "return redis.call('DQ.CLAIM', KEYS[1], 'COUNT', 2)", 1, "q"]);
    let ids: Vec<String> = list(&claimed).iter().map(|v| Job::of(v).id).collect();
    assert_eq!(ids, [second, third]);
}

#[test]
fn resp3_has_the_same_shape() {
    let server = Server::start();
    let mut q = Queue::new(server.conn3(), b"q");
    let id = q.push(&b"\0\xff"[..]);
    let reply = ok!(q, "CLAIM", "COUNT", 5);
    let job = Job::of(&list(&reply)[0]);
    assert_eq!((job.id, job.payload), (id, b"\0\xff".to_vec()));
    assert_eq!(ok!(q, "CLAIM"), Value::Array(vec![]));
}

#[test]
fn attempts_count_failures_and_lapses() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("x");
    let job = q.claim();
    assert_eq!((job.attempt, job.retries_left), (1, 300));
    ok!(q, "RETRY", job.receipt, "DELAY", 0);
    let job = q.claim_and_lapse();
    assert_eq!((job.attempt, job.retries_left), (2, 299));
    let job = q.claim();
    assert_eq!((job.attempt, job.retries_left), (3, 299));
    assert_eq!(q.release(&job.receipt), 0);
    let job = q.claim();
    assert_eq!((job.attempt, job.retries_left), (3, 299));
    assert_eq!(job.id, id);
}

#[test]
fn a_receipt_names_one_claim() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    let mut receipts = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let job = q.claim();
        assert!(receipts.insert(job.receipt.clone()), "{} again", job.receipt);
        assert_eq!(q.release(&job.receipt), 0);
    }
    for receipt in &receipts {
        assert_eq!(q.ack(receipt), 0);
    }
    assert_eq!(q.stats(["lease-lost", "ready"]), [100, 1]);
}

#[test]
fn disabled_refuses_claims_and_lets_all_else_go_on() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("held");
    server.set("enabled", "no");
    let waiting = q.push("waiting");
    assert_error(&err!(q, "CLAIM"), "DQDISABLED", &[]);
    assert_eq!(q.ack(&job.receipt), 1);
    assert_eq!(q.stat("ready"), 1);
    server.set("enabled", "yes");
    assert_eq!(q.claim().id, waiting);
}

#[test]
fn two_workers_never_hold_the_same_job() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut pipe = redis::pipe();
    for i in 0..2000 {
        pipe.cmd("DQ.PUSH").arg("q").arg(i).ignore();
    }
    pipe.exec(&mut q.con).expect("the pushes answer");
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let mut con = server.conn();
            std::thread::spawn(move || {
                let mut ids = Vec::new();
                loop {
                    let reply: Value =
                        redis::cmd("DQ.CLAIM").arg("q").arg("COUNT").arg(7).query(&mut con).expect("a claim answers");
                    let jobs: Vec<Job> = list(&reply).iter().map(Job::of).collect();
                    if jobs.is_empty() {
                        return ids;
                    }
                    ids.extend(jobs.into_iter().map(|job| job.id));
                }
            })
        })
        .collect();
    let mut all: Vec<String> = workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect();
    all.sort();
    assert_eq!(all.len(), 2000);
    all.dedup();
    assert_eq!(all.len(), 2000, "a job was handed out twice");
}

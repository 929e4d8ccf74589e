//! DQ.MPUSH: many jobs in one step, all or none.

use redis::Value;

use crate::common::*;
use crate::{args, err, ok};

#[test]
fn payloads_become_jobs_in_their_order() {
    let server = Server::start();
    let mut q = server.queue("q");
    let ids = texts(&ok!(q, "MPUSH", "PAYLOADS", "a", "b", "c"));
    assert_eq!(ids.len(), 3);
    assert!(ids.windows(2).all(|two| two[0] < two[1]));
    let jobs = q.claim_n(10);
    let claimed: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(claimed, ids);
    let payloads: Vec<&[u8]> = jobs.iter().map(|job| &job.payload[..]).collect();
    assert_eq!(payloads, [b"a", b"b", b"c"]);
    assert_eq!(q.stat("pushed"), 3);
}

#[test]
fn options_hold_for_all() {
    let server = Server::start();
    let mut q = server.queue("q");
    let before = q.now();
    let ids =
        texts(&ok!(q, "MPUSH", "backoff", 5, 50, "DELAY", "1h", "retries", 3, "LEASE", "9s", "payloads", "a", "b"));
    for id in ids {
        assert_between(q.due_at(&id), before + 3_600_000, q.now() + 3_600_000);
        let record = q.record(&id);
        assert_eq!((record.retries, record.lease), (Some(3), Some(9000)));
        assert_eq!((record.backoff_base, record.backoff_cap), (Some(5), Some(50)));
    }
    let at = q.now() + 60_000;
    for id in texts(&ok!(q, "MPUSH", "AT", at, "PAYLOADS", "a", "b")) {
        assert_between(q.due_at(&id), at, at);
    }
}

#[test]
fn jobs_have_ids_and_delays_of_their_own() {
    let server = Server::start();
    let mut q = server.queue("q");
    let before = q.now();
    let ids = texts(&ok!(q, "MPUSH", "RETRIES", 3, "JOBS", "mine", "1h", "a", "", 0, "b", "yours", "250ms", "c"));
    let after = q.now();
    assert_eq!((ids[0].as_str(), ids[2].as_str()), ("mine", "yours"));
    assert_eq!(ids[1].len(), 11);
    for (id, delay, payload) in [(&ids[0], 3_600_000, b"a"), (&ids[1], 0, b"b"), (&ids[2], 250, b"c")] {
        assert_between(q.due_at(id), before + delay, after + delay);
        let record = q.record(id);
        assert_eq!((&record.payload[..], record.retries), (&payload[..], Some(3)));
    }
    assert!(q.score("ids", "mine").is_some());
}

#[test]
fn a_duplicate_among_the_jobs_changes_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "one", "ID", "mine");
    let ids = texts(&ok!(q, "MPUSH", "JOBS", "mine", 0, "two", "twice", 0, "three", "twice", 0, "four"));
    assert_eq!(ids, ["mine", "twice", "twice"]);
    assert_eq!(q.record("mine").payload, b"one");
    assert_eq!(q.record("twice").payload, b"three");
    assert_eq!(q.stats(["pushed", "deduplicated", "ready"]), [2, 2, 2]);
}

#[test]
fn payloads_are_kept_byte_for_byte() {
    let server = Server::start();
    let mut q = server.queue("q");
    let odd = odd_bytes();
    let mut words = args!["PAYLOADS"];
    words.extend(odd.iter().cloned());
    q.ok("MPUSH", words);
    let mut words = args!["JOBS"];
    for payload in &odd {
        words.extend([b"".to_vec(), b"0".to_vec(), payload.clone()]);
    }
    q.ok("MPUSH", words);
    let payloads: Vec<Vec<u8>> = q.claim_n(1000).into_iter().map(|job| job.payload).collect();
    assert_eq!(payloads, [odd.clone(), odd].concat());
}

#[test]
fn one_bad_job_refuses_all() {
    let server = Server::start();
    let mut q = server.queue("q");
    let long = vec![0u8; (1 << 20) + 1];
    let e = err!(q, "MPUSH", "PAYLOADS", "a", "b", &long[..]);
    assert_error(&e, "DQSIZE", &["1048576"]);
    let e = err!(q, "MPUSH", "JOBS", "x", 0, "a", "", 0, &long[..]);
    assert_error(&e, "DQSIZE", &["1048576"]);
    let e = err!(q, "MPUSH", "JOBS", "x", 0, "a", "", "8d", "b");
    assert_error(&e, "DQDELAY", &["7d", "max-delay"]);
    for bad in NOT_NUMBERS {
        assert_error(&err!(q, "MPUSH", "JOBS", "x", 0, "a", "", bad, "b"), "ERR", &[]);
    }
    for beyond in BEYOND {
        let e = err!(q, "MPUSH", "JOBS", "x", 0, "a", "", beyond, "b");
        assert!(e.starts_with("ERR ") || e.starts_with("DQDELAY "), "{e}");
    }
    for bad in [&b" "[..], b"a b", b"\0", b"\xff", &[b'x'; 129]] {
        let e = err!(q, "MPUSH", "JOBS", "x", 0, "a", bad, 0, "b");
        assert_error(&e, "ERR", &["128"]);
    }
    assert_eq!(server.dump(), Default::default());
}

#[test]
fn a_full_queue_refuses_all() {
    let server = Server::start();
    server.set("max-length", "3");
    let mut q = server.queue("q");
    q.push("first");
    assert_error(&err!(q, "MPUSH", "PAYLOADS", 1, 2, 3), "DQFULL", &["3"]);
    let e = err!(q, "MPUSH", "JOBS", "a", 0, 1, "b", 0, 2, "c", "1h", 3);
    assert_error(&e, "DQFULL", &["3"]);
    ok!(q, "MPUSH", "PAYLOADS", 1, 2);
    assert_error(&err!(q, "MPUSH", "PAYLOADS", 1), "DQFULL", &[]);
}

#[test]
fn duplicates_take_no_room() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "one", "ID", "a");
    server.set("max-length", "2");
    let ids = texts(&ok!(q, "MPUSH", "JOBS", "a", 0, 1, "b", 0, 2, "b", 0, 3));
    assert_eq!(ids, ["a", "b", "b"]);
}

#[test]
fn out_of_memory_refuses_all() {
    let server = Server::start();
    let mut q = server.queue("q");
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_error(&err!(q, "MPUSH", "PAYLOADS", 1, 2), "OOM", &[]);
}

#[test]
fn eight_mib_are_the_most() {
    let server = Server::start();
    server.set("max-payload", "0");
    let mut q = server.queue("q");
    let half = vec![0u8; 4 << 20];
    let ids = texts(&ok!(q, "MPUSH", "PAYLOADS", &half[..], &half[..]));
    assert_eq!(ids.len(), 2, "exactly 8 MiB");
    let e = err!(q, "MPUSH", "PAYLOADS", &half[..], &half[..], "x");
    assert_error(&e, "DQSIZE", &[]);
    let whole = vec![0u8; 9 << 20];
    let ids = texts(&ok!(q, "MPUSH", "PAYLOADS", &whole[..]));
    assert_eq!(ids.len(), 1, "a single larger one passes alone");
    let e = err!(q, "MPUSH", "PAYLOADS", &whole[..], "x");
    assert_error(&e, "DQSIZE", &[]);
}

#[test]
fn ten_thousand_are_the_most() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut words = args!["PAYLOADS"];
    words.extend((0..10_000).map(|i: i32| i.to_string().into_bytes()));
    assert_eq!(texts(&q.ok("MPUSH", words.clone())).len(), 10_000);
    words.push(b"x".to_vec());
    assert_error(&q.err("MPUSH", words), "ERR", &["10000"]);
    let mut words = args!["JOBS"];
    for _ in 0..10_001 {
        words.extend(args!["", 0, "x"]);
    }
    assert_error(&q.err("MPUSH", words.clone()), "ERR", &["10000"]);
    words.truncate(1 + 3 * 10_000);
    assert_eq!(texts(&q.ok("MPUSH", words)).len(), 10_000);
    assert_eq!(q.stat("ready"), 20_000);
}

#[test]
fn bad_forms_are_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    for words in [
        args!["PAYLOADS"],
        args!["JOBS"],
        args!["DELAY", 5, "PAYLOADS"],
        args!["JOBS", "a"],
        args!["JOBS", "a", 0],
        args!["JOBS", "a", 0, "x", "b"],
        args!["JOBS", "a", 0, "x", "b", 0],
        args!["x"],
        args!["x", "y"],
        args!["DELAY", 5],
        args!["DELAY", "PAYLOADS", "x"],
        args!["DELAY", 5, "DELAY", 5, "PAYLOADS", "x"],
        args!["DELAY", 5, "AT", q.now(), "PAYLOADS", "x"],
        args!["AT", 5, "PAYLOADS", "x"],
        args!["FOO", "PAYLOADS", "x"],
        args!["%s", 1, "PAYLOADS", "x"],
        args![&b"\0"[..], "PAYLOADS", "x"],
        args!["RETRIES", -1, "PAYLOADS", "x"],
        args!["LEASE", 0, "PAYLOADS", "x"],
        args!["BACKOFF", 5, "PAYLOADS", "x"],
    ] {
        assert_error(&q.err("MPUSH", words), "ERR", &[]);
    }
    let e = err!(q, "MPUSH", "ID", "mine", "PAYLOADS", "x");
    assert_error(&e, "ERR", &["ID"]);
    let e = err!(q, "MPUSH", "DELAY", "8d", "PAYLOADS", "x");
    assert_error(&e, "DQDELAY", &["DELAY"]);
    assert_eq!(server.dump(), Default::default());
}

#[test]
fn words_after_payloads_are_payloads() {
    let server = Server::start();
    let mut q = server.queue("q");
    let ids = texts(&ok!(q, "MPUSH", "PAYLOADS", "DELAY", "5", "JOBS", "PAYLOADS"));
    assert_eq!(ids.len(), 4);
    assert_eq!(q.claim_n(10).len(), 4);
}

#[test]
fn all_are_there_in_one_step() {
    let server = Server::start();
    let mut q = server.queue("q");
    let (ids, count): (Vec<String>, i64) = redis::pipe()
        .atomic()
        .cmd("DQ.MPUSH")
        .arg("q")
        .arg("PAYLOADS")
        .arg("a")
        .arg("b")
        .cmd("ZCARD")
        .arg(q.key("due"))
        .query(&mut q.con)
        .expect("the transaction runs");
    assert_eq!((ids.len(), count), (2, 2));
    assert_ne!(ok!(q, "MPUSH", "PAYLOADS", "c"), Value::Nil);
}

#[test]
fn what_belongs_to_ids_holds_for_all_that_have_one() {
    let server = Server::start();
    let mut q = server.queue("q");
    let before = q.now();
    let ids = texts(&ok!(q, "MPUSH", "KEEP", "2h", "JOBS", "a", "1h", "one", "", "1h", "two", "b", "1h", "three"));
    assert_eq!((ids[0].as_str(), ids[2].as_str()), ("a", "b"));
    for id in ["a", "b"] {
        let until = q.score("ids", id).expect("the id is taken");
        assert_between(until, before + 7_200_000, q.now() + 7_200_000);
    }
    let reply = list(&ok!(q, "MPUSH", "NX", "JOBS", "a", 0, "four", "c", "1h", "five"));
    assert_eq!(reply[0], Value::Nil, "taken");
    assert_eq!(text(&reply[1]), "c");
    assert_eq!(q.record("a").payload, b"one");
    let ids = texts(&ok!(q, "MPUSH", "REPLACE", "JOBS", "a", 0, "six", "d", 0, "seven"));
    assert_eq!(ids, ["a", "d"]);
    assert_eq!(q.record("a").payload, b"six");
    let mut payloads: Vec<Vec<u8>> = q.claim_n(10).into_iter().map(|job| job.payload).collect();
    payloads.sort();
    assert_eq!(payloads, [b"seven".to_vec(), b"six".to_vec()]);
}

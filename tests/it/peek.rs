//! DQ.PEEK.

use std::collections::BTreeMap;

use redis::Value;

use crate::common::*;
use crate::{args, err, ok};

type Fields = BTreeMap<String, Value>;

/// One page: the cursor and the jobs.
fn page(q: &mut Queue, words: Vec<Vec<u8>>) -> (String, Vec<Fields>) {
    let reply = list(&q.ok("PEEK", words));
    assert_eq!(reply.len(), 2);
    (text(&reply[0]), list(&reply[1]).iter().map(|job| pairs(job).into_iter().collect()).collect())
}

fn ids(jobs: &[Fields]) -> Vec<String> {
    jobs.iter().map(|job| text(&job["id"])).collect()
}

/// All pages of `count` jobs, one after the other.
fn walk(q: &mut Queue, state: &str, count: usize) -> Vec<String> {
    let (mut cursor, mut all) = ("0".to_string(), Vec::new());
    loop {
        let (next, jobs) = page(q, args!["STATE", state, "COUNT", count, "AFTER", &cursor]);
        assert!(jobs.len() <= count);
        assert!(jobs.iter().all(|job| text(&job["state"]) == state), "{jobs:?}");
        all.extend(ids(&jobs));
        if next == "0" {
            return all;
        }
        cursor = next;
    }
}

#[test]
fn a_queue_that_is_not_there_has_an_empty_page() {
    let server = Server::start();
    let mut q = server.queue("q");
    for words in [args![], args!["STATE", "dead"], args!["COUNT", 5, "AFTER", "7:x"]] {
        assert_eq!(page(&mut q, words), ("0".to_string(), vec![]));
    }
    assert_eq!(server.dump(), Default::default(), "nothing is made");
}

#[test]
fn each_state_and_its_order() {
    let server = Server::start();
    let mut q = server.queue("q");
    for id in ["d2", "d1"] {
        ok!(q, "PUSH", "dead", "ID", id);
        let job = q.claim();
        ok!(q, "FAIL", job.receipt, "ERROR", "e");
        q.raw::<i64>(args!["ZADD", q.key("dead:at"), if id == "d1" { 20 } else { 10 }, id]);
    }
    for (id, lease) in [("l2", "1h"), ("l1", "2h")] {
        ok!(q, "PUSH", "leased", "ID", id);
        q.claim_with(args!["LEASE", lease]);
    }
    for (id, delay) in [("e2", "1h"), ("e1", "2h")] {
        ok!(q, "PUSH", "delayed", "ID", id, "DELAY", delay);
    }
    for id in ["r2", "r1"] {
        ok!(q, "PUSH", "ready", "ID", id);
    }
    for (at, id) in [(5, "r2"), (6, "r1")] {
        let member = q.due_member(id);
        q.raw::<i64>(args!["ZADD", q.key("due"), "XX", at, member]);
    }
    for (state, expected) in
        [("ready", ["r2", "r1"]), ("delayed", ["e2", "e1"]), ("leased", ["l2", "l1"]), ("dead", ["d2", "d1"])]
    {
        let (cursor, jobs) = page(&mut q, args!["STATE", state]);
        assert_eq!((cursor.as_str(), ids(&jobs)), ("0", expected.map(String::from).to_vec()), "{state}");
        assert!(jobs.iter().all(|job| text(&job["payload"]) == state && text(&job["state"]) == state));
        assert_eq!(walk(&mut q, state, 1), expected);
        let (_, jobs) = page(&mut q, args!["state", state.to_uppercase(), "count", 1]);
        assert_eq!(ids(&jobs), expected[..1]);
    }
    let (_, jobs) = page(&mut q, args![]);
    assert_eq!(ids(&jobs), ["r2", "r1", "e2", "e1"], "what claims come to");
}

#[test]
fn a_job_is_the_map_of_get() {
    let server = Server::start();
    let mut q = server.queue("q");
    for payload in odd_bytes() {
        let id = text(&ok!(q, "PUSH", &payload[..], "RETRIES", 5, "LEASE", "9s"));
        let (_, jobs) = page(&mut q, args![]);
        assert_eq!(jobs.last(), q.get(&id).as_ref());
        let job = q.claim();
        let (_, jobs) = page(&mut q, args!["STATE", "leased"]);
        assert_eq!(Some(&jobs[0]), q.get(&id).as_ref());
        ok!(q, "FAIL", job.receipt, "ERROR", &payload[..], "STACK", "s");
        let (_, jobs) = page(&mut q, args!["STATE", "dead", "COUNT", 1000]);
        let letter = q.get(&id).expect("it is there");
        assert!(jobs.contains(&letter), "{jobs:?}");
    }
}

#[test]
fn pages_of_many_that_share_a_score() {
    let server = Server::start();
    let mut q = server.queue("q");
    let at = q.now() + 3_600_000;
    let mut words = args!["AT", at, "PAYLOADS"];
    words.extend((0..2500).map(|_| b"x".to_vec()));
    let pushed = texts(&q.ok("MPUSH", words));
    q.unwatched();
    for count in [1000, 999, 500, 7] {
        assert!(walk(&mut q, "delayed", count) == pushed, "{count}");
    }
    // A cursor holds where its job went, and behind all of a score.
    let (cursor, jobs) = page(&mut q, args!["COUNT", 100]);
    for job in &jobs[50..] {
        let id = text(&job["id"]);
        q.raw::<i64>(args!["ZREM", q.key("due"), &id]);
        q.raw::<i64>(args!["HDEL", q.key("jobs"), &id]);
    }
    let (_, jobs) = page(&mut q, args!["COUNT", 1, "AFTER", &cursor]);
    assert_eq!(ids(&jobs), pushed[100..101]);
    let (_, jobs) = page(&mut q, args!["COUNT", 1, "AFTER", format!("{at}:zzzzzzzzzzzz")]);
    assert!(jobs.is_empty());
}

#[test]
fn a_page_ends_at_8_mib() {
    let server = Server::builder().set("max-payload", "16mb").start();
    let mut q = server.queue("q");
    q.unwatched();
    for size in [3, 3, 3, 9, 1] {
        q.push(vec![b'x'; size << 20]);
    }
    let (mut cursor, mut lengths) = ("0".to_string(), Vec::new());
    loop {
        let (next, jobs) = page(&mut q, args!["AFTER", &cursor]);
        lengths.push(jobs.len());
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(lengths, [2, 1, 1, 1]);
}

#[test]
fn entries_that_cannot_be_read_are_left_out() {
    let server = Server::start();
    let mut q = server.queue("q");
    for id in ["a", "b", "c", "d"] {
        ok!(q, "PUSH", "x", "ID", id, "DELAY", "1h");
    }
    q.unwatched();
    let [a, d] = ["a", "d"].map(|id| q.due_member(id));
    q.raw::<i64>(args!["HDEL", q.key("jobs"), "b"]);
    q.raw::<i64>(args!["HSET", q.key("jobs"), "c", "no record"]);
    // Scores that another hand made fractions or infinite end no walk and repeat nothing.
    let later = q.now() + 7_200_000;
    q.raw::<i64>(args!["ZADD", q.key("due"), "XX", format!("{later}.5"), a]);
    q.raw::<i64>(args!["ZADD", q.key("due"), "XX", "inf", d]);
    for count in 1..6 {
        assert_eq!(walk(&mut q, "delayed", count), ["a", "d"], "{count}");
    }
    q.raw::<i64>(args!["ZADD", q.key("dead:at"), 5, "letter"]);
    q.raw::<i64>(args!["HSET", q.key("dead"), "letter", "no letter"]);
    assert_eq!(walk(&mut q, "dead", 3), Vec::<String>::new());
}

#[test]
fn bad_options() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    for bad in NOT_NUMBERS.iter().copied().chain([&b"0"[..], b"1001"]).chain(BEYOND.iter().map(|n| n.as_bytes())) {
        assert_error(&err!(q, "PEEK", "COUNT", bad), "ERR", &["COUNT", "1 to 1000"]);
    }
    for bad in [&b""[..], b"lost", b"due", b"ready ", b"\0", b"\xff", b"%s"] {
        assert_error(&err!(q, "PEEK", "STATE", bad), "ERR", &["STATE", "ready, delayed, leased or dead"]);
    }
    for bad in [&b""[..], b"1", b"-1", b"x:y", b"nan:x", b"\xff:x", b"\0", b"00"] {
        assert_error(&err!(q, "PEEK", "AFTER", bad), "ERR", &["AFTER"]);
    }
    for good in [&b"-1:x"[..], b"1:", b"1:\0\xff", b"inf:x", b"-inf:x", b"1e400:x", b"9223372036854775808:x"] {
        ok!(q, "PEEK", "AFTER", good);
    }
    for name in ["STATE", "COUNT", "AFTER"] {
        assert_error(&err!(q, "PEEK", name), "ERR", &[name]);
    }
    for (name, value) in [("STATE", "ready"), ("COUNT", "1"), ("AFTER", "0")] {
        assert_error(&err!(q, "PEEK", name, value, name, value), "ERR", &[name, "once"]);
    }
    assert_error(&err!(q, "PEEK", "x"), "ERR", &["unknown option 'x'"]);
}

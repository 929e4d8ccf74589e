//! DQ.STATS.

use redis::Value;

use crate::common::*;
use crate::{args, err, ok};

const FIELDS: [&str; 27] = [
    "ready",
    "delayed",
    "leased",
    "dead",
    "far",
    "far-alarm",
    "oldest-ready-age-ms",
    "waiting",
    "paused",
    "memory-bytes",
    "pushed",
    "deduplicated",
    "claimed",
    "acked",
    "retried",
    "released",
    "failed",
    "lapsed",
    "lease-lost",
    "stale-purged",
    "stale-held",
    "dead-evicted",
    "replayed",
    "cancelled",
    "lateness-p50-us",
    "lateness-p99-us",
    "lateness-max-us",
];

#[test]
fn the_fields_are_those_of_the_contract_in_its_order() {
    let server = Server::start();
    let mut q = server.queue("q");
    let names: Vec<String> = q.stats_list().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[..FIELDS.len()], FIELDS);
}

#[test]
fn a_queue_that_is_not_there_has_zeros_and_is_not_made() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert!(q.stats_list().iter().all(|(_, value)| *value == 0));
    assert_eq!(server.dump(), Default::default());
}

#[test]
fn resp3_gives_a_map_and_resp2_a_flat_array() {
    let server = Server::start();
    let mut two = server.queue("q");
    let mut three = Queue::new(server.conn3(), b"q");
    two.push("x");
    assert!(matches!(ok!(two, "STATS"), Value::Array(_)));
    assert!(matches!(ok!(three, "STATS"), Value::Map(_)));
    let names = |list: Vec<(String, i64)>| -> Vec<String> { list.into_iter().map(|(name, _)| name).collect() };
    assert_eq!(names(two.stats_list()), names(three.stats_list()));
}

#[test]
fn states_are_counted() {
    let server = Server::start();
    let mut q = server.queue("q");
    for i in 0..10 {
        q.push(i);
    }
    for i in 0..4 {
        ok!(q, "PUSH", i, "DELAY", "30m");
    }
    let jobs = q.claim_n(5);
    q.fail(&jobs[0].receipt);
    q.fail(&jobs[1].receipt);
    assert_eq!(q.ack(&jobs[2].receipt), 1);
    assert_eq!(q.stats(["ready", "delayed", "leased", "dead"]), [5, 4, 2, 2]);
    assert_eq!(q.stats(["waiting", "paused"]), [0, 0]);
}

#[test]
fn a_delayed_job_becomes_ready_by_itself() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "DELAY", 100);
    q.wait_stat("ready", 1);
    assert_eq!(q.stat("delayed"), 0);
}

#[test]
fn far_jobs_raise_the_alarm() {
    let server = Server::start();
    server.set("far-alarm", "3");
    let mut q = server.queue("q");
    ok!(q, "PUSH", "near", "DELAY", "59m");
    for _ in 0..2 {
        ok!(q, "PUSH", "far", "DELAY", "61m");
    }
    assert_eq!(q.stats(["far", "far-alarm", "delayed"]), [2, 0, 3]);
    ok!(q, "PUSH", "far", "DELAY", "2d");
    assert_eq!(q.stats(["far", "far-alarm"]), [3, 1]);
    server.set("far-horizon", "30m");
    assert_eq!(q.stat("far"), 4);
    server.set("far-alarm", "5");
    assert_eq!(q.stat("far-alarm"), 0);
}

#[test]
fn the_oldest_ready_job_has_an_age() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "delayed", "DELAY", "1h");
    assert_eq!(q.stat("oldest-ready-age-ms"), 0);
    let id = q.push("x");
    q.push("y");
    let hour_ago = q.now() - 3_600_000;
    q.raw::<i64>(args!["ZADD", q.key("due"), "XX", hour_ago, &id]);
    assert_between(q.stat("oldest-ready-age-ms"), 3_600_000, 3_601_000);
    q.claim_n(2);
    assert_eq!(q.stat("oldest-ready-age-ms"), 0);
}

#[test]
fn memory_grows_with_the_jobs() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    let small = q.stat("memory-bytes");
    assert!(small > 0);
    let large = vec![0u8; 100_000];
    for _ in 0..5 {
        q.push(&large[..]);
    }
    assert!(q.stat("memory-bytes") > small + 100_000, "more with 500 kB");
}

#[test]
fn every_counter_counts_its_command() {
    let server = Server::start();
    let mut q = server.queue("q");
    for i in 0..6 {
        ok!(q, "PUSH", i, "ID", format!("id-{i}"));
    }
    ok!(q, "PUSH", "again", "ID", "id-0");
    let jobs = q.claim_n(6);
    q.ack(&jobs[0].receipt);
    q.ack(&jobs[0].receipt);
    q.retry(&jobs[1].receipt);
    q.release(&jobs[2].receipt);
    q.fail(&jobs[3].receipt);
    q.extend(1, &jobs[4].receipt);
    q.wait_lapse(&jobs[4].id);
    assert_eq!(
        q.stats([
            "pushed",
            "deduplicated",
            "claimed",
            "acked",
            "retried",
            "released",
            "failed",
            "lapsed",
            "lease-lost"
        ]),
        [6, 1, 6, 1, 1, 1, 1, 1, 1]
    );
    assert_eq!(q.stats(["stale-purged", "stale-held", "dead-evicted", "replayed", "cancelled"]), [0; 5]);
}

#[test]
fn queues_are_counted_apart() {
    let server = Server::start();
    let (mut a, mut b) = (server.queue("a"), server.queue("b"));
    let mut other = server.queue_in(1, "a");
    a.push(1);
    a.push(2);
    b.push(3);
    other.push(4);
    let job = other.claim();
    other.ack(&job.receipt);
    assert_eq!(a.stats(["pushed", "claimed", "ready"]), [2, 0, 2]);
    assert_eq!(b.stats(["pushed", "claimed", "ready"]), [1, 0, 1]);
    assert_eq!(other.stats(["pushed", "claimed", "ready"]), [1, 1, 0]);
}

#[test]
fn lateness_is_measured_from_the_due_time() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "DELAY", 50);
    wait_for("the job", || q.claim_n(1).len() == 1);
    let [p50, p99, max] = q.stats(["lateness-p50-us", "lateness-p99-us", "lateness-max-us"]);
    assert!(p50 <= p99 && p99 <= max, "{p50} {p99} {max}");
    let id = q.push("late");
    let minute_ago = q.now() - 60_000;
    q.raw::<i64>(args!["ZADD", q.key("due"), "XX", minute_ago, &id]);
    q.claim();
    let max = q.stat("lateness-max-us");
    assert!(max >= 59_000_000, "a minute late, and at most {max} us");
}

#[test]
fn it_takes_no_options() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_error(&err!(q, "STATS", "x"), "ERR", &["arguments"]);
}

#[test]
fn the_memory_of_very_many_jobs_is_estimated_by_some_of_them() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    q.push_many(20_000, &args!["DELAY", "1h"]);
    let keys: Vec<String> = q.raw(args!["KEYS", "*"]);
    let exact: i64 = keys.iter().map(|key| q.raw::<i64>(args!["MEMORY", "USAGE", key])).sum();
    let told = q.stat("memory-bytes");
    assert!((exact * 3 / 4..exact * 5 / 4).contains(&told), "{told} for {exact} bytes");
}

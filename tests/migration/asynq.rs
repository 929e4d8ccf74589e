//! asynq's scheduled tasks and those that wait for a retry, as its version 0.26 keeps them: a sorted set of ids, and a
//! hash for each task with the message in protocol buffers (internal/rdb/rdb.go, internal/proto/asynq.proto).

use redis::{Commands, Connection};

use crate::common::Server;
use crate::program::{run, url};

/// A number in protocol buffers.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn text_field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn number_field(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

struct Task {
    id: &'static str,
    payload: Vec<u8>,
    retry: u64,
    retried: u64,
}

/// What asynq's client and server write: scheduleCmd and retryCmd.
fn write(con: &mut Connection, state: &str, task: &Task, at: i64) {
    let message = [
        text_field(1, b"email:welcome"),
        text_field(2, &task.payload),
        text_field(3, task.id.as_bytes()),
        text_field(4, b"default"),
        number_field(5, task.retry),
        number_field(6, task.retried),
        text_field(7, "no answer: größe".as_bytes()),
        number_field(8, 1800),
        number_field(11, 1_796_000_000),
    ];
    let key = format!("asynq:{{default}}:t:{}", task.id);
    let _: () = con.hset_multiple(key, &[("msg", message.concat()), ("state", state.as_bytes().to_vec())]).unwrap();
    let _: i64 = con.zadd(format!("asynq:{{default}}:{state}"), task.id, at).unwrap();
}

fn fill(server: &Server, now: i64) {
    let mut con = server.conn();
    let long = vec![b'x'; 300];
    let json = [b"{\"user\": \"", &long[..], b"\"}"].concat();
    let tasks = [
        ("scheduled", Task { id: "5f0e7a8c-91d2-4e0b-8c6f-0a1b2c3d4e5f", payload: json, retry: 25, retried: 0 }, 3_600),
        ("scheduled", Task { id: "one with blanks", payload: vec![0, 0xff], retry: 0, retried: 0 }, 7_200),
        ("retry", Task { id: "tried-20-times", payload: b"7".to_vec(), retry: 25, retried: 20 }, 100_000),
    ];
    for (state, task, wait) in tasks {
        write(&mut con, state, &task, now / 1000 + wait);
    }
    // One whose hash somebody deleted, and one that a server of asynq is to take.
    let _: i64 = con.zadd("asynq:{default}:retry", "without a hash", now / 1000 + 50).unwrap();
    let _: i64 = con.lpush("asynq:{default}:pending", "waits already").unwrap();
}

fn moves(from: &Server, to: &Server) {
    let now = to.queue("jobs").now();
    fill(from, now);
    let said = run("move_asynq.py", &["default", "jobs", "--from", &url(from), "--to", &url(to)]).well();
    assert!(said.contains("stay     1 that cannot be moved"), "{said}");
    let mut queue = to.queue("jobs");
    assert_eq!(queue.stats(["ready", "delayed"]), [0, 3]);
    queue.ok("RESCHEDULE", crate::args!["DELAY", 0, "ALL"]);
    let mut jobs = queue.claim_n(10);
    jobs.sort_by_key(|job| job.payload.len());
    assert_eq!(jobs.iter().map(|job| job.retries_left).collect::<Vec<_>>(), [5, 0, 25]);
    assert_eq!(jobs[0].payload, br#"{"type": "email:welcome", "payload": 7}"#);
    assert_eq!(jobs[1].payload, br#"{"type": "email:welcome", "payload_base64": "AP8="}"#);
    if from.port == to.port {
        assert_eq!(jobs[2].id, "5f0e7a8c-91d2-4e0b-8c6f-0a1b2c3d4e5f");
        assert_eq!(jobs[0].id, "tried-20-times");
    }
    let mut left: Vec<String> = redis::cmd("KEYS").arg("*asynq*").query(&mut from.conn()).unwrap();
    left.sort();
    assert_eq!(left, ["asynq:{default}:pending", "asynq:{default}:retry"]);
}

#[test]
pub fn tasks_are_moved_with_what_is_left_of_their_retries() {
    let server = Server::start();
    moves(&server, &server);
    moves(&Server::builder().without_module().start(), &Server::start());
}

/// The line of docs/migration/asynq.md that lets its tasks be tried for as long as asynq tries them.
#[test]
pub fn the_settings_of_the_page_last_as_long_as_asynqs_retries() {
    let waits = |n: u64| n.pow(4) + 15;
    let asynq: u64 = (0..25).map(waits).sum();
    let dq: u64 = (0..25).map(|n| (15 << n).min(38 * 3600)).sum();
    let days = |seconds: u64| seconds as f64 / 86_400.0;
    println!("asynq {:.2} days without its random part, DQ {:.2}", days(asynq), days(dq));
    assert!((days(asynq) - days(dq)).abs() < 0.2);
    let page = include_str!("../../docs/migration/asynq.md");
    for field in ["max-retries 25", "backoff-base 15s", "backoff-cap 38h"] {
        assert!(page.contains(field), "the page says {field}");
    }
}

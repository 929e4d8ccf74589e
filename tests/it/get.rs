//! DQ.GET.

use redis::Value;

use crate::common::*;
use crate::{args, err, ok};

#[test]
fn a_ready_job() {
    let server = Server::start();
    let mut q = server.queue("q");
    let before = q.now();
    let id = q.push("payload");
    let job = q.get(&id).expect("it is there");
    let number = |name: &str| int(&job[name]);
    assert_eq!(text(&job["id"]), id);
    assert_eq!(text(&job["state"]), "ready");
    assert_eq!(text(&job["payload"]), "payload");
    assert_eq!(number("attempt"), 1);
    assert_eq!(number("failures"), 0);
    assert_eq!(number("lapses"), 0);
    assert_eq!(number("releases"), 0);
    assert_eq!(number("retries-left"), 300);
    assert_eq!(number("lease-ms"), 30_000);
    assert_between(number("due-at"), before, q.now());
    assert_between(number("pushed-at"), before, q.now());
    assert!(!job.contains_key("error") && !job.contains_key("stack"));
    assert!(!job.contains_key("died-at") && !job.contains_key("reason"));
}

#[test]
fn a_delayed_a_leased_and_a_dead_one() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "DELAY", "10m"));
    assert_eq!(q.field(&id, "state"), "delayed");
    let due: i64 = q.field(&id, "due-at").parse().expect("ms");
    assert_eq!(due, q.due_at(&id));
    q.make_due(&id);
    assert_eq!(q.field(&id, "state"), "ready");
    let job = q.claim();
    assert_eq!(q.field(&id, "state"), "leased");
    let ends: i64 = q.field(&id, "lease-ends-at").parse().expect("ms");
    assert_eq!(Some(ends), q.score("leased", &id));
    ok!(q, "FAIL", job.receipt, "ERROR", "e", "STACK", "s");
    assert_eq!(q.field(&id, "state"), "dead");
    assert_eq!(q.field(&id, "reason"), "failed");
    let died: i64 = q.field(&id, "died-at").parse().expect("ms");
    assert_eq!(Some(died), q.score("dead:at", &id));
    assert_eq!(q.field(&id, "payload"), "x");
    assert_eq!(q.field(&id, "error"), "e");
    assert_eq!(q.field(&id, "stack"), "s");
    let letter = q.get(&id).expect("it is there");
    assert!(!letter.contains_key("due-at") && !letter.contains_key("lease-ends-at"));
}

#[test]
fn the_live_job_goes_before_the_letter() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "one", "ID", "mine");
    let job = q.claim();
    q.fail(&job.receipt);
    ok!(q, "PUSH", "two", "ID", "mine");
    assert_eq!(q.field("mine", "payload"), "two");
    let job = q.claim();
    q.ack(&job.receipt);
    assert_eq!(q.field("mine", "payload"), "one");
    assert_eq!(q.field("mine", "state"), "dead");
}

#[test]
fn counts_add_up() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "RETRIES", 5));
    let job = q.claim();
    ok!(q, "RETRY", job.receipt, "DELAY", 0);
    q.claim_and_lapse();
    let job = q.claim();
    q.release(&job.receipt);
    for (name, value) in [
        ("attempt", "3"),
        ("failures", "1"),
        ("lapses", "1"),
        ("releases", "1"),
        ("claims", "3"),
        ("retries", "5"),
        ("retries-left", "4"),
    ] {
        assert_eq!(q.field(&id, name), value, "{name}");
    }
}

#[test]
fn what_is_not_there_is_nil_and_nothing_is_made() {
    let server = Server::start();
    let mut q = server.queue("q");
    for id in [&b"00000000000"[..], b"mine", b"%s", &[b'x'; 128]] {
        assert_eq!(ok!(q, "GET", id), Value::Nil);
    }
    assert_eq!(server.dump(), Default::default());
    q.push("x");
    assert_eq!(ok!(q, "GET", "mine"), Value::Nil);
}

#[test]
fn odd_ids_are_nil_or_refused_and_never_harm() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    let before = server.dump();
    let long = vec![b'x'; 100_000];
    for id in [&b""[..], b"\0", b"a b", b"\xff", &long] {
        match q.call("GET", args![id]) {
            Ok(value) => assert_eq!(value, Value::Nil),
            Err(e) => assert_error(&error_text(&e), "ERR", &[]),
        }
    }
    assert_eq!(server.dump(), before);
}

#[test]
fn resp3_gives_a_map() {
    let server = Server::start();
    let mut q = Queue::new(server.conn3(), b"q");
    let id = q.push(&b"\0\xff"[..]);
    assert!(matches!(ok!(q, "GET", &id), Value::Map(_)));
    let payload = bytes(&q.get(&id).expect("it is there")["payload"]);
    assert_eq!(payload, b"\0\xff");
    assert_eq!(ok!(q, "GET", "other"), Value::Nil);
}

#[test]
fn one_id_at_a_time() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_error(&err!(q, "GET"), "ERR", &["arguments"]);
    assert_error(&err!(q, "GET", "a", "b"), "ERR", &["arguments"]);
}

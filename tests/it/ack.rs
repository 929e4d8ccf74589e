//! DQ.ACK.

use crate::common::*;
use crate::{args, err, ok};

#[test]
fn an_ack_leaves_nothing_of_the_job() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    assert_eq!(q.ack(&job.receipt), 1);
    assert_eq!(q.state(&job.id), "gone");
    let keys: Vec<String> = q.raw(args!["KEYS", "*"]);
    assert_eq!(keys, ["q"], "only the header is left");
    assert_eq!(q.stats(["acked", "leased", "ready", "dead"]), [1, 0, 0, 0]);
}

#[test]
fn several_receipts_are_counted() {
    let server = Server::start();
    let mut q = server.queue("q");
    for i in 0..6 {
        q.push(i);
    }
    let jobs = q.claim_n(6);
    let receipts: Vec<&str> = jobs.iter().map(|job| job.receipt.as_str()).collect();
    assert_eq!(int(&q.ok("ACK", args![receipts[0], receipts[1]])), 2);
    assert_eq!(int(&q.ok("ACK", args![receipts[1], receipts[2], receipts[2]])), 1);
    let reply = ok!(q, "ACK", receipts[3], receipts[0], receipts[4], "EACH");
    assert_eq!(ints(&reply), [1, 0, 1]);
    assert_eq!(q.stats(["acked", "lease-lost", "leased"]), [5, 3, 1]);
    let reply = ok!(q, "ACK", receipts[5], receipts[5], "each");
    assert_eq!(ints(&reply), [1, 0]);
}

#[test]
fn a_stale_receipt_finishes_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    let first = q.push_and_claim("x");
    assert_eq!(q.release(&first.receipt), 0);
    let second = q.claim();
    let before = server.dump();
    assert_eq!(q.ack(&first.receipt), 0);
    assert_eq!(ints(&ok!(q, "ACK", &first.receipt, "EACH")), [0]);
    assert_eq!(server.dump(), before);
    assert_eq!(q.stats(["lease-lost", "acked"]), [2, 0]);
    assert_eq!(q.ack(&second.receipt), 1);
    assert_eq!(q.ack(&second.receipt), 0, "spent");
}

#[test]
fn an_ack_on_a_queue_that_is_not_there_finishes_nothing() {
    let server = Server::start();
    let receipt = server.queue("q").push_and_claim("x").receipt;
    let mut other = server.queue("other");
    assert_eq!(other.ack(&receipt), 0);
    assert_eq!(other.raw::<i64>(args!["EXISTS", "other"]), 0, "made nothing");
}

#[test]
fn malformed_receipts_are_errors_and_nothing_is_done() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let good = job.receipt.as_str();
    for bad in [
        &b""[..],
        b" ",
        b"\0",
        b"%s%s%n",
        b"\xff\xfe",
        b"nonsense",
        b":",
        b"::",
        b":1",
        b"00000000000:",
        b"00000000000:0",
        b"00000000000:01",
        b"00000000000:zzzzzzzzzzzz",
        b"0000000000:1",
        b"zzzzzzzzzzz:1",
        &[b'x'; 161],
        &[b'x'; 100_000],
        format!("{good} ").as_bytes(),
        format!("{good}\0").as_bytes(),
        format!(" {good}").as_bytes(),
        job.id.as_bytes(),
    ] {
        let e = err!(q, "ACK", bad);
        assert_error(&e, "ERR", &["receipt"]);
        assert_error(&err!(q, "ACK", good, bad), "ERR", &["receipt"]);
        assert_error(&err!(q, "ACK", good, bad, "EACH"), "ERR", &["receipt"]);
        assert_error(&err!(q, "RETRY", bad), "ERR", &["receipt"]);
        assert_error(&err!(q, "FAIL", bad), "ERR", &["receipt"]);
        let e = err!(q, "RELEASE", "RECEIPTS", good, bad);
        assert_error(&e, "ERR", &["receipt"]);
        assert_error(&err!(q, "EXTEND", 5000, good, bad), "ERR", &["receipt"]);
    }
    assert_error(&err!(q, "ACK", "EACH"), "ERR", &[]);
    assert_eq!(q.stat("lease-lost"), 0, "malformed is not stale");
    assert_eq!(q.ack(good), 1);
}

#[test]
fn a_thousand_receipts_are_the_most() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut pipe = redis::pipe();
    for i in 0..1001 {
        pipe.cmd("DQ.PUSH").arg("q").arg(i).ignore();
    }
    pipe.exec(&mut q.con).expect("the pushes answer");
    let mut receipts: Vec<String> = q.claim_n(1000).into_iter().map(|j| j.receipt).collect();
    receipts.extend(q.claim_n(1000).into_iter().map(|j| j.receipt));
    assert_eq!(receipts.len(), 1001);
    assert_error(&q.err("ACK", args![receipts]), "ERR", &["1000"]);
    let mut words = args![5000];
    words.extend(args![receipts]);
    assert_error(&q.err("EXTEND", words), "ERR", &["1000"]);
    let mut words = args!["RECEIPTS"];
    words.extend(args![receipts]);
    assert_error(&q.err("RELEASE", words), "ERR", &["1000"]);
    let last = receipts.pop().expect("there are receipts");
    assert_eq!(int(&q.ok("ACK", args![receipts])), 1000);
    let mut words = args![&receipts[..999]];
    words.extend(args![last, "EACH"]);
    let each = ints(&q.ok("ACK", words));
    assert_eq!(each.len(), 1000);
    assert_eq!(each.iter().sum::<i64>(), 1);
}

#[test]
fn a_job_pushed_again_under_its_id_is_a_later_claim() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "one", "ID", "mine", "KEEP", 0);
    let first = q.claim();
    assert_eq!(q.ack(&first.receipt), 1);
    wait_for("the id to be free", || ok!(q, "PUSH", "two", "ID", "mine", "NX") != redis::Value::Nil);
    let second = q.claim();
    assert_ne!(first.receipt, second.receipt);
    for call in ["ACK", "RETRY", "FAIL"] {
        match q.call(call, args![first.receipt]) {
            Ok(value) => assert_eq!(value, redis::Value::Int(0), "{call}"),
            Err(e) => assert_error(&error_text(&e), "DQLOST", &[]),
        }
    }
    assert_eq!(q.extend(5000, &first.receipt), -1);
    assert_eq!(q.release(&first.receipt), -1);
    assert_eq!(q.record("mine").payload, b"two");
    assert_eq!(q.ack(&second.receipt), 1);
}

#[test]
fn works_in_resp3() {
    let server = Server::start();
    let mut q = Queue::new(server.conn3(), b"q");
    let job = q.push_and_claim("x");
    assert_eq!(ints(&ok!(q, "ACK", job.receipt, "EACH")), [1]);
}

#[test]
fn receipts_of_large_jobs_stand_and_fall_like_others() {
    let mut server = Server::builder().aof().start();
    let mut q = server.queue("q");
    let payload = vec![b'x'; 100_000];

    let job = q.push_and_claim(&payload);
    assert_eq!(q.ack(&format!("{}:2", job.id)), 0, "a claim that was never made");
    assert_eq!(q.extend(60_000, &job.receipt), 60_000);
    assert_eq!(q.ack(&job.receipt), 1);
    assert_eq!(q.ack(&job.receipt), 0, "spent");

    q.push(&payload);
    let late = q.claim_and_lapse();
    assert_eq!(q.ack(&late.receipt), 1, "late, and nobody claimed since");

    q.push(&payload);
    let first = q.claim_and_lapse();
    let second = q.claim();
    assert_eq!((q.ack(&first.receipt), q.extend(5, &first.receipt)), (0, -1));
    assert_eq!(q.extend(60_000, &second.receipt), 60_000);
    assert_eq!(q.ack(&second.receipt), 1);

    let released = q.push_and_claim(&payload);
    assert_eq!(q.release(&released.receipt), 0);
    assert_eq!(q.ack(&released.receipt), 0);
    let again = q.claim();
    assert_eq!(q.ack(&released.receipt), 0, "of the claim before");

    ok!(q, "PUSH", &payload, "ID", "mine");
    let mine = q.claim();
    drop(q);
    server.crash_and_restart();
    let mut q = server.queue("q");
    assert_eq!(q.ack(&mine.receipt), 1, "also where nothing is remembered");
    assert_eq!(q.ack(&again.receipt), 1);
}

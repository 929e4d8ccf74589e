//! DQ.RESCHEDULE.

use crate::common::*;
use crate::{args, err, ok};

const HOUR: i64 = 3_600_000;

#[test]
fn ready_and_delayed_jobs_move_and_stay_themselves() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "ready", "ID", "a", "RETRIES", 7);
    let job = q.claim();
    ok!(q, "RETRY", job.receipt, "DELAY", 0, "ERROR", "e");
    ok!(q, "PUSH", "delayed", "ID", "b", "DELAY", "10m");
    let before = [q.record("a"), q.record("b")];
    let begin = q.now();
    assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", "1h", "IDS", "a", "b", "none", "a")), 2);
    for id in ["a", "b"] {
        assert_between(q.due_at(id), begin + HOUR, q.now() + HOUR);
    }
    assert_eq!([q.record("a"), q.record("b")], before);
    assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", 0, "IDS", "a")), 1);
    assert_eq!(q.claim().attempt, 2);
    assert_eq!(q.stat("rescheduled"), 3);
}

#[test]
fn leased_and_dead_ones_are_left() {
    let server = Server::start();
    let mut q = server.queue("q");
    let dead = q.push_and_claim("x");
    q.fail(&dead.receipt);
    let held = q.push_and_claim("x");
    let before = server.dump();
    assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", 0, "IDS", &held.id, &dead.id)), 0);
    assert_eq!(int(&ok!(q, "RESCHEDULE", "ALL", "DELAY", 0)), 0);
    assert_eq!(server.dump(), before);
    assert_eq!(q.ack(&held.receipt), 1);
}

#[test]
fn a_queue_that_is_not_there() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", 0, "ALL")), 0);
    assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", 0, "IDS", "a")), 0);
    assert_eq!(server.dump(), Default::default(), "nothing is made");
}

#[test]
fn at_a_time_of_the_server() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "DELAY", "1h"));
    let at = q.now() + 5_000_000;
    ok!(q, "RESCHEDULE", "AT", at, "IDS", &id);
    assert_between(q.due_at(&id), at - 5, at + 5);
    ok!(q, "RESCHEDULE", "AT", 100_000_000_000_i64, "IDS", &id);
    assert_eq!(q.claim().id, id, "in the past means now");
}

#[test]
fn all_keep_their_order() {
    let server = Server::start();
    let mut q = server.queue("q");
    let ids: Vec<String> = (0..50).map(|i| text(&ok!(q, "PUSH", i, "DELAY", 1_000_000 - i * 1000))).collect();
    for words in [args!["DELAY", "2h", "ALL"], args!["ALL", "DELAY", 0], args!["delay", 0, "all"]] {
        assert_eq!(int(&q.ok("RESCHEDULE", words)), 50);
    }
    let came: Vec<String> = q.claim_n(100).into_iter().map(|job| job.id).collect();
    assert_eq!(came, ids, "of one due time, in push order");
}

#[test]
fn those_who_wait_are_served() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "DELAY", "1h"));
    for which in [args!["ALL"], args!["IDS", &id]] {
        let mut waiter = server.queue("q");
        let thread = std::thread::spawn(move || waiter.claim_with(args!["BLOCK", 30_000]));
        q.wait_stat("waiting", 1);
        ok!(q, "RESCHEDULE", "DELAY", 20, which);
        let job = thread.join().expect("it ends").remove(0);
        assert_eq!(job.id, id);
        ok!(q, "RELEASE", "DELAY", "1h", "RECEIPTS", job.receipt);
    }
}

#[test]
fn a_late_receipt_stays_late() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    let job = q.claim_and_lapse();
    ok!(q, "RESCHEDULE", "DELAY", "1h", "ALL");
    assert_eq!(q.ack(&job.receipt), 1);
}

#[test]
fn an_entry_without_a_job_is_left() {
    let server = Server::start();
    let mut q = server.queue("q");
    for id in ["a", "b"] {
        ok!(q, "PUSH", "x", "ID", id, "DELAY", "1h");
    }
    q.unwatched();
    let (before, member) = (q.due_at("a"), q.due_member("a"));
    q.raw::<i64>(args!["HDEL", q.key("jobs"), "a"]);
    assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", 0, "IDS", "a", "b")), 1);
    assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", "2h", "ALL")), 1);
    assert_eq!(q.raw::<i64>(args!["ZSCORE", q.key("due"), member]), before);
}

#[test]
fn bad_options() {
    let server = Server::builder().set("max-delay", "1d").start();
    let mut q = server.queue("q");
    q.push("x");
    for bad in NOT_NUMBERS {
        assert_error(&err!(q, "RESCHEDULE", "DELAY", *bad, "ALL"), "ERR", &["DELAY"]);
        assert_error(&err!(q, "RESCHEDULE", "AT", *bad, "ALL"), "ERR", &["AT"]);
    }
    assert_error(&err!(q, "RESCHEDULE", "DELAY", "2d", "ALL"), "DQDELAY", &["DELAY"]);
    assert_error(&err!(q, "RESCHEDULE", "DELAY", i64::MAX, "ALL"), "DQDELAY", &["DELAY"]);
    let far = q.now() + 3 * 24 * HOUR;
    assert_error(&err!(q, "RESCHEDULE", "AT", far, "ALL"), "DQDELAY", &["AT"]);
    assert_error(&err!(q, "RESCHEDULE", "AT", i64::MAX, "IDS", "a"), "DQDELAY", &["AT"]);
    assert_error(&err!(q, "RESCHEDULE", "AT", 1_700_000_000, "ALL"), "ERR", &["AT", "seconds"]);
    assert_error(
        &err!(q, "RESCHEDULE", "DELAY", 1, "AT", far - 2 * 24 * HOUR - HOUR, "ALL"),
        "ERR",
        &["DELAY", "AT", "once"],
    );
    assert_error(&err!(q, "RESCHEDULE", "DELAY", 1, "DELAY", 1, "ALL"), "ERR", &["DELAY", "once"]);
    assert_error(&err!(q, "RESCHEDULE", "DELAY", 1, "ALL", "ALL"), "ERR", &["ALL", "once"]);
    assert_error(&err!(q, "RESCHEDULE", "DELAY", 1, "ALL", "IDS", "a"), "ERR", &["ALL or IDS", "once"]);
    assert_error(&err!(q, "RESCHEDULE", "DELAY", 1, "x"), "ERR", &["unknown option 'x'"]);
    assert_error(&err!(q, "RESCHEDULE", "DELAY", 1, "\0"), "ERR", &["unknown option"]);
    assert_error(&err!(q, "RESCHEDULE", "IDS", "a", "b"), "ERR", &["DELAY or AT"]);
    assert_error(&err!(q, "RESCHEDULE", "DELAY", 1, "IDS"), "ERR", &[]);
    let many: Vec<String> = (0..1001).map(|i| i.to_string()).collect();
    assert_error(&err!(q, "RESCHEDULE", "DELAY", 1, "IDS", &many), "ERR", &["ids", "1 to 1000"]);
    assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", 1, "IDS", &b"\0\xff"[..], "")), 0);
}

#[test]
fn where_the_module_is_disabled() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("x");
    server.set("enabled", "no");
    assert_error(&err!(q, "RESCHEDULE", "DELAY", 1, "ALL"), "DQDISABLED", &[]);
    assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", "1h", "IDS", id)), 1);
}

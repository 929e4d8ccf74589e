//! DQ.REPLAY.

use crate::common::*;
use crate::{args, err, ok};

const HOUR: i64 = 3_600_000;

/// A dead letter of this id; gives the receipt that killed it.
fn kill(q: &mut Queue, id: &str) -> Job {
    ok!(q, "PUSH", id, "ID", id);
    let job = q.claim();
    assert_eq!(job.id, id);
    ok!(q, "FAIL", &job.receipt, "ERROR", "error", "STACK", "stack");
    job
}

#[test]
fn a_letter_becomes_a_job_with_counts_at_zero() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "ID", "a", "RETRIES", 1, "LEASE", "9s", "BACKOFF", 1, 1);
    let job = q.claim();
    q.release(&job.receipt);
    q.claim_and_lapse();
    let job = q.claim();
    ok!(q, "RETRY", job.receipt, "DELAY", 0);
    let job = q.claim();
    assert_eq!(int(&ok!(q, "RETRY", job.receipt, "ERROR", "e", "STACK", "s")), -1);
    let (reason, letter) = q.letter("a");
    assert_eq!(reason, "retries-exhausted");
    assert_eq!(int(&ok!(q, "REPLAY", "IDS", "a")), 1);
    let record = q.record("a");
    assert_eq!([record.failures, record.lapses, record.releases], [0, 0, 0]);
    assert_eq!((record.claims, record.late), (letter.claims, false));
    assert_eq!((record.birth, record.retries, record.lease), (letter.birth, letter.retries, letter.lease));
    assert_eq!((record.error, record.stack), (letter.error, letter.stack));
    assert_eq!(q.stats(["ready", "dead", "replayed"]), [1, 0, 1]);
    let job = q.claim();
    assert_eq!((job.attempt, job.retries_left, job.lease_ms), (1, 1, 9000));
    assert_eq!(q.ack(&job.receipt), 1);
}

#[test]
fn payloads_stay_byte_for_byte() {
    let server = Server::start();
    let mut q = server.queue("q");
    for payload in odd_bytes() {
        let job = q.push_and_claim(&payload[..]);
        ok!(q, "FAIL", job.receipt, "ERROR", &payload[..]);
    }
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), odd_bytes().len() as i64);
    let came: Vec<Vec<u8>> = q.claim_n(100).into_iter().map(|job| job.payload).collect();
    assert_eq!(came, odd_bytes(), "in push order");
}

#[test]
fn receipts_of_the_earlier_life_are_stale() {
    let server = Server::builder().set("max-lapses", "1").start();
    let mut q = server.queue("q");
    q.push("x");
    // Dead by its lapse, so that the receipt was late.
    let lapsed = q.claim_and_lapse();
    q.push("y");
    let failed = q.claim();
    q.fail(&failed.receipt);
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 2);
    for claimed in [false, true] {
        if claimed {
            assert_eq!(q.claim_n(5).len(), 2);
        }
        for receipt in [&lapsed.receipt, &failed.receipt] {
            assert_eq!(q.ack(receipt), 0);
            assert_eq!(q.extend(5000, receipt), -1);
            assert_eq!(q.release(receipt), -1);
            assert_error(&err!(q, "RETRY", receipt), "DQLOST", &[]);
            assert_error(&err!(q, "FAIL", receipt), "DQLOST", &[]);
        }
    }
    assert_eq!(q.stat("leased"), 2);
}

#[test]
fn stale_ones_come_back_as_they_were() {
    let server =
        Server::builder().set("purge-interval", "10").set("stale-after", "100").set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    q.push("x");
    let job = q.claim();
    ok!(q, "RETRY", job.receipt, "DELAY", 0, "ERROR", "e");
    q.claim_and_lapse();
    let before = q.record(&job.id);
    server.set("stale-policy", "dead");
    q.wait_stat("stale-purged", 1);
    server.set("stale-policy", "keep");
    assert_eq!(int(&ok!(q, "REPLAY", "REASON", "failed", "ALL")), 0);
    assert_eq!(int(&ok!(q, "REPLAY", "REASON", "STALE", "ALL")), 1);
    let after = q.record(&job.id);
    assert_eq!([after.failures, after.lapses, after.claims], [before.failures, before.lapses, before.claims]);
    assert!(before.late && !after.late);
    assert_eq!(q.claim().attempt, 3);
}

#[test]
fn only_letters_of_the_reason() {
    let server = Server::builder().set("max-lapses", "1").start();
    let mut q = server.queue("q");
    kill(&mut q, "failed");
    ok!(q, "PUSH", "x", "ID", "retries-exhausted", "RETRIES", 0);
    let job = q.claim();
    q.retry(&job.receipt);
    ok!(q, "PUSH", "x", "ID", "lapses-exhausted");
    q.claim_and_lapse();
    let reasons = ["lapses-exhausted", "failed", "retries-exhausted"];
    for reason in reasons {
        for other in reasons.into_iter().filter(|other| *other != reason) {
            assert_eq!(int(&ok!(q, "REPLAY", "REASON", reason, "IDS", other)), 0);
        }
        assert_eq!(int(&ok!(q, "REPLAY", "REASON", reason, "DELAY", "1h", "ALL")), 1);
        assert_eq!(q.state(reason), "delayed");
    }
    assert_eq!(q.stat("replayed"), 3);
}

#[test]
fn a_letter_whose_id_is_live_is_skipped() {
    let server = Server::start();
    let mut q = server.queue("q");
    kill(&mut q, "mine");
    kill(&mut q, "other");
    ok!(q, "PUSH", "new", "ID", "mine", "DELAY", "1h");
    assert_eq!(int(&ok!(q, "REPLAY", "IDS", "mine")), 0);
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 1);
    assert_eq!(q.field("mine", "payload"), "new");
    assert_eq!(q.stat("dead"), 1);
    // Where the live one goes, the letter can come back, and its id is taken then.
    ok!(q, "CANCEL", "mine");
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 1);
    assert_eq!(ok!(q, "PUSH", "z", "ID", "mine", "NX"), redis::Value::Nil);
}

#[test]
fn spread_evenly_in_the_order_of_death() {
    let server = Server::start();
    let mut q = server.queue("q");
    for (place, id) in ["e", "d", "c", "b", "a"].into_iter().enumerate() {
        kill(&mut q, id);
        q.raw::<i64>(args!["ZADD", q.key("dead:at"), "XX", place, id]);
    }
    for which in [args!["ALL"], args!["IDS", "a", "b", "c", "d", "e", "none", "a"]] {
        let begin = q.now();
        assert_eq!(int(&ok!(q, "REPLAY", "SPREAD", "10h", "DELAY", "1h", which)), 5);
        let first = q.due_at("e");
        assert_between(first, begin + HOUR, q.now() + HOUR);
        for (place, id) in ["e", "d", "c", "b", "a"].into_iter().enumerate() {
            assert_eq!(q.due_at(id), first + place as i64 * 2 * HOUR, "{id}");
        }
        ok!(q, "RESCHEDULE", "DELAY", 0, "ALL");
        for job in q.claim_n(5) {
            q.fail(&job.receipt);
            let place = "edcba".find(&job.id).expect("one of them");
            q.raw::<i64>(args!["ZADD", q.key("dead:at"), "XX", place, job.id]);
        }
    }
}

#[test]
fn the_first_of_them_by_count() {
    let server = Server::start();
    let mut q = server.queue("q");
    for (place, id) in ["d", "c", "b", "a"].into_iter().enumerate() {
        kill(&mut q, id);
        q.raw::<i64>(args!["ZADD", q.key("dead:at"), "XX", place, id]);
    }
    let begin = q.now();
    assert_eq!(int(&ok!(q, "REPLAY", "COUNT", 2, "SPREAD", "2h", "ALL")), 2);
    assert_between(q.due_at("d"), begin, q.now());
    assert_between(q.due_at("c"), begin + HOUR, q.now() + HOUR);
    assert_eq!(int(&ok!(q, "REPLAY", "COUNT", 1, "DELAY", "1h", "IDS", "a", "b")), 1);
    assert_eq!((q.state("b"), q.state("a")), ("delayed".into(), "dead".into()));
    assert_eq!(int(&ok!(q, "REPLAY", "COUNT", 1_000_000_000_000_i64, "ALL")), 1);
}

#[test]
fn those_who_wait_are_served() {
    let server = Server::start();
    let mut q = server.queue("q");
    kill(&mut q, "a");
    let mut waiter = server.queue("q");
    let thread = std::thread::spawn(move || waiter.claim_with(args!["BLOCK", 30_000]));
    q.wait_stat("waiting", 1);
    ok!(q, "REPLAY", "DELAY", 20, "ALL");
    assert_eq!(thread.join().expect("it ends").remove(0).id, "a");
}

#[test]
fn nothing_where_there_is_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 0);
    assert_eq!(int(&ok!(q, "REPLAY", "IDS", "a", "", &b"\0\xff"[..])), 0);
    assert_eq!(server.dump(), Default::default(), "nothing is made");
}

#[test]
fn the_header_is_made_again() {
    let server = Server::start();
    let mut q = server.queue("q");
    kill(&mut q, "a");
    q.raw::<i64>(args!["DEL", "q"]);
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 1);
    q.wait_key("", true);
}

#[test]
fn letters_that_cannot_be_read_stay() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    for id in ["a", "b", "c"] {
        kill(&mut q, id);
    }
    q.raw::<i64>(args!["HSET", q.key("dead"), "a", "no letter"]);
    q.raw::<i64>(args!["HDEL", q.key("dead"), "b"]);
    assert_eq!(int(&ok!(q, "REPLAY", "IDS", "a", "b")), 0);
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 1);
    assert_eq!(list(&ok!(q, "CHECK")).len(), 2);
}

#[test]
fn a_call_by_ids_ends_at_8_mib() {
    let server = Server::builder().set("max-payload", "16mb").start();
    let mut q = server.queue("q");
    q.unwatched();
    let ids: Vec<String> = [3, 3, 3, 12]
        .into_iter()
        .map(|size: usize| {
            let job = q.push_and_claim(vec![b'x'; size << 20]);
            q.fail(&job.receipt);
            job.id
        })
        .collect();
    assert_eq!(int(&ok!(q, "REPLAY", "DELAY", "1h", "IDS", &ids)), 3);
    assert_eq!(int(&ok!(q, "REPLAY", "DELAY", "1h", "IDS", &ids)), 1);
}

#[test]
fn refused_at_maxmemory_and_where_disabled() {
    let server = Server::start();
    let mut q = server.queue("q");
    kill(&mut q, "a");
    server.set("enabled", "no");
    assert_error(&err!(q, "REPLAY", "ALL"), "DQDISABLED", &[]);
    server.set("enabled", "yes");
    server.run(&["CONFIG", "SET", "maxmemory", "1mb"]);
    assert_error(&err!(q, "REPLAY", "ALL"), "OOM", &[]);
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 1);
}

#[test]
fn bad_options() {
    let server = Server::builder().set("max-delay", "1d").start();
    let mut q = server.queue("q");
    kill(&mut q, "a");
    for bad in NOT_NUMBERS {
        for option in ["COUNT", "DELAY", "SPREAD"] {
            assert_error(&err!(q, "REPLAY", option, *bad, "ALL"), "ERR", &[option]);
        }
    }
    assert_error(&err!(q, "REPLAY", "COUNT", 0, "ALL"), "ERR", &["COUNT", "1 to"]);
    assert_error(&err!(q, "REPLAY", "COUNT", i64::MAX, "ALL"), "ERR", &["COUNT", "1 to"]);
    for option in ["DELAY", "SPREAD"] {
        assert_error(&err!(q, "REPLAY", option, "2d", "ALL"), "DQDELAY", &[option]);
        assert_error(&err!(q, "REPLAY", option, i64::MAX, "IDS", "a"), "DQDELAY", &[option]);
    }
    assert_error(&err!(q, "REPLAY", "DELAY", "13h", "SPREAD", "13h", "ALL"), "DQDELAY", &["DELAY and SPREAD"]);
    for bad in [&b""[..], b"dead", b"\0", b"\xff", b"stale "] {
        assert_error(&err!(q, "REPLAY", "REASON", bad, "ALL"), "ERR", &["REASON", "lapses-exhausted"]);
    }
    for (name, value) in [("REASON", "stale"), ("COUNT", "1"), ("DELAY", "0"), ("SPREAD", "0")] {
        assert_error(&err!(q, "REPLAY", name, value, name, value, "ALL"), "ERR", &[name, "once"]);
        assert_error(&err!(q, "REPLAY", "ALL", name), "ERR", &[name]);
    }
    assert_error(&err!(q, "REPLAY", "x"), "ERR", &["unknown option 'x'"]);
    assert_error(&err!(q, "REPLAY", "DELAY", 0), "ERR", &["ALL or IDS"]);
    assert_error(&err!(q, "REPLAY", "ALL", "ALL"), "ERR", &["ALL or IDS", "once"]);
    let many: Vec<String> = (0..1001).map(|i| i.to_string()).collect();
    assert_error(&err!(q, "REPLAY", "IDS", &many), "ERR", &["ids", "1 to 1000"]);
}

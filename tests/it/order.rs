//! Jobs that are due in the same ms leave in push order, whoever chose their ids, and whatever made them due.

use crate::common::msgpack::number_text;
use crate::common::wall::Wall;
use crate::common::*;
use crate::{args, ok};

use super::check::findings;

const HOUR: i64 = 3_600_000;

/// Ids in an order that is not that of their bytes: of the caller's, of the server's (empty), and of the caller's that look
/// like the server's.
const IDS: [&str; 10] = ["~", "", "order:9", "LygHa16AHYF", "", "order:10", "00000000001", "order", "", "!"];

/// `IDS` pushed by one MPUSH with this delay, the payload of each its place in the list.
fn push_all(q: &mut Queue, delay: &str) -> Vec<String> {
    let mut words = args!["JOBS"];
    for (place, id) in IDS.iter().enumerate() {
        words.extend(args![*id, delay, place]);
    }
    texts(&q.ok("MPUSH", words))
}

/// Every due job is due at one ms that has passed, whatever put it there.
fn level(q: &mut Queue) {
    const SET: &str = "local all = redis.call('ZRANGE', KEYS[1], 0, -1) \
                       for _, member in ipairs(all) do redis.call('ZADD', KEYS[1], ARGV[1], member) end return #all";
    let at = q.now() - 1000;
    q.raw::<i64>(args!["EVAL", SET, 1, q.key("due"), at]);
}

/// Claims all, which must come in push order.
#[track_caller]
fn assert_in_order(q: &mut Queue) -> Vec<Job> {
    let jobs = q.claim_n(100);
    let came: Vec<String> = jobs.iter().map(|job| String::from_utf8_lossy(&job.payload).into_owned()).collect();
    let expected: Vec<String> = (0..IDS.len()).map(|place| place.to_string()).collect();
    assert_eq!(came, expected);
    jobs
}

fn receipts(jobs: &[Job]) -> Vec<String> {
    jobs.iter().map(|job| job.receipt.clone()).collect()
}

/// The one due time of all due jobs.
#[track_caller]
fn assert_one_ms(q: &mut Queue) {
    let due: Vec<(Vec<u8>, i64)> = q.raw(args!["ZRANGE", q.key("due"), 0, -1, "WITHSCORES"]);
    assert!(due.iter().all(|(_, at)| *at == due[0].1), "{due:?}");
}

#[test]
fn the_jobs_of_one_mpush() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "MPUSH", "JOBS", "order:9", 0, "first", "order:10", 0, "second");
    assert_eq!(q.claim().payload, b"first");
    assert_eq!(q.claim().payload, b"second");
    ok!(q, "DROP", "FORCE");
    push_all(&mut q, "0");
    assert_one_ms(&mut q);
    assert_in_order(&mut q);
}

#[test]
fn pushes_of_one_transaction() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut pipe = redis::pipe();
    pipe.atomic();
    let at = q.now() + 30;
    for (place, id) in IDS.iter().enumerate() {
        let push = pipe.cmd("DQ.PUSH").arg("q").arg(place).arg("AT").arg(at);
        if !id.is_empty() {
            push.arg("ID").arg(*id);
        }
    }
    pipe.exec(&mut q.con).expect("the transaction runs");
    assert_one_ms(&mut q);
    wait_for("them to be due", || q.stat("ready") == IDS.len() as i64);
    assert_in_order(&mut q);
}

#[test]
fn a_waiter_is_served_in_push_order() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut worker = server.queue("q");
    worker.unwatched();
    std::thread::scope(|scope| {
        let claim = scope.spawn(move || worker.claim_with(args!["BLOCK", "20s", "COUNT", 100]));
        q.wait_stat("waiting", 1);
        push_all(&mut q, "20");
        let came: Vec<Vec<u8>> = claim.join().expect("it is answered").into_iter().map(|job| job.payload).collect();
        let expected: Vec<Vec<u8>> = (0..IDS.len()).map(|place| place.to_string().into_bytes()).collect();
        assert_eq!(came, expected);
    });
}

#[test]
fn replayed_jobs() {
    let server = Server::start();
    let mut q = server.queue("q");
    let ids = push_all(&mut q, "0");
    let reversed: Vec<String> = ids.iter().rev().cloned().collect();
    for which in [args!["ALL"], args!["IDS", &reversed], args!["IDS", &ids]] {
        // They die in the reverse order.
        for job in assert_in_order(&mut q).iter().rev() {
            q.fail(&job.receipt);
        }
        assert_eq!(int(&q.ok("REPLAY", which)), IDS.len() as i64);
        assert_one_ms(&mut q);
    }
    assert_in_order(&mut q);
}

#[test]
fn rescheduled_jobs() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut ids = push_all(&mut q, "1h");
    ids.reverse();
    let at = q.now() + HOUR;
    for id in &ids {
        ok!(q, "RESCHEDULE", "AT", at + 1, "IDS", id);
    }
    for words in [
        args!["AT", at, "ALL"],
        args!["DELAY", "2h", "IDS", &ids],
        args!["DELAY", "3h", "ALL"],
        args!["DELAY", 0, "IDS", &ids],
        args!["DELAY", 0, "ALL"],
    ] {
        assert_eq!(int(&q.ok("RESCHEDULE", words)), IDS.len() as i64);
        assert_one_ms(&mut q);
    }
    assert_in_order(&mut q);
}

#[test]
fn jobs_that_come_back() {
    let server = Server::start();
    let mut q = server.queue("q");
    push_all(&mut q, "0");
    for job in assert_in_order(&mut q).iter().rev() {
        ok!(q, "RETRY", &job.receipt, "DELAY", 0);
    }
    level(&mut q);
    let mut given_back = receipts(&assert_in_order(&mut q));
    given_back.reverse();
    ok!(q, "RELEASE", "RECEIPTS", given_back);
    assert_one_ms(&mut q);
    assert_in_order(&mut q);
}

#[test]
fn jobs_whose_leases_lapse() {
    let server = Server::start();
    let mut q = server.queue("q");
    push_all(&mut q, "0");
    let jobs = q.claim_with(args!["COUNT", 100, "LEASE", 1]);
    assert_eq!(jobs.len(), IDS.len());
    q.wait_stat("lapsed", IDS.len() as i64);
    level(&mut q);
    // And what late receipts do with them.
    let mut late = receipts(&jobs);
    late.reverse();
    ok!(q, "EXTEND", "1h", &late);
    ok!(q, "RELEASE", "RECEIPTS", &late);
    assert_one_ms(&mut q);
    let jobs = q.claim_with(args!["COUNT", 100, "LEASE", 1]);
    q.wait_stat("leased", 0);
    for job in jobs.iter().rev() {
        ok!(q, "RETRY", &job.receipt, "DELAY", 0);
    }
    level(&mut q);
    assert_in_order(&mut q);
}

#[test]
fn jobs_that_repair_found_again() {
    let server = Server::start();
    let mut q = server.queue("q");
    push_all(&mut q, "1h");
    q.unwatched();
    q.raw::<i64>(args!["DEL", q.key("due")]);
    assert_eq!(list(&ok!(q, "REPAIR")).len(), IDS.len());
    q.watched();
    level(&mut q);
    assert_in_order(&mut q);
}

#[test]
fn a_job_that_is_replaced_stands_behind_those_pushed_before() {
    let server = Server::start();
    let mut q = server.queue("q");
    for id in ["b", "a", "c"] {
        ok!(q, "PUSH", id, "ID", id, "DELAY", "1h");
    }
    ok!(q, "PUSH", "new", "ID", "b", "REPLACE");
    ok!(q, "MPUSH", "REPLACE", "JOBS", "c", "1h", "twice", "c", 0, "newer");
    level(&mut q);
    let came: Vec<Vec<u8>> = q.claim_n(10).into_iter().map(|job| job.payload).collect();
    assert_eq!(came, [&b"a"[..], b"new", b"newer"]);
}

#[test]
fn after_a_restart() {
    for aof in [false, true] {
        let builder = if aof { Server::builder().aof() } else { Server::builder() };
        let mut server = builder.start();
        push_all(&mut server.queue("q"), "1h");
        server.run(&["SAVE"]);
        server.crash_and_restart();
        let mut q = server.queue("q");
        ok!(q, "RESCHEDULE", "DELAY", 0, "ALL");
        assert_in_order(&mut q);
    }
}

/// Pushes that a replica takes as the first thing that it does as a primary, with these options.
fn promote_and_push(replica: &Server, pushes: &[Vec<Vec<u8>>]) {
    let mut pipe = redis::pipe();
    pipe.cmd("REPLICAOF").arg("NO").arg("ONE").ignore();
    for words in pushes {
        let push = pipe.cmd("DQ.PUSH").arg("q");
        for word in words {
            push.arg(word);
        }
    }
    pipe.exec(&mut replica.conn()).expect("all answer");
}

#[test]
fn after_a_failover_to_a_clock_behind() {
    let wall = Wall::new();
    wall.set(HOUR);
    for state in ["due", "leased", "dead"] {
        let ahead = wall.rules(Server::builder()).start();
        let other = Server::builder().replica_of(&ahead).start();
        let mut q = ahead.queue("q");
        let at = q.now() + 2 * HOUR;
        ok!(q, "PUSH", "first", "ID", "~", "AT", at);
        if state != "due" {
            ok!(q, "RESCHEDULE", "DELAY", 0, "ALL");
            let job = q.claim_with(args!["LEASE", "6h"]).remove(0);
            if state == "dead" {
                q.fail(&job.receipt);
            }
        }
        other.catch_up(&ahead);
        promote_and_push(&other, &[args!["second", "ID", "!", "AT", at], args!["third", "AT", at]]);
        let mut q = other.queue("q");
        match state {
            "leased" => {
                // The job comes back.
                q.unwatched();
                q.raw::<i64>(args!["ZADD", q.key("leased"), 1, "~"]);
                ok!(q, "REPAIR");
                q.raw::<()>(args!["CONFIG", "SET", "dq.purge-interval", 10]);
                wait_until("the lease to end", || {
                    q.raw::<Option<i64>>(args!["ZSCORE", q.key("leased"), "~"]).is_none().then_some(())
                });
                q.watched();
            }
            "dead" => assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 1),
            _ => {}
        }
        level(&mut q);
        let came: Vec<Vec<u8>> = q.claim_n(10).into_iter().map(|job| job.payload).collect();
        assert_eq!(came, [&b"first"[..], b"second", b"third"], "{state}");
    }
}

/// Writes every member of `due` as the first version did: a caller's id as it is.
fn write_as_before(q: &mut Queue) {
    for id in q.due_ids() {
        let member = q.due_member(&id);
        if member != id.as_bytes() {
            let at: i64 = q.raw(args!["ZSCORE", q.key("due"), &member]);
            q.raw::<i64>(args!["ZREM", q.key("due"), member]);
            q.raw::<i64>(args!["ZADD", q.key("due"), at, id]);
        }
    }
}

/// A queue as the first version wrote it, of jobs of the ids `a`, `b` and one of the server's, which have this delay.
fn old_queue(server: &Server, delay: &str) -> Queue {
    let mut q = server.queue("q");
    ok!(q, "MPUSH", "JOBS", "b", delay, "b", "a", delay, "a", "", delay, "server's");
    q.unwatched();
    write_as_before(&mut q);
    q
}

#[test]
fn entries_of_the_first_version_are_worked_on() {
    let server = Server::start();
    // Each ends with nothing but what the keys should be.
    type Way = fn(&mut Queue);
    let ways: [(&str, Way); 12] = [
        ("claim and ack", |q| {
            let jobs = q.claim_n(10);
            assert_eq!(jobs.len(), 3);
            q.check_clean();
            assert_eq!(int(&ok!(q, "ACK", receipts(&jobs))), 3);
        }),
        ("claim and retry", |q| {
            let jobs = q.claim_n(10);
            assert_eq!(jobs.len(), 3);
            for job in &jobs {
                q.retry(&job.receipt);
            }
            assert_eq!(q.stats(["ready", "delayed"]), [0, 3]);
        }),
        ("cancel", |q| assert_eq!(int(&ok!(q, "CANCEL", "a", "b")), 2)),
        ("cancel ready ones", |q| assert_eq!(int(&ok!(q, "CANCEL", "STATE", "ready", "a", "b")), 2)),
        ("purge", |q| assert_eq!(int(&ok!(q, "PURGE", "STATE", "ready")), 3)),
        ("reschedule by ids", |q| {
            assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", "1h", "IDS", "a", "b")), 2);
            assert_eq!(q.stats(["ready", "delayed"]), [1, 2]);
        }),
        ("reschedule all", |q| {
            assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", "1h", "ALL")), 3);
            assert_eq!(q.stats(["ready", "delayed"]), [0, 3]);
        }),
        ("replace", |q| {
            for id in ["a", "b"] {
                ok!(q, "PUSH", "new", "ID", id, "REPLACE", "DELAY", "1h");
            }
            assert_eq!(q.stats(["ready", "delayed"]), [1, 2]);
        }),
        ("push again", |q| {
            for id in ["a", "b"] {
                assert_eq!(ok!(q, "PUSH", "again", "ID", id, "NX"), redis::Value::Nil);
                assert_eq!(q.state(id), "ready");
            }
            assert_eq!(list(&list(&ok!(q, "PEEK"))[1]).len(), 3);
            assert_eq!(q.claim_n(10).len(), 3);
        }),
        ("repair", |q| {
            assert_eq!(findings(q), ["due-out-of-place a", "due-out-of-place b"]);
            assert_eq!(list(&ok!(q, "REPAIR")).len(), 2);
            assert_eq!(q.claim_n(10).iter().map(|job| job.id.clone()).take(2).collect::<Vec<_>>(), ["b", "a"]);
        }),
        ("grow stale and die", |q| {
            q.raw::<()>(args![
                "CONFIG",
                "SET",
                "dq.stale-policy",
                "dead",
                "dq.stale-after",
                50,
                "dq.purge-interval",
                10
            ]);
            q.wait_stat("dead", 3);
            q.raw::<()>(args!["CONFIG", "SET", "dq.stale-policy", "keep"]);
        }),
        ("grow stale and go", |q| {
            q.raw::<()>(args![
                "CONFIG",
                "SET",
                "dq.stale-policy",
                "drop",
                "dq.stale-after",
                50,
                "dq.purge-interval",
                10
            ]);
            q.wait_stat("ready", 0);
            q.raw::<()>(args!["CONFIG", "SET", "dq.stale-policy", "keep"]);
        }),
    ];
    server.set("stale-policy", "keep");
    for (way, act) in ways {
        eprintln!("{way}");
        let mut q = old_queue(&server, "0");
        act(&mut q);
        q.check_clean();
        ok!(q, "DROP", "FORCE");
    }
}

#[test]
fn late_receipts_of_jobs_whose_entries_are_of_the_first_version() {
    let server = Server::start();
    type Way = fn(&mut Queue, &str);
    let ways: [(&str, Way); 5] = [
        ("ack", |q, receipt| assert_eq!(q.ack(receipt), 1)),
        ("retry", |q, receipt| assert!(q.retry(receipt) > 0)),
        ("release", |q, receipt| assert_eq!(q.release(receipt), 0)),
        ("extend", |q, receipt| assert!(q.extend(HOUR, receipt) > 0)),
        ("fail", |q, receipt| q.fail(receipt)),
    ];
    for (way, act) in ways {
        eprintln!("{way}");
        let mut q = server.queue("q");
        ok!(q, "PUSH", "x", "ID", "mine");
        let job = q.claim_and_lapse();
        q.unwatched();
        write_as_before(&mut q);
        act(&mut q, &job.receipt);
        q.check_clean();
        ok!(q, "DROP", "FORCE");
    }
}

#[test]
fn a_second_entry_of_a_job_hands_it_out_once() {
    let server = Server::start();
    // What stands in `due` beside the place of `mine`: its id, and the place of a job that it was before.
    for other in [b"mine".to_vec(), [number_text(1), b" mine".to_vec()].concat()] {
        for (at, state) in [(1_i64, "delayed"), (8_000_000_000_000, "ready")] {
            let mut q = server.queue("q");
            let delay = if state == "delayed" { "1h" } else { "0" };
            ok!(q, "PUSH", "x", "ID", "mine", "DELAY", delay);
            q.unwatched();
            q.raw::<i64>(args!["ZADD", q.key("due"), at, &other]);
            assert_eq!(findings(&mut q), ["due-out-of-place mine"]);
            assert_eq!(list(&list(&ok!(q, "PEEK"))[1]).len(), 1, "it is shown once");
            let claimed = q.claim_n(10);
            assert_eq!(claimed.len(), usize::from(state == "ready"), "never before its due time, and once");
            // The entry that is not the job's was met, or goes now.
            assert_eq!(list(&ok!(q, "REPAIR")).len(), usize::from(at > 1), "{state}");
            q.check_clean();
            ok!(q, "DROP", "FORCE");
        }
    }
}

#[test]
fn a_ready_entry_of_a_job_that_was_lost_takes_no_delayed_one_with_it() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    let ways: [fn(&mut Queue); 3] = [
        |q| drop(ok!(q, "PURGE", "STATE", "ready")),
        |q| assert!(q.claim_n(1).is_empty()),
        |q| {
            q.raw::<()>(args![
                "CONFIG",
                "SET",
                "dq.stale-policy",
                "drop",
                "dq.stale-after",
                1,
                "dq.purge-interval",
                10
            ]);
            wait_for("the entry to go", || q.raw::<i64>(args!["ZCARD", q.key("due")]) == 1);
            q.raw::<()>(args!["CONFIG", "SET", "dq.stale-policy", "keep"]);
        },
    ];
    for act in ways {
        ok!(q, "PUSH", "lost", "ID", "mine", "KEEP", 0);
        q.raw::<i64>(args!["HDEL", q.key("jobs"), "mine"]);
        ok!(q, "PUSH", "kept", "ID", "mine", "KEEP", 0, "DELAY", "1h");
        act(&mut q);
        q.check_clean();
        assert_eq!(q.stats(["ready", "delayed"]), [0, 1]);
        assert_eq!(q.field("mine", "payload"), "kept");
        ok!(q, "DROP", "FORCE");
    }
}

#[test]
fn pages_go_on_behind_a_callers_id() {
    let server = Server::start();
    let mut q = server.queue("q");
    push_all(&mut q, "1h");
    let (mut cursor, mut payloads) = ("0".to_string(), Vec::new());
    loop {
        let reply = list(&ok!(q, "PEEK", "COUNT", 1, "AFTER", &cursor));
        for job in list(&reply[1]) {
            let job: std::collections::BTreeMap<String, redis::Value> = pairs(&job).into_iter().collect();
            payloads.push(text(&job["payload"]));
        }
        cursor = text(&reply[0]);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(payloads, (0..IDS.len()).map(|place| place.to_string()).collect::<Vec<_>>());
}

#[test]
fn an_id_written_by_hand_that_looks_like_a_place() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    let id = [number_text(5), b" x".to_vec()].concat();
    q.raw::<i64>(args!["HSET", q.key("jobs"), &id, b"\x92\x01\xc4\x01p".to_vec()]);
    assert_eq!(list(&ok!(q, "REPAIR")).len(), 1);
    assert_eq!(ok!(q, "REPAIR"), redis::Value::Array(Vec::new()), "nothing is left to repair");
    assert!(q.claim_n(1).is_empty(), "no receipt can name it");
}

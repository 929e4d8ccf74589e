//! DQ.CHECK finds what breaks an invariant.

use redis::Value;

use crate::common::*;
use crate::{args, err, ok};

/// DQ.CHECK's findings, as `problem id`.
pub fn findings(q: &mut Queue) -> Vec<String> {
    let mut all: Vec<String> = list(&ok!(q, "CHECK")).iter().map(|problem| texts(problem).join(" ")).collect();
    all.sort();
    all
}

#[test]
fn a_clean_queue_has_no_findings() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_eq!(ok!(q, "CHECK"), Value::Array(vec![]));
    assert_eq!(server.dump(), Default::default(), "nothing is made");
    q.push("x");
    ok!(q, "PUSH", "x", "DELAY", "1h", "ID", "mine");
    q.claim();
    assert_eq!(ok!(q, "CHECK"), Value::Array(vec![]));
}

#[test]
fn an_entry_without_a_job() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    ok!(q, "PUSH", "x", "ID", "due", "DELAY", "1h");
    ok!(q, "PUSH", "x", "ID", "leased");
    q.claim();
    q.raw::<i64>(args!["HDEL", q.key("jobs"), "due", "leased"]);
    assert_eq!(findings(&mut q), ["due-without-job due", "leased-without-job leased"]);
}

#[test]
fn a_job_without_an_entry() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    ok!(q, "PUSH", "x", "ID", "lost");
    q.push("other");
    let lost = q.due_member("lost");
    q.raw::<i64>(args!["ZREM", q.key("due"), lost]);
    assert_eq!(findings(&mut q), ["job-without-index lost"]);
}

#[test]
fn a_job_in_both_indexes() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    ok!(q, "PUSH", "x", "ID", "both");
    let far = q.now() + 3_600_000;
    q.raw::<i64>(args!["ZADD", q.key("leased"), far, "both"]);
    assert_eq!(findings(&mut q), ["due-and-leased both"]);
}

#[test]
fn letters_and_times_apart() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    for id in ["a", "b"] {
        ok!(q, "PUSH", "x", "ID", id);
        let job = q.claim();
        q.fail(&job.receipt);
    }
    q.raw::<i64>(args!["ZREM", q.key("dead:at"), "a"]);
    q.raw::<i64>(args!["HDEL", q.key("dead"), "b"]);
    assert_eq!(findings(&mut q), ["dead-without-time a", "time-without-dead b"]);
}

#[test]
fn a_score_that_is_no_time() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    let far = q.now() + 3_600_000;
    for id in ["half", "inf"] {
        ok!(q, "PUSH", "x", "ID", id, "DELAY", "1h");
    }
    let [half, endless] = ["half", "inf"].map(|id| q.due_member(id));
    q.raw::<i64>(args!["ZADD", q.key("due"), "XX", format!("{far}.5"), half]);
    q.raw::<i64>(args!["ZADD", q.key("due"), "XX", "inf", endless]);
    let found = findings(&mut q);
    assert!(found.contains(&"bad-score half".to_string()), "{found:?}");
    assert!(found.contains(&"bad-score inf".to_string()), "{found:?}");
}

#[test]
fn a_record_that_does_not_read() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    for (i, bad) in bad_records().iter().enumerate() {
        let id = format!("id-{i:02}");
        ok!(q, "PUSH", "x", "ID", &id, "DELAY", "1h");
        q.raw::<i64>(args!["HSET", q.key("jobs"), &id, &bad[..]]);
    }
    let expected: Vec<String> = (0..bad_records().len()).map(|i| format!("bad-record id-{i:02}")).collect();
    assert_eq!(findings(&mut q), expected);
}

#[test]
fn a_letter_that_does_not_read() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    ok!(q, "PUSH", "x", "ID", "a");
    let job = q.claim();
    q.fail(&job.receipt);
    for bad in bad_records() {
        q.raw::<i64>(args!["HSET", q.key("dead"), "a", bad]);
        assert_eq!(findings(&mut q), ["bad-letter a"]);
        // Reading it is an error or nil, and never the end of the server.
        let _ = q.call("GET", args!["a"]);
    }
}

/// Bytes that are no record: torn, of another version, of wrong types, lying about lengths.
pub fn bad_records() -> Vec<Vec<u8>> {
    vec![
        b"".to_vec(),
        b"\0".to_vec(),
        b"\xc0".to_vec(),
        b"hello".to_vec(),
        b"{\"payload\":\"x\"}".to_vec(),
        b"\x90".to_vec(),
        b"\x91\x01".to_vec(),
        b"\x92\x01".to_vec(),
        b"\x92\x02\xc4\x01x".to_vec(),
        b"\x92\x01\xc4\x05x".to_vec(),
        b"\x92\x01\xc6\xff\xff\xff\xff".to_vec(),
        b"\xdd\xff\xff\xff\xff".to_vec(),
        b"\xdf\xff\xff\xff\xff".to_vec(),
        b"\x92\x01\xc4\x01xy".to_vec(),
        b"\x94\x01\xc4\x01x\xc0\xff".to_vec(),
        b"\x94\x01\xc4\x01x\xc0\xc4\x01x".to_vec(),
        vec![0x91; 100_000],
    ]
}

#[test]
fn at_most_a_thousand_findings() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    let mut pipe = redis::pipe();
    for i in 0..1500 {
        pipe.cmd("DQ.PUSH").arg("q").arg(i).arg("DELAY").arg("1h");
    }
    pipe.exec(&mut q.con).expect("the pushes answer");
    q.raw::<i64>(args!["DEL", q.key("jobs")]);
    assert_eq!(findings(&mut q).len(), 1000);
}

#[test]
fn looking_changes_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    ok!(q, "PUSH", "x", "ID", "a", "DELAY", "1h");
    q.raw::<i64>(args!["HDEL", q.key("jobs"), "a"]);
    let before = server.dump();
    assert_eq!(findings(&mut q), ["due-without-job a"]);
    assert_eq!(server.dump(), before);
}

#[test]
fn options_are_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_error(&err!(q, "CHECK", "NONSENSE"), "ERR", &[]);
    assert_error(&err!(q, "CHECK", "REPAIR"), "ERR", &["wrong number of arguments"]);
    assert_error(&err!(q, "CHECK", "%s", "%n"), "ERR", &[]);
}

/// A queue of `n` jobs, some leased.
fn large(q: &mut Queue, n: usize) {
    let mut pipe = redis::pipe();
    for from in (0..n).step_by(1000) {
        let payloads: Vec<usize> = (from..from + 1000).collect();
        pipe.cmd("DQ.MPUSH").arg(&q.name).arg("PAYLOADS").arg(payloads).ignore();
    }
    pipe.exec(&mut q.con).expect("the pushes answer");
    for _ in 0..n / 4000 {
        list(&q.call("CLAIM", args!["COUNT", 1000]).expect("a claim answers"));
    }
}

#[test]
fn a_large_queue_is_clean_while_it_is_worked_on() {
    let server = Server::start();
    let mut q = server.queue("q");
    large(&mut q, 20_000);
    q.unwatched();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (mut worker, stop) = (server.queue("q"), &stop);
            worker.unwatched();
            scope.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    worker.push("x");
                    for (i, job) in worker.claim_n(5).into_iter().enumerate() {
                        match i {
                            0 | 1 => drop(worker.ack(&job.receipt)),
                            2 => drop(worker.retry(&job.receipt)),
                            3 => drop(worker.release(&job.receipt)),
                            _ => worker.fail(&job.receipt),
                        }
                    }
                }
            });
        }
        for _ in 0..20 {
            let found = findings(&mut q);
            stop.store(!found.is_empty(), std::sync::atomic::Ordering::Relaxed);
            assert!(found.is_empty(), "{found:?}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // One fault among them is found.
    let key = q.key("jobs");
    let id = q.push("lost");
    q.raw::<i64>(args!["HDEL", key, &id]);
    assert_eq!(findings(&mut q), [format!("due-without-job {id}")]);
}

#[test]
fn who_leaves_in_the_middle_of_a_check_does_no_harm() {
    use std::io::Write;
    let mut server = Server::start();
    let mut q = server.queue("q");
    large(&mut q, 60_000);
    q.unwatched();
    let check = b"*2\r\n$8\r\nDQ.CHECK\r\n$1\r\nq\r\n";
    for round in 0..30 {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens");
        stream.write_all(check).expect("the server reads");
        match round % 3 {
            0 => drop(stream),
            1 => {
                let _ = q.raw::<redis::Value>(args!["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }
            _ => {
                let clients: String = q.raw(args!["CLIENT", "LIST"]);
                for line in clients.lines().filter(|line| line.contains("cmd=dq.check")) {
                    let id = line.split_once("id=").and_then(|(_, rest)| rest.split(' ').next()).unwrap_or("0");
                    let _ = q.raw::<i64>(args!["CLIENT", "UNBLOCK", id]);
                }
            }
        }
    }
    server.assert_alive();
    // The queue that goes away meanwhile ends the check.
    let mut other = server.queue("q");
    other.unwatched();
    std::thread::scope(|scope| {
        let look = |other: &mut Queue| match other.call("CHECK", args![]) {
            Ok(found) => assert_eq!(list(&found), []),
            Err(error) => assert_error(&error_text(&error), "UNBLOCKED", &[]),
        };
        let looks = scope.spawn(move || (0..5).for_each(|_| look(&mut other)));
        server.run(&["FLUSHALL", "ASYNC"]);
        looks.join().expect("every check is answered");
    });
    assert!(findings(&mut q).is_empty());
    server.assert_alive();
}

#[test]
fn a_small_queue_is_checked_in_a_transaction_and_a_script() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    let (found,): (Vec<Value>,) =
        redis::pipe().atomic().cmd("DQ.CHECK").arg("q").query(&mut q.con).expect("the transaction runs");
    assert!(found.is_empty());
    let found: Vec<Value> = q.raw(args!["EVAL", "return redis.call('DQ.CHECK', KEYS[1])", 1, "q"]);
    assert!(found.is_empty());
}

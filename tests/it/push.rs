//! DQ.PUSH: ids, delays, options, limits, and the caller's own ids.

use redis::Value;

use crate::common::*;
use crate::{args, err, ok};

const DAY: i64 = 86_400_000;

#[test]
fn a_pushed_job_is_on_the_keys() {
    let server = Server::start();
    let mut q = server.queue("mail");
    let before = q.now();
    let id = q.push("hello");
    let after = q.now();
    assert_eq!(id.len(), 11);
    assert!(id.bytes().all(|b| b.is_ascii_alphanumeric()), "{id}");
    assert_between(q.due_at(&id), before, after);
    let record = q.record(&id);
    assert_eq!(record.payload, b"hello");
    assert_eq!(record, msgpack::Record { payload: b"hello".to_vec(), ..Default::default() });
    assert_eq!(q.raw::<String>(args!["HGET", "mail", "dq"]), "1");
    let made: i64 = q.raw(args!["HGET", "mail", "made"]);
    assert_between(made, before, after);
    assert_eq!(q.raw::<i64>(args!["EXISTS", q.key("leased")]), 0);
    assert_eq!(q.stats(["pushed", "ready", "delayed"]), [1, 1, 0]);
}

#[test]
fn ids_rise_in_push_order() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut pipe = redis::pipe();
    for i in 0..3000 {
        pipe.cmd("DQ.PUSH").arg("q").arg(i);
    }
    let ids: Vec<String> = pipe.query(&mut q.con).expect("the pushes answer");
    assert!(ids.windows(2).all(|two| two[0] < two[1]), "ids must rise");
    let mut seen = Vec::new();
    loop {
        let jobs = q.claim_n(1000);
        if jobs.is_empty() {
            break;
        }
        seen.extend(jobs.into_iter().map(|job| job.id));
    }
    assert_eq!(seen, ids, "jobs leave in push order");
}

#[test]
fn delay_takes_ms_and_units() {
    let server = Server::start();
    let mut q = server.queue("q");
    for (text, ms) in [
        ("0", 0),
        ("0ms", 0),
        ("1500", 1500),
        ("1500ms", 1500),
        ("30s", 30_000),
        ("30S", 30_000),
        ("5m", 300_000),
        ("5M", 300_000),
        ("250Ms", 250),
        ("2h", 7_200_000),
        ("7d", 7 * DAY),
        ("007D", 7 * DAY),
        ("604800000", 7 * DAY),
        ("168h", 7 * DAY),
    ] {
        let before = q.now();
        let id = text_of(&ok!(q, "PUSH", "x", "DELAY", text));
        let after = q.now();
        assert_between(q.due_at(&id), before + ms, after + ms);
    }
}

fn text_of(value: &Value) -> String {
    text(value)
}

#[test]
fn a_delayed_job_is_claimed_when_due_and_not_before() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "later", "DELAY", 300));
    let due = q.due_at(&id);
    let job = wait_until("the job", || {
        let found = q.claim_n(1).pop();
        assert!(found.is_none() || q.now() >= due - 5, "claimed before it was due");
        found
    });
    assert_eq!((job.id, job.payload), (id, b"later".to_vec()));
}

#[test]
fn a_far_job_stays_where_it_is() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "later", "DELAY", "1h"));
    assert!(q.claim_n(10).is_empty());
    assert_eq!(q.state(&id), "delayed");
    assert_eq!(q.stats(["ready", "delayed", "claimed"]), [0, 1, 0]);
}

#[test]
fn at_is_wall_time() {
    let server = Server::start();
    let mut q = server.queue("q");
    let at = q.now() + 3_600_000;
    let id = text(&ok!(q, "PUSH", "x", "AT", at));
    assert_between(q.due_at(&id), at, at);
}

#[test]
fn at_in_the_past_means_now() {
    let server = Server::start();
    let mut q = server.queue("q");
    for at in [100_000_000_000_i64, q.now() - 1, q.now() - DAY] {
        let before = q.now();
        let id = text(&ok!(q, "PUSH", "x", "AT", at));
        let after = q.now();
        assert_between(q.due_at(&id), before, after);
        assert_eq!(q.claim().id, id);
    }
}

#[test]
fn at_in_seconds_is_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    let seconds = q.now() / 1000;
    for at in [0, 1, seconds, seconds + 60, 99_999_999_999] {
        let e = err!(q, "PUSH", "x", "AT", at);
        assert_error(&e, "ERR", &["AT", "seconds"]);
    }
}

#[test]
fn at_and_delay_exclude_each_other() {
    let server = Server::start();
    let mut q = server.queue("q");
    let at = q.now();
    let e = err!(q, "PUSH", "x", "AT", at, "DELAY", 5);
    assert_error(&e, "ERR", &[]);
    let e = err!(q, "PUSH", "x", "DELAY", 5, "AT", at);
    assert_error(&e, "ERR", &[]);
}

#[test]
fn a_delay_over_the_limit_is_dqdelay() {
    let server = Server::start();
    let mut q = server.queue("q");
    for delay in ["604800001", "7d1ms", "8d", "169h"] {
        let e = err!(q, "PUSH", "x", "DELAY", delay);
        let code = if delay == "7d1ms" { "ERR" } else { "DQDELAY" };
        assert_error(&e, code, &["DELAY", "7d"]);
    }
    let at = q.now() + 7 * DAY + 60_000;
    let e = err!(q, "PUSH", "x", "AT", at);
    assert_error(&e, "DQDELAY", &["AT"]);
    server.set("max-delay", "1000");
    assert_error(&err!(q, "PUSH", "x", "DELAY", 1001), "DQDELAY", &["1s", "max-delay"]);
    ok!(q, "PUSH", "x", "DELAY", 1000);
}

#[test]
fn options_come_in_any_order_and_case() {
    let server = Server::start();
    let mut q = server.queue("q");
    let all = [
        args!["ID", "x"],
        args!["KEEP", "1m"],
        args!["DELAY", "10s"],
        args!["RETRIES", 3],
        args!["LEASE", "45s"],
        args!["BACKOFF", "2s", "1m"],
    ];
    for turn in 0..all.len() {
        let mut rotated = all.to_vec();
        rotated.rotate_left(turn);
        if turn % 2 == 1 {
            rotated.reverse();
        }
        let id = format!("job-{turn}");
        let mut words = args!["payload"];
        for mut option in rotated {
            if option[0] == b"ID" {
                option[1] = id.clone().into_bytes();
            }
            option[0] = if turn % 3 == 0 { option[0].to_ascii_lowercase() } else { option[0].clone() };
            words.extend(option);
        }
        assert_eq!(text(&q.ok("PUSH", words)), id);
        let record = q.record(&id);
        assert_eq!(record.retries, Some(3));
        assert_eq!(record.lease, Some(45_000));
        assert_eq!(record.backoff_base, Some(2000));
        assert_eq!(record.backoff_cap, Some(60_000));
        assert_eq!(q.field(&id, "lease-ms"), "45000");
        assert_eq!(q.field(&id, "retries"), "3");
        assert_eq!(q.field(&id, "backoff-base-ms"), "2000");
        assert_eq!(q.field(&id, "backoff-cap-ms"), "60000");
    }
}

#[test]
fn the_payload_may_look_like_an_option() {
    let server = Server::start();
    let mut q = server.queue("q");
    for payload in ["DELAY", "ID", "NX", "REPLACE", "PAYLOADS", "-1", "--"] {
        let job = q.push_and_claim(payload);
        assert_eq!(job.payload, payload.as_bytes());
    }
}

#[test]
fn unknown_repeated_and_unfinished_options_are_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    for option in [&b"FOO"[..], b"", b"DELAYS", b"DELA", b"COUNT", b"%s%n", b"\0", b"DELAY\0", b"\xff\xfe", b"+OK\r\n"]
    {
        let e = err!(q, "PUSH", "x", option, 5);
        assert_error(&e, "ERR", &[]);
        let e = err!(q, "PUSH", "x", option);
        assert_error(&e, "ERR", &[]);
    }
    let e = err!(q, "PUSH", "x", "NONSENSE");
    assert_error(&e, "ERR", &["NONSENSE"]);
    for (option, value) in [
        ("DELAY", args![5]),
        ("AT", args![q.now()]),
        ("RETRIES", args![5]),
        ("LEASE", args![5]),
        ("BACKOFF", args![5, 5]),
        ("ID", args!["a"]),
    ] {
        let mut once = args!["x", option];
        once.extend(value);
        let mut twice = once.clone();
        twice.extend_from_slice(&once[1..]);
        twice[once.len()].make_ascii_lowercase();
        assert_error(&q.err("PUSH", twice), "ERR", &[option]);
        let mut unfinished = once;
        unfinished.pop();
        assert_error(&q.err("PUSH", unfinished), "ERR", &[option]);
    }
    for (option, value) in [("KEEP", args![5]), ("NX", args![]), ("REPLACE", args![])] {
        let mut twice = args!["x", "ID", "a", option];
        twice.extend(value.clone());
        twice.extend(args![option]);
        twice.extend(value);
        assert_error(&q.err("PUSH", twice), "ERR", &[option]);
    }
    assert_error(&err!(q, "PUSH", "x", "BACKOFF", 5), "ERR", &["BACKOFF"]);
    assert_error(&err!(q, "PUSH", "x", "ID", "a", "KEEP"), "ERR", &["KEEP"]);
}

#[test]
fn what_belongs_to_an_id_is_refused_without_one() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_error(&err!(q, "PUSH", "x", "NX"), "ERR", &["NX"]);
    assert_error(&err!(q, "PUSH", "x", "REPLACE"), "ERR", &["REPLACE"]);
    assert_error(&err!(q, "PUSH", "x", "KEEP", 5), "ERR", &["KEEP"]);
}

#[test]
fn numbers_out_of_range_name_the_option() {
    let server = Server::start();
    let mut q = server.queue("q");
    for bad in NOT_NUMBERS {
        for option in ["DELAY", "AT", "RETRIES", "LEASE"] {
            let e = err!(q, "PUSH", "x", option, bad);
            assert_error(&e, "ERR", &[option]);
        }
        assert_error(&err!(q, "PUSH", "x", "BACKOFF", bad, 5), "ERR", &["BACKOFF"]);
        assert_error(&err!(q, "PUSH", "x", "BACKOFF", 5, bad), "ERR", &["BACKOFF"]);
        let e = err!(q, "PUSH", "x", "ID", "a", "KEEP", bad);
        assert_error(&e, "ERR", &["KEEP"]);
    }
    for beyond in BEYOND {
        for option in ["RETRIES", "LEASE"] {
            let e = err!(q, "PUSH", "x", option, beyond);
            assert_error(&e, "ERR", &[option]);
        }
        for option in ["DELAY", "AT"] {
            let e = err!(q, "PUSH", "x", option, beyond);
            assert!(e.starts_with("ERR ") || e.starts_with("DQDELAY "), "{e}");
            assert!(e.contains(option), "{e}");
        }
        let e = err!(q, "PUSH", "x", "BACKOFF", beyond, beyond);
        assert_error(&e, "ERR", &["BACKOFF"]);
        let e = err!(q, "PUSH", "x", "ID", "a", "KEEP", beyond);
        assert_error(&e, "ERR", &["KEEP"]);
    }
    assert_error(&err!(q, "PUSH", "x", "RETRIES", "5ms"), "ERR", &["RETRIES"]);
    assert_error(&err!(q, "PUSH", "x", "RETRIES", 1_000_001), "ERR", &["RETRIES", "1000000"]);
    ok!(q, "PUSH", "x", "RETRIES", 1_000_000);
    ok!(q, "PUSH", "x", "RETRIES", 0);
    assert_error(&err!(q, "PUSH", "x", "LEASE", 0), "ERR", &["LEASE", "1"]);
    assert_error(&err!(q, "PUSH", "x", "LEASE", "43200001"), "ERR", &["LEASE", "12h"]);
    ok!(q, "PUSH", "x", "LEASE", 1);
    ok!(q, "PUSH", "x", "LEASE", "12h");
    server.set("max-lease", "10s");
    assert_error(&err!(q, "PUSH", "x", "LEASE", "10001"), "ERR", &["LEASE", "10s"]);
    assert_error(&err!(q, "PUSH", "x", "BACKOFF", 0, 5), "ERR", &["BACKOFF"]);
    assert_error(&err!(q, "PUSH", "x", "BACKOFF", 6, 5), "ERR", &["BACKOFF"]);
    assert_error(&err!(q, "PUSH", "x", "BACKOFF", "1s", "31d"), "ERR", &["BACKOFF"]);
    ok!(q, "PUSH", "x", "BACKOFF", 1, 1);
    ok!(q, "PUSH", "x", "BACKOFF", "30d", "30d");
}

#[test]
fn payloads_are_kept_byte_for_byte() {
    let server = Server::start();
    let mut q = server.queue("q");
    for payload in odd_bytes() {
        let job = q.push_and_claim(&payload[..]);
        assert_eq!(job.payload, payload);
        assert_eq!(q.record(&job.id).payload, payload);
        assert_eq!(bytes(&q.get(&job.id).expect("it is leased")["payload"]), payload);
        assert_eq!(q.ack(&job.receipt), 1);
    }
}

#[test]
fn a_payload_over_the_limit_is_dqsize() {
    let server = Server::start();
    let mut q = server.queue("q");
    let most = vec![7u8; 1 << 20];
    let job = q.push_and_claim(&most[..]);
    assert_eq!(job.payload, most);
    let over = vec![7u8; (1 << 20) + 1];
    assert_error(&err!(q, "PUSH", &over[..]), "DQSIZE", &["1048576"]);
    server.set("max-payload", "10");
    ok!(q, "PUSH", "0123456789");
    assert_error(&err!(q, "PUSH", "0123456789a"), "DQSIZE", &["10"]);
    server.set("max-payload", "0");
    ok!(q, "PUSH", &over[..]);
}

#[test]
fn a_full_queue_is_dqfull() {
    let server = Server::start();
    server.set("max-length", "3");
    let mut q = server.queue("q");
    q.push(1);
    ok!(q, "PUSH", 2, "DELAY", "1h");
    let job = q.claim();
    q.push(3);
    assert_error(&err!(q, "PUSH", 4), "DQFULL", &["3"]);
    assert_error(&err!(q, "PUSH", 4, "ID", "mine"), "DQFULL", &["3"]);
    assert_eq!(server.queue("other").push(1).len(), 11);
    assert_eq!(q.ack(&job.receipt), 1);
    q.push(4);
    assert_error(&err!(q, "PUSH", 5), "DQFULL", &[]);
    let job = q.claim();
    q.fail(&job.receipt);
    q.push(5);
    server.set("max-length", "0");
    q.push(6);
}

#[test]
fn a_duplicate_is_answered_in_a_full_queue() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", 1, "ID", "mine");
    server.set("max-length", "1");
    assert_eq!(text(&ok!(q, "PUSH", 2, "ID", "mine")), "mine");
    assert_eq!(text(&ok!(q, "PUSH", 3, "ID", "mine", "REPLACE")), "mine");
    assert_eq!(q.record("mine").payload, b"3");
}

#[test]
fn out_of_memory_refuses_a_push() {
    let server = Server::start();
    let mut q = server.queue("q");
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_error(&err!(q, "PUSH", "x"), "OOM", &[]);
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    q.push("x");
}

#[test]
fn pushing_an_id_twice_makes_one_job() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_eq!(text(&ok!(q, "PUSH", "one", "ID", "mine", "DELAY", "1h")), "mine");
    let before = server.dump();
    for more in [args![], args!["DELAY", 5], args!["RETRIES", 5]] {
        let mut words = args!["two", "ID", "mine"];
        words.extend(more);
        assert_eq!(text(&q.ok("PUSH", words)), "mine");
    }
    assert_eq!(ok!(q, "PUSH", "two", "ID", "mine", "NX"), Value::Nil);
    assert_eq!(server.dump(), before, "a duplicate changes nothing");
    assert_eq!(q.stats(["pushed", "deduplicated", "delayed"]), [1, 4, 1]);
    q.make_due("mine");
    let job = q.claim();
    assert_eq!((job.id.as_str(), &job.payload[..]), ("mine", &b"one"[..]));
    let before = server.dump();
    assert_eq!(text(&ok!(q, "PUSH", "two", "ID", "mine")), "mine");
    assert_eq!(ok!(q, "PUSH", "two", "ID", "mine", "NX"), Value::Nil);
    assert_eq!(server.dump(), before, "nor does one of a leased job");
}

#[test]
fn nx_makes_the_first_job() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_eq!(text(&ok!(q, "PUSH", "one", "NX", "ID", "mine")), "mine");
    assert_eq!(ok!(q, "PUSH", "two", "NX", "ID", "mine"), Value::Nil);
    assert_eq!(q.claim().payload, b"one");
}

#[test]
fn an_id_stays_taken_after_the_ack() {
    let server = Server::start();
    let mut q = server.queue("q");
    let before = q.now();
    ok!(q, "PUSH", "one", "ID", "mine");
    let after = q.now();
    let until = q.score("ids", "mine").expect("the id is taken");
    assert_between(until, before + 300_000, after + 300_000);
    let job = q.claim();
    assert_eq!(q.ack(&job.receipt), 1);
    let before = server.dump();
    assert_eq!(text(&ok!(q, "PUSH", "two", "ID", "mine")), "mine");
    assert_eq!(ok!(q, "PUSH", "two", "ID", "mine", "NX"), Value::Nil);
    assert_eq!(server.dump(), before);
    assert_eq!(q.stats(["ready", "pushed", "deduplicated"]), [0, 1, 2]);
}

#[test]
fn keep_says_how_long() {
    let server = Server::start();
    let mut q = server.queue("q");
    let before = q.now();
    ok!(q, "PUSH", "one", "ID", "mine", "KEEP", "2h");
    let after = q.now();
    let until = q.score("ids", "mine").expect("the id is taken");
    assert_between(until, before + 7_200_000, after + 7_200_000);
    server.set("id-keep", "1h");
    let before = q.now();
    ok!(q, "PUSH", "one", "ID", "other");
    let after = q.now();
    let until = q.score("ids", "other").expect("the id is taken");
    assert_between(until, before + 3_600_000, after + 3_600_000);
}

#[test]
fn an_id_is_free_when_its_time_is_over() {
    let server = Server::start();
    let mut q = server.queue("q");
    for (turn, keep) in [(0, "0"), (1, "1"), (2, "30")] {
        let id = format!("id-{turn}");
        ok!(q, "PUSH", "one", "ID", &id, "KEEP", keep);
        let job = q.claim();
        assert_eq!(q.ack(&job.receipt), 1);
        wait_for("the id to be free", || ok!(q, "PUSH", "two", "ID", &id, "KEEP", keep, "NX") != Value::Nil);
        let job = q.claim();
        assert_eq!((job.id, job.payload), (id, b"two".to_vec()));
    }
}

#[test]
fn a_live_job_keeps_its_id_beyond_keep() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "one", "ID", "mine", "KEEP", 0, "DELAY", "1h");
    // Whatever the sweep does with the entry, the job itself holds the id.
    q.wait_key("ids", false);
    assert_eq!(text(&ok!(q, "PUSH", "two", "ID", "mine")), "mine");
    assert_eq!(q.record("mine").payload, b"one");
    q.make_due("mine");
    let job = q.claim();
    assert_eq!(text(&ok!(q, "PUSH", "two", "ID", "mine")), "mine");
    assert_eq!(q.ack(&job.receipt), 1);
    assert!(q.claim_n(1).is_empty());
}

#[test]
fn free_ids_are_swept_by_themselves() {
    let server = Server::builder().set("purge-interval", "10").start();
    let mut q = server.queue("q");
    for i in 0..50 {
        ok!(q, "PUSH", i, "ID", format!("short-{i}"), "KEEP", 20);
        ok!(q, "PUSH", i, "ID", format!("long-{i}"), "KEEP", "1h");
    }
    for job in q.claim_n(100) {
        assert_eq!(q.ack(&job.receipt), 1);
    }
    let key = q.key("ids");
    wait_for("the sweep of the ids", || q.raw::<i64>(args!["ZCARD", &key]) == 50);
    let left: Vec<String> = q.raw(args!["ZRANGE", &key, 0, -1]);
    assert!(left.iter().all(|id| id.starts_with("long-")), "{left:?}");
}

#[test]
fn death_frees_the_id() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "one", "ID", "mine", "KEEP", "1h");
    let first = q.claim();
    q.fail(&first.receipt);
    assert_eq!(text(&ok!(q, "PUSH", "two", "ID", "mine", "NX")), "mine");
    let second = q.claim();
    assert_eq!(second.payload, b"two");
    assert_ne!(first.receipt, second.receipt);
    assert_eq!(q.ack(&first.receipt), 0, "a receipt of the earlier job");
    assert_eq!(q.letter("mine").1.payload, b"one", "its letter is there");
    assert_eq!(q.ack(&second.receipt), 1);
    assert_eq!(q.state("mine"), "dead");
}

#[test]
fn a_second_death_takes_the_place_of_the_first() {
    let server = Server::start();
    let mut q = server.queue("q");
    for payload in ["one", "two"] {
        ok!(q, "PUSH", payload, "ID", "mine");
        let job = q.claim();
        ok!(q, "FAIL", job.receipt, "ERROR", payload);
    }
    let (reason, record) = q.letter("mine");
    assert_eq!(reason, "failed");
    assert_eq!(record.payload, b"two");
    assert_eq!(record.error.as_deref(), Some(&b"two"[..]));
    assert_eq!(q.stats(["dead", "failed"]), [1, 2]);
}

#[test]
fn replace_changes_a_due_job_in_place() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "one", "ID", "mine", "DELAY", "1h", "RETRIES", 2);
    let before = q.now();
    let reply = ok!(q, "PUSH", "two", "REPLACE", "ID", "mine", "DELAY", "2h", "LEASE", "9s", "BACKOFF", 5, 50);
    let after = q.now();
    assert_eq!(text(&reply), "mine");
    assert_between(q.due_at("mine"), before + 7_200_000, after + 7_200_000);
    let record = q.record("mine");
    assert_eq!(record.payload, b"two");
    assert_eq!(record.lease, Some(9000));
    assert_eq!(record.backoff_base, Some(5));
    assert_eq!(record.backoff_cap, Some(50));
    assert_eq!(record.retries, None, "the new options, not the old ones");
    assert_eq!(q.stats(["delayed", "ready"]), [1, 0]);
    ok!(q, "PUSH", "three", "REPLACE", "ID", "mine");
    let job = q.claim();
    assert_eq!(job.payload, b"three");
    assert!(q.claim_n(1).is_empty());
}

#[test]
fn replace_leaves_a_leased_job() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "one", "ID", "mine");
    let job = q.claim();
    let before = server.dump();
    assert_eq!(text(&ok!(q, "PUSH", "two", "ID", "mine", "REPLACE")), "mine");
    assert_eq!(server.dump(), before);
    assert_eq!(q.ack(&job.receipt), 1);
}

#[test]
fn replace_makes_a_job_where_there_is_none() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_eq!(text(&ok!(q, "PUSH", "one", "ID", "mine", "REPLACE")), "mine");
    assert_eq!(q.claim().payload, b"one");
}

#[test]
fn replace_keeps_to_the_limits() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "one", "ID", "mine", "DELAY", "1h");
    server.set("max-payload", "3");
    let e = err!(q, "PUSH", "four", "ID", "mine", "REPLACE");
    assert_error(&e, "DQSIZE", &[]);
    let e = err!(q, "PUSH", "two", "ID", "mine", "REPLACE", "DELAY", "8d");
    assert_error(&e, "DQDELAY", &[]);
}

#[test]
fn bad_ids_are_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    for bad in [
        &b""[..],
        b" ",
        b"a b",
        b"a\0",
        b"\0",
        b"a\x7f",
        b"a\n",
        b"\t",
        b"\xff",
        "ä".as_bytes(),
        &[b'x'; 129],
        &[b'x'; 100_000],
    ] {
        let e = err!(q, "PUSH", "x", "ID", bad);
        assert_error(&e, "ERR", &["ID", "128"]);
    }
}

#[test]
fn ids_may_be_any_visible_ascii() {
    let server = Server::start();
    let mut q = server.queue("q");
    let visible: String = ('!'..='~').collect();
    for id in [
        "a".to_string(),
        "x".repeat(128),
        "\"".repeat(128),
        "\\".repeat(128),
        "'".repeat(128),
        "~".repeat(128),
        "!".repeat(128),
        visible,
        "%s%n".to_string(),
        "0".to_string(),
        "-1".to_string(),
        "00000000000".to_string(),
        "zzzzzzzzzzz".to_string(),
        "a:b:c".to_string(),
        "~\"".to_string(),
        ":".to_string(),
    ] {
        assert_eq!(text(&ok!(q, "PUSH", "p", "ID", &id)), id);
        let job = q.claim();
        assert_eq!(job.id, id);
        assert!(job.receipt.bytes().all(|b| (b'!'..=b'~').contains(&b) && !b"\"'\\".contains(&b)), "{}", job.receipt);
        assert!(job.receipt.len() <= 160, "{}", job.receipt);
        assert_eq!(q.retry(&job.receipt), 1000);
        q.make_due(&id);
        let again = q.claim();
        assert_eq!(again.id, id);
        assert_ne!(again.receipt, job.receipt);
        assert_eq!(q.ack(&job.receipt), 0);
        assert_eq!(q.ack(&again.receipt), 1);
    }
}

#[test]
fn an_id_that_looks_like_the_servers_does_not_stop_the_server() {
    let server = Server::start();
    let mut q = server.queue("q");
    // The largest number that eleven digits spell within 64 bits, and one beyond them.
    for id in ["LygHa16AHYF", "zzzzzzzzzzz"] {
        ok!(q, "PUSH", "x", "ID", id);
    }
    let first = q.push("a");
    let second = q.push("b");
    assert!(first < second);
    assert!(second.as_str() < "LygHa16AHYF", "{second}");
    assert_eq!(q.claim_n(10).len(), 4);
}

#[test]
fn a_job_carries_its_own_retries_lease_and_backoff() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "RETRIES", 1, "LEASE", "77s", "BACKOFF", "3s", "4s");
    let job = q.claim();
    assert_eq!((job.lease_ms, job.retries_left), (77_000, 1));
    assert_eq!(q.retry(&job.receipt), 3000);
    q.make_due(&job.id);
    let job = q.claim();
    assert_eq!((job.attempt, job.retries_left), (2, 0));
    assert_eq!(q.retry(&job.receipt), -1);
}

#[test]
fn push_works_in_a_transaction_and_a_script() {
    let server = Server::start();
    let mut q = server.queue("q");
    let ((id, count),): ((String, i64),) = redis::pipe()
        .cmd("MULTI")
        .ignore()
        .cmd("DQ.PUSH")
        .arg("q")
        .arg("one")
        .ignore()
        .cmd("HLEN")
        .arg(q.key("jobs"))
        .ignore()
        .cmd("EXEC")
        .query(&mut q.con)
        .expect("the transaction runs");
    assert_eq!(count, 1);
    let other: String = q.raw(args!["EVAL", "return redis.call('DQ.PUSH', KEYS[1], ARGV[1])", 1, "q", "two"]);
    let jobs = q.claim_n(5);
    assert_eq!(jobs.len(), 2);
    assert_eq!((&jobs[0].id, &jobs[1].id), (&id, &other));
}

//! DQ.REPAIR mends what breaks an invariant, and loses no job.

use redis::Value;

use crate::check::{bad_records, findings};
use crate::common::*;
use crate::{args, err, ok};

/// What DQ.REPAIR says, as `problem id mended`, in order.
fn repair(q: &mut Queue) -> Vec<String> {
    let line = |row: &Value| {
        let row = list(row);
        format!("{} {} {}", text(&row[0]), text(&row[1]), int(&row[2]))
    };
    list(&ok!(q, "REPAIR")).iter().map(line).collect()
}

/// That all is well after it, and that a second one finds nothing.
#[track_caller]
fn assert_whole(q: &mut Queue) {
    q.check_clean();
    assert_eq!(repair(q), Vec::<String>::new());
}

fn scene() -> (Server, Queue) {
    let server = Server::builder().aof().start();
    let mut q = server.queue("q");
    q.unwatched();
    (server, q)
}

#[test]
fn a_clean_queue_is_left_as_it_is() {
    let (server, mut q) = scene();
    assert_eq!(repair(&mut q), Vec::<String>::new());
    assert_eq!(server.dump(), Default::default(), "nothing is made");
    q.push("x");
    q.claim();
    ok!(q, "PUSH", "y", "DELAY", "1h");
    let before = server.dump();
    assert_eq!(repair(&mut q), Vec::<String>::new());
    assert_eq!(server.dump(), before);
}

#[test]
fn a_job_that_no_index_has_is_due_now_and_its_receipt_late() {
    let (_server, mut q) = scene();
    let held = q.push_and_claim("held");
    ok!(q, "PUSH", "delayed", "ID", "delayed", "DELAY", "1h");
    q.raw::<i64>(args!["ZREM", q.key("leased"), &held.id]);
    let member = q.due_member("delayed");
    q.raw::<i64>(args!["ZREM", q.key("due"), member]);
    let mut expected = [format!("job-without-index {} 1", held.id), "job-without-index delayed 1".to_string()];
    expected.sort();
    let mut told = repair(&mut q);
    told.sort();
    assert_eq!(told, expected);
    assert_whole(&mut q);
    assert_eq!(q.stats(["ready", "delayed", "leased", "lapsed"]), [2, 0, 0, 2]);
    assert_eq!(q.ack(&held.receipt), 1, "the receipt is late, not stale");
    assert_eq!(q.claim().id, "delayed");
    assert_whole(&mut q);
}

#[test]
fn a_job_that_no_index_has_does_not_die_of_it() {
    let server = Server::builder().set("max-lapses", "1").start();
    let mut q = server.queue("q");
    q.unwatched();
    let job = q.push_and_claim("x");
    q.raw::<i64>(args!["DEL", q.key("leased")]);
    assert_eq!(repair(&mut q), [format!("job-without-index {} 1", job.id)]);
    assert_eq!(q.stats(["ready", "dead"]), [1, 0]);
    assert_eq!(q.claim().id, job.id);
    assert_whole(&mut q);
}

#[test]
fn who_waits_gets_a_job_that_is_found_again() {
    let (server, mut q) = scene();
    let id = q.push("x");
    q.raw::<i64>(args!["ZREM", q.key("due"), &id]);
    let mut worker = server.queue("q");
    worker.unwatched();
    std::thread::scope(|scope| {
        let claim = scope.spawn(move || worker.claim_with(args!["BLOCK", "20s"]));
        q.wait_stat("waiting", 1);
        repair(&mut q);
        assert_eq!(claim.join().expect("it is answered")[0].id, id);
    });
}

#[test]
fn entries_whose_job_is_gone_go() {
    let (_server, mut q) = scene();
    ok!(q, "PUSH", "x", "ID", "leased");
    q.claim();
    ok!(q, "PUSH", "x", "ID", "due", "DELAY", "1h");
    let kept = q.push("kept");
    q.raw::<i64>(args!["HDEL", q.key("jobs"), "due", "leased"]);
    assert_eq!(repair(&mut q), ["due-without-job due 1", "leased-without-job leased 1"]);
    assert_whole(&mut q);
    assert_eq!(q.claim().id, kept);
}

#[test]
fn of_a_job_in_both_indexes_the_lease_holds() {
    let (_server, mut q) = scene();
    let job = q.push_and_claim("x");
    q.raw::<i64>(args!["ZADD", q.key("due"), 1000, &job.id]);
    assert_eq!(repair(&mut q), [format!("due-and-leased {} 1", job.id)]);
    assert_whole(&mut q);
    assert_eq!(q.stats(["ready", "leased"]), [0, 1]);
    assert_eq!(q.ack(&job.receipt), 1);
}

#[test]
fn a_lease_that_another_hand_gave_ends_in_time_after_the_repair() {
    let (server, mut q) = scene();
    let id = q.push("x");
    q.unwatched();
    let now: i64 = q.raw::<Vec<(Vec<u8>, i64)>>(args!["ZRANGE", q.key("due"), 0, -1, "WITHSCORES"])[0].1;
    let _: i64 = q.raw(args!["ZADD", q.key("leased"), now + 2, &id]);
    assert_eq!(repair(&mut q), [format!("due-and-leased {id} 1")]);
    q.watched();
    // Long before the queue is looked over.
    q.wait_stat("lapsed", 1);
    assert_eq!(server.info("dq", "dq_timer_purge_runs"), "0");
    assert_eq!(q.claim().id, id);
}

#[test]
fn halves_of_dead_letters() {
    let (_server, mut q) = scene();
    for id in ["a", "b"] {
        ok!(q, "PUSH", id, "ID", id);
        let job = q.claim();
        q.fail(&job.receipt);
    }
    q.raw::<i64>(args!["ZREM", q.key("dead:at"), "a"]);
    q.raw::<i64>(args!["HDEL", q.key("dead"), "b"]);
    let now = q.now();
    assert_eq!(repair(&mut q), ["dead-without-time a 1", "time-without-dead b 1"]);
    assert_whole(&mut q);
    let died: i64 = q.raw::<String>(args!["ZSCORE", q.key("dead:at"), "a"]).parse().expect("a time");
    assert!(died >= now, "{died} before {now}");
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 1);
    assert_eq!(q.claim().payload, b"a");
}

#[test]
fn scores_that_are_no_time() {
    let (_server, mut q) = scene();
    let far = q.now() + 3_600_000;
    for id in ["half", "inf", "negative", "letter", "lease", "fraction"] {
        ok!(q, "PUSH", id, "ID", id);
    }
    let jobs = q.claim_n(6);
    for job in &jobs {
        match job.id.as_str() {
            "half" | "inf" | "negative" => drop(ok!(q, "RELEASE", "DELAY", "1h", "RECEIPTS", &job.receipt)),
            "letter" => q.fail(&job.receipt),
            _ => {}
        }
    }
    for (companion, score, id) in [
        ("due", format!("{far}.5"), "half"),
        ("due", "inf".into(), "inf"),
        ("due", "-5".into(), "negative"),
        ("leased", "inf".into(), "lease"),
        ("leased", format!("{far}.25"), "fraction"),
        ("dead:at", "inf".into(), "letter"),
    ] {
        let member = if companion == "due" { q.due_member(id) } else { id.into() };
        q.raw::<i64>(args!["ZADD", q.key(companion), "XX", score, member]);
    }
    let expected = ["fraction", "half", "inf", "lease", "letter", "negative"].map(|id| format!("bad-score {id} 1"));
    assert_eq!(repair(&mut q), expected);
    assert_whole(&mut q);
    assert_eq!(q.due_at("half"), far + 1);
    // What is no time is due now, and a lease ends as any that ran out.
    q.wait_lapse("lease");
    assert_eq!(q.record("lease").lapses, 1);
    assert_eq!(q.stats(["ready", "delayed", "leased", "dead"]), [3, 1, 1, 1]);
    assert_whole(&mut q);
}

/// Times that somebody wrote in µs or ns, or without an end: no clock reaches them, and the job would never run.
#[test]
fn scores_beyond_every_clock() {
    const LATEST: u64 = 1 << 43;
    let (_server, mut q) = scene();
    q.ok("CONFIG", args!["SET", "id-keep", "10m"]);
    for id in ["due", "leased", "dead", "done", "latest"] {
        ok!(q, "PUSH", id, "ID", id);
    }
    for job in q.claim_n(5) {
        match job.id.as_str() {
            "due" | "latest" => drop(ok!(q, "RELEASE", "DELAY", "1h", "RECEIPTS", &job.receipt)),
            "dead" => q.fail(&job.receipt),
            "done" => assert_eq!(q.ack(&job.receipt), 1),
            _ => {}
        }
    }
    for late in ["1e18", "inf", &format!("{}", LATEST + 1), &format!("{}000", q.now())] {
        for (companion, id) in [("due", "due"), ("leased", "leased"), ("dead:at", "dead"), ("ids", "done")] {
            let entry = if companion == "due" { q.due_member(id) } else { id.into() };
            q.raw::<i64>(args!["ZADD", q.key(companion), "XX", late, entry]);
        }
        for (companion, entry) in [("due", q.due_member("latest")), ("ids", "latest".into())] {
            q.raw::<i64>(args!["ZADD", q.key(companion), "XX", LATEST, entry]);
        }
        let before = q.now();
        assert_eq!(repair(&mut q), ["dead", "done", "due", "leased"].map(|id| format!("bad-score {id} 1")), "{late}");
        let after = q.now();
        assert_between(q.due_at("due"), before, after);
        assert_between(q.score("dead:at", "dead").expect("it is there"), before, after);
        assert_between(q.score("ids", "done").expect("it is taken"), before + 600_000, after + 600_000);
        assert_eq!(q.due_at("latest"), LATEST as i64);
        // The lease ends, and begins anew for the next round.
        q.wait_lapse("leased");
        q.make_due("leased");
        let jobs = q.claim_n(5);
        for job in &jobs {
            if job.id == "due" {
                q.release(&job.receipt);
            }
        }
        assert!(jobs.iter().any(|job| job.id == "leased"), "{jobs:?}");
        assert_whole(&mut q);
    }
}

#[test]
fn what_cannot_be_read_stays() {
    let (_server, mut q) = scene();
    ok!(q, "PUSH", "x", "ID", "letter");
    let job = q.claim();
    q.fail(&job.receipt);
    for id in ["job", "lost"] {
        ok!(q, "PUSH", "x", "ID", id, "DELAY", "1h");
    }
    let lost = q.due_member("lost");
    for bad in bad_records() {
        q.raw::<i64>(args!["HSET", q.key("jobs"), "job", &bad[..], "lost", &bad[..]]);
        q.raw::<i64>(args!["HSET", q.key("dead"), "letter", &bad[..]]);
        q.raw::<i64>(args!["ZREM", q.key("due"), "lost", &lost]);
        let told = repair(&mut q);
        let expected = ["job-without-index lost 1", "bad-record job 0", "bad-record lost 0", "bad-letter letter 0"];
        assert_eq!(told, expected);
        assert_eq!(findings(&mut q), ["bad-letter letter", "bad-record job", "bad-record lost"]);
        assert_eq!(q.raw::<Vec<u8>>(args!["HGET", q.key("jobs"), "lost"]), bad);
        assert_eq!(q.raw::<Vec<u8>>(args!["HGET", q.key("dead"), "letter"]), bad);
    }
    assert_eq!(int(&ok!(q, "CANCEL", "job", "lost", "letter")), 3);
    assert_whole(&mut q);
}

#[test]
fn replicas_and_the_aof_follow() {
    let mut server = Server::builder().aof().start();
    let replica = Server::builder().replica_of(&server).start();
    replica.catch_up(&server);
    let mut q = server.queue("q");
    q.unwatched();
    for id in ["a", "b", "c"] {
        ok!(q, "PUSH", id, "ID", id, "DELAY", "1h");
    }
    let [a, c] = ["a", "c"].map(|id| q.due_member(id));
    q.raw::<i64>(args!["ZREM", q.key("due"), a]);
    q.raw::<i64>(args!["HDEL", q.key("jobs"), "b"]);
    q.raw::<i64>(args!["ZADD", q.key("due"), "XX", "1.5", c]);
    repair(&mut q);
    assert_replica_same(&server, &replica);
    // A replica looks, and does not mend.
    let mut other = replica.queue("q");
    assert_eq!(findings(&mut other), Vec::<String>::new());
    assert_error(&err!(other, "REPAIR"), "READONLY", &[]);
    let before = server.dump();
    server.crash_and_restart();
    assert_eq!(server.dump(), before);
}

#[test]
fn refused_where_it_may_not_write() {
    let (server, mut q) = scene();
    let id = q.push("x");
    q.raw::<i64>(args!["ZREM", q.key("due"), &id]);
    for user in [["viewer", "%R~*", "+dq.check"], ["reader", "~*", "+dq.check"], ["other", "~b", "+dq.check"]] {
        server.run(&[&["ACL", "SETUSER", user[0], "on", "nopass"], &user[1..]].concat());
    }
    server.run(&["ACL", "SETUSER", "operator", "on", "nopass", "~q", "+dq.repair"]);
    server.run(&["ACL", "SETUSER", "half", "on", "nopass", "%R~q", "+dq.check", "+dq.repair"]);
    for user in ["viewer", "reader", "half", "other"] {
        let mut as_user = server.queue("q");
        as_user.unwatched();
        as_user.raw::<()>(args!["AUTH", user, "x"]);
        let looks = as_user.call("CHECK", args![]).is_ok();
        assert_eq!(looks, user != "other", "{user}");
        let refusal = as_user.call("REPAIR", args![]).expect_err("it is not for them");
        assert_eq!(refusal.code(), Some("NOPERM"), "{user}: {refusal}");
    }
    server.set("enabled", "no");
    assert_error(&err!(q, "REPAIR"), "DQDISABLED", &[]);
    server.set("enabled", "yes");
    let script = ["EVAL", "return redis.call('DQ.REPAIR', KEYS[1])", "1", "q"];
    let refusal = server.try_run(&script).expect_err("a script cannot wait");
    assert!(refusal.to_string().contains("nobody can wait"), "{refusal}");
    let refusal = redis::pipe().atomic().cmd("DQ.REPAIR").arg("q").query::<Value>(&mut q.con);
    assert!(refusal.is_err_and(|e| e.to_string().contains("nobody can wait")), "nor does a transaction");
    assert_eq!(findings(&mut q).len(), 1, "nothing was mended");
    let mut operator = server.queue("q");
    operator.unwatched();
    operator.raw::<()>(args!["AUTH", "operator", "x"]);
    assert_eq!(repair(&mut operator), [format!("job-without-index {id} 1")]);
    assert_whole(&mut q);
}

#[test]
fn a_key_of_another_type() {
    let (_server, mut q) = scene();
    q.push("x");
    q.raw::<i64>(args!["DEL", q.key("leased")]);
    q.raw::<()>(args!["SET", q.key("leased"), "x"]);
    assert_error(&err!(q, "REPAIR"), "WRONGTYPE", &[]);
}

//! Commands that act on all jobs of a queue: on what was there when they were given, in slices, while the server serves
//! others.

use crate::common::*;
use crate::slices::{claim_many, pinged};
use crate::{args, ok};

pub const N: usize = 60_000;

/// A server on which nothing moves by itself, and a queue whose invariants are looked at when told.
pub fn scene() -> (Server, Queue) {
    let server = Server::builder().set("stale-policy", "keep").aof().line("appendfsync everysec").start();
    let mut q = server.queue("q");
    q.unwatched();
    (server, q)
}

#[test]
fn all_are_rescheduled_but_what_comes_meanwhile() {
    let (mut server, mut q) = scene();
    let replica = Server::builder().replica_of(&server).start();
    replica.catch_up(&server);
    let ids = q.push_many(N, &args!["DELAY", "1h"]);
    let held = q.push_and_claim("held");
    let to = q.now() + 7_200_000;
    let fresh = pinged(&server, "60,000 rescheduled", || {
        // In one step, so that no slice comes between.
        let (moving, fresh): (usize, String) = q.raw(args![
            "EVAL",
            "local moving = redis.call('DQ.RESCHEDULE', KEYS[1], 'AT', ARGV[1], 'ALL') \
             local fresh = redis.call('DQ.PUSH', KEYS[1], 'fresh', 'DELAY', '3h') \
             redis.call('DQ.RETRY', KEYS[1], ARGV[2], 'DELAY', '4h') \
             return {moving, fresh}",
            1,
            "q",
            to,
            &held.receipt
        ]);
        assert_eq!(moving, N);
        q.wait_stat("rescheduling", 0);
        fresh
    });
    assert_eq!(q.stats(["rescheduled", "delayed"]), [N as i64, N as i64 + 2]);
    let key = q.key("due");
    let order: Vec<(String, String)> = q.raw(args!["ZRANGE", &key, 0, -1, "WITHSCORES"]);
    assert!(order[..N].iter().map(|(id, _)| id).eq(&ids), "not in push order");
    assert_eq!(order[0].1, order[N - 1].1);
    assert_eq!([&order[N].0, &order[N + 1].0], [&fresh, &held.id]);
    q.check_clean();
    assert_replica_same(&server, &replica);
    let before = server.dump();
    server.crash_and_restart();
    assert_eq!(server.dump(), before);
}

#[test]
fn asking_twice_does_no_harm() {
    let (_server, mut q) = scene();
    q.push_many(N, &args!["DELAY", "1h"]);
    for delay in ["2h", "2h", "3h"] {
        ok!(q, "RESCHEDULE", "DELAY", delay, "ALL");
    }
    q.wait_stat("rescheduling", 0);
    let key = q.key("due");
    let scores: Vec<String> = q.raw(args![
        "EVAL",
        "local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') return {all[2], all[#all]}",
        1,
        key
    ]);
    assert_eq!(scores[0], scores[1]);
    q.check_clean();
}

#[test]
fn what_ends_it_leaves_every_job_whole() {
    let (mut server, mut q) = scene();
    q.push_many(N, &args!["DELAY", "1h"]);
    ok!(q, "RESCHEDULE", "DELAY", "2h", "ALL");
    assert!(q.stat("rescheduling") > 0);
    server.set("enabled", "no");
    assert_eq!(q.stat("rescheduling"), 0);
    server.set("enabled", "yes");
    let moved = q.stat("rescheduled");
    assert!(moved < N as i64, "{moved}");
    q.check_clean();
    // Asking again goes on, and so it does after a crash.
    ok!(q, "RESCHEDULE", "DELAY", "3h", "ALL");
    server.crash_and_restart();
    let mut q = server.queue("q");
    q.unwatched();
    assert_eq!(q.stats(["delayed", "rescheduling"]), [N as i64, 0]);
    ok!(q, "RESCHEDULE", "DELAY", "4h", "ALL");
    q.wait_stat("rescheduling", 0);
    let three_hours = q.now() + 3 * 3_600_000;
    assert_eq!(q.raw::<i64>(args!["ZCOUNT", q.key("due"), "-inf", three_hours]), 0);
    q.check_clean();
}

#[test]
fn a_purge_takes_what_was_there_and_not_what_comes() {
    for state in ["ready", "delayed", "leased", "dead"] {
        let (server, mut q) = scene();
        server.set("dead-max", "0");
        let replica = Server::builder().replica_of(&server).start();
        replica.catch_up(&server);
        let delay = if state == "delayed" { "1h" } else { "0" };
        q.push_many(N, &args!["DELAY", delay]);
        if ["leased", "dead"].contains(&state) {
            let jobs = claim_many(&mut q, N, "1h");
            if state == "dead" {
                let mut pipe = redis::pipe();
                for job in &jobs {
                    pipe.cmd("DQ.FAIL").arg("q").arg(&job.receipt).ignore();
                }
                pipe.exec(&mut q.con).expect("all fail");
            }
        }
        pinged(&server, &format!("60,000 {state} purged"), || {
            // And one of each state that comes meanwhile: in one step, so that no slice comes between.
            let purging: usize = q.raw(args![
                "EVAL",
                "local purging = redis.call('DQ.PURGE', KEYS[1], 'STATE', ARGV[1]) \
                 redis.call('DQ.PUSH', KEYS[1], 'x', 'ID', 'delayed', 'DELAY', '1h') \
                 for _, id in ipairs({'dead', 'leased', 'ready'}) do \
                     redis.call('DQ.PUSH', KEYS[1], 'x', 'ID', id) \
                     if id ~= 'ready' then \
                         local soon = redis.call('TIME')[1] * 1000 + 60000 \
                         local newest = redis.call('ZREVRANGEBYSCORE', KEYS[2], soon, 0, 'LIMIT', 0, 1)[1] \
                         redis.call('ZADD', KEYS[2], 1, newest) \
                         local job = redis.call('DQ.CLAIM', KEYS[1], 'LEASE', '2h')[1] \
                         assert(job[3] == id) \
                         if id == 'dead' then redis.call('DQ.FAIL', KEYS[1], job[1]) end \
                     end \
                 end \
                 return purging",
                2,
                "q",
                q.key("due"),
                state
            ]);
            assert_eq!(purging, N);
            q.wait_stat("purging", 0);
        });
        assert_eq!(q.stats(["ready", "delayed", "leased", "dead"]), [1, 1, 1, 1], "{state}");
        assert_eq!(q.stat("purged"), N as i64);
        q.check_clean();
        assert_replica_same(&server, &replica);
    }
}

#[test]
fn a_purge_that_is_given_again_and_again() {
    let (_server, mut q) = scene();
    q.push_many(N, &[]);
    for _ in 0..10 {
        ok!(q, "PURGE", "STATE", "ready", "delayed");
        q.push("another");
    }
    ok!(q, "PURGE", "STATE", "ready");
    q.wait_stat("purging", 0);
    assert_eq!(q.stats(["ready", "purged"]), [0, N as i64 + 10]);
    q.check_clean();
}

/// Makes `n` jobs dead letters.
fn kill_many(q: &mut Queue, n: usize) {
    q.push_many(n, &[]);
    let mut pipe = redis::pipe();
    for job in &claim_many(q, n, "1h") {
        pipe.cmd("DQ.FAIL").arg("q").arg(&job.receipt).ignore();
    }
    pipe.exec(&mut q.con).expect("all fail");
}

#[test]
fn all_letters_are_replayed_once() {
    for reason in [args![], args!["REASON", "failed"]] {
        let (server, mut q) = scene();
        let replica = Server::builder().replica_of(&server).start();
        replica.catch_up(&server);
        kill_many(&mut q, N);
        let key = q.key("dead:at");
        let order: Vec<String> = q.raw(args!["ZRANGE", &key, 0, -1]);
        let died_again = pinged(&server, "60,000 replayed", || {
            let mut words = reason.clone();
            words.extend(args!["SPREAD", "2h", "ALL"]);
            assert_eq!(int(&q.ok("REPLAY", words)), N as i64);
            let left = q.stat("replaying");
            assert!(left > 0, "{left}");
            // One that was replayed dies again, and another is new among the dead.
            let job = wait_until("the first to be due", || q.claim_n(1).pop());
            q.fail(&job.receipt);
            ok!(q, "PUSH", "x", "ID", "other");
            let member = q.due_member("other");
            q.raw::<i64>(args!["ZADD", q.key("due"), "XX", 1, member]);
            let other = q.claim();
            q.fail(&other.receipt);
            assert!(q.stat("replaying") > 0, "over before anything died");
            q.wait_stat("replaying", 0);
            [job.id, other.id]
        });
        let dead: Vec<String> = q.raw(args!["ZRANGE", &key, 0, -1]);
        assert_eq!(dead, died_again);
        assert_eq!(q.stat("replayed"), N as i64);
        let due: Vec<(String, i64)> = q.raw(args!["ZRANGE", q.key("due"), 0, -1, "WITHSCORES"]);
        assert!(due.iter().map(|(id, _)| id).eq(&order[1..]), "not in their old order");
        assert_between(due[N - 2].1 - due[0].1, 7_199_000, 7_200_000);
        q.check_clean();
        assert_replica_same(&server, &replica);
    }
}

#[test]
fn a_replay_of_very_many_that_cannot_wait_or_is_given_up() {
    let (server, mut q) = scene();
    kill_many(&mut q, N);
    let before = q.stat("dead");
    let error = redis::cmd("EVAL")
        .arg("return redis.call('DQ.REPLAY', 'q', 'ALL')")
        .arg(0)
        .query::<redis::Value>(&mut q.con)
        .expect_err("a script cannot wait");
    assert!(error.to_string().contains("nobody can wait"), "{error}");
    // The client leaves while the letters are counted: nothing is begun, and asking again works.
    let mut con = server.conn();
    let command = redis::cmd("DQ.REPLAY").arg("q").arg("ALL").get_packed_command();
    con.send_packed_command(&command).expect("it is sent");
    drop(con);
    assert_eq!(q.stat("dead") + q.stat("replayed"), before);
    for _ in 0..3 {
        let count = int(&ok!(q, "REPLAY", "ALL"));
        assert!(count <= N as i64, "{count}");
    }
    q.wait_stat("replaying", 0);
    assert_eq!(q.stats(["dead", "ready", "replayed"]), [0, N as i64, N as i64]);
    q.check_clean();
}

#[test]
fn writes_that_are_paused_or_refused_hold_it_up() {
    let (mut server, mut q) = scene();
    q.push_many(N, &args!["DELAY", "1h"]);
    assert_eq!(int(&ok!(q, "PURGE", "STATE", "delayed")), N as i64);
    for (pause, go_on) in [
        (args!["CLIENT", "PAUSE", 60_000, "WRITE"], args!["CLIENT", "UNPAUSE"]),
        (args!["CONFIG", "SET", "min-replicas-to-write", 3], args!["CONFIG", "SET", "min-replicas-to-write", 0]),
    ] {
        q.raw::<()>(pause);
        let left = q.stat("purging");
        assert!(left > 0, "over before anything was held up");
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(q.stat("purging"), left);
        q.raw::<()>(go_on);
        wait_for("it to go on", || q.stat("purging") < left);
    }
    q.wait_stat("purging", 0);
    assert_eq!(q.stats(["delayed", "purged"]), [0, N as i64]);
    server.assert_alive();
    q.check_clean();
}

#[test]
fn another_role_ends_it() {
    let (primary, mut q) = scene();
    let other = Server::start();
    q.push_many(N, &args!["DELAY", "1h"]);
    ok!(q, "PURGE", "STATE", "delayed");
    ok!(q, "RESCHEDULE", "DELAY", "2h", "ALL");
    assert!(q.stat("purging") > 0);
    primary.run(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
    assert_eq!(q.stats(["purging", "rescheduling"]), [0, 0]);
    primary.run(&["REPLICAOF", "NO", "ONE"]);
    q.check_clean();
}

#[test]
fn two_at_once_and_a_drop_in_the_middle() {
    let (server, mut q) = scene();
    q.push_many(N, &args!["DELAY", "1h"]);
    pinged(&server, "purged and rescheduled at once", || {
        ok!(q, "RESCHEDULE", "DELAY", "2h", "ALL");
        ok!(q, "PURGE", "STATE", "delayed");
        wait_for("both to end", || q.stats(["purging", "rescheduling"]) == [0, 0]);
    });
    assert_eq!(q.stats(["delayed", "purged"]), [0, N as i64]);
    q.push_many(N, &args!["DELAY", "1h"]);
    ok!(q, "RESCHEDULE", "DELAY", "2h", "ALL");
    assert_eq!(int(&ok!(q, "DROP")), N as i64);
    assert_eq!(q.stat("rescheduling"), 0);
    let fresh = text(&ok!(q, "PUSH", "fresh", "DELAY", "30m"));
    let at = q.due_at(&fresh);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(q.due_at(&fresh), at);
    assert_eq!(server.dump().0.len(), 3);
}

//! The purge of stale tasks: what goes, what stays, and which time counts.

use std::time::{Duration, Instant};

use crate::args;
use crate::common::server::Builder;
use crate::common::*;
use crate::ok;

/// A server that looks over its queues all the time, and finds a job stale after `ms`.
fn purging(ms: u32) -> Builder {
    Server::builder().set("purge-interval", "10").set("stale-after", &ms.to_string())
}

/// Waits until the server's clock has passed `at`.
fn wait_clock(q: &mut Queue, at: i64) {
    wait_for("the clock", || q.now() > at);
}

/// Waits until the queue has been looked over from now on: a letter too old goes then.
fn wait_look_over(q: &mut Queue) {
    let key = q.key("dead");
    ok!(q, "PUSH", "probe", "ID", "probe", "REPLACE");
    let job = wait_until("the probe", || q.claim_n(1000).into_iter().find(|job| job.id == "probe"));
    q.fail(&job.receipt);
    q.raw::<i64>(args!["ZADD", q.key("dead:at"), "XX", 1000, "probe"]);
    wait_for("the queue to be looked over", || !q.raw::<bool>(args!["HEXISTS", &key, "probe"]));
}

#[test]
fn a_stale_job_becomes_a_letter() {
    let server = purging(200).start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "payload", "ID", "mine", "KEEP", "1h", "RETRIES", 7);
    let due = q.due_at("mine");
    q.wait_stat("stale-purged", 1);
    let (reason, record) = q.letter("mine");
    assert_eq!(reason, "stale");
    assert_eq!((&record.payload[..], record.retries), (&b"payload"[..], Some(7)));
    let died = q.score("dead:at", "mine").expect("a time of death");
    assert!(died >= due + 200, "not before stale-after");
    assert_eq!(q.field("mine", "reason"), "stale");
    assert_eq!(q.stats(["ready", "dead", "stale-held", "failed"]), [0, 1, 0, 0]);
    server.set("stale-policy", "keep");
    assert_eq!(text(&ok!(q, "PUSH", "again", "ID", "mine", "NX")), "mine", "the id is free");
}

#[test]
fn the_policy_drop_leaves_nothing() {
    let server = purging(100).set("stale-policy", "drop").start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "ID", "mine", "KEEP", "1h");
    q.push("y");
    q.wait_stat("stale-purged", 2);
    for companion in ["due", "jobs", "dead", "dead:at"] {
        let key = q.key(companion);
        assert_eq!(q.raw::<i64>(args!["EXISTS", key]), 0, "{companion}");
    }
    server.set("stale-policy", "keep");
    assert_eq!(text(&ok!(q, "PUSH", "again", "ID", "mine", "NX")), "mine", "the id is free");
    assert_eq!(q.claim().payload, b"again");
}

#[test]
fn the_policy_keep_keeps() {
    let server = purging(50).set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    let id = q.push("x");
    let due = q.due_at(&id);
    wait_clock(&mut q, due + 200);
    let mut other = server.queue("other");
    for _ in 0..2 {
        wait_look_over(&mut other);
    }
    assert_eq!(q.state(&id), "ready");
    assert_eq!(q.stats(["stale-purged", "stale-held", "dead"]), [0, 0, 0]);
    // The same job goes as soon as the policy lets it.
    server.set("stale-policy", "dead");
    q.wait_stat("stale-purged", 1);
}

#[test]
fn only_what_is_ready_goes() {
    let server = purging(300).set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    let far = text(&ok!(q, "PUSH", "far", "DELAY", "1h"));
    let soon = text(&ok!(q, "PUSH", "soon", "DELAY", 400));
    let due = q.due_at(&soon);
    let ready = q.push("ready");
    server.set("stale-policy", "dead");
    q.wait_stat("stale-purged", 2);
    assert_eq!(q.letter(&ready).0, "stale");
    let died = q.score("dead:at", &soon).expect("a letter");
    assert!(died >= due + 300, "counted from its due time, not from its push");
    assert_eq!(q.state(&far), "delayed");
}

#[test]
fn a_queue_that_is_worked_on_is_behind_and_not_stale() {
    // Longer each time, for a machine that stands still now and then.
    for stale in [1000, 2000, 5000, 15_000] {
        let server = purging(stale).line("notify-keyspace-events KEAd").start();
        let mut events = server.conn();
        let mut events = events.as_pubsub();
        events.subscribe("__keyevent@0__:dq.behind").expect("a subscription");
        let mut q = server.queue("q");
        let (mut last, mut widest) = (Instant::now(), Duration::ZERO);
        let mut pipe = redis::pipe();
        for i in 0..20_000 {
            pipe.cmd("DQ.PUSH").arg("q").arg(i).ignore();
        }
        pipe.exec(&mut q.con).expect("the pushes answer");
        q.unwatched();
        let begin = q.now();
        let mut claimed = 0;
        while q.now() < begin + 3 * i64::from(stale) {
            for job in q.claim_n(1) {
                claimed += q.ack(&job.receipt);
            }
            widest = widest.max(last.elapsed());
            last = Instant::now();
            std::thread::sleep(PAUSE);
        }
        let purged = q.stat("stale-purged");
        widest = widest.max(last.elapsed());
        // On a machine that stood still so long the worker was gone, as far as the server knows.
        if widest > Duration::from_millis(u64::from(stale) / 2) {
            continue;
        }
        assert_eq!(purged, 0, "the queue was worked on, {widest:?} apart at most");
        events.set_read_timeout(Some(DEADLINE)).expect("a timeout is set");
        let event = events.get_message().expect("dq.behind is told");
        assert_eq!(event.get_payload::<String>().expect("the key"), "q");
        // Once nobody claims any more the rest is stale.
        q.wait_stat("stale-purged", 20_000 - claimed);
        q.check_clean();
        return;
    }
    panic!("the machine stood still four times");
}

#[test]
fn a_purge_never_evicts_a_letter() {
    let server = purging(100).set("dead-max", "3").set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    let letter = q.push_and_claim("letter");
    q.fail(&letter.receipt);
    for i in 0..5 {
        q.push(i);
    }
    server.set("stale-policy", "dead");
    q.wait_stat("dead", 3);
    wait_for("the others to be held", || q.stat("stale-held") >= 3);
    assert_eq!(q.stats(["ready", "dead", "stale-purged", "dead-evicted"]), [3, 3, 2, 0]);
    assert_eq!(q.letter(&letter.id).0, "failed");
    // With room again, they go.
    server.set("dead-max", "100");
    q.wait_stat("stale-purged", 5);
    assert_eq!(q.stats(["ready", "dead"]), [0, 6]);
}

#[test]
fn what_was_held_and_is_gone_is_held_no_more() {
    let server = purging(100).set("dead-max", "1").start();
    let mut q = server.queue("q");
    for i in 0..3 {
        q.push(i);
    }
    q.wait_stat("stale-held", 2);
    ok!(q, "PURGE", "STATE", "ready");
    q.wait_stat("stale-held", 0);
    wait_for("the end of it", || server.log().contains("no stale job has to stay any more"));
}

#[test]
fn many_stale_jobs_go_in_slices_to_the_last() {
    let server = purging(300).start();
    let mut q = server.queue("q");
    let mut pipe = redis::pipe();
    for _ in 0..10 {
        let mut words = args!["PAYLOADS"];
        words.extend((0..1000).map(|i: i32| i.to_string().into_bytes()));
        pipe.cmd("DQ.MPUSH").arg("q").arg(words).ignore();
    }
    pipe.exec(&mut q.con).expect("the pushes answer");
    q.unwatched();
    q.wait_stat("stale-purged", 10_000);
    q.watched();
    assert_eq!(q.stats(["dead", "ready"]), [10_000, 0]);
}

#[test]
fn time_before_the_load_does_not_count() {
    let mut server = purging(800).aof().start();
    let mut q = server.queue("q");
    server.set("stale-policy", "keep");
    let id = q.push("x");
    let hour_ago = q.now() - 3_600_000;
    q.raw::<i64>(args!["ZADD", q.key("due"), "XX", hour_ago, &id]);
    let down = q.now();
    drop(q);
    server.crash_and_restart();
    let mut q = server.queue("q");
    q.wait_stat("stale-purged", 1);
    let died = q.score("dead:at", &id).expect("a letter");
    assert!(died >= down + 800, "only time since the load counts: {}", died - down);
}

#[test]
fn time_within_the_grace_does_not_count() {
    let server = purging(100).set("takeover-grace", "1500").start();
    let mut q = server.queue("q");
    let up: i64 = server.info("server", "uptime_in_seconds").parse().expect("a number");
    let started = q.now() - 1000 * (up + 1);
    let id = q.push("x");
    q.wait_stat("stale-purged", 1);
    let died = q.score("dead:at", &id).expect("a letter");
    assert!(died >= started + 1500, "purged within the grace");
}

#[test]
fn a_grace_that_is_made_shorter_holds_up_nothing_any_more() {
    let server = purging(100).set("takeover-grace", "1h").start();
    let mut q = server.queue("q");
    q.push("x");
    wait_for("the purge to be put off to the end of the grace", || server.info("dq", "dq_timer_purge_runs") != "0");
    server.set("takeover-grace", "0");
    q.wait_stat("stale-purged", 1);
}

#[test]
fn a_grace_that_is_made_shorter_while_writes_are_refused_holds_up_nothing_either() {
    let server = purging(100).set("takeover-grace", "1h").start();
    let mut q = server.queue("q");
    q.push("leased");
    let leased = q.claim_with(args!["LEASE", 1]).remove(0);
    q.push("stale");
    let runs = || ["dq_timer_lease_runs", "dq_timer_purge_runs"].map(|figure| server.info("dq", figure));
    wait_for("both to be put off to the end of the grace", || runs().iter().all(|runs| runs != "0"));
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    wait_for("the refusal to be noticed", || server.info("dq", "dq_takes_writes") == "0");
    server.set("takeover-grace", "0");
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    q.wait_lapse(&leased.id);
    q.wait_stat("stale-purged", 2);
}

#[test]
fn time_of_paused_writes_does_not_count() {
    let server = purging(600).set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    let id = q.push("x");
    let due = q.due_at(&id);
    server.run(&["CLIENT", "PAUSE", "1500", "WRITE"]);
    server.set("stale-policy", "dead");
    q.wait_stat("stale-purged", 1);
    let died = q.score("dead:at", &id).expect("a letter");
    // The server notices a pause by looking, so a few ms may pass for open.
    assert!(died >= due + 600 + 1500 - 300, "after {} ms", died - due);
}

#[test]
fn time_of_refused_writes_does_not_count() {
    let server = purging(600).set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    let id = q.push("x");
    let due = q.due_at(&id);
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    server.set("stale-policy", "dead");
    let from = q.now();
    wait_clock(&mut q, from + 1500);
    assert_eq!(q.state(&id), "ready");
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    q.wait_stat("stale-purged", 1);
    let died = q.score("dead:at", &id).expect("a letter");
    assert!(died >= due + 600 + 1500 - 300, "after {} ms", died - due);
}

#[test]
fn a_claim_puts_the_purge_off() {
    let server = purging(700).set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    q.push("first");
    let second = q.push("second");
    let due = q.due_at(&second);
    wait_clock(&mut q, due + 350);
    let claimed = q.now();
    let job = q.claim();
    assert_eq!(q.ack(&job.receipt), 1);
    server.set("stale-policy", "dead");
    q.wait_stat("stale-purged", 1);
    let died = q.score("dead:at", &second).expect("a letter");
    assert!(died >= claimed + 700, "{} ms after the claim", died - claimed);
}

#[test]
fn a_claim_of_several_queues_puts_the_purge_of_each_off() {
    let server = purging(700).set("stale-policy", "keep").start();
    let (mut low, mut high) = (server.queue("low"), server.queue("high"));
    let id = low.push("can wait");
    high.push("first");
    let due = low.due_at(&id);
    wait_clock(&mut low, due + 350);
    let claimed = low.now();
    let jobs = list(&high.raw::<redis::Value>(args!["DQ.MCLAIM", 2, "high", "low"]));
    assert_eq!(high.ack(&Job::of(&jobs[0]).receipt), 1);
    server.set("stale-policy", "dead");
    low.wait_stat("stale-purged", 1);
    let died = low.score("dead:at", &id).expect("a letter");
    assert!(died >= claimed + 700, "{} ms after a claim that named it", died - claimed);
}

#[test]
fn nothing_is_stale_while_a_worker_is_busy() {
    let server = purging(300).start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("takes long");
    let waiting = q.push("next");
    let due = q.due_at(&waiting);
    wait_clock(&mut q, due + 900);
    let mut other = server.queue("other");
    wait_look_over(&mut other);
    assert_eq!(q.state(&waiting), "ready", "its worker is at work");
    let done = q.now();
    assert_eq!(q.ack(&job.receipt), 1);
    q.wait_stat("stale-purged", 1);
    let died = q.score("dead:at", &waiting).expect("a letter");
    assert!(died >= done + 300, "{} ms after the worker was done", died - done);
}

#[test]
fn a_job_given_back_is_touched() {
    let server = purging(500).set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let due = q.now();
    wait_clock(&mut q, due + 250);
    let released = q.now();
    assert_eq!(q.release(&job.receipt), 0);
    server.set("stale-policy", "dead");
    q.wait_stat("stale-purged", 1);
    let died = q.score("dead:at", &job.id).expect("a letter");
    assert!(died >= released + 500, "{} ms after the release", died - released);
}

#[test]
fn disabled_purges_nothing() {
    let server = purging(50).start();
    let mut q = server.queue("q");
    server.set("enabled", "no");
    let id = q.push("x");
    let due = q.due_at(&id);
    wait_clock(&mut q, due + 500);
    assert_eq!(q.state(&id), "ready");
    server.set("enabled", "yes");
    q.wait_stat("stale-purged", 1);
}

#[test]
fn an_empty_queue_goes_after_a_while() {
    let server = Server::builder().set("purge-interval", "10").set("idle-queue-ttl", "1s").start();
    let mut q = server.queue("q");
    let mut held = server.queue("held");
    ok!(held, "PUSH", "x", "DELAY", "1h");
    let job = q.push_and_claim("x");
    assert_eq!(q.ack(&job.receipt), 1);
    q.wait_key("", false);
    assert_eq!(held.raw::<i64>(args!["EXISTS", "held"]), 1, "it has a job");
}

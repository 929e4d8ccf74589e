//! Leases that run out: what the server does by itself.

use crate::args;
use crate::common::*;
use crate::ok;

#[test]
fn a_lease_that_ends_makes_the_job_due_at_once_the_first_time() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("x");
    let job = q.claim_with(args!["LEASE", 60]).remove(0);
    let ends = q.score("leased", &id).unwrap_or(0);
    q.wait_lapse(&id);
    let due = q.due_at(&id);
    assert!(due <= q.now() + 1000, "due at once, not after a backoff");
    assert!(ends == 0 || due >= ends - 5, "not before the lease was over");
    let record = q.record(&id);
    assert_eq!((record.lapses, record.failures, record.claims), (1, 0, 1));
    assert!(record.late);
    assert_eq!(q.stats(["lapsed", "retried", "leased"]), [1, 0, 0]);
    let again = q.claim();
    assert_eq!((again.id, again.attempt), (id, 2));
    assert_ne!(again.receipt, job.receipt);
}

#[test]
fn later_lapses_back_off_and_the_fifth_kills() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "BACKOFF", "10m", "1h"));
    for (turn, backoff) in [0, 600_000, 1_200_000, 2_400_000].into_iter().enumerate() {
        let before = q.now();
        q.claim_and_lapse();
        assert_between(q.due_at(&id), before + backoff, q.now() + backoff);
        assert_eq!(q.record(&id).lapses, turn as u64 + 1);
        q.make_due(&id);
    }
    let last = q.claim_with(args!["LEASE", 1]).remove(0);
    assert_eq!(last.attempt, 5);
    q.wait_lapse(&id);
    let (reason, record) = q.letter(&id);
    assert_eq!(reason, "lapses-exhausted");
    assert_eq!((record.lapses, record.failures), (5, 0));
    assert_eq!(record.payload, b"x");
    assert_eq!(q.stats(["lapsed", "dead", "ready", "leased"]), [5, 1, 0, 0]);
}

#[test]
fn the_servers_backoff_holds_where_the_job_has_none() {
    let server = Server::start();
    server.set("backoff-base", "20m");
    server.set("backoff-cap", "1h");
    let mut q = server.queue("q");
    let id = q.push("x");
    q.claim_and_lapse();
    q.claim_and_lapse();
    assert_between(q.due_at(&id), q.now() + 1_200_000, q.now() + 1_200_000);
}

#[test]
fn max_lapses_is_a_setting() {
    let server = Server::start();
    server.set("max-lapses", "1");
    let mut q = server.queue("q");
    let id = q.push("x");
    q.claim_and_lapse();
    assert_eq!(q.letter(&id).0, "lapses-exhausted");
}

#[test]
fn lapses_do_not_use_up_retries() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "RETRIES", 1));
    q.claim_and_lapse();
    q.claim_and_lapse();
    q.make_due(&id);
    let job = q.claim();
    assert_eq!((job.attempt, job.retries_left), (3, 1));
    assert_eq!(int(&ok!(q, "RETRY", job.receipt, "DELAY", 0)), 0);
    let job = q.claim();
    assert_eq!(q.retry(&job.receipt), -1);
    assert_eq!(q.letter(&id).0, "retries-exhausted");
}

#[test]
fn the_error_of_the_last_failure_stays_through_a_lapse() {
    let server = Server::start();
    server.set("max-lapses", "1");
    let mut q = server.queue("q");
    let id = q.push("x");
    let job = q.claim();
    ok!(q, "RETRY", job.receipt, "DELAY", 0, "ERROR", "e", "STACK", "s");
    q.claim_and_lapse();
    let (reason, record) = q.letter(&id);
    assert_eq!(reason, "lapses-exhausted");
    assert_eq!(record.error.as_deref(), Some(&b"e"[..]));
    assert_eq!(record.stack.as_deref(), Some(&b"s"[..]));
}

#[test]
fn many_leases_of_many_queues_end_by_themselves() {
    let server = Server::start();
    let mut queues: Vec<Queue> = (0..20).map(|i| server.queue_in(i % 3, format!("queue-{i}"))).collect();
    for q in &mut queues {
        for i in 0..30 {
            q.push(i);
        }
        assert_eq!(q.claim_with(args!["COUNT", 30, "LEASE", 5]).len(), 30);
    }
    for q in &mut queues {
        let key = q.key("leased");
        wait_for("all leases to end", || q.raw::<i64>(args!["EXISTS", &key]) == 0);
        q.check_clean();
        assert_eq!(q.stats(["lapsed", "ready"]), [30, 30]);
    }
}

#[test]
fn a_lease_ends_while_an_earlier_one_is_prolonged() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("held");
    let held = q.claim_with(args!["LEASE", 100]).remove(0);
    q.extend(3_600_000, &held.receipt);
    q.push("other");
    let other = q.claim_and_lapse();
    assert_ne!(other.id, held.id);
    assert_eq!(q.state(&held.id), "leased");
}

#[test]
fn a_lease_longer_than_the_others_does_not_hold_them_up() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("long");
    q.claim_with(args!["LEASE", "12h"]);
    q.push("short");
    let short = q.claim_and_lapse();
    assert_eq!(short.payload, b"short");
    assert_eq!(q.stats(["leased", "lapsed"]), [1, 1]);
}

#[test]
fn within_the_grace_no_lease_ends() {
    let server = Server::with_grace().set("takeover-grace", "2s").start();
    let mut q = server.queue("q");
    let id = q.push("x");
    q.claim_with(args!["LEASE", 1]);
    q.wait_lapse(&id);
    let uptime: i64 = server.info("server", "uptime_in_seconds").parse().expect("a number");
    assert!(uptime >= 1, "the grace is two seconds from the load on");
}

#[test]
fn disabled_timers_end_no_lease_until_enabled() {
    let server = Server::with_grace().set("takeover-grace", "1h").start();
    let mut q = server.queue("q");
    let id = q.push("x");
    let job = q.claim_with(args!["LEASE", 1]).remove(0);
    server.set("enabled", "no");
    server.set("takeover-grace", "0");
    let from = q.now();
    wait_for("a timer's time to pass", || q.now() > from + 300);
    assert_eq!(q.state(&id), "leased");
    assert_eq!(q.extend(1, &job.receipt), 1, "in time still");
    server.set("enabled", "yes");
    q.wait_lapse(&id);
    assert_eq!(q.stat("lapsed"), 1);
}

//! The table of late and stale receipts.

use crate::common::*;
use crate::{args, err, ok};

/// A job whose lease ended once; its receipt is late, the job due.
fn late_and_due(q: &mut Queue) -> Job {
    q.push("payload");
    let job = q.claim_and_lapse();
    assert_eq!(q.state(&job.id), "ready");
    assert_eq!(q.record(&job.id).lapses, 1);
    job
}

/// A job whose lease ended and killed it; its receipt is late, the job a letter.
fn late_and_dead(q: &mut Queue) -> Job {
    let max_lapses: String = q.raw::<(String, String)>(args!["CONFIG", "GET", "dq.max-lapses"]).1;
    q.raw::<()>(args!["CONFIG", "SET", "dq.max-lapses", 1]);
    q.push("payload");
    let job = q.claim_and_lapse();
    q.raw::<()>(args!["CONFIG", "SET", "dq.max-lapses", max_lapses]);
    assert_eq!(q.letter(&job.id).0, "lapses-exhausted");
    job
}

/// A job whose lease ended, and that then lay in a queue on which nobody worked until it was stale; its receipt is late.
fn late_and_purged(q: &mut Queue) -> Job {
    let set = |q: &mut Queue, name: &str, value: &str| q.raw::<()>(args!["CONFIG", "SET", name, value]);
    set(q, "dq.purge-interval", "1h");
    let job = late_and_due(q);
    q.unwatched();
    set(q, "dq.stale-after", "20");
    set(q, "dq.purge-interval", "10");
    let key = q.key("dead");
    wait_for("the job to be purged", || q.raw::<bool>(args!["HEXISTS", &key, &job.id]));
    set(q, "dq.purge-interval", "1h");
    set(q, "dq.stale-after", "5m");
    q.watched();
    let (reason, record) = q.letter(&job.id);
    assert_eq!((reason.as_str(), record.lapses), ("stale", 1));
    job
}

/// A job whose lease ended and that was claimed again since: the first receipt is stale.
fn stale(q: &mut Queue) -> (Job, Job) {
    let first = late_and_due(q);
    let second = q.claim();
    assert_eq!(second.id, first.id);
    (first, second)
}

#[test]
fn late_ack_finishes_a_due_job() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_due(&mut q);
    assert_eq!(q.ack(&job.receipt), 1);
    assert_eq!(q.state(&job.id), "gone");
    assert_eq!(q.stats(["acked", "lease-lost", "ready"]), [1, 0, 0]);
    assert_eq!(q.ack(&job.receipt), 0, "spent");
}

#[test]
fn late_ack_removes_the_letter() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_dead(&mut q);
    assert_eq!(q.ack(&job.receipt), 1);
    assert_eq!(q.state(&job.id), "gone");
    assert_eq!(q.stats(["acked", "dead"]), [1, 0]);
    assert_eq!(q.ack(&job.receipt), 0, "spent");
}

#[test]
fn stale_ack_finishes_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    let (first, second) = stale(&mut q);
    let before = server.dump();
    assert_eq!(q.ack(&first.receipt), 0);
    assert_eq!(server.dump(), before);
    assert_eq!(q.ack(&second.receipt), 1);
}

#[test]
fn late_fail_makes_a_letter_of_a_due_job() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_due(&mut q);
    ok!(q, "FAIL", &job.receipt, "ERROR", "broken", "STACK", "trace");
    let (reason, record) = q.letter(&job.id);
    assert_eq!(reason, "failed");
    assert_eq!(record.error.as_deref(), Some(&b"broken"[..]));
    assert_eq!(record.stack.as_deref(), Some(&b"trace"[..]));
    assert!(q.claim_n(1).is_empty());
    assert_error(&err!(q, "FAIL", &job.receipt), "DQLOST", &[]);
}

#[test]
fn late_fail_replaces_what_the_letter_says() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_dead(&mut q);
    ok!(q, "FAIL", &job.receipt, "ERROR", "broken", "STACK", "trace");
    let (reason, record) = q.letter(&job.id);
    assert_eq!(reason, "failed");
    assert_eq!(record.payload, b"payload");
    assert_eq!(record.error.as_deref(), Some(&b"broken"[..]));
    assert_eq!(record.stack.as_deref(), Some(&b"trace"[..]));
    assert_eq!(q.stat("dead"), 1);
    assert_error(&err!(q, "FAIL", &job.receipt), "DQLOST", &[]);
    assert_eq!(q.ack(&job.receipt), 0, "the letter says failed now, and stays");
}

#[test]
fn stale_fail_is_dqstale() {
    let server = Server::start();
    let mut q = server.queue("q");
    let (first, second) = stale(&mut q);
    assert_error(&err!(q, "FAIL", &first.receipt), "DQLOST", &[]);
    assert_eq!(q.ack(&second.receipt), 1);
}

#[test]
fn late_extend_takes_the_lease_back() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_due(&mut q);
    let before = q.now();
    assert_eq!(q.extend(60_000, &job.receipt), 60_000);
    let ends = q.score("leased", &job.id).expect("it is leased again");
    assert_between(ends, before + 60_000, q.now() + 60_000);
    let record = q.record(&job.id);
    assert_eq!((record.lapses, record.late, record.claims), (0, false, 0));
    assert!(q.claim_n(1).is_empty());
    assert_eq!(q.field(&job.id, "attempt"), "1");
    assert_eq!(q.ack(&job.receipt), 1, "the receipt is in time again");
}

#[test]
fn late_extend_of_a_letter_is_stale() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_dead(&mut q);
    let before = server.dump();
    assert_eq!(q.extend(60_000, &job.receipt), -1);
    assert_eq!(server.dump(), before);
    assert_eq!(q.stat("lease-lost"), 1);
    assert_eq!(q.ack(&job.receipt), 1, "but the ACK still finds it");
}

#[test]
fn stale_extend_changes_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    let (first, second) = stale(&mut q);
    let before = server.dump();
    assert_eq!(q.extend(60_000, &first.receipt), -1);
    assert_eq!(server.dump(), before);
    assert_eq!(q.ack(&second.receipt), 1);
}

#[test]
fn late_retry_counts_once() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_due(&mut q);
    let before = q.now();
    let reply = ok!(q, "RETRY", &job.receipt, "DELAY", "10m", "ERROR", "slow");
    assert_eq!(int(&reply), 600_000);
    assert_between(q.due_at(&job.id), before + 600_000, q.now() + 600_000);
    let record = q.record(&job.id);
    assert_eq!((record.failures, record.lapses, record.late), (1, 0, false));
    assert_eq!(record.error.as_deref(), Some(&b"slow"[..]));
    assert_eq!(q.field(&job.id, "attempt"), "2", "counted once");
    assert_error(&err!(q, "RETRY", &job.receipt), "DQLOST", &[]);
}

#[test]
fn late_retry_without_delay_backs_off() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_due(&mut q);
    assert_eq!(q.retry(&job.receipt), 1000);
}

#[test]
fn late_retry_may_use_up_the_retries() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "RETRIES", 0);
    let job = q.claim_and_lapse();
    assert_eq!(q.retry(&job.receipt), -1);
    assert_eq!(q.letter(&job.id).0, "retries-exhausted");
}

#[test]
fn late_retry_of_a_letter_is_dqstale() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_dead(&mut q);
    assert_error(&err!(q, "RETRY", &job.receipt), "DQLOST", &[]);
    let e = err!(q, "RETRY", &job.receipt, "DELAY", 5, "ERROR", "e");
    assert_error(&e, "DQLOST", &[]);
}

#[test]
fn stale_retry_is_dqstale() {
    let server = Server::start();
    let mut q = server.queue("q");
    let (first, second) = stale(&mut q);
    assert_error(&err!(q, "RETRY", &first.receipt), "DQLOST", &[]);
    assert_eq!(q.ack(&second.receipt), 1);
}

#[test]
fn late_release_uncounts_the_lapse() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_due(&mut q);
    let before = q.now();
    let reply = ok!(q, "RELEASE", "DELAY", "10m", "RECEIPTS", &job.receipt);
    assert_eq!(ints(&reply), [600_000]);
    assert_between(q.due_at(&job.id), before + 600_000, q.now() + 600_000);
    let record = q.record(&job.id);
    assert_eq!((record.lapses, record.failures, record.releases), (0, 0, 1));
    assert_eq!(q.field(&job.id, "attempt"), "1");
    assert_eq!(q.release(&job.receipt), -1, "spent");
}

#[test]
fn late_release_of_a_letter_is_stale() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_dead(&mut q);
    let before = server.dump();
    assert_eq!(q.release(&job.receipt), -1);
    assert_eq!(server.dump(), before);
}

#[test]
fn stale_release_changes_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    let (first, second) = stale(&mut q);
    let before = server.dump();
    assert_eq!(q.release(&first.receipt), -1);
    assert_eq!(server.dump(), before);
    assert_eq!(q.ack(&second.receipt), 1);
}

#[test]
fn a_receipt_taken_back_can_be_late_again() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = late_and_due(&mut q);
    assert_eq!(q.extend(1, &job.receipt), 1);
    q.wait_lapse(&job.id);
    assert_eq!(q.record(&job.id).lapses, 1, "the first lapse is uncounted");
    assert_eq!(q.ack(&job.receipt), 1);
}

#[test]
fn only_the_last_claims_receipt_is_late() {
    let server = Server::start();
    let mut q = server.queue("q");
    let first = late_and_due(&mut q);
    let second = q.claim_and_lapse();
    assert_ne!(first.receipt, second.receipt);
    assert_eq!(q.ack(&first.receipt), 0);
    assert_error(&err!(q, "RETRY", &first.receipt), "DQLOST", &[]);
    assert_error(&err!(q, "FAIL", &first.receipt), "DQLOST", &[]);
    assert_eq!(q.extend(5000, &first.receipt), -1);
    assert_eq!(q.release(&first.receipt), -1);
    assert_eq!(q.ack(&second.receipt), 1);
}

#[test]
fn a_letter_knows_only_the_receipt_of_its_last_claim() {
    let server = Server::start();
    server.set("max-lapses", "2");
    server.set("backoff-base", "1");
    let mut q = server.queue("q");
    let first = late_and_due(&mut q);
    let second = wait_until("the job to be due again", || q.claim_with(args!["LEASE", 1]).pop());
    q.wait_lapse(&second.id);
    assert_eq!(q.state(&second.id), "dead");
    assert_eq!(q.ack(&first.receipt), 0);
    assert_error(&err!(q, "FAIL", &first.receipt), "DQLOST", &[]);
    assert_eq!(q.ack(&second.receipt), 1);
}

#[test]
fn a_letter_for_another_reason_is_stale_for_all() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "RETRIES", 0);
    let job = q.claim();
    assert_eq!(q.retry(&job.receipt), -1);
    let before = server.dump();
    assert_eq!(q.ack(&job.receipt), 0);
    assert_eq!(q.extend(5, &job.receipt), -1);
    assert_eq!(q.release(&job.receipt), -1);
    assert_eq!(server.dump(), before);
    assert_error(&err!(q, "FAIL", &job.receipt), "DQLOST", &[]);
    assert_error(&err!(q, "RETRY", &job.receipt), "DQLOST", &[]);
}

#[test]
fn the_last_receipt_acts_on_the_letter_of_a_stale_job() {
    let server = Server::start();
    let mut q = server.queue("q");
    // Finished work is not handed out again.
    let job = late_and_purged(&mut q);
    assert_eq!(q.ack(&job.receipt), 1);
    assert_eq!(q.state(&job.id), "gone");
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 0);
    assert_eq!(q.ack(&job.receipt), 0, "spent");
    // Why it failed is kept.
    let job = late_and_purged(&mut q);
    ok!(q, "FAIL", &job.receipt, "ERROR", "no such address");
    let (reason, record) = q.letter(&job.id);
    assert_eq!((reason.as_str(), record.error), ("failed", Some(b"no such address".to_vec())));
    assert_eq!(q.ack(&job.receipt), 0, "spent");
    // A letter is no job that could be due or leased.
    let job = late_and_purged(&mut q);
    assert_eq!(q.extend(1000, &job.receipt), -1);
    assert_eq!(q.release(&job.receipt), -1);
    assert_error(&err!(q, "RETRY", &job.receipt), "DQLOST", &[]);
    // Once it is a job again, the receipt is of an earlier life.
    ok!(q, "REPLAY", "IDS", &job.id);
    assert_eq!(q.ack(&job.receipt), 0);
    let again = q.claim();
    assert_eq!((&again.id, again.attempt), (&job.id, 2));
    assert_eq!(q.ack(&job.receipt), 0);
    assert_eq!(q.ack(&again.receipt), 1);
}

/// Nor does the receipt of a claim act that did not end with its lease.
#[test]
fn the_letter_of_a_stale_job_that_was_given_back_is_stale_for_all() {
    let server = Server::builder().set("purge-interval", "10").set("stale-after", "200").start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    assert_eq!(q.release(&job.receipt), 0);
    let key = q.key("dead");
    wait_for("the job to be purged", || q.raw::<bool>(args!["HEXISTS", &key, &job.id]));
    assert_eq!(q.ack(&job.receipt), 0);
    assert_error(&err!(q, "FAIL", &job.receipt), "DQLOST", &[]);
    assert_eq!(q.letter(&job.id).0, "stale");
}

#[test]
fn a_job_pushed_again_beside_its_letter_is_not_the_letters() {
    let server = Server::start();
    let mut q = server.queue("q");
    server.set("max-lapses", "1");
    ok!(q, "PUSH", "one", "ID", "mine");
    let first = q.claim_and_lapse();
    assert_eq!(q.state("mine"), "dead");
    ok!(q, "PUSH", "two", "ID", "mine");
    // "A job pushed again under its id, however the earlier one ended": the receipt is stale for both.
    assert_eq!(q.ack(&first.receipt), 0);
    assert_error(&err!(q, "FAIL", &first.receipt), "DQLOST", &[]);
    assert_eq!(q.stat("dead"), 1);
    assert_eq!(q.record("mine").payload, b"two");
    let second = q.claim();
    assert_eq!(q.ack(&second.receipt), 1);
}

#[test]
fn until_the_server_moves_the_job_all_is_in_time() {
    // Leases end only after the grace, so the lease below is over long before the server moves
    // the job.
    let server = Server::with_grace().set("takeover-grace", "1h").start();
    let mut q = server.queue("q");
    for i in 0..5 {
        q.push(i);
    }
    let jobs = q.claim_with(args!["COUNT", 5, "LEASE", 1]);
    let ends = q.score("leased", &jobs[0].id).expect("it is leased");
    wait_for("the leases to be over", || q.now() > ends + 20);
    let [a, b, c, d, e] = &jobs[..] else { panic!("five jobs") };
    assert_eq!(q.ack(&a.receipt), 1);
    assert_eq!(q.retry(&b.receipt), 1000);
    assert_eq!(q.release(&c.receipt), 0);
    q.fail(&d.receipt);
    assert_eq!(q.extend(5000, &e.receipt), 5000);
    assert_eq!(q.stats(["lapsed", "lease-lost"]), [0, 0]);
    assert_eq!(q.record(&b.id).lapses, 0);
}

#[test]
fn a_batch_mixes_all_kinds() {
    let server = Server::start();
    let mut q = server.queue("q");
    let late = late_and_due(&mut q);
    // The others are to be claimed first.
    let (key, now) = (q.key("due"), q.now());
    q.raw::<i64>(args!["ZADD", key, "XX", now + 3_600_000, &late.id]);
    let dead = late_and_dead(&mut q);
    ok!(q, "PUSH", "x", "DELAY", "1h");
    let held = q.push_and_claim("held");
    let spent = q.push_and_claim("spent");
    assert_eq!(q.ack(&spent.receipt), 1);
    let reply = ok!(q, "ACK", &spent.receipt, &late.receipt, &dead.receipt, &held.receipt, "EACH");
    assert_eq!(ints(&reply), [0, 1, 1, 1]);
    assert_eq!(q.stats(["dead", "leased", "ready", "delayed"]), [0, 0, 0, 1]);
}

//! Jobs that come back to the queue while clients wait: retried, released, lapsed, failed, extended.

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

#[test]
fn a_retried_job_goes_to_the_waiter_when_its_time_has_come() {
    let scene = Scene::of(Server::builder().set("backoff-base", "60"));
    let mut q = scene.queue("q");
    let mut held = q.push_and_claim("x");
    for (attempt, delay) in [(2, Some(0)), (3, Some(80)), (4, None)] {
        let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        let before = q.now();
        let ms = match delay {
            Some(ms) => int(&ok!(q, "RETRY", &held.receipt, "DELAY", ms)),
            None => q.retry(&held.receipt),
        };
        let again = waiter.job();
        assert_eq!((&again.id, again.attempt), (&held.id, attempt));
        assert!(q.now() >= before + ms, "before its {ms} ms");
        assert_eq!(q.stats(["leased", "waiting"]), [1, 0]);
        held = again;
    }
    assert_eq!(q.stats(["retried", "claimed", "lapsed"]), [3, 4, 0]);
    scene.end();
}

#[test]
fn a_released_job_goes_to_the_waiter_and_is_not_counted() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let job = q.push_and_claim("x");
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    assert_eq!(q.release(&job.receipt), 0);
    let again = waiter.job();
    assert_eq!((&again.id, again.attempt), (&job.id, 1));
    assert_ne!(again.receipt, job.receipt);
    assert_eq!(q.ack(&job.receipt), 0, "it is spent");
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let before = q.now();
    ok!(q, "RELEASE", "DELAY", 70, "RECEIPTS", &again.receipt);
    assert_eq!(waiter.job().attempt, 1);
    assert!(q.now() >= before + 70);
    assert_eq!(q.stats(["released", "claimed", "retried"]), [2, 3, 0]);
    scene.end();
}

#[test]
fn a_lease_that_ends_goes_to_the_waiter() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    q.push("x");
    let job = q.claim_with(args!["LEASE", 80]).remove(0);
    let mut first = Client::waiting(&scene, "q", &["LEASE", "1h", "BLOCK", "0"]);
    let mut second = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let again = first.job();
    assert_eq!((&again.id, again.attempt, again.lease_ms), (&job.id, 2, 3_600_000));
    // Since the next claim, the old receipt is stale.
    assert_eq!(q.ack(&job.receipt), 0);
    assert_eq!(q.extend(1000, &job.receipt), -1);
    second.assert_silent(&scene);
    assert_eq!(q.ack(&again.receipt), 1);
    assert_eq!(q.stats(["lapsed", "claimed", "acked", "waiting"]), [1, 2, 1, 1]);
    drop(second);
    scene.end();
}

#[test]
fn a_waiters_own_lease_ends() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut waiter = Client::waiting(&scene, "q", &["LEASE", "50", "BLOCK", "0"]);
    let mut next = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let id = q.push("x");
    assert_eq!(waiter.job().attempt, 1);
    let again = next.job();
    assert_eq!((again.id, again.attempt), (id, 2));
    scene.end();
}

#[test]
fn a_worker_that_dies_holding_a_job_is_followed_by_a_waiter() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut dies = Client::waiting(&scene, "q", &["LEASE", "60", "BLOCK", "0"]);
    q.push("x");
    let held = dies.job();
    drop(dies);
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let job = waiter.job();
    assert_eq!((&job.id, job.attempt), (&held.id, 2));
    assert_eq!(q.record(&job.id).lapses, 1);
    scene.end();
}

#[test]
fn an_extended_lease_does_not_go_to_the_waiter() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    q.push("held");
    let held = q.claim_with(args!["LEASE", 100]).remove(0);
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    q.extend(3_600_000, &held.receipt);
    ok!(q, "PUSH", "later", "DELAY", 160);
    assert_eq!(waiter.job().payload, b"later");
    assert_eq!(q.ack(&held.receipt), 1);
    // And one that is cut short does.
    q.push("short");
    let held = q.claim_with(args!["LEASE", "1h"]).remove(0);
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    q.extend(40, &held.receipt);
    assert_eq!(waiter.job().attempt, 2);
    scene.end();
}

#[test]
fn what_ends_a_job_serves_nobody() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    for i in 0..3 {
        ok!(q, "PUSH", i, "RETRIES", 0);
    }
    let jobs = q.claim_n(3);
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    q.fail(&jobs[0].receipt);
    assert_eq!(q.retry(&jobs[1].receipt), -1);
    assert_eq!(q.ack(&jobs[2].receipt), 1);
    waiter.assert_silent(&scene);
    q.push("alive");
    assert_eq!(waiter.job().payload, b"alive");
    assert_eq!(q.stats(["dead", "leased", "waiting"]), [2, 1, 0]);
    scene.end();
}

#[test]
fn a_job_that_kills_its_workers_ends_among_the_dead() {
    let scene = Scene::of(Server::builder().set("backoff-base", "5").set("max-lapses", "3"));
    let mut q = scene.queue("q");
    let mut waiters: Vec<Client> =
        (0..4).map(|_| Client::waiting(&scene, "q", &["LEASE", "20", "BLOCK", "0"])).collect();
    let id = q.push("poison");
    for (waiter, attempt) in waiters.iter_mut().zip(1..=3) {
        assert_eq!(waiter.job().attempt, attempt);
    }
    wait_for("the job to be dead", || q.state(&id) == "dead");
    waiters[3].assert_silent(&scene);
    assert_eq!(q.letter(&id).0, "lapses-exhausted");
    q.push("good");
    assert_eq!(waiters[3].job().payload, b"good");
    scene.end();
}

#[test]
fn many_jobs_come_back_at_once_to_many_waiters() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let payloads: Vec<usize> = (0..200).collect();
    ok!(q, "MPUSH", "PAYLOADS", payloads);
    let jobs = q.claim_with(args!["COUNT", 200, "LEASE", 400]);
    assert_eq!(jobs.len(), 200);
    // Some of them come when the leases have ended: they wait no more than the others.
    let mut waiters: Vec<Client> = (0..150).map(|_| Client::new(&scene)).collect();
    for waiter in &mut waiters {
        waiter.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
    }
    let mut seen = std::collections::BTreeSet::new();
    for waiter in &mut waiters {
        let job = waiter.job();
        assert_eq!(job.attempt, 2);
        assert!(seen.insert(job.id), "given twice");
    }
    q.wait_stat("ready", 50);
    assert_eq!(q.stats(["leased", "lapsed", "waiting"]), [150, 200, 0]);
    scene.end();
}

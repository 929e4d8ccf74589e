//! `max-leased`: no more jobs in workers' hands, and who waits has one at once when there is room.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

/// The arguments by which a command ends the lease of a receipt.
type WordsFor = fn(&str) -> Vec<Vec<u8>>;

/// A queue of so many jobs that may lease so many at once.
fn bounded(scene: &Scene, max: usize, jobs: usize) -> Queue {
    let mut q = scene.queue("q");
    ok!(q, "CONFIG", "SET", "max-leased", max);
    q.push_many(jobs, &[]);
    q
}

#[test]
fn claims_give_fewer() {
    let scene = Scene::new();
    let mut q = bounded(&scene, 3, 10);
    let held = q.claim_n(2);
    assert_eq!(q.claim_n(10).len(), 1);
    assert!(q.claim_n(10).is_empty());
    assert!(q.claim_with(args!["BLOCK", 50]).is_empty());
    let many: redis::Value =
        redis::cmd("DQ.MCLAIM").arg(&["1", "q", "COUNT", "5"]).query(&mut q.con).expect("it answers");
    assert_nothing(&many);
    assert_eq!(int(&ok!(q, "ACK", &held[0].receipt, &held[1].receipt)), 2);
    assert_eq!(q.claim_n(10).len(), 2);
    // A smaller value takes no lease away, and counts until there are fewer.
    ok!(q, "CONFIG", "SET", "max-leased", 1);
    assert_eq!(q.stat("leased"), 3);
    assert!(q.claim_n(10).is_empty());
    ok!(q, "CONFIG", "RESET", "max-leased");
    assert_eq!(q.claim_n(10).len(), 5);
    scene.end();
}

#[test]
fn whatever_ends_a_lease_wakes_the_first_in_line() {
    let scene = Scene::new();
    let mut q = bounded(&scene, 1, 20);
    let mut held = q.claim().receipt;
    let ends: [(&str, WordsFor); 5] = [
        ("ACK", |receipt| args![receipt]),
        ("RETRY", |receipt| args![receipt, "DELAY", "1h"]),
        ("RELEASE", |receipt| args!["DELAY", "1h", "RECEIPTS", receipt]),
        ("FAIL", |receipt| args![receipt]),
        ("CANCEL", |receipt| args![receipt.split(':').next().expect("an id")]),
    ];
    for (name, words) in ends {
        let mut first = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        let mut second = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        let begin = Instant::now();
        q.ok(name, words(&held));
        let job = first.job();
        assert!(begin.elapsed() < Duration::from_millis(500), "{name}: {:?}", begin.elapsed());
        second.assert_silent(&scene);
        assert_eq!(q.stats(["leased", "waiting"]), [1, 1], "{name}");
        assert_eq!(q.ack(&job.receipt), 1);
        held = second.job().receipt;
    }
    scene.end();
}

#[test]
fn a_lapse_a_purge_and_a_wider_limit_make_room() {
    let scene = Scene::new();
    let mut q = bounded(&scene, 1, 4);
    let lapses = q.claim_with(args!["LEASE", 60]).remove(0);
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0", "LEASE", "1h"]);
    waiter.job();
    assert_eq!(q.state(&lapses.id), "ready");
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    ok!(q, "PURGE", "STATE", "leased");
    waiter.job();
    let mut waiters: Vec<Client> = (0..3).map(|_| Client::waiting(&scene, "q", &["BLOCK", "0"])).collect();
    ok!(q, "CONFIG", "SET", "max-leased", 2);
    waiters[0].job();
    waiters[1].assert_silent(&scene);
    ok!(q, "CONFIG", "RESET", "max-leased");
    waiters[1].job();
    q.push("more");
    waiters[2].job();
    scene.end();
}

#[test]
fn a_claim_does_not_pass_those_who_wait_for_room() {
    let scene = Scene::new();
    let mut q = bounded(&scene, 1, 3);
    let held = q.claim();
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("DQ.ACK").arg(&["q", &held.receipt]).cmd("DQ.CLAIM").arg("q");
    let (acked, claimed): (i64, redis::Value) = pipe.query(&mut q.con).expect("both answer");
    assert_eq!(acked, 1);
    assert_nothing(&claimed);
    let job = waiter.job();
    // A waiter of several queues gets what another of them has, and the room that comes later.
    let mut both = [0; 2].map(|_| {
        let mut client = Client::new(&scene);
        client.wait_for_job(&scene, args!["DQ.MCLAIM", 2, "q", "other", "BLOCK", 0]);
        client
    });
    scene.queue("other").push("elsewhere");
    assert_eq!(both[0].queued_jobs()[0].1.payload, b"elsewhere");
    both[1].assert_silent(&scene);
    assert_eq!(q.ack(&job.receipt), 1);
    assert_eq!(both[1].queued_jobs()[0].1.payload, b"2");
    scene.end();
}

#[test]
fn a_queue_without_room_costs_nothing() {
    let scene = Scene::new();
    let mut q = bounded(&scene, 1, 50);
    let held = q.claim();
    let mut waiters: Vec<Client> = (0..20).map(|_| Client::waiting(&scene, "q", &["BLOCK", "0"])).collect();
    let (before, begin) = (cpu(&scene), Instant::now());
    std::thread::sleep(Duration::from_millis(1500));
    let share = (cpu(&scene) - before) / begin.elapsed().as_secs_f64();
    assert!(share < 0.05, "{:.1} % of a core", share * 100.0);
    let mut receipt = held.receipt;
    for waiter in &mut waiters {
        assert_eq!(q.ack(&receipt), 1);
        receipt = waiter.job().receipt;
    }
    assert_eq!(q.stats(["leased", "acked", "waiting"]), [1, 20, 0]);
    scene.end();
}

#[test]
fn time_without_room_makes_nothing_stale() {
    let scene = Scene::of(Server::builder().set("purge-interval", "10").set("stale-after", "600"));
    let mut q = bounded(&scene, 1, 2);
    let held = q.claim();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(q.ack(&held.receipt), 1);
    assert_eq!(q.stats(["ready", "dead"]), [1, 0]);
    q.wait_stat("stale-purged", 1);
    scene.end();
}

#[test]
fn a_promoted_replica_keeps_to_it() {
    let scene = Scene::new();
    let mut q = bounded(&scene, 2, 5);
    let held = q.claim_n(5);
    assert_eq!(held.len(), 2);
    assert_replica_same(&scene.primary, &scene.replica);
    scene.replica.run(&["REPLICAOF", "NO", "ONE"]);
    let mut r = scene.replica.queue("q");
    assert!(r.claim_n(5).is_empty());
    let mut waiter = Client::waiting(&scene.replica, "q", &["BLOCK", "0"]);
    assert_eq!(r.ack(&held[0].receipt), 1);
    waiter.job();
    assert!(r.claim_n(5).is_empty());
}

//! Who is served when, and with what.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

/// A queue, and so many who wait for it, the first of the line first.
fn in_line<const N: usize>() -> (Scene, Queue, [Client; N]) {
    let scene = Scene::new();
    let q = scene.queue("q");
    let line = std::array::from_fn(|_| Client::waiting(&scene, "q", &["BLOCK", "0"]));
    (scene, q, line)
}

/// Pushes so many jobs and claims up to 10 in one step, so that nobody is served between the two; how many it got.
fn push_and_take(q: &mut Queue, pushed: usize) -> usize {
    let (_, claimed): (redis::Value, redis::Value) = redis::pipe()
        .atomic()
        .cmd("DQ.MPUSH")
        .arg("q")
        .arg("PAYLOADS")
        .arg((0..pushed).collect::<Vec<_>>())
        .cmd("DQ.CLAIM")
        .arg("q")
        .arg("COUNT")
        .arg(10)
        .query(&mut q.con)
        .expect("it runs");
    list(&claimed).len()
}

#[test]
fn first_come_first_served() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut waiters: Vec<Client> = (0..20).map(|_| Client::waiting(&scene, "q", &["BLOCK", "0"])).collect();
    assert_eq!(q.stat("waiting"), 20);
    // Half of them from one command, the others one by one.
    let payloads: Vec<usize> = (0..10).collect();
    ok!(q, "MPUSH", "PAYLOADS", payloads);
    for i in 10..20 {
        q.push(i);
    }
    for (i, waiter) in waiters.iter_mut().enumerate() {
        let job = waiter.job();
        assert_eq!(job.payload, i.to_string().into_bytes());
        assert_eq!((job.attempt, job.lease_ms), (1, 30_000));
        assert_eq!(q.ack(&job.receipt), 1);
    }
    assert_eq!(q.stats(["waiting", "claimed", "acked", "ready", "leased"]), [0, 20, 20, 0, 0]);
    scene.end();
}

#[test]
fn who_leaves_the_line_is_passed_over() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut waiters: Vec<Option<Client>> =
        (0..9).map(|_| Some(Client::waiting(&scene, "q", &["BLOCK", "0"]))).collect();
    for place in [0, 3, 4, 8] {
        waiters[place] = None;
    }
    q.wait_stat("waiting", 5);
    ok!(q, "MPUSH", "PAYLOADS", 0, 1, 2, 3, 4, 5);
    let left = waiters.iter_mut().flatten().enumerate();
    for (i, waiter) in left {
        assert_eq!(waiter.job().payload, i.to_string().into_bytes());
    }
    assert_eq!(q.stats(["ready", "leased", "waiting"]), [1, 5, 0]);
    scene.end();
}

#[test]
fn who_comes_back_stands_behind() {
    let (scene, mut q, [mut first, mut second]) = in_line();
    q.push(1);
    assert_eq!(first.job().payload, b"1");
    first.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    q.push(2);
    assert_eq!(second.job().payload, b"2");
    first.assert_silent(&scene);
    q.push(3);
    assert_eq!(first.job().payload, b"3");
    scene.end();
}

#[test]
fn count_answers_with_what_is_due() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut five = Client::waiting(&scene, "q", &["COUNT", "5", "BLOCK", "0"]);
    ok!(q, "MPUSH", "PAYLOADS", 1, 2, 3);
    let jobs = five.jobs();
    assert_eq!(jobs.iter().map(|job| &job.payload[..]).collect::<Vec<_>>(), [b"1", b"2", b"3"]);

    let mut two = Client::waiting(&scene, "q", &["COUNT", "2", "BLOCK", "0"]);
    let mut also_two = Client::waiting(&scene, "q", &["BLOCK", "0", "COUNT", "2"]);
    let mut many = Client::waiting(&scene, "q", &["COUNT", "1000", "BLOCK", "1h"]);
    ok!(q, "MPUSH", "PAYLOADS", 1, 2, 3, 4, 5, 6, 7);
    assert_eq!(two.jobs().len(), 2);
    assert_eq!(also_two.jobs().len(), 2);
    assert_eq!(many.jobs().len(), 3);
    scene.end();
}

#[test]
fn an_answer_to_a_waiter_holds_8_mib_of_payload() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    scene.set("max-payload", "20000000");
    let mut first = Client::waiting(&scene, "q", &["COUNT", "10", "BLOCK", "0"]);
    let mut second = Client::waiting(&scene, "q", &["COUNT", "10", "BLOCK", "0"]);
    let mut third = Client::waiting(&scene, "q", &["COUNT", "10", "BLOCK", "0"]);
    let payload = vec![b'x'; 2_500_000];
    redis::pipe()
        .atomic()
        .cmd("DQ.MPUSH")
        .arg("q")
        .arg("PAYLOADS")
        .arg(vec![payload; 3])
        .cmd("DQ.PUSH")
        .arg("q")
        .arg(vec![b'y'; 10_000_000])
        .cmd("DQ.PUSH")
        .arg("q")
        .arg("z")
        .exec(&mut q.con)
        .expect("it runs");
    assert_eq!(first.jobs().len(), 3);
    let jobs = second.jobs();
    assert_eq!((jobs.len(), jobs[0].payload.len()), (1, 10_000_000), "a single larger job passes alone");
    assert_eq!(third.jobs().len(), 1);
    scene.end();
}

#[test]
fn a_job_due_earlier_moves_the_wake_up() {
    let (scene, mut q, [mut first, mut second]) = in_line();
    let far = text(&ok!(q, "PUSH", "far", "DELAY", "1h"));
    let later = text(&ok!(q, "PUSH", "later", "DELAY", 400));
    let sooner = text(&ok!(q, "PUSH", "sooner", "DELAY", 100));
    for (waiter, id, payload) in [(&mut first, &sooner, "sooner"), (&mut second, &later, "later")] {
        let due = q.due_at(id);
        let job = waiter.job();
        let now = q.now();
        assert_eq!(job.payload, payload.as_bytes());
        assert!(now >= due, "{} ms before its time", due - now);
        assert!(now < due + 1000, "{} ms late", now - due);
    }
    assert_eq!(q.state(&far), "delayed");
    scene.end();
}

#[test]
fn a_job_put_off_is_not_waited_for() {
    let (scene, mut q, [mut waiter]) = in_line();
    ok!(q, "PUSH", "x", "ID", "mine", "DELAY", 150);
    ok!(q, "PUSH", "x", "ID", "mine", "DELAY", "1h", "REPLACE");
    ok!(q, "PUSH", "y", "DELAY", 300);
    assert_eq!(waiter.job().payload, b"y");
    // And drawn nearer.
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    ok!(q, "PUSH", "z", "ID", "mine", "DELAY", 50, "REPLACE");
    assert_eq!(waiter.job().payload, b"z");
    scene.end();
}

#[test]
fn at_gives_a_job_to_a_waiter_at_that_time() {
    let (scene, mut q, [mut waiter]) = in_line();
    let at = q.now() + 200;
    ok!(q, "PUSH", "x", "AT", at);
    waiter.job();
    assert!(q.now() >= at);
    scene.end();
}

#[test]
fn nobody_is_served_before_the_due_time() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    q.unwatched();
    let mut waiters: Vec<Client> = (0..50).map(|_| Client::waiting(&scene, "q", &["BLOCK", "0"])).collect();
    let mut pusher = Client::new(&scene);
    // The delay counts from the push, so the answer's arrival less the sending of the push is at least the delay.
    let sent: Vec<(Instant, u64)> = (0..50u64)
        .map(|i| {
            let (at, delay) = (Instant::now(), 20 + i * 7 % 41);
            pusher.send(args!["DQ.PUSH", "q", delay.to_string() + "/" + &i.to_string(), "DELAY", delay]);
            std::thread::sleep(Duration::from_micros(i * 37));
            (at, delay)
        })
        .collect();
    for waiter in &mut waiters {
        let job = waiter.job();
        let now = Instant::now();
        let payload = String::from_utf8(job.payload).expect("text");
        let number: usize = payload.split('/').nth(1).expect("a number").parse().expect("a number");
        let (at, delay) = sent[number];
        assert!(now - at >= Duration::from_millis(delay), "{delay} ms after {:?}", now - at);
    }
    q.watched();
    scene.end();
}

#[test]
fn a_claim_that_does_not_wait_takes_only_what_they_leave() {
    let (scene, mut q, [mut first, mut second]) = in_line();
    assert_eq!(push_and_take(&mut q, 3), 1, "two are waited for");
    assert_eq!((first.jobs().len(), second.jobs().len()), (1, 1));
    let mut third = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    assert_eq!(push_and_take(&mut q, 1), 0, "it is waited for");
    assert_eq!(third.jobs().len(), 1);
    assert_eq!(push_and_take(&mut q, 2), 2, "nobody waits");
    scene.end();
}

#[test]
fn a_claim_that_does_not_wait_leaves_a_waiter_its_count() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut waiter = Client::waiting(&scene, "q", &["COUNT", "10", "BLOCK", "0"]);
    assert_eq!((push_and_take(&mut q, 12), waiter.jobs().len()), (2, 10));
    scene.end();
}

#[test]
fn a_newcomer_that_would_wait_does_not_pass_those_who_do() {
    let (scene, mut q, [mut first]) = in_line();
    let mut pusher = Client::new(&scene);
    // Push and claim in one pass: the claim runs before anybody is served.
    pusher.send_all(&[args!["DQ.PUSH", "q", 1], args!["DQ.CLAIM", "q", "BLOCK", 0]]);
    assert_eq!(first.job().payload, b"1");
    pusher.read().expect("the id");
    pusher.assert_silent(&scene);
    q.push(2);
    assert_eq!(pusher.job().payload, b"2");
    scene.end();
}

#[test]
fn a_claim_with_block_takes_what_is_due_at_once() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    q.push(1);
    assert_eq!(q.claim_with(args!["BLOCK", 0]).len(), 1);
    ok!(q, "MPUSH", "PAYLOADS", 1, 2, 3);
    assert_eq!(q.claim_with(args!["BLOCK", "24h", "COUNT", 2]).len(), 2);
    assert_eq!(q.claim_with(args!["block", "1ms", "count", 2]).len(), 1);
    assert_eq!(q.stat("waiting"), 0);
    scene.end();
}

#[test]
fn a_lease_begins_when_the_waiter_is_served() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut asks = Client::waiting(&scene, "q", &["LEASE", "2s", "BLOCK", "0"]);
    let mut takes = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    std::thread::sleep(Duration::from_millis(300));
    for (waiter, lease) in [(&mut asks, 2000), (&mut takes, 7000)] {
        let before = q.now();
        let id = text(&ok!(q, "PUSH", "x", "LEASE", "7s"));
        let job = waiter.job();
        let ends = q.score("leased", &id).expect("it is leased");
        assert_eq!((job.id, job.lease_ms), (id, lease));
        assert!((before + lease..=q.now() + lease + 1).contains(&ends), "a lease of {} ms", ends - before);
    }
    scene.end();
}

#[test]
fn claims_are_measured_against_the_due_time() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    for _ in 0..20 {
        let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        ok!(q, "PUSH", "x", "DELAY", 10);
        waiter.job();
    }
    let [claimed, p50, p99, max] = q.stats(["claimed", "lateness-p50-us", "lateness-p99-us", "lateness-max-us"]);
    assert_eq!(claimed, 20);
    assert!(p50 <= p99 && p99 <= max, "{p50} {p99} {max}");
    assert!(p50 < 5_000, "late by {p50} µs in the median");
    scene.end();
}

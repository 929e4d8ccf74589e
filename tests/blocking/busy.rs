//! Waiters of a server that stands still, is short of memory, or has much else to do.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

#[test]
fn a_server_that_slept_serves_all_that_fell_due() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut waiters: Vec<Client> = (0..10).map(|_| Client::waiting(&scene, "q", &["BLOCK", "0"])).collect();
    let mut short = Client::waiting(&scene, "q", &["BLOCK", "60"]);
    for i in 0..8 {
        ok!(q, "PUSH", i, "DELAY", 20 + i * 10);
    }
    scene.run(&["DEBUG", "SLEEP", "0.3"]);
    for (i, waiter) in waiters.iter_mut().take(8).enumerate() {
        assert_eq!(waiter.job().payload, i.to_string().into_bytes(), "in the order of their due times");
    }
    assert_nothing(&short.read().expect("an empty answer"));
    for waiter in &mut waiters[8..] {
        waiter.assert_silent(&scene);
    }
    assert_eq!(q.stats(["waiting", "leased", "ready"]), [2, 8, 0]);
    drop(waiters);
    scene.end();
}

#[test]
fn a_deadline_and_a_due_time_that_both_passed_in_a_sleep() {
    let scene = Scene::new();
    // Whatever the server chooses, the job is in one place and the client has one answer.
    for round in 0..20 {
        let name = format!("q{round}");
        let mut q = scene.queue(&name);
        let mut waiter = Client::waiting(&scene, &name, &["BLOCK", "40"]);
        ok!(q, "PUSH", "x", "DELAY", [10, 25, 38, 60][round % 4]);
        scene.run(&["DEBUG", "SLEEP", "0.1"]);
        let served = waiter.jobs().len();
        assert_eq!(text(&waiter.call(args!["PING"])), "PONG");
        assert_eq!(q.claim_n(10).len(), 1 - served);
        assert_eq!(q.stats(["leased", "claimed", "waiting"]), [1, 1, 0]);
    }
    scene.end();
}

#[test]
fn out_of_memory_still_serves_and_takes_no_more() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut other = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    ok!(q, "PUSH", "x", "DELAY", 60);
    scene.run(&["CONFIG", "SET", "maxmemory", "1mb"]);
    assert_eq!(waiter.job().payload, b"x");
    let error = q.call("PUSH", args!["y"]).expect_err("there is no memory");
    assert_eq!(error.code(), Some("OOM"));
    other.assert_silent(&scene);
    ok!(q, "PAUSE");
    ok!(q, "RESUME");
    waiter.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    drop(waiter);
    scene.run(&["CONFIG", "SET", "maxmemory", "0"]);
    q.push("z");
    assert_eq!(other.job().payload, b"z");
    scene.end();
}

#[test]
fn producers_and_workers_all_at_once() {
    let scene = Scene::of(Server::builder().aof());
    const WORKERS: usize = 8;
    const PRODUCERS: usize = 4;
    const JOBS: usize = 400;
    let workers: Vec<_> = (0..WORKERS)
        .map(|place| {
            let mut client = Client::new(&scene);
            std::thread::spawn(move || {
                let mut done = Vec::new();
                let mut turn = place;
                loop {
                    turn += 1;
                    let claim = match turn % 3 {
                        0 => args!["DQ.CLAIM", "a", "COUNT", 3, "BLOCK", 20],
                        1 => args!["DQ.MCLAIM", 2, "a", "b", "ORDER", "rotate", "BLOCK", 7],
                        _ => args!["DQ.MCLAIM", 2, "b", "a", "BLOCK", 3],
                    };
                    let reply = client.call(claim);
                    let mut is_over = false;
                    for job in list(&reply) {
                        let fields = list(&job);
                        let queue = fields.get(6).map_or("a".to_string(), text);
                        let job = Job::of(&job);
                        if job.payload == b"end" && is_over {
                            client.call(args!["DQ.RELEASE", queue, "RECEIPTS", job.receipt]);
                            continue;
                        }
                        if job.payload == b"end" {
                            client.call(args!["DQ.ACK", queue, job.receipt]);
                            is_over = true;
                            continue;
                        }
                        let first = job.attempt == 1;
                        match (turn % 5, first) {
                            (0, true) => drop(client.call(args!["DQ.RETRY", queue, job.receipt, "DELAY", turn % 7])),
                            (1, true) => {
                                client.call(args!["DQ.RELEASE", queue, "RECEIPTS", job.receipt]);
                            }
                            _ => {
                                assert_eq!(int(&client.call(args!["DQ.ACK", queue, job.receipt])), 1);
                                done.push(job.payload);
                            }
                        }
                    }
                    if is_over {
                        return done;
                    }
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|place| {
            let mut client = Client::new(&scene);
            std::thread::spawn(move || {
                for i in 0..JOBS {
                    let queue = ["a", "b"][i % 2];
                    client.call(args!["DQ.PUSH", queue, format!("{place}/{i}"), "DELAY", i % 11]);
                    if i % 10 == 0 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
            })
        })
        .collect();
    for producer in producers {
        producer.join().expect("a producer ends well");
    }
    let (mut a, mut b) = (scene.queue("a"), scene.queue("b"));
    wait_for("the queues to be empty", || {
        [&mut a, &mut b].into_iter().all(|q| q.stats(["ready", "delayed", "leased"]) == [0, 0, 0])
    });
    for _ in 0..WORKERS {
        a.push("end");
    }
    let mut done = Vec::new();
    for worker in workers {
        done.extend(worker.join().expect("a worker ends well"));
    }
    let total = PRODUCERS * JOBS;
    assert_eq!(done.len(), total, "each job is finished once");
    assert_eq!(done.into_iter().collect::<BTreeSet<_>>().len(), total);
    assert_eq!(a.stats(["dead", "lapsed", "lease-lost", "dangling"]), [0, 0, 0, 0]);
    assert_eq!(b.stats(["dead", "lapsed", "lease-lost", "dangling"]), [0, 0, 0, 0]);
    scene.end();
}

#[test]
fn a_crash_with_waiters_loses_nothing() {
    let mut server = Server::builder().aof().start();
    let mut q = server.queue("q");
    q.unwatched();
    let mut waiters: Vec<Client> =
        (0..5).map(|_| Client::waiting(&server, "q", &["LEASE", "3s", "BLOCK", "0"])).collect();
    for i in 0..10 {
        q.push(i);
    }
    let told: BTreeSet<String> = waiters.iter_mut().map(|waiter| waiter.job().id).collect();
    assert_eq!(told.len(), 5);
    drop(waiters);
    server.crash_and_restart();
    let mut waiter = Client::new(&server);
    let mut seen = BTreeSet::new();
    while seen.len() < 10 {
        waiter.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
        let job = waiter.job();
        assert_eq!(job.attempt, 1 + i64::from(told.contains(&job.id)));
        assert!(seen.insert(job.id));
    }
    assert_whole(&server);
}

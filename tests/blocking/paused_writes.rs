//! Waiters while the server holds writes back or is told to stop: CLIENT PAUSE, dq.enabled, MODULE UNLOAD.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

#[test]
fn a_job_that_falls_due_in_a_pause_is_served_after_it() {
    for mode in ["WRITE", "ALL"] {
        let scene = Scene::of(Server::builder().aof());
        let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        let mut short = Client::waiting(&scene, "other", &["BLOCK", "150"]);
        let mut operator = Client::new(&scene);
        let begin = Instant::now();
        // In one pipeline, so that the pause begins before the job is due.
        operator.call_all(&[args!["DQ.PUSH", "q", "x", "DELAY", 50], args!["CLIENT", "PAUSE", 400, mode]]);
        assert_nothing(&short.read().expect("an empty answer"));
        let job = waiter.job();
        let waited = begin.elapsed();
        assert!(waited >= Duration::from_millis(395), "{mode}: served within the pause, after {waited:?}");
        assert_eq!((&job.payload[..], job.attempt), (&b"x"[..], 1));
        scene.end();
    }
}

#[test]
fn a_pause_that_is_ended_serves_soon() {
    let scene = Scene::new();
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut other = Client::new(&scene);
    other.call_all(&[args!["DQ.PUSH", "q", "x", "DELAY", 30], args!["CLIENT", "PAUSE", 60_000, "WRITE"]]);
    other.send(args!["DQ.PUSH", "q", "y"]);
    std::thread::sleep(Duration::from_millis(100));
    waiter.assert_silent(&scene);
    let begin = Instant::now();
    scene.run(&["CLIENT", "UNPAUSE"]);
    assert_eq!(waiter.job().payload, b"x");
    assert!(begin.elapsed() < Duration::from_secs(2));
    other.read().expect("the id");
    scene.end();
}

#[test]
fn a_waiter_that_leaves_in_a_pause() {
    let scene = Scene::of(Server::builder().aof());
    let mut q = scene.queue("q");
    let killed = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let dropped = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut unblocked = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut stays = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut operator = Client::new(&scene);
    operator.call_all(&[args!["DQ.PUSH", "q", "x", "DELAY", 30], args!["CLIENT", "PAUSE", 300, "WRITE"]]);
    scene.run(&["CLIENT", "KILL", "ID", &killed.id.to_string()]);
    drop(dropped);
    scene.run(&["CLIENT", "UNBLOCK", &unblocked.id.to_string()]);
    assert_nothing(&unblocked.read().expect("an empty answer"));
    assert_eq!(stays.job().payload, b"x");
    assert_eq!(q.stats(["claimed", "waiting"]), [1, 0]);
    scene.end();
}

#[test]
fn disabled_sends_waiters_away_and_enabled_serves_again() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    ok!(q, "PUSH", "x", "DELAY", 40);
    scene.set("enabled", "no");
    assert_error(&waiter.error(), "UNBLOCKED", &[]);
    waiter.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
    assert_error(&waiter.error(), "DQDISABLED", &[]);
    q.push("y");
    ok!(q, "PAUSE");
    ok!(q, "RESUME");
    scene.set("enabled", "yes");
    let mut payloads = Vec::new();
    for _ in 0..2 {
        waiter.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
        payloads.push(waiter.job().payload);
    }
    payloads.sort();
    assert_eq!(payloads, [b"x", b"y"]);
    scene.end();
}

#[test]
fn off_and_on_in_one_pipeline() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    for round in 0..20 {
        let mut waiters: Vec<Client> = (0..3).map(|_| Client::waiting(&scene, "q", &["BLOCK", "0"])).collect();
        ok!(q, "PUSH", "x", "DELAY", round % 3);
        let mut operator = Client::new(&scene);
        operator.call_all(&[
            args!["CONFIG", "SET", "dq.enabled", "no"],
            args!["DQ.PUSH", "q", "y"],
            args!["CONFIG", "SET", "dq.enabled", "yes"],
        ]);
        let mut jobs = 0;
        for waiter in &mut waiters {
            match waiter.read() {
                Ok(reply) => {
                    for job in list(&reply).iter().map(Job::of) {
                        assert_eq!(q.ack(&job.receipt), 1);
                        jobs += 1;
                    }
                }
                Err(error) => assert_error(&error, "UNBLOCKED", &[]),
            }
        }
        let mut worker = Client::new(&scene);
        while jobs < 2 {
            worker.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
            let job = worker.job();
            assert_eq!((job.attempt, q.ack(&job.receipt)), (1, 1));
            jobs += 1;
        }
        assert_eq!(q.stats(["ready", "delayed", "leased", "waiting"]), [0, 0, 0, 0]);
    }
    scene.end();
}

#[test]
fn unload_is_refused_while_somebody_waits() {
    let mut server = Server::start();
    let mut q = server.queue("q");
    let mut waiter = Client::waiting(&server, "q", &["BLOCK", "0"]);
    ok!(q, "PUSH", "later", "DELAY", 100);
    for _ in 0..5 {
        let error = server.try_run(&["MODULE", "UNLOAD", "dq"]).expect_err("somebody waits");
        assert!(error.to_string().contains("blocked"), "{error}");
    }
    // It goes on as if nobody had asked.
    q.push("now");
    assert_eq!(waiter.job().payload, b"now");
    waiter.wait_for_job(&server, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    assert_eq!(waiter.job().payload, b"later");
    let mut waiter = Client::waiting(&server, "q", &["BLOCK", "0"]);
    server.set("enabled", "no");
    assert_error(&waiter.error(), "UNBLOCKED", &[]);
    q.push("between");
    q.unwatched();
    wait_for("the module to be unloaded", || server.try_run(&["MODULE", "UNLOAD", "dq"]).is_ok());
    server.run(&["PING"]);
    let module = server::module_path();
    server.run(&["MODULE", "LOAD", &module.to_string_lossy(), "takeover-grace", "0"]);
    // The unload has closed the connection, whose last command was one of the module's.
    let mut q = server.queue("q");
    let mut waiter = Client::new(&server);
    waiter.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
    assert_eq!(waiter.job().payload, b"between");
    q.watched();
    server.assert_alive();
}

#[test]
fn min_replicas_unmet_serves_nobody() {
    let Scene { primary, mut replica } = Scene::new();
    let mut q = primary.queue("q");
    let mut waiter = Client::waiting(&primary, "q", &["BLOCK", "0"]);
    ok!(q, "PUSH", "x", "DELAY", 150);
    primary.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    replica.kill();
    wait_for("the replica to be missed", || primary.info("replication", "connected_slaves") == "0");
    std::thread::sleep(Duration::from_millis(250));
    waiter.assert_silent(&primary);
    assert_eq!(q.stats(["ready", "leased"]), [1, 0]);
    primary.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_eq!(waiter.job().payload, b"x");
    assert_whole(&primary);
}

//! DQ.PAUSE and DQ.RESUME: no claims, and all else goes on.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

#[test]
fn a_paused_queue_keeps_its_waiters_waiting() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut other = scene.queue("other");
    let mut first = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    assert_eq!(text(&ok!(q, "PAUSE")), "OK");
    let mut second = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut elsewhere = Client::waiting(&scene, "other", &["BLOCK", "0"]);
    q.push(1);
    ok!(q, "PUSH", 2, "DELAY", 20);
    assert!(q.claim_n(10).is_empty());
    ok!(other, "PUSH", "later", "DELAY", 60);
    elsewhere.job();
    first.assert_silent(&scene);
    second.assert_silent(&scene);
    assert_eq!(q.stats(["paused", "waiting", "ready", "claimed"]), [1, 2, 2, 0]);
    assert_eq!(text(&ok!(q, "RESUME")), "OK");
    assert_eq!(first.job().payload, b"1");
    assert_eq!(second.job().payload, b"2");
    assert_eq!(q.stats(["paused", "waiting"]), [0, 0]);
    scene.end();
}

#[test]
fn a_wait_on_a_paused_queue_ends_in_time() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    ok!(q, "PAUSE");
    q.push("x");
    let begin = Instant::now();
    assert!(q.claim_with(args!["BLOCK", 150]).is_empty());
    assert!(begin.elapsed() >= Duration::from_millis(150));
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    scene.run(&["CLIENT", "UNBLOCK", &waiter.id.to_string()]);
    assert_nothing(&waiter.read().expect("an empty answer"));
    let waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    drop(waiter);
    q.wait_stat("waiting", 0);
    ok!(q, "RESUME");
    q.claim();
    scene.end();
}

#[test]
fn a_paused_queue_with_waiters_costs_nothing() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    ok!(q, "PAUSE");
    q.push("x");
    let mut waiters: Vec<Client> = (0..20).map(|_| Client::waiting(&scene, "q", &["BLOCK", "0"])).collect();
    q.push("y");
    let (before, begin) = (cpu(&scene), Instant::now());
    std::thread::sleep(Duration::from_millis(1500));
    let share = (cpu(&scene) - before) / begin.elapsed().as_secs_f64();
    assert!(share < 0.05, "{:.1} % of a core", share * 100.0);
    ok!(q, "RESUME");
    assert_eq!(waiters[0].job().payload, b"x");
    assert_eq!(waiters[1].job().payload, b"y");
    drop(waiters);
    scene.end();
}

#[test]
fn all_else_goes_on_while_paused() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    for i in 0..6 {
        q.push(i);
    }
    let jobs = q.claim_n(5);
    let lapses = q.claim_with(args!["LEASE", 1]).remove(0);
    ok!(q, "PAUSE");
    q.wait_lapse(&lapses.id);
    assert_eq!(q.ack(&jobs[0].receipt), 1);
    assert!(q.extend(60_000, &jobs[1].receipt) > 59_000);
    assert_eq!(q.retry(&jobs[2].receipt), 1000);
    assert_eq!(q.release(&jobs[3].receipt), 0);
    q.fail(&jobs[4].receipt);
    ok!(q, "PUSH", "x", "ID", "mine");
    ok!(q, "PUSH", "y", "ID", "mine", "REPLACE", "DELAY", "1h");
    ok!(q, "MPUSH", "PAYLOADS", 1, 2);
    assert_eq!(q.state(&jobs[3].id), "ready");
    assert_eq!(q.stats(["ready", "delayed", "leased", "dead", "paused"]), [4, 2, 1, 1, 1]);
    assert!(q.claim_n(10).is_empty());
    ok!(q, "RESUME");
    assert_eq!(q.claim_n(10).len(), 4);
    scene.end();
}

#[test]
fn pause_and_resume_again_change_nothing() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    assert_eq!(text(&ok!(q, "RESUME")), "OK");
    assert_eq!(scene.dump(), Default::default(), "RESUME makes nothing");
    ok!(q, "PAUSE");
    assert_eq!(q.stat("paused"), 1);
    let before = scene.dump();
    ok!(q, "PAUSE");
    assert_eq!(scene.dump(), before);
    ok!(q, "RESUME");
    let before = scene.dump();
    ok!(q, "RESUME");
    assert_eq!(scene.dump(), before);
    assert_eq!(q.stat("paused"), 0);
    scene.end();
}

#[test]
fn pause_push_and_resume_in_one_step() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    for end in ["DQ.RESUME", "DQ.PAUSE"] {
        let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        let mut client = Client::new(&scene);
        let all = client.call_all(&[
            args!["MULTI"],
            args!["DQ.PAUSE", "q"],
            args!["DQ.PUSH", "q", "x"],
            args!["DQ.CLAIM", "q"],
            args![end, "q"],
            args!["EXEC"],
        ]);
        let answers = list(&all[all.len() - 1]);
        assert_nothing(&answers[2]);
        if end == "DQ.PAUSE" {
            waiter.assert_silent(&scene);
            // Pause and resume in a pipeline of one write: the waiter is served at the end of it.
            client.send_all(&[args!["DQ.RESUME", "q"], args!["DQ.PAUSE", "q"], args!["DQ.RESUME", "q"]]);
        }
        assert_eq!(waiter.job().payload, b"x");
    }
    assert_eq!(q.stats(["paused", "leased"]), [0, 2]);
    scene.end();
}

#[test]
fn a_pause_survives_restarts() {
    for aof in [false, true] {
        let builder = Server::builder();
        let mut server = if aof { builder.aof() } else { builder }.start();
        let mut q = server.queue("q");
        ok!(q, "PAUSE");
        q.push("x");
        let mut empty = server.queue("empty");
        ok!(empty, "PAUSE");
        let mut resumed = server.queue("resumed");
        ok!(resumed, "PAUSE");
        resumed.push("y");
        ok!(resumed, "RESUME");
        let before = server.dump();
        if !aof {
            server.run(&["SAVE"]);
        }
        for queue in [&mut q, &mut empty, &mut resumed] {
            queue.unwatched();
        }
        server.crash_and_restart();
        assert_eq!(server.dump(), before);
        let mut q = server.queue("q");
        assert_eq!(q.stat("paused"), 1);
        assert_eq!(server.queue("empty").stat("paused"), 1);
        assert!(q.claim_n(10).is_empty());
        let mut waiter = Client::waiting(&server, "q", &["BLOCK", "0"]);
        assert_eq!(server.queue("resumed").claim().payload, b"y");
        waiter.assert_silent(&server);
        ok!(q, "RESUME");
        assert_eq!(waiter.job().payload, b"x");
    }
}

#[test]
fn a_pause_survives_a_failover() {
    let Scene { primary, replica } = Scene::new();
    let mut q = primary.queue("q");
    ok!(q, "PAUSE");
    q.push("x");
    assert_replica_same(&primary, &replica);
    q.unwatched();
    assert_eq!(replica.queue("q").stat("paused"), 1);
    let mut there = replica.queue("q");
    let error = there.call("RESUME", vec![]).expect_err("a replica takes no writes");
    assert_eq!(error.code(), Some("READONLY"));
    drop(primary);
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(there.stat("paused"), 1);
    let mut waiter = Client::waiting(&replica, "q", &["BLOCK", "0"]);
    there.push("y");
    assert!(there.claim_n(10).is_empty());
    waiter.assert_silent(&replica);
    ok!(there, "RESUME");
    assert_eq!(waiter.job().payload, b"x");
    assert_whole(&replica);
}

#[test]
fn a_pause_is_kept_when_the_header_is_deleted() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    ok!(q, "PAUSE");
    q.push("x");
    let header: Vec<(String, String)> = q.raw(args!["HGETALL", "q"]);
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    for _ in 0..5 {
        q.raw::<i64>(args!["DEL", "q"]);
        assert!(q.claim_n(10).is_empty(), "before the header is made again");
        q.wait_key("", true);
        let again: Vec<(String, String)> = q.raw(args!["HGETALL", "q"]);
        assert_eq!(again, header);
        waiter.assert_silent(&scene);
    }
    // A push comes before the header is made again.
    let mut client = Client::new(&scene);
    client.call_all(&[args!["MULTI"], args!["DEL", "q"], args!["DQ.PUSH", "q", "y"], args!["EXEC"]]);
    assert_eq!(q.stat("paused"), 1);
    waiter.assert_silent(&scene);
    ok!(q, "RESUME");
    assert_eq!(waiter.job().payload, b"x");
    scene.end();
}

#[test]
fn a_paused_queue_makes_nothing_stale() {
    let builder = Server::builder().set("purge-interval", "20").set("stale-after", "150");
    let scene = Scene::of(builder);
    let mut paused = scene.queue("paused");
    let mut open = scene.queue("open");
    ok!(paused, "PAUSE");
    paused.push("x");
    open.push("x");
    open.wait_stat("stale-purged", 1);
    // Twice more: the pause has lasted far longer than a job takes to become stale.
    for _ in 0..2 {
        open.push("x");
        let purged = open.stat("stale-purged");
        wait_for("another purge", || open.stat("stale-purged") > purged || open.stat("ready") == 0);
    }
    assert_eq!(paused.stats(["ready", "stale-purged", "dead"]), [1, 0, 0]);
    // After RESUME the time begins anew, and then it does run out.
    let resumed = paused.now();
    ok!(paused, "RESUME");
    paused.wait_stat("stale-purged", 1);
    assert!(paused.now() >= resumed + 150);
    scene.end();
}

#[test]
fn a_queue_that_is_waited_for_makes_nothing_stale() {
    let builder = Server::builder().set("purge-interval", "20").set("stale-after", "150");
    let scene = Scene::of(builder);
    let mut waited = scene.queue("waited");
    let mut open = scene.queue("open");
    ok!(waited, "PAUSE");
    let mut waiter = Client::waiting(&scene, "waited", &["BLOCK", "0"]);
    waited.push("x");
    open.push("x");
    open.wait_stat("stale-purged", 1);
    ok!(waited, "RESUME");
    assert_eq!(waiter.job().payload, b"x");
    assert_eq!(waited.stat("stale-purged"), 0);
    scene.end();
}

#[test]
fn a_waiter_of_several_queues_is_served_from_the_one_that_is_not_paused() {
    let scene = Scene::new();
    let mut paused = scene.queue("paused");
    let mut open = scene.queue("open");
    ok!(paused, "PAUSE");
    paused.push("x");
    let mut waiter = Client::new(&scene);
    waiter.wait_for_job(&scene, args!["DQ.MCLAIM", 2, "paused", "open", "BLOCK", 0]);
    open.push("y");
    assert_eq!(waiter.queued_jobs()[0].0, "open");
    waiter.wait_for_job(&scene, args!["DQ.MCLAIM", 2, "open", "paused", "BLOCK", 0]);
    ok!(paused, "RESUME");
    assert_eq!(waiter.queued_jobs()[0].0, "paused");
    scene.end();
}

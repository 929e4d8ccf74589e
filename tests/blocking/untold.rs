//! Jobs that were taken for a client that cannot be told: they go back at once, as they were.
//!
//! ACL DELUSER in one pipeline with the PUSH makes such clients: the server marks them to be closed, and closes them
//! only after the turn in which they would be served.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

/// A client of the user `name` that waits; ACL DELUSER of that user ends it.
fn doomed(server: &Server, name: &str, claim: Vec<Vec<u8>>) -> Client {
    server.run(&["ACL", "SETUSER", name, "on", "nopass", "~*", "+@all"]);
    let mut client = Client::new(server);
    client.call(args!["AUTH", name, "x"]);
    client.wait_for_job(server, claim);
    client
}

/// Sends commands in one write, and reads an answer to each.
fn at_once(server: &Server, commands: &[Vec<Vec<u8>>]) {
    Client::new(server).call_all(commands);
}

#[test]
fn a_job_taken_for_a_client_that_is_gone_goes_back_at_once() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    for shape in ["push-last", "push-first", "multi"] {
        let mut waiter = doomed(&scene, "bob", args!["DQ.CLAIM", "q", "BLOCK", 0]);
        let (push, end) = (args!["DQ.PUSH", "q", shape], args!["ACL", "DELUSER", "bob"]);
        let claimed = q.stat("claimed");
        let before = q.now();
        match shape {
            "push-last" => at_once(&scene, &[end, push]),
            "push-first" => at_once(&scene, &[push, end]),
            _ => at_once(&scene, &[args!["MULTI"], end, push, args!["EXEC"]]),
        }
        waiter.assert_closed();
        // At once, and not after its lease of 30 s.
        let begin = Instant::now();
        q.wait_stat("ready", 1);
        assert!(begin.elapsed() < Duration::from_secs(5));
        assert_eq!(q.stats(["leased", "claimed", "waiting", "lapsed", "released"]), [0, claimed, 0, 0, 0], "{shape}");
        let due = q.key("due");
        let (id, at): (String, i64) = q.raw::<Vec<(String, i64)>>(args!["ZRANGE", due, 0, 0, "WITHSCORES"]).remove(0);
        assert!((before..=q.now()).contains(&at), "its due time is as it was");
        let record = q.record(&id);
        assert_eq!((record.claims, record.lapses, record.releases), (0, 0, 0));
        let job = q.claim();
        assert_eq!((job.id, job.attempt), (id, 1));
        assert_eq!(q.ack(&job.receipt), 1, "the receipt of the next claim works");
    }
    scene.end();
}

#[test]
fn the_next_in_the_line_gets_it() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut gone = doomed(&scene, "bob", args!["DQ.CLAIM", "q", "BLOCK", 0]);
    let mut next = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    at_once(&scene, &[args!["DQ.PUSH", "q", "x"], args!["ACL", "DELUSER", "bob"]]);
    gone.assert_closed();
    let begin = Instant::now();
    let job = next.job();
    assert!(begin.elapsed() < Duration::from_secs(5), "at once, and not after its lease");
    assert_eq!((&job.payload[..], job.attempt), (&b"x"[..], 1));
    assert_eq!(q.ack(&job.receipt), 1);
    assert_eq!(q.stats(["claimed", "acked", "ready", "leased", "waiting"]), [1, 1, 0, 0, 0]);
    scene.end();
}

#[test]
fn several_jobs_go_back_in_their_order() {
    let scene = Scene::new();
    let (mut a, mut b) = (scene.queue("a"), scene.queue("b"));
    let mut one = doomed(&scene, "bob", args!["DQ.MCLAIM", 2, "a", "b", "COUNT", 10, "BLOCK", 0]);
    let mut two = doomed(&scene, "ann", args!["DQ.CLAIM", "b", "COUNT", 10, "BLOCK", 0]);
    at_once(
        &scene,
        &[
            args!["ACL", "DELUSER", "bob", "ann"],
            args!["DQ.MPUSH", "a", "PAYLOADS", 1, 2, 3],
            args!["DQ.MPUSH", "b", "JOBS", "z", 0, 1, "", 0, 2, "a", 0, 3],
        ],
    );
    one.assert_closed();
    two.assert_closed();
    for q in [&mut a, &mut b] {
        q.wait_stat("ready", 3);
        let jobs = q.claim_n(10);
        assert_eq!(jobs.iter().map(|job| &job.payload[..]).collect::<Vec<_>>(), [b"1", b"2", b"3"]);
        assert!(jobs.iter().all(|job| job.attempt == 1));
        assert_eq!(q.stats(["claimed", "waiting", "leased"]), [3, 0, 3]);
    }
    scene.end();
}

#[test]
fn a_job_with_a_past_keeps_it() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    ok!(q, "PUSH", "x", "ID", "mine");
    let job = q.claim();
    ok!(q, "RETRY", &job.receipt, "DELAY", 0, "ERROR", "e");
    let job = q.claim();
    assert_eq!(q.release(&job.receipt), 0);
    let job = q.claim_with(args!["LEASE", 1]).remove(0);
    q.wait_lapse(&job.id);
    let before = q.record("mine");
    assert_eq!((before.failures, before.lapses, before.releases, before.claims), (1, 1, 1, 3));
    let due = q.due_at("mine");
    ok!(q, "PAUSE");
    let mut gone = doomed(&scene, "bob", args!["DQ.CLAIM", "q", "BLOCK", 0]);
    at_once(&scene, &[args!["DQ.RESUME", "q"], args!["ACL", "DELUSER", "bob"]]);
    gone.assert_closed();
    wait_for("the job to be back", || q.score("due", "mine").is_some());
    assert_eq!(q.due_at("mine"), due);
    let after = q.record("mine");
    assert_eq!((after.failures, after.lapses, after.releases, after.claims), (1, 1, 1, 3));
    assert_eq!(q.state("mine"), "ready");
    // The receipt of the lapsed claim was late before, and is so again: nobody was told of a later one.
    assert_eq!(q.ack(&job.receipt), 1);
    scene.end();
}

#[test]
fn many_times_over() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    for round in 0..40 {
        let mut gone = doomed(&scene, "bob", args!["DQ.CLAIM", "q", "BLOCK", 0]);
        let mut heir = (round % 2 == 0).then(|| Client::waiting(&scene, "q", &["BLOCK", "0"]));
        at_once(&scene, &[args!["ACL", "DELUSER", "bob"], args!["DQ.PUSH", "q", round]]);
        gone.assert_closed();
        let job = match &mut heir {
            Some(heir) => heir.job(),
            None => wait_until("the job", || q.claim_n(1).pop()),
        };
        assert_eq!((&job.payload, job.attempt), (&round.to_string().into_bytes(), 1));
        assert_eq!(q.ack(&job.receipt), 1);
    }
    assert_eq!(q.stats(["claimed", "acked", "pushed", "waiting", "lapsed"]), [40, 40, 40, 0, 0]);
    scene.end();
}

#[test]
fn an_answer_larger_than_the_client_may_have_loses_no_job() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    scene.run(&["CONFIG", "SET", "client-output-buffer-limit", "normal 200000 0 0"]);
    let mut waiter = Client::waiting(&scene, "q", &["LEASE", "300", "BLOCK", "0"]);
    q.unwatched();
    let id = q.push(vec![b'x'; 1_000_000]);
    wait_for("the server to close the connection", || blocked_clients(&scene) == 0);
    drop(waiter);
    scene.run(&["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0"]);
    // Back at once or when its lease ends; in either case whole, and in one place.
    waiter = Client::new(&scene);
    waiter.send(args!["DQ.CLAIM", "q", "BLOCK", 0]);
    let job = waiter.job();
    assert_eq!((&job.id, job.payload.len()), (&id, 1_000_000));
    assert!(job.attempt <= 2);
    q.watched();
    assert_eq!(q.ack(&job.receipt), 1);
    scene.end();
}

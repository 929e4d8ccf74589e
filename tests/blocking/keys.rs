//! Keys that go, come and change places while clients wait for what is in them.

use std::time::Duration;

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

#[test]
fn a_queue_that_is_not_there_is_waited_for_and_not_made() {
    let scene = Scene::new();
    let mut waiters: Vec<Client> = (0..5).map(|_| Client::waiting(&scene, "none", &["BLOCK", "0"])).collect();
    let mut short = Client::waiting(&scene, "none", &["BLOCK", "50"]);
    let mut several = Client::new(&scene);
    several.wait_for_job(&scene, args!["DQ.MCLAIM", 3, "none", "nor", "neither", "BLOCK", 0]);
    assert_nothing(&short.read().expect("an empty answer"));
    assert_eq!(scene.dump(), Default::default());
    assert_eq!(scene.queue("none").stat("waiting"), 6);
    assert_eq!(scene.queue("neither").stat("waiting"), 1);
    waiters.clear();
    drop(several);
    scene.queue("none").wait_stat("waiting", 0);
    assert_eq!(scene.dump(), Default::default());
    assert_eq!(scene.queue("neither").stat("waiting"), 0);
    scene.end();
}

#[test]
fn flushes_leave_waiters_waiting() {
    let scene = Scene::new();
    for (round, flush) in
        ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB ASYNC", "FLUSHALL SYNC"].into_iter().enumerate()
    {
        let mut q = scene.queue("q");
        let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        ok!(q, "PUSH", "flushed", "DELAY", 40);
        ok!(q, "PUSH", "flushed", "ID", "mine", "DELAY", 40);
        scene.run(&flush.split(' ').collect::<Vec<_>>());
        assert_eq!(scene.dump(), Default::default());
        assert_eq!(q.stats(["waiting", "delayed", "paused"]), [1, 0, 0]);
        // Due after the flushed ones would have been.
        ok!(q, "PUSH", round, "ID", "mine", "DELAY", 90);
        let job = waiter.job();
        assert_eq!((job.payload, job.id.as_str()), (round.to_string().into_bytes(), "mine"));
        assert_eq!(q.ack(&job.receipt), 1);
        scene.run(&["FLUSHALL"]);
    }
    scene.end();
}

#[test]
fn a_flush_leaves_the_other_database_alone() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut three = scene.queue_in(3, "q");
    let mut here = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut there = Client::new(&scene);
    there.call(args!["SELECT", 3]);
    there.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    ok!(three, "PUSH", "there", "DELAY", 80);
    scene.run(&["FLUSHDB"]);
    assert_eq!(there.job().payload, b"there");
    here.assert_silent(&scene);
    q.push("here");
    assert_eq!(here.job().payload, b"here");
    scene.end();
}

#[test]
fn a_flushed_queue_is_not_paused() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut other = scene.queue("other");
    other.push("x");
    let dumps = ["jobs", "due"].map(|companion| {
        let key = other.key(companion);
        (q.key(companion), other.raw::<Vec<u8>>(args!["DUMP", key]))
    });
    ok!(q, "PAUSE");
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    scene.run(&["FLUSHALL"]);
    assert_eq!(q.stat("paused"), 0);
    q.unwatched();
    let mut client = Client::new(&scene);
    client.call(args!["MULTI"]);
    for (key, dump) in &dumps {
        client.call(args!["RESTORE", key, 0, dump]);
    }
    client.call(args!["EXEC"]);
    q.watched();
    assert_eq!(q.stat("paused"), 0);
    assert_eq!(waiter.job().payload, b"x");
    scene.end();
}

#[test]
fn a_database_of_another_number_is_another_queue() {
    let scene = Scene::new();
    let mut q0 = scene.queue("q");
    let mut q9 = scene.queue_in(9, "q");
    let mut here = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut there = Client::new(&scene);
    there.call(args!["SELECT", 9]);
    there.wait_for_job(&scene, args!["DQ.CLAIM", "q", "COUNT", 2, "BLOCK", 0]);
    assert_eq!((q0.stat("waiting"), q9.stat("waiting")), (1, 1));
    ok!(q9, "PUSH", "nine", "DELAY", 30);
    let jobs = there.jobs();
    assert_eq!((jobs.len(), &jobs[0].payload[..]), (1, &b"nine"[..]));
    here.assert_silent(&scene);
    q0.push("zero");
    let job = here.job();
    assert_eq!(job.payload, b"zero");
    // A receipt of the one is nothing in the other.
    assert_eq!(q9.ack(&job.receipt), 0);
    assert_eq!((q0.ack(&job.receipt), q9.ack(&jobs[0].receipt)), (1, 1));
    scene.end();
}

#[test]
fn swapdb_brings_the_jobs_of_the_other_database() {
    let scene = Scene::new();
    let mut q0 = scene.queue("q");
    let mut q1 = scene.queue_in(1, "q");
    let mut zero = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    q1.push("from one");
    scene.run(&["SWAPDB", "0", "1"]);
    assert_eq!(zero.job().payload, b"from one");
    // A delayed job goes away with its database, and one that comes is served when it is due.
    let mut zero = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut one = Client::new(&scene);
    one.call(args!["SELECT", 1]);
    one.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    ok!(q0, "PUSH", "pushed in zero", "DELAY", 60);
    ok!(q1, "PUSH", "pushed in one", "DELAY", 90);
    scene.run(&["SWAPDB", "1", "0"]);
    assert_eq!(one.job().payload, b"pushed in zero");
    assert_eq!(zero.job().payload, b"pushed in one");
    scene.end();
}

#[test]
fn swapdb_brings_its_pause_along() {
    let scene = Scene::new();
    let mut q0 = scene.queue("q");
    let mut q1 = scene.queue_in(1, "q");
    ok!(q0, "PAUSE");
    q0.push("of the paused one");
    let mut zero = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut one = Client::new(&scene);
    one.call(args!["SELECT", 1]);
    one.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    ok!(q1, "PUSH", "of the open one", "DELAY", "1h");
    scene.run(&["SWAPDB", "0", "1"]);
    assert_eq!((q0.stat("paused"), q1.stat("paused")), (0, 1));
    ok!(q0, "PUSH", "now");
    assert_eq!(zero.job().payload, b"now");
    one.assert_silent(&scene);
    ok!(q1, "RESUME");
    assert_eq!(one.job().payload, b"of the paused one");
    scene.end();
}

#[test]
fn keys_that_are_deleted_are_not_waited_for() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    for with_header in [true, false] {
        let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        ok!(q, "PUSH", "deleted", "DELAY", 40);
        let mut del = args!["DEL"];
        del.extend(["due", "jobs", "leased"].map(|companion| q.key(companion)));
        del.extend(with_header.then(|| q.name.clone()));
        q.raw::<i64>(del);
        ok!(q, "PUSH", "kept", "DELAY", 90);
        assert_eq!(waiter.job().payload, b"kept");
    }
    assert_eq!(q.stat("dangling"), 0);
    scene.end();
}

#[test]
fn a_job_whose_payload_was_deleted_is_not_half_served() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    q.unwatched();
    let gone = text(&ok!(q, "PUSH", "gone", "DELAY", 40));
    ok!(q, "PUSH", "kept", "DELAY", 80);
    let key = q.key("jobs");
    assert_eq!(q.raw::<i64>(args!["HDEL", key, &gone]), 1);
    assert_eq!(waiter.job().payload, b"kept");
    assert_eq!(q.stat("dangling"), 1);
    let key = q.key("due");
    assert_eq!(q.raw::<i64>(args!["ZREM", key, &gone]), 1);
    q.watched();
    scene.end();
}

#[test]
fn renamed_keys_are_served_under_their_new_name() {
    let scene = Scene::new();
    let mut old = scene.queue("old");
    let mut waiter = Client::waiting(&scene, "new", &["BLOCK", "0"]);
    let mut stays = Client::waiting(&scene, "old", &["BLOCK", "0"]);
    ok!(old, "PUSH", "moved", "DELAY", 60);
    let mut client = Client::new(&scene);
    client.call(args!["MULTI"]);
    for companion in ["due", "jobs"] {
        client.call(args!["RENAME", old.key(companion), queue::companion_key(b"new", companion)]);
    }
    client.call(args!["RENAME", "old", "new"]);
    client.call(args!["EXEC"]);
    assert_eq!(waiter.job().payload, b"moved");
    stays.assert_silent(&scene);
    old.push("another");
    assert_eq!(stays.job().payload, b"another");
    assert_eq!(scene.queue("new").stats(["waiting", "leased"]), [0, 1]);
    scene.end();
}

#[test]
fn restored_and_copied_keys_are_served() {
    let scene = Scene::new();
    let mut source = scene.queue("source");
    ok!(source, "PUSH", "x", "DELAY", 50);
    for (name, command) in [("copy", "COPY"), ("restored", "RESTORE")] {
        let mut waiter = Client::waiting(&scene, name, &["BLOCK", "0"]);
        let mut client = Client::new(&scene);
        let moves: Vec<Vec<Vec<u8>>> = ["jobs", "due"]
            .iter()
            .map(|companion| {
                let (from, to) = (source.key(companion), queue::companion_key(name.as_bytes(), companion));
                match command {
                    "COPY" => args!["COPY", from, to],
                    _ => args!["RESTORE", to, 0, source.raw::<Vec<u8>>(args!["DUMP", from])],
                }
            })
            .collect();
        client.call(args!["MULTI"]);
        for step in moves {
            client.call(step);
        }
        client.call(args!["EXEC"]);
        assert_eq!(waiter.job().payload, b"x");
    }
    scene.end();
}

#[test]
fn a_key_of_another_type_holds_waiters_up_until_it_is_gone() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    for companion in ["", "leased"] {
        let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        let key = if companion.is_empty() { q.name.clone() } else { q.key(companion) };
        ok!(q, "PUSH", "x", "DELAY", 60);
        q.unwatched();
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("DEL").arg(&key).cmd("SET").arg(&key).arg("text");
        pipe.exec(&mut q.con).expect("the key is another");
        std::thread::sleep(Duration::from_millis(100));
        waiter.assert_silent(&scene);
        q.raw::<i64>(args!["DEL", &key]);
        let job = waiter.job();
        assert_eq!(job.payload, b"x", "{companion}");
        assert_eq!(q.ack(&job.receipt), 1);
        q.watched();
    }
    scene.end();
}

#[test]
fn a_key_that_a_claim_has_no_use_for_holds_no_waiter_up() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    q.push_and_claim("met");
    q.unwatched();
    for companion in ["dead", "dead:at", "ids"] {
        let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        let key = q.key(companion);
        q.raw::<()>(args!["SET", &key, "text"]);
        ok!(q, "PUSH", "x", "DELAY", 20);
        let job = waiter.job();
        assert_eq!(job.payload, b"x", "{companion}");
        assert_eq!(q.ack(&job.receipt), 1);
        q.raw::<i64>(args!["DEL", &key]);
    }
    scene.end();
}

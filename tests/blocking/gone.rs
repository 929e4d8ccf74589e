//! Keys that somebody takes away, or puts in another's place, while clients wait: what becomes claimable by that is
//! claimed at once.

use crate::args;
use crate::client::*;
use crate::common::*;
use crate::ok;
use crate::scene::*;

/// A queue that may lease one job at once, has leased it, and has more.
fn full(scene: &Scene, name: &str) -> Queue {
    let mut q = scene.queue(name);
    ok!(q, "CONFIG", "SET", "max-leased", 1);
    q.push_many(5, &[]);
    assert_eq!(q.claim_with(args!["LEASE", "1h"]).len(), 1);
    // The test breaks its invariants.
    q.unwatched();
    q
}

/// What the test broke is whole again.
fn repair(q: &mut Queue) {
    ok!(q, "REPAIR");
    q.watched().check_clean();
}

#[test]
fn leases_that_go_make_room_for_those_who_wait() {
    let scene = Scene::new();
    let leased = |name: &str| queue::companion_key(name.as_bytes(), "leased");
    type Way = (&'static str, fn(&mut Queue, Vec<u8>));
    let ways: [Way; 8] = [
        ("DEL", |q, key| assert_eq!(q.raw::<i64>(args!["DEL", key]), 1)),
        ("UNLINK", |q, key| assert_eq!(q.raw::<i64>(args!["UNLINK", key]), 1)),
        ("expiry", |q, key| assert_eq!(q.raw::<i64>(args!["PEXPIRE", key, 30]), 1)),
        ("RENAME", |q, key| q.raw(args!["RENAME", key, "elsewhere"])),
        ("RENAMENX", |q, key| assert_eq!(q.raw::<i64>(args!["RENAMENX", key, "nowhere"]), 1)),
        ("MOVE", |q, key| assert_eq!(q.raw::<i64>(args!["MOVE", key, 9]), 1)),
        ("ZREMRANGEBYRANK", |q, key| assert_eq!(q.raw::<i64>(args!["ZREMRANGEBYRANK", key, 0, -1]), 1)),
        ("another in its place", |q, key| {
            q.raw::<()>(args!["RENAME", "elsewhere", key]);
        }),
    ];
    for (how, act) in ways {
        let name = how.to_lowercase();
        let mut q = full(&scene, &name);
        if how == "another in its place" {
            // One that has ended already, of no job.
            q.raw::<i64>(args!["DEL", "elsewhere"]);
            q.raw::<i64>(args!["ZADD", "elsewhere", 1, "none"]);
            ok!(q, "CONFIG", "SET", "max-leased", 2);
            q.claim();
        }
        let mut first = Client::waiting(&scene, &name, &["BLOCK", "0"]);
        let mut second = Client::waiting(&scene, &name, &["BLOCK", "0"]);
        assert!(q.claim_n(1).is_empty());
        act(&mut q, leased(&name));
        let job = first.job();
        assert_eq!(job.attempt, 1, "{how}");
        second.assert_silent(&scene);
        assert_eq!(q.ack(&job.receipt), 1, "{how}");
        second.job();
        scene.run(&["DEL", "elsewhere", "nowhere"]);
        repair(&mut q);
    }
    scene.run(&["SWAPDB", "0", "9"]);
    scene.run(&["FLUSHDB"]);
    scene.run(&["SWAPDB", "0", "9"]);
    scene.end();
}

#[test]
fn a_claim_that_does_not_wait_sees_it_at_once() {
    let scene = Scene::new();
    let mut q = full(&scene, "q");
    let key = q.key("leased");
    assert!(q.claim_n(1).is_empty());
    assert_eq!(q.raw::<i64>(args!["DEL", key]), 1);
    assert_eq!(q.claim_n(5).len(), 1);
    let mut hand = Client::new(&scene);
    let replies = hand.call_all(&[args!["MULTI"], args!["DEL", key], args!["DQ.CLAIM", "q"], args!["EXEC"]]);
    assert_eq!(list(&list(&replies[3])[1]).len(), 1);
    // An expiry that nobody has noticed yet.
    scene.run(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    assert_eq!(q.raw::<i64>(args!["PEXPIRE", key, 20]), 1);
    assert!(q.claim_n(1).is_empty());
    wait_for("the key to expire", || q.claim_n(1).len() == 1);
    scene.run(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]);
    repair(&mut q);
    scene.end();
}

#[test]
fn a_header_in_place_of_a_paused_one_lets_those_who_wait_have_jobs() {
    let scene = Scene::new();
    let mut open = scene.queue("open");
    open.push("x");
    let dump: Vec<u8> = open.raw(args!["DUMP", "open"]);
    type Way = (&'static str, fn(&mut Queue, &[u8], &str));
    let ways: [Way; 3] = [
        ("RESTORE", |q, dump, name| q.raw(args!["RESTORE", name, 0, dump, "REPLACE"])),
        ("COPY", |q, _, name| assert_eq!(q.raw::<i64>(args!["COPY", "open", name, "REPLACE"]), 1)),
        ("RENAME", |q, dump, name| {
            q.raw::<()>(args!["RESTORE", "header", 0, dump]);
            q.raw::<()>(args!["RENAME", "header", name]);
        }),
    ];
    for (how, act) in ways {
        let mut q = scene.queue(how);
        ok!(q, "PAUSE");
        q.push("y");
        let mut waiter = Client::waiting(&scene, how, &["BLOCK", "0"]);
        waiter.assert_silent(&scene);
        act(&mut q, &dump, how);
        assert_eq!(waiter.job().payload, b"y", "{how}");
    }
    scene.end();
}

#[test]
fn a_paused_queue_whose_header_goes_stays_paused() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    ok!(q, "PAUSE");
    q.push("x");
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    q.raw::<i64>(args!["DEL", "q"]);
    wait_for("the header to be made again", || q.stat("headers-remade") == 1);
    waiter.assert_silent(&scene);
    ok!(q, "RESUME");
    waiter.job();
    scene.end();
}

#[test]
fn a_key_of_another_type_that_goes_stands_in_nobodys_way() {
    let scene = Scene::new();
    for companion in ["leased", "due"] {
        let mut q = scene.queue(companion);
        let mut waiter = Client::waiting(&scene, companion, &["BLOCK", "0"]);
        let key = q.key(companion);
        q.raw::<()>(args!["SET", &key, "text"]);
        assert_error(
            &q.call("PUSH", args!["x", "ID", "i"]).map_err(|e| error_text(&e)).expect_err("refused"),
            "WRONGTYPE",
            &[],
        );
        q.raw::<i64>(args!["DEL", &key]);
        q.push("x");
        waiter.job();
    }
    scene.end();
}

#[test]
fn what_is_taken_out_by_hand_makes_room_at_the_next_look() {
    let scene = Scene::of(Server::builder().set("purge-interval", "20"));
    let mut q = scene.queue("q");
    ok!(q, "CONFIG", "SET", "max-leased", 2);
    q.push_many(5, &[]);
    let held = q.claim_with(args!["COUNT", 2, "LEASE", "1h"]);
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let key = q.key("leased");
    // One of two: the key stays, and the server tells nobody.
    q.unwatched();
    assert_eq!(q.raw::<i64>(args!["ZREM", key, &held[0].id]), 1);
    waiter.job();
    repair(&mut q);
    scene.end();
}

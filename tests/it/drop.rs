//! DQ.DROP.

use crate::common::*;
use crate::{args, err, ok};

/// Two live jobs, a letter, an id that stays taken, and PAUSE.
fn fill(q: &mut Queue) {
    ok!(q, "PUSH", "x", "ID", "dead");
    let job = q.claim();
    q.fail(&job.receipt);
    ok!(q, "PUSH", "x", "ID", "acked", "KEEP", "1h");
    let job = q.claim();
    q.ack(&job.receipt);
    ok!(q, "PUSH", "x", "ID", "ready");
    ok!(q, "PUSH", "x", "ID", "delayed", "DELAY", "1h");
    ok!(q, "PAUSE");
}

#[test]
fn the_whole_queue_goes() {
    let server = Server::start();
    server.queue("other").push("x");
    let before = server.dump();
    for name in ["q", "{tag}q"] {
        let mut q = server.queue(name);
        fill(&mut q);
        assert_eq!(int(&ok!(q, "DROP")), 3);
        assert_eq!(server.dump(), before, "{name}");
        assert_eq!(int(&ok!(q, "DROP")), 0, "asked twice");
        assert_eq!(q.stats(["ready", "delayed", "leased", "dead", "paused"]), [0; 5]);
    }
    assert_eq!(server.dump(), before);
}

#[test]
fn nothing_is_left_of_it_in_memory() {
    let server = Server::start();
    let mut q = server.queue("q");
    fill(&mut q);
    ok!(q, "DROP");
    // Neither PAUSE nor the taken id is remembered.
    assert_eq!(text(&ok!(q, "PUSH", "new", "ID", "acked", "NX")), "acked");
    assert_eq!(q.claim().payload, b"new");
}

#[test]
fn leased_jobs_need_force() {
    let server = Server::start();
    let mut q = server.queue("q");
    let held = q.push_and_claim("x");
    assert_error(&err!(q, "DROP"), "ERR", &["1 job", "FORCE"]);
    assert_eq!(int(&ok!(q, "DROP", "force")), 1);
    assert_eq!(server.dump(), Default::default());
    assert_eq!(q.ack(&held.receipt), 0);
    assert_eq!(q.extend(5000, &held.receipt), -1);
    assert_error(&err!(q, "RETRY", &held.receipt), "DQLOST", &[]);
    assert_eq!(server.dump(), Default::default(), "nothing is made");
}

#[test]
fn those_who_wait_go_on_waiting() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "DELAY", "1h");
    let mut waiter = server.queue("q");
    let thread = std::thread::spawn(move || waiter.claim_with(args!["BLOCK", 30_000]));
    q.wait_stat("waiting", 1);
    assert_eq!(int(&ok!(q, "DROP")), 1);
    assert_eq!(q.stat("waiting"), 1);
    let id = q.push("new");
    assert_eq!(thread.join().expect("it ends").remove(0).id, id);
}

#[test]
fn replicas_and_the_aof_hear_of_it() {
    let mut server = Server::builder().aof().start();
    let with = Server::builder().replica_of(&server).start();
    let without = Server::builder().without_module().replica_of(&server).start();
    for replica in [&with, &without] {
        replica.catch_up(&server);
    }
    let mut q = server.queue("q");
    fill(&mut q);
    let results: (i64, String) = redis::pipe()
        .atomic()
        .cmd("DQ.DROP")
        .arg("q")
        .cmd("DQ.PUSH")
        .arg(&["q", "new", "ID", "ready"])
        .query(&mut q.con)
        .expect("it runs");
    assert_eq!(results, (3, "ready".into()));
    for replica in [&with, &without] {
        assert_replica_same(&server, replica);
    }
    drop(q);
    let before = server.dump();
    server.crash_and_restart();
    assert_eq!(server.dump(), before);
}

#[test]
fn a_watched_key_is_touched() {
    let server = Server::start();
    let mut q = server.queue("q");
    fill(&mut q);
    let mut other = server.queue("q");
    q.raw::<()>(args!["WATCH", q.key("jobs")]);
    ok!(other, "DROP");
    q.raw::<()>(args!["MULTI"]);
    q.raw::<redis::Value>(args!["PING"]);
    assert_eq!(q.raw::<redis::Value>(args!["EXEC"]), redis::Value::Nil);
}

#[test]
fn at_maxmemory_and_where_disabled_it_works() {
    let server = Server::start();
    let mut q = server.queue("q");
    fill(&mut q);
    server.run(&["CONFIG", "SET", "maxmemory", "1mb"]);
    server.set("enabled", "no");
    assert_eq!(int(&ok!(q, "DROP")), 3);
}

#[test]
fn bad_options() {
    let server = Server::start();
    let mut q = server.queue("q");
    fill(&mut q);
    for bad in [&b""[..], b"x", b"FORCED", b"\0", b"\xff", b"-1", b"9223372036854775807"] {
        assert_error(&err!(q, "DROP", bad), "ERR", &["unknown option"]);
    }
    assert_error(&err!(q, "DROP", "FORCE", "FORCE"), "ERR", &["FORCE", "once"]);
}

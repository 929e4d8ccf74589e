//! What users do to the keys: RENAME, COPY, RESTORE, MOVE, FLUSH, SWAPDB, DEL, EXPIRE.

use crate::common::queue::companion_key;
use crate::common::*;
use crate::{args, ok};

use super::bad_input::COMPANIONS;

/// The queue's keys that are there, with the names they have under `new`.
fn keys(q: &mut Queue, new: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = vec![(q.name.clone(), new.to_vec())];
    for companion in COMPANIONS {
        all.push((q.key(companion), companion_key(new, companion)));
    }
    all.retain(|(key, _)| q.raw::<bool>(args!["EXISTS", key]));
    all
}

/// A leased job, a delayed one, a letter and a taken id.
fn furnish(q: &mut Queue, lease: &str) -> Job {
    ok!(q, "PUSH", "far", "ID", "far", "DELAY", "1h");
    let job = q.push_and_claim("dead");
    q.fail(&job.receipt);
    ok!(q, "PUSH", "held", "ID", "held");
    q.claim_with(args!["LEASE", lease]).remove(0)
}

/// Waits, by the keys alone, for the lease of the furnished queue to end; then works on it.
fn expect_served(q: &mut Queue) {
    q.wait_lapse("held");
    assert_eq!(q.record("held").lapses, 1);
    let job = q.claim();
    assert_eq!((job.id.as_str(), job.attempt), ("held", 2));
    assert_eq!(q.ack(&job.receipt), 1);
    assert_eq!(q.stats(["ready", "delayed", "leased", "dead"]), [0, 1, 0, 1]);
}

#[test]
fn renamed_keys_are_found() {
    let server = Server::start();
    let mut q = server.queue("old");
    furnish(&mut q, "500");
    let mut pipe = redis::pipe();
    pipe.atomic();
    for (from, to) in keys(&mut q, b"new") {
        pipe.cmd("RENAME").arg(from).arg(to).ignore();
    }
    pipe.exec(&mut q.con).expect("the keys are renamed");
    drop(q);
    expect_served(&mut server.queue("new"));
    let mut old = server.queue("old");
    assert_eq!(old.stats(["ready", "delayed", "leased", "dead"]), [0; 4]);
    old.push("a new life");
    assert_eq!(old.claim().payload, b"a new life");
}

#[test]
fn restored_keys_are_found() {
    let first = Server::start();
    let second = Server::start();
    let mut q = first.queue("q");
    let job = furnish(&mut q, "10m");
    let mut pipe = redis::pipe();
    pipe.atomic();
    for (key, _) in keys(&mut q, b"q") {
        let dump: Vec<u8> = q.raw(args!["DUMP", &key]);
        pipe.cmd("RESTORE").arg(key).arg(0).arg(dump).ignore();
    }
    let mut r = second.queue("q");
    pipe.exec(&mut r.con).expect("the keys are restored");
    assert_eq!(r.extend(1, &job.receipt), 1);
    expect_served(&mut r);
}

#[test]
fn restored_keys_are_found_without_a_command() {
    let first = Server::with_grace().set("takeover-grace", "1h").start();
    let second = Server::start();
    let mut q = first.queue("q");
    furnish(&mut q, "1");
    let mut pipe = redis::pipe();
    pipe.atomic();
    for (key, _) in keys(&mut q, b"q") {
        let dump: Vec<u8> = q.raw(args!["DUMP", &key]);
        pipe.cmd("RESTORE").arg(key).arg(0).arg(dump).ignore();
    }
    let mut con = second.conn();
    pipe.exec(&mut con).expect("the keys are restored");
    expect_served(&mut second.queue("q"));
}

#[test]
fn copied_keys_are_found_and_both_queues_live() {
    let server = Server::start();
    let mut q = server.queue("q");
    furnish(&mut q, "500");
    let mut pipe = redis::pipe();
    pipe.atomic();
    for (from, to) in keys(&mut q, b"copy") {
        pipe.cmd("COPY").arg(from).arg(to).ignore();
    }
    pipe.exec(&mut q.con).expect("the keys are copied");
    expect_served(&mut q);
    expect_served(&mut server.queue("copy"));
}

#[test]
fn moved_keys_are_found() {
    let server = Server::start();
    let mut q = server.queue("q");
    furnish(&mut q, "500");
    let mut pipe = redis::pipe();
    pipe.atomic();
    for (key, _) in keys(&mut q, b"q") {
        pipe.cmd("MOVE").arg(key).arg(3).ignore();
    }
    pipe.exec(&mut q.con).expect("the keys are moved");
    drop(q);
    expect_served(&mut server.queue_in(3, "q"));
    assert_eq!(server.queue("q").stats(["ready", "leased", "dead"]), [0; 3]);
}

/// The database that the client of this connection is in.
fn db_of(con: &mut redis::Connection) -> i64 {
    let info: Vec<u8> = redis::cmd("CLIENT").arg("INFO").query(con).expect("the client is told of");
    let info = String::from_utf8(info).expect("it is text");
    let db = info.split(' ').find_map(|word| word.strip_prefix("db=")).expect("it has a database");
    db.parse().expect("a number")
}

/// A primary that keeps an AOF, and its replica.
fn followed() -> (Server, Server) {
    let primary = Server::builder().aof().start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.catch_up(&primary);
    (primary, replica)
}

#[test]
fn a_move_leaves_the_client_where_it_was_and_is_the_same_everywhere() {
    let (mut primary, replica) = followed();
    let mut con = primary.conn();
    redis::cmd("SELECT").arg(2).exec(&mut con).expect("the database is there");
    for name in ["alone", "first", "second", "script"] {
        redis::cmd("SET").arg(name).arg(1).exec(&mut con).expect("it is set");
    }
    redis::cmd("MOVE").arg("alone").arg(3).exec(&mut con).expect("it is moved");
    assert_eq!(db_of(&mut con), 2);
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("MOVE").arg("first").arg(3).cmd("MOVE").arg("second").arg(5).cmd("SET").arg("after").arg(1);
    pipe.exec(&mut con).expect("they are moved");
    assert_eq!(db_of(&mut con), 2);
    let script = "redis.call('MOVE', 'script', 3) redis.call('SET', 'after script', 1)";
    redis::cmd("EVAL").arg(script).arg(0).exec(&mut con).expect("it is moved");
    assert_eq!(db_of(&mut con), 2);
    let there = primary.dump();
    let keys: Vec<_> = there.0.keys().cloned().collect();
    let expected = [(2, "after"), (2, "after script"), (3, "alone"), (3, "first"), (3, "script"), (5, "second")];
    assert_eq!(keys, expected.map(|(db, key)| (db, key.as_bytes().to_vec())));
    assert_replica_same(&primary, &replica);
    primary.crash_and_restart();
    assert_eq!(primary.dump(), there);
}

#[test]
fn a_copy_leaves_the_client_where_it_was_and_is_the_same_everywhere() {
    let (primary, replica) = followed();
    let mut con = primary.conn();
    redis::cmd("SET").arg("a").arg(1).exec(&mut con).expect("it is set");
    redis::cmd("COPY").arg("a").arg("b").arg("DB").arg(3).exec(&mut con).expect("it is copied");
    if db_of(&mut con) != 0 && primary.version().starts_with("valkey 8.1.") {
        return skip("Valkey 8.1 leaves a client in the database that it copies to (valkey-io/valkey#4024)");
    }
    assert_eq!(db_of(&mut con), 0);
    assert_replica_same(&primary, &replica);
}

#[test]
fn swapped_databases_are_told_apart() {
    let server = Server::start();
    let mut zero = server.queue_in(0, "q");
    furnish(&mut zero, "500");
    let mut two = server.queue_in(2, "q");
    two.push("other");
    drop((zero, two));
    server.run(&["SWAPDB", "0", "2"]);
    expect_served(&mut server.queue_in(2, "q"));
    let mut zero = server.queue_in(0, "q");
    assert_eq!(zero.claim().payload, b"other");
    zero.push("more");
    assert_eq!(zero.claim_n(5).len(), 1);
}

#[test]
fn a_flush_leaves_no_ghosts() {
    let mut server = Server::start();
    for how in [&["FLUSHALL"][..], &["FLUSHALL", "ASYNC"], &["FLUSHDB"], &["FLUSHDB", "SYNC"]] {
        let mut q = server.queue("q");
        let job = furnish(&mut q, "50");
        server.run(how);
        assert_eq!(q.stats(["ready", "delayed", "leased", "dead", "memory-bytes"]), [0; 5]);
        assert_eq!(q.ack(&job.receipt), 0);
        assert!(q.claim_n(5).is_empty());
        assert_eq!(text(&ok!(q, "PUSH", "again", "ID", "held", "NX")), "held");
        let again = q.claim_and_lapse();
        assert_eq!(again.payload, b"again");
        q.claim();
        assert_eq!(q.ack(&job.receipt), 0, "a receipt from before the flush");
        server.run(&["FLUSHALL"]);
    }
    server.assert_alive();
}

#[test]
fn queues_in_every_database_are_apart() {
    let server = Server::start();
    for db in [0, 1, 15] {
        let mut q = server.queue_in(db, "q");
        q.push(db);
        let job = q.claim_with(args!["LEASE", 1]).remove(0);
        q.wait_lapse(&job.id);
    }
    for db in [0, 1, 15] {
        let mut q = server.queue_in(db, "q");
        assert_eq!(q.stats(["ready", "lapsed", "pushed"]), [1, 1, 1]);
        assert_eq!(q.claim().payload, db.to_string().as_bytes());
    }
}

#[test]
fn a_missing_header_means_defaults_and_stops_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("held");
    q.push("due");
    q.raw::<i64>(args!["DEL", "q"]);
    assert_eq!(q.ack(&job.receipt), 1);
    let job = q.claim();
    assert_eq!((&job.payload[..], job.lease_ms), (&b"due"[..], 30_000));
    ok!(q, "EXTEND", 1, &job.receipt);
    q.wait_lapse(&job.id);
    assert_eq!(q.stats(["ready", "lapsed"]), [1, 1]);
}

#[test]
fn a_header_that_went_while_jobs_exist_is_made_again() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "DELAY", "1h");
    let made: String = q.raw(args!["HGET", "q", "made"]);
    for how in [args!["DEL", "q"], args!["UNLINK", "q"], args!["PEXPIRE", "q", 1]] {
        q.raw::<i64>(how);
        wait_for("the header to be there for good", || q.raw::<i64>(args!["PTTL", "q"]) == -1);
        let header: Vec<String> = q.raw(args!["HMGET", "q", "dq", "made"]);
        assert_eq!(header, ["1".to_string(), made.clone()], "as last known");
    }
}

#[test]
fn a_push_makes_a_missing_header() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    q.claim();
    server.run(&["FLUSHALL"]);
    q.push("y");
    assert_eq!(q.raw::<String>(args!["HGET", "q", "dq"]), "1");
}

#[test]
fn deleted_companions_lose_what_they_held_and_nothing_else() {
    let mut server = Server::start();
    for companion in COMPANIONS {
        let mut q = server.queue(format!("q-{companion}"));
        let held = furnish(&mut q, "50");
        q.unwatched();
        q.raw::<i64>(args!["DEL", q.key(companion)]);
        let healthy = q.push("healthy");
        let jobs = wait_until("a job", || {
            let jobs = q.claim_n(100);
            jobs.iter().any(|job| job.id == healthy).then_some(jobs)
        });
        for job in jobs {
            assert!(job.payload == b"healthy" || job.payload == b"held", "{job:?}");
            assert_eq!(q.ack(&job.receipt), 1);
        }
        let _ = q.call("ACK", args![&held.receipt]);
        ok!(q, "STATS");
        ok!(q, "CHECK");
    }
    server.assert_alive();
}

#[test]
fn a_hand_set_due_time_counts() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "DELAY", "1h"));
    assert!(q.claim_n(1).is_empty());
    q.make_due(&id);
    assert_eq!(q.claim().id, id);
}

#[test]
fn every_write_counts_for_save_points_and_watch() {
    let server = Server::start();
    let mut q = server.queue("q");
    let changes = || -> i64 { server.info("persistence", "rdb_changes_since_last_save").parse().expect("a number") };
    let mut watcher = server.conn();
    let mut watched = |keys: Vec<Vec<u8>>, q: &mut Queue, act: &mut dyn FnMut(&mut Queue)| {
        redis::cmd("WATCH").arg(keys).exec(&mut watcher).expect("WATCH answers");
        let before = changes();
        act(q);
        assert!(changes() > before, "a write that no save point sees");
        let done: redis::Value =
            redis::pipe().cmd("MULTI").cmd("PING").cmd("EXEC").query(&mut watcher).expect("the transaction answers");
        assert_eq!(list(&done)[2], redis::Value::Nil, "a write that WATCH does not see");
    };
    let (due, leased, jobs) = (q.key("due"), q.key("leased"), q.key("jobs"));
    let (dead, at, ids) = (q.key("dead"), q.key("dead:at"), q.key("ids"));
    let mut held = None;
    for key in [&due, &jobs, &ids, &b"q".to_vec()] {
        watched(vec![key.clone()], &mut q, &mut |q| {
            ok!(q, "PUSH", "x", "ID", "mine");
        });
        server.run(&["FLUSHALL"]);
    }
    for key in [&due, &leased] {
        q.push("x");
        watched(vec![key.clone()], &mut q, &mut |q| held = Some(q.claim()));
    }
    let job = held.take().expect("it was claimed");
    watched(vec![leased.clone()], &mut q, &mut |q| {
        q.extend(60_000, &job.receipt);
    });
    watched(vec![jobs.clone()], &mut q, &mut |q| {
        q.retry(&job.receipt);
    });
    for key in [&dead, &at] {
        q.push("x");
        let job = q.claim();
        watched(vec![key.clone()], &mut q, &mut |q| q.fail(&job.receipt));
    }
    q.push("x");
    let job = q.claim_with(args!["LEASE", 200]).remove(0);
    watched(vec![due, leased], &mut q, &mut |q| q.wait_lapse(&job.id));
}

/// Copies a key of database 0 to database 1. Valkey 8.1 leaves the client there (valkey-io/valkey#4024).
fn copy_over(q: &mut Queue, from: &[u8], to: &[u8]) {
    assert_eq!(q.raw::<i64>(args!["COPY", from, to, "DB", 1]), 1);
    q.raw::<()>(args!["SELECT", 0]);
}

/// Puts a header that says "paused" in place of the one of `q`, by a command that is no command of the module.
type Swap = (&'static str, fn(&mut Queue));

const HEADER_SWAPS: [Swap; 8] = [
    ("RENAME", |q| q.raw(args!["RENAME", "aside", "q"])),
    ("COPY", |q| assert_eq!(q.raw::<i64>(args!["COPY", "aside", "q", "REPLACE"]), 1)),
    ("RESTORE", |q| {
        let dump: Vec<u8> = q.raw(args!["DUMP", "aside"]);
        q.raw(args!["RESTORE", "q", 0, dump, "REPLACE"])
    }),
    ("MOVE", |q| {
        copy_over(q, b"aside", b"q");
        let mut pipe = redis::pipe();
        // In one step, since a header that goes while there are jobs is made again.
        pipe.atomic().cmd("DEL").arg("q").cmd("SELECT").arg(1).cmd("MOVE").arg("q").arg(0).cmd("SELECT").arg(0);
        let (_, _, moved, _): (i64, (), i64, ()) = pipe.query(&mut q.con).expect("the key moves");
        assert_eq!(moved, 1);
    }),
    ("EXEC", |q| {
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("DQ.STATS").arg("q").cmd("DEL").arg("q").cmd("RENAME").arg("aside").arg("q");
        pipe.exec(&mut q.con).expect("all is done");
    }),
    ("EVAL", |q| {
        let script = "redis.call('DEL', 'q') redis.call('RENAME', 'aside', 'q')";
        q.raw(args!["EVAL", script, 2, "aside", "q"])
    }),
    ("SWAPDB", |q| {
        for companion in ["", "due", "leased", "jobs"] {
            let key = if companion.is_empty() { b"q".to_vec() } else { q.key(companion) };
            let source = if companion.is_empty() { b"aside".to_vec() } else { key.clone() };
            copy_over(q, &source, &key);
        }
        q.raw(args!["SWAPDB", 0, 1])
    }),
    ("DEBUG RELOAD", |q| {
        q.raw::<()>(args!["RENAME", "aside", "q"]);
        q.raw(args!["DEBUG", "RELOAD"])
    }),
];

#[test]
fn what_is_remembered_of_a_header_goes_with_it() {
    for (how, swap) in HEADER_SWAPS {
        let server = Server::builder().line("enable-debug-command yes").start();
        let mut q = server.queue("q");
        q.push_and_claim("held");
        q.push("x");
        q.unwatched();
        let mut other = server.queue("other");
        ok!(other, "PAUSE");
        q.raw::<()>(args!["RENAME", "other", "aside"]);
        swap(&mut q);
        assert_eq!(q.stat("paused"), 1, "{how}");
        assert!(q.claim_n(1).is_empty(), "{how}: a job of a paused queue was claimed");
        ok!(q, "PUSH", "y");
        assert!(q.claim_n(1).is_empty(), "{how}: a push made the queue forget its pause");
        ok!(q, "RESUME");
        assert_eq!(q.claim_n(2).len(), 2, "{how}");
    }
}

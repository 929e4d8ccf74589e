//! DQ.PURGE. (The purge of stale jobs is in purge.rs.)

use crate::common::*;
use crate::{args, err, ok};

const STATES: [&str; 4] = ["ready", "delayed", "leased", "dead"];

/// Two jobs in each state, by ids that begin with its name; gives the receipt of a leased one.
fn two_of_each(q: &mut Queue) -> String {
    let mut held = String::new();
    for n in 1..3 {
        ok!(q, "PUSH", "x", "ID", format!("dead{n}"), "KEEP", "1h");
        let job = q.claim();
        ok!(q, "FAIL", job.receipt, "ERROR", "e");
        ok!(q, "PUSH", "x", "ID", format!("leased{n}"), "KEEP", "1h");
        held = q.claim_with(args!["LEASE", "1h"]).remove(0).receipt;
    }
    for n in 1..3 {
        ok!(q, "PUSH", "x", "ID", format!("ready{n}"), "KEEP", "1h");
        ok!(q, "PUSH", "x", "ID", format!("delayed{n}"), "DELAY", "1h", "KEEP", "1h");
    }
    held
}

#[test]
fn the_states_that_are_named_go_and_no_other() {
    let server = Server::start();
    for mask in 1..16 {
        let mut q = server.queue("q");
        two_of_each(&mut q);
        let (named, others): (Vec<_>, Vec<_>) = (0..4).partition(|i| mask & (1 << i) != 0);
        let words: Vec<&str> = named.iter().map(|i: &usize| STATES[*i]).collect();
        assert_eq!(int(&ok!(q, "PURGE", "state", &words)), 2 * words.len() as i64);
        let left = q.stats(STATES);
        assert!(named.iter().all(|i| left[*i] == 0) && others.iter().all(|i| left[*i] == 2), "{words:?}: {left:?}");
        assert_eq!(q.stats(["purged", "purging", "cancelled"]), [2 * words.len() as i64, 0, 0]);
        assert_eq!(int(&ok!(q, "PURGE", "STATE", &words)), 0, "asked twice");
        server.run(&["FLUSHALL"]);
    }
}

#[test]
fn nothing_but_the_header_is_left_of_all() {
    let server = Server::start();
    let mut q = server.queue("q");
    two_of_each(&mut q);
    assert_eq!(int(&ok!(q, "PURGE", "STATE", "DEAD", "Leased", "delayed", "ready")), 8);
    // The ids of what is gone are free, but for those that KEEP still holds after their death: none.
    let keys: Vec<_> = server.dump().0.into_keys().map(|(_, key)| key).collect();
    assert_eq!(keys, [b"q".to_vec()]);
}

#[test]
fn a_queue_that_is_not_there() {
    let server = Server::start();
    assert_eq!(int(&ok!(server.queue("q"), "PURGE", "STATE", "ready", "dead")), 0);
    assert_eq!(server.dump(), Default::default(), "nothing is made");
}

#[test]
fn the_ids_are_free_at_once() {
    let server = Server::start();
    let mut q = server.queue("q");
    two_of_each(&mut q);
    ok!(q, "PURGE", "STATE", "ready", "delayed", "leased");
    for state in STATES {
        assert_eq!(text(&ok!(q, "PUSH", "y", "ID", format!("{state}1"), "NX", "DELAY", "1h")), format!("{state}1"));
    }
    // Of letters the ids are those of the jobs that were pushed since.
    ok!(q, "PUSH", "y", "ID", "dead2", "KEEP", "1h", "DELAY", "1h");
    assert_eq!(int(&ok!(q, "PURGE", "STATE", "dead")), 2);
    assert_eq!(q.state("dead2"), "delayed");
    assert_eq!(ok!(q, "PUSH", "z", "ID", "dead2", "NX"), redis::Value::Nil);
}

#[test]
fn receipts_of_purged_jobs_are_stale() {
    let server = Server::start();
    let mut q = server.queue("q");
    let held = two_of_each(&mut q);
    ok!(q, "PURGE", "STATE", "leased");
    for again in [false, true] {
        if again {
            ok!(q, "PUSH", "y", "ID", "leased2");
            q.claim_n(10);
        }
        assert_eq!(q.ack(&held), 0);
        assert_eq!(q.extend(5000, &held), -1);
        assert_eq!(q.release(&held), -1);
        assert_error(&err!(q, "RETRY", &held), "DQLOST", &[]);
        assert_error(&err!(q, "FAIL", &held), "DQLOST", &[]);
    }
}

#[test]
fn late_receipts_of_purged_jobs_and_letters_are_stale() {
    let server = Server::builder().set("max-lapses", "2").start();
    let mut q = server.queue("q");
    q.push("x");
    let late = q.claim_and_lapse();
    ok!(q, "PURGE", "STATE", "ready");
    assert_eq!(q.ack(&late.receipt), 0);
    q.push("x");
    q.claim_and_lapse();
    let dead = q.claim_and_lapse();
    assert_eq!(q.state(&dead.id), "dead");
    ok!(q, "PURGE", "STATE", "dead");
    assert_eq!(q.ack(&dead.receipt), 0);
}

#[test]
fn entries_without_a_job_are_left_to_check() {
    let server = Server::start();
    let mut q = server.queue("q");
    two_of_each(&mut q);
    q.unwatched();
    q.raw::<i64>(args!["HDEL", q.key("jobs"), "ready1", "leased1", "delayed1"]);
    q.raw::<i64>(args!["HDEL", q.key("dead"), "dead1"]);
    ok!(q, "PURGE", "STATE", "ready", "delayed", "leased", "dead");
    assert_eq!(q.stats(["ready", "delayed", "leased", "dead"]), [1, 1, 1, 0]);
    assert_eq!(list(&ok!(q, "CHECK")).len(), 4);
}

#[test]
fn bad_options() {
    let server = Server::start();
    let mut q = server.queue("q");
    two_of_each(&mut q);
    for bad in [&b""[..], b"lost", b"\0", b"\xff", b"-1", b"9223372036854775807", b"all"] {
        assert_error(&err!(q, "PURGE", "STATE", bad), "ERR", &["STATE", "ready, delayed, leased or dead"]);
        assert_error(&err!(q, "PURGE", "STATE", "ready", bad), "ERR", &["STATE"]);
        assert_error(&err!(q, "PURGE", bad, "ready"), "ERR", &["unknown option"]);
    }
    assert_error(&err!(q, "PURGE", "STATE", "ready", "READY"), "ERR", &["STATE", "ready", "twice"]);
    assert_error(&err!(q, "PURGE", "STATE"), "ERR", &[]);
    server.set("enabled", "no");
    assert_error(&err!(q, "PURGE", "STATE", "ready"), "DQDISABLED", &[]);
}

#[test]
fn at_maxmemory_it_still_works() {
    let server = Server::start();
    let mut q = server.queue("q");
    two_of_each(&mut q);
    server.run(&["CONFIG", "SET", "maxmemory", "1mb"]);
    assert_eq!(int(&ok!(q, "PURGE", "STATE", "ready", "delayed", "leased", "dead")), 8);
}

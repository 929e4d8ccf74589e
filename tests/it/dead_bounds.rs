//! The bounds of the dead letters: how many, and how old.

use crate::args;
use crate::common::*;
use crate::ok;

/// Makes `n` letters, oldest first.
fn bury(q: &mut Queue, n: usize) -> Vec<String> {
    (0..n)
        .map(|i| {
            let job = q.push_and_claim(i);
            q.fail(&job.receipt);
            job.id
        })
        .collect()
}

fn letters(q: &mut Queue) -> Vec<String> {
    let key = q.key("dead:at");
    q.raw(args!["ZRANGE", key, 0, -1])
}

#[test]
fn the_oldest_letters_go_where_there_are_too_many() {
    let server = Server::start();
    server.set("dead-max", "5");
    let mut q = server.queue("q");
    let ids = bury(&mut q, 12);
    q.wait_stat("dead", 5);
    let mut left = letters(&mut q);
    left.sort();
    assert_eq!(left, ids[7..], "the newest five are left");
    assert_eq!(q.stats(["dead-evicted", "failed"]), [7, 12]);
    assert_eq!(q.state(&ids[0]), "gone");
}

#[test]
fn every_way_of_dying_keeps_to_the_bound() {
    let server = Server::start();
    server.set("dead-max", "2");
    server.set("max-lapses", "1");
    let mut q = server.queue("q");
    for _ in 0..3 {
        bury(&mut q, 1);
        ok!(q, "PUSH", "x", "RETRIES", 0);
        let job = q.claim();
        assert_eq!(q.retry(&job.receipt), -1);
        q.push("x");
        q.claim_and_lapse();
    }
    q.wait_stat("dead", 2);
    assert_eq!(q.stat("dead-evicted"), 7);
}

#[test]
fn a_lower_bound_trims_what_is_there() {
    let server = Server::start();
    let mut q = server.queue("q");
    let ids = bury(&mut q, 30);
    assert_eq!(q.stats(["dead", "dead-evicted"]), [30, 0]);
    server.set("purge-interval", "10");
    server.set("dead-max", "10");
    q.wait_stat("dead", 10);
    assert_eq!(q.stat("dead-evicted"), 20);
    let mut left = letters(&mut q);
    left.sort();
    assert_eq!(left, ids[20..]);
}

#[test]
fn many_letters_are_trimmed_in_slices_to_the_end() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut pipe = redis::pipe();
    for i in 0..5000 {
        pipe.cmd("DQ.PUSH").arg("q").arg(i).ignore();
    }
    pipe.exec(&mut q.con).expect("the pushes answer");
    let mut pipe = redis::pipe();
    for _ in 0..5 {
        for job in q.claim_n(1000) {
            pipe.cmd("DQ.FAIL").arg("q").arg(job.receipt).ignore();
        }
    }
    pipe.exec(&mut q.con).expect("the failures answer");
    assert_eq!(q.stat("dead"), 5000);
    server.set("purge-interval", "10");
    server.set("dead-max", "1");
    q.wait_stat("dead", 1);
    assert_eq!(q.stat("dead-evicted"), 4999);
}

#[test]
fn old_letters_go_by_themselves() {
    let server = Server::start();
    let mut q = server.queue("q");
    let ids = bury(&mut q, 10);
    let long_ago = q.now() - 91 * 86_400_000;
    for id in &ids[..6] {
        q.raw::<i64>(args!["ZADD", q.key("dead:at"), "XX", long_ago, id]);
    }
    server.set("purge-interval", "10");
    let (dead, at) = (q.key("dead"), q.key("dead:at"));
    wait_for("the old letters to go", || {
        q.raw::<i64>(args!["ZCARD", &at]) == 4 && q.raw::<i64>(args!["HLEN", &dead]) == 4
    });
    assert_eq!(letters(&mut q), ids[6..]);
    assert_eq!(q.stats(["dead", "dead-evicted"]), [4, 6]);
    server.set("dead-max-age", "1");
    wait_for("the others to go", || q.raw::<i64>(args!["EXISTS", &at]) == 0);
    assert_eq!(q.stats(["dead", "dead-evicted"]), [0, 10]);
}

#[test]
fn evicted_letters_are_told_in_the_figures_only() {
    let server = Server::start();
    server.set("dead-max", "1");
    let mut q = server.queue("q");
    let ids = bury(&mut q, 2);
    q.wait_stat("dead", 1);
    assert_eq!(q.state(&ids[0]), "gone");
    assert_eq!(q.state(&ids[1]), "dead");
    assert_eq!(q.stats(["ready", "leased", "failed"]), [0, 0, 2]);
}

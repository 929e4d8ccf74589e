//! A server that stands still: frozen, as by SIGSTOP, a machine that is suspended, or memory that is swapped out.

use std::time::{Duration, Instant};

use crate::blocked::Blocked;
use crate::common::{assert_error, assert_replica_same, error_text, wait_for, Queue, Server, PAUSE};
use crate::{args, err, ok};

/// How long it stands still: longer than a standstill has to be, and than replicas may be silent here.
const FROZEN: Duration = Duration::from_millis(2200);

/// How long it is watched that nothing happens.
const WATCH: Duration = Duration::from_millis(1000);

fn quiet(server: &Server, name: &str) -> Queue {
    let mut q = server.queue(name);
    q.unwatched();
    q
}

/// Freezes the server for a while; gives the moment in which it goes on.
fn freeze(server: &Server, meanwhile: impl FnOnce()) -> Instant {
    server.signal(libc::SIGSTOP);
    let end = Instant::now() + FROZEN;
    meanwhile();
    wait_for("time to pass", || Instant::now() >= end);
    server.signal(libc::SIGCONT);
    Instant::now()
}

fn guarded_pair() -> (Server, Server) {
    let primary = Server::builder().line("min-replicas-to-write 1").line("min-replicas-max-lag 1").start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for("the replica to count", || primary.info("replication", "min_slaves_good_slaves") == "1");
    (primary, replica)
}

#[test]
fn a_primary_that_lost_its_replicas_while_it_was_frozen_hands_out_nothing() {
    let (mut primary, replica) = guarded_pair();
    let mut waiter = Blocked::in_line(&primary, "q", args!["BLOCK", 0]);
    let mut late: Vec<_> = (0..3).map(|_| primary.conn()).collect();
    let mut asked = Vec::new();
    let mut q = quiet(&primary, "q");
    ok!(q, "PUSH", "x", "DELAY", 1000);
    // The replica is not there to close the connection, as where a cable is cut.
    replica.signal(libc::SIGSTOP);
    freeze(&primary, || asked.extend(late.drain(..).map(|con| Blocked::begin_on(con, "q", args![]))));
    for claim in asked {
        assert_error(&claim.end().error(), "NOREPLICAS", &[]);
    }
    let error = err!(q, "PUSH", "y");
    assert_error(&error, "NOREPLICAS", &[]);
    wait_for("the primary itself to notice it", || {
        assert!(waiter.waits(), "a waiter was served by a primary that was cut off");
        let error = error_text(&q.call("CLAIM", args![]).expect_err("nothing is given out"));
        assert_error(&error, "NOREPLICAS", &[]);
        error.contains("Not enough good replicas")
    });
    let end = Instant::now() + WATCH;
    while Instant::now() < end {
        std::thread::sleep(PAUSE);
        assert!(waiter.waits(), "a waiter was served by a primary that was cut off");
    }
    replica.signal(libc::SIGCONT);
    assert_eq!(waiter.end().jobs().len(), 1);
    assert_replica_same(&primary, &replica);
    primary.assert_alive();
}

#[test]
fn a_primary_that_was_frozen_goes_on_as_soon_as_its_replicas_have_answered() {
    let (mut primary, replica) = guarded_pair();
    let waiter = Blocked::in_line(&primary, "q", args!["BLOCK", 0]);
    ok!(quiet(&primary, "q"), "PUSH", "x", "DELAY", 1000);
    let thawed = freeze(&primary, || ());
    let answer = waiter.end();
    let after = answer.at - thawed;
    assert_eq!(answer.jobs().len(), 1);
    eprintln!("served {after:?} after the thaw");
    // The server sees an answer once a second, and knows only whole seconds.
    assert!(after > Duration::from_millis(1000) && after < Duration::from_secs(4), "served {after:?} after the thaw");
    assert!(primary.log().contains("dq: the server stood still for 2"), "{}", primary.log());
    assert_replica_same(&primary, &replica);
    primary.assert_alive();
}

#[test]
fn a_server_without_replicas_goes_on_at_once() {
    let server = Server::start();
    let waiter = Blocked::in_line(&server, "q", args!["BLOCK", 0]);
    ok!(quiet(&server, "q"), "PUSH", "x", "DELAY", 1000);
    let thawed = freeze(&server, || ());
    let answer = waiter.end();
    let after = answer.at.saturating_duration_since(thawed);
    assert_eq!(answer.jobs().len(), 1);
    assert!(after < Duration::from_millis(1000), "served {after:?} after the thaw");
}

#[test]
fn workers_that_were_cut_off_by_a_standstill_get_the_grace() {
    let server = Server::with_grace().set("takeover-grace", "1500").start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x");
    let job = q.claim_with(args!["LEASE", 1000]).remove(0);
    let thawed = freeze(&server, || ());
    q.wait_lapse(&job.id);
    let after = thawed.elapsed();
    assert!(after >= Duration::from_millis(1500), "the lease ended {after:?} after the thaw");
    assert_eq!(q.ack(&job.receipt), 1);
}

#[test]
fn jobs_do_not_grow_stale_while_the_server_stands_still() {
    let server = Server::builder().set("stale-after", "1500").set("purge-interval", "20").start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "DELAY", 300);
    let thawed = freeze(&server, || ());
    q.wait_stat("dead", 1);
    let after = thawed.elapsed();
    assert!(after >= Duration::from_millis(1450), "the job went as stale {after:?} after the thaw");
}

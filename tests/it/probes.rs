//! What DQ asks the server before it acts: each question leaves everything as it is, whatever the keys hold.

use crate::args;
use crate::common::*;

/// Runs the timers of the module a few times; each run asks first whether writes are taken.
fn let_timers_run(server: &Server) {
    let runs = || server.info("dq", "dq_timer_runs").parse::<u64>().expect("a number");
    let enough = runs() + 5;
    wait_for("the timers to run", || runs() >= enough);
}

#[test]
fn asking_whether_writes_are_taken_changes_nothing() {
    let primary = Server::builder().aof().start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.catch_up(&primary);
    let mut q = primary.queue("q");
    q.unwatched();
    q.push("x");
    let job = q.claim_with(args!["LEASE", "1h"]).remove(0);
    // Fields and members that no job has, and that an innocent removal would take away.
    for companion in ["jobs", "dead"] {
        q.raw::<i64>(args!["HSET", q.key(companion), "", "theirs"]);
    }
    for companion in ["due", "leased", "ids", "dead:at"] {
        let at = q.now() + 3_600_000;
        q.raw::<i64>(args!["ZADD", q.key(companion), at, ""]);
        q.raw::<i64>(args!["ZADD", q.key(companion), at, "theirs"]);
    }
    let offset = || primary.info("replication", "master_repl_offset");
    let (before, said_before) = (primary.dump(), offset());
    let_timers_run(&primary);
    assert_eq!(primary.dump(), before);
    assert_eq!(offset(), said_before, "replicas and the AOF were told of something");
    assert_replica_same(&primary, &replica);
    assert_eq!(q.ack(&job.receipt), 1);
}

/// A key of another type is no reason to believe that no writes are taken.
#[test]
fn a_key_of_another_type_does_not_stop_the_node() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    q.push("x");
    let due = q.key("due");
    q.raw::<()>(args!["SET", &due, "no zset"]);
    let_timers_run(&server);
    assert_eq!(server.info("dq", "dq_takes_writes"), "1");
    assert_eq!(q.raw::<String>(args!["GET", &due]), "no zset");
    let mut other = server.queue("other");
    other.push("y");
    other.claim_and_lapse();
}

//! Who acts, and who does not: replicas, promotion, demotion, and primaries whose writes are held back or refused.

use std::fs;
use std::time::{Duration, Instant};

use crate::blocked::{waiting, Blocked};
use crate::common::server::Builder;
use crate::common::*;
use crate::crew::{Crew, Diary, Plan};
use crate::{args, ok};

/// How long a test watches that something does not happen.
const WATCH: Duration = Duration::from_millis(600);

fn role(server: &Server) -> String {
    server.info("replication", "role")
}

/// A primary with an append only file, and its replica. Both end leases at once.
fn pair(builder: Builder) -> (Server, Server) {
    let primary = builder.clone().start();
    let replica = builder.replica_of(&primary).start();
    replica.catch_up(&primary);
    wait_for("the replica to be online", || primary.info("replication", "slave0").contains("state=online"));
    (primary, replica)
}

/// Watches for a while that the keys stay as they are and none of these claims is answered.
#[track_caller]
fn assert_stands_still(server: &Server, blocked: &mut [Blocked]) {
    let before = server.dump();
    let end = Instant::now() + WATCH;
    while Instant::now() < end {
        std::thread::sleep(PAUSE);
        assert!(blocked.iter_mut().all(Blocked::waits), "a waiter was served");
    }
    assert_eq!(server.dump(), before);
}

/// Work of every kind that is due within a moment: a delayed job that a client waits for, a lease that ends, an id
/// that becomes free, a stale job, a letter too old.
struct Trap {
    server_was: usize,
    waiter: Blocked,
    lapsing: String,
}

/// The settings under which all of a trap goes off.
fn trap_settings(builder: Builder) -> Builder {
    builder.set("purge-interval", "10").set("stale-after", "100").set("dead-max-age", "150").set("stale-policy", "keep")
}

impl Trap {
    /// Laid so that all goes off in `in_ms`.
    fn lay(server: &Server, in_ms: i64) -> Trap {
        let server_was = waiting(server);
        server.set("stale-policy", "keep");
        let mut q = server.queue("lapsing");
        q.unwatched();
        q.push("x");
        let lapsing = q.claim_with(args!["LEASE", in_ms]).remove(0).id;
        let mut q = server.queue("upkeep");
        q.unwatched();
        ok!(q, "PUSH", "letter");
        let letter = q.claim();
        ok!(q, "PUSH", "x", "ID", "mine", "KEEP", in_ms, "DELAY", in_ms);
        q.fail(&letter.receipt);
        let waiter = Blocked::in_line(server, "waited", args!["BLOCK", 0]);
        let mut q = server.queue("waited");
        q.unwatched();
        ok!(q, "PUSH", "x", "DELAY", in_ms);
        server.set("stale-policy", "dead");
        Trap { server_was, waiter, lapsing }
    }

    /// All has gone off: each of it once.
    fn assert_sprung(self, server: &Server) {
        let jobs = self.waiter.end().jobs();
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].attempt, 1);
        assert_eq!(waiting(server), self.server_was);
        let mut q = server.queue("lapsing");
        q.wait_lapse(&self.lapsing);
        // It may be stale by now.
        assert_eq!(q.field(&self.lapsing, "lapses"), "1");
        let mut q = server.queue("upkeep");
        wait_for("the upkeep", || q.raw::<i64>(args!["EXISTS", q.key("due"), q.key("ids"), q.key("dead")]) == 0);
        server.queue("waited").check_clean();
    }
}

#[test]
fn a_replica_has_no_timers_and_no_waiters() {
    let (primary, replica) = pair(Server::builder());
    let mut q = primary.queue("q");
    ok!(q, "PUSH", "x", "DELAY", 50);
    replica.catch_up(&primary);
    for words in [args!["BLOCK", 0], args!["BLOCK", 1000, "COUNT", 5]] {
        assert_error(&Blocked::begin(&replica, "q", words).end().error(), "READONLY", &[]);
    }
    assert_eq!(waiting(&replica), 0);
    assert_eq!((replica.info("dq", "dq_acting"), primary.info("dq", "dq_acting")), ("0".into(), "1".into()));
    // No timer is armed: a module with one could not be taken out.
    replica.run(&["MODULE", "UNLOAD", "dq"]);
}

/// Fails unless every job whose push was answered was finished, and claimed once unless `again` allows more.
#[track_caller]
fn assert_accounted(diary: &Diary, server: &Server, again: bool) {
    let lost: Vec<_> = diary.pushed.keys().filter(|payload| !diary.acked.contains_key(*payload)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}\n{:?}", diary.errors);
    if !again {
        let twice: Vec<_> = diary.claims.iter().filter(|(_, attempts)| attempts.len() != 1).collect();
        assert!(twice.is_empty(), "claimed more than once: {twice:?}\n{:?}", diary.errors);
        let odd: Vec<_> = diary.acked.iter().filter(|(_, times)| **times != 1).collect();
        assert!(odd.is_empty(), "finished other than once: {odd:?}");
    }
    let mut q = server.queue("stream");
    q.check_clean();
    assert_eq!(q.stats(["ready", "delayed", "leased"]), [0, 0, 0], "{:?}", diary.errors);
}

const STREAM: Plan = Plan { queue: "stream", workers: 12, pause: Duration::from_millis(2), replicated: false };

#[test]
fn a_failover_in_the_middle_of_a_stream_loses_and_doubles_nothing() {
    let (mut one, mut two) = pair(Server::with_grace().aof());
    let crew = Crew::begin(&one, STREAM);
    for turn in 0..4 {
        let (from, to) = if turn % 2 == 0 { (&one, &two) } else { (&two, &one) };
        crew.wait_pushes(150);
        wait_for("the replica", || from.try_run(&["FAILOVER"]).is_ok());
        wait_for("the failover", || role(to) == "master" && role(from) == "slave");
        crew.turn_to(to);
        wait_for("the link", || from.info("replication", "master_link_status") == "up");
    }
    crew.wait_pushes(150);
    let diary = crew.end();
    eprintln!("failovers: {} jobs, {:?}", diary.pushed.len(), diary.errors);
    assert!(diary.errors.keys().any(|error| error.starts_with("claim ")), "{:?}", diary.errors);
    assert_accounted(&diary, &one, false);
    assert_replica_same(&one, &two);
    one.assert_alive();
    two.assert_alive();
}

#[test]
fn a_promotion_in_the_middle_of_a_stream_takes_over() {
    for _ in 0..3 {
        let (mut one, mut two) = pair(Server::with_grace().set("takeover-grace", "200").set("lease", "1500"));
        let crew = Crew::begin(&one, Plan { replicated: true, ..STREAM });
        crew.wait_pushes(150);
        one.kill();
        two.run(&["REPLICAOF", "NO", "ONE"]);
        // A replica of its own, so that the producer's WAIT is answered.
        let three = Server::with_grace().replica_of(&two).start();
        crew.turn_to(&two);
        crew.wait_pushes(150);
        let diary = crew.end();
        eprintln!("promotion: {} jobs, {:?}", diary.pushed.len(), diary.errors);
        // A claim that no replica had is made twice.
        assert_accounted(&diary, &two, true);
        assert_replica_same(&two, &three);
        two.assert_alive();
    }
}

#[test]
fn a_waiter_on_a_promoted_replica_is_woken_without_another_command() {
    let (mut one, two) = pair(Server::with_grace());
    // So many keys that the walk which finds the queues takes a while.
    let mut con = one.conn();
    for from in (0..100_000).step_by(10_000) {
        let mut mset = redis::cmd("MSET");
        for i in from..from + 10_000 {
            mset.arg(format!("key-{i}")).arg("value");
        }
        mset.exec(&mut con).expect("MSET answers");
    }
    let mut due = Vec::new();
    for i in 0..20 {
        let mut q = one.queue(format!("q{i}"));
        q.unwatched();
        let id = text(&ok!(q, "PUSH", "x", "DELAY", if i < 10 { 0 } else { 3000 }));
        due.push((id.clone(), q.due_at(&id)));
    }
    two.catch_up(&one);
    one.kill();
    // Sent in one go, so that they wait before anything has been found.
    let mut cons: Vec<_> = (0..20).map(|_| two.conn()).collect();
    two.run(&["REPLICAOF", "NO", "ONE"]);
    for (i, con) in cons.iter_mut().enumerate() {
        let claim = redis::cmd("DQ.CLAIM").arg(format!("q{i}")).arg("BLOCK").arg(0).get_packed_command();
        con.send_packed_command(&claim).expect("it is sent");
    }
    let mut best = i64::MAX;
    let mut clock = two.queue("clock");
    for (i, con) in cons.iter_mut().enumerate() {
        let jobs = list(&con.recv_response().expect("a job"));
        let now = clock.now();
        let (id, at) = &due[i];
        assert_eq!((&Job::of(&jobs[0]).id, jobs.len()), (id, 1));
        assert!(now >= *at, "before its time");
        if i >= 10 {
            best = best.min(now - at);
        }
    }
    assert!(best <= 100, "{best} ms late at best");
    assert_eq!(waiting(&two), 0);
}

#[test]
fn a_replica_that_got_the_module_late_or_was_disabled_takes_over() {
    for late in [true, false] {
        // The primary itself never ends a lease.
        let mut one = Server::with_grace().set("takeover-grace", "1h").start();
        let two = Server::builder();
        let two = if late { two.without_module() } else { two.set("enabled", "no") }.replica_of(&one).start();
        let mut q = one.queue_in(3, "q");
        q.unwatched();
        q.push("x");
        q.claim_with(args!["LEASE", 300]);
        two.catch_up(&one);
        if late {
            let path = server::module_path().to_string_lossy().into_owned();
            two.run(&["MODULE", "LOADEX", &path, "CONFIG", "dq.takeover-grace", "0"]);
        }
        one.kill();
        two.run(&["REPLICAOF", "NO", "ONE"]);
        let mut r = two.queue_in(3, "q");
        if !late {
            // The lease is over, and still nobody ends it.
            let ends: Vec<(String, i64)> = r.raw(args!["ZRANGE", r.key("leased"), 0, -1, "WITHSCORES"]);
            wait_for("the lease to be over", || r.now() > ends[0].1 + 200);
            assert_eq!(r.raw::<i64>(args!["ZCARD", r.key("leased")]), 1);
            two.set("enabled", "yes");
        }
        let key = r.key("leased");
        wait_for("the lease to end", || r.raw::<i64>(args!["EXISTS", &key]) == 0);
        assert_eq!(r.claim().attempt, 2);
    }
}

#[test]
fn a_role_that_changes_again_and_again_loses_and_doubles_nothing() {
    // Its primary is never there, so that all the data stay its own.
    let nobody = server::free_port().to_string();
    let mut server = Server::with_grace().start();
    let crew = Crew::begin(&server, STREAM);
    for round in 0..20_u64 {
        crew.wait_pushes(20);
        server.run(&["REPLICAOF", "127.0.0.1", &nobody]);
        std::thread::sleep(Duration::from_millis(round % 5 * 10));
        server.run(&["REPLICAOF", "NO", "ONE"]);
    }
    crew.wait_pushes(20);
    let diary = crew.end();
    eprintln!("role changes: {} jobs, {:?}", diary.pushed.len(), diary.errors);
    assert!(diary.errors.keys().any(|error| error.starts_with("claim ")), "{:?}", diary.errors);
    assert_accounted(&diary, &server, false);
    assert_eq!(waiting(&server), 0);
    server.assert_alive();
}

/// Two nodes of a cluster that know each other; the first has all slots.
fn cluster() -> (Server, Server) {
    let node = || Server::with_grace().cluster_node().start();
    let (one, two) = (node(), node());
    one.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    one.run(&["CLUSTER", "MEET", "127.0.0.1", &two.port.to_string(), &two.bus_port()]);
    let met = |a: &Server, b: &Server| {
        let nodes = text(&a.run(&["CLUSTER", "NODES"]));
        nodes.lines().any(|line| line.starts_with(&cluster_id(b)) && !line.contains("handshake"))
    };
    wait_for("the nodes to know each other", || met(&one, &two) && met(&two, &one));
    (one, two)
}

fn cluster_id(server: &Server) -> String {
    text(&server.run(&["CLUSTER", "MYID"]))
}

#[test]
fn waiters_of_a_slot_that_left_are_released() {
    let (one, two) = cluster();
    wait_for("the cluster to be up", || text(&one.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok"));
    // Every queue that the node knows is waited for, and nothing is leased.
    let mut stays = Blocked::in_line(&one, "stays", args!["BLOCK", 0]);
    let leaves = Blocked::in_line(&one, "leaves", args!["BLOCK", 0]);
    std::thread::sleep(WATCH);
    let slot = int(&one.run(&["CLUSTER", "KEYSLOT", "leaves"])).to_string();
    for node in [&two, &one] {
        node.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &cluster_id(&two)]);
    }
    assert_error(&leaves.end().error(), "UNBLOCKED", &[]);
    assert!(stays.waits());
    let id = one.queue("stays").push("x");
    assert_eq!(stays.end().jobs()[0].id, id);
}

#[test]
fn a_failover_of_a_cluster_in_the_middle_of_a_stream() {
    let (mut one, mut two) = cluster();
    two.run(&["CLUSTER", "REPLICATE", &cluster_id(&one)]);
    wait_for("the link", || {
        role(&two) == "slave"
            && two.info("replication", "master_link_status") == "up"
            && text(&one.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok")
            && text(&two.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok")
    });
    let crew = Crew::begin(&one, STREAM);
    for turn in 0..2 {
        let (from, to) = if turn == 0 { (&one, &two) } else { (&two, &one) };
        crew.wait_pushes(100);
        wait_for("the failover", || {
            let _ = to.try_run(&["CLUSTER", "FAILOVER"]);
            let end = Instant::now() + Duration::from_secs(3);
            while Instant::now() < end && role(to) != "master" {
                std::thread::sleep(PAUSE);
            }
            role(to) == "master"
        });
        crew.turn_to(to);
        wait_for("the link", || role(from) == "slave" && from.info("replication", "master_link_status") == "up");
    }
    crew.wait_pushes(100);
    let diary = crew.end();
    eprintln!("cluster failovers: {} jobs, {:?}", diary.pushed.len(), diary.errors);
    assert!(diary.errors.keys().any(|error| error.starts_with("claim ")), "{:?}", diary.errors);
    assert_accounted(&diary, &one, false);
    one.assert_alive();
    two.assert_alive();
}

#[test]
fn a_demotion_releases_the_waiters() {
    let mut one = Server::start();
    let mut two = Server::start();
    let blocked: Vec<Blocked> = (0..50).map(|_| Blocked::in_line(&one, "q", args!["BLOCK", 0])).collect();
    one.run(&["REPLICAOF", "127.0.0.1", &two.port.to_string()]);
    for blocked in blocked {
        assert_error(&blocked.end().error(), "UNBLOCKED", &[]);
    }
    assert_eq!(waiting(&one), 0);
    one.catch_up(&two);
    one.run(&["REPLICAOF", "NO", "ONE"]);
    let blocked = Blocked::in_line(&one, "q", args!["BLOCK", 0]);
    let id = one.queue("q").push("x");
    assert_eq!(blocked.end().jobs()[0].id, id);
    one.assert_alive();
    two.assert_alive();
}

#[test]
fn nothing_happens_in_a_client_pause() {
    for kind in ["WRITE", "ALL"] {
        let (mut primary, replica) = pair(trap_settings(Server::builder().aof()));
        for _ in 0..3 {
            let trap = Trap::lay(&primary, 150);
            let mut con = primary.conn();
            let begin = Instant::now();
            redis::cmd("CLIENT").arg("PAUSE").arg(900).arg(kind).exec(&mut con).expect("a pause");
            if kind == "WRITE" {
                let mut waiter = [trap.waiter];
                assert_stands_still(&primary, &mut waiter);
                let [waiter] = waiter;
                Trap { waiter, ..trap }.assert_sprung(&primary);
            } else {
                trap.assert_sprung(&primary);
            }
            assert!(begin.elapsed() >= Duration::from_millis(880));
        }
        primary.assert_alive();
        assert_replica_same(&primary, &replica);
    }
}

#[test]
fn nothing_happens_while_a_failover_waits_for_a_replica_that_lags() {
    for abort in [true, false] {
        let (mut one, mut two) = pair(trap_settings(Server::builder().aof()));
        two.signal(libc::SIGSTOP);
        let trap = Trap::lay(&one, 150);
        let mut con = one.conn();
        redis::cmd("FAILOVER").exec(&mut con).expect("a failover begins");
        let mut waiter = [trap.waiter];
        assert_stands_still(&one, &mut waiter);
        let [waiter] = waiter;
        assert_eq!(one.info("replication", "master_failover_state"), "waiting-for-sync");
        if abort {
            redis::cmd("FAILOVER").arg("ABORT").exec(&mut con).expect("it ends");
            Trap { waiter, ..trap }.assert_sprung(&one);
            two.signal(libc::SIGCONT);
        } else {
            two.signal(libc::SIGCONT);
            assert_error(&waiter.end().error(), "UNBLOCKED", &[]);
            wait_for("the failover", || role(&two) == "master" && role(&one) == "slave");
            let waiter = Blocked::begin(&two, "waited", args!["BLOCK", 0]);
            wait_for("the job to be claimed", || two.queue("waited").stat("leased") == 1);
            // Settings are each node's own.
            two.set("stale-policy", "dead");
            Trap { waiter, ..trap }.assert_sprung(&two);
            assert_replica_same(&two, &one);
        }
        one.assert_alive();
        two.assert_alive();
    }
}

#[test]
fn nothing_happens_while_a_shutdown_waits_for_a_replica_that_lags() {
    let builder = trap_settings(Server::builder().aof()).line("shutdown-timeout 2");
    let (mut one, two) = pair(builder);
    one.set("dead-max-age", "1s");
    two.signal(libc::SIGSTOP);
    let trap = Trap::lay(&one, 1000);
    let before = one.dump();
    let begin = Instant::now();
    one.signal(libc::SIGTERM);
    let status = one.ended();
    two.signal(libc::SIGCONT);
    assert!(status.success(), "{status}\n{}", one.log());
    let held = begin.elapsed();
    assert!(held >= Duration::from_millis(1500), "the shutdown did not wait: {held:?}");
    let answer = trap.waiter.end();
    assert!(answer.outcome.is_err(), "served by a server that shuts down: {:?}", answer.outcome);
    // What is on the disk is what was there before.
    one.start_again_as(Server::with_grace().set("takeover-grace", "1h").set("stale-policy", "keep").aof());
    assert_eq!(one.dump(), before);
}

#[test]
fn nothing_happens_while_too_few_replicas_are_there() {
    let (mut primary, replica) = pair(trap_settings(Server::builder()).line("min-replicas-max-lag 10"));
    for _ in 0..3 {
        let trap = Trap::lay(&primary, 150);
        primary.run(&["CONFIG", "SET", "min-replicas-to-write", "2"]);
        let mut waiter = [trap.waiter];
        assert_stands_still(&primary, &mut waiter);
        assert_error(&Blocked::begin(&primary, "q", args!["BLOCK", 0]).end().error(), "NOREPLICAS", &[]);
        let [waiter] = waiter;
        primary.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        Trap { waiter, ..trap }.assert_sprung(&primary);
    }
    assert_replica_same(&primary, &replica);
    primary.assert_alive();
}

#[test]
fn a_primary_that_was_cut_off_hands_out_nothing() {
    // The replica does not answer any more, as where the network is split.
    let (mut primary, replica) = pair(Server::builder().line("min-replicas-to-write 1").line("min-replicas-max-lag 1"));
    let mut waiter = Blocked::in_line(&primary, "q", args!["BLOCK", 0]);
    let mut q = primary.queue("q");
    q.unwatched();
    ok!(q, "PUSH", "x", "DELAY", 4000);
    replica.signal(libc::SIGSTOP);
    wait_for("the primary to be cut off", || {
        primary.try_run(&["SET", "x", "y"]).is_err_and(|e| e.code() == Some("NOREPLICAS"))
    });
    wait_for("the job to be due", || q.stat("ready") == 1);
    assert_stands_still(&primary, std::slice::from_mut(&mut waiter));
    assert_eq!(primary.info("dq", "dq_takes_writes"), "0");
    replica.signal(libc::SIGCONT);
    assert_eq!(waiter.end().jobs().len(), 1);
    assert_replica_same(&primary, &replica);
    primary.assert_alive();
}

/// Has the server save into a folder that is gone, for root too.
pub fn fail_to_save(server: &Server) {
    let gone = server.dir().join("gone");
    fs::create_dir(&gone).expect("the folder is made");
    server.run(&["CONFIG", "SET", "dir", &gone.to_string_lossy()]);
    fs::remove_dir(&gone).expect("the folder goes");
    server.run(&["BGSAVE"]);
    wait_for("the save to fail", || server.info("persistence", "rdb_last_bgsave_status") == "err");
}

#[test]
fn nothing_happens_after_a_failed_save() {
    let mut server =
        trap_settings(Server::builder()).line("save 3600 1000000").line("enable-protected-configs yes").start();
    let trap = Trap::lay(&server, 400);
    let home = server.dir().to_string_lossy().into_owned();
    fail_to_save(&server);
    let mut waiter = [trap.waiter];
    assert_stands_still(&server, &mut waiter);
    assert_error(&Blocked::begin(&server, "q", args!["BLOCK", 0]).end().error(), "MISCONF", &[]);
    let [waiter] = waiter;
    server.run(&["CONFIG", "SET", "dir", &home]);
    server.run(&["BGSAVE"]);
    Trap { waiter, ..trap }.assert_sprung(&server);
    server.assert_alive();
}

#[test]
fn nothing_happens_on_a_replica_that_takes_writes() {
    let (primary, mut replica) = pair(trap_settings(Server::builder().line("replica-read-only no")));
    primary.signal(libc::SIGSTOP);
    let mut q = replica.queue("q");
    for name in ["PUSH", "CLAIM"] {
        let words = if name == "PUSH" { args!["x"] } else { args!["BLOCK", 0] };
        assert_error(&q.err(name, words), "READONLY", &[]);
    }
    // Jobs written by hand: nobody ends their leases here.
    q.unwatched();
    q.raw::<i64>(args!["HSET", q.key("jobs"), "a", b"\x92\x01\xc4\x01x"]);
    q.raw::<i64>(args!["ZADD", q.key("leased"), 1000, "a"]);
    assert_eq!(q.stat("leased"), 1);
    assert_stands_still(&replica, &mut []);
    // It acts when it is promoted.
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    q.wait_lapse("a");
    replica.assert_alive();
}

#[test]
fn a_node_that_starts_where_writes_are_refused_does_nothing() {
    let mut server = Server::builder().aof().start();
    let mut q = server.queue("q");
    q.push("x");
    let job = q.claim_with(args!["LEASE", 1000]).remove(0);
    // Nobody is to make it again here.
    server.set("enabled", "no");
    q.raw::<i64>(args!["DEL", "q"]);
    q.unwatched();
    server.kill();
    std::thread::sleep(Duration::from_millis(1100));
    server.start_again_as(Server::builder().aof().line("min-replicas-to-write 1"));
    wait_for("the queue to be found", || server.info("dq", "dq_queues") == "1");
    assert_stands_still(&server, &mut []);
    let mut q = server.queue("q");
    assert_eq!(q.raw::<i64>(args!["EXISTS", "q"]), 0, "no header is made where writes are refused");
    assert_eq!(q.stats(["leased", "lapsed"]), [1, 0]);
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    q.wait_lapse(&job.id);
}

/// How long no lease ends after a node begins to act again.
const GRACE: Duration = Duration::from_millis(1500);

/// Three jobs whose leases are over by now or soon, one of which a worker comes back for within the grace.
#[track_caller]
fn assert_grace(server: &Server, jobs: &[Job], begun: Instant) {
    let mut q = server.queue("q");
    q.unwatched();
    assert_eq!(q.ack(&jobs[0].receipt), 1, "a worker comes back");
    assert_eq!(q.extend(60_000, &jobs[1].receipt), 60_000);
    q.wait_lapse(&jobs[2].id);
    let took = begun.elapsed();
    assert!(took >= GRACE - Duration::from_millis(20), "a lease ended in the grace, after {took:?}");
    assert!(took <= GRACE + Duration::from_secs(6), "the grace did not end: {took:?}");
    assert_eq!(q.state(&jobs[1].id), "leased");
    assert_eq!(q.record(&jobs[1].id).lapses, 0);
    q.check_clean();
}

fn grace() -> Builder {
    Server::with_grace().set("takeover-grace", &GRACE.as_millis().to_string())
}

/// Three jobs under a lease of so many ms.
fn three_held(server: &Server, lease: i64) -> Vec<Job> {
    let mut q = server.queue("q");
    for i in 0..3 {
        q.push(i);
    }
    q.unwatched();
    q.claim_with(args!["COUNT", 3, "LEASE", lease])
}

#[test]
fn grace_after_a_promotion() {
    let (mut one, two) = pair(grace());
    let jobs = three_held(&one, 100);
    assert_replica_same(&one, &two);
    one.kill();
    std::thread::sleep(Duration::from_millis(150));
    let begun = Instant::now();
    two.run(&["REPLICAOF", "NO", "ONE"]);
    assert_grace(&two, &jobs, begun);
}

#[test]
fn grace_after_a_failover() {
    let (one, two) = pair(grace());
    let jobs = three_held(&one, 100);
    let begun = Instant::now();
    one.run(&["FAILOVER"]);
    wait_for("the failover", || role(&two) == "master");
    assert_grace(&two, &jobs, begun);
}

#[test]
fn grace_after_paused_writes() {
    let server = grace().start();
    wait_for("the first grace", || {
        let mut q = server.queue("first");
        q.unwatched();
        q.push("x");
        q.claim_with(args!["LEASE", 1]);
        q.stat("lapsed") > 0
    });
    let jobs = three_held(&server, 300);
    let begun = Instant::now() + Duration::from_millis(700);
    server.run(&["CLIENT", "PAUSE", "700", "WRITE"]);
    assert_grace(&server, &jobs, begun);
}

#[test]
fn grace_after_refused_writes() {
    let server = grace().start();
    let jobs = three_held(&server, 100);
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    wait_for("the module to see it", || server.info("dq", "dq_takes_writes") == "0");
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_grace(&server, &jobs, begun);
}

#[test]
fn grace_after_refused_writes_that_are_over_before_the_next_turn() {
    let server = grace().line("hz 500").start();
    let jobs = three_held(&server, 1000);
    server.run(&REFUSE);
    // The server has done its own work at least once between two of them, and a turn has nothing to do by then.
    for _ in 0..40 {
        server.run(&["PING"]);
        std::thread::sleep(Duration::from_millis(4));
    }
    let begun = Instant::now();
    server.run(&ACCEPT);
    assert_grace(&server, &jobs, begun);
}

/// Lays three leases that end shortly after writes are taken again, for which the first grace is over and, where
/// `waits`, a client waits in the queue; then has writes held back or refused for a while by `stop` and `go`.
fn grace_where_nothing_is_due(waits: bool, stop: &[&str], go: &[&str]) {
    let server = grace().start();
    // In the same queue, the only one that the node knows.
    let mut first = server.queue("q");
    first.push("x");
    let job = first.claim_with(args!["LEASE", 1]).remove(0);
    first.wait_lapse(&job.id);
    let again = first.claim();
    assert_eq!(first.ack(&again.receipt), 1);
    let jobs = three_held(&server, 4000);
    let held = Instant::now();
    let mut waiter = waits.then(|| Blocked::in_line(&server, "q", args!["BLOCK", 0]));
    server.run(stop);
    // Longer than any look is apart, and over before a lease ends.
    std::thread::sleep(Duration::from_millis(3000));
    let begun = Instant::now();
    server.run(go);
    assert!(held.elapsed() < Duration::from_millis(3900), "the machine is too slow for this");
    let mut q = server.queue("q");
    q.unwatched();
    q.wait_lapse(&jobs[2].id);
    let took = begun.elapsed();
    assert!(took >= GRACE - Duration::from_millis(20), "a lease ended in the grace, after {took:?}");
    if let Some(waiter) = waiter.take() {
        assert_eq!(waiter.end().jobs().len(), 1);
    }
}

const REFUSE: [&str; 4] = ["CONFIG", "SET", "min-replicas-to-write", "1"];
const ACCEPT: [&str; 4] = ["CONFIG", "SET", "min-replicas-to-write", "0"];

#[test]
fn grace_after_refused_writes_where_nothing_was_due() {
    grace_where_nothing_is_due(false, &REFUSE, &ACCEPT);
}

#[test]
fn grace_after_refused_writes_where_somebody_waits() {
    grace_where_nothing_is_due(true, &REFUSE, &ACCEPT);
}

#[test]
fn grace_after_paused_writes_where_somebody_waits() {
    grace_where_nothing_is_due(true, &["CLIENT", "PAUSE", "100000", "WRITE"], &["CLIENT", "UNPAUSE"]);
}

/// Writes that are refused for a moment again and again, sooner than the grace after the last time is over, do not keep
/// the lease of a worker that died.
#[test]
fn a_chain_of_graces_ends() {
    let server = grace().start();
    let jobs = three_held(&server, 500);
    let mut q = server.queue("q");
    q.unwatched();
    let leased = q.key("leased");
    let begun = Instant::now();
    let mut closed = Duration::ZERO;
    while q.raw::<i64>(args!["ZCARD", &leased]) == 3 {
        let refused = Instant::now();
        server.run(&REFUSE);
        wait_for("the module to see it", || server.info("dq", "dq_takes_writes") == "0");
        server.run(&ACCEPT);
        wait_for("the module to see that, too", || server.info("dq", "dq_takes_writes") == "1");
        closed += refused.elapsed();
        // Half a grace, or until a lease ends.
        let accepted = Instant::now();
        while accepted.elapsed() < GRACE / 2 && q.raw::<i64>(args!["ZCARD", &leased]) == 3 {
            std::thread::sleep(PAUSE);
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "the graces do not end");
    }
    let open = begun.elapsed() - closed;
    assert!(open <= 2 * GRACE + Duration::from_secs(1), "{open:?} of open time");
    assert!(open >= GRACE, "each worker has at least one grace, and not {open:?}");
    q.wait_lapse(&jobs[0].id);
    q.check_clean();
}

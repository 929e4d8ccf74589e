//! What an operator sees of the whole server: INFO, events, lines of the log.

use std::time::Duration;

use redis::Connection;

use crate::args;
use crate::common::*;
use crate::{err, ok};

const JOBS: [&str; 4] = ["dq_jobs_ready", "dq_jobs_delayed", "dq_jobs_leased", "dq_jobs_dead"];

fn figure(server: &Server, field: &str) -> i64 {
    server.info("dq", field).parse().expect("a whole number")
}

fn wait_figure(server: &Server, field: &str, value: i64) {
    wait_for(&format!("{field} to be {value}"), || figure(server, field) == value);
}

fn wait_jobs(server: &Server, expected: [i64; 4]) {
    wait_for(&format!("{JOBS:?} to be {expected:?}"), || JOBS.map(|field| figure(server, field)) == expected);
}

/// How many lines of the log hold this.
fn logged(server: &Server, words: &str) -> usize {
    server.log().lines().filter(|line| line.contains(words)).count()
}

fn publishing() -> server::Builder {
    Server::builder().line("notify-keyspace-events Ed")
}

/// Hears all events of the module until it is asked.
struct Ears(Connection);

impl Ears {
    fn open(server: &Server) -> Ears {
        let mut con = server.conn();
        con.send_packed_command(&redis::cmd("PSUBSCRIBE").arg("__keyevent@*").get_packed_command())
            .expect("it is sent");
        con.recv_response().expect("a subscription");
        Ears(con)
    }

    /// All that came so far, as database:event:queue; what is published after this call is left for the next.
    fn heard(&mut self, server: &Server) -> Vec<String> {
        server.run(&["PUBLISH", "__keyevent@end", "end"]);
        let mut all = Vec::new();
        loop {
            let message = list(&self.0.recv_response().expect("a message"));
            let (channel, queue) = (text(&message[2]), text(&message[3]));
            if channel == "__keyevent@end" {
                return all;
            }
            all.push(format!("{}:{queue}", channel.trim_start_matches("__keyevent@").replace("__", "")));
        }
    }

    fn wait_for(&mut self, server: &Server, event: &str) {
        wait_for(event, || self.heard(server).iter().any(|heard| heard == event));
    }
}

#[test]
fn info_has_a_section_with_every_figure() {
    let server = Server::start();
    let all = text(&server.run(&["INFO", "dq"]));
    let names: Vec<&str> = all.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    let expected =
        "version acting takes_writes aof_loadable queues waiting waiting_bytes waiting_max_bytes jobs_ready \
                    jobs_delayed jobs_leased jobs_dead queues_far queues_behind queues_full clock_offset_ms \
                    clock_steps clock_held cross_slot_refusals refused_full refused_waiting unknown_queue leases_lapsed \
                    stale_purged timer_runs timer_us timer_longest_us timer_lease_runs timer_lease_us \
                    timer_purge_runs timer_purge_us timer_bulk_runs timer_bulk_us";
    let expected: Vec<String> = expected.split_whitespace().map(|name| format!("dq_{name}")).collect();
    assert_eq!(names, expected);
    for name in &names[1..] {
        figure(&server, name);
    }
}

#[test]
fn the_jobs_of_all_queues_are_added_up() {
    let server = Server::builder().set("stale-policy", "keep").start();
    let mut queues = vec![server.queue("a"), server.queue("b"), server.queue_in(3, "a")];
    for q in &mut queues {
        q.push_many(10, &args!["DELAY", "1h"]);
        q.push_many(7, &[]);
        let jobs = q.claim_n(5);
        q.fail(&jobs[0].receipt);
        q.ack(&jobs[1].receipt);
    }
    wait_jobs(&server, [6, 30, 9, 3]);
    assert_eq!(figure(&server, "dq_queues"), 3);
    // Another hand counts as well, and time alone.
    let key = queues[0].key("due");
    queues[0].raw::<i64>(args!["ZUNIONSTORE", &key, 1, &key, "WEIGHTS", 0]);
    ok!(queues[1], "PUSH", "soon", "DELAY", 100);
    wait_jobs(&server, [17, 20, 9, 3]);
    server.run(&["SWAPDB", "3", "4"]);
    wait_jobs(&server, [17, 20, 9, 3]);
    queues.iter_mut().for_each(|q| {
        q.unwatched();
    });
    server.run(&["FLUSHALL"]);
    wait_jobs(&server, [0, 0, 0, 0]);
}

#[test]
fn the_total_does_not_drift_from_what_stats_say() {
    let server = Server::builder().set("purge-interval", "20").set("stale-after", "100").set("dead-max", "9").start();
    let seed = dice::seed();
    eprintln!("DQ_TEST_SEED={seed}");
    let mut dice = dice::Dice(seed);
    let mut queues: Vec<Queue> = (0..4).map(|i| server.queue(format!("q{i}"))).collect();
    for _ in 0..300 {
        let q = &mut queues[dice.between(0, 3) as usize];
        q.unwatched();
        match dice.between(0, 5) {
            0 | 1 => drop(q.push_many(dice.between(1, 5) as usize, &[])),
            2 => drop(q.push_many(3, &args!["DELAY", dice.between(0, 100)])),
            3 => drop(q.claim_with(args!["COUNT", 3, "LEASE", dice.between(1, 50)])),
            4 => q.claim_n(2).iter().for_each(|job| q.fail(&job.receipt)),
            _ => q.claim_n(2).iter().for_each(|job| {
                q.ack(&job.receipt);
            }),
        }
    }
    server.set("stale-policy", "keep");
    wait_for("the total to be the sum", || {
        let mut sum = [0; 4];
        for q in &mut queues {
            let now = q.stats(["ready", "delayed", "leased", "dead"]);
            sum = std::array::from_fn(|i| sum[i] + now[i]);
        }
        JOBS.map(|field| figure(&server, field)) == sum
    });
}

#[test]
fn counting_leaves_no_trace() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("x");
    wait_jobs(&server, [1, 0, 0, 0]);
    let misses = || server.info("stats", "keyspace_misses");
    let (before, dirty) = (misses(), server.info("persistence", "rdb_changes_since_last_save"));
    let key = q.key("due");
    for (score, ready) in [(q.now() + 3_600_000, 0), (1, 1)] {
        q.raw::<i64>(args!["ZADD", &key, "XX", score, &id]);
        wait_figure(&server, "dq_jobs_ready", ready);
    }
    assert_eq!(misses(), before, "absent keys count as misses");
    let changes: i64 = server.info("persistence", "rdb_changes_since_last_save").parse().expect("a number");
    assert_eq!(changes, dirty.parse::<i64>().expect("a number") + 2, "more than the two ZADDs");
}

#[test]
fn jobs_are_counted_while_writes_are_refused_or_paused() {
    let server = Server::builder().set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    ok!(q, "PUSH", "x", "DELAY", "1h");
    wait_jobs(&server, [0, 1, 0, 0]);
    let soon = text(&ok!(q, "PUSH", "x", "DELAY", 3000));
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    wait_jobs(&server, [1, 1, 0, 0]);
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_eq!(q.claim().id, soon);
    ok!(q, "PUSH", "x", "DELAY", 3000);
    server.run(&["CLIENT", "PAUSE", "20000", "WRITE"]);
    wait_jobs(&server, [1, 1, 1, 0]);
    server.run(&["CLIENT", "UNPAUSE"]);
}

#[test]
fn a_node_that_does_not_act_leaves_the_jobs_out() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut q = primary.queue("q");
    q.push("x");
    wait_jobs(&primary, [1, 0, 0, 0]);
    replica.catch_up(&primary);
    let has_jobs = |server: &Server| text(&server.run(&["INFO", "dq"])).contains("dq_jobs_");
    assert!(!has_jobs(&replica) && figure(&replica, "dq_acting") == 0);
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    wait_jobs(&replica, [1, 0, 0, 0]);
    primary.set("enabled", "no");
    assert!(!has_jobs(&primary));
    primary.set("enabled", "yes");
    wait_jobs(&primary, [1, 0, 0, 0]);
}

#[test]
fn ten_thousand_queues_are_counted_again_and_again() {
    const QUEUES: i64 = 10_000;
    let server = Server::builder().set("stale-policy", "keep").start();
    let mut con = server.conn();
    let mut pipe = redis::pipe();
    for i in 0..QUEUES {
        pipe.cmd("DQ.PUSH").arg(format!("q{i}")).arg("x").ignore();
    }
    pipe.exec(&mut con).expect("the pushes answer");
    wait_jobs(&server, [QUEUES, 0, 0, 0]);
    let mut pipe = redis::pipe();
    for i in 0..QUEUES {
        pipe.cmd("DQ.CLAIM").arg(format!("q{i}")).ignore();
    }
    pipe.exec(&mut con).expect("the claims answer");
    wait_jobs(&server, [0, 0, QUEUES, 0]);
    assert_eq!(figure(&server, "dq_queues"), QUEUES);
}

#[test]
fn what_waits_and_what_timers_did_is_shown() {
    let server =
        Server::builder().set("purge-interval", "10").set("stale-after", "50").set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    let before = figure(&server, "dq_timer_runs");
    q.push("x");
    q.push("y");
    q.claim_with(args!["COUNT", 2, "LEASE", 1]);
    wait_figure(&server, "dq_leases_lapsed", 2);
    server.set("stale-policy", "dead");
    wait_figure(&server, "dq_stale_purged", 2);
    for field in ["dq_timer_us", "dq_timer_longest_us", "dq_timer_lease_runs", "dq_timer_purge_runs"] {
        assert!(figure(&server, field) > 0, "{field}");
    }
    let [all, leases, purge] = ["dq_timer_us", "dq_timer_lease_us", "dq_timer_purge_us"].map(|f| figure(&server, f));
    assert!(figure(&server, "dq_timer_runs") > before);
    assert!(figure(&server, "dq_timer_us") >= leases, "{all} {leases} {purge}");
    let mut waiter = server.conn();
    let claim = redis::cmd("DQ.CLAIM").arg("q").arg("BLOCK").arg(0).get_packed_command();
    waiter.send_packed_command(&claim).expect("it is sent");
    wait_figure(&server, "dq_waiting", 1);
}

#[test]
fn the_far_alarm_is_told_when_it_is_crossed_and_when_it_is_over() {
    let server = publishing().set("far-alarm", "10").start();
    let mut ears = Ears::open(&server);
    let mut q = server.queue("q");
    let ids = q.push_many(9, &args!["DELAY", "61m"]);
    q.push_many(50, &args!["DELAY", "59m"]);
    wait_figure(&server, "dq_jobs_delayed", 59);
    assert_eq!((figure(&server, "dq_queues_far"), logged(&server, "dq: queue q")), (0, 0));
    q.push_many(1, &args!["DELAY", "61m"]);
    wait_figure(&server, "dq_queues_far", 1);
    assert_eq!(q.stats(["far", "far-alarm"]), [10, 1]);
    assert_eq!(ears.heard(&server), ["0:dq.far-alarm:q"]);
    // Just below the line is not over: it would be crossed again and again.
    q.make_due(&ids[0]);
    wait_figure(&server, "dq_jobs_ready", 1);
    assert_eq!((figure(&server, "dq_queues_far"), q.stat("far-alarm")), (1, 0));
    q.push_many(1, &args!["DELAY", "61m"]);
    wait_figure(&server, "dq_jobs_delayed", 60);
    assert_eq!(
        (ears.heard(&server).len(), logged(&server, "queue q: 10 jobs are due in more than 3600000 ms")),
        (0, 1)
    );
    q.make_due(&ids[1]);
    q.make_due(&ids[2]);
    wait_figure(&server, "dq_queues_far", 0);
    assert_eq!(logged(&server, "queue q: the far alarm is over, 8 jobs are far"), 1);
    // And again.
    server.set("far-alarm", "8");
    wait_figure(&server, "dq_queues_far", 1);
    ears.wait_for(&server, "0:dq.far-alarm:q");
    server.set("far-alarm", "0");
    wait_figure(&server, "dq_queues_far", 0);
    assert_eq!(logged(&server, "dq: queue q"), 4);
}

#[test]
fn a_queue_that_is_gone_has_no_alarm() {
    let server = Server::builder().set("far-alarm", "1").start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "DELAY", "2h");
    wait_figure(&server, "dq_queues_far", 1);
    server.run(&["FLUSHALL"]);
    assert_eq!(figure(&server, "dq_queues_far"), 0);
}

#[test]
fn receipts_for_a_queue_that_does_not_exist_are_counted() {
    let server = Server::start();
    let mut q = server.queue("mail");
    let jobs: Vec<Job> = (0..5).map(|n| q.push_and_claim(n)).collect();
    let mut typo = server.queue("ma%il");
    let receipts = args![&jobs[0].receipt, &jobs[1].receipt];
    assert_eq!(int(&typo.ok("ACK", receipts.clone())), 0);
    for name in ["RETRY", "FAIL"] {
        assert_error(&typo.err(name, args![&jobs[2].receipt]), "DQLOST", &[]);
    }
    assert_eq!(typo.release(&jobs[3].receipt), -1);
    assert_eq!(typo.extend(5000, &jobs[4].receipt), -1);
    assert_eq!(figure(&server, "dq_unknown_queue"), 5, "one a command");
    assert_eq!(logged(&server, "queue ma%il, which does not exist"), 1, "one line a minute");
    // With a client that waits for it, it has no key either.
    let mut waiter = server.queue("mial");
    let thread = std::thread::spawn(move || waiter.claim_with(args!["BLOCK", 0]));
    server.queue("mial").wait_stat("waiting", 1);
    assert_eq!(server.queue("mial").ack(&jobs[0].receipt), 0);
    assert_eq!(figure(&server, "dq_unknown_queue"), 6);
    server.queue("mial").push("x");
    assert_eq!(thread.join().expect("it ends").len(), 1);
    // Where the queue is, an old receipt is another matter, and so is a queue that is empty.
    for job in &jobs {
        assert_eq!(q.ack(&job.receipt), 1);
        assert_eq!(q.ack(&job.receipt), 0);
    }
    assert_error(&q.err("RETRY", args![&jobs[0].receipt]), "DQLOST", &[]);
    assert_eq!(figure(&server, "dq_unknown_queue"), 6);
    ok!(q, "DROP");
    assert_eq!(q.ack(&jobs[0].receipt), 0);
    assert_eq!(figure(&server, "dq_unknown_queue"), 7);
}

#[test]
fn a_refused_push_is_told_and_changes_nothing() {
    let mut server = publishing().set("max-length", "10").set("stale-policy", "keep").aof().start();
    let mut ears = Ears::open(&server);
    let mut q = server.queue("q");
    q.push_many(10, &[]);
    let changes = server.info("persistence", "rdb_changes_since_last_save");
    assert_error(&err!(q, "PUSH", "x"), "DQFULL", &["10"]);
    assert_error(&err!(q, "MPUSH", "PAYLOADS", "x", "y"), "DQFULL", &["10"]);
    ears.wait_for(&server, "0:dq.full:q");
    assert_eq!(figure(&server, "dq_refused_full"), 2);
    assert_eq!(q.stats(["max-length", "refused-full"]), [10, 2]);
    assert_eq!((figure(&server, "dq_queues_full"), logged(&server, "queue q: at its max-length of 10")), (1, 1));
    // In MULTI and in a script too.
    let begun = std::time::Instant::now();
    let mut pipe = redis::pipe();
    pipe.atomic();
    for _ in 0..500 {
        pipe.cmd("EVAL").arg("return redis.pcall('DQ.PUSH', KEYS[1], 'x')").arg(1).arg("q").ignore();
    }
    assert!(pipe.exec(&mut q.con).is_err());
    let most = begun.elapsed().as_secs() as usize + 1;
    let heard = ears.heard(&server).len();
    assert!(heard <= most + 1, "{heard} events");
    assert_eq!(figure(&server, "dq_refused_full"), 502);
    assert_eq!(server.info("persistence", "rdb_changes_since_last_save"), changes);
    // Room again, and full again.
    let jobs = q.claim_n(2);
    q.ack(&jobs[0].receipt);
    wait_figure(&server, "dq_jobs_leased", 1);
    assert_eq!(figure(&server, "dq_queues_full"), 1, "nine of ten is no room");
    q.ack(&jobs[1].receipt);
    wait_figure(&server, "dq_queues_full", 0);
    assert_eq!(logged(&server, "queue q: there is room for jobs again"), 1);
    q.push_many(2, &[]);
    assert_error(&err!(q, "PUSH", "x"), "DQFULL", &[]);
    assert_eq!((figure(&server, "dq_queues_full"), logged(&server, "max-length")), (1, 2));
    drop(q);
    server.crash_and_restart();
    assert_eq!(server.queue("q").stat("ready"), 10);
}

#[test]
fn a_push_to_a_new_queue_can_be_refused_too() {
    let server = publishing().set("max-length", "1").start();
    let mut ears = Ears::open(&server);
    let mut q = server.queue_in(2, "new");
    assert_error(&err!(q, "MPUSH", "PAYLOADS", "x", "y"), "DQFULL", &["1"]);
    ears.wait_for(&server, "2:dq.full:new");
    assert_eq!((figure(&server, "dq_queues"), figure(&server, "dq_queues_full")), (0, 0));
}

#[test]
fn what_goes_wrong_has_an_event_each() {
    let server = publishing().set("purge-interval", "10").set("stale-policy", "keep").set("dead-max", "2").start();
    let mut ears = Ears::open(&server);
    let mut q = server.queue("q");
    let job = q.push_and_claim("dies");
    q.fail(&job.receipt);
    ears.wait_for(&server, "0:dq.dead:q");
    q.push("lapses");
    q.claim_and_lapse();
    ears.wait_for(&server, "0:dq.lapsed:q");
    for i in 0..3 {
        q.push(i);
    }
    server.set("stale-after", "50");
    server.set("stale-policy", "dead");
    ears.wait_for(&server, "0:dq.stale:q");
    ears.wait_for(&server, "0:dq.dead-full:q");
}

#[test]
fn a_purge_has_one_line_and_dead_letters_without_room_have_two() {
    let server =
        Server::builder().set("purge-interval", "10").set("stale-policy", "keep").set("dead-max", "1500").start();
    let mut q = server.queue("q");
    q.push_many(2000, &[]);
    server.set("stale-after", "50");
    server.set("stale-policy", "dead");
    q.wait_stat("stale-held", 500);
    q.wait_stat("stale-held", 500);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(logged(&server, "1500 stale jobs went by dq.stale-policy"), 1);
    assert_eq!(logged(&server, "500 stale jobs stay"), 1);
    server.set("dead-max", "0");
    q.wait_stat("stale-purged", 2000);
    wait_for("the end of it", || logged(&server, "no stale job has to stay any more") == 1);
    assert_eq!(logged(&server, "queue q"), 4);
}

#[test]
fn a_queue_that_is_behind_has_a_line_when_it_begins_and_one_when_it_is_over() {
    let server = publishing().set("purge-interval", "10").set("stale-after", "200").set("stale-policy", "keep").start();
    let mut ears = Ears::open(&server);
    let mut q = server.queue("q");
    q.unwatched();
    q.push_many(20_000, &[]);
    wait_for("the queue to be behind", || {
        q.claim_n(1);
        figure(&server, "dq_queues_behind") == 1
    });
    ears.wait_for(&server, "0:dq.behind:q");
    q.raw::<i64>(args!["DEL", q.key("due"), q.key("leased"), q.key("jobs")]);
    wait_figure(&server, "dq_queues_behind", 0);
    let lines = ["its workers do not keep up", "it is not behind any more"].map(|words| logged(&server, words));
    assert_eq!(lines[0], lines[1]);
    assert!((1..=2).contains(&lines[0]), "{lines:?}");
}

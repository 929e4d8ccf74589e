//! Failure cases from the public trackers of other systems, by their number in the table: each
//! class must be impossible here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};

use redis::Value;

use crate::common::wall::Wall;
use crate::common::*;
use crate::{args, err, ok};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

#[test]
fn case_01_half_done_state_change_is_impossible() {
    // Every error a worker can meet, at every step, leaves the job with a lease or due.
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("x");
    for turn in 0..3 {
        let job = q.claim();
        err!(q, "RETRY", &job.receipt, "DELAY", "8d");
        err!(q, "RETRY", &job.receipt, "ERROR");
        err!(q, "RELEASE", "DELAY", -1, "RECEIPTS", &job.receipt);
        err!(q, "EXTEND", "13h", &job.receipt);
        err!(q, "FAIL", &job.receipt, "FOO");
        server.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        for name in ["ACK", "RETRY", "FAIL"] {
            assert_error(&q.err(name, args![&job.receipt]), "NOREPLICAS", &[]);
        }
        server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        assert!(q.score("leased", &id).is_some(), "it has a lease");
        match turn {
            0 => drop(q.extend(1, &job.receipt)),
            1 => drop(q.retry(&job.receipt)),
            _ => drop(q.release(&job.receipt)),
        }
        if turn == 0 {
            q.wait_lapse(&id);
        }
        assert!(q.score("due", &id).is_some(), "it is due");
        q.make_due(&id);
    }
    // And what is left of a torn transaction: see persistence::a_torn_aof_holds_no_half_done_step.
}

#[test]
fn case_02_dangling_index_entry_does_not_stop_recovery() {
    let server = Server::with_grace().set("takeover-grace", "1h").start();
    let mut q = server.queue("q");
    for i in 0..40 {
        ok!(q, "PUSH", i, "ID", format!("id-{i:02}"));
    }
    q.claim_with(args!["COUNT", 20, "LEASE", 1]);
    q.unwatched();
    // The first in line lose their bodies: more of them than one claim asks for.
    for i in (0..15).chain(20..35) {
        q.raw::<i64>(args!["HDEL", q.key("jobs"), format!("id-{i:02}")]);
    }
    server.set("takeover-grace", "0");
    for i in 15..20 {
        q.wait_lapse(&format!("id-{i:02}"));
    }
    let mut ids = BTreeSet::new();
    wait_for("the ten whole jobs", || {
        ids.extend(q.claim_with(args!["COUNT", 2]).into_iter().map(|job| job.id));
        ids.len() == 10
    });
    let whole: BTreeSet<String> = (15..20).chain(35..40).map(|i| format!("id-{i:02}")).collect();
    assert_eq!(ids, whole);
    assert!(q.stat("dangling") >= 30, "what is missing is counted");
    let problems = list(&ok!(q, "CHECK"));
    assert_eq!(problems.len(), 30, "reported and left to DQ.CHECK");
    for problem in problems {
        let problem = texts(&problem)[0].clone();
        assert!(problem == "due-without-job" || problem == "leased-without-job", "{problem}");
    }
}

#[test]
fn case_03_eviction_hands_out_no_half_job() {
    let mut server = Server::builder().set("purge-interval", "10").line("maxmemory-policy allkeys-random").start();
    let payload = vec![b'p'; 2000];
    for round in 0..10 {
        server.run(&["CONFIG", "SET", "maxmemory", "0"]);
        let mut queues: Vec<Queue> = (0..10).map(|i| server.queue(format!("{round}-{i}"))).collect();
        for q in &mut queues {
            q.unwatched();
            for i in 0..20 {
                ok!(q, "PUSH", &payload[..], "ID", format!("id-{i}"), "KEEP", 1);
            }
            q.claim_with(args!["COUNT", 10, "LEASE", 5]);
        }
        let used: i64 = server.info("memory", "used_memory").parse().expect("bytes");
        server.run(&["CONFIG", "SET", "maxmemory", &(used - 300_000).to_string()]);
        for q in &mut queues {
            // Any answer will do, but a job is whole.
            if let Ok(reply) = q.call("CLAIM", args!["COUNT", 20]) {
                for job in list(&reply).iter().map(Job::of) {
                    assert_eq!(job.payload, payload);
                    let _ = q.call("ACK", args![job.receipt]);
                }
            }
            let _ = q.call("STATS", args![]);
            let _ = q.call("CHECK", args![]);
            let _ = q.call("GET", args!["id-1"]);
        }
        server.assert_alive();
    }
    let evicted: i64 = server.info("stats", "evicted_keys").parse().expect("a number");
    assert!(evicted > 0, "nothing was evicted");
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    let log = server.log();
    assert!(log.contains("allkeys-random") || log.contains("maxmemory-policy"), "no warning:\n{log}");
    let mut q = server.queue("after");
    assert_eq!(q.push_and_claim("x").payload, b"x");
}

#[test]
fn case_04_the_id_does_not_outlive_its_job() {
    let free = |q: &mut Queue, how: &str| {
        assert_eq!(text(&ok!(q, "PUSH", "x", "ID", "mine", "NX")), "mine", "after {how}");
        let job = q.claim();
        // Whatever its end, the next one starts with a free id.
        q.fail(&job.receipt);
    };
    let server = Server::start();
    let mut q = server.queue("q");
    let push = |q: &mut Queue| ok!(q, "PUSH", "x", "ID", "mine", "KEEP", "30d", "RETRIES", 0);
    push(&mut q);
    let job = q.claim();
    q.fail(&job.receipt);
    free(&mut q, "FAIL");
    push(&mut q);
    let job = q.claim();
    assert_eq!(q.retry(&job.receipt), -1);
    free(&mut q, "used-up retries");
    server.set("max-lapses", "1");
    push(&mut q);
    q.claim_and_lapse();
    free(&mut q, "lapses");
    push(&mut q);
    let job = q.claim_and_lapse();
    q.fail(&job.receipt);
    free(&mut q, "a late FAIL");
    for policy in ["dead", "drop"] {
        push(&mut q);
        server.run(&["CONFIG", "SET", "dq.stale-policy", policy, "dq.stale-after", "50"]);
        server.set("purge-interval", "10");
        wait_for("the purge", || q.score("due", "mine").is_none());
        server.set("stale-policy", "keep");
        free(&mut q, policy);
    }
}

#[test]
fn case_05_recovery_takes_one_lease_once() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push_many(400, &[]);
    let mut jobs = q.claim_with(args!["COUNT", 200, "LEASE", 40]);
    jobs.extend(q.claim_with(args!["COUNT", 200, "LEASE", 80]));
    q.unwatched();
    // Workers finish, give back and prolong while the server takes the leases away.
    let finished = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for (i, part) in jobs.chunks(100).enumerate() {
            let (mut worker, finished) = (server.queue("q"), &finished);
            worker.unwatched();
            scope.spawn(move || {
                for job in part {
                    std::thread::sleep(std::time::Duration::from_micros(300));
                    match i {
                        0 | 1 => {
                            finished.fetch_add(worker.ack(&job.receipt), Ordering::Relaxed);
                        }
                        2 => drop(worker.extend(1, &job.receipt)),
                        _ => drop(worker.release(&job.receipt)),
                    }
                }
            });
        }
    });
    let key = q.key("leased");
    wait_for("all leases to end", || q.raw::<i64>(args!["EXISTS", &key]) == 0);
    q.watched();
    q.check_clean();
    let finished = finished.into_inner();
    assert_eq!(finished, 200, "an ACK in time or late finishes the job");
    let [acked, ready, delayed] = q.stats(["acked", "ready", "delayed"]);
    assert_eq!((acked, ready + delayed), (200, 200));
    for job in &jobs[200..] {
        let record = q.record(&job.id);
        assert!(record.lapses <= 1, "{} was taken twice", job.id);
        assert_eq!(record.claims, 1);
    }
}

#[test]
fn case_06_a_due_job_does_not_wait_for_the_next_push() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "DELAY", 100));
    let due = q.due_at(&id);
    wait_for("the due time", || q.now() > due + 5);
    assert_eq!(q.claim().id, id);
    // Nor does a job whose lease ended, a retried one or a released one.
    let id = q.push("y");
    let job = q.claim_and_lapse();
    assert_eq!(q.claim().id, id);
    let _ = job;
    for command in ["RETRY", "RELEASE"] {
        let id = q.push("z");
        let job = q.claim();
        match command {
            "RETRY" => ok!(q, "RETRY", job.receipt, "DELAY", 50),
            _ => ok!(q, "RELEASE", "DELAY", 50, "RECEIPTS", job.receipt),
        };
        let due = q.due_at(&id);
        wait_for("the due time", || q.now() > due + 5);
        assert_eq!(q.claim().id, id);
    }
}

#[test]
fn case_07_a_delay_beyond_32_bits_does_not_run_at_once() {
    let server = Server::start();
    server.set("max-delay", "3650d");
    server.set("max-lease", "30d");
    let mut q = server.queue("q");
    for delay in
        [(1 << 31) - 1, 1 << 31, (1 << 31) + 1, 25 * DAY, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 50 * DAY, 3650 * DAY]
    {
        let before = q.now();
        let id = text(&ok!(q, "PUSH", "x", "DELAY", delay));
        assert_between(q.due_at(&id), before + delay, q.now() + delay);
        assert!(q.claim_n(10).is_empty(), "{delay} ms ran at once");
        assert_eq!(q.state(&id), "delayed");
    }
    let job = q.push_and_claim("x");
    assert_eq!(q.extend(30 * DAY, &job.receipt), 30 * DAY);
    // A second lease ends, so the timers have run; the long one has not ended.
    q.push("y");
    let short = q.claim_and_lapse();
    assert_eq!(q.state(&job.id), "leased");
    let again = q.claim();
    assert_eq!(again.id, short.id);
    let reply = ok!(q, "RETRY", again.receipt, "DELAY", 25 * DAY);
    assert_eq!(int(&reply), 25 * DAY);
    assert!(q.claim_n(10).is_empty());
    let id = text(&ok!(q, "PUSH", "x", "ID", "mine", "KEEP", "30d"));
    let until = q.score("ids", &id).expect("the id is taken");
    assert_between(until, q.now() + 30 * DAY, q.now() + 30 * DAY);
}

#[test]
fn case_08_no_lease_runs_while_a_job_is_delayed() {
    let server = Server::start();
    server.set("lease", "20");
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "x", "DELAY", 400, "LEASE", 20));
    let due = q.due_at(&id);
    // Many leases' time passes before it is due.
    let jobs = wait_until("the job", || {
        let jobs = q.claim_with(args!["COUNT", 10, "LEASE", "1m"]);
        assert!(jobs.is_empty() || q.now() >= due - 5, "it came early");
        (!jobs.is_empty()).then_some(jobs)
    });
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].attempt, q.record(&id).lapses), (1, 0));
    assert_eq!(q.ack(&jobs[0].receipt), 1);
    assert_eq!(q.stats(["claimed", "lapsed"]), [1, 0]);
}

#[test]
fn case_09_a_delayed_job_comes_once() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut pipe = redis::pipe();
    for i in 0..600 {
        pipe.cmd("DQ.PUSH").arg("q").arg(i).arg("DELAY").arg(i % 200);
    }
    let ids: Vec<String> = pipe.query(&mut q.con).expect("the pushes answer");
    let left = AtomicI64::new(600);
    let claimed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (mut worker, left) = (server.queue("q"), &left);
                worker.unwatched();
                scope.spawn(move || {
                    let mut ids = Vec::new();
                    wait_for("all jobs", || {
                        let jobs = worker.claim_n(5);
                        left.fetch_sub(jobs.len() as i64, Ordering::Relaxed);
                        ids.extend(jobs.into_iter().map(|job| job.id));
                        left.load(Ordering::Relaxed) <= 0
                    });
                    ids
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect()
    });
    assert_eq!(claimed.len(), 600);
    let (claimed, ids): (BTreeSet<_>, BTreeSet<_>) = (claimed.into_iter().collect(), ids.into_iter().collect());
    assert_eq!(claimed, ids);
    assert_eq!(q.stats(["claimed", "leased", "ready", "delayed"]), [600, 600, 0, 0]);
}

#[test]
fn case_10_order_is_kept_through_delays() {
    let server = Server::start();
    let mut q = server.queue("q");
    let at = q.now() + 1500;
    let mut pipe = redis::pipe();
    for i in 0..100 {
        pipe.cmd("DQ.PUSH").arg("q").arg(i).arg("AT").arg(at);
    }
    let ids: Vec<String> = pipe.query(&mut q.con).expect("the pushes answer");
    let mut claimed = Vec::new();
    wait_for("the jobs", || {
        claimed.extend(q.claim_n(30).into_iter().map(|job| job.id));
        claimed.len() == 100
    });
    assert_eq!(claimed, ids, "due in one ms, they leave in push order");
    // A retried job that falls due before another leaves before it, and after an earlier one.
    let a = text(&ok!(q, "PUSH", "a", "ID", "a"));
    let job = q.claim();
    assert_eq!(job.id, a);
    let due = q.now() + 200;
    for (id, at) in [("before", due - 50), ("after", due + 50)] {
        ok!(q, "PUSH", id, "ID", id, "AT", at);
    }
    ok!(q, "RETRY", job.receipt, "DELAY", "1h");
    q.raw::<i64>(args!["ZADD", q.key("due"), "XX", due, "a"]);
    wait_for("all three to be due", || q.now() > due + 60);
    let order: Vec<String> = q.claim_n(10).into_iter().map(|job| job.id).collect();
    assert_eq!(order, ["before", "a", "after"]);
}

#[test]
fn case_11_a_hundred_thousand_at_one_moment_do_not_stop_the_server() {
    const N: i64 = 100_000;
    let server = Server::with_grace().set("takeover-grace", "1h").start();
    let mut q = server.queue("q");
    q.unwatched();
    q.push_many(N as usize, &[]);
    let mut claimed = 0;
    while claimed < N {
        claimed += list(&q.ok("CLAIM", args!["COUNT", 1000, "LEASE", 1])).len() as i64;
    }
    // With the grace gone every lease ends at one moment.
    server.set("takeover-grace", "0");
    let key = q.key("leased");
    let mut seen = BTreeSet::new();
    wait_for("all leases to end", || {
        let left: i64 = q.raw(args!["ZCARD", &key]);
        seen.insert(left);
        left == 0
    });
    // A client that only looks was served in between.
    let between = seen.iter().filter(|left| **left > 0 && **left < N).count();
    assert!(between >= 5, "{seen:?}");
    q.watched();
    assert_eq!(q.stats(["lapsed", "ready"]), [N, N]);
}

#[test]
fn case_12_at_maxmemory_all_can_be_finished() {
    let server = Server::start();
    let mut q = server.queue("q");
    let payload = vec![b'p'; 1000];
    for i in 0..10 {
        ok!(q, "PUSH", &payload[..], "ID", format!("id-{i}"));
    }
    let jobs = q.claim_n(6);
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_error(&err!(q, "PUSH", "x"), "OOM", &[]);
    assert_error(&err!(q, "MPUSH", "PAYLOADS", "x"), "OOM", &[]);
    assert_eq!(q.ack(&jobs[0].receipt), 1);
    assert_eq!(int(&ok!(q, "RETRY", &jobs[1].receipt, "DELAY", "1h", "ERROR", &payload[..])), HOUR);
    ok!(q, "FAIL", &jobs[2].receipt, "ERROR", &payload[..]);
    assert_eq!(q.release(&jobs[3].receipt), 0);
    assert_eq!(q.extend(60_000, &jobs[4].receipt), 60_000);
    assert_eq!(q.extend(1, &jobs[5].receipt), 1);
    q.wait_lapse(&jobs[5].id);
    let more = q.claim_n(10);
    assert_eq!(more.len(), 6);
    for job in more.iter().chain([&jobs[4]]) {
        assert_eq!(q.ack(&job.receipt), 1);
    }
    assert_eq!(q.stats(["leased", "ready", "delayed", "dead"]), [0, 0, 1, 1]);
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    q.push("x");
}

#[test]
fn case_13_a_job_that_kills_its_workers_ends() {
    let server = Server::start();
    server.set("backoff-base", "1");
    server.set("backoff-cap", "1");
    let mut q = server.queue("q");
    let id = text(&ok!(q, "PUSH", "poison", "ID", "poison"));
    let mut claims = 0;
    wait_for("the end of the job", || {
        for job in q.claim_with(args!["LEASE", 1]) {
            claims += 1;
            assert_eq!(job.attempt, claims);
        }
        q.state(&id) == "dead"
    });
    assert_eq!(claims, 5);
    assert_eq!(q.letter(&id).0, "lease-expired");
    // With a restart of the server between its crashes it ends too.
    let mut server = Server::builder().aof().set("max-lapses", "3").start();
    for crash in 0..3 {
        let mut q = server.queue("q");
        if crash == 0 {
            ok!(q, "PUSH", "poison", "ID", "poison");
        } else {
            q.wait_lapse("poison");
            q.make_due("poison");
        }
        assert_eq!(q.claim_with(args!["LEASE", 100]).len(), 1);
        q.unwatched();
        server.crash_and_restart();
    }
    let mut q = server.queue("q");
    q.wait_lapse("poison");
    assert_eq!(q.state("poison"), "dead");
}

#[test]
fn case_14_a_release_outlives_a_restart() {
    let mut server = Server::builder().aof().start();
    let mut q = server.queue("q");
    let released = q.push_and_claim("released");
    assert_eq!(ints(&ok!(q, "RELEASE", "DELAY", "1h", "RECEIPTS", &released.receipt)), [HOUR]);
    let extended = q.push_and_claim("extended");
    q.extend(2 * HOUR, &extended.receipt);
    let retried = q.push_and_claim("retried");
    ok!(q, "RETRY", &retried.receipt, "DELAY", "1h");
    let failed = q.push_and_claim("failed");
    q.fail(&failed.receipt);
    q.push("lapsed");
    let lapsed = q.claim_and_lapse();
    let before = server.dump();
    drop(q);
    server.crash_and_restart();
    assert_eq!(server.dump(), before);
    let mut q = server.queue("q");
    assert_eq!(q.record(&released.id).releases, 1);
    assert_eq!(q.state(&released.id), "delayed");
    assert_eq!(q.release(&released.receipt), -1, "spent, still");
    assert_eq!(q.state(&extended.id), "leased");
    assert_eq!(q.record(&retried.id).failures, 1);
    assert_eq!(q.state(&failed.id), "dead");
    assert_eq!(q.ack(&lapsed.receipt), 1, "late, still");
}

#[test]
fn case_15_no_timer_writes_into_a_pause() {
    // With an append only file and a replica, and every kind of timer due within the pause.
    let mut primary =
        Server::builder().aof().set("purge-interval", "10").set("stale-after", "50").set("dead-max-age", "100").start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.catch_up(&primary);
    for round in 0..3 {
        let mut q = primary.queue(format!("q-{round}"));
        q.unwatched();
        primary.set("stale-policy", "keep");
        for i in 0..20 {
            ok!(q, "PUSH", i, "ID", format!("id-{i}"), "KEEP", 60);
        }
        let jobs = q.claim_with(args!["COUNT", 10, "LEASE", 60]);
        ok!(q, "FAIL", &jobs[0].receipt);
        primary.run(&["CLIENT", "PAUSE", "400", "WRITE"]);
        primary.set("stale-policy", "dead");
        wait_for("the timers, after the pause", || {
            let keys: i64 = q.raw(args!["EXISTS", q.key("leased"), q.key("ids"), q.key("dead")]);
            keys == 0
        });
        primary.assert_alive();
        q.check_clean();
    }
    assert_replica_same(&primary, &replica);
}

#[test]
fn case_16_a_replica_with_another_clock_holds_the_same() {
    let primary = Server::start();
    let (ahead, behind) = (Wall::new(), Wall::new());
    ahead.set(26 * HOUR);
    behind.set(-26 * HOUR);
    let replicas = [&ahead, &behind].map(|wall| wall.rules(Server::builder()).replica_of(&primary).start());
    for replica in &replicas {
        let skew = replica.queue("q").now() - primary.queue("q").now();
        assert!(skew.abs() > 25 * HOUR, "the clock is the test's: {skew}");
        replica.catch_up(&primary);
    }
    scenarios::run_all(&primary);
    for replica in &replicas {
        assert_replica_same(&primary, replica);
    }
}

#[test]
fn case_17_a_clock_step_fires_nothing_and_stalls_nothing() {
    for step in [HOUR, -HOUR, 400 * DAY, -400 * DAY, 5 * 60_000, -5 * 60_000] {
        let wall = Wall::new();
        let mut server = wall.rules(Server::builder()).start();
        let mut q = server.queue("q");
        let far = text(&ok!(q, "PUSH", "far", "DELAY", "2h"));
        let far_due = q.due_at(&far);
        q.push("held");
        let held = q.claim_with(args!["LEASE", "2h"]).remove(0);
        ok!(q, "PUSH", "mine", "ID", "mine", "KEEP", "2h");
        let mine = q.claim();
        assert_eq!(q.ack(&mine.receipt), 1);
        q.push("lapsing");
        let lapsing = q.claim_with(args!["LEASE", 300]).remove(0);
        ok!(q, "PUSH", "soon", "DELAY", 300);
        let before = q.now();
        wall.set(step);
        wait_for("the clock to be set", || (q.now() - before).abs() > 60_000);
        eprintln!("step {step}");
        // Nothing stalls: a lease ends, delays pass, pushes are due.
        q.wait_lapse(&lapsing.id);
        let mut seen: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        wait_for("the jobs that are due", || {
            for job in q.claim_n(10) {
                seen.insert(job.payload, job.attempt);
            }
            seen.len() >= 2
        });
        let expected: BTreeMap<Vec<u8>, i64> = [(b"lapsing".to_vec(), 2), (b"soon".to_vec(), 1)].into();
        assert_eq!(seen, expected, "step {step}");
        let after = text(&ok!(q, "PUSH", "after"));
        assert_eq!(q.claim().id, after, "step {step}");
        // Nothing fires: neither the delay, nor the lease, nor the id's time, nor the purge.
        assert_eq!(q.due_at(&far), far_due);
        assert_eq!(q.state(&far), "delayed");
        assert_eq!(q.state(&held.id), "leased");
        assert_eq!(ok!(q, "PUSH", "x", "ID", "mine", "NX"), Value::Nil);
        assert_eq!(q.ack(&held.receipt), 1);
        let more = text(&ok!(q, "PUSH", "more"));
        assert!(more > after, "ids go on rising");
        assert_eq!(q.stats(["stale-purged", "lapsed", "delayed"]), [0, 1, 1]);
        // AT is wall time at the server, whatever the step: in an hour is in an hour. A small offset
        // is closed by then, so queue time runs by as much more or less; a large one stays.
        let at = q.now() + HOUR;
        let before = q.due_at(&more);
        let id = text(&ok!(q, "PUSH", "at", "AT", at));
        let closed = if step.abs() > 10 * 60_000 { 0 } else { step };
        assert_between(q.due_at(&id) - before, HOUR + closed - 5000, HOUR + closed + 5000);
        server.assert_alive();
    }
}

//! Failure cases from the public trackers of other systems, by their number in the table: each
//! class must be impossible here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use redis::Value;

use crate::common::wall::Wall;
use crate::common::*;
use crate::{args, err, ok};

use super::bad_input::all_commands;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// The keys of a queue beside its header.
const COMPANIONS: [&str; 6] = ["jobs", "due", "leased", "ids", "dead", "dead:at"];

/// A queue with a job in each state, under ids that say so, and the receipt of the leased one, whose retries are used up.
fn one_of_each(server: &Server, name: &str) -> (Queue, String) {
    let mut q = server.queue(name);
    ok!(q, "PUSH", "dead", "ID", "dead");
    let dead = q.claim();
    q.fail(&dead.receipt);
    ok!(q, "PUSH", "leased", "ID", "leased", "RETRIES", 0);
    let receipt = q.claim().receipt;
    ok!(q, "PUSH", "delayed", "ID", "delayed", "DELAY", "1h");
    ok!(q, "PUSH", "ready", "ID", "ready");
    (q, receipt)
}

/// Index entries that no job has, before all others.
fn add_ghosts(q: &mut Queue, companion: &str, count: usize) {
    let mut words = args!["ZADD", q.key(companion)];
    words.extend((0..count).flat_map(|i| args![1, format!("ghost-{i:04}")]));
    assert_eq!(q.raw::<i64>(words), count as i64);
}

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
fn case_01_an_error_in_the_middle_leaves_nothing_half_done() {
    // Whatever key of a queue a command stumbles over, it has done all that it does or nothing.
    let server = Server::start();
    let count = all_commands("x", "x").len();
    for companion in COMPANIONS {
        for place in 0..count {
            let (mut q, receipt) = one_of_each(&server, &format!("{companion}-{place}"));
            q.unwatched();
            let (key, aside) = (q.key(companion), [&q.key(companion)[..], b"aside"].concat());
            q.raw::<()>(args!["RENAME", &key, &aside]);
            q.raw::<()>(args!["SET", &key, "another type"]);
            let (name, words) = all_commands(&receipt, "leased").swap_remove(place);
            let before = server.dump();
            if let Err(error) = q.call(name, words) {
                assert_error(&error_text(&error), "WRONGTYPE", &[]);
                assert_eq!(server.dump(), before, "DQ.{name} and {companion}");
                q.raw::<()>(args!["RENAME", &aside, &key]);
                q.check_clean();
            }
            server.run(&["FLUSHALL"]);
        }
    }
    // A batch with one bad job among good ones.
    let mut q = server.queue("q");
    ok!(q, "CONFIG", "SET", "max-length", 3, "max-payload", 5, "max-delay", "1h");
    assert_error(&err!(q, "MPUSH", "PAYLOADS", "a", "b", "c", "d"), "DQFULL", &[]);
    assert_error(&err!(q, "MPUSH", "PAYLOADS", "a", "too large", "c"), "DQSIZE", &[]);
    assert_error(&err!(q, "MPUSH", "JOBS", "a", 0, "a", "b", "2h", "b"), "DQDELAY", &[]);
    assert_eq!(q.stats(["ready", "delayed"]), [0, 0]);
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
fn case_02_nothing_that_acts_by_itself_stops_at_dangling_entries() {
    // More of them than one slice takes stand before five whole jobs.
    const GHOSTS: usize = 1500;
    let server = Server::builder().set("purge-interval", "10").start();
    let mut q = server.queue("leases");
    q.unwatched();
    q.push_many(5, &[]);
    add_ghosts(&mut q, "leased", GHOSTS);
    q.claim_with(args!["COUNT", 5, "LEASE", 1]);
    q.wait_stat("lapsed", 5);

    let mut q = server.queue("waiters");
    q.unwatched();
    std::thread::scope(|scope| {
        let mut worker = server.queue("waiters");
        worker.unwatched();
        let claim = scope.spawn(move || worker.claim_with(args!["BLOCK", "20s"]));
        q.wait_stat("waiting", 1);
        add_ghosts(&mut q, "due", GHOSTS);
        let id = q.push("x");
        assert_eq!(claim.join().expect("it is answered")[0].id, id);
    });

    let mut q = server.queue("bulk");
    q.unwatched();
    q.push_many(5, &[]);
    add_ghosts(&mut q, "due", GHOSTS);
    ok!(q, "RESCHEDULE", "DELAY", "1h", "ALL");
    q.wait_stat("delayed", 5);
    ok!(q, "PURGE", "STATE", "ready", "delayed");
    let jobs = q.key("jobs");
    wait_for("the purge", || q.raw::<i64>(args!["EXISTS", &jobs]) == 0);

    // The purge of stale jobs, the replay of their letters, and the bound on letters.
    let mut q = server.queue("stale");
    q.unwatched();
    q.push_many(5, &[]);
    add_ghosts(&mut q, "due", GHOSTS);
    ok!(q, "CONFIG", "SET", "stale-after", 1);
    q.wait_stat("stale-purged", 5);
    ok!(q, "CONFIG", "SET", "stale-policy", "keep");
    add_ghosts(&mut q, "dead:at", GHOSTS);
    let letters: Vec<String> = q.raw(args!["HKEYS", q.key("dead")]);
    q.raw::<i64>(args!["ZADD", q.key("leased"), "9e12", &letters[0]]);
    assert_eq!(int(&ok!(q, "REPLAY", "DELAY", "1h", "ALL")), 5);
    q.wait_stat("replayed", 5);
    assert_eq!(q.stat("leased"), 0, "a letter's old lease is none of the job's");
    for job in q.push_many(5, &[]) {
        assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", 0, "IDS", job)), 1);
    }
    for job in q.claim_n(5) {
        q.fail(&job.receipt);
    }
    ok!(q, "CONFIG", "SET", "dead-max", 2);
    let dead = q.key("dead");
    wait_for("the trim", || q.raw::<i64>(args!["HLEN", &dead]) == 2);
    ok!(q, "REPAIR");
    q.check_clean();
}

#[test]
fn case_03_whatever_key_goes_no_job_is_half_and_the_rest_is_found_again() {
    // An eviction takes whole keys: every choice of them, and work that goes on.
    let mut server = Server::start();
    let whole: BTreeSet<&[u8]> = [&b"leased"[..], b"delayed", b"ready", b"dead", b"new"].into();
    for choice in 0..1 << (COMPANIONS.len() + 1) {
        let (mut q, receipt) = one_of_each(&server, &format!("q-{choice}"));
        q.unwatched();
        let keys = COMPANIONS.map(|companion| q.key(companion)).into_iter().chain([q.name.clone()]);
        let gone: Vec<_> = keys.enumerate().filter(|(i, _)| choice >> i & 1 == 1).map(|(_, key)| key).collect();
        if !gone.is_empty() {
            q.raw::<i64>(args!["DEL", gone]);
        }
        let has = |q: &mut Queue, companion: &str| q.raw::<i64>(args!["EXISTS", q.key(companion)]) == 1;
        let (jobs_left, letters_left) = (has(&mut q, "jobs"), has(&mut q, "dead"));
        q.push("new");
        let mut met: BTreeSet<Vec<u8>> = q.claim_n(10).into_iter().map(|job| job.payload).collect();
        ok!(q, "REPAIR");
        q.check_clean();
        q.watched();
        assert!(q.ack(&receipt) == i64::from(jobs_left), "{choice:b}: the worker at work can finish");
        ok!(q, "RESCHEDULE", "DELAY", 0, "ALL");
        ok!(q, "REPLAY", "ALL");
        met.extend(q.claim_n(10).into_iter().map(|job| job.payload));
        let mut expected: BTreeSet<Vec<u8>> = [b"new".to_vec()].into();
        expected.extend(jobs_left.then(|| [b"delayed".to_vec(), b"ready".to_vec()]).into_iter().flatten());
        expected.extend(letters_left.then(|| b"dead".to_vec()));
        assert_eq!(met, expected, "{choice:b}");
        assert!(met.iter().all(|payload| whole.contains(&payload[..])), "{choice:b}: {met:?}");
    }
    server.assert_alive();
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
fn case_04_whatever_takes_a_job_out_frees_its_id() {
    let server = Server::start();
    let mut q = server.queue("q");
    let ends: [(&str, &str, &[&str]); 8] = [
        ("ready", "CANCEL", &["mine"]),
        ("leased", "CANCEL", &["mine"]),
        ("ready", "PURGE", &["STATE", "ready"]),
        ("delayed", "PURGE", &["STATE", "delayed"]),
        ("leased", "PURGE", &["STATE", "leased"]),
        ("dead", "CANCEL", &["mine"]),
        ("leased", "DROP", &["FORCE"]),
        ("lost", "REPAIR", &[]),
    ];
    for (state, name, words) in ends {
        let delay = if state == "delayed" { "1h" } else { "0" };
        ok!(q, "PUSH", "x", "ID", "mine", "KEEP", "30d", "DELAY", delay);
        ok!(q, "PUSH", "y", "ID", "other", "DELAY", "1h");
        if state == "leased" || state == "dead" {
            let job = q.claim();
            if state == "dead" {
                q.fail(&job.receipt);
            }
        }
        if state == "lost" {
            q.raw::<i64>(args!["HDEL", q.key("jobs"), "mine"]);
        }
        let reply = q.call(name, args![words]).unwrap_or_else(|e| panic!("{name} of a {state} job: {e}"));
        assert_ne!(reply, Value::Int(0), "{name} of a {state} job");
        assert_eq!(text(&ok!(q, "PUSH", "z", "ID", "mine", "NX")), "mine", "{name} of a {state} job");
        assert_eq!(q.claim().payload, b"z");
        ok!(q, "DROP", "FORCE");
    }
    // The id of a job that was lost stays taken while KEEP runs: only the record told where the job is in `due`.
    ok!(q, "PUSH", "x", "ID", "mine", "KEEP", "30d");
    q.unwatched();
    q.raw::<i64>(args!["HDEL", q.key("jobs"), "mine"]);
    assert_eq!(ok!(q, "PUSH", "z", "ID", "mine", "NX"), Value::Nil);
    q.watched();
    ok!(q, "DROP", "FORCE");
    // And the time of KEEP frees it, though nobody has swept yet.
    ok!(q, "PUSH", "x", "ID", "mine", "KEEP", 40);
    let job = q.claim();
    assert_eq!(q.ack(&job.receipt), 1);
    let free_at = q.score("ids", "mine").expect("it is taken");
    wait_for("the time of KEEP to be over", || q.now() > free_at + 5);
    assert!(q.score("ids", "mine").is_some(), "it was swept already, so this shows nothing");
    assert_eq!(text(&ok!(q, "PUSH", "x", "ID", "mine", "NX")), "mine");
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

/// Has a worker wait for a job of `queue`, does `act` when it waits, and sees that the worker has its job though nobody
/// does anything more.
fn wakes(server: &Server, queue: &str, how: &str, act: impl FnOnce(&mut Queue)) {
    let mut q = server.queue(queue);
    q.unwatched();
    std::thread::scope(|scope| {
        let mut worker = server.queue(queue);
        worker.unwatched();
        let claim = scope.spawn(move || worker.claim_with(args!["BLOCK", "20s"]));
        wait_for("the worker to wait", || q.stat("waiting") == 1 || claim.is_finished());
        act(&mut q);
        let begin = Instant::now();
        assert_eq!(claim.join().expect("it is answered").len(), 1, "{how}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{how}: {:?}", begin.elapsed());
    });
}

#[test]
fn case_06_who_waits_is_woken_by_whatever_makes_a_job_due() {
    let server = Server::start();
    let held = |name: &str, options: Vec<Vec<u8>>| {
        let mut q = server.queue(name);
        q.push("x");
        let job = q.claim_with(options).remove(0);
        (q, job)
    };
    let commands: [(&str, &str, &[&str]); 8] = [
        ("a push", "PUSH", &["x"]),
        ("a delay that passes", "PUSH", &["x", "DELAY", "150"]),
        ("an id that had a job before", "PUSH", &["x", "ID", "mine", "DELAY", "150"]),
        ("an earlier time by REPLACE", "PUSH", &["x", "ID", "mine", "REPLACE", "DELAY", "150"]),
        ("several", "MPUSH", &["DELAY", "150", "PAYLOADS", "x"]),
        ("another time", "RESCHEDULE", &["DELAY", "150", "ALL"]),
        ("a replay", "REPLAY", &["DELAY", "150", "ALL"]),
        ("resumed", "RESUME", &[]),
    ];
    for (how, name, words) in commands {
        let mut q = server.queue(how);
        match name {
            "PUSH" if words.contains(&"REPLACE") => drop(ok!(q, "PUSH", "x", "ID", "mine", "DELAY", "1h")),
            "PUSH" if words.contains(&"ID") => {
                ok!(q, "PUSH", "x", "ID", "mine", "KEEP", 0);
                let job = q.claim();
                assert_eq!(q.ack(&job.receipt), 1);
            }
            "RESCHEDULE" => drop(ok!(q, "PUSH", "x", "DELAY", "1h")),
            "REPLAY" => {
                let job = q.push_and_claim("x");
                q.fail(&job.receipt);
            }
            "RESUME" => {
                q.push("x");
                ok!(q, "PAUSE");
            }
            _ => {}
        }
        wakes(&server, how, how, |q| drop(q.ok(name, args![words])));
    }
    let mut q = server.queue("before");
    ok!(q, "PUSH", "x", "DELAY", 300);
    wakes(&server, "before", "a delay that had begun", |_| {});
    held("lapse", args!["LEASE", 300]);
    wakes(&server, "lapse", "a lease that ends", |_| {});
    for name in ["RETRY", "RELEASE"] {
        let (_, job) = held(name, args![]);
        wakes(&server, name, name, |q| match name {
            "RETRY" => drop(ok!(q, "RETRY", job.receipt, "DELAY", 150)),
            _ => drop(ok!(q, "RELEASE", "DELAY", 150, "RECEIPTS", job.receipt)),
        });
    }
    let (mut q, job) = held("room", args![]);
    ok!(q, "CONFIG", "SET", "max-leased", 1);
    q.push("y");
    wakes(&server, "room", "an ACK that makes room", |q| assert_eq!(q.ack(&job.receipt), 1));
    let (_, job) = held("lost", args![]);
    wakes(&server, "lost", "a repair", |q| {
        q.raw::<i64>(args!["ZREM", q.key("leased"), &job.id]);
        ok!(q, "REPAIR");
    });
    wakes(&server, "paused", "the end of a pause of the server's", |q| {
        ok!(q, "PUSH", "x", "DELAY", 50);
        server.run(&["CLIENT", "PAUSE", "300", "WRITE"]);
    });
    wakes(&server, "moved", "a queue that another name had", |q| {
        let mut other = server.queue("old");
        other.unwatched();
        ok!(other, "PUSH", "x", "DELAY", 50);
        for companion in ["jobs", "due"] {
            other.raw::<()>(args!["RENAME", other.key(companion), q.key(companion)]);
        }
    });
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
fn case_07_no_way_to_put_a_job_off_is_cut_to_32_bits() {
    let server = Server::start();
    server.set("max-delay", "3650d");
    server.set("max-lease", "30d");
    let mut q = server.queue("q");
    for far in [(1 << 31) + 7, (1 << 32) + 7, 3650 * DAY] {
        let begin = q.now();
        let put_off = |q: &mut Queue, id: &str, by: i64| {
            assert_between(q.due_at(id), begin + by, q.now() + by);
            assert!(q.claim_n(10).is_empty(), "{far} ms");
        };
        let at = q.now() + far - 1000;
        ok!(q, "PUSH", "x", "ID", "a", "AT", at);
        put_off(&mut q, "a", far - 1000);
        ok!(q, "MPUSH", "JOBS", "b", far, "x");
        put_off(&mut q, "b", far);
        ok!(q, "PUSH", "x", "ID", "c");
        let held = q.claim_with(args!["LEASE", "30d"]).remove(0);
        assert_between(q.score("leased", "c").expect("a lease"), begin + 30 * DAY, q.now() + 30 * DAY);
        ok!(q, "RELEASE", "DELAY", far, "RECEIPTS", held.receipt);
        put_off(&mut q, "c", far);
        ok!(q, "RESCHEDULE", "DELAY", far - 5000, "IDS", "c");
        put_off(&mut q, "c", far - 5000);
        ok!(q, "RESCHEDULE", "AT", at, "ALL");
        put_off(&mut q, "b", far - 1000);
        for id in ["d", "e"] {
            ok!(q, "PUSH", id, "ID", id);
            let job = q.claim();
            q.fail(&job.receipt);
        }
        ok!(q, "REPLAY", "DELAY", 1000, "SPREAD", far - 1000, "ALL");
        let dues = ["d", "e"].map(|id| q.due_at(id));
        assert!((dues[1] - dues[0] - (far - 1000) / 2).abs() < 2, "{dues:?}");
        ok!(q, "DROP");
    }
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
fn case_08_no_time_counts_against_a_job_that_is_put_off() {
    // Neither leases nor the purge of stale jobs see it, whoever put it off.
    let server = Server::builder().set("purge-interval", "10").set("stale-after", "30").start();
    server.set("lease", "20");
    let mut q = server.queue("q");
    q.push_many(2, &[]);
    let jobs = q.claim_with(args!["COUNT", 2, "LEASE", "1h"]);
    ok!(q, "RETRY", &jobs[0].receipt, "DELAY", 700);
    ok!(q, "RELEASE", "DELAY", 700, "RECEIPTS", &jobs[1].receipt);
    ok!(q, "PUSH", "x", "DELAY", 700);
    ok!(q, "PUSH", "y", "DELAY", "1h");
    ok!(q, "RESCHEDULE", "DELAY", 700, "ALL");
    let due = q.due_at(&jobs[1].id);
    wait_for("the time before it is over", || {
        let still = q.stats(["delayed", "leased", "lapsed", "stale-purged", "dead"]);
        let over = q.now() > due - 50;
        assert!(over || still == [4, 0, 0, 0, 0], "{still:?}");
        over
    });
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
        let workers: Vec<_> = [true, false, true, false]
            .map(|waits| {
                let (mut worker, left) = (server.queue("q"), &left);
                worker.unwatched();
                scope.spawn(move || {
                    let mut ids = Vec::new();
                    wait_for("all jobs", || {
                        // Half of them wait for jobs, the others ask again and again.
                        let jobs =
                            if waits { worker.claim_with(args!["COUNT", 5, "BLOCK", 20]) } else { worker.claim_n(5) };
                        left.fetch_sub(jobs.len() as i64, Ordering::Relaxed);
                        ids.extend(jobs.into_iter().map(|job| job.id));
                        left.load(Ordering::Relaxed) <= 0
                    });
                    ids
                })
            })
            .into();
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
    ok!(q, "RETRY", job.receipt, "DELAY", 1500);
    let due = q.due_at("a");
    for (id, at) in [("after", due + 50), ("before", due - 50)] {
        ok!(q, "PUSH", id, "ID", id, "AT", at);
    }
    wait_for("all three to be due", || q.now() > due + 60);
    let jobs = q.claim_n(10);
    let order: Vec<&str> = jobs.iter().map(|job| &job.id[..]).collect();
    assert_eq!(order, ["before", "a", "after"]);
    // Given back, put off together and found again after a restart they keep it too.
    for job in &jobs {
        ok!(q, "RELEASE", "DELAY", 200, "RECEIPTS", &job.receipt);
    }
    let due = ["before", "a", "after"].map(|id| q.due_at(id));
    assert!(due.is_sorted(), "{due:?}");
    ok!(q, "RESCHEDULE", "DELAY", 100, "ALL");
    assert_eq!(q.due_at("a"), q.due_at("after"), "put off together, they are due together, in the order of their ids");
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
fn case_11_whatever_is_done_to_very_many_leaves_others_room() {
    const N: i64 = 20_000;
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    ok!(q, "CONFIG", "SET", "stale-policy", "keep");
    q.push_many(N as usize, &[]);
    let mut looker = server.queue("q");
    looker.unwatched();
    // How many are left in a place, as somebody who only looks sees it: first all, then fewer and fewer, then none.
    let mut goes_down = |what: &str, look: &dyn Fn(&mut Queue) -> i64, act: &mut dyn FnMut()| {
        let mut seen = BTreeSet::new();
        act();
        wait_for(what, || {
            let left = look(&mut looker);
            seen.insert(left);
            left == 0
        });
        let between = seen.iter().filter(|left| (1..N).contains(*left)).count();
        assert!(between >= 1, "{what}: {seen:?}");
    };
    let (due, dead_at, jobs) = (q.key("due"), q.key("dead:at"), q.key("jobs"));
    let now = q.now();
    let ready = |q: &mut Queue| q.raw(args!["ZCOUNT", &due, 0, now + HOUR / 2]);
    let delayed = |q: &mut Queue| q.raw(args!["ZCOUNT", &due, now + HOUR / 2, "+inf"]);
    let live = |q: &mut Queue| q.raw(args!["HLEN", &jobs]);
    let dead = |q: &mut Queue| q.raw(args!["ZCARD", &dead_at]);
    goes_down("all to be put off", &ready, &mut || drop(q.ok("RESCHEDULE", args!["DELAY", "1h", "ALL"])));
    goes_down("all to be due again", &delayed, &mut || drop(q.ok("RESCHEDULE", args!["DELAY", 0, "ALL"])));
    goes_down("all to be stale", &live, &mut || {
        ok!(q, "CONFIG", "SET", "stale-after", 1, "stale-policy", "dead");
        server.set("purge-interval", "10");
    });
    ok!(q, "CONFIG", "SET", "stale-policy", "keep");
    goes_down("all to be replayed", &dead, &mut || drop(q.ok("REPLAY", args!["ALL"])));
    goes_down("all to be purged", &live, &mut || drop(q.ok("PURGE", args!["STATE", "ready"])));
    q.check_clean();
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
fn case_12_at_maxmemory_only_what_makes_jobs_is_refused() {
    let server = Server::start();
    let commands = all_commands("x", "x").len();
    for place in 0..commands {
        let (mut q, receipt) = one_of_each(&server, &format!("q-{place}"));
        let (name, words) = all_commands(&receipt, "leased").swap_remove(place);
        server.run(&["CONFIG", "SET", "maxmemory", "1"]);
        if ["PUSH", "MPUSH", "REPLAY"].contains(&name) {
            assert_error(&q.err(name, words), "OOM", &[]);
        } else {
            q.ok(name, words);
        }
        // Nor do the timers stop: a lease ends, and who waits has the job.
        let mut worker = server.queue(&q.name);
        worker.unwatched();
        if let Some(job) = worker.claim_with(args!["LEASE", 1]).first() {
            worker.wait_lapse(&job.id);
            assert!(!worker.claim_with(args!["BLOCK", "20s"]).is_empty());
        }
        for words in [args!["PAUSE"], args!["RESUME"], args!["REPAIR"]] {
            let what = String::from_utf8_lossy(&words[0]).into_owned();
            if (what.as_str(), name) == ("PAUSE", "DROP") {
                // It would make the queue anew.
                assert_error(&q.err(&what, words[1..].to_vec()), "OOM", &["queue"]);
            } else {
                q.ok(&what, words[1..].to_vec());
            }
        }
        server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    }
}

/// What is never refused must not be a way to use still more memory.
#[test]
fn case_12_at_maxmemory_little_is_kept_of_what_workers_say() {
    const LONG: usize = 64 * 1024;
    const KEPT: usize = 256;
    let server = Server::start();
    let mut q = server.queue("q");
    q.push_many(50, &[]);
    let jobs = q.claim_n(50);
    let used = || server.info("memory", "used_memory").parse::<usize>().expect("a number");
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let before = used();
    let (error, stack) = (vec![b'e'; LONG], vec![b's'; LONG]);
    for (place, job) in jobs[..40].iter().enumerate() {
        if place % 2 == 0 {
            ok!(q, "RETRY", &job.receipt, "DELAY", "1h", "ERROR", &error, "STACK", &stack);
        } else {
            ok!(q, "FAIL", &job.receipt, "ERROR", &error, "STACK", &stack);
        }
    }
    let more = used().saturating_sub(before);
    assert!(more < 40 * LONG / 2, "{more} bytes more");
    let short = Some(error[..KEPT].to_vec());
    let record = q.record(&jobs[0].id);
    assert_eq!((record.error, record.stack), (short.clone(), None));
    let letter = q.letter(&jobs[1].id).1;
    assert_eq!((letter.error, letter.stack), (short.clone(), None));
    // Of a stack alone nothing is kept, and no character is cut in two; what is short is kept whole.
    ok!(q, "FAIL", &jobs[40].receipt, "STACK", &stack);
    let letter = q.letter(&jobs[40].id).1;
    assert_eq!((letter.error, letter.stack), (None, None));
    ok!(q, "FAIL", &jobs[41].receipt, "ERROR", format!("x{}", "\u{df}".repeat(LONG)));
    assert_eq!(q.letter(&jobs[41].id).1.error, Some(format!("x{}", "\u{df}".repeat(127)).into_bytes()));
    ok!(q, "FAIL", &jobs[42].receipt, "ERROR", &error[..200], "STACK", &stack[..56]);
    let letter = q.letter(&jobs[42].id).1;
    assert_eq!((letter.error, letter.stack), (Some(error[..200].to_vec()), Some(stack[..56].to_vec())));
    // A lower max-error still counts, and one without limit is none.
    for (max, kept) in [("100", 100), ("0", KEPT)] {
        server.set("max-error", max);
        let job = &jobs[if kept == 100 { 43 } else { 44 }];
        ok!(q, "FAIL", &job.receipt, "ERROR", &error, "STACK", &stack);
        assert_eq!(q.letter(&job.id).1.error, Some(error[..kept].to_vec()));
    }
    // Also of a late FAIL, which writes over the letter.
    server.set("max-lapses", "1");
    assert_eq!(q.extend(1, &jobs[45].receipt), 1);
    q.wait_lapse(&jobs[45].id);
    ok!(q, "FAIL", &jobs[45].receipt, "ERROR", &error, "STACK", &stack);
    let letter = q.letter(&jobs[45].id).1;
    assert_eq!((letter.error, letter.stack), (short, None));
    // With room all is kept.
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    ok!(q, "FAIL", &jobs[46].receipt, "ERROR", &error, "STACK", &stack);
    let letter = q.letter(&jobs[46].id).1;
    assert_eq!((letter.error, letter.stack), (Some(error), Some(stack)));
}

#[test]
fn case_12_at_maxmemory_no_queue_is_made() {
    let server = Server::start();
    let mut q = server.queue("there");
    q.push("x");
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut new = server.queue("new");
    assert_error(&err!(new, "PAUSE"), "OOM", &["queue"]);
    assert_error(&err!(new, "CONFIG", "SET", "lease", "7s"), "OOM", &["queue"]);
    for (name, words) in [("RESUME", args![]), ("CONFIG", args!["RESET", "lease"]), ("CLAIM", args![])] {
        let before = server.dump();
        new.ok(name, words);
        assert_eq!(server.dump(), before, "{name}");
    }
    // One that is there can be seen to.
    ok!(q, "CONFIG", "SET", "max-length", 5);
    ok!(q, "PAUSE");
    ok!(q, "RESUME");
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
    assert_eq!(q.letter(&id).0, "lapses-exhausted");
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
fn case_13_nothing_in_between_takes_a_crash_off_the_count() {
    let primary = Server::builder().set("max-lapses", "3").start();
    let replica = Server::builder().set("max-lapses", "3").replica_of(&primary).start();
    replica.catch_up(&primary);
    let mut q = primary.queue("q");
    ok!(q, "PUSH", "poison", "ID", "poison");
    q.claim_and_lapse();
    // A worker that fails in good order, one that gives the job back, an operator who puts it off.
    let job = q.claim();
    ok!(q, "RETRY", job.receipt, "DELAY", 0);
    q.claim_and_lapse();
    q.make_due("poison");
    let job = q.claim();
    assert_eq!(q.release(&job.receipt), 0);
    ok!(q, "RESCHEDULE", "DELAY", 0, "ALL");
    assert_eq!(q.record("poison").lapses, 2);
    // And a failover.
    assert_replica_same(&primary, &replica);
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    let mut q = replica.queue("q");
    q.claim_and_lapse();
    assert_eq!(q.state("poison"), "dead");
    assert_eq!(q.letter("poison").0, "lapses-exhausted");
}

/// Queues on each of which an operator has done one thing.
fn after_operators(server: &Server) {
    let acts: [(&str, &[&str]); 9] = [
        ("CANCEL", &["ready", "leased"]),
        ("RESCHEDULE", &["DELAY", "2h", "ALL"]),
        ("REPLAY", &["DELAY", "2h", "ALL"]),
        ("PURGE", &["STATE", "ready", "leased", "dead"]),
        ("DROP", &["FORCE"]),
        ("PAUSE", &[]),
        ("CONFIG", &["SET", "lease", "7s", "max-leased", "3"]),
        ("CONFIG", &["RESET", "lease"]),
        ("REPAIR", &[]),
    ];
    for (i, (name, words)) in acts.into_iter().enumerate() {
        let (mut q, _) = one_of_each(server, &format!("operator-{i}"));
        ok!(q, "CONFIG", "SET", "lease", "9s");
        if name == "REPAIR" {
            q.unwatched();
            let member = q.due_member("ready");
            q.raw::<i64>(args!["ZREM", q.key("due"), member]);
        }
        let before = server.dump();
        q.ok(name, args![words]);
        assert_ne!(server.dump(), before, "{name} did nothing");
    }
    let (mut q, _) = one_of_each(server, "resumed");
    ok!(q, "PAUSE");
    ok!(q, "RESUME");
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
    after_operators(&server);
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
        // A job that falls due for one who waits, and work on very many that has begun.
        let mut waited = primary.queue(format!("waited-{round}"));
        waited.unwatched();
        let worker = std::thread::spawn(move || waited.claim_with(args!["BLOCK", "20s"]));
        let mut waited = primary.queue(format!("waited-{round}"));
        waited.wait_stat("waiting", 1);
        let mut many = primary.queue(format!("many-{round}"));
        many.unwatched();
        many.push_many(5000, &args!["DELAY", "1h"]);
        for i in 0..20 {
            ok!(q, "PUSH", i, "ID", format!("id-{i}"), "KEEP", 60);
        }
        // Or a little later; a busy machine may get to the pause after that.
        let due = waited.now() + 200;
        ok!(waited, "PUSH", "x", "DELAY", 200);
        ok!(many, "RESCHEDULE", "DELAY", "2h", "ALL");
        let jobs = q.claim_with(args!["COUNT", 10, "LEASE", 60]);
        ok!(q, "FAIL", &jobs[0].receipt);
        let begin = Instant::now();
        primary.run(&["CLIENT", "PAUSE", "400", "WRITE"]);
        let falls_due_within = q.now() < due;
        primary.set("stale-policy", "dead");
        wait_for("the timers, after the pause", || {
            let keys: i64 = q.raw(args!["EXISTS", q.key("leased"), q.key("ids"), q.key("dead")]);
            keys == 0
        });
        assert_eq!(worker.join().expect("it is answered")[0].payload, b"x");
        let waited_ms = begin.elapsed().as_millis();
        assert!(waited_ms >= 390 || !falls_due_within, "somebody was served within the pause, after {waited_ms} ms");
        let (due, soon) = (many.key("due"), many.now() + HOUR * 3 / 2);
        wait_for("all to be put off", || many.raw::<i64>(args!["ZCOUNT", &due, 0, soon]) == 0);
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
        let mut worker = server.queue("waited");
        worker.unwatched();
        ok!(worker, "PUSH", "x", "DELAY", 300);
        let worker = std::thread::spawn(move || worker.claim_with(args!["BLOCK", "20s"]));
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
        assert_eq!(worker.join().expect("it is answered").len(), 1, "step {step}: who waits is served");
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

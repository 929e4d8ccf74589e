//! Very many jobs for which something is to be done at one moment: every one comes out right, in its order, and no
//! other client is kept waiting for long. `make bench-holds` measures the waiting to the point, with more jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use redis::Value;

use crate::blocked::Blocked;
use crate::common::*;
use crate::ping::Pinger;
use crate::{args, ok};

/// How long a client may be kept waiting, on a machine that is busy with other tests.
const HOLD: Duration = Duration::from_secs(1);

/// Claims `n` jobs, a thousand a command.
pub fn claim_many(q: &mut Queue, n: usize, lease: &str) -> Vec<Job> {
    let mut jobs = Vec::new();
    while jobs.len() < n {
        let more = q.claim_with(args!["COUNT", 1000.min(n - jobs.len()), "LEASE", lease]);
        assert!(!more.is_empty(), "{} of {n} were claimed", jobs.len());
        jobs.extend(more);
    }
    jobs
}

/// Runs `act` while another client sends PING after PING.
#[track_caller]
pub fn pinged<T>(server: &Server, what: &str, act: impl FnOnce() -> T) -> T {
    let pinger = Pinger::begin(server);
    let done = act();
    let pings = pinger.end();
    eprintln!("{what}: {pings}");
    assert!(pings.work(1000) <= HOLD && pings.wait(990) <= HOLD, "{what}: {pings}");
    done
}

/// A claim after the other, until `n` jobs have come.
fn take(server: &Server, queue: &str, words: Vec<Vec<u8>>, n: usize) -> Vec<Job> {
    let mut worker = server.queue(queue);
    worker.unwatched();
    let mut jobs = Vec::new();
    while jobs.len() < n {
        let more = worker.claim_with(words.clone());
        assert!(!more.is_empty(), "{} of {n} came", jobs.len());
        jobs.extend(more);
    }
    jobs
}

#[test]
fn a_hundred_thousand_due_at_one_ms_reach_one_who_waits_in_push_order() {
    const N: usize = 100_000;
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    let at = q.now() + 15_000;
    let ids = q.push_many(N, &args!["AT", at]);
    assert!(q.now() < at, "the machine is too slow for this");
    let jobs =
        pinged(&server, "100,000 due, one waiter", || take(&server, "q", args!["COUNT", 1000, "BLOCK", 20_000], N));
    assert!(q.now() >= at);
    let came: Vec<String> = jobs.into_iter().map(|job| job.id).collect();
    assert!(came == ids, "not in push order");
    assert_eq!(q.stats(["delayed", "ready", "leased", "claimed"]), [0, 0, N as i64, N as i64]);
}

#[test]
fn a_hundred_thousand_due_at_one_ms_reach_a_thousand_who_wait() {
    const N: usize = 100_000;
    const WAITERS: usize = 1000;
    const THREADS: usize = 4;
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    let at = q.now() + 15_000;
    let ids = q.push_many(N, &args!["AT", at]);
    let mut lined = Vec::new();
    for _ in 0..WAITERS {
        let mut con = server.conn();
        let command = redis::cmd("DQ.CLAIM").arg("q").arg("COUNT").arg(20).arg("BLOCK").arg(0).get_packed_command();
        con.send_packed_command(&command).expect("it is sent");
        lined.push(con);
    }
    wait_for("all to wait", || crate::blocked::waiting(&server) == WAITERS);
    assert!(q.now() < at, "the machine is too slow for this");
    let came: Vec<String> = pinged(&server, "100,000 due, 1,000 waiters", || {
        let mut first: Vec<Vec<String>> = Vec::new();
        // First come, first served: the answers in the order of the line are the jobs in their order.
        for con in &mut lined {
            let answer: Value = con.recv_response().expect("jobs");
            first.push(list(&answer).iter().map(|job| Job::of(job).id).collect());
        }
        let rest = N - first.iter().map(Vec::len).sum::<usize>();
        assert!(first.iter().all(|jobs| jobs.len() == 20), "a waiter got less than there was");
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                let mut con = server.conn();
                std::thread::spawn(move || {
                    let mut ids = Vec::new();
                    loop {
                        let mut claim = redis::cmd("DQ.CLAIM");
                        claim.arg("q").arg("COUNT").arg(100).arg("BLOCK").arg(1000);
                        let jobs = list(&claim.query::<Value>(&mut con).expect("jobs"));
                        if jobs.is_empty() {
                            return ids;
                        }
                        ids.extend(jobs.iter().map(|job| Job::of(job).id));
                    }
                })
            })
            .collect();
        let others: Vec<String> = workers.into_iter().flat_map(|worker| worker.join().expect("it ends")).collect();
        assert_eq!(others.len(), rest);
        first.into_iter().flatten().chain(others).collect()
    });
    assert!(came[..WAITERS * 20] == ids[..WAITERS * 20], "not in push order");
    let (came, ids): (BTreeSet<_>, BTreeSet<_>) = (came.into_iter().collect(), ids.into_iter().collect());
    assert!(came == ids, "one was lost or came twice");
    assert_eq!(q.stats(["leased", "claimed", "ready"]), [N as i64, N as i64, 0]);
}

/// Claims `n` jobs, and has all their leases run out while nobody ends them; when the module acts again, all end at one
/// moment.
fn claim_and_run_out(server: &Server, q: &mut Queue, n: usize) -> Vec<Job> {
    let jobs = claim_many(q, n, "1h");
    server.set("enabled", "no");
    let leased = q.key("leased");
    assert_eq!(q.raw::<usize>(args!["ZUNIONSTORE", &leased, 1, &leased, "WEIGHTS", 0]), n);
    jobs
}

#[test]
fn a_hundred_thousand_leases_end_at_one_ms() {
    const N: usize = 100_000;
    let server = Server::builder().set("max-lapses", "2").set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    q.unwatched();
    let ids = q.push_many(N, &[]);
    claim_and_run_out(&server, &mut q, N);
    pinged(&server, "100,000 leases", || {
        server.set("enabled", "yes");
        q.wait_stat("lapsed", N as i64);
    });
    assert_eq!(q.stats(["ready", "leased", "dead"]), [N as i64, 0, 0]);
    // They are due again in the order in which they were pushed, and each lapsed once.
    let jobs = claim_and_run_out(&server, &mut q, N);
    assert!(jobs.iter().map(|job| &job.id).eq(&ids), "not in push order");
    assert!(jobs.iter().all(|job| job.attempt == 2));
    pinged(&server, "and to death", || {
        server.set("enabled", "yes");
        q.wait_stat("dead", N as i64);
    });
    assert_eq!(q.stats(["ready", "delayed", "leased", "lapsed"]), [0, 0, 0, 2 * N as i64]);
    q.check_clean();
}

#[test]
fn leases_that_end_in_one_queue_do_not_hold_up_another() {
    const N: usize = 50_000;
    let server = Server::start();
    let mut q = server.queue("many");
    q.unwatched();
    q.push_many(N, &[]);
    claim_and_run_out(&server, &mut q, N);
    let mut few = server.queue("few");
    few.unwatched();
    let key = q.key("leased");
    let mut left = || q.raw::<i64>(args!["ZCARD", &key]);
    let (mut meanwhile, mut most) = (0, 0);
    server.set("enabled", "yes");
    loop {
        let before = left();
        if before == 0 {
            break;
        }
        let blocked = Blocked::begin(&server, "few", args!["BLOCK", 0]);
        few.push("x");
        assert_eq!(blocked.end().jobs().len(), 1);
        most = most.max(before - left());
        meanwhile += 1;
    }
    eprintln!("{meanwhile} jobs were handed out meanwhile; at most {most} leases ended while one waited");
    // Counted in leases, not in time: the machine may stand still, and the server with it.
    assert!(meanwhile > 5 && most < N as i64 / 4, "{meanwhile} {most}");
}

#[test]
fn a_purge_of_very_many() {
    const N: usize = 60_000;
    for policy in ["dead", "drop"] {
        let server = Server::builder()
            .set("purge-interval", "20")
            .set("stale-after", "200")
            .set("stale-policy", "keep")
            .set("id-keep", "1s")
            .start();
        let mut q = server.queue("q");
        q.unwatched();
        let ids = q.push_many(N, &[]);
        let far = text(&ok!(q, "PUSH", "far", "DELAY", "1h"));
        let held = {
            let mut other = server.queue("other");
            other.unwatched();
            other.push("x");
            other.claim_with(args!["LEASE", "1h"]).remove(0)
        };
        pinged(&server, &format!("a purge of 60,000, {policy}"), || {
            server.set("stale-policy", policy);
            q.wait_stat("stale-purged", N as i64);
        });
        assert_eq!(q.stats(["ready", "delayed", "leased", "stale-held", "dead-evicted"]), [0, 1, 0, 0, 0]);
        assert_eq!(q.state(&far), "delayed");
        if policy == "dead" {
            assert_eq!(q.stat("dead"), N as i64);
            let key = q.key("dead:at");
            let order: Vec<String> = q.raw(args!["ZRANGE", key, 0, -1]);
            assert!(order == ids, "the letters are not in the order of the jobs");
            assert_eq!(q.letter(&ids[N / 2]).0, "stale");
        } else {
            assert_eq!(q.stat("dead"), 0);
            assert_eq!(q.raw::<i64>(args!["HLEN", q.key("jobs")]), 1);
        }
        assert_eq!(server.queue("other").ack(&held.receipt), 1);
        q.check_clean();
    }
}

#[test]
fn a_purge_stops_where_the_letters_are_full_and_where_a_worker_comes_back() {
    const N: usize = 30_000;
    let server = Server::builder()
        .set("purge-interval", "20")
        .set("stale-after", "200")
        .set("stale-policy", "keep")
        .set("dead-max", "10000")
        .start();
    let mut q = server.queue("q");
    q.unwatched();
    q.push_many(N, &[]);
    server.set("stale-policy", "dead");
    wait_for("the rest to be held", || q.stat("stale-held") == 20_000);
    assert_eq!(q.stats(["dead", "ready", "dead-evicted"]), [10_000, 20_000, 0]);
    // With room again the purge goes on, until somebody claims.
    server.set("dead-max", "0");
    wait_for("the purge to go on", || q.stat("dead") > 10_000);
    server.set("stale-after", "1h");
    q.claim_n(1);
    let [dead, ready] = q.stats(["dead", "ready"]);
    assert!(ready > 0, "the purge was over before a worker came back");
    wait_for("two more looks", {
        let begin = std::time::Instant::now();
        move || begin.elapsed() > Duration::from_millis(200)
    });
    assert_eq!(q.stats(["dead", "ready"]), [dead, ready]);
    q.check_clean();
}

#[test]
fn letters_and_ids_of_very_many_are_trimmed() {
    const N: usize = 40_000;
    let server = Server::builder().set("purge-interval", "20").set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    q.unwatched();
    let mut words = args!["JOBS"];
    for i in 0..10_000 {
        words.extend(args![format!("id-{i:05}"), 0, i]);
    }
    q.ok("MPUSH", words);
    let ids = q.push_many(N - 10_000, &[]);
    let jobs = claim_many(&mut q, N, "1h");
    let mut pipe = redis::pipe();
    for job in &jobs {
        pipe.cmd("DQ.FAIL").arg("q").arg(&job.receipt).ignore();
    }
    pipe.exec(&mut q.con).expect("all fail");
    assert_eq!(q.stat("dead"), N as i64);
    pinged(&server, "39,990 letters trimmed", || {
        server.set("dead-max", "10");
        q.wait_stat("dead", 10);
    });
    let key = q.key("dead:at");
    let left: Vec<String> = q.raw(args!["ZRANGE", &key, 0, -1]);
    assert_eq!(left, ids[ids.len() - 10..], "the newest stay");
    assert_eq!(q.stat("dead-evicted"), N as i64 - 10);
    // Ids whose time is over: their jobs are gone, and death freed them at once.
    assert_eq!(q.raw::<i64>(args!["EXISTS", q.key("ids")]), 0);
    let mut words = args!["JOBS"];
    for i in 0..10_000 {
        words.extend(args![format!("id-{i:05}"), 0, i]);
    }
    q.ok("MPUSH", words);
    for job in claim_many(&mut q, 10_000, "1h").chunks(1000) {
        let receipts: Vec<&String> = job.iter().map(|job| &job.receipt).collect();
        assert_eq!(int(&q.ok("ACK", args![receipts])), 1000);
    }
    assert_eq!(q.raw::<i64>(args!["ZCARD", q.key("ids")]), 10_000);
    q.raw::<i64>(args!["EVAL", "local ids = redis.call('ZRANGE', KEYS[1], 0, -1) for _, id in ipairs(ids) do redis.call('ZADD', KEYS[1], 1, id) end return #ids", 1, q.key("ids")]);
    pinged(&server, "10,000 ids freed", || q.wait_key("ids", false));
    q.check_clean();
}

#[test]
fn a_walk_over_very_many_and_a_change_meanwhile() {
    const N: usize = 60_000;
    let server = Server::builder().set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    q.unwatched();
    let ids = q.push_many(N, &args!["DELAY", "1h"]);
    for id in &ids[N - 3..] {
        q.raw::<i64>(args!["HDEL", q.key("jobs"), id]);
    }
    let found = pinged(&server, "a walk over 60,000", || {
        let mut con = server.conn();
        let walk = std::thread::spawn(move || redis::cmd("DQ.CHECK").arg("q").query::<Value>(&mut con));
        let mut others = server.queue("q");
        others.unwatched();
        let mut meanwhile = 0;
        while !walk.is_finished() {
            let job = others.push_and_claim("x");
            assert_eq!(others.ack(&job.receipt), 1);
            meanwhile += 1;
        }
        assert!(meanwhile > 3, "{meanwhile}");
        walk.join().expect("it ends").expect("it answers")
    });
    let found: BTreeSet<String> = list(&found).iter().map(|problem| texts(problem).join(" ")).collect();
    let wanted: BTreeSet<String> = ids[N - 3..].iter().map(|id| format!("due-without-job {id}")).collect();
    assert_eq!(found, wanted);
}

#[test]
fn thousands_whose_wait_ends_at_one_moment() {
    const WAITERS: usize = 4000;
    let server = Server::builder().line("maxclients 10000").start();
    let mut cons = Vec::new();
    // The same moment for all: those who come later wait for less.
    let begin = std::time::Instant::now();
    for _ in 0..WAITERS {
        let mut con = server.conn();
        let left = 6000_u64.saturating_sub(begin.elapsed().as_millis() as u64).max(1);
        let command = redis::cmd("DQ.CLAIM").arg("q").arg("BLOCK").arg(left).get_packed_command();
        con.send_packed_command(&command).expect("it is sent");
        cons.push(con);
    }
    pinged(&server, "4,000 waits end", || {
        for con in &mut cons {
            let answer: Value = con.recv_response().expect("an answer");
            assert!(list(&answer).is_empty());
        }
    });
    assert_eq!(crate::blocked::waiting(&server), 0);
}

#[test]
fn retried_delayed_and_fresh_jobs_share_one_order() {
    let server = Server::builder().set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    q.unwatched();
    // Jobs of all kinds due at each of a hundred ms, made in turn.
    let at = q.now() + 2500;
    let mut retried = Vec::new();
    for i in 0..300 {
        q.push(format!("retried-{i}"));
    }
    retried.extend(claim_many(&mut q, 300, "1h"));
    for (i, job) in retried.iter().enumerate() {
        let left = (at + (i as i64 * 7) % 100 - q.now()).max(1);
        match i % 3 {
            0 => drop(ok!(q, "RETRY", &job.receipt, "DELAY", left)),
            1 => drop(ok!(q, "RELEASE", "DELAY", left, "RECEIPTS", &job.receipt)),
            // A lease that ends: due at once when the server comes to it.
            _ => drop(q.extend(left, &job.receipt)),
        }
        ok!(q, "PUSH", format!("delayed-{i}"), "AT", at + (i as i64 * 11) % 100);
    }
    assert!(q.now() < at, "the machine is too slow for this");
    // And fresh ones while they fall due.
    let mut fresh = server.queue("q");
    fresh.unwatched();
    let mut pushed = 600;
    wait_for("the first to be due", || fresh.now() >= at);
    while fresh.now() < at + 150 {
        fresh.push("fresh");
        pushed += 1;
    }
    wait_for("all to be due", || q.stats(["delayed", "leased"]) == [0, 0]);
    let order: Vec<(String, String)> = q.raw(args!["ZRANGE", q.key("due"), 0, -1, "WITHSCORES"]);
    assert_eq!(order.len(), pushed);
    let jobs = claim_many(&mut q, pushed, "1h");
    assert!(jobs.iter().map(|job| &job.id).eq(order.iter().map(|(id, _)| id)), "not by due time and then push");
    let mut by_kind: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, job) in jobs.iter().enumerate() {
        let payload = std::str::from_utf8(&job.payload).expect("text");
        by_kind.entry(payload.split('-').next().unwrap_or_default()).or_default().push(place);
    }
    // Mixed, rather than one kind after the other.
    for (kind, places) in &by_kind {
        assert!(places[0] < pushed / 2, "{kind} first at {} of {pushed}", places[0]);
    }
}

#[test]
fn no_kind_of_job_starves_another() {
    let server = Server::builder().set("stale-policy", "keep").start();
    let mut q = server.queue("q");
    q.unwatched();
    // More is pushed than is claimed, all the time; what falls due meanwhile waits no longer than what was pushed then.
    let mut marks = BTreeMap::new();
    let mut claimed: Vec<Job> = Vec::new();
    for turn in 0..300_i64 {
        let mut words = args!["PAYLOADS"];
        words.extend((0..20).map(|_| b"fresh".to_vec()));
        q.ok("MPUSH", words);
        let jobs = q.claim_with(args!["COUNT", 10, "LEASE", "1h"]);
        for job in &jobs {
            if job.payload == b"fresh" && turn % 10 == 0 && marks.len() < 30 {
                ok!(q, "RETRY", &job.receipt, "DELAY", 50);
                marks.insert(job.id.clone(), q.due_at(&job.id));
                break;
            }
        }
        if turn % 10 == 5 {
            let id = text(&ok!(q, "PUSH", "delayed", "DELAY", 50));
            marks.insert(id.clone(), q.due_at(&id));
        }
        claimed.extend(jobs);
    }
    wait_for("the marks to be due", || q.stat("delayed") == 0);
    let due: Vec<(String, String)> = q.raw(args!["ZRANGE", q.key("due"), 0, -1, "WITHSCORES"]);
    let due: BTreeMap<String, i64> = due.into_iter().map(|(id, at)| (id, at.parse().expect("a number"))).collect();
    let ready = q.stat("ready") as usize;
    let jobs = claim_many(&mut q, ready, "1h");
    let places: BTreeMap<&str, usize> = jobs.iter().enumerate().map(|(place, job)| (job.id.as_str(), place)).collect();
    let mut met = 0;
    for (id, at) in &marks {
        // Those that were served while we pushed had their turn before all that is left.
        let Some(place) = places.get(id.as_str()) else { continue };
        let before = due.values().filter(|other| *other < at).count();
        let with = due.values().filter(|other| *other <= at).count();
        assert!((before..with).contains(place), "{id} came as {place}, not in {before}..{with}");
        met += 1;
    }
    assert!(met > 10, "{met}");
}

#[test]
fn ten_thousand_queues_are_counted_within_ten_seconds_and_in_slices() {
    const QUEUES: usize = 10_000;
    let server = Server::builder().set("stale-policy", "keep").start();
    let mut con = server.conn();
    let mut each = |words: Vec<Vec<u8>>| {
        let mut pipe = redis::pipe();
        for i in 0..QUEUES {
            pipe.cmd(std::str::from_utf8(&words[0]).expect("a name")).arg(format!("q{i}")).arg(&words[1..]).ignore();
        }
        pipe.exec(&mut con).expect("the commands answer");
    };
    let jobs = |state: &str| server.info("dq", &format!("dq_jobs_{state}")).parse::<usize>().expect("a number");
    each(args!["DQ.MPUSH", "PAYLOADS", "x", "y"]);
    each(args!["DQ.PUSH", "z", "DELAY", "1h"]);
    wait_for("the first count", || (jobs("ready"), jobs("delayed")) == (2 * QUEUES, QUEUES));
    each(args!["DQ.CLAIM"]);
    let (begun, mut last, mut widest) = (Instant::now(), Instant::now(), Duration::ZERO);
    pinged(&server, "10,000 queues counted, INFO asked for", || {
        wait_for("the next count", || {
            widest = widest.max(last.elapsed());
            last = Instant::now();
            jobs("leased") == QUEUES
        });
    });
    // A machine that stood still is not what is measured.
    assert!(begun.elapsed() - widest <= Duration::from_secs(10), "{:?}, once {widest:?}", begun.elapsed());
}

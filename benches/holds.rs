//! How long another client waits for its PONG while the module has very much to do: p99 under 5 ms. `make bench-holds`.
//!
//! "At work" is the processor time that the server took between PING and PONG: what is beyond it in the wait is owed to
//! a machine that has other things to do.
//!
//! `DQ_TEST_SERVER` and `DQ_MODULE` choose the server and the module as for the tests, `DQ_BENCH_JOBS` the number of
//! jobs of the large ones (1,000,000), and an argument those whose name it is part of. Ends with 1 where p99 is missed.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[path = "../tests/faults/blocked.rs"]
#[allow(dead_code)]
mod blocked;
#[path = "../tests/common/mod.rs"]
#[allow(dead_code, unused_imports)]
mod common;
#[path = "../tests/faults/ping.rs"]
#[allow(dead_code)]
mod ping;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use common::server::Builder;
use common::{list, text, Queue, Server, PAUSE};
use ping::{Pinger, Pings};

/// What p99 of PING must stay under.
const P99: Duration = Duration::from_millis(5);

/// How long one measurement may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// What is measured, by name, and whether its p99 counts.
type Measurement = (&'static str, bool, fn() -> Pings);

const ALL: &[Measurement] = &[
    ("nothing to do, for comparison", true, idle),
    ("100,000 jobs due at one ms, 100 waiters", true, due_at_one_ms),
    ("100,000 leases that end at one ms", true, leases_at_one_ms),
    ("a purge of 1,000,000, policy dead", true, purge_to_letters),
    ("a purge of 1,000,000, policy drop", true, purge_dropping),
    ("DQ.CHECK of 1,000,000", true, check),
    ("1,000,000 dead letters trimmed", true, trim),
    ("DQ.PURGE of 1,000,000", true, purge_state),
    ("DQ.RESCHEDULE ALL of 1,000,000", true, reschedule_all),
    ("DQ.REPLAY ALL of 1,000,000", true, replay_all),
    ("DQ.DROP of 1,000,000", true, drop_all),
    ("DQ.PEEK over 1,000,000, 1,000 a page", true, peek),
    ("DQ.QUEUES of 10,000", true, list_queues),
    ("10,000 waits that end at one ms", true, waits_at_one_ms),
    // Over so soon that p99 is the longest of a few dozen.
    ("10,000 waiters released by dq.enabled no", false, waiters_released),
    ("a setting changed with 100,000 queues", true, settings_with_many_queues),
    ("10,000 queues waited for in a cluster", true, waits_in_a_cluster),
];

fn main() -> ExitCode {
    let part = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let mut missed = false;
    for (name, counts, measure) in ALL.iter().filter(|(name, ..)| name.contains(&part)) {
        let begin = Instant::now();
        let pings = measure();
        let verdict = if pings.wait(990) < P99 || !counts { "" } else { "   MISSED" };
        missed |= !verdict.is_empty();
        println!("{name:<44} {pings}, in {:.1} s{verdict}", begin.elapsed().as_secs_f64());
    }
    ExitCode::from(u8::from(missed))
}

/// The number of jobs where there are very many.
fn jobs() -> usize {
    std::env::var("DQ_BENCH_JOBS").map_or(1_000_000, |jobs| jobs.parse().expect("DQ_BENCH_JOBS is a number"))
}

/// A server that purges nothing until it is told to, and keeps all letters.
fn server() -> Builder {
    Server::builder()
        .set("stale-policy", "keep")
        .set("dead-max", "0")
        .line("maxclients 12000")
        .set("max-waiting-memory", "1024mb")
}

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn queue(server: &Server, name: &str) -> Queue {
    let mut q = server.queue(name);
    q.unwatched();
    q
}

fn push(q: &mut Queue, n: usize, options: &[&str]) {
    for from in (0..n).step_by(10_000) {
        let mut words = words(options);
        words.push(b"PAYLOADS".to_vec());
        words.extend((from..n.min(from + 10_000)).map(|i| format!("{i:0>64}").into_bytes()));
        q.ok("MPUSH", words);
    }
}

fn until(what: &str, mut look: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !look() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(PAUSE);
    }
}

fn until_stat(q: &mut Queue, name: &str, value: usize) {
    until(name, || q.stat(name) == value as i64);
}

fn card(q: &mut Queue, companion: &str) -> usize {
    let key = q.key(companion);
    q.raw(vec![b"ZCARD".to_vec(), key])
}

/// Clients that wait in the line of `queue` until `until`, or for ever.
fn waiters(server: &Server, queue: &str, n: usize, until_at: Option<Instant>) -> Vec<Connection> {
    let mut cons = Vec::new();
    for _ in 0..n {
        let mut con = server.conn();
        let block = until_at.map_or(0, |at| at.saturating_duration_since(Instant::now()).as_millis().max(1));
        let mut claim = redis::cmd("DQ.CLAIM");
        claim.arg(queue).arg("BLOCK").arg(block.to_string());
        con.send_packed_command(&claim.get_packed_command()).expect("it is sent");
        cons.push(con);
    }
    until("all to wait", || blocked::waiting(server) == n);
    cons
}

fn idle() -> Pings {
    let server = server().start();
    queue(&server, "q").push("x");
    let pinger = Pinger::begin(&server);
    std::thread::sleep(Duration::from_secs(3));
    pinger.end()
}

fn due_at_one_ms() -> Pings {
    const N: usize = 100_000;
    let server = server().start();
    let mut q = queue(&server, "q");
    let at = q.now() + 4000;
    push(&mut q, N, &["AT", &at.to_string()]);
    let cons = waiters(&server, "q", 100, None);
    assert!(q.now() < at, "the machine is too slow for this");
    until("the moment", || q.now() >= at - 100);
    let pinger = Pinger::begin(&server);
    let workers: Vec<_> = cons
        .into_iter()
        .map(|mut con| {
            std::thread::spawn(move || {
                let mut claim = redis::cmd("DQ.CLAIM");
                claim.arg("q").arg("BLOCK").arg(1000);
                let mut came = list(&con.recv_response().expect("jobs")).len();
                loop {
                    match list(&claim.query::<Value>(&mut con).expect("jobs")).len() {
                        0 => return came,
                        more => came += more,
                    }
                }
            })
        })
        .collect();
    until_stat(&mut q, "leased", N);
    let pings = pinger.end();
    assert_eq!(workers.into_iter().map(|worker| worker.join().expect("it ends")).sum::<usize>(), N);
    pings
}

fn leases_at_one_ms() -> Pings {
    const N: usize = 100_000;
    let server = server().start();
    let mut q = queue(&server, "q");
    push(&mut q, N, &[]);
    while card(&mut q, "leased") < N {
        q.claim_with(words(&["COUNT", "1000", "LEASE", "5s"]));
    }
    // Nobody ends them until the module acts again.
    server.set("enabled", "no");
    std::thread::sleep(Duration::from_secs(5));
    let pinger = Pinger::begin(&server);
    server.set("enabled", "yes");
    until("the leases to end", || card(&mut q, "leased") == 0);
    let pings = pinger.end();
    assert_eq!(q.stat("lapsed"), N as i64);
    pings
}

fn purge_to_letters() -> Pings {
    purge("dead")
}

fn purge_dropping() -> Pings {
    purge("drop")
}

fn purge(policy: &str) -> Pings {
    let server = server().set("purge-interval", "1s").set("stale-after", "1s").start();
    let mut q = queue(&server, "q");
    push(&mut q, jobs(), &[]);
    let pinger = Pinger::begin(&server);
    server.set("stale-policy", policy);
    until("the purge", || card(&mut q, "due") == 0);
    let pings = pinger.end();
    assert_eq!(q.stat("stale-purged"), jobs() as i64);
    pings
}

/// Sends one command, whose answer is the number of jobs, and waits until STATS says that nothing of it is left.
fn pinged_until_over(q: &mut Queue, server: &Server, command: &str, args: &[&str], left: &str) -> Pings {
    q.con.set_read_timeout(Some(PATIENCE)).expect("a timeout is set");
    let pinger = Pinger::begin(server);
    assert_eq!(q.ok(command, words(args)), Value::Int(jobs() as i64));
    until_stat(q, left, 0);
    pinger.end()
}

fn purge_state() -> Pings {
    let server = server().start();
    let mut q = queue(&server, "q");
    push(&mut q, jobs(), &[]);
    let pings = pinged_until_over(&mut q, &server, "PURGE", &["STATE", "ready"], "purging");
    assert_eq!(q.stat("purged"), jobs() as i64);
    pings
}

fn reschedule_all() -> Pings {
    let server = server().start();
    let mut q = queue(&server, "q");
    push(&mut q, jobs(), &["DELAY", "1h"]);
    let pings = pinged_until_over(&mut q, &server, "RESCHEDULE", &["DELAY", "2h", "ALL"], "rescheduling");
    assert_eq!(q.stat("rescheduled"), jobs() as i64);
    pings
}

fn replay_all() -> Pings {
    let server = server().set("purge-interval", "1s").set("stale-after", "1s").start();
    let mut q = queue(&server, "q");
    push(&mut q, jobs(), &[]);
    server.set("stale-policy", "dead");
    until("the letters", || card(&mut q, "dead:at") == jobs());
    server.set("stale-policy", "keep");
    let pings = pinged_until_over(&mut q, &server, "REPLAY", &["REASON", "stale", "ALL"], "replaying");
    assert_eq!(q.stat("replayed"), jobs() as i64);
    pings
}

fn drop_all() -> Pings {
    let server = server().start();
    let mut q = queue(&server, "q");
    push(&mut q, jobs(), &["DELAY", "1h"]);
    let pinger = Pinger::begin(&server);
    assert_eq!(q.ok("DROP", vec![]), Value::Int(jobs() as i64));
    std::thread::sleep(Duration::from_secs(2));
    pinger.end()
}

fn peek() -> Pings {
    let server = server().start();
    let mut q = queue(&server, "q");
    let at = q.now() + 3_600_000;
    push(&mut q, jobs(), &["AT", &at.to_string()]);
    let pinger = Pinger::begin(&server);
    let (mut cursor, mut met) = ("0".to_string(), 0);
    loop {
        let page = list(&q.ok("PEEK", words(&["COUNT", "1000", "AFTER", &cursor])));
        met += list(&page[1]).len();
        cursor = text(&page[0]);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(met, jobs());
    pinger.end()
}

fn list_queues() -> Pings {
    const N: usize = 10_000;
    let server = server().start();
    let mut con = server.conn();
    let mut pipe = redis::pipe();
    for i in 0..N {
        pipe.cmd("DQ.PUSH").arg(format!("queue-{i}")).arg("x").ignore();
    }
    pipe.exec(&mut con).expect("the pushes answer");
    let pinger = Pinger::begin(&server);
    for _ in 0..20 {
        let rows: Value = redis::cmd("DQ.QUEUES").query(&mut con).expect("it answers");
        assert_eq!(list(&rows).len(), N);
    }
    pinger.end()
}

fn check() -> Pings {
    let server = server().start();
    let mut q = queue(&server, "q");
    push(&mut q, jobs(), &["DELAY", "1h"]);
    let pinger = Pinger::begin(&server);
    q.con.set_read_timeout(Some(PATIENCE)).expect("a timeout is set");
    let found = q.ok("CHECK", vec![]);
    let pings = pinger.end();
    assert!(list(&found).is_empty());
    pings
}

fn trim() -> Pings {
    let server = server().set("purge-interval", "1s").set("stale-after", "1s").start();
    let mut q = queue(&server, "q");
    push(&mut q, jobs(), &[]);
    server.set("stale-policy", "dead");
    until("the letters", || card(&mut q, "due") == 0);
    let pinger = Pinger::begin(&server);
    server.set("dead-max", "10");
    until("the trim", || card(&mut q, "dead:at") == 10);
    pinger.end()
}

fn waits_at_one_ms() -> Pings {
    let server = server().start();
    let mut cons = waiters(&server, "q", 10_000, Some(Instant::now() + Duration::from_secs(8)));
    let pinger = Pinger::begin(&server);
    for con in &mut cons {
        con.recv_response().expect("an answer");
    }
    pinger.end()
}

fn waiters_released() -> Pings {
    let server = server().start();
    let mut cons = waiters(&server, "q", 10_000, None);
    let pinger = Pinger::begin(&server);
    server.set("enabled", "no");
    for con in &mut cons {
        let answer = con.recv_response();
        assert!(matches!(answer, Ok(Value::ServerError(_)) | Err(_)), "UNBLOCKED was to come: {answer:?}");
    }
    pinger.end()
}

fn settings_with_many_queues() -> Pings {
    let server = server().start();
    let mut con = server.conn();
    for from in (0..100_000).step_by(10_000) {
        let mut pipe = redis::pipe();
        for i in from..from + 10_000 {
            pipe.cmd("DQ.PUSH").arg(format!("q{i}")).arg("x").arg("DELAY").arg("1h").ignore();
        }
        pipe.exec(&mut con).expect("the pushes answer");
    }
    let pinger = Pinger::begin(&server);
    for i in 0..10 {
        server.set("lease", &format!("{}s", 30 + i));
        std::thread::sleep(Duration::from_millis(500));
    }
    pinger.end()
}

fn waits_in_a_cluster() -> Pings {
    let server = server().cluster_node().start();
    server.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until("the cluster to be up", || common::text(&server.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok"));
    let mut cons = Vec::new();
    for i in 0..10_000 {
        let mut con = server.conn();
        let mut claim = redis::cmd("DQ.CLAIM");
        claim.arg(format!("q{i}")).arg("BLOCK").arg(0);
        con.send_packed_command(&claim.get_packed_command()).expect("it is sent");
        cons.push(con);
    }
    until("all to wait", || blocked::waiting(&server) == cons.len());
    let pinger = Pinger::begin(&server);
    std::thread::sleep(Duration::from_secs(5));
    pinger.end()
}

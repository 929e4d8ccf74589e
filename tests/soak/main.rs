//! Jobs by the million through one server, whose memory has to stay as it is.
//!
//! Several clients push, claim and end jobs in every way there is. About as many are there at any moment, so the memory
//! after a tenth of the run and at its end is the same, and when the queues are dropped it is that of the beginning.
//!
//! `DQ_TEST_JOBS` says how many jobs, `DQ_SOAK_REPLICATED=1` adds an append only file and a replica; `make soak` runs
//! 5,000,000 in the optimised module.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

// It needs a part of it.
#[allow(dead_code, unused_imports)]
#[path = "../common/mod.rs"]
mod common;

mod clients;
mod curve;

use std::time::Instant;

use clients::Crowd;
use common::*;
use curve::Curve;

/// How many jobs go through where nothing else is asked for.
const JOBS: u64 = 40_000;
/// From how many on a run is long: how many jobs are there at the moment of a look then matters less.
const MANY_JOBS: u64 = 1_000_000;
/// The share by which memory may grow from the first tenth of a run to its end, in a short one and in a long one.
const GROWTH: [f64; 2] = [0.1, 0.05];
/// Bytes that may be left of all jobs when the queues are gone.
const LEFT: i64 = 1_000_000;
/// Bytes of what the server keeps for a replica that comes back.
const BACKLOG: i64 = 1_200_000;

fn jobs() -> u64 {
    std::env::var("DQ_TEST_JOBS").map_or(JOBS, |jobs| jobs.parse().expect("DQ_TEST_JOBS is a number"))
}

/// Letters reach their bound and go, leases run out, ids become free: all of it many times in a run.
fn builder() -> server::Builder {
    let settings = [
        ("max-lapses", "2"),
        ("max-retries", "3"),
        ("backoff-base", "1ms"),
        ("backoff-cap", "50ms"),
        ("dead-max", "100"),
        ("id-keep", "100ms"),
        ("purge-interval", "50ms"),
        ("stale-policy", "keep"),
    ];
    let builder = settings.iter().fold(Server::builder(), |builder, (name, value)| builder.set(name, value));
    if replicated() {
        builder.line("appendonly yes").line("appendfsync everysec")
    } else {
        builder
    }
}

fn replicated() -> bool {
    std::env::var_os("DQ_SOAK_REPLICATED").is_some()
}

#[test]
fn memory_stays_as_it_is() {
    let (seed, jobs) = (dice::seed(), jobs());
    eprintln!("DQ_TEST_SEED={seed}");
    let mut server = builder().start();
    let replica = replicated().then(|| Server::builder().replica_of(&server).start());
    clients::touch(&server);
    let begin = settled(&server);
    let started = Instant::now();
    let crowd = Crowd::begin(&server, seed);
    let mut curve = Curve::default();
    curve.follow(&server, &crowd, jobs);
    let told = crowd.end();
    let seconds = started.elapsed().as_secs_f64();
    server.assert_alive();
    eprintln!("{told} in {seconds:.0} s, {:.0} jobs a second\n{curve}", jobs as f64 / seconds);
    clients::assert_account(&server);
    if let Some(replica) = &replica {
        server.set("enabled", "no");
        replica.catch_up(&server);
        assert_eq!(replica.dump(), server.dump(), "left: the replica, right: the primary");
        server.set("enabled", "yes");
    }
    clients::drop_all(&server);
    let end = settled(&server);
    eprintln!("bytes in use: {begin} before, {end} when all is dropped");
    curve.assert_flat(GROWTH[usize::from(jobs >= MANY_JOBS)], replica.is_none());
    // The backlog of replication is there from the first replica on, and fills.
    let left = if replica.is_some() { LEFT + BACKLOG } else { LEFT };
    assert!(end - begin < left, "{begin} bytes in use before, {end} when all is dropped");
}

/// Bytes in use once what goes in the background is gone.
fn settled(server: &Server) -> i64 {
    wait_for("the memory to be freed", || server.info("memory", "lazyfree_pending_objects") == "0");
    wait_for("clients to be gone", || text(&server.run(&["CLIENT", "LIST", "TYPE", "normal"])).lines().count() == 1);
    server.run(&["MEMORY", "PURGE"]);
    curve::used(server)
}

//! Random histories of every command, with all their options, against a server and a reference that is written from
//! DESIGN and the documents. The clock stands still but where a history moves it, so that after each step the reply, the
//! keys, the figures and the replica have to be exactly what the reference says.
//!
//! A history that fails is made as short as it can be and printed. `DQ_TEST_SEED` repeats a run; `DQ_TORTURE_MINUTES`
//! makes it as long as that.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)]
#[path = "../common/mod.rs"]
mod common;

mod around;
mod clock;
mod commands;
mod compare;
mod harm;
mod host;
mod look;
mod ops;
mod reference;
mod refused;
mod run;
mod settings;

use std::time::{Duration, Instant};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use common::dice::{seed, Dice};
use host::Host;
use ops::{history, Step};
use run::run;

/// How long the short run lasts.
const SHORT: Duration = Duration::from_secs(40);
/// Steps of a history, at most.
const LONGEST: usize = 100;
/// One history in so many restarts the server.
const RESTARTS: u64 = 20;
/// How long a failing history is made shorter.
const SHRINKING: Duration = Duration::from_secs(90);

/// How long what must come may take on a busy machine.
const PATIENT: Duration = Duration::from_secs(20);
/// The same where it is known that it does not come.
const IMPATIENT: Duration = Duration::from_millis(700);

/// What some of many histories come to.
const MET: [&str; 9] =
    ["pushed", "deduplicated", "claimed", "acked", "retried", "failed", "lapsed", "lease-lost", "stale-purged"];

/// What a short run draws from: the same histories each time. A long one draws others.
const SHORT_SEED: u64 = 354_559_412;

fn drawn_seed() -> u64 {
    let is_short = ["DQ_TEST_SEED", "DQ_TORTURE_MINUTES"].iter().all(|name| std::env::var_os(name).is_none());
    if is_short {
        SHORT_SEED
    } else {
        seed()
    }
}

fn time() -> Duration {
    let minutes = std::env::var("DQ_TORTURE_MINUTES").ok();
    minutes.map_or(SHORT, |minutes| Duration::from_secs(60 * minutes.parse::<u64>().expect("DQ_TORTURE_MINUTES")))
}

fn runner(dice: &mut Dice) -> TestRunner {
    let seed: Vec<u8> = (0..4).flat_map(|_| dice.next().to_le_bytes()).collect();
    let config = Config { failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

/// Runs a history; where it fails, the next one has a server of its own.
fn attempt(host: &mut Option<Host>, steps: &[Step], patience: Duration) -> Result<(), String> {
    let host_ = host.get_or_insert_with(Host::start);
    host_.patience = patience;
    let outcome = run(host_, steps);
    if outcome.is_err() {
        *host = None;
    }
    outcome
}

/// The shortest history found that fails, and how.
fn shrink(host: &mut Option<Host>, tree: &mut impl ValueTree<Value = Vec<Step>>, first: String) -> (usize, String) {
    let (end, mut error, mut len) = (Instant::now() + SHRINKING, first, tree.current().len());
    let mut more = tree.simplify();
    while more && Instant::now() < end {
        let steps = tree.current();
        more = match attempt(host, &steps, IMPATIENT) {
            Err(other) => {
                (error, len) = (other, steps.len());
                tree.simplify()
            }
            Ok(()) => tree.complicate(),
        };
    }
    (len, error)
}

#[test]
fn histories_are_what_the_reference_says() {
    let seed = drawn_seed();
    eprintln!("DQ_TEST_SEED={seed}");
    let (mut dice, end) = (Dice(seed), Instant::now() + time());
    let (mut host, mut histories, mut steps) = (None, 0u64, 0usize);
    while Instant::now() < end {
        let mut runner = runner(&mut dice);
        let restarts = histories % RESTARTS == RESTARTS - 1;
        let mut tree = history(LONGEST, restarts).new_tree(&mut runner).expect("a history is drawn");
        let drawn = tree.current();
        if let Err(error) = attempt(&mut host, &drawn, PATIENT) {
            let last =
                error.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
            eprintln!("history {histories} of DQ_TEST_SEED={seed} fails; it is made shorter\n{last}");
            let (len, error) = shrink(&mut host, &mut tree, error);
            panic!("DQ_TEST_SEED={seed}, history {histories}: {len} steps are enough:\n{error}");
        }
        (histories, steps) = (histories + 1, steps + drawn.len());
    }
    let met = host.map(|host| host.met).unwrap_or_default();
    eprintln!("{histories} histories, {steps} steps, which came to {met:?}");
    // Histories in which nothing happens show nothing.
    for figure in MET.iter().filter(|_| steps > 1000) {
        assert!(met.contains_key(figure), "no history came to {figure}");
    }
}

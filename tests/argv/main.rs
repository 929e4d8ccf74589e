//! Random words as arguments of every command against a live server, by the hundred thousand.
//!
//! The words are drawn by the grammar of the commands and then bent: limits of numbers, NUL, invalid UTF-8, some MB,
//! no word and two hundred, receipts and ids of replies; alone, in transactions and in scripts; in RESP2 and RESP3, in
//! several queues of several databases, on connections that leave in the middle. Some queues have their keys written to
//! by hand. After all of it the server lives, every reply was well-formed, no invariant is broken, the replica and a
//! start from the append only file have the same, and the memory is given back.
//!
//! It runs for twenty rounds, about a minute, for `DQ_TORTURE_MINUTES`, or for `DQ_TEST_COMMANDS` commands.
//! `DQ_TEST_SEED` draws the same again.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

// It needs a part of it.
#[allow(dead_code, unused_imports)]
#[path = "../common/mod.rs"]
mod common;

mod draw;
mod grammar;
mod judge;
mod run;
mod tape;
mod unit;
mod wire;

use std::time::{Duration, Instant};

/// Rounds where nothing else is asked for: so many that what each leaves behind can be told from what a server makes for
/// itself in its first ones.
const SHORT: usize = 20;

/// When to stop.
enum Span {
    Rounds(usize),
    Until(Instant),
    Commands(u64),
}

impl Span {
    fn from_env() -> Span {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        if let Some(commands) = number("DQ_TEST_COMMANDS") {
            return Span::Commands(commands);
        }
        match number("DQ_TORTURE_MINUTES") {
            Some(minutes) => Span::Until(Instant::now() + Duration::from_secs(60 * minutes)),
            None => Span::Rounds(SHORT),
        }
    }

    fn is_over(&self, rounds: usize, commands: u64) -> bool {
        match self {
            Span::Rounds(most) => rounds >= *most,
            Span::Until(end) => Instant::now() >= *end,
            Span::Commands(most) => commands >= *most,
        }
    }
}

#[test]
fn random_words_break_nothing() {
    let (seed, span) = (common::dice::seed(), Span::from_env());
    eprintln!("DQ_TEST_SEED={seed}");
    let started = Instant::now();
    let mut run = run::Run::start(seed);
    while !span.is_over(run.rounds(), run.commands()) {
        let rounds = run.rounds();
        run.round(|commands| span.is_over(rounds, commands));
    }
    let told = run.finish();
    eprintln!("{told}, in {} s", started.elapsed().as_secs());
}

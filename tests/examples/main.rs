//! The workers and producers of `examples/`, as they are, against real servers: one scenario for all languages.
//!
//! A language that this machine does not have is left out, and said. `DQ_TEST_LANGUAGES` names those that must be here
//! (`DQ_TEST_LANGUAGES="python node go rust"`).

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)]
#[path = "../common/mod.rs"]
mod common;

mod languages;
mod program;
mod receiver;
mod scenario;
#[allow(dead_code)]
mod toolchain;

use std::time::Duration;

use languages::Language;

/// How long a scene waits for what must come: other languages' programs take long to start on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// Waits until `look` gives something.
fn wait_until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    common::wait_at_most(DEADLINE, what, look)
}

/// Waits until `look` says yes.
fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    wait_until(what, || look().then_some(()));
}

/// Runs the scenario in the language, or says why it does not.
fn run(language: &Language) {
    match (language.make)() {
        Ok(programs) => scenario::run(language, &programs),
        Err(why) if language.is_demanded() => panic!("{} is demanded: {why}", language.name),
        Err(why) => tell(&format!("examples: SKIPPED {}: {why}\n", language.name)),
    }
}

/// Writes where `cargo test` shows it, whether the test fails or not: only the print macros are captured.
fn tell(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[test]
fn python() {
    run(&languages::PYTHON);
}

#[test]
fn python_with_the_newest_redis_py() {
    run(&languages::NEW_PYTHON);
}

#[test]
fn node() {
    run(&languages::NODE);
}

#[test]
fn go() {
    run(&languages::GO);
}

#[test]
fn rust() {
    run(&languages::RUST);
}

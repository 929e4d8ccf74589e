//! The arguments of commands: numbers, durations, times.

#![no_main]

#[path = "../bodies/args.rs"]
mod args;

libfuzzer_sys::fuzz_target!(|data: &[u8]| args::run(data));

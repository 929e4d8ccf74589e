//! Queue names and the keys of queues.

#![no_main]

#[path = "../bodies/names.rs"]
mod names;

libfuzzer_sys::fuzz_target!(|data: &[u8]| names::run(data));

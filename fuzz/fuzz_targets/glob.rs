//! Patterns of names.

#![no_main]

#[path = "../bodies/glob.rs"]
mod glob;

libfuzzer_sys::fuzz_target!(|data: &[u8]| glob::run(data));

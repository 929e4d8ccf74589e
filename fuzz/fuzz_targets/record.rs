//! Job records and dead letters.

#![no_main]

#[path = "../bodies/record.rs"]
mod record;

libfuzzer_sys::fuzz_target!(|data: &[u8]| record::run(data));

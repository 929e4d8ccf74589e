//! Receipts and ids.

#![no_main]

#[path = "../bodies/receipt.rs"]
mod receipt;

libfuzzer_sys::fuzz_target!(|data: &[u8]| receipt::run(data));

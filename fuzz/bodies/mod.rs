//! What is done with foreign bytes, under libFuzzer and in `tests/fuzz.rs` alike. A body takes any bytes and fails where
//! a promise of `dq::core` is broken.

pub mod args;
pub mod glob;
pub mod names;
pub mod receipt;
pub mod record;

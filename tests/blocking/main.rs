//! Workers that wait: DQ.CLAIM with BLOCK, DQ.MCLAIM, DQ.PAUSE and DQ.RESUME, in real servers. `DQ_TEST_SERVER` and
//! `DQ_MODULE` choose them as for `tests/it`.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports)]
mod common;

mod client;
mod scene;

mod bad_options;
mod busy;
mod called;
mod chaos;
mod crowd;
mod gone;
mod idle;
mod inside;
mod keys;
mod leaving;
mod library;
mod max_leased;
mod mclaim;
mod memory;
mod one_pass;
mod order;
mod pause;
mod paused_writes;
mod receipts;
mod reload;
mod rights;
mod roles;
mod shutdown;
mod unread;
mod untold;
mod watch;

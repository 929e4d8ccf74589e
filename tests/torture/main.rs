//! An account of every job while the servers are hurt: what was pushed, who held it when, what became of it.
//!
//! `DQ_TEST_SEED` draws a run again; its pace is the machine's. `DQ_TORTURE_MINUTES` makes each part last longer.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)]
#[path = "../common/mod.rs"]
mod common;

mod account;
#[allow(dead_code)]
#[path = "../faults/blocked.rs"]
mod blocked;
mod crew;
mod ledger;
mod scene;
mod way;

mod calm;
mod cluster;
mod hurts;
mod sentinel;

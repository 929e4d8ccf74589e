//! The module among faults: clocks that are set, roles that change, writes that are held back or refused, very many
//! jobs at one moment, and the module taken out and put in again. In real servers; `DQ_TEST_SERVER` and `DQ_MODULE`
//! choose them as for `tests/it`.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports)]
mod common;

mod blocked;
mod bulk;
mod clock;
mod crew;
mod ping;
mod repair;
mod roles;
mod slices;
mod slow_disk;
mod standstill;
mod unload;
mod walks;

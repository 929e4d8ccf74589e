//! The programs of `examples/migration/` against real servers: what they move, what they refuse, and that no job is
//! lost or doubled when they are killed while pollers, producers and workers run.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../examples/toolchain.rs"]
mod toolchain;

mod asynq;
mod back;
mod bullmq;
mod killed;
mod many;
mod newest_redis_py;
mod program;
mod refused;
mod zset;

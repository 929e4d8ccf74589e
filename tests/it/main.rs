//! The module in real servers. One program, so that it is built and linked once.
//!
//! `DQ_TEST_SERVER` chooses the server (a command that redis.conf follows), `DQ_MODULE` the module.

#[path = "../common/mod.rs"]
mod common;

mod ack;
mod bad_input;
mod check;
mod claim;
mod dead_bounds;
mod extend;
mod fail;
mod get;
mod lapse;
mod late;
mod mpush;
mod names;
mod persistence;
mod purge;
mod push;
mod release;
mod replica;
mod retry;
mod settings;
mod stats;

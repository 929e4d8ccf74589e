//! The module in real servers. One program, so that it is built and linked once.
//!
//! `DQ_TEST_SERVER` chooses the server (a command that redis.conf follows), `DQ_MODULE` the module.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;

mod ack;
mod acl;
mod bad_input;
mod cancel;
mod cases;
mod check;
mod claim;
mod cluster;
mod config;
mod dead_bounds;
mod docs;
mod documented;
mod drop;
mod extend;
mod fail;
mod figures;
mod get;
mod history;
mod ids;
mod keyspace;
mod lapse;
mod late;
mod leaks;
mod missing_commands;
mod mpush;
mod names;
mod order;
mod peek;
mod persistence;
mod probes;
mod purge;
mod purge_states;
mod push;
mod queues;
mod record;
mod release;
mod repair;
mod replay;
mod replica;
mod reschedule;
mod retry;
mod roles;
mod settings;
mod stats;
mod tenure;
mod upgrade;
mod version;
mod watching;

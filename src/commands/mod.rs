//! The commands, a file each. A handler parses, asks the queue, and replies; the comment on its file is its manual page.
//! A setting that a page names without `dq.` is one that a queue can have for itself; else the server's counts.

mod ack;
mod cancel;
mod check;
mod claim;
mod config;
mod drop;
mod extend;
mod fail;
mod get;
mod mclaim;
mod mpush;
mod options;
mod pause;
mod peek;
mod purge;
mod push;
mod queues;
mod release;
mod replay;
mod reschedule;
mod resume;
mod retry;
mod stats;

use crate::redis::Command;

/// Every command of the module.
pub const ALL: [&Command; 22] = [
    &push::COMMAND,
    &mpush::COMMAND,
    &claim::COMMAND,
    &mclaim::COMMAND,
    &ack::COMMAND,
    &extend::COMMAND,
    &retry::COMMAND,
    &release::COMMAND,
    &fail::COMMAND,
    &stats::COMMAND,
    &get::COMMAND,
    &peek::COMMAND,
    &cancel::COMMAND,
    &reschedule::COMMAND,
    &replay::COMMAND,
    &purge::COMMAND,
    &drop::COMMAND,
    &pause::COMMAND,
    &resume::COMMAND,
    &config::COMMAND,
    &queues::COMMAND,
    &check::COMMAND,
];

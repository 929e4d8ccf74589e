//! The commands, a file each. A handler parses, asks the queue, and replies; the comment on its file is its manual page.

mod ack;
mod check;
mod claim;
mod extend;
mod fail;
mod get;
mod mclaim;
mod mpush;
mod options;
mod pause;
mod push;
mod release;
mod resume;
mod retry;
mod stats;

use crate::redis::Command;

/// Every command of the module.
pub const ALL: [&Command; 14] = [
    &push::COMMAND,
    &mpush::COMMAND,
    &claim::COMMAND,
    &mclaim::COMMAND,
    &ack::COMMAND,
    &extend::COMMAND,
    &retry::COMMAND,
    &release::COMMAND,
    &fail::COMMAND,
    &pause::COMMAND,
    &resume::COMMAND,
    &stats::COMMAND,
    &get::COMMAND,
    &check::COMMAND,
];

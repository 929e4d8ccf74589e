//! The commands, a file each. A handler parses, asks the queue, and replies; the comment on its file is its manual page.

mod ack;
mod check;
mod claim;
mod extend;
mod fail;
mod get;
mod mpush;
mod options;
mod push;
mod release;
mod retry;
mod stats;

use crate::redis::Command;

/// Every command of the module.
pub const ALL: [&Command; 11] = [
    &push::COMMAND,
    &mpush::COMMAND,
    &claim::COMMAND,
    &ack::COMMAND,
    &extend::COMMAND,
    &retry::COMMAND,
    &release::COMMAND,
    &fail::COMMAND,
    &stats::COMMAND,
    &get::COMMAND,
    &check::COMMAND,
];

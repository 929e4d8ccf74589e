//! Tells the operator of calls that the server refused for the mark of an earlier cross-slot script (see
//! redis/cross_slot.rs), and that DQ ran again.

use super::Node;
use crate::redis::{boot_us, marks_removed, Ctx, Level};

/// The fault counts as over when no call was refused for so long, in µs.
const QUIET_US: u64 = 60_000_000;

impl Node {
    /// Logs the first refusal, and later that there are no more.
    pub(super) fn tell_of_cross_slot_refusals(&self, ctx: &Ctx) {
        let refused = marks_removed();
        let is_on = refused.count > 0 && boot_us().saturating_sub(refused.last_us) < QUIET_US;
        if is_on == self.cross_slot_fault.replace(is_on) {
            return;
        }
        let line = if is_on {
            "dq: a script named keys of two slots, and since then the server refused commands of modules and scripts, \
             a fault of Valkey 9; DQ removes the cause and goes on"
                .to_owned()
        } else {
            format!("dq: the server refused no more commands for a cross-slot script; {} in all", refused.count)
        };
        ctx.log(Level::Warning, &line);
    }
}

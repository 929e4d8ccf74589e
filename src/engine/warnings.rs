//! Settings of the server under which it loses queues. The log warns of each once, every time it becomes so.

use super::{Node, NODE};
use crate::redis::{boot_us, keeps_aof, refused_in_aof, Ctx, Level, NativeCommand};
use std::cell::Cell;

/// How often the rights of the default user are looked at, in µs: the server does not tell of ACL SETUSER.
const LOOK_US: u64 = 10_000_000;

#[derive(Default)]
pub struct Warnings {
    eviction: Cell<bool>,
    aof: Cell<bool>,
    /// Whether the server loads an AOF whatever the rights of its default user are.
    needs_no_rights: Cell<bool>,
    /// When the rights of the default user were looked at last, in µs of boot time.
    looked_us: Cell<u64>,
}

/// The command that the server would refuse when it loads the AOF that it writes now. It then drops the transaction, and
/// starts as if nothing were missing.
pub fn refused_when_aof_is_loaded() -> Option<NativeCommand> {
    if !keeps_aof() || NODE.warnings.needs_no_rights.get() {
        return None;
    }
    refused_in_aof(NODE.index.borrow().databases())
}

impl Warnings {
    /// Looks at the server that loads the module.
    pub fn load(&self, ctx: &Ctx) {
        self.needs_no_rights.set(ctx.loads_aof_without_rights());
    }
}

impl Node {
    pub(super) fn warn(&self, ctx: &Ctx) {
        self.warn_of_eviction(ctx);
        self.warn_of_aof(ctx);
    }

    /// Called some ten times a second.
    pub(super) fn warn_now_and_then(&self, ctx: &Ctx) {
        if boot_us().saturating_sub(self.warnings.looked_us.get()) >= LOOK_US {
            self.warn_of_aof(ctx);
        }
    }

    /// Warns of an eviction policy that takes keys which nobody gave a time to live.
    fn warn_of_eviction(&self, ctx: &Ctx) {
        let policy = ctx.server_setting("maxmemory-policy").unwrap_or_default();
        let evicts = self.maxmemory.get() > 0 && policy.starts_with("allkeys");
        if evicts && !self.warnings.eviction.replace(evicts) {
            let line = format!("dq: maxmemory-policy {policy} can throw queues away; noeviction keeps them");
            ctx.log(Level::Warning, &line);
        }
        self.warnings.eviction.set(evicts);
    }

    /// Warns of a default user without the rights to load what DQ writes to the AOF.
    fn warn_of_aof(&self, ctx: &Ctx) {
        self.warnings.looked_us.set(boot_us());
        let refused = refused_when_aof_is_loaded();
        let warned = self.warnings.aof.replace(refused.is_some());
        if let (Some(command), false) = (refused, warned) {
            let line = format!(
                "dq: the next restart can lose all jobs: the server loads the AOF as the user default, who may not run {} \
                 on every key and database. Run ACL SETUSER default ~* &* +@all, with off if nobody may log in as it, and \
                 change redis.conf likewise",
                command.name()
            );
            ctx.log(Level::Warning, &line);
        }
    }
}

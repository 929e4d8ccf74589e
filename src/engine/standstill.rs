//! A server that stood still: frozen, suspended, or busy with one command for long.
//!
//! Nobody could claim in that time, so it counts as time the server was down, and workers get the grace. Others may have
//! taken over from it meanwhile, and it does not know: the replicas that it counts are those of before, until its own
//! cron has counted them again.

use super::{Node, HEARTBEAT_MS};
use crate::redis::{boot_us, Ctx, Level, NeededReplicas};
use crate::settings;

/// What is held for a standstill, in µs: the server's own beat comes once a second at the slowest.
const STANDSTILL_US: u64 = HEARTBEAT_MS * 1500;

/// By then a server that goes on has read what its replicas had sent before, in ms.
const READ_BY_MS: u64 = 500;

/// The server counts its replicas once a second, by whole seconds, some beats late: after `min-replicas-max-lag` and so
/// many ms, no replica counts for what it had sent before.
const RECOUNT_MS: u64 = 3000;

/// What a client reads whose write is refused for that.
pub(super) const REFUSAL: &str =
    "NOREPLICAS the server stood still, and its replicas have not answered since: not enough are known to be good";

/// The replicas of a primary that stood still for longer than they may be silent.
#[derive(Clone, Copy)]
pub struct Doubt {
    /// When it went on, in µs of boot time.
    since_us: u64,
    needed: NeededReplicas,
}

impl Doubt {
    /// Whether the server's own count can be trusted by now: enough of its replicas, silent for so many whole seconds
    /// each, have spoken since it went on, or the time in which old words count is over.
    fn is_over(&self, now_us: u64, lags: impl FnOnce() -> Vec<u64>) -> bool {
        let passed_ms = now_us.saturating_sub(self.since_us) / 1000;
        if passed_ms >= self.needed.max_lag_ms + RECOUNT_MS {
            return true;
        }
        let has_spoken_since = |lag: &u64| lag.saturating_add(1).saturating_mul(1000) + READ_BY_MS < passed_ms;
        lags().iter().filter(|lag| has_spoken_since(lag)).count() >= self.needed.count
    }
}

impl Node {
    /// Called with the boot time, in µs, whenever the server calls the module.
    pub(super) fn notice_standstill(&self, ctx: &Ctx, boot: u64) {
        let since = self.clock.seen_us.replace(boot);
        let stood_us = boot.saturating_sub(since);
        if stood_us >= STANDSTILL_US && self.is_acting() {
            self.stood_still(ctx, stood_us);
        }
    }

    fn stood_still(&self, ctx: &Ctx, stood_us: u64) {
        let (now, stood_ms) = (self.clock.now(boot_us()), stood_us / 1000);
        self.availability.borrow_mut().jumped(now.saturating_sub(stood_ms), now, settings::TAKEOVER_GRACE.get());
        let needed = ctx.needed_replicas().filter(|needed| stood_ms >= needed.max_lag_ms);
        self.doubt.set(needed.map(|needed| Doubt { since_us: boot_us(), needed }));
        let then = if needed.is_some() { "; nothing is written until its replicas have answered" } else { "" };
        ctx.log(Level::Warning, &format!("dq: the server stood still for {stood_ms} ms{then}"));
    }

    /// Whether this node may have lost its replicas without having noticed it yet.
    pub(super) fn doubts_replicas(&self, ctx: &Ctx) -> bool {
        let Some(doubt) = self.doubt.get() else { return false };
        if doubt.is_over(boot_us(), || ctx.replica_lags()) {
            self.doubt.set(None);
        }
        self.doubt.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_over(count: usize, passed_ms: u64, lags: &[u64]) -> bool {
        let doubt = Doubt { since_us: 7, needed: NeededReplicas { count, max_lag_ms: 10_000 } };
        doubt.is_over(7 + passed_ms * 1000, || lags.to_vec())
    }

    #[test]
    fn what_a_replica_had_sent_before_does_not_count() {
        assert!(!is_over(1, 0, &[0]), "read now, sent at any time");
        assert!(!is_over(1, 1500, &[0]));
        assert!(is_over(1, 1501, &[0]));
        assert!(!is_over(1, 2500, &[1]));
        assert!(is_over(1, 2501, &[1]));
        assert!(!is_over(1, 2501, &[2, 9]));
        assert!(!is_over(1, 2501, &[]));
    }

    #[test]
    fn as_many_must_speak_as_a_write_needs() {
        assert!(!is_over(2, 2600, &[1, 5]));
        assert!(is_over(2, 2600, &[1, 0]));
    }

    #[test]
    fn the_server_counts_right_in_the_end() {
        assert!(!is_over(1, 12_999, &[12]));
        assert!(is_over(1, 13_000, &[]));
    }
}

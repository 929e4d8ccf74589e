//! What happens to a server beside commands: time passes, the wall clock is set, settings change, it ends and starts.

use std::collections::BTreeMap;

use crate::host::Host;
use crate::ops::Restart;
use crate::reference::queue::Live;
use crate::reference::Told;
use crate::run::{Check, Run};

const HOUR_US: i64 = 3_600_000_000;

impl Run<'_> {
    pub fn advance(&mut self, us: u64) -> Check {
        // The turn that is waited for comes a whole ms later at least.
        let now = self.world.scene.now_us;
        let us = us.max((now.div_ceil(1000) + 1) * 1000 - now);
        let grace_until = if self.world.stands_still(us) {
            (now + us) / 1000 + self.world.setting("takeover-grace")
        } else {
            self.world.openings.grace_until
        };
        let acts = self.world.is_enabled() && (now + us) / 1000 >= grace_until;
        self.host.pass(us, acts, self.world.setting("max-lease"))?;
        self.world.pass(us);
        self.trace.push(format!("      it is {}us", self.world.scene.now_us));
        Ok(())
    }

    pub fn advance_to_next(&mut self, off: i64, us: u64) -> Check {
        let now = self.world.now();
        let next = self.moments().into_iter().filter(|at| *at > now).min().unwrap_or(now + 1);
        let at = next.saturating_add_signed(off).max(now + 1);
        self.advance(at * 1000 + us - self.world.scene.now_us)
    }

    /// When something is due, in ms of queue time.
    fn moments(&self) -> Vec<u64> {
        let mut all = vec![self.world.openings.grace_until];
        for queue in &self.world.queues {
            let rule = |name| queue.rule(&self.world.scene, name);
            let due = queue.jobs.values().filter_map(Live::due_at);
            all.extend(due.flat_map(|at| [at, at + rule("stale-after"), at.saturating_sub(rule("far-horizon"))]));
            all.extend(queue.jobs.values().filter_map(Live::lease_ends));
            all.extend(queue.ids.values());
            all.extend(queue.dead.values().map(|letter| letter.at + rule("dead-max-age")));
            all.extend(queue.known.iter().map(|known| known.upkeep_at));
        }
        let wait_us = self.world.waiter.as_ref().and_then(|waiter| waiter.deadline).map(|at| at - self.world.boot_us);
        all.extend(wait_us.map(|us| (self.world.scene.now_us + us).div_ceil(1000)));
        all
    }

    /// Sets the wall clock so far from queue time that queue time does not follow, or to it.
    pub fn set_wall(&mut self, hours: i64) -> Check {
        let at = self.world.scene.now_us.saturating_add_signed(hours * HOUR_US);
        self.host.clock.set_wall(at);
        self.world.wall_us = at;
        Ok(())
    }

    pub fn server_setting(&mut self, name: &'static str, value: u64) -> Check {
        self.host.set(&BTreeMap::from([(name, value)]));
        // A value that was there already is no news to the module.
        if self.world.setting(name) != value {
            self.world.set(name, value);
        }
        Ok(())
    }

    pub fn outage(&mut self, grace: u64) -> Check {
        self.server_setting("takeover-grace", grace)?;
        // Where the grace that runs became shorter, its turn comes before the outage.
        self.settle()?;
        self.server_setting("enabled", 1)?;
        self.hear()?;
        self.server_setting("enabled", 0)
    }

    pub fn restart(&mut self, how: Restart) -> Check {
        let is_reload = matches!(how, Restart::Reload);
        let had_waiter = self.world.waiter.is_some();
        if !is_reload {
            self.waiting = None;
            self.world.scene.server = Host::settings().into();
        }
        let acts = self.world.is_enabled();
        self.host.restart(how, acts);
        self.world.restart(is_reload);
        if is_reload && had_waiter {
            self.world.told = Some(Told::Unblocked);
        }
        Ok(())
    }
}

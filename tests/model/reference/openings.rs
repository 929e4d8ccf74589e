//! When a worker could have claimed, and until when no lease ends.

#[derive(Clone, Debug, Default)]
pub struct Openings {
    /// Stretches that are over, oldest first.
    over: Vec<(u64, u64)>,
    since: Option<u64>,
    opened_at: u64,
    pub grace_until: u64,
    /// Open time in graces since there were last 100 ms free of one.
    graced: u64,
}

impl Openings {
    /// The node takes claims from `now` on; where it did not before, the grace begins.
    pub fn open(&mut self, now: u64, grace: u64) {
        if self.since.is_none() {
            self.opened_at = now;
            self.grace_until = now + grace.min((2 * grace).saturating_sub(self.graced));
            self.since = Some(self.grace_until);
        }
    }

    pub fn close(&mut self, now: u64) {
        let Some(since) = self.since.take() else { return };
        if now >= self.grace_until + 100 {
            self.graced = 0;
        } else {
            self.graced += now.min(self.grace_until) - self.opened_at.min(now);
        }
        if since < now {
            self.over.push((since, now));
        }
    }

    /// The server stood still for the time between: nobody could claim, and the grace begins.
    pub fn jumped(&mut self, from: u64, to: u64, grace: u64) {
        if self.since.is_some() {
            self.close(from);
            self.open(to, grace);
        }
    }

    pub fn is_open(&self) -> bool {
        self.since.is_some()
    }

    /// The grace that runs becomes shorter, where it is longer than `grace`.
    pub fn shorten_grace(&mut self, now: u64, grace: u64) {
        if self.since.is_some() && self.grace_until > now + grace {
            self.grace_until = now + grace;
            self.since = Some(self.grace_until);
        }
    }

    /// The latest time from which on it was open for `ms`.
    pub fn since(&self, now: u64, ms: u64) -> Option<u64> {
        let mut wanted = ms;
        let running = self.since.filter(|since| *since < now).map(|since| (since, now));
        for (from, to) in running.into_iter().chain(self.over.iter().rev().copied()) {
            if to - from >= wanted {
                return Some(to - wanted);
            }
            wanted -= to - from;
        }
        None
    }
}

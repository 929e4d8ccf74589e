//! When a worker could have claimed: on a primary that is loaded, enabled, and takes writes. Pure.

use crate::core::openings::Openings;

/// Since when the node is open for claims, and for how long no lease ends after it opened.
#[derive(Default)]
pub struct Availability {
    openings: Openings,
    open: bool,
    grace_until: u64,
}

impl Availability {
    /// The node takes writes. Where it did not before, the take-over grace begins.
    pub fn open(&mut self, now: u64, grace: u64) {
        if !self.open {
            self.open = true;
            self.openings.open(now);
            self.grace_until = now.saturating_add(grace);
        }
    }

    pub fn close(&mut self, now: u64) {
        if self.open {
            self.open = false;
            self.openings.close(now);
        }
    }

    /// Queue time jumped forward: nobody could claim in the gap, and leases get the grace.
    pub fn jumped(&mut self, from: u64, to: u64, grace: u64) {
        if self.open {
            self.close(from);
            self.open(to, grace);
        }
    }

    /// Until when no lease ends, in ms of queue time.
    pub fn grace_until(&self) -> u64 {
        self.grace_until
    }

    /// The grace as it is now set counts from the moment the node opened.
    pub fn shorten_grace(&mut self, now: u64, grace: u64) {
        self.grace_until = self.grace_until.min(now.saturating_add(grace));
    }

    /// The latest time from which on the node was open for `open_ms`.
    pub fn open_since(&self, now: u64, open_ms: u64) -> Option<u64> {
        self.openings.reach_back(now, open_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace_begins_when_the_node_opens_and_not_again_while_it_is_open() {
        let mut node = Availability::default();
        node.open(1000, 500);
        node.open(1200, 500);
        assert_eq!(node.grace_until(), 1500);
        node.close(2000);
        node.open(3000, 500);
        assert_eq!(node.grace_until(), 3500);
    }

    #[test]
    fn only_open_time_counts() {
        let mut node = Availability::default();
        assert_eq!(node.open_since(1000, 1), None);
        node.open(1000, 0);
        node.close(1100);
        node.open(2000, 0);
        assert_eq!(node.open_since(2050, 50), Some(2000));
        assert_eq!(node.open_since(2050, 100), Some(1050));
        assert_eq!(node.open_since(2050, 151), None);
    }

    #[test]
    fn a_jump_counts_for_nothing_and_gives_grace() {
        let mut node = Availability::default();
        node.open(1000, 0);
        node.jumped(1100, 9000, 300);
        assert_eq!(node.grace_until(), 9300);
        assert_eq!(node.open_since(9010, 110), Some(1000));
    }
}

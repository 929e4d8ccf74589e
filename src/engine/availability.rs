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
    /// The node takes writes. Where it did not before, the take-over grace begins, which counts as closed: workers that
    /// were cut off are still on their way.
    pub fn open(&mut self, now: u64, grace: u64) {
        if !self.open {
            self.open = true;
            self.grace_until = now.saturating_add(grace);
            self.openings.open(self.grace_until);
        }
    }

    pub fn close(&mut self, now: u64) {
        if self.open {
            self.open = false;
            self.openings.close(now);
        }
    }

    /// Queue time jumped forward: nobody could claim in the gap, and workers get the grace.
    pub fn jumped(&mut self, from: u64, to: u64, grace: u64) {
        if self.open {
            self.close(from);
            self.open(to, grace);
        }
    }

    /// Ends a grace that the setting, as it is now, would not give any more.
    pub fn shorten_grace(&mut self, now: u64, grace: u64) {
        if self.open && self.grace_until > now.saturating_add(grace) {
            self.close(now);
            self.open(now, grace);
        }
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Until when no lease ends, in ms of queue time.
    pub fn grace_until(&self) -> u64 {
        self.grace_until
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
    fn only_open_time_after_the_grace_counts() {
        let mut node = Availability::default();
        assert_eq!(node.open_since(1000, 1), None);
        node.open(900, 100);
        assert_eq!(node.open_since(1000, 1), None);
        node.close(1100);
        node.open(1900, 100);
        assert_eq!(node.open_since(2050, 50), Some(2000));
        assert_eq!(node.open_since(2050, 100), Some(1050));
        assert_eq!(node.open_since(2050, 151), None);
    }

    #[test]
    fn closing_within_the_grace_leaves_no_open_time() {
        let mut node = Availability::default();
        node.open(900, 100);
        node.close(950);
        node.open(2000, 0);
        assert_eq!(node.open_since(2010, 10), Some(2000));
        assert_eq!(node.open_since(2010, 11), None);
    }

    #[test]
    fn a_shorter_grace_ends_the_one_that_runs() {
        let mut node = Availability::default();
        node.open(1000, 5000);
        node.shorten_grace(1100, 0);
        assert_eq!(node.grace_until(), 1100);
        assert_eq!(node.open_since(1200, 100), Some(1100));
        node.shorten_grace(1300, 9000);
        assert_eq!(node.grace_until(), 1100);
    }

    #[test]
    fn a_jump_counts_for_nothing_and_gives_grace() {
        let mut node = Availability::default();
        node.open(1000, 0);
        node.jumped(1100, 9000, 300);
        assert_eq!(node.grace_until(), 9300);
        assert_eq!(node.open_since(9310, 110), Some(1000));
    }
}

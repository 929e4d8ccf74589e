//! When a worker could have claimed: on a primary that is loaded, enabled, and takes writes. Pure.

use crate::core::openings::Openings;

/// Graces that follow each other with less free time than this between them, in ms, are one chain. It is time enough for
/// a tick to end leases.
const FREE_MS: u64 = 100;

/// How many graces a chain lasts at the longest. Without an end, writes refused for a moment again and again would keep
/// leases of dead workers forever.
const GRACES_IN_CHAIN: u64 = 2;

/// Since when the node is open for claims, and for how long no lease ends after it opened.
#[derive(Default)]
pub struct Availability {
    openings: Openings,
    open: bool,
    opened_at: u64,
    grace_until: u64,
    /// How long the graces of the present chain have lasted while the node was open, in ms.
    chain_ms: u64,
}

impl Availability {
    /// The node takes writes. Where it did not before, the take-over grace begins, which counts as closed: workers that
    /// were cut off are still on their way. The graces of one chain end after twice `grace` of open time.
    pub fn open(&mut self, now: u64, grace: u64) {
        if !self.open {
            let left = grace.saturating_mul(GRACES_IN_CHAIN).saturating_sub(self.chain_ms);
            self.open = true;
            self.opened_at = now;
            self.grace_until = now.saturating_add(grace.min(left));
            self.openings.open(self.grace_until);
        }
    }

    pub fn close(&mut self, now: u64) {
        if self.open {
            self.open = false;
            self.openings.close(now);
            let is_chain_over = now >= self.grace_until.saturating_add(FREE_MS);
            let lasted = self.grace_until.min(now).saturating_sub(self.opened_at);
            self.chain_ms = if is_chain_over { 0 } else { self.chain_ms.saturating_add(lasted) };
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
            self.openings.close(now);
            self.grace_until = now.saturating_add(grace);
            self.openings.open(self.grace_until);
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

    /// Opens the node, and closes it again after `open` ms, each time for `closed` ms. Returns the free time of each
    /// opening: what was left of it after the grace.
    fn flap(node: &mut Availability, grace: u64, times: usize, open: u64, closed: u64) -> Vec<u64> {
        let mut now = 1000;
        let mut opening = || {
            node.open(now, grace);
            let free = (now + open).saturating_sub(node.grace_until());
            node.close(now + open);
            now += open + closed;
            free
        };
        std::iter::repeat_with(&mut opening).take(times).collect()
    }

    #[test]
    fn a_chain_of_graces_ends_after_two() {
        // 3 s of 5, 3 more, the 4 that are left; then free time, and the next chain.
        assert_eq!(flap(&mut Availability::default(), 5000, 5, 3000, 100), [0, 0, 0, 2000, 0]);
        // However long it was closed, and however short it was open.
        assert_eq!(flap(&mut Availability::default(), 5000, 5, 3000, 60_000), [0, 0, 0, 2000, 0]);
        let free = flap(&mut Availability::default(), 1000, 300, 10, 10);
        assert_eq!(free[..200], [0; 200]);
        assert_eq!(free[200..], [10; 100], "too short to end the chain");
    }

    #[test]
    fn free_time_ends_a_chain() {
        assert_eq!(flap(&mut Availability::default(), 1000, 4, 1000 + FREE_MS, 100), [FREE_MS; 4]);
        assert_eq!(flap(&mut Availability::default(), 1000, 4, 1000 + FREE_MS - 1, 100), [99, 99, 1099, 99]);
    }

    #[test]
    fn a_grace_made_shorter_is_no_grace_of_its_own() {
        let mut node = Availability::default();
        node.open(1000, 5000);
        node.shorten_grace(4000, 1000);
        assert_eq!(node.grace_until(), 5000);
        node.close(4500);
        node.open(5000, 5000);
        assert_eq!(node.grace_until(), 10_000);
        node.close(9000);
        node.open(9100, 5000);
        assert_eq!(node.grace_until(), 9100 + 10_000 - 3500 - 4000);
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

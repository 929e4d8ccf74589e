//! When a worker could have claimed: the open and the closed stretches of queue time.
//!
//! The purge counts a ready job stale only after it lay open to claims for long enough, so time in
//! which the server was down, loading, a replica, refusing writes or its queue paused is left out.

use std::collections::VecDeque;

/// How many closed gaps are remembered.
const MAX_GAPS: usize = 64;

/// A closed stretch of queue time in ms, from `from` until before `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    from: u64,
    to: u64,
}

/// The open and the closed stretches of one server run.
#[derive(Clone, Debug)]
pub struct Openings {
    /// Closed stretches that have ended, oldest first, with open time between any two.
    gaps: VecDeque<Gap>,
    /// Since when it is closed, where it is.
    closed_since: Option<u64>,
}

impl Default for Openings {
    fn default() -> Openings {
        Openings::new()
    }
}

impl Openings {
    /// All time is closed until the first [`Openings::open`].
    pub fn new() -> Openings {
        Openings { gaps: VecDeque::new(), closed_since: Some(0) }
    }

    /// From queue time `at`, in ms, a worker can claim. Nothing changes where it could already.
    pub fn open(&mut self, at: u64) {
        let Some(from) = self.closed_since.take() else {
            return;
        };
        if at > from {
            self.gaps.push_back(Gap { from, to: at });
            self.forget_oldest();
        }
    }

    /// From queue time `at`, in ms, no worker can claim. Nothing changes where none could.
    pub fn close(&mut self, at: u64) {
        if self.closed_since.is_some() {
            return;
        }
        self.closed_since = match self.gaps.pop_back() {
            Some(gap) if gap.to >= at => Some(gap.from),
            gap => {
                self.gaps.extend(gap);
                Some(at)
            }
        };
    }

    /// The latest time from which on `open_ms` ms were open until `now`, both in ms of queue time;
    /// `None` where not so much open time is known.
    pub fn reach_back(&self, now: u64, open_ms: u64) -> Option<u64> {
        if open_ms == 0 {
            return Some(now);
        }
        let mut wanted = open_ms;
        let mut end = self.closed_since.map_or(now, |since| since.min(now));
        for gap in self.gaps.iter().rev() {
            let open = end.saturating_sub(gap.to);
            if open >= wanted {
                return Some(end - wanted);
            }
            wanted -= open;
            end = end.min(gap.from);
        }
        end.checked_sub(wanted)
    }

    /// Joins the two oldest gaps where there are too many. The open time between them is lost,
    /// which makes jobs look less stale, never more.
    fn forget_oldest(&mut self) {
        if self.gaps.len() <= MAX_GAPS {
            return;
        }
        let oldest = self.gaps.pop_front();
        if let (Some(oldest), Some(next)) = (oldest, self.gaps.front_mut()) {
            next.from = oldest.from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Openings with these closed gaps after the first opening.
    fn with(first: u64, gaps: &[(u64, u64)]) -> Openings {
        let mut openings = Openings::new();
        openings.open(first);
        for &(from, to) in gaps {
            openings.close(from);
            openings.open(to);
        }
        openings
    }

    #[test]
    fn all_is_closed_before_the_first_opening() {
        let mut openings = Openings::default();
        assert_eq!(openings.reach_back(1_000, 1), None);
        openings.close(500);
        assert_eq!(openings.reach_back(1_000, 1), None);
        openings.open(600);
        assert_eq!(openings.reach_back(1_000, 400), Some(600));
        assert_eq!(openings.reach_back(1_000, 401), None);
    }

    #[test]
    fn closed_gaps_are_left_out() {
        let openings = with(100, &[(200, 300), (350, 400)]);
        assert_eq!(openings.reach_back(450, 50), Some(400));
        assert_eq!(openings.reach_back(450, 51), Some(349));
        assert_eq!(openings.reach_back(450, 100), Some(300));
        assert_eq!(openings.reach_back(450, 101), Some(199));
        assert_eq!(openings.reach_back(450, 200), Some(100));
        assert_eq!(openings.reach_back(450, 201), None);
        assert_eq!(openings.reach_back(150, 50), Some(100));
        assert_eq!(openings.reach_back(150, 51), None);
    }

    #[test]
    fn a_gap_that_has_not_ended_is_left_out() {
        let mut openings = with(100, &[]);
        openings.close(200);
        openings.close(250);
        assert_eq!(openings.reach_back(900, 10), Some(190));
        assert_eq!(openings.reach_back(900, 101), None);
        assert_eq!(openings.reach_back(150, 10), Some(140));
    }

    #[test]
    fn opening_twice_keeps_the_first() {
        let mut openings = with(100, &[]);
        openings.open(150);
        assert_eq!(openings.reach_back(200, 100), Some(100));
    }

    #[test]
    fn no_open_time_is_reached_at_once() {
        assert_eq!(Openings::new().reach_back(7, 0), Some(7));
    }

    #[test]
    fn stretches_of_no_length_leave_no_trace() {
        let openings = with(100, &[(200, 200), (300, 400), (400, 500)]);
        assert_eq!(openings.gaps.len(), 2);
        assert_eq!(openings.reach_back(600, 101), Some(299));
        let mut from_zero = Openings::new();
        from_zero.open(0);
        assert_eq!(from_zero.reach_back(10, 10), Some(0));
        assert_eq!(from_zero.reach_back(10, 11), None);
    }

    #[test]
    fn time_that_goes_back_does_no_harm() {
        let mut openings = with(100, &[(200, 150), (120, 110), (50, 60)]);
        openings.close(0);
        openings.open(u64::MAX);
        assert_eq!(openings.reach_back(10, u64::MAX), None);
        assert_eq!(openings.reach_back(u64::MAX, u64::MAX), None);
    }

    #[test]
    fn too_many_gaps_join_at_the_old_end() {
        let gaps: Vec<(u64, u64)> = (1..=200).map(|n| (n * 10, n * 10 + 5)).collect();
        let openings = with(1, &gaps);
        assert_eq!(openings.gaps.len(), MAX_GAPS);
        let known = 5 * 63;
        assert_eq!(openings.reach_back(2_005, known), Some(1_375));
        assert_eq!(openings.reach_back(2_005, known + 1), None);
    }

    proptest! {
        /// Against a map of each ms, open or not.
        #[test]
        fn reach_back_counts_open_time(
            turns in prop::collection::vec((0..20_usize, any::<bool>()), 0..60),
            open_ms in 1..200_u64,
        ) {
            let mut openings = Openings::new();
            let (mut map, mut is_open) = (Vec::new(), false);
            for (wait, opens) in turns {
                map.extend(std::iter::repeat_n(is_open, wait));
                let at = map.len() as u64;
                if opens { openings.open(at) } else { openings.close(at) }
                is_open = opens;
            }
            let open_at = (0..).zip(&map).filter_map(|(ms, &open)| open.then_some(ms));
            let expected = open_at.rev_nth(open_ms);
            prop_assert_eq!(openings.reach_back(map.len() as u64, open_ms), expected);
        }

        #[test]
        fn forgetting_only_protects(
            turns in prop::collection::vec((1..20_u64, 1..20_u64), 65..100),
            open_ms in 1..2_000_u64,
        ) {
            let mut openings = Openings::new();
            let mut exact = Vec::new();
            let mut now = 1;
            openings.open(now);
            for (open, closed) in turns {
                exact.extend(now..now + open);
                openings.close(now + open);
                now += open + closed;
                openings.open(now);
            }
            let expected = exact.into_iter().rev_nth(open_ms);
            if let Some(found) = openings.reach_back(now, open_ms) {
                prop_assert_eq!(Some(found), expected);
            }
        }
    }

    /// The `nth` element from the end, from 1.
    trait FromEnd: Iterator + Sized {
        fn rev_nth(self, nth: u64) -> Option<Self::Item> {
            let all: Vec<Self::Item> = self.collect();
            let at = all.len().checked_sub(usize::try_from(nth).ok()?)?;
            all.into_iter().nth(at)
        }
    }

    impl<I: Iterator> FromEnd for I {}
}

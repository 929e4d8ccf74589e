//! How long a job waits after a failure.

/// Exponential backoff with jitter that only adds.
///
/// The wait after the *n*th failure is
///
/// ```text
/// delay(n) = min(cap, base · 2ⁿ⁻¹)
/// wait(n)  = delay(n) + uniform{0 … ⌊delay(n) · jitter / 100⌋}
/// ```
///
/// in whole ms. Why to spread retries at random at all: Marc Brooker, "Exponential Backoff And
/// Jitter", AWS Architecture Blog, 2015. Its "full jitter" shortens most waits; here the wait that
/// is promised is kept, and jitter only adds to it, so a wait may exceed the cap by its jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure, in ms.
    pub base_ms: u64,
    /// The longest wait before jitter, in ms; where it is below the base, it holds.
    pub cap_ms: u64,
    /// The most that jitter adds, in percent of the wait.
    pub jitter_percent: u32,
}

impl Backoff {
    /// The wait in ms after failure number `nth`, from 1 (0 counts as 1).
    ///
    /// `random` is uniform over all 64 bits. Every value saturates at the limit of `u64`.
    pub fn delay(&self, nth: u32, random: u64) -> u64 {
        let doublings = nth.saturating_sub(1);
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        let delay = self.base_ms.saturating_mul(factor).min(self.cap_ms);
        delay.saturating_add(self.jitter(delay, random))
    }

    /// A uniform part of `jitter_percent` of `delay`, both ends included.
    fn jitter(&self, delay: u64, random: u64) -> u64 {
        let widest = u128::from(delay) * u128::from(self.jitter_percent) / 100;
        let choices = u128::from(u64::try_from(widest).unwrap_or(u64::MAX)) + 1;
        // random / 2⁶⁴ lies in [0, 1): the product falls on each choice alike (Lemire, "Fast
        // Random Integer Generation in an Interval", 2019, without its last correction).
        let chosen = (u128::from(random) * choices) >> 64;
        u64::try_from(chosen).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEFAULT: Backoff = Backoff { base_ms: 1_000, cap_ms: 300_000, jitter_percent: 0 };

    #[test]
    fn the_default_doubles_from_one_second_to_five_minutes() {
        let waits: Vec<u64> = (1..=11).map(|nth| DEFAULT.delay(nth, u64::MAX)).collect();
        let seconds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
        assert_eq!(waits, seconds.map(|second| second * 1_000));
    }

    #[test]
    fn three_hundred_retries_are_about_a_day() {
        let ms: u64 = (1..=300).map(|nth| DEFAULT.delay(nth, 0)).sum();
        assert!((86_400_000..90_000_000).contains(&ms), "{ms}");
    }

    #[test]
    fn the_limits_of_each_number() {
        for nth in [0, 1] {
            assert_eq!(DEFAULT.delay(nth, 0), 1_000);
        }
        for nth in [64, 65, 66, u32::MAX] {
            assert_eq!(DEFAULT.delay(nth, 0), 300_000);
        }
        let wide = Backoff { base_ms: u64::MAX, cap_ms: u64::MAX, jitter_percent: u32::MAX };
        assert_eq!(wide.delay(1, 0), u64::MAX);
        assert_eq!(wide.delay(u32::MAX, u64::MAX), u64::MAX);
        let none = Backoff { base_ms: 0, ..wide };
        assert_eq!(none.delay(u32::MAX, u64::MAX), 0);
        let low_cap = Backoff { cap_ms: 10, ..DEFAULT };
        assert_eq!(low_cap.delay(1, 0), 10);
    }

    #[test]
    fn jitter_reaches_both_ends_and_spreads_evenly() {
        let backoff = Backoff { jitter_percent: 20, ..DEFAULT };
        assert_eq!(backoff.delay(1, 0), 1_000);
        assert_eq!(backoff.delay(1, u64::MAX), 1_200);
        assert_eq!(backoff.delay(1, u64::MAX / 2), 1_100);
    }

    proptest! {
        #[test]
        fn jitter_only_adds_and_keeps_its_bound(
            base_ms: u64, cap_ms: u64, jitter_percent: u32, nth: u32, random: u64,
        ) {
            let plain = Backoff { base_ms, cap_ms, jitter_percent: 0 }.delay(nth, random);
            let wait = Backoff { base_ms, cap_ms, jitter_percent }.delay(nth, random);
            let most = u128::from(plain) * (100 + u128::from(jitter_percent)) / 100;
            prop_assert!(plain <= cap_ms);
            prop_assert!(wait >= plain);
            prop_assert!(u128::from(wait) <= most);
        }

        #[test]
        fn the_delay_is_the_formula(base_ms in 0..1_u64 << 40, cap_ms: u64, nth in 1..80_u32) {
            let exact = (u128::from(base_ms) << (nth - 1).min(80)).min(u128::from(cap_ms));
            let delay = Backoff { base_ms, cap_ms, jitter_percent: 0 }.delay(nth, 0);
            prop_assert_eq!(u128::from(delay), exact);
        }

        #[test]
        fn a_later_failure_waits_no_less(base_ms: u64, cap_ms: u64, nth in 0..100_u32) {
            let backoff = Backoff { base_ms, cap_ms, jitter_percent: 0 };
            prop_assert!(backoff.delay(nth, 0) <= backoff.delay(nth + 1, 0));
        }

        #[test]
        fn more_random_waits_no_less(
            jitter_percent in 0..200_u32, nth: u32, one: u64, two: u64,
        ) {
            let backoff = Backoff { jitter_percent, ..DEFAULT };
            let (low, high) = (one.min(two), one.max(two));
            prop_assert!(backoff.delay(nth, low) <= backoff.delay(nth, high));
        }
    }
}

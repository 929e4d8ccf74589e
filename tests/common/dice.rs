//! What is drawn in a test, and the seed that draws it again.

use std::time::{SystemTime, UNIX_EPOCH};

/// `DQ_TEST_SEED`, or another seed each time.
pub fn seed() -> u64 {
    match std::env::var("DQ_TEST_SEED") {
        Ok(seed) => seed.parse().expect("DQ_TEST_SEED is a number"),
        Err(_) => {
            let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
            u64::from(elapsed.subsec_nanos())
        }
    }
}

/// Numbers at random, the same for the same seed (SplitMix64; Steele, Lea and Flood, 2014).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.next() as usize % all.len()]
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

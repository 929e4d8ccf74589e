//! State for each client address, bounded in size.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

/// Addresses that are remembered at one time.
const ADDRESSES: usize = 10_000;

/// How many times something may happen at once, and how many times a second in the long run.
#[derive(Clone, Copy)]
pub struct Rate {
    pub burst: f64,
    pub per_second: f64,
}

pub struct Bucket {
    rate: Rate,
    credit: f64,
    at: Instant,
}

impl Bucket {
    fn new(rate: Rate) -> Bucket {
        Bucket { rate, credit: rate.burst, at: Instant::now() }
    }

    fn refill(&mut self) -> f64 {
        self.credit = (self.credit + self.at.elapsed().as_secs_f64() * self.rate.per_second).min(self.rate.burst);
        self.at = Instant::now();
        self.credit
    }

    pub fn take(&mut self) -> bool {
        let has = self.refill() >= 1.0;
        if has {
            self.credit -= 1.0;
        }
        has
    }

    /// Returns what was taken.
    pub fn give_back(&mut self) {
        self.credit = (self.credit + 1.0).min(self.rate.burst);
    }

    /// Returns the seconds until `take` can succeed.
    pub fn seconds_left(&mut self) -> f64 {
        (1.0 - self.refill()).max(0.0) / self.rate.per_second
    }
}

/// A bucket for each address, with more state.
pub struct Addresses<T> {
    rate: Rate,
    most: usize,
    known: HashMap<IpAddr, (Bucket, T)>,
}

impl<T: Default> Addresses<T> {
    pub fn new(rate: Rate) -> Addresses<T> {
        Addresses { rate, most: ADDRESSES, known: HashMap::new() }
    }

    /// Returns the state of the address. If too many are known, it replaces the one with the most credit.
    pub fn entry(&mut self, address: IpAddr) -> &mut (Bucket, T) {
        let key = network(address);
        if self.known.len() >= self.most && !self.known.contains_key(&key) {
            let credits = self.known.iter_mut().map(|(key, (bucket, _))| (bucket.refill(), *key));
            if let Some((_, key)) = credits.max_by(|one, two| one.0.total_cmp(&two.0)) {
                self.known.remove(&key);
            }
        }
        self.known.entry(key).or_insert_with(|| (Bucket::new(self.rate), T::default()))
    }
}

/// One subscriber has a whole /64 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { burst: 2.0, per_second: 0.001 };

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn each_address_has_its_own_credit() {
        let mut addresses: Addresses<()> = Addresses::new(RATE);
        let mut take = |text| addresses.entry(ip(text)).0.take();
        assert_eq!([take("10.0.0.1"), take("10.0.0.1"), take("10.0.0.1")], [true, true, false]);
        assert!(take("10.0.0.2"));
        assert!(!take("::ffff:10.0.0.1"), "the same address, mapped into IPv6");
        assert_eq!([take("2001:db8::1"), take("2001:db8::2"), take("2001:db8::3")], [true, true, false]);
        assert!(take("2001:db8:0:1::1"), "another /64");
    }

    #[test]
    fn memory_is_bounded_and_keeps_the_worst() {
        let mut addresses: Addresses<()> = Addresses::new(RATE);
        addresses.most = 3;
        while addresses.entry(ip("10.0.0.1")).0.take() {}
        for last in 2..50 {
            addresses.entry(IpAddr::from([10, 0, 0, last]));
        }
        assert_eq!(addresses.known.len(), 3);
        assert!(!addresses.entry(ip("10.0.0.1")).0.take(), "it is still remembered");
    }
}

//! Tables that give memory back: one that was made for many entries and holds few is made anew for few.
//!
//! A hash table keeps the memory of the most entries that it ever had. What is counted in queues, clients or jobs would
//! go on taking that of the largest crowd that ever came.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

/// So few that to move them takes some µs.
const FEW: usize = 100;
/// Room for so many is worth having back. Between the two, a table that grows and shrinks again and again is left alone.
const MANY: usize = 1000;

/// A table may say that it has less room than it was made for, never more.
fn is_too_roomy(entries: usize, room: usize) -> bool {
    entries <= FEW && room >= MANY
}

/// Called where an entry went.
pub fn fit<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if is_too_roomy(map.len(), map.capacity()) {
        map.shrink_to(FEW);
    }
}

/// The same of a set.
pub fn fit_set<T: Eq + Hash, S: BuildHasher>(set: &mut HashSet<T, S>) {
    if is_too_roomy(set.len(), set.capacity()) {
        set.shrink_to(FEW);
    }
}

/// The same of a line.
pub fn fit_line<T>(line: &mut VecDeque<T>) {
    if is_too_roomy(line.len(), line.capacity()) {
        line.shrink_to(FEW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_few_that_was_one_of_many_is_made_anew() {
        let mut map: HashMap<u32, u32> = (0..10_000).map(|n| (n, n)).collect();
        let mut line: VecDeque<u32> = (0..10_000).collect();
        for n in (FEW as u32..10_000).rev() {
            assert!(map.capacity() >= MANY && line.capacity() >= MANY, "{n}");
            map.remove(&n);
            line.pop_back();
            fit(&mut map);
            fit_line(&mut line);
        }
        assert!(map.capacity() < MANY && line.capacity() < MANY);
        assert!((0..FEW as u32).all(|n| map.get(&n) == Some(&n) && line.contains(&n)));
    }

    #[test]
    fn a_table_that_was_never_large_is_left_alone() {
        let mut map: HashMap<u32, u32> = (0..500).map(|n| (n, n)).collect();
        let room = map.capacity();
        map.clear();
        fit(&mut map);
        assert_eq!(map.capacity(), room);
    }
}

//! Whose leases run: those that this node gave in the queue's present tenure, and those that it found.
//!
//! A failover can undo a claim that no replica had, and so can RESTORE of an older copy of the keys. The next claim of
//! that job has the same number. So a receipt says in which tenure its claim was made, and a queue begins a new tenure
//! whenever its keys may have come from elsewhere: after a load, a promotion, a RESTORE, COPY, RENAME or MOVE. A receipt
//! of another tenure stands for a lease that was found, and never for one that was given since. Nothing of this is in the
//! keys: a lease that ends later than all that were found is one that was given, and only what this does not tell is
//! remembered, by the job's id.

use crate::core::receipt::Tenure;
use crate::core::table::fit_set;
use crate::redis::random;
use foldhash::fast::RandomState;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

type Ids = RefCell<HashSet<Box<[u8]>, RandomState>>;

pub struct LeasesOfTenure {
    /// The present tenure, or while `is_over` the one before; `None` before the first claim.
    tenure: Cell<Option<Tenure>>,
    is_over: Cell<bool>,
    /// When the last lease ends that was found; `u64::MAX` while nobody has looked.
    found_until: Cell<u64>,
    /// Found, and made to end later than that.
    prolonged: Ids,
    /// Given, and ending no later than that.
    brief: Ids,
}

impl Default for LeasesOfTenure {
    fn default() -> LeasesOfTenure {
        LeasesOfTenure {
            tenure: Cell::new(None),
            is_over: Cell::new(true),
            found_until: Cell::new(u64::MAX),
            prolonged: Ids::default(),
            brief: Ids::default(),
        }
    }
}

impl LeasesOfTenure {
    /// Every lease may be anybody's: the tenure is over.
    pub fn end(&self) {
        self.is_over.set(true);
        self.found_until.set(u64::MAX);
        self.prolonged.take();
        self.brief.take();
    }

    /// Whether nobody has looked at the leases since the last tenure ended.
    pub(super) fn is_to_begin(&self) -> bool {
        self.found_until.get() == u64::MAX
    }

    /// The leases that are there are found ones; the last of them ends then.
    pub(super) fn begin(&self, last_end: Option<u64>) {
        self.found_until.set(last_end.unwrap_or(0).min(u64::MAX - 1));
    }

    /// The tenure of a claim that is made now. It is drawn for the first one.
    pub(super) fn current(&self) -> Tenure {
        self.current_or(|| Tenure::new(random() as u32))
    }

    fn current_or(&self, draw: impl FnMut() -> Tenure) -> Tenure {
        let before = self.tenure.get();
        match before {
            Some(tenure) if !self.is_over.get() => tenure,
            _ => {
                let drawn = std::iter::repeat_with(draw).find(|drawn| Some(*drawn) != before);
                let drawn = drawn.expect("the draws do not end");
                self.is_over.set(false);
                self.tenure.set(Some(drawn));
                drawn
            }
        }
    }

    /// Whether the claim of a receipt of that tenure was made in the present one.
    pub(super) fn is_present(&self, tenure: Option<Tenure>) -> bool {
        !self.is_over.get() && tenure.is_some() && tenure == self.tenure.get()
    }

    /// A lease, given or found, ends then.
    pub(super) fn note(&self, id: &[u8], ends_at: u64, is_own: bool) {
        if self.is_to_begin() {
            return;
        }
        let told_by_its_end = is_own == (ends_at > self.found_until.get());
        let (set, other) = if is_own { (&self.brief, &self.prolonged) } else { (&self.prolonged, &self.brief) };
        remove(other, id);
        if told_by_its_end {
            remove(set, id);
        } else {
            set.borrow_mut().insert(id.into());
        }
    }

    /// The lease is over.
    pub(super) fn forget(&self, id: &[u8]) {
        remove(&self.prolonged, id);
        remove(&self.brief, id);
    }

    /// Whether the lease that ends then was given in the present tenure.
    pub(super) fn is_own(&self, id: &[u8], ends_at: u64) -> bool {
        if ends_at > self.found_until.get() {
            !self.prolonged.borrow().contains(id)
        } else {
            self.brief.borrow().contains(id)
        }
    }
}

fn remove(ids: &Ids, id: &[u8]) {
    let mut ids = ids.borrow_mut();
    if !ids.is_empty() {
        ids.remove(id);
        fit_set(&mut ids);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_and_what_was_given_are_told_apart_by_their_ends_or_remembered() {
        let leases = LeasesOfTenure::default();
        assert!(!leases.is_own(b"a", u64::MAX), "nobody has looked");
        leases.note(b"a", 5, true);
        leases.begin(Some(100));
        assert!(!leases.is_own(b"a", 50) && !leases.is_own(b"a", 100));
        leases.note(b"b", 101, true);
        assert!(leases.is_own(b"b", 101));
        leases.note(b"c", 60, true);
        assert!(leases.is_own(b"c", 60));
        leases.note(b"a", 200, false);
        assert!(!leases.is_own(b"a", 200));
        assert_eq!((leases.brief.borrow().len(), leases.prolonged.borrow().len()), (1, 1));
        leases.note(b"c", 300, true);
        leases.note(b"a", 70, false);
        assert!(leases.is_own(b"c", 300) && !leases.is_own(b"a", 70));
        assert_eq!((leases.brief.borrow().len(), leases.prolonged.borrow().len()), (0, 0));
        leases.note(b"a", 200, false);
        leases.forget(b"a");
        assert!(leases.is_own(b"a", 200), "another claim of it");
    }

    #[test]
    fn where_no_lease_was_found_none_is_remembered() {
        let leases = LeasesOfTenure::default();
        leases.begin(None);
        leases.note(b"a", 1, true);
        assert!(leases.is_own(b"a", 1));
        assert!(leases.brief.borrow().is_empty());
    }

    #[test]
    fn each_tenure_differs_from_the_one_before() {
        let leases = LeasesOfTenure::default();
        let draw = |numbers: &'static [u32]| {
            leases.current_or({
                let mut numbers = numbers.iter();
                move || Tenure::new(*numbers.next().expect("enough numbers"))
            })
        };
        assert!(!leases.is_present(None));
        let first = draw(&[7]);
        assert_eq!(draw(&[8]), first, "it is drawn once");
        assert!(leases.is_present(Some(first)) && !leases.is_present(None));
        leases.end();
        assert!(!leases.is_present(Some(first)));
        let second = draw(&[7, 7, 9]);
        assert_eq!(second, Tenure::new(9));
        assert!(leases.is_present(Some(second)) && !leases.is_present(Some(first)));
    }

    #[test]
    fn a_lease_without_end_is_found_like_any_other() {
        let leases = LeasesOfTenure::default();
        leases.begin(Some(u64::MAX));
        assert!(!leases.is_to_begin());
        leases.note(b"a", 5, true);
        assert!(leases.is_own(b"a", 5));
    }
}

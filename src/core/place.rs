//! The place of a job among jobs that are due in the same ms.
//!
//! The members of one score in a ZSET sort by their bytes. A place is such a member, and places sort in push order:
//!
//! ```text
//! <id>             the server made the id: its 11 digits sort in push order already
//! <birth> <id>     the caller chose the id; birth is the number drawn at the push, in the same 11 digits
//! ```
//!
//! Both numbers come from one [`IdMaker`](super::ids::IdMaker), so places of both kinds sort among each other, too. No
//! valid id holds a blank, so a place tells its id. An id that was written by hand and looks like a place itself gets the
//! birth `00000000000`, so that every text is the place of exactly one job.

use super::ids::{self, ID_LEN};
use smallvec::SmallVec;

/// Stands between birth and id.
const BLANK: u8 = b' ';

/// A place as text; one with a valid id, of 140 bytes at most, is not on the heap.
pub type PlaceText = SmallVec<[u8; 256]>;

/// A job by its id and its birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobPlace<'a> {
    pub id: &'a [u8],
    /// `None` for a job whose id the server made, never 0.
    pub birth: Option<u64>,
}

impl<'a> JobPlace<'a> {
    /// Reads a place. Every text is one.
    pub fn parse(text: &'a [u8]) -> JobPlace<'a> {
        match split(text) {
            Some((0, id)) if looks_like_a_place(id) => JobPlace { id, birth: None },
            Some((birth, id)) if birth != 0 => JobPlace { id, birth: Some(birth) },
            _ => JobPlace { id: text, birth: None },
        }
    }

    /// The text of the place; `None` if it is the id itself.
    pub fn text(&self) -> Option<PlaceText> {
        let birth = match self.birth {
            Some(birth) => birth,
            None if looks_like_a_place(self.id) => 0,
            None => return None,
        };
        let mut text = PlaceText::from_slice(&ids::encode(birth));
        text.push(BLANK);
        text.extend_from_slice(self.id);
        Some(text)
    }

    /// The number by which the job sorts; `None` for an id that was written by hand.
    pub fn number(&self) -> Option<u64> {
        self.birth.or_else(|| ids::decode(self.id))
    }
}

/// Whether `id` would be read as the place of another job.
fn looks_like_a_place(mut id: &[u8]) -> bool {
    while let Some((birth, rest)) = split(id) {
        if birth != 0 {
            return true;
        }
        id = rest;
    }
    false
}

/// Splits a text at the blank behind the digits of a number.
fn split(text: &[u8]) -> Option<(u64, &[u8])> {
    // Checked first, since it tells nearly all ids apart.
    if text.get(ID_LEN) != Some(&BLANK) {
        return None;
    }
    Some((ids::decode(&text[..ID_LEN])?, &text[ID_LEN + 1..]))
}

#[cfg(test)]
mod tests {
    use super::super::ids::{IdMaker, MAX_CALLER_ID};
    use super::*;
    use proptest::prelude::*;

    fn text(id: &[u8], birth: Option<u64>) -> Vec<u8> {
        JobPlace { id, birth }.text().map_or_else(|| id.to_vec(), |text| text.to_vec())
    }

    #[test]
    fn an_id_of_the_servers_is_its_own_place() {
        let id = ids::encode(u64::MAX);
        assert_eq!(JobPlace { id: &id, birth: None }.text(), None);
        assert_eq!(JobPlace::parse(&id), JobPlace { id: &id, birth: None });
        assert_eq!(JobPlace::parse(&id).number(), Some(u64::MAX));
    }

    #[test]
    fn a_callers_id_stands_behind_its_birth() {
        assert_eq!(text(b"order:9", Some(62)), b"00000000010 order:9");
        let place = JobPlace::parse(b"00000000010 order:9");
        assert_eq!(place, JobPlace { id: b"order:9", birth: Some(62) });
        assert_eq!(place.number(), Some(62));
    }

    #[test]
    fn what_is_no_birth_is_part_of_the_id() {
        for id in [&b"order:9"[..], b"", b"00000000000 x", b"0000000001 x", b"000000000010x", b"LygHa16AHYG x", b"a b"]
        {
            assert_eq!(JobPlace::parse(id), JobPlace { id, birth: None });
            assert_eq!(JobPlace { id, birth: None }.text(), None);
        }
        assert_eq!(JobPlace::parse(b"order:9").number(), None);
    }

    #[test]
    fn an_id_that_looks_like_a_place_is_told_from_one() {
        assert_eq!(text(b"00000000010 x", None), b"00000000000 00000000010 x");
        let id = &b"00000000000 00000000010 x"[..];
        assert_eq!(JobPlace::parse(id), JobPlace { id: b"00000000010 x", birth: None });
        assert_eq!(text(id, None), b"00000000000 00000000000 00000000010 x");
        assert_eq!(JobPlace::parse(b"00000000000 00000000000 x").id, b"00000000000 00000000000 x");
    }

    #[test]
    fn a_valid_id_takes_no_heap() {
        let place = JobPlace { id: &[b'x'; MAX_CALLER_ID], birth: Some(1) }.text();
        assert!(!place.unwrap().spilled());
    }

    /// Texts of which many look like places, and like ids of the server's.
    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "([0-9A-Za-z]{11} |0{11} |0{10}1 ){0,3}[ -~]{0,12}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn a_job_is_read_as_it_was_written(id in any_text(), birth: Option<u64>) {
            let birth = birth.filter(|birth| *birth != 0);
            let text = text(&id, birth);
            prop_assert_eq!(JobPlace::parse(&text), JobPlace { id: &id, birth });
        }

        #[test]
        fn every_text_is_the_place_of_one_job(place in any_text()) {
            let job = JobPlace::parse(&place);
            prop_assert_ne!(job.birth, Some(0));
            prop_assert_eq!(text(job.id, job.birth), place);
        }

        #[test]
        fn places_sort_as_their_numbers(one: u64, two: u64, id in "[!-~]{1,128}", other in "[!-~]{1,128}") {
            prop_assume!(one != two && one != 0 && two != 0);
            let own = |number, id: &str| text(id.as_bytes(), Some(number));
            let order = one.cmp(&two);
            prop_assert_eq!(own(one, &id).cmp(&own(two, &other)), order);
            prop_assert_eq!(own(one, &id).cmp(&ids::encode(two).to_vec()), order);
            prop_assert_eq!(ids::encode(one).to_vec().cmp(&own(two, &other)), order);
        }

        #[test]
        fn places_sort_in_push_order(pushes in prop::collection::vec(prop::option::of("[!-~]{1,12}"), 1..40)) {
            let mut maker = IdMaker::new(7);
            let place = |own: &Option<String>| {
                let number = maker.next(1_800_000_000_000);
                own.as_ref().map_or_else(|| ids::encode(number).to_vec(), |id| text(id.as_bytes(), Some(number)))
            };
            let places: Vec<Vec<u8>> = pushes.iter().map(place).collect();
            prop_assert!(places.is_sorted());
        }
    }
}

//! Job ids.
//!
//! The server makes an id from 64 bits:
//!
//! ```text
//! 42 bits: ms of queue time | 8 bits drawn at load and promotion | 14 bits: counter within the ms
//! ```
//!
//! written as 11 digits of base 62 in ASCII order, so that ids sort by their bytes as they sort
//! by their number, which is the order in which they were made. 42 bits of ms go round in May
//! 2109: the ids from then on sort before the older ones, and are no less unique.
//!
//! A caller's own id is 1 to [`MAX_CALLER_ID`] bytes of visible ASCII.

use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// The length of a server-made id in bytes: the digits that 64 bits take in base 62.
pub const ID_LEN: usize = 11;

/// The longest id that a caller may choose, in bytes.
pub const MAX_CALLER_ID: usize = 128;

/// A server-made id as text.
pub type IdText = [u8; ID_LEN];

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const NO_DIGIT: u8 = u8::MAX;
const VALUES: [u8; 256] = digit_values();

const DRAWN_BITS: u32 = 8;
const COUNTER_BITS: u32 = 14;
const COUNTER_MAX: u64 = (1 << COUNTER_BITS) - 1;

/// How far beyond the present an observed id may lie, in ms (1 day). Callers may choose ids that
/// look like the server's; one from the far future must not drag the server's ids along.
const MAX_AHEAD_MS: u64 = 24 * 60 * 60 * 1000;

/// Makes the ids of one server run, each greater than the one before.
#[derive(Clone, Debug)]
pub struct IdMaker {
    drawn: u8,
    /// Time and counter of the id that comes next, if the clock has not passed `ms` by then.
    /// Only the low 42 bits of the time go into an id.
    ms: u64,
    counter: u64,
}

impl IdMaker {
    /// A maker whose ids carry `drawn`, the bits that tell this run's ids from those of another
    /// server that believes itself the primary in the same ms.
    pub const fn new(drawn: u8) -> IdMaker {
        IdMaker {
            drawn,
            ms: 1, // so that no id is 0, which receipts use for "no birth"
            counter: 0,
        }
    }

    /// The next id at queue time `now_ms`.
    ///
    /// Strictly greater than every id before it, whether the clock stands still, goes back, or
    /// more ids are asked for than fit into one ms (16,384): those take the next ms.
    pub fn next(&mut self, now_ms: u64) -> u64 {
        if now_ms > self.ms {
            self.begin(now_ms);
        }
        let number = self.upcoming();
        if self.counter < COUNTER_MAX {
            self.counter += 1;
        } else {
            self.begin(self.ms.saturating_add(1));
        }
        number
    }

    /// Tells the maker of an id that it may not have made, so that all that follow are greater.
    ///
    /// An id more than a day beyond `now_ms` is ignored.
    pub fn observe(&mut self, number: u64, now_ms: u64) {
        let ms = ms_of(number);
        let newest = ms >= self.ms && number >= self.upcoming();
        if newest && ms <= now_ms.saturating_add(MAX_AHEAD_MS) {
            self.begin(ms + 1);
        }
    }

    fn upcoming(&self) -> u64 {
        (self.ms << (DRAWN_BITS + COUNTER_BITS)) | (u64::from(self.drawn) << COUNTER_BITS) | self.counter
    }

    fn begin(&mut self, ms: u64) {
        self.ms = ms;
        self.counter = 0;
    }
}

/// The id of `number` as text.
pub fn encode(number: u64) -> IdText {
    let mut text = [0; ID_LEN];
    let mut rest = number;
    for place in text.iter_mut().rev() {
        *place = digit(rest);
        rest /= 62;
    }
    text
}

/// The number of a server-made id: exactly [`ID_LEN`] digits of base 62 that fit into 64 bits.
pub fn decode(text: &[u8]) -> Option<u64> {
    (text.len() == ID_LEN).then(|| number_of(text)).flatten()
}

/// The queue time in ms at which a server-made id was made.
pub const fn ms_of(number: u64) -> u64 {
    number >> (DRAWN_BITS + COUNTER_BITS)
}

/// Whether `id` may be a caller's id: 1 to [`MAX_CALLER_ID`] bytes of visible ASCII, that is
/// 0x21 to 0x7E.
pub fn valid_caller_id(id: &[u8]) -> bool {
    (1..=MAX_CALLER_ID).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// Appends `number` in base 62 without leading zeros.
pub(super) fn push_short(number: u64, out: &mut impl Extend<u8>) {
    if number < 62 {
        return out.extend([digit(number)]);
    }
    let text = encode(number);
    let zeros = text.iter().take_while(|&&byte| byte == b'0').count();
    out.extend(text[zeros..].iter().copied());
}

/// Reads what [`push_short`] writes, and no other spelling of it.
pub(super) fn parse_short(text: &[u8]) -> Option<u64> {
    match text {
        [] | [b'0', _, ..] => None,
        digits => number_of(digits),
    }
}

/// The number that these digits are; `None` over 64 bits.
pub(super) fn number_of(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, &byte| {
        let value = VALUES[usize::from(byte)];
        if value == NO_DIGIT {
            return None;
        }
        number.checked_mul(62)?.checked_add(u64::from(value))
    })
}

/// The last digit of `number`.
pub(super) fn digit(number: u64) -> u8 {
    DIGITS[(number % 62) as usize]
}

const fn digit_values() -> [u8; 256] {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 62 {
        values[DIGITS[value as usize] as usize] = value;
        value += 1;
    }
    values
}

/// An id of either kind; a short one is held in place.
#[derive(Clone)]
pub struct IdBuf(SmallVec<[u8; 16]>);

impl IdBuf {
    /// Holds a copy of `id`; `None` where it is longer than [`MAX_CALLER_ID`] bytes.
    pub fn new(id: &[u8]) -> Option<IdBuf> {
        (id.len() <= MAX_CALLER_ID).then(|| IdBuf(SmallVec::from_slice(id)))
    }
}

impl Deref for IdBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for IdBuf {
    fn eq(&self, other: &IdBuf) -> bool {
        **self == **other
    }
}

impl Eq for IdBuf {}

impl fmt::Debug for IdBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A queue time of our days.
    const NOW: u64 = 1_800_000_000_000;

    #[test]
    fn numbers_and_texts_at_the_limits() {
        assert_eq!(&encode(0), b"00000000000");
        assert_eq!(&encode(61), b"0000000000z");
        assert_eq!(&encode(62), b"00000000010");
        assert_eq!(&encode(u64::MAX), b"LygHa16AHYF");
        assert_eq!(decode(b"LygHa16AHYF"), Some(u64::MAX));
        assert_eq!(decode(b"LygHa16AHYG"), None);
        assert_eq!(decode(b"zzzzzzzzzzz"), None);
        assert_eq!(decode(b"0000000000"), None);
        assert_eq!(decode(b"000000000000"), None);
        assert_eq!(decode(b"0000000000-"), None);
        assert_eq!(decode(b""), None);
    }

    #[test]
    fn an_id_carries_its_time_and_the_drawn_bits() {
        let number = IdMaker::new(0xA5).next(NOW);
        assert_eq!(ms_of(number), NOW);
        assert_eq!(number & 0x3F_FFFF, 0xA5 << 14);
    }

    #[test]
    fn a_full_ms_goes_on_in_the_next() {
        let mut maker = IdMaker::new(255);
        let mut last = maker.next(NOW);
        for _ in 0..COUNTER_MAX {
            let number = maker.next(NOW);
            assert_eq!(number, last + 1);
            last = number;
        }
        let carried = maker.next(NOW);
        assert_eq!(ms_of(last), NOW);
        assert_eq!(ms_of(carried), NOW + 1);
        assert_eq!((carried >> COUNTER_BITS) & 0xFF, 255);
        assert!(maker.next(NOW + 1) > carried);
    }

    #[test]
    fn an_id_seen_pulls_the_time_along_within_a_day() {
        let mut maker = IdMaker::new(1);
        let other = IdMaker::new(9).next(NOW + 5_000);
        maker.observe(other, NOW);
        assert_eq!(ms_of(maker.next(NOW)), NOW + 5_001);

        let mut maker = IdMaker::new(1);
        let edge = IdMaker::new(9).next(NOW + MAX_AHEAD_MS);
        maker.observe(edge, NOW);
        assert!(maker.next(NOW) > edge);

        let mut maker = IdMaker::new(1);
        maker.observe(IdMaker::new(0).next(NOW + MAX_AHEAD_MS + 1), NOW);
        maker.observe(u64::MAX, NOW);
        assert_eq!(ms_of(maker.next(NOW)), NOW);
    }

    #[test]
    fn an_id_seen_in_the_same_ms_is_passed() {
        for other in 0..=u8::MAX {
            let mut maker = IdMaker::new(7);
            let first = maker.next(NOW);
            let mut foreign = IdMaker::new(other);
            let seen = [foreign.next(NOW), foreign.next(NOW)];
            maker.observe(seen[1], NOW);
            let next = maker.next(NOW);
            assert!(next > first && !seen.contains(&next) && next > seen[1]);
        }
    }

    #[test]
    fn an_own_or_older_id_changes_nothing() {
        let mut maker = IdMaker::new(7);
        let first = maker.next(NOW);
        maker.observe(first, NOW);
        maker.observe(IdMaker::new(255).next(NOW - 1), NOW);
        assert_eq!(maker.next(NOW), first + 1);
    }

    #[test]
    fn after_2109_ids_go_round_and_stay_unique() {
        let end = 1 << 42;
        let mut maker = IdMaker::new(255);
        let last = maker.next(end - 1);
        let first = maker.next(end + 5);
        assert_eq!((ms_of(last), ms_of(first)), (end - 1, 5));
        maker.observe(last, end + 5);
        assert_eq!(maker.next(end + 5), first + 1);
        assert_eq!(maker.next(end), first + 2);

        let mut maker = IdMaker::new(0);
        let many = 3 * COUNTER_MAX;
        let ids: std::collections::HashSet<u64> = (0..many).map(|_| maker.next(end)).collect();
        assert_eq!(ids.len() as u64, many);
        IdMaker::new(0).next(u64::MAX);
    }

    #[test]
    fn no_id_is_zero() {
        assert!(IdMaker::new(0).next(0) > 0);
    }

    #[test]
    fn callers_ids_are_visible_ascii() {
        for id in [&b"a"[..], b"!~", b"order:17", b"\"'\\", &[b'x'; 128]] {
            assert!(valid_caller_id(id));
        }
        for id in [&b""[..], b"a b", b"a\n", b"\0", b"\x7F", b"\xC3\xA9", &[b'x'; 129]] {
            assert!(!valid_caller_id(id));
        }
    }

    #[test]
    fn an_id_is_held_in_place() {
        let id = IdBuf::new(b"order:17").unwrap();
        assert_eq!(&*id, b"order:17");
        assert_eq!(format!("{id:?}"), "\"order:17\"");
        assert_ne!(id, IdBuf::new(b"order:1").unwrap());
        assert_eq!(IdBuf::new(&[b'x'; 128]).unwrap().len(), 128);
        assert!(IdBuf::new(&[b'x'; 129]).is_none());
    }

    proptest! {
        #[test]
        fn text_and_number_are_one(number: u64) {
            prop_assert_eq!(decode(&encode(number)), Some(number));
        }

        #[test]
        fn texts_sort_as_numbers(one: u64, two: u64) {
            prop_assert_eq!(encode(one).cmp(&encode(two)), one.cmp(&two));
        }

        #[test]
        fn what_decodes_is_spelled_in_one_way(text in "[0-9A-Za-z]{11}|[ -~]{0,12}") {
            if let Some(number) = decode(text.as_bytes()) {
                prop_assert_eq!(&encode(number)[..], text.as_bytes());
            }
        }

        #[test]
        fn random_bytes_decode_without_panic(text in prop::collection::vec(any::<u8>(), 0..16)) {
            let _ = decode(&text);
            let _ = parse_short(&text);
        }

        #[test]
        fn short_numbers_are_one_with_their_text(number: u64) {
            let mut text = Vec::new();
            push_short(number, &mut text);
            prop_assert!(number == 0 || text[0] != b'0');
            prop_assert_eq!(parse_short(&text), Some(number));
            text.insert(0, b'0');
            prop_assert_eq!(parse_short(&text), None);
        }

        #[test]
        fn ids_only_grow(
            drawn: u8,
            steps in prop::collection::vec(
                (NOW - 10..NOW + 10, 1_usize..20_000, any::<Option<(u8, u16)>>()), 1..8),
        ) {
            let mut maker = IdMaker::new(drawn);
            let mut newest = 0;
            for (now, count, seen) in steps {
                if let Some((other, ahead)) = seen {
                    let foreign = IdMaker::new(other).next(now + u64::from(ahead));
                    maker.observe(foreign, now);
                    newest = newest.max(foreign);
                }
                for _ in 0..count {
                    let number = maker.next(now);
                    prop_assert!(number > newest);
                    prop_assert!(ms_of(number) >= now);
                    newest = number;
                }
            }
        }
    }
}

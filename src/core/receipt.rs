//! Receipts: the text by which a worker names one claim of one job.
//!
//! ```text
//! <id>:<claim>.<tenure>              a server-made id: 11 digits
//! <birth>:<claim>.<tenure>:<id>      a caller's id; birth is the number of 11 digits drawn at the push
//! <birth>:<claim>.<tenure>~<code>    a caller's id that holds a quote or a backslash
//! ```
//!
//! The claim is a number from 1 to 2³²−1 in base 62 without leading zeros. The tenure, three digits of base 62, is that of
//! the queue on the primary which made the claim: if a failover or a RESTORE undoes a claim, the next one has the same
//! number and another tenure. A receipt without one (`<id>:<claim>`) is of none that is known. A birth of `00000000000` stands for a job
//! under a caller's id that carries none, as one written into the keys by hand may. Every claim has exactly one spelling,
//! of visible ASCII without quotes or backslash, at most [`MAX_RECEIPT`] bytes; to clients it is opaque.

use super::ids::{self, IdBuf, ID_LEN, MAX_CALLER_ID};
use smallvec::SmallVec;

/// The longest receipt that is accepted, in bytes. The longest that is made has 159.
pub const MAX_RECEIPT: usize = 160;

/// How many characters of an id are coded together: 94¹⁶ < 91¹⁷ < 2¹²⁸.
const GROUP: usize = 16;

/// The visible ASCII characters, 0x21 to 0x7E: the digits of an id read as a number.
const VISIBLE: u128 = 94;
const FIRST_VISIBLE: u8 = b'!';

/// The digits of a coded id: visible ASCII without quotes and backslash, in ASCII order.
const SAFE: [u8; 91] = safe_digits();
const SAFE_BASE: u128 = 91;

/// Drawn for each queue when its keys may have come from elsewhere: tells the claims of this node since then from those
/// that another made, or that it made itself before it lost them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure(u32);

impl Tenure {
    const DIGITS: usize = 3;
    const COUNT: u32 = 62 * 62 * 62;

    /// From a number at random.
    pub const fn new(drawn: u32) -> Tenure {
        Tenure(drawn % Tenure::COUNT)
    }

    fn push(self, out: &mut ReceiptText) {
        let number = u64::from(self.0);
        out.extend_from_slice(&[number / (62 * 62), number / 62, number].map(ids::digit));
    }

    fn parse(text: &[u8]) -> Option<Tenure> {
        let number = ids::number_of(text).filter(|_| text.len() == Tenure::DIGITS)?;
        u32::try_from(number).ok().map(Tenure)
    }
}

/// One claim of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The id of the job.
    pub id: IdBuf,
    /// The birth of the job, where the caller chose its id.
    pub birth: Option<u64>,
    /// The number of the claim, from 1.
    pub claim: u32,
    /// Whose claim it is, where that is known.
    pub tenure: Option<Tenure>,
}

impl Receipt {
    /// Reads a receipt; `None` for everything that [`write()`] does not make.
    pub fn parse(text: &[u8]) -> Option<Receipt> {
        if text.len() > MAX_RECEIPT {
            return None;
        }
        let (head, rest) = text.split_at_checked(ID_LEN)?;
        let number = ids::decode(head)?;
        let rest = rest.strip_prefix(b":")?;
        let end = rest.iter().position(|byte| matches!(byte, b':' | b'~'));
        let (claim, tail) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        let (claim, tenure) = parse_claim(claim)?;
        let id = match tail.split_first() {
            None => {
                let id = IdBuf::new(head)?;
                return Some(Receipt { id, birth: None, claim, tenure });
            }
            Some((b':', id)) => IdBuf::new(id).filter(|id| !needs_code(id))?,
            Some((_, code)) => decode_id(code).filter(|id| needs_code(id))?,
        };
        let birth = (number != 0).then_some(number);
        let spelled_right = ids::valid_caller_id(&id) && (birth.is_some() || !is_server_made(&id));
        spelled_right.then_some(Receipt { id, birth, claim, tenure })
    }
}

/// A receipt as it is written.
pub type ReceiptText = SmallVec<[u8; 64]>;

/// The receipt of claim number `claim` of the job `id`, made in `tenure`.
///
/// `id` is a server-made id or a [valid caller's id](ids::valid_caller_id), and `claim` at least
/// 1; of others no receipt can be made, and [`Receipt::parse`] refuses what is written here.
pub fn write(id: &[u8], birth: Option<u64>, claim: u32, tenure: Option<Tenure>) -> ReceiptText {
    let mut out = ReceiptText::new();
    if birth.is_none() && is_server_made(id) {
        out.extend_from_slice(id);
        push_claim(claim, tenure, &mut out);
        return out;
    }
    out.extend_from_slice(&ids::encode(birth.unwrap_or(0)));
    push_claim(claim, tenure, &mut out);
    if needs_code(id) && ids::valid_caller_id(id) {
        out.push(b'~');
        encode_id(id, &mut out);
    } else {
        out.push(b':');
        out.extend_from_slice(id);
    }
    out
}

fn is_server_made(id: &[u8]) -> bool {
    ids::decode(id).is_some()
}

fn push_claim(claim: u32, tenure: Option<Tenure>, out: &mut ReceiptText) {
    out.push(b':');
    ids::push_short(u64::from(claim), out);
    if let Some(tenure) = tenure {
        out.push(b'.');
        tenure.push(out);
    }
}

fn parse_claim(text: &[u8]) -> Option<(u32, Option<Tenure>)> {
    let (claim, tenure) = match text.iter().position(|byte| *byte == b'.') {
        None => (text, None),
        Some(dot) => (&text[..dot], Some(Tenure::parse(&text[dot + 1..])?)),
    };
    let claim = u32::try_from(ids::parse_short(claim)?).ok().filter(|&claim| claim > 0)?;
    Some((claim, tenure))
}

fn needs_code(id: &[u8]) -> bool {
    id.iter().any(|&byte| is_unsafe(byte))
}

const fn is_unsafe(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'\\')
}

/// Appends `id`, which is visible ASCII, in groups of up to [`GROUP`] characters: each, read as a
/// number in base 94, as one more digit in base 91, most significant first.
fn encode_id(id: &[u8], out: &mut ReceiptText) {
    for group in id.chunks(GROUP) {
        let mut number = group
            .iter()
            .fold(0_u128, |number, &byte| number * VISIBLE + u128::from(byte.saturating_sub(FIRST_VISIBLE)));
        let start = out.len();
        for _ in 0..=group.len() {
            out.push(SAFE[(number % SAFE_BASE) as usize]);
            number /= SAFE_BASE;
        }
        out[start..].reverse();
    }
}

/// Reads what [`encode_id`] writes.
fn decode_id(code: &[u8]) -> Option<IdBuf> {
    let mut id = [0; MAX_CALLER_ID];
    let mut len = 0;
    for group in code.chunks(GROUP + 1) {
        let end = len + group.len() - 1;
        decode_group(group, id.get_mut(len..end)?)?;
        len = end;
    }
    IdBuf::new(id.get(..len)?)
}

/// Fills `place`, which is one shorter than `group`, with the characters that `group` codes.
fn decode_group(group: &[u8], place: &mut [u8]) -> Option<()> {
    if place.is_empty() {
        return None;
    }
    let mut number = group.iter().try_fold(0_u128, |number, byte| {
        let value = SAFE.binary_search(byte).ok()?;
        Some(number * SAFE_BASE + u128::try_from(value).ok()?)
    })?;
    for byte in place.iter_mut().rev() {
        *byte = FIRST_VISIBLE + (number % VISIBLE) as u8;
        number /= VISIBLE;
    }
    (number == 0).then_some(())
}

const fn safe_digits() -> [u8; 91] {
    let mut digits = [0; 91];
    let mut filled = 0;
    let mut byte = FIRST_VISIBLE;
    while filled < digits.len() {
        if !is_unsafe(byte) {
            digits[filled] = byte;
            filled += 1;
        }
        byte += 1;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BIRTH: u64 = 0x0123_4567_89AB_CDEF;

    /// One whose digits are `01k`.
    const TENURE: Option<Tenure> = Some(Tenure::new(62 + 46));

    fn written(id: &[u8], birth: Option<u64>, claim: u32) -> Vec<u8> {
        write(id, birth, claim, TENURE).to_vec()
    }

    fn receipt(id: &[u8], birth: Option<u64>, claim: u32) -> Receipt {
        let id = IdBuf::new(id).unwrap();
        Receipt { id, birth, claim, tenure: TENURE }
    }

    #[test]
    fn each_form_is_spelled_as_documented() {
        let made = ids::encode(BIRTH);
        let made = std::str::from_utf8(&made).unwrap();
        let text = |id: &[u8], birth, claim| String::from_utf8(written(id, birth, claim)).unwrap();
        assert_eq!(text(made.as_bytes(), None, 1), format!("{made}:1.01k"));
        assert_eq!(text(made.as_bytes(), None, u32::MAX), format!("{made}:4gfFC3.01k"));
        assert_eq!(text(b"a:b~c", Some(BIRTH), 62), format!("{made}:10.01k:a:b~c"));
        assert_eq!(text(b"a:b~c", None, 1), "00000000000:1.01k:a:b~c");
        assert_eq!(text(b"'", Some(BIRTH), 1), format!("{made}:1.01k~!)"));
        assert_eq!(text(made.as_bytes(), Some(BIRTH), 1), format!("{made}:1.01k:{made}"));
        assert_eq!(write(made.as_bytes(), None, 1, None).to_vec(), format!("{made}:1").into_bytes());
    }

    #[test]
    fn the_longest_receipt_stays_within_the_limit() {
        let id = [b'\\'; MAX_CALLER_ID];
        let text = written(&id, Some(u64::MAX), u32::MAX);
        assert_eq!(text.len(), 159);
        assert_eq!(Receipt::parse(&text), Some(receipt(&id, Some(u64::MAX), u32::MAX)));
        let highest = [b'~'; MAX_CALLER_ID - 1];
        let id = [&highest[..], b"'"].concat();
        let text = written(&id, Some(1), 1);
        assert_eq!(Receipt::parse(&text), Some(receipt(&id, Some(1), 1)));
    }

    #[test]
    fn other_spellings_are_refused() {
        let made = ids::encode(BIRTH);
        let made = std::str::from_utf8(&made).unwrap();
        let long = "x".repeat(MAX_CALLER_ID + 1);
        for text in [
            String::new(),
            ":".to_string(),
            made.to_string(),
            format!("{made}:"),
            format!("{made}:0"),
            format!("{made}:01"),
            format!("{made}:4gfFC4"),
            format!("{made}:zzzzzzzzzzzz"),
            format!("{made}:-1"),
            format!("{made}:1."),
            format!("{made}:1.1k"),
            format!("{made}:1.01k1"),
            format!("{made}:1.1-"),
            format!("{made}:1.01k.01k"),
            format!("{made}:.01k"),
            format!("{made}:0.01k"),
            format!("{made}:1 "),
            format!(" {made}:1"),
            format!("{made}~1"),
            format!("{made}1:1"),
            "zzzzzzzzzzz:1".to_string(),
            format!("{made}:1:"),
            format!("{made}:1~"),
            format!("{made}::a"),
            format!("{made}:0:a"),
            format!("{made}:1:a b"),
            format!("{made}:1:a'"),
            format!("{made}:1:{long}"),
            format!("{made}:1~!"),
            format!("{made}:1~!!"),
            format!("{made}:1~!'"),
            format!("{made}:1~~~"),
            format!("00000000000:1:{made}"),
        ] {
            assert_eq!(Receipt::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_code_ends_with_a_whole_group() {
        let mut text = written(&[b'"'; GROUP], Some(BIRTH), 1);
        assert!(Receipt::parse(&text).is_some());
        text.push(SAFE[0]);
        assert_eq!(Receipt::parse(&text), None);
    }

    #[test]
    fn an_id_that_looks_server_made_is_told_from_one() {
        let id = ids::encode(BIRTH);
        let ours = written(&id, None, 1);
        let theirs = written(&id, Some(7), 1);
        assert_ne!(ours, theirs);
        assert_eq!(Receipt::parse(&ours), Some(receipt(&id, None, 1)));
        assert_eq!(Receipt::parse(&theirs), Some(receipt(&id, Some(7), 1)));
    }

    fn callers_id() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(0x21..=0x7E_u8, 1..=MAX_CALLER_ID),
            "[\"'\\\\~!a:]{1,128}".prop_map(String::into_bytes),
            "[0-9A-Za-z]{11}".prop_map(String::into_bytes),
        ]
    }

    fn birth() -> impl Strategy<Value = Option<u64>> {
        prop::option::of(1..=u64::MAX)
    }

    /// Texts near to receipts.
    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "[0-9A-L][0-9A-Za-z]{10}[:~][0-9a-z]{0,3}([.][0-9A-Za-z]{0,4})?([:~][ -~]{0,40})?"
                .prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..200),
            "[0-9A-K][0-9A-Za-z]{10}:1~[!-~]{0,20}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn every_callers_id_comes_back(id in callers_id(), birth in birth(), claim in 1..=u32::MAX) {
            let text = written(&id, birth, claim);
            prop_assert_eq!(Receipt::parse(&text), Some(receipt(&id, birth, claim)));
        }

        #[test]
        fn every_server_made_id_comes_back(number: u64, claim in 1..=u32::MAX) {
            let id = ids::encode(number);
            let text = written(&id, None, claim);
            prop_assert_eq!(Receipt::parse(&text), Some(receipt(&id, None, claim)));
        }

        #[test]
        fn a_receipt_is_short_and_safe_to_quote(id in callers_id(), birth in birth(), claim: u32) {
            let text = written(&id, birth, claim);
            prop_assert!(text.len() <= MAX_RECEIPT);
            prop_assert!(text.iter().all(|&byte| byte.is_ascii_graphic() && !is_unsafe(byte)));
        }

        #[test]
        fn what_parses_is_spelled_in_one_way(text in any_text()) {
            if let Some(receipt) = Receipt::parse(&text) {
                let again = write(&receipt.id, receipt.birth, receipt.claim, receipt.tenure);
                prop_assert_eq!(again.to_vec(), text);
            }
        }

        #[test]
        fn a_changed_receipt_is_another_or_none(
            id in callers_id(), birth in birth(), claim in 1..1000_u32,
            at: prop::sample::Index, byte: u8,
        ) {
            let text = written(&id, birth, claim);
            let mut changed = text.clone();
            changed[at.index(text.len())] = byte;
            if changed != text {
                prop_assert_ne!(Receipt::parse(&changed), Receipt::parse(&text));
            }
        }

        #[test]
        fn ids_that_no_receipt_can_name_do_no_harm(
            id in prop::collection::vec(any::<u8>(), 0..300), birth in birth(), claim: u32,
        ) {
            let text = written(&id, birth, claim);
            prop_assert_eq!(
                Receipt::parse(&text).is_some(),
                claim > 0 && ids::valid_caller_id(&id)
            );
        }
    }
}

//! The job record and the dead letter: what is stored of a job, in MessagePack.
//!
//! A record is an array whose trailing defaults are cut off; a missing element is its default:
//!
//! | place | element | type | default |
//! | --- | --- | --- | --- |
//! | 0 | version, 1 | integer | required |
//! | 1 | payload | bin | required |
//! | 2 | birth | integer or nil | nil |
//! | 3 | failures | integer | 0 |
//! | 4 | lapses | integer | 0 |
//! | 5 | releases | integer | 0 |
//! | 6 | claims that ended | integer | 0 |
//! | 7 | late | boolean | false |
//! | 8 | retries allowed | integer or nil | nil |
//! | 9 | lease in ms | integer or nil | nil |
//! | 10 | base of the backoff in ms | integer or nil | nil |
//! | 11 | cap of the backoff in ms | integer or nil | nil |
//! | 12 | last error | bin or nil | nil |
//! | 13 | its stack | bin or nil | nil |
//!
//! A dead letter is the array `[1, reason, record]`.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_bytes::Bytes;

/// The version of the format that this module reads and writes.
const VERSION: u8 = 1;

/// A job, its texts borrowed from the record that it was read from.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Job<'a> {
    /// What the producer pushed, less than 4 GiB.
    pub payload: &'a [u8],
    /// The number drawn at the push of a job whose id the caller chose, never 0.
    pub birth: Option<u64>,
    /// Failures that a worker reported: the retry count.
    pub failures: u32,
    /// Leases that ran out.
    pub lapses: u32,
    /// Times that a worker gave the job back.
    pub releases: u32,
    /// Claims that ended, in whatever way.
    pub claims: u32,
    /// Whether the last claim ended with its lease, so that its receipt is late, not stale.
    pub late: bool,
    /// The job's own retry limit.
    pub retries: Option<u32>,
    /// The job's own lease in ms.
    pub lease: Option<u64>,
    /// The job's own first wait after a failure, in ms.
    pub backoff_base: Option<u64>,
    /// The job's own longest wait after a failure, in ms.
    pub backoff_cap: Option<u64>,
    /// The text of the last failure.
    pub error: Option<&'a [u8]>,
    /// The stack of the last failure.
    pub stack: Option<&'a [u8]>,
}

/// Bytes that are not a record or a letter of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecord;

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a job record of version {VERSION}")
    }
}

impl std::error::Error for BadRecord {}

impl<'a> Job<'a> {
    /// Reads a record, which has to fill `bytes` to the last one.
    ///
    /// A MessagePack string is taken for bytes, since older encoders know no bin, and a birth of 0
    /// for none. Allocates nothing where `bytes` are a record.
    pub fn decode(bytes: &'a [u8]) -> Result<Job<'a>, BadRecord> {
        decode_all(bytes)
    }

    /// Appends the record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        const OVERHEAD: usize = 64;
        let texts = [Some(self.payload), self.error, self.stack];
        out.reserve(OVERHEAD + texts.into_iter().flatten().map(<[u8]>::len).sum::<usize>());
        let written = rmp_serde::encode::write(out, self);
        debug_assert!(written.is_ok(), "a Vec takes whatever is written to it");
    }

    /// The elements that may be left out, from place 2 on.
    fn optional_elements(&self) -> [Element<'a>; 12] {
        [
            Element::Optional(self.birth),
            Element::Count(self.failures),
            Element::Count(self.lapses),
            Element::Count(self.releases),
            Element::Count(self.claims),
            Element::Flag(self.late),
            Element::Optional(self.retries.map(u64::from)),
            Element::Optional(self.lease),
            Element::Optional(self.backoff_base),
            Element::Optional(self.backoff_cap),
            Element::Text(self.error.map(Bytes::new)),
            Element::Text(self.stack.map(Bytes::new)),
        ]
    }
}

/// Reads one value, which has to fill `bytes` to the last one.
fn decode_all<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, BadRecord> {
    let mut source = rmp_serde::Deserializer::from_read_ref(bytes);
    let value = T::deserialize(&mut source).map_err(|_| BadRecord)?;
    // The deserializer does not tell what it left unread. At the end of the input, and only
    // there, it finds no marker for one more integer.
    match u8::deserialize(&mut source) {
        Err(rmp_serde::decode::Error::InvalidMarkerRead(_)) => Ok(value),
        _ => Err(BadRecord),
    }
}

/// An element that is left out where it is the default and nothing follows it.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Element<'a> {
    Count(u32),
    Flag(bool),
    Optional(Option<u64>),
    Text(Option<&'a Bytes>),
}

impl Element<'_> {
    const fn is_default(&self) -> bool {
        matches!(self, Element::Count(0) | Element::Flag(false) | Element::Optional(None) | Element::Text(None))
    }
}

impl Serialize for Job<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let elements = self.optional_elements();
        let kept = elements.iter().rposition(|element| !element.is_default()).map_or(0, |last| last + 1);
        let mut array = serializer.serialize_seq(Some(2 + kept))?;
        array.serialize_element(&VERSION)?;
        array.serialize_element(Bytes::new(self.payload))?;
        for element in elements.iter().take(kept) {
            array.serialize_element(element)?;
        }
        array.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Job<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Job<'a>, D::Error> {
        deserializer.deserialize_seq(JobVisitor)
    }
}

struct JobVisitor;

impl<'de> Visitor<'de> for JobVisitor {
    type Value = Job<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a job record")
    }

    /// Elements beyond the last are left unread, which the deserializer refuses.
    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Job<'de>, A::Error> {
        if array.next_element::<u8>()? != Some(VERSION) {
            return Err(de::Error::custom("unknown version"));
        }
        let payload: Option<&Bytes> = array.next_element()?;
        let job = Job {
            payload: payload.ok_or_else(|| de::Error::missing_field("payload"))?,
            birth: or_default(&mut array)?,
            failures: or_default(&mut array)?,
            lapses: or_default(&mut array)?,
            releases: or_default(&mut array)?,
            claims: or_default(&mut array)?,
            late: or_default(&mut array)?,
            retries: or_default(&mut array)?,
            lease: or_default(&mut array)?,
            backoff_base: or_default(&mut array)?,
            backoff_cap: or_default(&mut array)?,
            error: text(&mut array)?,
            stack: text(&mut array)?,
        };
        Ok(Job { birth: job.birth.filter(|&birth| birth != 0), ..job })
    }
}

fn or_default<'de, T, A>(array: &mut A) -> Result<T, A::Error>
where
    T: Deserialize<'de> + Default,
    A: SeqAccess<'de>,
{
    Ok(array.next_element()?.unwrap_or_default())
}

fn text<'de, A: SeqAccess<'de>>(array: &mut A) -> Result<Option<&'de [u8]>, A::Error> {
    let text: Option<&Bytes> = or_default(array)?;
    Ok(text.map(|bytes| &**bytes))
}

/// Why a job is a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It failed once more than its retries allow.
    RetriesExhausted,
    /// A worker gave it up.
    Failed,
    /// Its leases ran out as often as is allowed.
    LeaseExpired,
    /// Nobody claimed it for so long that the purge took it.
    Stale,
}

impl Reason {
    /// Every reason, in the order of declaration.
    pub const ALL: [Reason; 4] = [Reason::RetriesExhausted, Reason::Failed, Reason::LeaseExpired, Reason::Stale];

    /// The reason as it stands in a letter and in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::RetriesExhausted => "retries-exhausted",
            Reason::Failed => "failed",
            Reason::LeaseExpired => "lease-expired",
            Reason::Stale => "stale",
        }
    }

    /// Reads what [`Reason::as_str`] gives, in exactly that spelling.
    pub fn parse(text: &[u8]) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.as_str().as_bytes() == text)
    }
}

/// A dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter<'a> {
    /// Why the job died.
    pub reason: Reason,
    /// The job as it was at its death.
    pub job: Job<'a>,
}

impl<'a> Letter<'a> {
    /// Reads a letter, which has to fill `bytes` to the last one.
    pub fn decode(bytes: &'a [u8]) -> Result<Letter<'a>, BadRecord> {
        decode_all(bytes)
    }

    /// Appends the letter to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_head(self.reason, out);
        self.job.encode(out);
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Letter<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Letter<'a>, D::Error> {
        deserializer.deserialize_seq(LetterVisitor)
    }
}

struct LetterVisitor;

impl<'de> Visitor<'de> for LetterVisitor {
    type Value = Letter<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a dead letter")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Letter<'de>, A::Error> {
        if array.next_element::<u8>()? != Some(VERSION) {
            return Err(de::Error::custom("unknown version"));
        }
        let reason = text(&mut array)?.and_then(Reason::parse);
        let reason = reason.ok_or_else(|| de::Error::custom("unknown reason"))?;
        let job = array.next_element()?.ok_or_else(|| de::Error::missing_field("record"))?;
        Ok(Letter { reason, job })
    }
}

/// Appends the letter of the job whose record is `record`, byte for byte, to `out`.
pub fn bury(reason: Reason, record: &[u8], out: &mut Vec<u8>) {
    out.reserve(HEAD.len() + 1 + reason.as_str().len() + record.len());
    push_head(reason, out);
    out.extend_from_slice(record);
}

/// How a letter begins in MessagePack: an array of three, the version.
const HEAD: [u8; 2] = [0x93, VERSION];

/// The marker of a MessagePack string of up to 31 bytes, less its length.
const SHORT_STRING: u8 = 0xA0;

/// The marker before the reason. Each reason has less than 32 bytes.
const fn reason_marker(reason: Reason) -> u8 {
    SHORT_STRING | reason.as_str().len() as u8
}

fn push_head(reason: Reason, out: &mut Vec<u8>) {
    out.extend_from_slice(&HEAD);
    out.push(reason_marker(reason));
    out.extend_from_slice(reason.as_str().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(job: &Job) -> Vec<u8> {
        let mut out = Vec::new();
        job.encode(&mut out);
        out
    }

    fn full<'a>() -> Job<'a> {
        Job {
            payload: b"p",
            birth: Some(u64::MAX),
            failures: 1,
            lapses: 2,
            releases: 3,
            claims: 300,
            late: true,
            retries: Some(0),
            lease: Some(30_000),
            backoff_base: Some(1),
            backoff_cap: Some(2),
            error: Some(b"e"),
            stack: Some(b""),
        }
    }

    #[test]
    fn a_fresh_job_costs_four_bytes() {
        let payload = [b'x'; 100];
        let job = Job { payload: &payload, ..Job::default() };
        let record = encoded(&job);
        assert_eq!(record[..4], [0x92, 1, 0xC4, 100]);
        assert_eq!(record[4..], payload);
    }

    #[test]
    fn the_full_record_byte_for_byte() {
        let mut expected = vec![0x9E, 1, 0xC4, 1, b'p', 0xCF];
        expected.extend([0xFF; 8]);
        expected.extend([1, 2, 3, 0xCD, 1, 44, 0xC3, 0, 0xCD, 0x75, 0x30, 1, 2]);
        expected.extend([0xC4, 1, b'e', 0xC4, 0]);
        assert_eq!(encoded(&full()), expected);
        assert_eq!(Job::decode(&expected), Ok(full()));
    }

    #[test]
    fn an_element_in_the_middle_keeps_those_before_it() {
        let job = Job { claims: 1, ..Job::default() };
        assert_eq!(encoded(&job), [0x97, 1, 0xC4, 0, 0xC0, 0, 0, 0, 1]);
    }

    #[test]
    fn an_own_limit_of_zero_is_no_default() {
        let job = Job { retries: Some(0), ..Job::default() };
        let record = encoded(&job);
        assert_eq!(record.len(), 11);
        assert_eq!(Job::decode(&record), Ok(job));
    }

    #[test]
    fn every_cut_between_elements_reads_the_rest_as_default() {
        let record = encoded(&full());
        let ends = [5, 14, 15, 16, 17, 20, 21, 22, 25, 26, 27, 30, 32];
        for (kept, &end) in (2_u8..).zip(&ends) {
            let mut cut = record[..end].to_vec();
            cut[0] = 0x90 | kept;
            let job = Job::decode(&cut).unwrap();
            assert_eq!(job.birth.is_some(), kept > 2);
            assert_eq!(job.claims, if kept > 6 { 300 } else { 0 });
            assert_eq!(job.late, kept > 7);
            assert_eq!(job.error.is_some(), kept > 12);
            assert_eq!(job.stack.is_some(), kept > 13);
        }
    }

    #[test]
    fn wider_encodings_of_other_libraries_are_read() {
        let payload = Job { payload: b"p", ..Job::default() };
        for record in [
            &[0xDC, 0, 2, 1, 0xC4, 1, b'p'][..],
            &[0xDD, 0, 0, 0, 2, 1, 0xC4, 1, b'p'],
            &[0x92, 0xCC, 1, 0xC4, 1, b'p'],
            &[0x92, 0xD0, 1, 0xC6, 0, 0, 0, 1, b'p'],
            &[0x92, 1, 0xA1, b'p'],
            &[0x93, 1, 0xA1, b'p', 0],
            &[0x93, 1, 0xA1, b'p', 0xC0],
        ] {
            assert_eq!(Job::decode(record).as_ref(), Ok(&payload), "{record:?}");
        }
        let not_utf8 = [0x92, 1, 0xA1, 0xFF];
        assert_eq!(Job::decode(&not_utf8).unwrap().payload, b"\xFF");
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for bytes in [
            &[][..],
            &[0x90],
            &[0x91, 1],
            &[0xC0],
            &[1],
            &[0x92, 0, 0xC4, 0],
            &[0x92, 2, 0xC4, 0],
            &[0x92, 0xC0, 0xC4, 0],
            &[0x92, 1, 1],
            &[0x92, 1, 0xC0],
            &[0x92, 1, 0x91, 1],
            &[0x92, 1, 0xC4, 5, b'p'],
            &[0x92, 1, 0xC6, 0xFF, 0xFF, 0xFF, 0xFF],
            &[0x93, 1, 0xC4, 0, 0xFF],
            &[0x93, 1, 0xC4, 0, 0xC3],
            &[0x94, 1, 0xC4, 0, 0xC0, 0xC0],
            &[0x94, 1, 0xC4, 0, 0xC0, 0xFF],
            &[0x94, 1, 0xC4, 0, 0xC0, 0xCF, 0, 0, 0, 1, 0, 0, 0, 0],
            &[0x94, 1, 0xC4, 0, 0xC0, 0xCA, 0, 0, 0, 0],
            &[0x98, 1, 0xC4, 0, 0xC0, 0, 0, 0, 0, 1],
            &[0xDD, 0xFF, 0xFF, 0xFF, 0xFF, 1, 0xC4, 0],
            &[0x82, 1, 0xC4, 0, 1, 1],
            &[0xC4, 2, 1, 1],
        ] {
            assert_eq!(Job::decode(bytes), Err(BadRecord), "{bytes:?}");
        }
        let mut longer = encoded(&full());
        longer[0] += 1;
        longer.push(0xC0);
        assert_eq!(Job::decode(&longer), Err(BadRecord));
    }

    #[test]
    fn nothing_may_follow_a_record() {
        for job in [full(), Job::default()] {
            for byte in 0..=u8::MAX {
                let mut record = encoded(&job);
                record.push(byte);
                assert_eq!(Job::decode(&record), Err(BadRecord), "{byte:#x}");
                record.push(byte);
                assert_eq!(Job::decode(&record), Err(BadRecord), "{byte:#x} twice");
            }
        }
    }

    #[test]
    fn reasons_are_one_with_their_text() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str().as_bytes()), Some(reason));
            assert!(reason.as_str().len() < 32);
        }
        for text in [&b""[..], b"Failed", b"failed ", b"lost"] {
            assert_eq!(Reason::parse(text), None);
        }
    }

    #[test]
    fn a_letter_byte_for_byte() {
        let letter = Letter { reason: Reason::Stale, job: Job::default() };
        let mut out = Vec::new();
        letter.encode(&mut out);
        assert_eq!(out, b"\x93\x01\xA5stale\x92\x01\xC4\x00");
    }

    #[test]
    fn wider_spellings_of_a_letter_are_read() {
        let letter = Letter { reason: Reason::Stale, job: Job { payload: b"p", ..Job::default() } };
        for bytes in [
            &b"\x93\x01\xA5stale\x92\x01\xC4\x01p"[..],
            b"\xDC\x00\x03\xCC\x01\xD9\x05stale\x92\x01\xC4\x01p",
            b"\xDD\x00\x00\x00\x03\xD3\x00\x00\x00\x00\x00\x00\x00\x01\xDB\x00\x00\x00\x05stale\x92\x01\xA1p",
            b"\x93\x01\xC4\x05stale\x92\x01\xC4\x01p",
        ] {
            assert_eq!(Letter::decode(bytes), Ok(letter.clone()), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_letter_is_refused() {
        for bytes in [
            &b""[..],
            b"\x93\x01",
            b"\x93\x01\xA5stale",
            b"\x93\x01\xA5stalf\x92\x01\xC4\x00",
            b"\x93\x02\xA5stale\x92\x01\xC4\x00",
            b"\x92\x01\xA5stale\x92\x01\xC4\x00",
            b"\x93\x01\xA6failed\x92\x01\xC4\x00\x00",
            b"\x93\x01\xA6failed\xC0",
        ] {
            assert_eq!(Letter::decode(bytes), Err(BadRecord), "{bytes:?}");
        }
    }

    /// The texts and the rest of a job, owned.
    type Owned = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>, Job<'static>);

    fn any_job() -> impl Strategy<Value = Owned> {
        let text = || prop::collection::vec(any::<u8>(), 0..300);
        let counts = (any::<u32>(), 0..3_u32, 0..3_u32, any::<u32>(), any::<bool>());
        let own = (any::<Option<u32>>(), any::<Option<u64>>(), any::<Option<(u64, u64)>>());
        let texts = (text(), prop::option::of(text()), prop::option::of(text()));
        let birth = prop::option::of(1..=u64::MAX);
        (texts, birth, counts, own).prop_map(|(texts, birth, counts, own)| {
            let (payload, error, stack) = texts;
            let job = Job {
                birth,
                failures: counts.0,
                lapses: counts.1,
                releases: counts.2,
                claims: counts.3,
                late: counts.4,
                retries: own.0,
                lease: own.1,
                backoff_base: own.2.map(|backoff| backoff.0),
                backoff_cap: own.2.map(|backoff| backoff.1),
                ..Job::default()
            };
            (payload, error, stack, job)
        })
    }

    fn borrowed(owned: &Owned) -> Job<'_> {
        let (payload, error, stack, job) = owned;
        Job { payload, error: error.as_deref(), stack: stack.as_deref(), ..job.clone() }
    }

    /// Bytes that begin as a record does.
    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..80);
        prop_oneof![
            bytes(),
            (0x92..0xA0_u8, bytes()).prop_map(|(head, tail)| { [&[head, 1, 0xC4, 1, b'p'][..], &tail].concat() }),
            bytes().prop_map(|tail| [b"\x93\x01\xA5stale", &tail[..]].concat()),
        ]
    }

    proptest! {
        #[test]
        fn a_job_comes_back(owned in any_job()) {
            let job = borrowed(&owned);
            let record = encoded(&job);
            prop_assert_eq!(Job::decode(&record), Ok(job));
        }

        #[test]
        fn the_last_element_is_no_default(owned in any_job()) {
            let job = borrowed(&owned);
            let record = encoded(&job);
            let kept = usize::from(record[0] & 0x0F) - 2;
            let elements = job.optional_elements();
            prop_assert!(kept == 0 || !elements[kept - 1].is_default());
            prop_assert!(elements[kept..].iter().all(Element::is_default));
        }

        #[test]
        fn a_cut_record_is_refused(owned in any_job(), at: prop::sample::Index) {
            let record = encoded(&borrowed(&owned));
            prop_assert_eq!(Job::decode(&record[..at.index(record.len())]), Err(BadRecord));
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in any_bytes()) {
            if let Ok(job) = Job::decode(&bytes) {
                let record = encoded(&job);
                prop_assert!(record.len() <= bytes.len() + 3, "a string becomes bin");
                prop_assert_eq!(Job::decode(&record), Ok(job));
            }
            if let Ok(letter) = Letter::decode(&bytes) {
                let mut again = Vec::new();
                letter.encode(&mut again);
                prop_assert_eq!(Letter::decode(&again), Ok(letter));
            }
        }

        #[test]
        fn a_letter_comes_back(owned in any_job(), reason in prop::sample::select(&Reason::ALL[..])) {
            let letter = Letter { reason, job: borrowed(&owned) };
            let mut out = Vec::new();
            letter.encode(&mut out);
            prop_assert_eq!(Letter::decode(&out), Ok(letter));
        }

        #[test]
        fn a_buried_record_comes_back(
            record in prop::collection::vec(any::<u8>(), 0..200),
            reason in prop::sample::select(&Reason::ALL[..]),
        ) {
            let mut out = Vec::new();
            bury(reason, &record, &mut out);
            prop_assert!(out.ends_with(&record));
            prop_assert_eq!(out.len(), record.len() + 3 + reason.as_str().len());
        }

        #[test]
        fn burying_a_record_makes_the_letter(
            owned in any_job(), reason in prop::sample::select(&Reason::ALL[..]),
        ) {
            let job = borrowed(&owned);
            let (mut buried, mut written) = (Vec::new(), Vec::new());
            bury(reason, &encoded(&job), &mut buried);
            Letter { reason, job }.encode(&mut written);
            prop_assert_eq!(buried, written);
        }
    }
}

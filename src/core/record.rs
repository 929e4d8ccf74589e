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

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeTuple, Serializer};
use serde_bytes::Bytes;
use smallvec::SmallVec;
use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;

/// The version of the format that this module reads and writes.
const VERSION: u8 = 1;

/// A job record: its fields are the elements, in this order. Texts are borrowed from the bytes that were read.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Deserialize)]
pub struct Job<'a> {
    /// The version of the format.
    pub version: Version,
    /// What the producer pushed, less than 4 GiB.
    pub payload: &'a [u8],
    /// The number drawn at the push of a job whose id the caller chose, never 0.
    #[serde(default, deserialize_with = "birth")]
    pub birth: Option<u64>,
    /// Failures that a worker reported: the retry count.
    #[serde(default, deserialize_with = "number")]
    pub failures: u32,
    /// Leases that ran out.
    #[serde(default, deserialize_with = "number")]
    pub lapses: u32,
    /// Times that a worker gave the job back.
    #[serde(default, deserialize_with = "number")]
    pub releases: u32,
    /// Claims that ended, in whatever way.
    #[serde(default, deserialize_with = "number")]
    pub claims: u32,
    /// Whether the last claim ended with its lease, so that its receipt is late, not stale.
    #[serde(default, deserialize_with = "flag")]
    pub late: bool,
    /// The job's own retry limit.
    #[serde(default, deserialize_with = "optional")]
    pub retries: Option<u32>,
    /// The job's own lease in ms.
    #[serde(default, deserialize_with = "optional")]
    pub lease: Option<u64>,
    /// The job's own first wait after a failure, in ms.
    #[serde(default, deserialize_with = "optional")]
    pub backoff_base: Option<u64>,
    /// The job's own longest wait after a failure, in ms.
    #[serde(default, deserialize_with = "optional")]
    pub backoff_cap: Option<u64>,
    /// The text of the last failure.
    #[serde(default, borrow)]
    pub error: Option<&'a [u8]>,
    /// The stack of the last failure.
    #[serde(default, borrow)]
    pub stack: Option<&'a [u8]>,
}

impl<'a> Job<'a> {
    /// Reads a record, which must fill `bytes` completely. Allocates nothing unless it fails.
    ///
    /// A MessagePack string is accepted as bytes, because older encoders have no bin type. A birth of 0 means none.
    pub fn decode(bytes: &'a [u8]) -> Result<Job<'a>, BadRecord> {
        decode(bytes)
    }

    /// Returns the record in parts, so that the payload is copied only to where it is stored.
    pub fn encode(&self) -> Encoded<'a> {
        Encoded::of(self, self.payload)
    }

    /// The elements that a record may omit, in their order.
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

/// Not derived, because a derived one cannot omit the defaults at the end.
impl Serialize for Job<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let optional = self.optional_elements();
        let kept = optional.iter().rposition(|element| !element.is_default()).map_or(0, |last| last + 1);
        let mut record = serializer.serialize_tuple(2 + kept)?;
        record.serialize_element(&self.version)?;
        record.serialize_element(Bytes::new(self.payload))?;
        for element in &optional[..kept] {
            record.serialize_element(element)?;
        }
        record.end()
    }
}

/// An element that is omitted if it has its default value and no element that is kept follows it.
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

/// Why a job is a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It failed once more than its retries allow.
    RetriesExhausted,
    /// A worker gave it up.
    Failed,
    /// Its leases ran out as often as is allowed.
    LapsesExhausted,
    /// Nobody claimed it for so long that the purge took it.
    Stale,
}

impl Reason {
    /// Every reason, in the order of declaration.
    pub const ALL: [Reason; 4] = [Reason::RetriesExhausted, Reason::Failed, Reason::LapsesExhausted, Reason::Stale];

    /// The reason as it stands in a letter and in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::RetriesExhausted => "retries-exhausted",
            Reason::Failed => "failed",
            Reason::LapsesExhausted => "lapses-exhausted",
            Reason::Stale => "stale",
        }
    }

    /// Reads what [`Reason::as_str`] gives, in exactly that spelling.
    pub fn parse(text: &[u8]) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.as_str().as_bytes() == text)
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Reason, D::Error> {
        Reason::parse(<&[u8]>::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("unknown reason"))
    }
}

/// A dead letter: its fields are the elements, in this order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Letter<'a> {
    /// The version of the format.
    pub version: Version,
    /// Why the job died.
    pub reason: Reason,
    /// The job as it was at its death.
    #[serde(borrow, deserialize_with = "array")]
    pub job: Job<'a>,
}

impl<'a> Letter<'a> {
    /// The letter of `job`.
    pub const fn new(reason: Reason, job: Job<'a>) -> Letter<'a> {
        Letter { version: Version, reason, job }
    }

    /// Reads a letter, which must fill `bytes` completely. Allocates nothing unless it fails.
    pub fn decode(bytes: &'a [u8]) -> Result<Letter<'a>, BadRecord> {
        decode(bytes)
    }

    /// Returns the letter in parts, so that the payload is copied only to where it is stored.
    pub fn encode(&self) -> Encoded<'a> {
        Encoded::of(self, self.job.payload)
    }
}

/// Returns the letter of the job whose record is `record`, which it keeps byte for byte.
pub fn bury_record(reason: Reason, record: &[u8]) -> Encoded<'_> {
    // A letter ends with its record: without that of an empty job, what is left is its head.
    let mut head = Letter::new(reason, Job::default()).encode().head;
    head.truncate(head.len() - Job::default().encode().head.len());
    Encoded { head, payload: record, tail: SmallVec::new() }
}

/// The version of a record: an element that can only be 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Version;

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(VERSION)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
        match number(deserializer)? {
            VERSION => Ok(Version),
            _ => Err(D::Error::custom("unknown version")),
        }
    }
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

/// Reads one array, which must fill `bytes` completely.
fn decode<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, BadRecord> {
    let mut input = rmp_serde::Deserializer::from_read_ref(bytes);
    let value = array(&mut input).map_err(|_| BadRecord)?;
    let more = Option::<Unread>::deserialize(&mut input).is_ok();
    (!more).then_some(value).ok_or(BadRecord)
}

/// Stands for a value that is not read: an `Option` of it tells whether there is a further byte.
struct Unread;

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Unread, D::Error> {
        Ok(Unread)
    }
}

/// Reads `T` from an array only. A derived `Deserialize` alone would also accept a map with the names of the fields.
fn array<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Array<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Array<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<T, A::Error> {
            T::deserialize(SeqAccessDeserializer::new(elements))
        }

        fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<T, E> {
            Err(misplaced_string())
        }
    }

    deserializer.deserialize_any(Array(PhantomData))
}

/// Every element that is not a text.
enum Scalar {
    Nil,
    Flag(bool),
    Number(u64),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        struct ScalarVisitor;

        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a whole number, a boolean or nil")
            }

            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Nil)
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Scalar, E> {
                Ok(Scalar::Flag(flag))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Scalar, E> {
                u64::try_from(number).map(Scalar::Number).map_err(E::custom)
            }

            fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Scalar, E> {
                Err(misplaced_string())
            }
        }

        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// Replaces serde's error for a string, which repeats the whole string, however long it is.
fn misplaced_string<E: serde::de::Error>() -> E {
    E::custom("misplaced string")
}

fn number<'de, T: TryFrom<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    optional(deserializer)?.ok_or_else(|| D::Error::custom("not a number"))
}

fn optional<'de, T: TryFrom<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    match Scalar::deserialize(deserializer)? {
        Scalar::Nil => Ok(None),
        Scalar::Number(number) => T::try_from(number).map(Some).map_err(|_| D::Error::custom("number too large")),
        Scalar::Flag(_) => Err(D::Error::custom("not a number")),
    }
}

fn birth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(optional(deserializer)?.filter(|&birth| birth != 0))
}

fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match Scalar::deserialize(deserializer)? {
        Scalar::Flag(flag) => Ok(flag),
        _ => Err(D::Error::custom("not a boolean")),
    }
}

/// A record or letter in three parts, so that the payload is copied only to where it is stored.
pub struct Encoded<'a> {
    head: SmallVec<[u8; 32]>,
    payload: &'a [u8],
    tail: SmallVec<[u8; 64]>,
}

impl<'a> Encoded<'a> {
    fn of(value: &impl Serialize, payload: &'a [u8]) -> Encoded<'a> {
        let encoded = Encoded { head: SmallVec::new(), payload, tail: SmallVec::new() };
        let mut output = Output { encoded, after_payload: false };
        let written = value.serialize(&mut rmp_serde::Serializer::new(&mut output));
        debug_assert!(written.is_ok(), "writing into memory does not fail");
        output.encoded
    }

    /// The parts, in their order.
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.head, self.payload, &self.tail]
    }

    /// Returns all of it in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts().concat()
    }
}

/// Collects what is written, except the payload: of that it only notes the place.
struct Output<'a> {
    encoded: Encoded<'a>,
    after_payload: bool,
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.after_payload {
            self.encoded.tail.extend_from_slice(bytes);
        } else if std::ptr::eq(bytes, self.encoded.payload) {
            self.after_payload = true;
        } else {
            self.encoded.head.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The marker of a MessagePack array of up to 15 elements, less their number.
    const ARRAY: u8 = 0x90;

    fn encoded(job: &Job) -> Vec<u8> {
        job.encode().to_vec()
    }

    fn full<'a>() -> Job<'a> {
        Job {
            version: Version,
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
            b"\x82\xA7version\x01\xA7payload\xC4\x00",
            &[0xC7, 2, 1, 1, 1],
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
        let letter = Letter::new(Reason::Stale, Job::default());
        let out = letter.encode().to_vec();
        assert_eq!(out, b"\x93\x01\xA5stale\x92\x01\xC4\x00");
    }

    #[test]
    fn wider_spellings_of_a_letter_are_read() {
        let letter = Letter::new(Reason::Stale, Job { payload: b"p", ..Job::default() });
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
            b"\x93\x01\x01\x92\x01\xC4\x00",
            b"\x93\x01\x81\xA6failed\xC0\x92\x01\xC4\x00",
            b"\x93\x01\xA6failed\x82\xA7version\x01\xA7payload\xC4\x00",
            b"\x83\xA7version\x01\xA6reason\xA6failed\xA3job\x92\x01\xC4\x00",
            b"\x94\x01\xA6failed\x92\x01\xC4\x00\xC0",
        ] {
            assert_eq!(Letter::decode(bytes), Err(BadRecord), "{bytes:?}");
        }
    }

    /// The text of the error, which the caller never sees.
    fn error_of<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> String {
        let result: Result<T, _> = array(&mut rmp_serde::Deserializer::from_read_ref(bytes));
        result.err().expect("the bytes are malformed").to_string()
    }

    #[test]
    fn an_error_is_short_whatever_stands_in_place_of_an_element() {
        let long = "x".repeat(10_000);
        for misplaced in [rmp_serde::to_vec(&long).unwrap(), rmp_serde::to_vec(Bytes::new(long.as_bytes())).unwrap()] {
            let mut errors = vec![error_of::<Job>(&misplaced), error_of::<Letter>(&misplaced)];
            for place in (0..12).filter(|place| *place != 1) {
                let before = &[1, 0xA0, 0xC0, 0, 0, 0, 0, 0xC3, 0xC0, 0xC0, 0xC0][..place];
                let bytes = [&[ARRAY + 1 + place as u8], before, &misplaced].concat();
                errors.push(error_of::<Job>(&bytes));
            }
            for before in [&[][..], b"\x01", b"\x01\xA5stale"] {
                errors.push(error_of::<Letter>(&[b"\x93", before, &misplaced].concat()));
            }
            for error in errors {
                assert!(error.len() < 100, "{} bytes: {error:.200}", error.len());
            }
        }
    }

    #[test]
    fn the_payload_is_not_copied() {
        let payload = vec![b'x'; 100_000];
        let job = Job { payload: &payload, claims: 1, ..Job::default() };
        for encoded in [job.encode(), Letter::new(Reason::Failed, job.clone()).encode()] {
            let [head, middle, tail] = encoded.parts();
            assert!(std::ptr::eq(middle, &payload[..]));
            assert!(head.len() + tail.len() < 50, "{} bytes, {} bytes", head.len(), tail.len());
        }
    }

    #[test]
    fn a_text_may_be_the_payload_itself() {
        let text = &b"failed"[..];
        let job = Job { payload: text, error: Some(text), stack: Some(text), ..Job::default() };
        assert_eq!(Job::decode(&encoded(&job)), Ok(job.clone()));
        // Not only equal to the payload: the same bytes in memory.
        let job = Job { payload: Reason::Failed.as_str().as_bytes(), ..job };
        let letter = Letter::new(Reason::Failed, job);
        assert_eq!(Letter::decode(&letter.encode().to_vec()), Ok(letter));
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

    /// The record as another encoder writes it, which cuts nothing off.
    fn written_by_another(job: &Job) -> Vec<u8> {
        let text = |text: Option<&[u8]>| text.map(serde_bytes::ByteBuf::from);
        let counts = (job.failures, job.lapses, job.releases, job.claims, job.late);
        let own = (job.retries, job.lease, job.backoff_base, job.backoff_cap);
        rmp_serde::to_vec(&(
            VERSION,
            serde_bytes::Bytes::new(job.payload),
            job.birth,
            counts.0,
            counts.1,
            counts.2,
            counts.3,
            counts.4,
            own.0,
            own.1,
            own.2,
            own.3,
            text(job.error),
            text(job.stack),
        ))
        .unwrap()
    }

    proptest! {
        #[test]
        fn another_encoder_and_this_one_understand_each_other(owned in any_job()) {
            let job = borrowed(&owned);
            let theirs = written_by_another(&job);
            prop_assert_eq!(Job::decode(&theirs), Ok(job.clone()));
            let ours = encoded(&job);
            let elements = usize::from(ours[0] - ARRAY);
            prop_assert_eq!(&ours[1..], &theirs[1..ours.len()]);
            prop_assert_eq!(theirs[0], ARRAY + 14);
            prop_assert!(elements <= 14);
        }

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
                let again = letter.encode().to_vec();
                prop_assert_eq!(Letter::decode(&again), Ok(letter));
            }
        }

        #[test]
        fn a_letter_comes_back(owned in any_job(), reason in prop::sample::select(&Reason::ALL[..])) {
            let letter = Letter::new(reason, borrowed(&owned));
            let out = letter.encode().to_vec();
            prop_assert_eq!(Letter::decode(&out), Ok(letter));
        }

        #[test]
        fn a_buried_record_comes_back(
            record in prop::collection::vec(any::<u8>(), 0..200),
            reason in prop::sample::select(&Reason::ALL[..]),
        ) {
            let out = bury_record(reason, &record).to_vec();
            prop_assert!(out.ends_with(&record));
            prop_assert_eq!(out.len(), record.len() + 3 + reason.as_str().len());
        }

        #[test]
        fn burying_a_record_makes_the_letter(
            owned in any_job(), reason in prop::sample::select(&Reason::ALL[..]),
        ) {
            let job = borrowed(&owned);
            let buried = bury_record(reason, &encoded(&job)).to_vec();
            let written = Letter::new(reason, job).encode().to_vec();
            prop_assert_eq!(buried, written);
        }
    }
}

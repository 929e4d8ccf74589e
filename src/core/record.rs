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

use rmp::{decode, encode};
use smallvec::SmallVec;
use std::fmt;

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
    /// for none. Allocates nothing.
    pub fn decode(bytes: &'a [u8]) -> Result<Job<'a>, BadRecord> {
        let mut array = Elements::open(bytes)?;
        array.version()?;
        let job = Job {
            payload: array.text()?.ok_or(BadRecord)?,
            birth: array.optional()?.filter(|&birth| birth != 0),
            failures: array.count()?,
            lapses: array.count()?,
            releases: array.count()?,
            claims: array.count()?,
            late: array.flag()?,
            retries: array.optional()?.map(u32::try_from).transpose().map_err(|_| BadRecord)?,
            lease: array.optional()?,
            backoff_base: array.optional()?,
            backoff_cap: array.optional()?,
            error: array.text()?,
            stack: array.text()?,
        };
        array.close()?.is_empty().then_some(job).ok_or(BadRecord)
    }

    /// The record, as what stands before the payload, the payload, and what stands behind it.
    pub fn encode(&self) -> Encoded<'a> {
        let elements = self.optional_elements();
        let kept = elements.iter().rposition(|element| !element.is_default()).map_or(0, |last| last + 1);
        let (mut head, mut tail) = (SmallVec::new(), SmallVec::new());
        head.push(ARRAY + 2 + kept as u8);
        head.push(VERSION);
        // Writing into memory does not fail.
        drop(encode::write_bin_len(&mut head, length(self.payload)));
        elements.into_iter().take(kept).for_each(|element| element.write(&mut tail));
        Encoded { head, payload: self.payload, tail }
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
            Element::Text(self.error),
            Element::Text(self.stack),
        ]
    }
}

/// An array that is read element by element. What is asked for behind its last element is absent.
struct Elements<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Elements<'a> {
    fn open(bytes: &'a [u8]) -> Result<Elements<'a>, BadRecord> {
        let mut rest = bytes;
        let left = decode::read_array_len(&mut rest).map_err(|_| BadRecord)?;
        Ok(Elements { rest, left })
    }

    /// Whether there is one more element; it counts as read.
    fn take(&mut self) -> bool {
        let more = self.left > 0;
        self.left -= u32::from(more);
        more
    }

    fn version(&mut self) -> Result<(), BadRecord> {
        let version = if self.take() { self.integer()? } else { 0 };
        (version == u64::from(VERSION)).then_some(()).ok_or(BadRecord)
    }

    fn integer(&mut self) -> Result<u64, BadRecord> {
        decode::read_int(&mut self.rest).map_err(|_| BadRecord)
    }

    fn count(&mut self) -> Result<u32, BadRecord> {
        if !self.take() {
            return Ok(0);
        }
        u32::try_from(self.integer()?).map_err(|_| BadRecord)
    }

    fn flag(&mut self) -> Result<bool, BadRecord> {
        if !self.take() {
            return Ok(false);
        }
        decode::read_bool(&mut self.rest).map_err(|_| BadRecord)
    }

    fn optional(&mut self) -> Result<Option<u64>, BadRecord> {
        if !self.take() || self.skip_nil() {
            return Ok(None);
        }
        self.integer().map(Some)
    }

    fn text(&mut self) -> Result<Option<&'a [u8]>, BadRecord> {
        if !self.take() || self.skip_nil() {
            return Ok(None);
        }
        let mut behind = self.rest;
        let length = match decode::read_bin_len(&mut behind) {
            Ok(length) => length,
            Err(_) => {
                behind = self.rest;
                decode::read_str_len(&mut behind).map_err(|_| BadRecord)?
            }
        };
        let (text, rest) = behind.split_at_checked(length as usize).ok_or(BadRecord)?;
        self.rest = rest;
        Ok(Some(text))
    }

    fn skip_nil(&mut self) -> bool {
        match self.rest.split_first() {
            Some((&NIL, rest)) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// What stands behind the last element; an element that nobody read is too much.
    fn close(self) -> Result<&'a [u8], BadRecord> {
        (self.left == 0).then_some(self.rest).ok_or(BadRecord)
    }
}

/// How MessagePack writes that there is no value.
const NIL: u8 = 0xC0;

/// The marker of a MessagePack array of up to 15 elements, less their number; a record has up to 14.
const ARRAY: u8 = 0x90;

/// A record in three parts, so that the payload is copied only to where it is kept.
pub struct Encoded<'a> {
    head: SmallVec<[u8; 32]>,
    payload: &'a [u8],
    tail: SmallVec<[u8; 64]>,
}

impl Encoded<'_> {
    /// The parts, in their order.
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.head, self.payload, &self.tail]
    }

    /// As one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts().concat()
    }
}

fn length(text: &[u8]) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

/// An element that is left out where it is the default and nothing follows it.
enum Element<'a> {
    Count(u32),
    Flag(bool),
    Optional(Option<u64>),
    Text(Option<&'a [u8]>),
}

impl Element<'_> {
    const fn is_default(&self) -> bool {
        matches!(self, Element::Count(0) | Element::Flag(false) | Element::Optional(None) | Element::Text(None))
    }

    fn write(self, out: &mut SmallVec<[u8; 64]>) {
        // Writing into memory does not fail.
        match self {
            Element::Count(count) => drop(encode::write_uint(out, count.into())),
            Element::Flag(flag) => drop(encode::write_bool(out, flag)),
            Element::Optional(Some(number)) => drop(encode::write_uint(out, number)),
            Element::Text(Some(text)) => drop(encode::write_bin(out, text)),
            Element::Optional(None) | Element::Text(None) => drop(encode::write_nil(out)),
        }
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
        let mut array = Elements::open(bytes)?;
        array.version()?;
        let reason = array.text()?.and_then(Reason::parse).ok_or(BadRecord)?;
        let has_record = array.take();
        let record = array.close()?;
        let job = has_record.then_some(record).ok_or(BadRecord).and_then(Job::decode)?;
        Ok(Letter { reason, job })
    }

    /// The letter, as three parts one behind the other.
    pub fn encode(&self) -> Encoded<'a> {
        bury(self.reason, self.job.encode())
    }
}

/// The letter of the job whose record is `record`.
pub fn bury<'a>(reason: Reason, record: Encoded<'a>) -> Encoded<'a> {
    let mut head = letter_head(reason);
    head.extend_from_slice(&record.head);
    Encoded { head, ..record }
}

/// The letter of the job whose record is `record`, byte for byte.
pub fn bury_record(reason: Reason, record: &[u8]) -> Encoded<'_> {
    Encoded { head: letter_head(reason), payload: record, tail: SmallVec::new() }
}

/// How a letter begins in MessagePack: an array of three, the version.
const HEAD: [u8; 2] = [0x93, VERSION];

/// The marker of a MessagePack string of up to 31 bytes, less its length.
const SHORT_STRING: u8 = 0xA0;

/// The marker before the reason. Each reason has less than 32 bytes.
const fn reason_marker(reason: Reason) -> u8 {
    SHORT_STRING | reason.as_str().len() as u8
}

fn letter_head(reason: Reason) -> SmallVec<[u8; 32]> {
    let mut head = SmallVec::from_slice(&HEAD);
    head.push(reason_marker(reason));
    head.extend_from_slice(reason.as_str().as_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(job: &Job) -> Vec<u8> {
        job.encode().to_vec()
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
        let out = letter.encode().to_vec();
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
            let letter = Letter { reason, job: borrowed(&owned) };
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
            let written = Letter { reason, job }.encode().to_vec();
            prop_assert_eq!(buried, written);
        }
    }
}

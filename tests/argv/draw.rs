//! The words that commands are made of: good ones, bad ones, and such as were seen in replies.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::dice::Dice;
use crate::common::queue::companion_key;
use crate::common::{odd_bytes, BEYOND, NOT_NUMBERS};

/// Queues whose keys only the module's commands touch: their invariants hold at every moment.
pub const CLEAN: [&[u8]; 5] = [b"mail", b"{t}:jobs", b"a{b", b"\0\xff%s%n\r\n", b"empty"];
/// Queues whose keys are written to by hand.
pub const SPOILT: [&[u8]; 2] = [b"spoilt", b"{t}:spoilt"];
/// The keys of a queue beside its header.
pub const COMPANIONS: [&str; 6] = ["due", "leased", "jobs", "ids", "dead", "dead:at"];
/// Callers' ids, few enough to meet again.
const OWN_IDS: [&[u8]; 7] = [b"a", b"b:1~", b"'\"\\", b"%s%n", b"00000000001", b"ALL", b"STATE"];
/// How many receipts, ids and cursors are remembered of each.
const REMEMBERED: usize = 200;

/// Every word that means something to one of the commands, but the names of settings.
const WORDS: [&str; 42] = [
    "ID",
    "KEEP",
    "NX",
    "REPLACE",
    "DELAY",
    "AT",
    "RETRIES",
    "LEASE",
    "BACKOFF",
    "PAYLOADS",
    "JOBS",
    "COUNT",
    "BLOCK",
    "ORDER",
    "strict",
    "rotate",
    "EACH",
    "ERROR",
    "STACK",
    "RECEIPTS",
    "STATE",
    "ready",
    "delayed",
    "leased",
    "dead",
    "AFTER",
    "ALL",
    "IDS",
    "REASON",
    "failed",
    "stale",
    "lapses-exhausted",
    "retries-exhausted",
    "SPREAD",
    "FORCE",
    "GET",
    "SET",
    "RESET",
    "MATCH",
    "REPAIR",
    "keep",
    "drop",
];

/// The settings that a queue can have of its own.
pub const FIELDS: [&str; 18] = [
    "lease",
    "max-retries",
    "max-lapses",
    "backoff-base",
    "backoff-cap",
    "backoff-jitter",
    "max-delay",
    "max-payload",
    "max-length",
    "max-error",
    "far-horizon",
    "far-alarm",
    "stale-after",
    "stale-policy",
    "dead-max",
    "dead-max-age",
    "id-keep",
    "max-leased",
];

/// Words of replies with the queue that they belong to, the newest at the end.
#[derive(Default)]
struct Known(Vec<(Vec<u8>, Vec<u8>)>);

impl Known {
    fn note(&mut self, dice: &mut Dice, queue: &[u8], word: &[u8]) {
        if self.0.len() == REMEMBERED {
            self.0.remove(dice.next() as usize % REMEMBERED);
        }
        self.0.push((queue.to_vec(), word.to_vec()));
    }

    /// One that belongs to the queue, else any; the newest more often than the others.
    fn of(&self, dice: &mut Dice, queue: &[u8]) -> Option<Vec<u8>> {
        let own: Vec<_> = self.0.iter().rev().filter(|(of, _)| of == queue).map(|(_, word)| word).collect();
        if own.is_empty() {
            return (!self.0.is_empty()).then(|| dice.pick(&self.0).1.clone());
        }
        let most = if dice.one_in(2) { own.len().min(5) } else { own.len() };
        Some(own[dice.between(0, most as u64 - 1) as usize].clone())
    }
}

/// What replies gave in one database.
#[derive(Default)]
struct Memory {
    receipts: Known,
    ids: Known,
    cursors: Known,
}

/// Draws words, and remembers what replies gave.
pub struct Draw {
    pub dice: Dice,
    db: i64,
    /// The queue of the command that is drawn.
    queue: Vec<u8>,
    memories: BTreeMap<i64, Memory>,
    odd: Vec<Vec<u8>>,
    /// Of each command: how often it succeeded, and how often it was refused.
    pub answers: BTreeMap<String, [u64; 2]>,
}

impl Draw {
    pub fn new(seed: u64) -> Draw {
        let (memories, answers) = (BTreeMap::new(), BTreeMap::new());
        Draw { dice: Dice(seed), db: 0, queue: Vec::new(), memories, odd: odd_bytes(), answers }
    }

    /// From here on the words are for this database, and what replies give is of it.
    pub fn enter(&mut self, db: i64) {
        self.db = db;
    }

    pub fn note_receipt(&mut self, queue: &[u8], receipt: &[u8]) {
        self.memories.entry(self.db).or_default().receipts.note(&mut self.dice, queue, receipt);
    }

    pub fn note_id(&mut self, queue: &[u8], id: &[u8]) {
        self.memories.entry(self.db).or_default().ids.note(&mut self.dice, queue, id);
    }

    pub fn note_cursor(&mut self, queue: &[u8], cursor: &[u8]) {
        self.memories.entry(self.db).or_default().cursors.note(&mut self.dice, queue, cursor);
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.dice.one_in(n)
    }

    /// One of these texts.
    pub fn of(&mut self, texts: &[&str]) -> Vec<u8> {
        self.dice.pick(texts).as_bytes().to_vec()
    }

    /// The name of a queue, now and then of one that cannot be.
    pub fn queue(&mut self) -> Vec<u8> {
        self.queue = self.any_queue();
        self.queue.clone()
    }

    fn any_queue(&mut self) -> Vec<u8> {
        match self.dice.between(0, 79) {
            0 => self.any(),
            1 => companion_key(b"mail", COMPANIONS[0]),
            2 => self.of(&["{x}", "", "dq:", "a}b", "other"]),
            3 => vec![b'n'; self.dice.between(4095, 4097) as usize],
            4..=16 => self.spoilt(),
            _ => self.dice.pick(&CLEAN).to_vec(),
        }
    }

    /// The name of a queue whose keys may be spoilt.
    pub fn spoilt(&mut self) -> Vec<u8> {
        self.dice.pick(&SPOILT).to_vec()
    }

    /// A key of a queue that may be spoilt.
    pub fn spoilt_key(&mut self) -> Vec<u8> {
        let name = self.spoilt();
        match self.dice.between(0, 6) {
            0 => name,
            n => companion_key(&name, COMPANIONS[n as usize - 1]),
        }
    }

    pub fn receipt(&mut self) -> Vec<u8> {
        let known = &self.memories.entry(self.db).or_default().receipts;
        known.of(&mut self.dice, &self.queue).unwrap_or_else(|| b"00000000001:1".to_vec())
    }

    pub fn id(&mut self) -> Vec<u8> {
        let known = &self.memories.entry(self.db).or_default().ids;
        match self.dice.one_in(3) {
            true => self.own_id(),
            false => known.of(&mut self.dice, &self.queue).unwrap_or_else(|| self.own_id()),
        }
    }

    pub fn own_id(&mut self) -> Vec<u8> {
        match self.dice.between(0, 9) {
            0 => vec![b'"'; self.dice.between(127, 129) as usize],
            1 => (0..self.dice.between(1, 20)).map(|_| self.dice.between(0x21, 0x7e) as u8).collect(),
            _ => self.dice.pick(&OWN_IDS).to_vec(),
        }
    }

    pub fn cursor(&mut self) -> Vec<u8> {
        let known = &self.memories.entry(self.db).or_default().cursors;
        match self.dice.one_in(4) {
            true => self.of(&["0", "0:x", "18446744073709551615:~", "-1:a", ":"]),
            false => known.of(&mut self.dice, &self.queue).unwrap_or_default(),
        }
    }

    pub fn payload(&mut self) -> Vec<u8> {
        match self.dice.between(0, 9) {
            0 => self.any(),
            1 => vec![b'p'; self.dice.between(0, 5000) as usize],
            _ => vec![b'x'; self.dice.between(0, 50) as usize],
        }
    }

    /// A duration that most options take, short enough for leases to end and delays to pass while the test runs.
    pub fn duration(&mut self) -> Vec<u8> {
        match self.dice.between(0, 19) {
            0 => self.number(),
            1 => self.of(&["1d", "7d", "12h", "30d", "24H", "0ms", "0"]),
            2 => self.of(&["1s", "2S", "007", "00000000000000000000000001"]),
            _ => self.dice.between(0, 60).to_string().into_bytes(),
        }
    }

    pub fn count(&mut self) -> Vec<u8> {
        match self.dice.between(0, 9) {
            0 => self.number(),
            1 => self.of(&["0", "1000", "1001", "1000000", "1000000000000"]),
            _ => self.dice.between(1, 20).to_string().into_bytes(),
        }
    }

    /// A time of the wall clock in ms, near the present as a rule.
    pub fn unix_ms(&mut self) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis() as u64;
        match self.dice.between(0, 4) {
            0 => self.number(),
            1 => self.of(&["0", "1700000000", "100000000000", "99999999999", "4102444800000"]),
            _ => (now - 1000 + self.dice.between(0, 2000)).to_string().into_bytes(),
        }
    }

    /// A number at a limit, or what is none.
    pub fn number(&mut self) -> Vec<u8> {
        match self.dice.between(0, 3) {
            0 => self.dice.pick(BEYOND).as_bytes().to_vec(),
            1 => self.of(&["-9223372036854775808", "4294967295", "4294967296", "2147483648", "-1", "0"]),
            2 => self.dice.next().to_string().into_bytes(),
            _ => self.dice.pick(NOT_NUMBERS).to_vec(),
        }
    }

    /// A word of any kind.
    pub fn any(&mut self) -> Vec<u8> {
        match self.dice.between(0, 199) {
            0..=55 => self.dice.pick(&WORDS).as_bytes().to_vec(),
            56..=79 => self.dice.pick(&FIELDS).as_bytes().to_vec(),
            80..=99 => self.number(),
            100..=119 => self.duration(),
            120..=129 => self.receipt(),
            130..=139 => self.id(),
            140..=149 => self.dice.pick(&CLEAN).to_vec(),
            150..=159 => self.own_id(),
            160..=169 => Vec::new(),
            170..=189 => (0..self.dice.between(0, 20)).map(|_| self.dice.next() as u8).collect(),
            // One in 30,000 words is of some MB.
            190 if self.one_in(150) => vec![b'M'; self.dice.between(1 << 20, 5 << 20) as usize],
            _ => self.dice.pick(&self.odd).clone(),
        }
    }

    /// The same text with letters in another case, now and then.
    pub fn any_case(&mut self, text: &str) -> Vec<u8> {
        let mut word = text.as_bytes().to_vec();
        if self.one_in(4) {
            for byte in &mut word {
                if self.dice.one_in(2) {
                    *byte = byte.to_ascii_lowercase();
                }
            }
        }
        word
    }
}

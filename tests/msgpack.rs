//! The job record and the dead letter against another language: what the module writes, Python's msgpack reads, field
//! by field at the places that docs/keys.md documents; and what Python writes, the module works on.
//!
//! `DQ_TEST_PYTHON` chooses the Python, which needs redis-py and msgpack.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)]
mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::msgpack::{id_in_member, Pack, Record};
use common::*;
use redis::Value;

/// How Python is asked to spell what it writes.
const FORMS: [&str; 4] = ["usual", "old", "widest", "signed"];

/// The same for letters; "inside" is the widest for the record alone.
const LETTER_FORMS: [&str; 5] = ["usual", "old", "widest", "signed", "inside"];

/// Where a type of MessagePack ends and the next begins.
const BORDERS: [u64; 14] = [
    0,
    1,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    u32::MAX as u64 - 1,
    u32::MAX as u64,
    u32::MAX as u64 + 1,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

/// The same for the lengths of bytes and of text.
const LENGTHS: [usize; 11] = [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536, 1 << 20];

/// The Python program, which talks to one server.
struct Python {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    fn start(server: &Server) -> Python {
        let python = std::env::var("DQ_TEST_PYTHON").unwrap_or_else(|_| "/usr/bin/python3".to_string());
        let mut child = Command::new(&python)
            .args(["-B", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/msgpack/records.py")])
            .arg(server.port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{python} does not start: {e}"));
        let ask = child.stdin.take().expect("its input is piped");
        let answers = BufReader::new(child.stdout.take().expect("its output is piped"));
        Python { child, ask, answers }
    }

    fn call(&mut self, request: &str) -> String {
        let mut answer = String::new();
        let done = writeln!(self.ask, "{request}").and_then(|()| self.answers.read_line(&mut answer));
        assert!(
            done.is_ok_and(|length| length > 0),
            "Python with redis-py and msgpack is needed: apt-get install python3-redis python3-msgpack"
        );
        answer.trim_end().to_string()
    }

    /// What Python reads from a hash. The module writes each value in the shortest form, as Python does.
    fn read(&mut self, key: &[u8], id: &str) -> Pack {
        let answer = self.call(&format!("read {} {}", hex(key), hex(id.as_bytes())));
        let value = answer.strip_prefix("same ").unwrap_or_else(|| panic!("not what Python writes: {answer:.200}"));
        parse(&mut &value[..])
    }

    fn write(&mut self, key: &[u8], id: &str, value: &Pack, form: &str) {
        let request = format!("write {} {} {} {form}", hex(key), hex(id.as_bytes()), spell(value));
        assert_eq!(self.call(&request), "ok");
    }

    fn score(&mut self, key: &[u8], id: &str, at: i64) {
        assert_eq!(self.call(&format!("score {} {} {at}", hex(key), hex(id.as_bytes()))), "ok");
    }

    // The same on a queue.

    fn job(&mut self, q: &Queue, id: &str) -> Pack {
        self.read(&q.key("jobs"), id)
    }

    fn letter(&mut self, q: &Queue, id: &str) -> Pack {
        self.read(&q.key("dead"), id)
    }

    /// A job that has been due for a second.
    fn write_due(&mut self, q: &mut Queue, id: &str, record: &Pack, form: &str) {
        self.write(&q.key("jobs"), id, record, form);
        let birth = match record {
            Pack::Array(items) => match items.get(2) {
                Some(Pack::Int(birth)) => u64::try_from(*birth).ok(),
                _ => None,
            },
            _ => None,
        };
        let (at, member) = (q.now() - 1000, Record { birth, ..Record::default() }.member(id.as_bytes()));
        self.score(&q.key("due"), std::str::from_utf8(&member).expect("an id is ASCII"), at);
    }

    fn write_dead(&mut self, q: &mut Queue, id: &str, letter: &Pack, form: &str) -> i64 {
        self.write(&q.key("dead"), id, letter, form);
        let at = q.now() - 1000;
        self.score(&q.key("dead:at"), id, at);
        at
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text is written");
        text
    })
}

fn spell(value: &Pack) -> String {
    match value {
        Pack::Nil => "n".to_string(),
        Pack::Bool(yes) => if *yes { "t" } else { "f" }.to_string(),
        Pack::Int(number) => format!("i{number}"),
        Pack::Bin(bytes) => format!("b{}", hex(bytes)),
        Pack::Str(text) => format!("s{}", hex(text.as_bytes())),
        Pack::Array(items) => format!("[{}]", items.iter().map(spell).collect::<Vec<_>>().join(",")),
    }
}

fn parse(rest: &mut &str) -> Pack {
    let (kind, tail) = rest.split_at(1);
    *rest = tail;
    if kind == "[" {
        let mut items = Vec::new();
        while !rest.starts_with(']') {
            items.push(parse(rest));
            *rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        *rest = &rest[1..];
        return Pack::Array(items);
    }
    let (word, tail) = rest.split_at(rest.find([',', ']']).unwrap_or(rest.len()));
    *rest = tail;
    let bytes = || word.as_bytes().chunks(2).map(unhex).collect::<Vec<u8>>();
    match kind {
        "n" => Pack::Nil,
        "t" | "f" => Pack::Bool(kind == "t"),
        "i" => Pack::Int(word.parse().expect("a number")),
        "b" => Pack::Bin(bytes()),
        "s" => Pack::Str(String::from_utf8(bytes()).expect("text")),
        _ => panic!("Python said {kind}"),
    }
}

fn unhex(pair: &[u8]) -> u8 {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    digit(pair[0]) << 4 | digit(pair[1])
}

/// The record as documented: its elements in their places, up to the last that is not the default, or all.
fn packed(record: &Record, all: bool) -> Pack {
    let count = |count: u64| (Pack::Int(count.into()), count == 0);
    let number = |number: Option<u64>| (number.map_or(Pack::Nil, |n| Pack::Int(n.into())), number.is_none());
    let bytes = |bytes: &Option<Vec<u8>>| (bytes.clone().map_or(Pack::Nil, Pack::Bin), bytes.is_none());
    let elements = [
        (Pack::Int(1), false),
        (Pack::Bin(record.payload.clone()), false),
        number(record.birth),
        count(record.failures),
        count(record.lapses),
        count(record.releases),
        count(record.claims),
        (Pack::Bool(record.late), !record.late),
        number(record.retries),
        number(record.lease),
        number(record.backoff_base),
        number(record.backoff_cap),
        bytes(&record.error),
        bytes(&record.stack),
    ];
    let last = elements.iter().rposition(|(_, default)| all || !default).expect("the version is no default");
    Pack::Array(elements.into_iter().take(last + 1).map(|(element, _)| element).collect())
}

fn letter(reason: &str, record: &Record) -> Pack {
    Pack::Array(vec![Pack::Int(1), Pack::Str(reason.to_string()), packed(record, false)])
}

fn record(payload: &str) -> Record {
    Record { payload: payload.into(), ..Record::default() }
}

/// Fails unless Python reads this record of a live job.
#[track_caller]
fn assert_job(python: &mut Python, q: &Queue, id: &str, expected: &Record) {
    assert_eq!(short(&python.job(q, id)), short(&packed(expected, false)), "{id}");
}

#[track_caller]
fn assert_letter(python: &mut Python, q: &Queue, id: &str, reason: &str, expected: &Record) {
    assert_eq!(short(&python.letter(q, id)), short(&letter(reason, expected)), "{id}");
}

/// The same value, long bytes by their length and a sum, so that a failure can be read.
fn short(value: &Pack) -> Pack {
    match value {
        Pack::Bin(bytes) if bytes.len() > 64 => {
            let sum = bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte) + 1));
            Pack::Str(format!("{} bytes, sum {sum}", bytes.len()))
        }
        Pack::Array(items) => Pack::Array(items.iter().map(short).collect()),
        other => other.clone(),
    }
}

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 131 + at / 251) as u8).collect()
}

/// The birth of a caller's id, which was pushed a moment ago: the number of an id that the server drew.
fn birth_of(q: &mut Queue, python: &mut Python, id: &str) -> u64 {
    let Pack::Array(items) = python.job(q, id) else { panic!("not an array") };
    let Pack::Int(birth) = items[2] else { panic!("no birth: {:?}", items[2]) };
    let birth = u64::try_from(birth).expect("64 bits");
    let now = q.now();
    assert_between((birth >> 22) as i64, now - DEADLINE.as_millis() as i64, now);
    birth
}

// What the module writes.

#[test]
fn python_reads_a_job_in_every_state() {
    let server = Server::start();
    let (mut q, mut python) = (server.queue("q"), Python::start(&server));
    let (error, stack) = (&b"caf\xc3\xa9\0\xff"[..], &b"line 1\r\nline 2\n"[..]);

    let fresh = q.push("fresh");
    assert_job(&mut python, &q, &fresh, &record("fresh"));
    let job = q.claim();
    assert_job(&mut python, &q, &fresh, &record("fresh"));
    q.ack(&job.receipt);

    ok!(q, "PUSH", "own", "ID", "mine");
    let own = Record { birth: Some(birth_of(&mut q, &mut python, "mine")), ..record("own") };
    assert_job(&mut python, &q, "mine", &own);
    let job = q.claim();
    assert!(job.receipt.ends_with(":mine"));
    q.ack(&job.receipt);

    let options = args!["ID", "all", "RETRIES", 7, "LEASE", "9s", "BACKOFF", "2s", "3s", "DELAY", "1h", "KEEP", 0];
    q.ok("PUSH", [args!["options"], options].concat());
    let all = Record {
        birth: Some(birth_of(&mut q, &mut python, "all")),
        retries: Some(7),
        lease: Some(9000),
        backoff_base: Some(2000),
        backoff_cap: Some(3000),
        ..record("options")
    };
    assert_job(&mut python, &q, "all", &all);
    ok!(q, "PUSH", "replaced", "ID", "all", "REPLACE", "LEASE", 1);
    let replaced = Record { birth: Some(birth_of(&mut q, &mut python, "all")), lease: Some(1), ..record("replaced") };
    assert_job(&mut python, &q, "all", &replaced);
    let job = q.claim();
    q.ack(&job.receipt);

    let mpushed = texts(&ok!(q, "MPUSH", "RETRIES", 1, "PAYLOADS", "a", "b"));
    for (id, payload) in mpushed.iter().zip(["a", "b"]) {
        assert_job(&mut python, &q, id, &Record { retries: Some(1), ..record(payload) });
        let job = q.claim();
        q.ack(&job.receipt);
    }

    let job = q.push_and_claim("retried");
    ok!(q, "RETRY", job.receipt, "DELAY", 0, "ERROR", error, "STACK", stack);
    let mut retried = Record {
        failures: 1,
        claims: 1,
        error: Some(error.to_vec()),
        stack: Some(stack.to_vec()),
        ..record("retried")
    };
    assert_job(&mut python, &q, &job.id, &retried);
    let second = q.claim();
    ok!(q, "RETRY", second.receipt, "DELAY", 0, "ERROR", "other");
    (retried.failures, retried.claims, retried.error, retried.stack) = (2, 2, Some(b"other".to_vec()), None);
    assert_job(&mut python, &q, &job.id, &retried);
    let third = q.claim();
    q.ack(&third.receipt);

    let job = q.push_and_claim("stack only");
    ok!(q, "RETRY", job.receipt, "DELAY", 0, "STACK", stack);
    let stack_only = Record { failures: 1, claims: 1, stack: Some(stack.to_vec()), ..record("stack only") };
    assert_job(&mut python, &q, &job.id, &stack_only);
    let job = q.claim();
    q.ack(&job.receipt);

    let job = q.push_and_claim("empty texts");
    ok!(q, "RETRY", job.receipt, "DELAY", 0, "ERROR", "", "STACK", "");
    let empty = Record { failures: 1, claims: 1, error: Some(vec![]), stack: Some(vec![]), ..record("empty texts") };
    assert_job(&mut python, &q, &job.id, &empty);
    let job = q.claim();
    q.ack(&job.receipt);

    let job = q.push_and_claim("released");
    q.release(&job.receipt);
    assert_job(&mut python, &q, &job.id, &Record { releases: 1, claims: 1, ..record("released") });
    let job = q.claim();
    q.ack(&job.receipt);
}

#[test]
fn python_reads_a_job_whose_lease_ended() {
    let server = Server::start();
    let (mut q, mut python) = (server.queue("q"), Python::start(&server));
    let id = q.push("lapsed");
    let once = Record { lapses: 1, claims: 1, late: true, ..record("lapsed") };
    let job = q.claim_and_lapse();
    assert_job(&mut python, &q, &id, &once);
    // The lease taken back: as if it had not ended.
    q.extend(3_600_000, &job.receipt);
    assert_job(&mut python, &q, &id, &record("lapsed"));
    q.ack(&job.receipt);

    let id = q.push("lapsed");
    q.claim_and_lapse();
    q.claim_and_lapse();
    assert_job(&mut python, &q, &id, &Record { lapses: 2, claims: 2, ..once.clone() });
    q.make_due(&id);
    // The next claim alone rewrites nothing: it is the index that tells that it runs.
    let job = q.claim();
    assert_job(&mut python, &q, &id, &Record { lapses: 2, claims: 2, ..once.clone() });
    q.release(&job.receipt);
    assert_job(&mut python, &q, &id, &Record { lapses: 2, releases: 1, claims: 3, late: false, ..once.clone() });
    let job = q.claim();
    q.ack(&job.receipt);

    // Late receipts: a failure or a release in place of the lapse.
    let id = q.push("late");
    let job = q.claim_and_lapse();
    ok!(q, "RETRY", job.receipt, "DELAY", 0, "ERROR", "e");
    let late = Record { failures: 1, claims: 1, error: Some(b"e".to_vec()), ..record("late") };
    assert_job(&mut python, &q, &id, &late);
    let job = q.claim_and_lapse();
    q.release(&job.receipt);
    assert_job(&mut python, &q, &id, &Record { releases: 1, claims: 2, ..late });
    let job = q.claim();
    q.ack(&job.receipt);
}

#[test]
fn python_reads_letters_of_every_reason() {
    let server = Server::start();
    let (mut q, mut python) = (server.queue("q"), Python::start(&server));
    let text = |text: &str| Some(text.as_bytes().to_vec());

    let job = q.push_and_claim("failed");
    ok!(q, "FAIL", job.receipt, "ERROR", "e", "STACK", "s");
    let failed = Record { claims: 1, error: text("e"), stack: text("s"), ..record("failed") };
    assert_letter(&mut python, &q, &job.id, "failed", &failed);

    ok!(q, "PUSH", "used up", "ID", "mine", "RETRIES", 1, "LEASE", "1m");
    let birth = Some(birth_of(&mut q, &mut python, "mine"));
    let job = q.claim();
    ok!(q, "RETRY", job.receipt, "DELAY", 0, "ERROR", "first", "STACK", "s");
    let job = q.claim();
    assert_eq!(int(&ok!(q, "RETRY", job.receipt, "ERROR", "second")), -1);
    let used_up = Record {
        birth,
        failures: 2,
        claims: 2,
        retries: Some(1),
        lease: Some(60_000),
        error: text("second"),
        ..record("used up")
    };
    assert_letter(&mut python, &q, "mine", "retries-exhausted", &used_up);

    server.set("max-lapses", "2");
    let id = q.push("crashed");
    q.claim_and_lapse();
    let job = q.claim_and_lapse();
    let crashed = Record { lapses: 2, claims: 2, late: true, ..record("crashed") };
    assert_letter(&mut python, &q, &id, "lapses-exhausted", &crashed);
    // Its worker is not dead after all, and says why it failed.
    ok!(q, "FAIL", job.receipt, "ERROR", "slow");
    let crashed = Record { late: false, error: text("slow"), ..crashed };
    assert_letter(&mut python, &q, &id, "failed", &crashed);

    ok!(q, "PUSH", "stale", "RETRIES", 3, "ID", "old");
    let before = python.job(&q, "old");
    q.unwatched();
    server.set("stale-after", "10");
    server.set("purge-interval", "10");
    q.wait_key("jobs", false);
    q.watched();
    let whole = Pack::Array(vec![Pack::Int(1), Pack::Str("stale".to_string()), before]);
    assert_eq!(python.letter(&q, "old"), whole, "the record as it was");
}

#[test]
fn python_reads_integers_of_every_size() {
    let server = Server::builder().set("max-lease", "30d").start();
    let (mut q, mut python) = (server.queue("q"), Python::start(&server));
    let most = 30 * 86_400_000;
    for number in BORDERS.into_iter().chain([most]) {
        let retries = number.min(1_000_000);
        let (lease, base) = (number.clamp(1, most), number.clamp(1, most));
        let id = text(&ok!(q, "PUSH", "x", "RETRIES", retries, "LEASE", lease, "BACKOFF", base, most));
        let expected = Record {
            retries: Some(retries),
            lease: Some(lease),
            backoff_base: Some(base),
            backoff_cap: Some(most),
            ..record("x")
        };
        assert_job(&mut python, &q, &id, &expected);
    }
}

#[test]
fn python_reads_bytes_of_every_length() {
    let server = Server::builder().set("max-error", "0").start();
    let (mut q, mut python) = (server.queue("q"), Python::start(&server));
    for length in LENGTHS {
        let bytes = noise(length);
        let mut expected = Record { payload: bytes.clone(), ..Record::default() };
        let job = q.push_and_claim(&bytes[..]);
        assert_job(&mut python, &q, &job.id, &expected);
        ok!(q, "RETRY", job.receipt, "DELAY", 0, "ERROR", &bytes[..], "STACK", &bytes[..]);
        (expected.failures, expected.claims) = (1, 1);
        (expected.error, expected.stack) = (Some(bytes.clone()), Some(bytes));
        assert_job(&mut python, &q, &job.id, &expected);
        let job = q.claim();
        q.fail(&job.receipt);
        expected.claims = 2;
        assert_letter(&mut python, &q, &job.id, "failed", &expected);
    }
}

// What Python writes.

/// A queue whose invariants `assert_whole` looks at: the harness would refuse all but what the module itself writes.
fn queue_of(server: &Server) -> Queue {
    let mut q = server.queue("q");
    q.unwatched();
    q
}

/// Fails unless DQ.CHECK finds nothing, and the keys hold the ids that belong together.
#[track_caller]
fn assert_whole(q: &mut Queue) {
    let raw = q.read_raw();
    assert!(raw.check.is_empty(), "DQ.CHECK: {:?}", raw.check);
    let ids = |list: &[(Vec<u8>, String)]| list.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    let due = raw.due.iter().map(|(member, _)| id_in_member(member).to_vec()).collect();
    let mut live = [due, ids(&raw.leased)].concat();
    live.sort();
    assert_eq!(live, raw.jobs.into_keys().collect::<Vec<_>>(), "due and leased, and jobs");
    let mut dead = ids(&raw.dead_at);
    dead.sort();
    assert_eq!(dead, raw.dead.into_keys().collect::<Vec<_>>(), "dead:at, and dead");
}

/// Fails unless DQ.GET tells of this record.
#[track_caller]
fn assert_got(q: &mut Queue, id: &str, expected: &Record) -> BTreeMap<String, Value> {
    let got = q.get(id).unwrap_or_else(|| panic!("{id} is not there"));
    let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let (retries, lease) = (expected.retries.unwrap_or(300), expected.lease.unwrap_or(30_000));
    for (field, value) in [
        ("failures", expected.failures),
        ("lapses", expected.lapses),
        ("releases", expected.releases),
        ("claims", expected.claims),
        ("attempt", attempt(expected)),
        ("retries", retries),
        ("retries-left", retries.saturating_sub(expected.failures)),
        ("lease-ms", lease.min(12 * 3_600_000)),
        ("backoff-base-ms", expected.backoff_base.unwrap_or(1000)),
        ("backoff-cap-ms", expected.backoff_cap.unwrap_or(300_000)),
    ] {
        assert_eq!(got[field], number(value), "{field} of {id}");
    }
    let bytes = |name: &str| got.get(name).map(bytes);
    assert!(bytes("payload").as_ref() == Some(&expected.payload), "payload of {id}");
    assert!(bytes("error") == expected.error, "error of {id}");
    assert!(bytes("stack") == expected.stack, "stack of {id}");
    got
}

/// The number of the next claim, or of the one that runs.
fn attempt(record: &Record) -> u64 {
    (record.failures + record.lapses + 1).min(u32::MAX.into())
}

/// Has Python write a job, and takes it through all that the module does with one.
fn live_through(q: &mut Queue, python: &mut Python, id: &str, written: &Pack, form: &str, record: &Record) {
    python.write_due(q, id, written, form);
    assert_whole(q);
    let got = assert_got(q, id, record);
    assert_eq!(text(&got["state"]), "ready");
    let jobs = q.claim_n(2);
    assert_eq!(jobs.len(), 1, "{id} alone is due");
    let job = &jobs[0];
    assert_eq!((job.id.as_str(), job.attempt as u64), (id, attempt(record)));
    assert!(job.payload == record.payload, "payload of {id}");
    assert_eq!(job.lease_ms as u64, record.lease.unwrap_or(30_000).min(12 * 3_600_000));
    let retries = record.retries.unwrap_or(300);
    assert_eq!(job.retries_left as u64, retries.saturating_sub(record.failures));

    // The first change writes the record anew, in the form that docs/keys.md documents.
    let counted = |count: u64| (count + 1).min(u32::MAX.into());
    let error = b"e\xff".to_vec();
    let mut after = Record {
        failures: counted(record.failures),
        claims: counted(record.claims),
        late: false,
        error: Some(error.clone()),
        stack: None,
        ..record.clone()
    };
    let in_ms = int(&ok!(q, "RETRY", &job.receipt, "DELAY", 0, "ERROR", &error[..]));
    if after.failures > retries {
        assert_eq!(in_ms, -1);
        assert_letter(python, q, id, "retries-exhausted", &after);
        assert_whole(q);
        return;
    }
    assert_eq!(in_ms, 0);
    assert_job(python, q, id, &after);
    let job = q.claim();
    q.release(&job.receipt);
    (after.releases, after.claims) = (counted(after.releases), counted(after.claims));
    assert_job(python, q, id, &after);
    let job = q.claim();
    assert_eq!(q.ack(&job.receipt), 1);
    assert!(q.get(id).is_none());
    assert_whole(q);
}

/// Records of all kinds.
fn examples() -> Vec<Record> {
    let odd = b"\0\xff\xc1caf\xc3\xa9".to_vec();
    let full = Record {
        payload: odd.clone(),
        birth: Some(1 << 40),
        failures: 3,
        lapses: 2,
        releases: 4,
        claims: 9,
        late: true,
        retries: Some(70_000),
        lease: Some(20_000),
        backoff_base: Some(300),
        backoff_cap: Some(5_000_000_000),
        error: Some(odd.clone()),
        stack: Some(b"s".to_vec()),
    };
    vec![
        record(""),
        record("plain"),
        Record { payload: odd, ..Record::default() },
        Record { birth: Some(77), ..record("born") },
        Record { failures: 5, claims: 5, ..record("retried") },
        Record { lapses: 1, claims: 1, late: true, ..record("lapsed") },
        Record { releases: 1, claims: 1, ..record("released") },
        Record { retries: Some(0), ..record("no retries") },
        Record { lease: Some(1), ..record("lease") },
        Record { backoff_base: Some(1), ..record("base") },
        Record { backoff_cap: Some(1), ..record("cap") },
        Record { error: Some(vec![]), ..record("empty error") },
        Record { stack: Some(b"only".to_vec()), ..record("stack") },
        full,
    ]
}

#[test]
fn the_module_works_on_jobs_that_python_wrote() {
    let server = Server::start();
    let (mut q, mut python) = (queue_of(&server), Python::start(&server));
    for (number, mut example) in examples().into_iter().enumerate() {
        // A lease that ends within the test would be another story.
        example.lease = example.lease.map(|lease| lease.max(10_000));
        for form in FORMS {
            for all in [false, true] {
                let id = format!("job-{number}-{form}-{all}");
                live_through(&mut q, &mut python, &id, &packed(&example, all), form, &example);
            }
        }
    }
}

#[test]
fn the_module_works_on_numbers_of_every_size_that_python_wrote() {
    let server = Server::start();
    let (mut q, mut python) = (queue_of(&server), Python::start(&server));
    type Set = fn(&mut Record, u64);
    let fields: [(&str, u64, Set); 9] = [
        ("birth", u64::MAX, |record, n| record.birth = Some(n.max(1))),
        ("failures", u32::MAX.into(), |record, n| record.failures = n),
        ("lapses", u32::MAX.into(), |record, n| record.lapses = n),
        ("releases", u32::MAX.into(), |record, n| record.releases = n),
        ("claims", u32::MAX.into(), |record, n| record.claims = n),
        ("retries", u32::MAX.into(), |record, n| record.retries = Some(n)),
        ("lease", u64::MAX, |record, n| record.lease = Some(n.max(10_000))),
        ("base", u64::MAX, |record, n| record.backoff_base = Some(n)),
        ("cap", u64::MAX, |record, n| record.backoff_cap = Some(n)),
    ];
    for (field, most, set) in fields {
        for number in BORDERS.into_iter().filter(|number| *number <= most) {
            let mut example = record("x");
            set(&mut example, number);
            for form in FORMS {
                let id = format!("{field}-{number}-{form}");
                live_through(&mut q, &mut python, &id, &packed(&example, false), form, &example);
            }
        }
    }
}

#[test]
fn the_module_works_on_bytes_of_every_length_that_python_wrote() {
    let server = Server::builder().set("max-error", "0").start();
    let (mut q, mut python) = (queue_of(&server), Python::start(&server));
    for length in LENGTHS {
        for form in FORMS {
            let (payload, text) = (noise(length), noise(length));
            let example = Record { payload, error: Some(text.clone()), stack: Some(text), ..Record::default() };
            let id = format!("{length}-{form}");
            live_through(&mut q, &mut python, &id, &packed(&example, false), form, &example);
        }
        // Text, where another language has no bytes.
        let text = "ä".repeat(length / 2);
        let written = Pack::Array(vec![Pack::Int(1), Pack::Str(text.clone())]);
        live_through(&mut q, &mut python, &format!("{length}-text"), &written, "usual", &record(&text));
    }
}

#[test]
fn a_backoff_beyond_all_time_loses_no_job() {
    let server = Server::start();
    let (mut q, mut python) = (queue_of(&server), Python::start(&server));
    for number in [1 << 53, 1 << 63, u64::MAX] {
        let id = format!("base-{number}");
        let example = Record { backoff_base: Some(number), backoff_cap: Some(u64::MAX), ..record("x") };
        python.write_due(&mut q, &id, &packed(&example, false), "usual");
        let job = q.claim();
        let in_ms = q.retry(&job.receipt);
        assert!(in_ms >= 1 << 53, "{in_ms}");
        assert_job(&mut python, &q, &id, &Record { failures: 1, claims: 1, ..example });
        assert_eq!(q.state(&id), "delayed");
        assert!(q.claim_n(10).is_empty());
        assert_whole(&mut q);
    }
}

#[test]
fn the_module_works_on_leases_that_python_wrote() {
    let server = Server::start();
    let mut python = Python::start(&server);
    for (number, example) in examples().into_iter().enumerate() {
        for form in FORMS {
            let id = format!("job-{number}-{form}");
            // A queue that the module does not know: its first command finds it.
            let mut q = server.queue(&id);
            q.unwatched();
            python.write(&q.key("jobs"), &id, &packed(&example, false), form);
            let at = q.now() + 60_000;
            python.score(&q.key("leased"), &id, at);
            assert_whole(&mut q);
            let got = assert_got(&mut q, &id, &example);
            assert_eq!((text(&got["state"]).as_str(), int(&got["lease-ends-at"])), ("leased", at));

            let id = format!("ended-{number}-{form}");
            let mut q = server.queue(&id);
            q.unwatched();
            python.write(&q.key("jobs"), &id, &packed(&example, false), form);
            let at = q.now() - 1000;
            python.score(&q.key("leased"), &id, at);
            q.claim_n(1);
            q.wait_lapse(&id);
            let late = Record { lapses: example.lapses + 1, claims: example.claims + 1, late: true, ..example.clone() };
            assert_job(&mut python, &q, &id, &late);
            assert_whole(&mut q);
            q.make_due(&id);
            let job = q.claim();
            assert_eq!(job.attempt as u64, attempt(&late));
            assert_eq!(q.ack(&job.receipt), 1);
        }
    }
}

#[test]
fn the_module_works_on_letters_that_python_wrote() {
    let server = Server::start();
    let (mut q, mut python) = (queue_of(&server), Python::start(&server));
    for reason in ["retries-exhausted", "failed", "lapses-exhausted", "stale"] {
        for (number, example) in examples().into_iter().enumerate() {
            for form in LETTER_FORMS {
                let id = format!("{reason}-{number}-{form}");
                let at = python.write_dead(&mut q, &id, &letter(reason, &example), form);
                let got = assert_got(&mut q, &id, &example);
                let of_death = ["state", "reason"].map(|field| text(&got[field]));
                assert_eq!(of_death, ["dead", reason]);
                assert_eq!(int(&got["died-at"]), at);
            }
        }
        assert_whole(&mut q);
    }
}

#[test]
fn late_receipts_reach_letters_that_python_wrote() {
    let server = Server::start();
    let (mut q, mut python) = (queue_of(&server), Python::start(&server));
    for form in LETTER_FORMS {
        for act in ["ACK", "FAIL"] {
            let id = format!("{act}-{form}");
            ok!(q, "PUSH", "x", "ID", &id);
            let job = q.claim();
            let mut dead = Record { lapses: 1, claims: 1, late: true, ..record("x") };
            dead.birth = Some(birth_of(&mut q, &mut python, &id));
            python.write_dead(&mut q, &id, &letter("lapses-exhausted", &dead), form);
            q.raw::<i64>(args!["HDEL", q.key("jobs"), &id]);
            q.raw::<i64>(args!["ZREM", q.key("leased"), &id]);
            assert_whole(&mut q);
            if act == "ACK" {
                assert_eq!(q.ack(&job.receipt), 1);
                assert!(q.get(&id).is_none());
            } else {
                ok!(q, "FAIL", &job.receipt, "ERROR", "e");
                let expected = Record { late: false, error: Some(b"e".to_vec()), ..dead };
                assert_letter(&mut python, &q, &id, "failed", &expected);
                assert_eq!(q.ack(&job.receipt), 0);
            }
            assert_whole(&mut q);
        }
    }
}

#[test]
fn what_is_no_record_is_told_and_left_alone() {
    let server = Server::start();
    let (mut q, mut python) = (queue_of(&server), Python::start(&server));
    let whole = Pack::Bin(b"x".to_vec());
    let array = |rest: &[Pack]| Pack::Array([&[Pack::Int(1), whole.clone()][..], rest].concat());
    let at = |place: usize, value: Pack| {
        let Pack::Array(mut items) = packed(&record("x"), true) else { unreachable!("it is an array") };
        items[place] = value;
        Pack::Array(items)
    };
    let mut bad = vec![
        ("nothing", Pack::Bin(vec![]), "raw"),
        ("a tag that means nothing", Pack::Bin(vec![0xc1]), "raw"),
        ("half a record", Pack::Bin(b"\x92\x01\xc4\x05x".to_vec()), "raw"),
        ("a byte too many", Pack::Bin(b"\x92\x01\xc4\x01x\xc0".to_vec()), "raw"),
        ("a map", Pack::Bin(b"\x82\x00\x01\x01\xc4\x01x".to_vec()), "raw"),
        ("text", Pack::Str("x".to_string()), "usual"),
        ("a number", Pack::Int(1), "usual"),
        ("an empty array", Pack::Array(vec![]), "usual"),
        ("no payload", Pack::Array(vec![Pack::Int(1)]), "usual"),
        ("a nil payload", at(1, Pack::Nil), "usual"),
        ("a payload of numbers", at(1, Pack::Array(vec![Pack::Int(120)])), "usual"),
        ("version 0", at(0, Pack::Int(0)), "usual"),
        ("version 2", at(0, Pack::Int(2)), "usual"),
        ("an element too many", array(&vec![Pack::Nil; 13]), "usual"),
        ("late as a number", at(7, Pack::Int(1)), "usual"),
        ("an error as a number", at(12, Pack::Int(1)), "usual"),
        ("a letter", letter("failed", &record("x")), "usual"),
    ];
    for place in [2, 3, 4, 5, 6, 8, 9, 10, 11] {
        bad.push(("a number below 0", at(place, Pack::Int(-1)), "usual"));
        bad.push(("a number as text", at(place, Pack::Str("1".to_string())), "usual"));
    }
    for place in [3, 4, 5, 6, 8] {
        bad.push(("a count over 32 bits", at(place, Pack::Int(1 << 32)), "usual"));
    }
    for (number, (what, value, form)) in bad.iter().enumerate() {
        let id = format!("bad-{number}");
        python.write_due(&mut q, &id, value, form);
        let bytes: Vec<u8> = q.raw(args!["HGET", q.key("jobs"), &id]);
        let check = list(&ok!(q, "CHECK"));
        assert_eq!(check.iter().map(texts).collect::<Vec<_>>(), [["bad-record", &id]], "{what}");
        assert!(q.call("GET", args![&id]).is_err(), "{what}");
        assert!(q.claim_n(10).is_empty(), "{what}");
        assert_eq!(q.raw::<Vec<u8>>(args!["HGET", q.key("jobs"), &id]), bytes, "{what}");
        q.raw::<i64>(args!["HDEL", q.key("jobs"), &id]);
        q.raw::<i64>(args!["ZREM", q.key("due"), &id]);
        python.write_dead(&mut q, &id, value, form);
        if !what.contains("a letter") {
            let check = list(&ok!(q, "CHECK"));
            assert_eq!(check.iter().map(texts).collect::<Vec<_>>(), [["bad-letter", &id]], "{what}");
            assert!(q.call("GET", args![&id]).is_err(), "{what}");
        }
        q.raw::<i64>(args!["DEL", q.key("dead"), q.key("dead:at")]);
    }
    // A reason that nobody gives.
    python.write_dead(&mut q, "x", &letter("bored", &record("x")), "usual");
    assert_eq!(list(&ok!(q, "CHECK")).len(), 1);
    q.raw::<i64>(args!["DEL", q.key("dead"), q.key("dead:at")]);
    assert_eq!(q.push_and_claim("after all that").attempt, 1);
}

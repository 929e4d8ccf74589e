//! The job record, the dead letter and the header, read and written by another language.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::args;
use crate::common::*;
use crate::ok;

/// Runs a Python program on some input, with Debian's python3-msgpack.
fn python(program: &str, input: &str) -> String {
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("python3 reads");
    let output = child.wait_with_output().expect("python3 ends");
    assert!(
        output.status.success(),
        "python3 with python3-msgpack is needed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("python3 prints UTF-8").trim().to_string()
}

/// Decodes MessagePack in Python; gives Python's spelling of the value.
fn decode(bytes: &[u8]) -> String {
    python(
        "import sys, msgpack\n\
         value = msgpack.unpackb(bytes.fromhex(sys.stdin.read()), raw=False)\n\
         print(ascii(value))",
        &hex(bytes),
    )
}

/// Encodes a value in Python's spelling.
fn encode(value: &str) -> Vec<u8> {
    let text = python(
        "import sys, ast, msgpack\n\
         value = ast.literal_eval(sys.stdin.read())\n\
         print(msgpack.packb(value, use_bin_type=True).hex())",
        value,
    );
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn raw_job(q: &mut Queue, id: &str) -> Vec<u8> {
    let key = q.key("jobs");
    q.raw::<Option<Vec<u8>>>(args!["HGET", key, id]).expect("the job is there")
}

fn raw_letter(q: &mut Queue, id: &str) -> Vec<u8> {
    let key = q.key("dead");
    q.raw::<Option<Vec<u8>>>(args!["HGET", key, id]).expect("the letter is there")
}

#[test]
fn a_fresh_record_is_a_version_and_a_payload() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("hello");
    let raw = raw_job(&mut q, &id);
    assert_eq!(decode(&raw), "[1, b'hello']");
    assert_eq!(raw, encode("[1, b'hello']"), "byte for byte what Python makes");
}

#[test]
fn a_record_adds_at_most_8_bytes_to_a_payload_of_100() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push(vec![b'p'; 100]);
    let raw = raw_job(&mut q, &id);
    assert!(raw.len() <= 108, "{} bytes", raw.len());
}

#[test]
fn python_reads_every_field() {
    let server = Server::start();
    let mut q = server.queue("q");
    let before = q.now();
    ok!(
        q,
        "PUSH",
        &b"\0\xff%s"[..],
        "ID",
        "mine",
        "RETRIES",
        70_000,
        "LEASE",
        43_200_000,
        "BACKOFF",
        1,
        2_592_000_000_i64
    );
    let job = q.claim();
    ok!(q, "RETRY", job.receipt, "DELAY", 0, "ERROR", "größe", "STACK", &b"\xfe\0"[..]);
    let job = q.claim();
    q.release(&job.receipt);
    q.claim_and_lapse();
    let birth = q.record("mine").birth.expect("a caller's id has a birth");
    let expected = format!(
        "[1, b'\\x00\\xff%s', {birth}, 1, 1, 1, 3, True, 70000, 43200000, 1, 2592000000, \
         b'gr\\xc3\\xb6\\xc3\\x9fe', b'\\xfe\\x00']"
    );
    let raw = raw_job(&mut q, "mine");
    assert_eq!(decode(&raw), expected);
    assert_eq!(raw, encode(&expected), "byte for byte what Python makes");
    // The birth is the number of an id that the server made at the push.
    let made = birth >> 22;
    assert_between(made as i64, before, q.now());
}

#[test]
fn records_end_with_the_last_value_that_differs() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("x");
    let job = q.claim();
    ok!(q, "RETRY", job.receipt, "DELAY", 0);
    assert_eq!(decode(&raw_job(&mut q, &id)), "[1, b'x', None, 1, 0, 0, 1]");
    let id = text(&ok!(q, "PUSH", "x", "RETRIES", 0));
    assert_eq!(decode(&raw_job(&mut q, &id)), "[1, b'x', None, 0, 0, 0, 0, False, 0]");
}

#[test]
fn payloads_of_every_length_class() {
    let server = Server::start();
    let mut q = server.queue("q");
    for length in [0, 1, 31, 32, 255, 256, 65_535, 65_536, 200_000] {
        let payload = vec![0xc1u8; length];
        let id = q.push(&payload[..]);
        let raw = raw_job(&mut q, &id);
        let program = "import sys, msgpack\n\
             version, payload = msgpack.unpackb(bytes.fromhex(sys.stdin.read()), raw=False)\n\
             print(version, len(payload), set(payload) <= {0xc1}, type(payload).__name__)";
        assert_eq!(python(program, &hex(&raw)), format!("1 {length} True bytes"));
    }
}

#[test]
fn python_reads_a_letter() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("payload");
    ok!(q, "FAIL", job.receipt, "ERROR", "e", "STACK", "s");
    let raw = raw_letter(&mut q, &job.id);
    let expected = "[1, 'failed', [1, b'payload', None, 0, 0, 0, 1, False, None, None, None, None, \
                    b'e', b's']]";
    assert_eq!(decode(&raw), expected);
    assert_eq!(raw, encode(expected));
    ok!(q, "PUSH", "x", "RETRIES", 0);
    let job = q.claim();
    q.retry(&job.receipt);
    assert_eq!(decode(&raw_letter(&mut q, &job.id)), "[1, 'retries-exhausted', [1, b'x', None, 1, 0, 0, 1, False, 0]]");
    server.set("max-lapses", "1");
    q.push("y");
    let job = q.claim_and_lapse();
    assert_eq!(decode(&raw_letter(&mut q, &job.id)), "[1, 'lapses-exhausted', [1, b'y', None, 0, 1, 0, 1, True]]");
}

#[test]
fn a_job_written_by_python_is_handed_out() {
    let server = Server::start();
    let mut q = server.queue("q");
    let now = q.now();
    for (id, value) in [
        ("00000000001", "[1, b'plain']"),
        ("00000000002", "[1, b'\\x00\\xff', None, 3, 2, 1, 6]"),
        ("00000000003", "[1, b'full', None, 0, 0, 0, 0, False, 7, 9000, 2000, 60000, b'e', b's']"),
        // What is spelled out though it is the default reads the same.
        ("00000000004", "[1, b'long', None, 0, 0, 0, 0, False, None, None, None, None, None, None]"),
    ] {
        q.unwatched();
        q.raw::<i64>(args!["HSET", q.key("jobs"), id, encode(value)]);
        q.raw::<i64>(args!["ZADD", q.key("due"), now - 1000, id]);
        q.watched();
    }
    assert_eq!(q.raw::<i64>(args!["EXISTS", "q"]), 0, "there is no header");
    let jobs = q.claim_n(10);
    let seen: Vec<(&[u8], i64, i64, i64)> =
        jobs.iter().map(|job| (&job.payload[..], job.attempt, job.lease_ms, job.retries_left)).collect();
    assert_eq!(
        seen,
        [
            (&b"plain"[..], 1, 30_000, 300),
            (&b"\0\xff"[..], 6, 30_000, 297),
            (&b"full"[..], 1, 9000, 7),
            (&b"long"[..], 1, 30_000, 300),
        ]
    );
    assert_eq!(q.retry(&jobs[1].receipt), 8000, "the fourth failure");
    assert_eq!(q.retry(&jobs[2].receipt), 2000);
    for job in [&jobs[0], &jobs[3]] {
        assert_eq!(q.ack(&job.receipt), 1);
    }
}

#[test]
fn a_lease_and_a_letter_written_by_python_are_taken_over() {
    let server = Server::start();
    let mut q = server.queue("q");
    let now = q.now();
    q.unwatched();
    q.raw::<i64>(args!["HSET", "q", "dq", "1", "made", now]);
    let record = encode("[1, b'held', None, 0, 0, 0, 4]");
    q.raw::<i64>(args!["HSET", q.key("jobs"), "00000000001", record]);
    q.raw::<i64>(args!["ZADD", q.key("leased"), now + 500, "00000000001"]);
    let letter = encode("[1, 'failed', [1, b'dead', None, 1, 0, 0, 1, False, None, None, None, None, b'e']]");
    q.raw::<i64>(args!["HSET", q.key("dead"), "00000000002", letter]);
    q.raw::<i64>(args!["ZADD", q.key("dead:at"), now - 500, "00000000002"]);
    q.watched();
    // A queue that is not found yet is found by its first command.
    assert_eq!(q.stats(["leased", "dead"]), [1, 1]);
    q.wait_lapse("00000000001");
    assert_eq!(q.claim().attempt, 2);
    assert_eq!(q.field("00000000002", "reason"), "failed");
    assert_eq!(q.field("00000000002", "error"), "e");
    assert_eq!(q.field("00000000002", "payload"), "dead");
}

#[test]
fn the_header_is_plain_text() {
    let server = Server::start();
    let mut q = server.queue("q");
    let before = q.now();
    q.push("x");
    let header: Vec<String> = q.raw(args!["HGETALL", "q"]);
    let fields: Vec<&str> = header.iter().step_by(2).map(String::as_str).collect();
    assert_eq!(fields, ["dq", "made"]);
    assert_eq!(header[1], "1");
    assert_between(header[3].parse().expect("ms"), before, q.now());
}

#[test]
fn an_id_spells_its_time() {
    let server = Server::start();
    let mut q = server.queue("q");
    let before = q.now();
    let id = q.push("x");
    let digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let number = id.bytes().fold(0u64, |sum, byte| {
        let digit = digits.bytes().position(|d| d == byte).expect("a digit");
        sum * 62 + digit as u64
    });
    assert_between((number >> 22) as i64, before, q.now());
    assert_between(q.field(&id, "pushed-at").parse().expect("ms"), before, q.now());
}

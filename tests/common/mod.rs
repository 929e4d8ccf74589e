//! What every test stands on: servers, queues, the keyspace, waiting.

use std::time::{Duration, Instant};

use redis::Value;

// Not for every suite.
#[allow(dead_code)]
pub mod builds;
#[allow(dead_code)]
pub mod caller;
#[allow(dead_code)]
pub mod dice;
#[allow(dead_code)]
pub mod sentinel;

pub mod dump;
pub mod msgpack;
pub mod preload;
pub mod queue;
pub mod scenarios;
pub mod server;
pub mod wall;

pub use queue::{error_text, ints, pairs, texts, Job, Queue};
pub use server::{assert_replica_same, Server};

/// How long a test waits for what must come. Only a broken module makes it wait so long.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// How long it pauses between two looks.
pub const PAUSE: Duration = Duration::from_millis(3);

/// Waits until `look` gives something.
pub fn wait_until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_at_most(DEADLINE, what, look)
}

/// The same with a deadline of the caller's.
pub fn wait_at_most<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Waits until `look` says yes.
pub fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    wait_until(what, || look().then_some(()));
}

/// Says that the test cannot run on this server, and why; `make test-matrix` tells of it in the README. The test returns.
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
}

/// A reply as bytes.
pub fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes.clone(),
        Value::SimpleString(text) => text.clone().into_bytes(),
        Value::VerbatimString { text, .. } => text.clone().into_bytes(),
        Value::Okay => b"OK".to_vec(),
        other => panic!("not a string: {other:?}"),
    }
}

/// A reply as text.
pub fn text(value: &Value) -> String {
    String::from_utf8(bytes(value)).unwrap_or_else(|e| panic!("not UTF-8: {e}"))
}

/// A reply as an integer.
pub fn int(value: &Value) -> i64 {
    match value {
        Value::Int(n) => *n,
        other => panic!("not an integer: {other:?}"),
    }
}

/// A reply as a list.
pub fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::Set(items) => items.clone(),
        other => panic!("not an array: {other:?}"),
    }
}

/// Spellings that are no duration and no whole number.
pub const NOT_NUMBERS: &[&[u8]] = &[
    b"",
    b" ",
    b"-1",
    b"-0",
    b"+1",
    b"1.5",
    b"1e3",
    b" 1",
    b"1 ",
    b"0x10",
    b"1_000",
    b"1,000",
    b"abc",
    b"NaN",
    b"inf",
    b"%s",
    b"1%n",
    b"1\0",
    b"\0",
    b"\xff\xfe",
    b"1w",
    b"5ss",
    b"1d1h",
    b"-9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"18446744073709551615d",
    b"99999999999999999999999999999999",
    "\u{661}".as_bytes(),
];

/// Numbers of 63 and 64 bits that no option of the module reaches.
pub const BEYOND: &[&str] = &["9223372036854775807", "9223372036854775808", "18446744073709551615"];

/// Payloads and texts that a careless server would mangle.
pub fn odd_bytes() -> Vec<Vec<u8>> {
    vec![
        Vec::new(),
        vec![0],
        b"\0\0\0".to_vec(),
        b"a\0b".to_vec(),
        b"%s%s%s%n%x".to_vec(),
        b"\xff\xfe\xfd".to_vec(),
        b"\xc3\x28".to_vec(),
        b"line\r\nline\n".to_vec(),
        b"+OK\r\n$-1\r\n*0\r\n".to_vec(),
        "größe 日本語 🦀".as_bytes().to_vec(),
        (0..=255).collect(),
        vec![b'x'; 70_000],
    ]
}

/// Fails unless the error has this code and names all of these.
#[track_caller]
pub fn assert_error(error: &str, code: &str, names: &[&str]) {
    assert!(error.split(' ').next() == Some(code), "the code was to be {code}: {error}");
    for name in names {
        assert!(error.contains(name), "it was to name {name}: {error}");
    }
}

/// Fails unless `value` lies between the two, give or take a second.
#[track_caller]
pub fn assert_between(value: i64, least: i64, most: i64) {
    assert!((least - 1000..=most + 1000).contains(&value), "{value} is not between {least} and {most}");
}

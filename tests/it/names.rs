//! Names of queues: which are refused, and which keys the others have.

use redis::Value;

use super::bad_input::all_commands;
use crate::args;
use crate::common::queue::companion_key;
use crate::common::*;
use crate::ok;

#[test]
fn forbidden_names_are_refused_by_every_command() {
    let server = Server::start();
    let receipt = server.queue("other").push_and_claim("x").receipt;
    let long = vec![b'n'; 4097];
    for name in [
        &b""[..],
        b"{x}",
        b"{a b}",
        b"{\0}",
        b"}",
        b"a}",
        b"a}b",
        b"}a{",
        b"{}",
        b"{}a",
        b"a{}",
        b"a{}b}",
        b"dq:",
        b"dq:x",
        b"dq:{x}",
        b"dq:{x}:due",
        b"dq:{x}:jobs",
        b"dq:%s%n",
        &long,
    ] {
        let mut q = server.queue(name);
        q.unwatched();
        for (command, words) in all_commands(&receipt, "some") {
            let e = q.err(command, words);
            assert_error(&e, "ERR", &["name"]);
        }
    }
}

#[test]
fn all_other_names_work() {
    let server = Server::start();
    let long = vec![b'n'; 4096];
    for name in [
        &b"mail"[..],
        b"a",
        b" ",
        b"\0",
        b"\r\n",
        b"%s%s%n",
        b"\xff\xfe",
        "größe 日本語".as_bytes(),
        b"{tenant7}:mail",
        b"mail:{tenant7}",
        b"a{b}c",
        b"{a}{b}",
        b"a{b",
        b"{",
        b"DQ:x",
        b"dq",
        b"d",
        b"q*[a-z]?",
        b"a:b:c",
        b"jobs",
        &long,
    ] {
        let mut q = server.queue(name);
        ok!(q, "PUSH", "dead");
        let job = q.claim();
        q.fail(&job.receipt);
        ok!(q, "PUSH", name, "ID", "mine");
        let job = q.claim();
        assert_eq!(job.payload, name);
        ok!(q, "PUSH", "due");
        let keys: std::collections::BTreeSet<Vec<u8>> = server.dump().0.into_keys().map(|(_, key)| key).collect();
        let mut expected: std::collections::BTreeSet<Vec<u8>> =
            super::bad_input::COMPANIONS.iter().map(|companion| companion_key(name, companion)).collect();
        expected.insert(name.to_vec());
        assert_eq!(keys, expected);
        assert_eq!(q.ack(&job.receipt), 1);
        drop(q);
        server.run(&["FLUSHALL"]);
    }
}

#[test]
fn all_keys_of_a_queue_are_in_its_slot() {
    for name in [&b"mail"[..], b"{tenant7}:mail", b"mail:{tenant7}", b"a{b}c", b"{a}{b}", b"a{b", b"{", b"\0\xff"] {
        for companion in super::bad_input::COMPANIONS {
            let key = companion_key(name, companion);
            assert_eq!(slot(&key), slot(name), "{}", key.escape_ascii());
        }
    }
    // The rule that the test itself follows is the cluster specification's.
    assert_eq!(slot(b"123456789"), 0x31c3);
}

#[test]
fn a_name_with_a_tag_is_used_as_it_is() {
    let server = Server::start();
    let mut q = server.queue("{tenant7}:mail");
    q.push("x");
    let there: i64 = q.raw(args!["EXISTS", "{tenant7}:mail", "dq:{tenant7}:mail:due", "dq:{tenant7}:mail:jobs"]);
    assert_eq!(there, 3);
}

#[test]
fn names_that_differ_share_nothing() {
    let server = Server::start();
    let names = ["a", "A", "a ", "a{b", "{x}a", "x", "{x}:a", "a{x}"];
    for name in names {
        server.queue(name).push(name);
    }
    for name in names {
        let mut q = server.queue(name);
        assert_eq!(q.claim().payload, name.as_bytes());
        assert_eq!(ok!(q, "CLAIM"), Value::Array(vec![]));
    }
}

/// The slot of a key in a cluster.
fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|b| *b == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let length = rest.iter().position(|b| *b == b'}')?;
        (length > 0).then(|| &rest[..length])
    });
    let crc = tag.unwrap_or(key).iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| (crc << 1) ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 })
    });
    crc % 16384
}

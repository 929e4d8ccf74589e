//! What no command may choke on: keys of other types, huge arguments, missing arguments, noise.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::queue::companion_key;
use crate::common::*;
use crate::{args, err, ok};

pub const COMPANIONS: [&str; 6] = ["due", "leased", "jobs", "ids", "dead", "dead:at"];

/// The commands that change nothing.
pub const READS: &[&str] = &["STATS", "GET", "PEEK", "CHECK"];

/// All whose first argument is the queue.
const NAMES: &[&str] = &[
    "PUSH",
    "MPUSH",
    "CLAIM",
    "ACK",
    "RETRY",
    "RELEASE",
    "FAIL",
    "EXTEND",
    "STATS",
    "GET",
    "PEEK",
    "CANCEL",
    "RESCHEDULE",
    "PURGE",
    "REPLAY",
    "DROP",
    "CONFIG",
    "CHECK",
    "REPAIR",
];

/// Every command with arguments that would do something, given a receipt and an id.
pub fn all_commands(receipt: &str, id: &str) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    vec![
        ("PUSH", args!["x"]),
        ("PUSH", args!["x", "ID", "mine"]),
        ("PUSH", args!["x", "ID", id, "REPLACE"]),
        ("MPUSH", args!["PAYLOADS", "a", "b"]),
        ("MPUSH", args!["JOBS", "", 0, "a", "yours", 5, "b"]),
        ("CLAIM", args!["COUNT", 5]),
        ("ACK", args![receipt]),
        ("RETRY", args![receipt]),
        ("RELEASE", args!["RECEIPTS", receipt]),
        ("FAIL", args![receipt]),
        ("EXTEND", args![5000, receipt]),
        ("STATS", args![]),
        ("GET", args![id]),
        ("PEEK", args![]),
        ("RESCHEDULE", args!["DELAY", "1h", "IDS", id]),
        ("RESCHEDULE", args!["DELAY", "1h", "ALL"]),
        ("REPLAY", args!["DELAY", "1h", "IDS", id]),
        ("REPLAY", args!["DELAY", "1h", "ALL"]),
        ("CANCEL", args![id]),
        ("PURGE", args!["STATE", "ready", "delayed", "leased", "dead"]),
        ("CONFIG", args!["GET"]),
        ("CONFIG", args!["SET", "lease", "7s"]),
        ("CONFIG", args!["RESET", "lease"]),
        ("DROP", args!["FORCE"]),
        ("CHECK", args![]),
        ("REPAIR", args![]),
    ]
}

/// Puts something of another type under `key`.
fn spoil(q: &mut Queue, key: &[u8], kind: &str) {
    let words = match kind {
        "string" => args!["SET", key, "x"],
        "list" => args!["RPUSH", key, "x"],
        "set" => args!["SADD", key, "x"],
        "zset" => args!["ZADD", key, 1, "x"],
        "hash" => args!["HSET", key, "x", "y"],
        _ => args!["XADD", key, "*", "x", "y"],
    };
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("DEL").arg(key).ignore();
    let mut command = redis::Cmd::new();
    command.arg(words);
    pipe.add_command(command).ignore();
    pipe.exec(&mut q.con).expect("the key is spoiled");
}

/// Whether a command of a queue that the server knows looks at one of its keys: at those that it may write to, and a
/// reader at all of them.
fn looks_at(name: &str, words: &[Vec<u8>], key: &[u8]) -> bool {
    let is = |companion: &str| key.ends_with(format!(":{companion}").as_bytes());
    let (is_header, is_letter) = (!key.starts_with(b"dq:"), is("dead") || is("dead:at"));
    let own_ids = words.iter().any(|word| word == b"ID" || word == b"JOBS");
    match name {
        "PUSH" | "MPUSH" => !is_letter && (own_ids || !(is("ids") || is("leased"))),
        "CLAIM" => !is_letter && !is("ids"),
        "ACK" | "RELEASE" | "EXTEND" => !is_header && !is_letter && !is("ids"),
        _ => true,
    }
}

const KINDS: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];

#[test]
fn a_key_of_another_type_is_wrongtype_and_untouched() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "dead", "ID", "gone");
    let job = q.claim();
    q.fail(&job.receipt);
    ok!(q, "PUSH", "due", "DELAY", "1h", "ID", "taken");
    let held = q.push_and_claim("held");
    q.unwatched();
    let header = q.name.clone();
    let mut keys = vec![(header, "hash")];
    for companion in COMPANIONS {
        let kind = match companion {
            "jobs" | "dead" => "hash",
            _ => "zset",
        };
        keys.push((q.key(companion), kind));
    }
    for (key, own) in keys {
        for kind in KINDS.into_iter().filter(|kind| *kind != own) {
            q.raw::<()>(args!["RENAME", &key, "aside"]);
            spoil(&mut q, &key, kind);
            for (name, words) in all_commands(&held.receipt, &held.id) {
                if looks_at(name, &words, &key) {
                    let e = q.err(name, words);
                    assert_error(&e, "WRONGTYPE", &[]);
                }
            }
            q.raw::<i64>(args!["DEL", &key]);
            q.raw::<()>(args!["RENAME", "aside", &key]);
        }
    }
    q.watched();
    assert_eq!(q.ack(&held.receipt), 1);
}

#[test]
fn a_command_leaves_keys_that_it_has_no_use_for_alone() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut held = vec![q.push_and_claim("held")];
    q.unwatched();
    for key in ["ids", "dead", "dead:at"].map(|companion| q.key(companion)) {
        for kind in KINDS {
            spoil(&mut q, &key, kind);
            let before: Vec<u8> = q.raw(args!["DUMP", &key]);
            let id = q.push("x");
            held.push(q.claim());
            assert_eq!(held[1].id, id);
            assert_eq!(q.extend(60_000, &held[1].receipt), 60_000);
            assert_eq!(q.release(&held[0].receipt), 0);
            held[0] = q.claim();
            assert_eq!(q.ack(&held.remove(0).receipt), 1);
            assert_eq!(q.ack("00000000001:1"), 0, "no letter either");
            assert_eq!(before, q.raw::<Vec<u8>>(args!["DUMP", &key]), "{kind}");
            q.raw::<i64>(args!["DEL", &key]);
        }
    }
    q.watched();
    assert_eq!(q.ack(&held[0].receipt), 1);
}

#[test]
fn a_queue_that_is_met_for_the_first_time_is_looked_at_as_a_whole() {
    let server = Server::start();
    for (number, companion) in COMPANIONS.into_iter().enumerate() {
        let mut q = server.queue(format!("new{number}"));
        let key = q.key(companion);
        q.unwatched();
        spoil(&mut q, &key, "string");
        for (name, words) in all_commands("00000000001:1", "some") {
            let e = q.err(name, words);
            assert_error(&e, "WRONGTYPE", &[]);
        }
    }
}

#[test]
fn a_foreign_hash_under_the_name_is_wrongtype() {
    let server = Server::start();
    let mut q = server.queue("user:1");
    q.unwatched();
    q.raw::<i64>(args!["HSET", "user:1", "name", "somebody", "made", 5]);
    let receipt = server.queue("other").push_and_claim("x").receipt;
    for (name, words) in all_commands(&receipt, "some") {
        let e = q.err(name, words);
        assert_error(&e, "WRONGTYPE", &[]);
    }
}

#[test]
fn timers_leave_keys_of_other_types_alone() {
    let mut server = Server::builder().set("purge-interval", "10").set("stale-after", "1").start();
    let kinds = ["string", "list", "set", "stream", "zset", "hash"];
    for (companion, kind) in COMPANIONS.into_iter().zip(kinds) {
        let mut q = server.queue(format!("spoiled-{companion}"));
        q.unwatched();
        for n in 0..3 {
            ok!(q, "PUSH", n, "ID", format!("id-{n}"), "KEEP", 1);
        }
        q.claim_with(args!["COUNT", 2, "LEASE", 1]);
        let key = q.key(companion);
        spoil(&mut q, &key, kind);
    }
    // The healthy queue beside them is served all the same.
    let mut q = server.queue("healthy");
    let job = wait_until("a job that the purge left", || {
        q.push("x");
        q.claim_with(args!["LEASE", 1]).pop()
    });
    q.wait_lapse(&job.id);
    server.assert_alive();
    let kept = server.dump();
    for (companion, kind) in COMPANIONS.into_iter().zip(kinds) {
        let key = companion_key(format!("spoiled-{companion}").as_bytes(), companion);
        let (content, _) = &kept.0[&(0, key)];
        let found = match content {
            dump::Content::Hash(_) => "hash",
            dump::Content::Zset(_) => "zset",
            dump::Content::Other(kind, _) => kind,
        };
        assert_eq!(found, kind, "{companion}");
    }
}

#[test]
fn too_few_arguments() {
    let server = Server::start();
    let mut q = server.queue("q");
    for (name, words) in [
        ("PUSH", args![]),
        ("MPUSH", args![]),
        ("MPUSH", args!["PAYLOADS"]),
        ("MPUSH", args!["NX"]),
        ("RESCHEDULE", args![]),
        ("PURGE", args![]),
        ("REPLAY", args![]),
        ("ACK", args![]),
        ("RETRY", args![]),
        ("RELEASE", args![]),
        ("RELEASE", args!["RECEIPTS"]),
        ("FAIL", args![]),
        ("EXTEND", args![]),
        ("EXTEND", args![5]),
        ("GET", args![]),
        ("CANCEL", args![]),
        ("RESCHEDULE", args!["DELAY", 1]),
        ("RESCHEDULE", args!["DELAY", 1, "IDS"]),
        ("CANCEL", args!["STATE", "dead"]),
        ("PURGE", args!["STATE"]),
        ("REPLAY", args!["IDS"]),
    ] {
        assert_error(&q.err(name, words), "ERR", &[]);
    }
    for name in NAMES {
        let e = redis::cmd(&format!("DQ.{name}")).query::<redis::Value>(&mut q.con).expect_err("there is no queue");
        assert!(error_text(&e).contains("wrong number of arguments"), "{e}");
    }
}

#[test]
fn an_error_names_what_is_missing_or_allowed() {
    let server = Server::start();
    server.set("max-delay", "36h");
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let r = &job.receipt;
    for (name, words, expected) in [
        ("RELEASE", args![], "ERR RECEIPTS is missing"),
        ("RELEASE", args!["DELAY", "5s"], "ERR RECEIPTS is missing"),
        ("RELEASE", args![r], &format!("ERR RECEIPTS is missing before '{r}'")),
        ("RELEASE", args!["DELAY", "5s", r], &format!("ERR RECEIPTS is missing before '{r}'")),
        ("PURGE", args![], "ERR STATE is missing"),
        ("PURGE", args!["dead"], "ERR STATE is missing before 'dead'"),
        ("PURGE", args!["STATE"], "ERR STATE needs a value"),
        ("REPLAY", args![], "ERR ALL or IDS is missing"),
        ("REPLAY", args!["DELAY", "5s"], "ERR ALL or IDS is missing"),
        ("RESCHEDULE", args![], "ERR DELAY or AT is missing"),
        ("RESCHEDULE", args!["ALL"], "ERR DELAY or AT is missing"),
        ("RESCHEDULE", args!["DELAY", "5s"], "ERR ALL or IDS is missing"),
        ("MPUSH", args![], "ERR PAYLOADS or JOBS is missing"),
        ("MPUSH", args!["DELAY", "5s"], "ERR PAYLOADS or JOBS is missing"),
        ("ACK", args!["EACH", r], "ERR EACH must come after the receipts"),
        ("CONFIG", args!["SET"], "ERR SET needs a field and its value"),
        ("CONFIG", args!["RESET"], "ERR RESET needs a field"),
        ("CONFIG", args!["GET", "lease", "max-delay"], "ERR GET takes one field, or none for all"),
        ("PUSH", args!["x", "DELAY", "2d"], "DQDELAY DELAY must be at most 36h (max-delay), not 2d"),
        (
            "MPUSH",
            args!["DELAY", "129600001", "PAYLOADS", "x"],
            "DQDELAY DELAY must be at most 36h (max-delay), not 129600001ms",
        ),
        ("MPUSH", args!["JOBS", "", "37h", "x"], "DQDELAY DELAY must be at most 36h (max-delay), not 37h"),
        ("RETRY", args![r, "DELAY", "37h"], "DQDELAY DELAY must be at most 36h (max-delay), not 37h"),
        ("RELEASE", args!["DELAY", "37h", "RECEIPTS", r], "DQDELAY DELAY must be at most 36h (max-delay), not 37h"),
        ("RESCHEDULE", args!["DELAY", "37h", "ALL"], "DQDELAY DELAY must be at most 36h (max-delay), not 37h"),
        ("REPLAY", args!["SPREAD", "37h", "ALL"], "DQDELAY SPREAD must be at most 36h (max-delay), not 37h"),
        (
            "REPLAY",
            args!["DELAY", "30h", "SPREAD", "10h", "ALL"],
            "DQDELAY DELAY and SPREAD together must be at most 36h (max-delay), not 40h",
        ),
        ("PUSH", args!["x", "AT", 4_000_000_000_000_i64], "DQDELAY AT must be at most 36h (max-delay) from now"),
        (
            "RESCHEDULE",
            args!["AT", 4_000_000_000_000_i64, "ALL"],
            "DQDELAY AT must be at most 36h (max-delay) from now",
        ),
        ("CLAIM", args!["LEASE", "13h"], "ERR LEASE must be at most 12h (dq.max-lease), not 13h"),
        ("EXTEND", args!["13h", r], "ERR ms must be at most 12h (dq.max-lease), not 13h"),
        (
            "CLAIM",
            args!["BLOCK", "25h"],
            "ERR BLOCK must be a duration from 0ms to 1d: a whole number of ms, which ms, s, m, h or d may follow",
        ),
    ] {
        assert_eq!(q.err(name, words.clone()), expected, "{name} {}", words.len());
    }
    let error = server.try_run(&["DQ.MCLAIM", "1", "q", "ORDER", "random"]).expect_err("no such order");
    assert_eq!(error_text(&error), "ERR ORDER must be strict or rotate, not 'random'");
    assert_eq!(q.ack(r), 1);
}

/// Sends a command whose argument number `huge` has `size` bytes; gives the first line of the
/// reply. The argument is streamed, so that the test does not hold it.
fn send_huge(server: &Server, words: &[&[u8]], huge: usize, size: usize) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens");
    let mut head = format!("*{}\r\n", words.len()).into_bytes();
    let chunk = vec![b'x'; 1 << 20];
    for (i, word) in words.iter().enumerate() {
        if i != huge {
            head.extend(format!("${}\r\n", word.len()).into_bytes());
            head.extend_from_slice(word);
            head.extend(b"\r\n");
            continue;
        }
        head.extend(format!("${size}\r\n").into_bytes());
        stream.write_all(&head).expect("the server reads");
        head.clear();
        let mut left = size;
        while left > 0 {
            let now = left.min(chunk.len());
            stream.write_all(&chunk[..now]).expect("the server reads");
            left -= now;
        }
        head.extend(b"\r\n");
    }
    stream.write_all(&head).expect("the server reads");
    let mut line = Vec::new();
    let mut byte = [0u8];
    while stream.read_exact(&mut byte).is_ok() && byte[0] != b'\r' {
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("an error is text")
}

#[test]
fn arguments_of_half_a_gigabyte() {
    const HUGE: usize = 512 << 20;
    let mut server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    // Sending it all may take longer than a lease.
    q.extend(3_600_000, &job.receipt);
    let r = job.receipt.as_bytes();
    let before = server.dump();
    let line = send_huge(&server, &[b"DQ.PUSH", b"q", b""], 2, HUGE);
    assert!(line.starts_with("-DQSIZE "), "{line}");
    for (words, huge) in [
        (vec![&b"DQ.PUSH"[..], b"", b"x"], 1),
        (vec![&b"DQ.PUSH"[..], b"q", b"x", b""], 3),
        (vec![&b"DQ.PUSH"[..], b"q", b"x", b"ID", b""], 4),
        (vec![&b"DQ.CLAIM"[..], b"q", b"COUNT", b""], 3),
        (vec![&b"DQ.ACK"[..], b"q", r, b""], 3),
        (vec![&b"DQ.EXTEND"[..], b"q", b"", r], 2),
    ] {
        let line = send_huge(&server, &words, huge, HUGE);
        assert!(line.starts_with("-ERR "), "{line}");
        assert!(line.len() < 1000, "an error of {} bytes", line.len());
    }
    assert_eq!(server.dump(), before);
    server.assert_alive();
}

#[test]
fn huge_texts_are_cut() {
    let server = Server::start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    let line = send_huge(&server, &[b"DQ.FAIL", b"q", job.receipt.as_bytes(), b"ERROR", b""], 4, 64 << 20);
    assert_eq!(line, "+OK");
    assert_eq!(q.letter(&job.id).1.error.map(|e| e.len()), Some(65_536));
}

#[test]
fn errors_show_a_short_and_printable_form_of_what_was_sent() {
    let server = Server::start();
    let mut q = server.queue("q");
    let mut option = vec![b'%', b's', 0, 0xff, b'\r', b'\n'];
    option.extend(vec![b'z'; 5000]);
    let e = err!(q, "PUSH", "x", &option[..], 1);
    assert!(e.len() < 1000, "an error of {} bytes", e.len());
    q.push("the connection is in step still");
}

#[test]
fn noise_never_harms() {
    let mut server = Server::start();
    let mut q = server.queue("q");
    let held = q.push_and_claim("held");
    // A generator with a fixed seed: the same noise in each run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let words: Vec<Vec<u8>> = args![
        "",
        "q",
        "x",
        "ID",
        "KEEP",
        "NX",
        "REPLACE",
        "DELAY",
        "AT",
        "RETRIES",
        "LEASE",
        "BACKOFF",
        "COUNT",
        "PAYLOADS",
        "JOBS",
        "RECEIPTS",
        "EACH",
        "ERROR",
        "STACK",
        "0",
        "1",
        "-1",
        "5s",
        "9223372036854775807",
        "18446744073709551615",
        "1.5",
        "%s%n",
        "1000",
        "RESULT",
        "STATE",
        "ALL",
        "IDS",
        "REASON",
        "FORCE",
        "stale",
        "SPREAD",
        "dead",
        "AFTER",
        "0:x",
        &b"\0"[..],
        &b"\xff\xfe"[..],
        &held.receipt,
        &held.id
    ];
    let mut answers = [0, 0];
    for _ in 0..20_000 {
        let name = NAMES[random(NAMES.len() as u64) as usize];
        let count = random(7);
        let picked = (0..count).map(|_| words[random(words.len() as u64) as usize].clone()).collect();
        match q.call(name, picked) {
            Ok(_) => answers[0] += 1,
            Err(e) => {
                let _ = error_text(&e);
                answers[1] += 1;
            }
        }
    }
    assert!(answers.iter().all(|n| *n > 100), "{answers:?}");
    server.assert_alive();
    q.check_clean();
}

#[test]
fn names_that_a_log_would_trip_over() {
    let mut server = Server::builder()
        .set("far-alarm", "1")
        .set("purge-interval", "10")
        .set("stale-after", "20")
        .set("dead-max", "1")
        .line("notify-keyspace-events KEA")
        .start();
    for name in [&b"%s%s%s%n"[..], b"a\0%s", b"\xff%x", b"\r\n%d", &[b'%'; 3000]] {
        server.set("stale-policy", "keep");
        let mut q = server.queue(name);
        // Whatever is logged or told of a queue: far jobs, letters, evicted ones, stale ones, a lost header.
        ok!(q, "PUSH", "%s", "DELAY", "2d");
        for _ in 0..3 {
            let job = q.push_and_claim("%n");
            ok!(q, "FAIL", job.receipt, "ERROR", "%s%n", "STACK", &b"\0%s"[..]);
        }
        q.push("%s");
        server.set("stale-policy", "dead");
        q.wait_stat("dead", 1);
        wait_for("the stale one", || q.stat("stale-purged") + q.stat("stale-held") > 0);
        q.unwatched();
        q.raw::<i64>(args!["DEL", name]);
        q.raw::<i64>(args!["HDEL", q.key("jobs"), "%s"]);
        q.raw::<i64>(args!["HSET", q.key("jobs"), "%s%n", "%s"]);
        ok!(q, "CHECK");
        q.raw::<i64>(args!["ZADD", q.key("due"), 1, "%s%n"]);
        let _ = q.call("CLAIM", args!["COUNT", 5]);
        let _ = q.call("GET", args!["%s%n"]);
    }
    server.assert_alive();
}

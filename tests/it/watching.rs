//! What WATCH and CLIENT TRACKING see of a queue, as docs/keys.md says.

use std::collections::{BTreeMap, BTreeSet};

use redis::Connection;

use crate::args;
use crate::common::*;

type Words = Vec<Vec<u8>>;

/// The parts of a queue by the names that the page gives them for the queue `mail`.
const KEYS: [&str; 7] = ["mail", "due", "leased", "jobs", "ids", "dead", "dead:at"];

/// What a step is called on the page, what is done first, and the step. `@0` stands for the receipt of the first job of
/// the claim that was done last.
fn steps() -> Vec<(&'static str, Vec<Words>, Words)> {
    let push = || args!["PUSH", "x", "DELAY", 0];
    let far = || args!["PUSH", "x", "DELAY", "1h"];
    let mine = || args!["PUSH", "x", "ID", "mine", "DELAY", 0];
    let claim = || args!["CLAIM"];
    let fail = || args!["FAIL", "@0"];
    vec![
        ("the first push", vec![], push()),
        ("PUSH", vec![push()], push()),
        ("PUSH with an ID", vec![push()], mine()),
        ("MPUSH", vec![push()], args!["MPUSH", "PAYLOADS", "x", "y"]),
        ("CLAIM", vec![push(), push()], claim()),
        ("ACK", vec![push(), push(), claim()], args!["ACK", "@0"]),
        ("EXTEND", vec![push(), claim()], args!["EXTEND", "1h", "@0"]),
        ("RETRY", vec![push(), claim()], args!["RETRY", "@0"]),
        ("RELEASE", vec![push(), claim()], args!["RELEASE", "RECEIPTS", "@0"]),
        ("FAIL", vec![push(), push(), claim()], fail()),
        ("CANCEL", vec![push(), mine()], args!["CANCEL", "mine"]),
        ("RESCHEDULE", vec![far(), far()], args!["RESCHEDULE", "DELAY", "2h", "ALL"]),
        ("REPLAY", vec![push(), claim(), fail()], args!["REPLAY", "ALL"]),
        ("PURGE", vec![push()], args!["PURGE", "STATE", "ready"]),
        ("PAUSE", vec![push()], args!["PAUSE"]),
        ("RESUME", vec![push(), args!["PAUSE"]], args!["RESUME"]),
        ("CONFIG SET", vec![push()], args!["CONFIG", "SET", "lease", "1m"]),
        ("CONFIG RESET", vec![push(), args!["CONFIG", "SET", "lease", "1m"]], args!["CONFIG", "RESET", "lease"]),
        ("DROP", vec![push(), claim(), fail(), mine(), mine(), claim()], args!["DROP", "FORCE"]),
        ("", vec![push()], args!["STATS"]),
        ("", vec![push(), mine()], args!["GET", "mine"]),
        ("", vec![push()], args!["PEEK"]),
        ("", vec![push()], args!["CHECK"]),
        ("", vec![push()], args!["REPAIR"]),
        ("", vec![push()], args!["CONFIG", "GET"]),
        ("", vec![], claim()),
        ("", vec![push(), args!["PAUSE"]], args!["PAUSE"]),
        ("", vec![push()], args!["RESUME"]),
        ("", vec![push(), claim(), args!["ACK", "@0"]], args!["ACK", "@0"]),
    ]
}

/// The subscriber that is told which keys with the prefixes change, and the client for which it is told.
fn tracking(server: &Server, prefixes: &[Vec<u8>]) -> (Connection, Connection) {
    let (mut told, mut tracker) = (server.conn(), server.conn());
    let id: i64 = redis::cmd("CLIENT").arg("ID").query(&mut told).expect("an id");
    told.send_packed_command(&redis::cmd("SUBSCRIBE").arg("__redis__:invalidate").get_packed_command()).expect("sent");
    told.recv_response().expect("a subscription");
    let mut command = redis::cmd("CLIENT");
    command.arg("TRACKING").arg("ON").arg("REDIRECT").arg(id).arg("BCAST");
    prefixes.iter().for_each(|prefix| {
        command.arg("PREFIX").arg(&prefix[..]);
    });
    command.exec(&mut tracker).expect("it is tracked");
    (told, tracker)
}

/// The keys that changed up to the write of the key `end`.
fn invalidated(told: &mut Connection, end: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut keys = BTreeSet::new();
    while !keys.contains(end) {
        let message = list(&told.recv_response().expect("a message"));
        keys.extend(list(&message[2]).iter().map(bytes));
    }
    keys.remove(end);
    keys
}

/// The parts of each queue that each step changed, by CLIENT TRACKING and by WATCH.
fn measured() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let server = Server::builder().set("stale-policy", "keep").start();
    let mut seen: BTreeMap<_, BTreeSet<_>> = KEYS.into_iter().map(|key| (key, BTreeSet::new())).collect();
    for (number, (name, first, step)) in steps().into_iter().enumerate() {
        // No other queue's name begins so.
        let mut q = server.queue(format!("q{number:02}"));
        q.unwatched();
        let mut receipt = Vec::new();
        let mut run = |q: &mut Queue, words: Words| {
            let command = String::from_utf8(words[0].clone()).expect("a name");
            let words = words[1..].iter().map(|word| if word == b"@0" { receipt.clone() } else { word.clone() });
            let reply = q.ok(&command, words.collect());
            if let ("CLAIM", Some(job)) = (command.as_str(), list_of(&reply).first()) {
                receipt = bytes(&list(job)[0]);
            }
        };
        first.into_iter().for_each(|words| run(&mut q, words));
        let key = |part: &str| if part == "mail" { q.name.clone() } else { q.key(part) };
        let keys = KEYS.map(key);
        let mut watchers: Vec<Connection> = keys.iter().map(|key| watching(&server, key)).collect();
        let (mut told, _tracker) = tracking(&server, &[q.name.clone(), b"dq:".to_vec(), b"end".to_vec()]);
        run(&mut q, step.clone());
        q.raw::<()>(args!["SET", "end", number]);
        let changed = invalidated(&mut told, b"end");
        for ((part, key), watcher) in KEYS.into_iter().zip(&keys).zip(&mut watchers) {
            let is_changed = changed.contains(key);
            assert_eq!(is_broken(watcher), is_changed, "{part} by {:?}", texts_of(&step));
            if is_changed {
                assert!(!name.is_empty(), "{part} by {:?}", texts_of(&step));
                seen.get_mut(part).expect("a part").insert(name);
            }
        }
        assert_eq!(changed.iter().filter(|key| !keys.contains(key)).count(), 0, "{changed:?}");
        q.raw::<()>(args!["DEL", "end"]);
    }
    seen
}

fn list_of(reply: &redis::Value) -> Vec<redis::Value> {
    match reply {
        redis::Value::Array(items) => items.clone(),
        _ => Vec::new(),
    }
}

fn texts_of(words: &Words) -> Vec<String> {
    words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// A client that watches the key.
fn watching(server: &Server, key: &[u8]) -> Connection {
    let mut con = server.conn();
    redis::cmd("WATCH").arg(key).exec(&mut con).expect("it watches");
    con
}

/// Whether a transaction of the client's does not run, since what it watched has changed.
fn is_broken(con: &mut Connection) -> bool {
    let reply: redis::Value = redis::pipe().atomic().cmd("PING").query(con).expect("a reply");
    reply == redis::Value::Nil
}

/// What the page's table says.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/keys.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (_, table) = page.split_once("| key | changes with |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let key = cells[0].trim_matches('`').replace("dq:{mail}:", "");
        (key, cells[1].split(", ").map(String::from).collect())
    })
    .collect()
}

#[test]
fn each_step_changes_the_keys_that_the_page_says() {
    let measured =
        measured().into_iter().map(|(key, steps)| (key.into(), steps.into_iter().map(String::from).collect()));
    assert_eq!(measured.collect::<BTreeMap<String, BTreeSet<String>>>(), documented());
}

#[test]
fn a_lease_that_lapses_changes_keys_as_well() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    q.push("y");
    let job = q.claim_with(args!["LEASE", 500]).remove(0);
    let (mut told, _tracker) = tracking(&server, &[b"q".to_vec(), b"dq:".to_vec(), b"end".to_vec()]);
    let mut header = watching(&server, b"q");
    let mut leased = watching(&server, &q.key("leased"));
    q.wait_lapse(&job.id);
    q.raw::<()>(args!["SET", "end", 1]);
    let changed = invalidated(&mut told, b"end");
    assert_eq!(changed, BTreeSet::from(["due", "leased", "jobs"].map(|part| q.key(part))));
    assert!(is_broken(&mut leased) && !is_broken(&mut header));
}

#[test]
fn a_cache_of_stats_is_told_of_the_header_only() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    // Not by prefix: the server remembers which keys the client has read.
    let (mut told, mut tracker) = (server.conn(), server.conn());
    let id: i64 = redis::cmd("CLIENT").arg("ID").query(&mut told).expect("an id");
    told.send_packed_command(&redis::cmd("SUBSCRIBE").arg("__redis__:invalidate").get_packed_command()).expect("sent");
    told.recv_response().expect("a subscription");
    redis::cmd("CLIENT").arg("TRACKING").arg("ON").arg("REDIRECT").arg(id).exec(&mut tracker).expect("it tracks");
    let mut read = || {
        redis::cmd("GET").arg("end").exec(&mut tracker).expect("a reply");
        redis::cmd("DQ.STATS").arg("q").exec(&mut tracker).expect("a reply");
    };
    read();
    let job = q.claim();
    q.push("y");
    q.ack(&job.receipt);
    q.raw::<()>(args!["SET", "end", 1]);
    // The numbers are others now. Some servers name the keys that STATS asked them for, under which nobody keeps a reply.
    assert!(!invalidated(&mut told, b"end").contains(&b"q"[..]));
    read();
    q.ok("PAUSE", args![]);
    q.raw::<()>(args!["SET", "end", 2]);
    assert!(invalidated(&mut told, b"end").contains(&b"q"[..]));
}

//! Data that an earlier release wrote: a later one has every job, with all that the record says.
//!
//! `tests/data` holds a snapshot of each release, and what it must be read as. A release adds its own:
//! `cargo test --test it upgrade::write -- --ignored`, with the oldest server that is supported. `DQ_DATA_NAME` names a
//! snapshot of a format that changed between releases. In `0.1.0` a caller's id is a member of `due` as it is; in
//! `0.1.0-places` it stands behind the job's birth.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use redis::Value;

use crate::common::dump::show;
use crate::common::*;
use crate::{args, ok};

/// What GET tells of a job that does not change while time goes by.
const LASTING: &[&str] = &[
    "payload",
    "failures",
    "lapses",
    "releases",
    "claims",
    "retries",
    "lease-ms",
    "backoff-base-ms",
    "backoff-cap-ms",
    "pushed-at",
    "due-at",
    "lease-ends-at",
    "died-at",
    "reason",
    "error",
    "stack",
];

/// How the payloads of those jobs begin that must be claimed in the order of the number behind it.
const IN_TURN: &str = "in turn ";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// A server in which nothing moves by itself.
fn still(server: &Server) {
    for (name, value) in [("takeover-grace", "1h"), ("stale-policy", "keep"), ("dead-max-age", "0")] {
        server.set(name, value);
    }
}

/// A queue with every kind of job and letter that there is.
fn fill(server: &Server) {
    let mut q = server.queue("release");
    ok!(q, "CONFIG", "SET", "lease", "7m", "max-retries", 9);
    ok!(q, "PUSH", "plain", "DELAY", "7d");
    ok!(q, "PUSH", vec![0u8, 255, b'%', b's'], "DELAY", "1h");
    ok!(q, "PUSH", "named", "ID", "an'id\\", "KEEP", "30d", "DELAY", "2h");
    ok!(q, "PUSH", "its own", "RETRIES", 3, "LEASE", "2m", "BACKOFF", "5s", "10m", "DELAY", "1h");
    let failed_before = q.push_and_claim("failed before");
    ok!(q, "RETRY", &failed_before.receipt, "DELAY", "1h", "ERROR", "busy", "STACK", "at line 7");
    let released = q.push_and_claim("released");
    ok!(q, "RELEASE", "DELAY", "1h", "RECEIPTS", &released.receipt);
    let lapsed = q.push_and_claim("lapsed");
    ok!(q, "EXTEND", 1, &lapsed.receipt);
    q.wait_lapse(&lapsed.id);
    ok!(q, "RESCHEDULE", "DELAY", "1h", "IDS", &lapsed.id);
    let failed = q.push_and_claim("broken");
    ok!(q, "FAIL", &failed.receipt, "ERROR", "no such address", "STACK", "at line 9");
    ok!(q, "PUSH", "no retries", "RETRIES", 0, "ID", "spent");
    let spent = q.claim();
    assert_eq!(q.retry(&spent.receipt), -1);
    ok!(q, "PUSH", "in hand", "ID", "held");
    q.claim_with(args!["LEASE", "12h"]);
    let same_ms = ["order:9", "", "order:10", "LygHa16AHYF", "", "!"];
    let jobs = (0..).zip(same_ms).flat_map(|(place, id)| args![id, "3h", format!("{IN_TURN}{place}")]);
    q.ok("MPUSH", [args!["JOBS"], jobs.collect()].concat());
    ok!(q, "PAUSE");
}

/// Every job of the queue, a line each.
fn told(server: &Server) -> String {
    let mut q = server.queue("release");
    q.unwatched();
    let raw = q.read_raw();
    let mut lines = String::new();
    for id in raw.jobs.keys().chain(raw.dead.keys()) {
        let id = String::from_utf8(id.clone()).expect("an id is ASCII");
        let job = q.get(&id).expect("the job is there");
        let _ = write!(lines, "{id}");
        for name in LASTING {
            match job.get(*name) {
                Some(Value::Int(n)) => drop(write!(lines, " {name}={n}")),
                Some(Value::Nil) | None => {}
                Some(other) => drop(write!(lines, " {name}={}", show(&bytes(other)))),
            }
        }
        lines.push('\n');
    }
    for name in ["dead", "leased", "paused"] {
        let _ = writeln!(lines, "{name} {}", q.stat(name));
    }
    let _ = writeln!(lines, "ids {}", raw.ids.len());
    lines
}

/// The releases whose data are kept.
fn releases() -> io::Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder())?.map(|entry| entry.map(|entry| entry.path()));
    let snapshots = files.filter(|path| path.as_ref().is_ok_and(|path| path.extension().is_some_and(|e| e == "rdb")));
    snapshots.collect()
}

#[test]
fn the_data_of_every_release_are_read() {
    let releases = releases().expect("tests/data is there");
    assert!(!releases.is_empty());
    for (snapshot, repairs) in releases.iter().flat_map(|snapshot| [(snapshot, false), (snapshot, true)]) {
        let mut server = Server::with_grace().start();
        server.kill();
        fs::copy(snapshot, server.dir().join("dump.rdb")).expect("the snapshot is copied");
        let settled = Server::with_grace().set("takeover-grace", "1h").set("stale-policy", "keep");
        server.start_again_as(settled.set("dead-max-age", "0"));
        let expected = fs::read_to_string(snapshot.with_extension("txt")).expect("what it must be read as");
        assert_eq!(told(&server), expected, "{}", snapshot.display());
        works_on(&server, repairs);
    }
}

/// The jobs are not only read: they can be worked on.
fn works_on(server: &Server, repairs: bool) {
    let mut q = server.queue("release");
    // A member of an earlier format is a problem only for DQ.CHECK.
    q.unwatched();
    if repairs {
        ok!(q, "REPAIR");
        q.watched();
    }
    let all = q.read_raw().jobs.len() + 2;
    ok!(q, "RESUME");
    assert_eq!(int(&ok!(q, "REPLAY", "ALL")), 2);
    assert_eq!(int(&ok!(q, "CANCEL", "held")), 1);
    ok!(q, "RESCHEDULE", "DELAY", 0, "ALL");
    q.watched();
    let jobs = q.claim_n(100);
    assert_eq!(jobs.len(), all - 1);
    let payloads = jobs.iter().map(|job| String::from_utf8_lossy(&job.payload));
    let in_turn: Vec<_> = payloads.filter(|payload| payload.starts_with(IN_TURN)).collect();
    assert!(in_turn.is_sorted(), "{in_turn:?}");
    let receipts: Vec<String> = jobs.into_iter().map(|job| job.receipt).collect();
    assert_eq!(int(&ok!(q, "ACK", receipts)), all as i64 - 1);
    assert!(q.read_raw().jobs.is_empty());
}

#[test]
#[ignore = "writes the data of this release into tests/data"]
fn write_the_data_of_this_release() {
    let server = Server::start();
    fill(&server);
    still(&server);
    let name = std::env::var("DQ_DATA_NAME").unwrap_or_else(|_| env!("CARGO_PKG_VERSION").into());
    let name = folder().join(name);
    fs::create_dir_all(folder()).expect("the folder is made");
    fs::write(format!("{}.txt", name.display()), told(&server)).expect("what it is read as is written");
    server.run(&["SAVE"]);
    fs::copy(server.dir().join("dump.rdb"), format!("{}.rdb", name.display())).expect("the snapshot is copied");
}

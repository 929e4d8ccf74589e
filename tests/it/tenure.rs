//! A claim that is undone, by a failover or by a crash, and the next one of that job: the receipts differ, and the first
//! acts on nothing.

use crate::common::*;
use crate::{args, err, ok};

use super::bad_input::COMPANIONS;

/// A queue on a primary and the same on its replica, which becomes a primary of its own: what the first does from then on
/// is undone.
struct Parted {
    old: Server,
    new: Server,
}

impl Parted {
    /// Parts them after `before` was done on the primary.
    fn after<T>(before: impl FnOnce(&mut Queue) -> T) -> (Parted, T) {
        let old = Server::builder().start();
        let new = Server::builder().replica_of(&old).start();
        let done = before(&mut old.queue("q"));
        new.catch_up(&old);
        new.run(&["REPLICAOF", "NO", "ONE"]);
        (Parted { old, new }, done)
    }
}

/// Fails unless the receipt acts on nothing.
#[track_caller]
fn assert_stale(q: &mut Queue, receipt: &str) {
    let before = q.read_raw();
    assert_eq!(q.ack(receipt), 0);
    assert_eq!(q.extend(5000, receipt), -1);
    assert_eq!(q.release(receipt), -1);
    for name in ["RETRY", "FAIL"] {
        assert_error(&err!(q, name, receipt), "DQLOST", &[]);
    }
    assert_eq!(q.read_raw().leased, before.leased);
}

#[test]
fn a_receipt_of_a_claim_that_a_failover_undid_acts_on_nothing() {
    for payload in [vec![b'x'; 10], vec![b'x'; 5000]] {
        for own_id in [false, true] {
            let options = if own_id { args!["ID", "mine"] } else { args![] };
            let push = [args![&payload[..]], options].concat();
            let (parted, _) = Parted::after(|q| q.ok("PUSH", push));
            let lost = parted.old.queue("q").claim();
            let mut q = parted.new.queue("q");
            let held = q.claim();
            assert_eq!((&held.id, &held.payload, held.attempt), (&lost.id, &lost.payload, 1));
            assert_ne!(held.receipt, lost.receipt);
            assert_stale(&mut q, &lost.receipt);
            assert_eq!(q.extend(60_000, &held.receipt), 60_000);
            assert_stale(&mut q, &lost.receipt);
            assert_eq!(q.ack(&held.receipt), 1);
        }
    }
}

#[test]
fn receipts_of_claims_that_replicas_had_stand_after_a_failover() {
    let (parted, jobs) = Parted::after(|q| {
        q.push_many(6, &[]);
        let mut jobs = q.claim_with(args!["COUNT", 4, "LEASE", "10m"]);
        jobs.extend(q.claim_with(args!["COUNT", 2, "LEASE", "1m"]));
        jobs
    });
    let mut q = parted.new.queue("q");
    assert_eq!(q.extend(3_600_000, &jobs[0].receipt), 3_600_000, "beyond all that were found");
    assert_eq!(q.extend(1000, &jobs[1].receipt), 1000);
    assert_eq!(q.extend(3_600_000, &jobs[1].receipt), 3_600_000, "again");
    assert_eq!(q.ack(&jobs[0].receipt), 1);
    assert_eq!(q.ack(&jobs[1].receipt), 1);
    assert_eq!(q.retry(&jobs[2].receipt), 1000);
    assert_eq!(q.release(&jobs[3].receipt), 0);
    q.fail(&jobs[4].receipt);
    assert_eq!(q.ack(&jobs[5].receipt), 1);
    // The next claim of one of them is another tenure's.
    let again = q.claim();
    assert_eq!(again.id, jobs[3].id);
    assert_stale(&mut q, &jobs[3].receipt);
    assert_eq!(q.ack(&again.receipt), 1);
}

#[test]
fn a_claim_that_ends_before_those_that_were_found_is_told_from_them() {
    let (parted, _) = Parted::after(|q| {
        q.push("long");
        q.claim_with(args!["LEASE", "10m"]);
        q.push("short");
    });
    let lost = parted.old.queue("q").claim();
    let mut q = parted.new.queue("q");
    let held = q.claim_with(args!["LEASE", "1m"]).remove(0);
    assert_eq!(held.id, lost.id);
    assert_stale(&mut q, &lost.receipt);
    // Also where it is extended beyond them, and back.
    for ms in [1_200_000, 60_000] {
        assert_eq!(q.extend(ms, &held.receipt), ms);
        assert_stale(&mut q, &lost.receipt);
    }
    assert_eq!(q.ack(&held.receipt), 1);
}

#[test]
fn a_node_that_is_promoted_again_does_not_take_its_own_lost_claims_for_new_ones() {
    let (parted, _) = Parted::after(|q| q.push("x"));
    let Parted { old, new } = parted;
    let lost = old.queue("q").claim();
    old.run(&["REPLICAOF", "127.0.0.1", &new.port.to_string()]);
    old.catch_up(&new);
    old.run(&["REPLICAOF", "NO", "ONE"]);
    let mut q = old.queue("q");
    let held = q.claim();
    assert_eq!(held.id, lost.id);
    assert_stale(&mut q, &lost.receipt);
    assert_eq!(q.ack(&held.receipt), 1);
}

#[test]
fn a_receipt_of_a_claim_that_no_snapshot_has_acts_on_nothing_after_a_crash() {
    let mut server = Server::builder().start();
    let mut q = server.queue("q");
    q.push_many(2, &[]);
    let kept = q.claim();
    server.run(&["SAVE"]);
    let lost = q.claim();
    q.unwatched();
    drop(q);
    server.crash_and_restart();
    let mut q = server.queue("q");
    let held = q.claim();
    assert_eq!(held.id, lost.id);
    assert_stale(&mut q, &lost.receipt);
    assert_eq!(q.ack(&kept.receipt), 1);
    assert_eq!(q.ack(&held.receipt), 1);
}

#[test]
fn receipts_outlive_a_reload_and_keys_that_are_restored() {
    let server = Server::builder().set("takeover-grace", "1h").start();
    let mut q = server.queue("q");
    q.push_many(3, &[]);
    let jobs = q.claim_n(3);
    server.run(&["DEBUG", "RELOAD"]);
    assert_eq!(q.extend(60_000, &jobs[0].receipt), 60_000);
    // A queue whose leases come back by RESTORE, later than all that were found.
    ok!(q, "EXTEND", "2h", &jobs[1].receipt);
    let key = q.key("leased");
    let dump: Vec<u8> = q.raw(args!["DUMP", &key]);
    q.unwatched();
    q.raw::<i64>(args!["DEL", &key]);
    q.raw::<String>(args!["RESTORE", &key, 0, dump]);
    q.watched();
    for job in &jobs {
        assert_eq!(q.ack(&job.receipt), 1);
    }
}

/// A queue's keys with their contents at one moment.
type Backup = Vec<(Vec<u8>, Vec<u8>)>;

/// Commands of the server, each with its words.
type Commands = Vec<Vec<Vec<u8>>>;

type Way = fn(&Backup) -> [Commands; 2];

fn back_up(q: &mut Queue) -> Backup {
    // The header first: DQ makes one for jobs that have none.
    let mut keys = vec![q.name.clone()];
    keys.extend(COMPANIONS.iter().map(|companion| q.key(companion)));
    keys.retain(|key| q.raw::<bool>(args!["EXISTS", key]));
    keys.into_iter().map(|key| (key.clone(), q.raw(args!["DUMP", &key]))).collect()
}

/// The ways by which an operator brings keys back in a running server. Each gives the commands that prepare it, and those
/// that do it.
const WAYS: &[(&str, Way)] = &[
    ("DEL and RESTORE", |backup| {
        let restore = backup.iter().map(|(key, dump)| args!["RESTORE", key, 0, dump]);
        [vec![], [delete(backup)].into_iter().chain(restore).collect()]
    }),
    ("RESTORE REPLACE", |backup| {
        [vec![], backup.iter().map(|(key, dump)| args!["RESTORE", key, 0, dump, "REPLACE"]).collect()]
    }),
    ("COPY", |backup| {
        let keep = backup.iter().map(|(key, dump)| args!["RESTORE", aside(key), 0, dump, "REPLACE"]);
        [keep.collect(), backup.iter().map(|(key, _)| args!["COPY", aside(key), key, "REPLACE"]).collect()]
    }),
    ("RENAME", |backup| {
        let keep = backup.iter().map(|(key, dump)| args!["RESTORE", aside(key), 0, dump, "REPLACE"]);
        [keep.collect(), backup.iter().map(|(key, _)| args!["RENAME", aside(key), key]).collect()]
    }),
    ("MOVE", |backup| {
        let mut keep = vec![args!["SELECT", 1]];
        keep.extend(backup.iter().map(|(key, dump)| args!["RESTORE", key, 0, dump, "REPLACE"]));
        keep.push(args!["SELECT", 0]);
        let mut bring_back = vec![delete(backup), args!["SELECT", 1]];
        bring_back.extend(backup.iter().map(|(key, _)| args!["MOVE", key, 0]));
        bring_back.push(args!["SELECT", 0]);
        [keep, bring_back]
    }),
];

/// All keys at once: of a header that is gone while there are jobs DQ makes another.
fn delete(backup: &Backup) -> Vec<Vec<u8>> {
    args!["DEL"].into_iter().chain(backup.iter().map(|(key, _)| key.clone())).collect()
}

fn aside(key: &[u8]) -> Vec<u8> {
    [b"aside:", key].concat()
}

/// Runs the commands, one by one or in one MULTI, and claims behind them.
fn run_and_claim(q: &mut Queue, commands: &[Vec<Vec<u8>>], in_multi: bool) -> Job {
    if !in_multi {
        commands.iter().for_each(|command| q.raw::<()>(command.clone()));
        return q.claim();
    }
    q.raw::<()>(args!["MULTI"]);
    commands.iter().for_each(|command| q.raw::<()>(command.clone()));
    q.raw::<()>(args!["DQ.CLAIM", &q.name.clone()]);
    let replies: Vec<redis::Value> = q.raw(args!["EXEC"]);
    Job::of(&list(replies.last().expect("the claim answers"))[0])
}

#[test]
fn a_receipt_of_a_claim_that_was_undone_in_the_running_server_acts_on_nothing() {
    let server = Server::start();
    for (way, commands) in WAYS {
        for in_multi in [false, true] {
            for (payload, own_id) in [(10, false), (10, true), (5000, false)] {
                server.run(&["FLUSHALL"]);
                let mut q = server.queue("q");
                let options = if own_id { args!["ID", "mine"] } else { args![] };
                q.ok("PUSH", [args![vec![b'x'; payload]], options].concat());
                let backup = back_up(&mut q);
                let mut lost = vec![q.claim()];
                q.unwatched();
                for _ in 0..2 {
                    let [prepare, bring_back] = commands(&backup);
                    prepare.into_iter().for_each(|command| q.raw::<()>(command));
                    // Only the keys that were there are brought back.
                    q.raw::<()>(args!["DEL", q.key("leased")]);
                    let held = run_and_claim(&mut q, &bring_back, in_multi);
                    let place = format!("{way}, in MULTI: {in_multi}, payload {payload}, own id: {own_id}");
                    assert_eq!(held.id, lost[0].id, "{place}");
                    for lost in &lost {
                        assert_ne!(held.receipt, lost.receipt, "{place}");
                        assert_eq!(q.ack(&lost.receipt), 0, "{place}");
                        assert_stale(&mut q, &lost.receipt);
                    }
                    assert_eq!(q.extend(60_000, &held.receipt), 60_000, "{place}");
                    lost.push(held);
                }
                q.watched();
                assert_eq!(q.ack(&lost[2].receipt), 1);
            }
        }
    }
}

/// While DQ does not act it follows the keys all the same.
#[test]
fn a_receipt_outlives_a_restore_while_dq_is_disabled() {
    let server = Server::start();
    let mut q = server.queue("q");
    let (other, job) = (q.push_and_claim("other"), q.push_and_claim("x"));
    assert_eq!(q.extend(3_600_000, &job.receipt), 3_600_000);
    let backup = back_up(&mut q);
    assert_eq!(q.extend(60_000, &job.receipt), 60_000);
    server.set("enabled", "no");
    assert_eq!(q.extend(60_000, &other.receipt), 60_000);
    for (key, dump) in &backup {
        q.raw::<()>(args!["RESTORE", key, 0, dump, "REPLACE"]);
    }
    server.set("enabled", "yes");
    assert_eq!(q.ack(&job.receipt), 1);
}

#[test]
fn a_lease_whose_end_is_mended_stays_whose_it_was() {
    let server = Server::start();
    let mut q = server.queue("q");
    let found = q.push_and_claim("found");
    server.run(&["DEBUG", "RELOAD"]);
    let mut q = server.queue("q");
    // The last of those that were found, and then a little later.
    for job in [found, q.push_and_claim("given")] {
        let end = q.score("leased", &job.id).expect("it is leased");
        server.run(&["ZADD", "dq:{q}:leased", &format!("{end}.5"), &job.id]);
        assert_eq!(list(&ok!(q, "REPAIR")).len(), 1);
        assert_eq!(q.score("leased", &job.id), Some(end + 1));
        assert_eq!(q.extend(60_000, &job.receipt), 60_000);
        assert_eq!(q.ack(&job.receipt), 1);
    }
}

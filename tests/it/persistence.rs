//! RDB, AOF, kill -9 and restart: the same jobs with the same due times.

use std::fs;
use std::path::PathBuf;

use crate::common::scenarios::{check_all, run_all};
use crate::common::*;
use crate::{args, ok};

/// The append only files that hold what was written since the last rewrite.
fn incremental_aof(server: &Server) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(server.dir().join("appendonlydir"))
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().contains(".incr."))
        .collect();
    files.sort();
    files
}

#[test]
fn an_aof_brings_everything_back_after_kill_9() {
    let mut server = Server::builder().aof().start();
    run_all(&server);
    let before = server.dump();
    server.crash_and_restart();
    assert_eq!(server.dump(), before);
    check_all(&server);
}

#[test]
fn a_rewritten_aof_brings_everything_back() {
    for preamble in ["yes", "no"] {
        let mut server = Server::builder().aof().line(&format!("aof-use-rdb-preamble {preamble}")).start();
        run_all(&server);
        server.run(&["BGREWRITEAOF"]);
        wait_for("the rewrite to end", || {
            server.info("persistence", "aof_rewrite_in_progress") == "0"
                && server.info("persistence", "aof_rewrite_scheduled") == "0"
        });
        assert_eq!(server.info("persistence", "aof_last_bgrewrite_status"), "ok");
        let before = server.dump();
        server.crash_and_restart();
        assert_eq!(server.dump(), before);
        check_all(&server);
    }
}

#[test]
fn an_rdb_brings_everything_back() {
    let mut server = Server::start();
    run_all(&server);
    let before = server.dump();
    server.run(&["SAVE"]);
    server.crash_and_restart();
    assert_eq!(server.dump(), before);
    check_all(&server);
}

#[test]
fn a_terminated_server_saves_and_brings_everything_back() {
    let mut server = Server::builder().line("save 3600 1").start();
    run_all(&server);
    let before = server.dump();
    server.signal(libc::SIGTERM);
    assert!(server.ended().success());
    server.start_again();
    assert_eq!(server.dump(), before);
    check_all(&server);
}

#[test]
fn a_reload_in_place_changes_nothing() {
    let server = Server::builder().aof().start();
    run_all(&server);
    let before = server.dump();
    server.run(&["DEBUG", "RELOAD"]);
    assert_eq!(server.dump(), before);
    server.run(&["DEBUG", "LOADAOF"]);
    assert_eq!(server.dump(), before);
    check_all(&server);
    let mut q = server.queue("claim");
    assert!(!q.claim_n(5).is_empty());
}

#[test]
fn a_server_without_the_module_shows_every_job() {
    for aof in [true, false] {
        let mut builder = Server::builder();
        if aof {
            builder = builder.aof();
        }
        let mut server = builder.clone().start();
        run_all(&server);
        let before = server.dump();
        if !aof {
            server.run(&["SAVE"]);
        }
        server.kill();
        server.start_again_as(builder.clone().without_module());
        assert_eq!(server.dump(), before);
        assert!(server.try_run(&["DQ.STATS", "claim"]).is_err());
        if !aof {
            server.run(&["SAVE"]);
        }
        server.kill();
        server.start_again_as(builder);
        assert_eq!(server.dump(), before);
        check_all(&server);
    }
}

#[test]
fn receipts_and_due_times_outlive_a_restart() {
    let mut server = Server::builder().aof().start();
    let mut q = server.queue("q");
    let held = q.push_and_claim("held");
    let far = text(&ok!(q, "PUSH", "far", "DELAY", "1h"));
    let soon = text(&ok!(q, "PUSH", "soon", "DELAY", 200));
    let retried = q.push("retried");
    let job = q.claim();
    assert_eq!(int(&ok!(q, "RETRY", job.receipt, "DELAY", "2h", "ERROR", "e")), 7_200_000);
    ok!(q, "PUSH", "mine", "ID", "mine", "DELAY", "3h", "KEEP", "1h");
    let due = [far.as_str(), &soon, &retried, "mine"].map(|id| q.due_at(id));
    drop(q);
    server.crash_and_restart();
    let mut q = server.queue("q");
    assert_eq!([far.as_str(), &soon, &retried, "mine"].map(|id| q.due_at(id)), due);
    assert_eq!(q.ack(&held.receipt), 1, "a receipt from before");
    assert_eq!(ok!(q, "PUSH", "x", "ID", "mine", "NX"), redis::Value::Nil);
    let job = wait_until("the job that fell due meanwhile", || q.claim_n(5).pop());
    assert_eq!(job.id, soon);
    let newer = q.push("newer");
    assert!(newer > soon && newer > retried, "ids go on rising");
    assert_eq!(q.stats(["pushed", "acked", "delayed"]), [1, 1, 3]);
}

#[test]
fn leases_that_ran_out_while_the_server_was_down_end_after_the_grace() {
    let mut server = Server::with_grace().set("takeover-grace", "1h").aof().start();
    let mut q = server.queue("q");
    for i in 0..3 {
        q.push(i);
    }
    let jobs = q.claim_with(args!["COUNT", 3, "LEASE", 1]);
    let down = q.now();
    q.unwatched();
    server.kill();
    server.start_again_as(Server::with_grace().set("takeover-grace", "2s").aof());
    let mut q = server.queue("q");
    // Within the grace a worker that was cut off can finish.
    if q.now() < down + 1800 {
        assert_eq!(q.ack(&jobs[0].receipt), 1);
        assert_eq!(q.extend(3_600_000, &jobs[1].receipt), 3_600_000);
        assert_eq!(q.stat("lapsed"), 0);
    }
    q.wait_lapse(&jobs[2].id);
    let due = q.due_at(&jobs[2].id);
    assert!(due >= down + 2000, "within the grace: {} ms", due - down);
    assert_eq!(q.record(&jobs[2].id).lapses, 1);
    assert_eq!(q.claim_n(3)[0].attempt, 2);
}

#[test]
fn timers_find_the_queues_of_every_database_after_a_restart() {
    for aof in [true, false] {
        let mut builder = Server::builder().set("takeover-grace", "0");
        if aof {
            builder = builder.aof();
        }
        let mut server = builder.start();
        for db in [0, 1, 7] {
            for name in ["a", "{t}:b"] {
                let mut q = server.queue_in(db, name);
                q.push("x");
                q.claim_with(args!["LEASE", 300]);
                q.unwatched();
            }
        }
        if !aof {
            server.run(&["SAVE"]);
        }
        server.crash_and_restart();
        for db in [0, 1, 7] {
            for name in ["a", "{t}:b"] {
                // No command of the module is called before the lease has ended.
                let mut q = server.queue_in(db, name);
                let key = q.key("leased");
                wait_for("the lease to end", || q.raw::<i64>(args!["EXISTS", &key]) == 0);
                assert_eq!(q.claim().attempt, 2);
            }
        }
    }
}

#[test]
fn the_aof_holds_native_commands_in_whole_steps() {
    let server = Server::builder().aof().start();
    run_all(&server);
    let mut words = Vec::new();
    for file in incremental_aof(&server) {
        let bytes = fs::read(&file).expect("the file reads");
        words.extend(first_words(&bytes));
    }
    assert!(words.len() > 100, "{} commands", words.len());
    let native = [
        "SELECT",
        "MULTI",
        "EXEC",
        "HSET",
        "HDEL",
        "ZADD",
        "ZREM",
        "DEL",
        "UNLINK",
        "SET",
        "HSETNX",
        "ZREMRANGEBYSCORE",
        "ZREMRANGEBYRANK",
    ];
    for word in &words {
        assert!(native.contains(&word.as_str()), "{word} in the AOF");
    }
    let mut depth = 0;
    let mut writes_outside = 0;
    for word in &words {
        match word.as_str() {
            "MULTI" => depth += 1,
            "EXEC" => depth -= 1,
            "SELECT" => {}
            _ => writes_outside += i32::from(depth == 0),
        }
        assert!((0..=1).contains(&depth), "MULTI within MULTI");
    }
    assert_eq!(depth, 0);
    // A step of more than one key is a transaction; a single native command needs none.
    assert!(writes_outside < words.len() as i32 / 2, "{writes_outside} alone");
}

/// The first word of each command of an append only file, in upper case.
fn first_words(mut bytes: &[u8]) -> Vec<String> {
    fn line<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
        let end = bytes.windows(2).position(|w| w == b"\r\n").expect("a line");
        let (head, tail) = bytes.split_at(end);
        *bytes = &tail[2..];
        head
    }
    fn number(line: &[u8]) -> usize {
        String::from_utf8_lossy(&line[1..]).parse().expect("a number")
    }
    let mut words = Vec::new();
    while !bytes.is_empty() {
        let head = line(&mut bytes);
        if head.first() == Some(&b'#') {
            continue;
        }
        for i in 0..number(head) {
            let length = number(line(&mut bytes));
            if i == 0 {
                words.push(String::from_utf8_lossy(&bytes[..length]).to_uppercase());
            }
            bytes = &bytes[length + 2..];
        }
    }
    words
}

#[test]
fn a_torn_aof_holds_no_half_done_step() {
    let mut server = Server::builder().aof().start();
    run_all(&server);
    server.kill();
    let file = incremental_aof(&server).pop().expect("one file");
    let whole = fs::read(&file).expect("the file reads");
    let mut cuts: Vec<usize> = (1..24).map(|i| whole.len() * i / 24).collect();
    cuts.extend([1, 7, 30].map(|short| whole.len() - short));
    for cut in cuts {
        fs::write(&file, &whole[..cut]).expect("the file is written");
        server.start_again();
        check_all(&server);
        server.kill();
    }
}

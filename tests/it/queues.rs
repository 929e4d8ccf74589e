//! DQ.QUEUES.

use redis::Value;

use crate::args;
use crate::common::*;
use crate::ok;

/// Names and numbers of all rows.
fn rows(con: &mut redis::Connection, words: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<i64>)> {
    let reply: Value = redis::cmd("DQ.QUEUES").arg(words).query(con).expect("it answers");
    let row = |row: &Value| {
        let items = list(row);
        assert_eq!(items.len(), 7);
        (bytes(&items[0]), items[1..].iter().map(int).collect())
    };
    list(&reply).iter().map(row).collect()
}

fn names(con: &mut redis::Connection, words: Vec<Vec<u8>>) -> Vec<String> {
    rows(con, words).into_iter().map(|(name, _)| String::from_utf8(name).expect("text")).collect()
}

#[test]
fn every_queue_with_its_counts() {
    let server = Server::start();
    let mut con = server.conn();
    assert_eq!(rows(&mut con, args![]), vec![]);
    let mut q = server.queue("b");
    for (n, options) in [(4, args![]), (2, args!["DELAY", "1h"])] {
        for i in 0..n {
            ok!(q, "PUSH", i, options.clone());
        }
    }
    for job in q.claim_n(3).drain(..1) {
        q.fail(&job.receipt);
    }
    ok!(server.queue("a"), "PAUSE");
    let mut waiter = server.queue("c");
    let thread = std::thread::spawn(move || waiter.claim_with(args!["BLOCK", 30_000]));
    ok!(server.queue("c"), "PUSH", "x", "DELAY", "1h");
    server.queue("c").wait_stat("waiting", 1);
    let expected = [("a", [0, 0, 0, 0, 0, 1]), ("b", [1, 2, 2, 1, 0, 0]), ("c", [0, 1, 0, 0, 1, 0])];
    let expected: Vec<_> =
        expected.into_iter().map(|(name, numbers)| (name.as_bytes().to_vec(), numbers.to_vec())).collect();
    assert_eq!(rows(&mut con, args![]), expected);
    server.queue("c").push("x");
    thread.join().expect("it ends");
}

#[test]
fn names_that_match() {
    let server = Server::start();
    let mut con = server.conn();
    for name in ["mail", "mail:a", "mail:b", "fax", "{tag}mail", "*"] {
        server.queue(name).push("x");
    }
    for (pattern, expected) in [
        ("*", &["*", "fax", "mail", "mail:a", "mail:b", "{tag}mail"][..]),
        ("mail*", &["mail", "mail:a", "mail:b"]),
        ("mail:[ac]", &["mail:a"]),
        ("mail:[^a]", &["mail:b"]),
        ("???", &["fax"]),
        ("\\*", &["*"]),
        ("", &[]),
        ("none", &[]),
    ] {
        assert_eq!(names(&mut con, args!["match", pattern]), expected, "{pattern}");
        // As the server's own KEYS has it.
        let mut keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut con).expect("KEYS answers");
        keys.retain(|key| !key.starts_with("dq:"));
        keys.sort();
        assert_eq!(keys, expected, "{pattern}");
    }
}

#[test]
fn names_of_any_bytes_and_keys_of_others() {
    let server = Server::start();
    let mut con = server.conn();
    let names = [&b"\0"[..], b"\xff\xfe", b"%s%n", b"\r\n", &[b'n'; 4096]];
    for name in names {
        server.queue(name).push("x");
    }
    let mut expected: Vec<_> = names.map(<[u8]>::to_vec).to_vec();
    expected.sort();
    server.run(&["SET", "dq:{spoiled}:due", "x"]);
    server.run(&["SET", "string", "x"]);
    let found: Vec<_> = rows(&mut con, args![]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, expected);
    assert_eq!(rows(&mut con, args!["MATCH", &b"\xff*"[..]]).len(), 1);
}

#[test]
fn queues_that_are_gone_and_those_of_other_databases() {
    let server = Server::start();
    let mut con = server.conn();
    server.queue_in(3, "there").push("x");
    let mut q = server.queue("here");
    q.push("x");
    assert_eq!(names(&mut con, args![]), ["here"]);
    ok!(q, "DROP");
    assert_eq!(names(&mut con, args![]), Vec::<String>::new());
    redis::cmd("SELECT").arg(3).exec(&mut con).expect("it is there");
    assert_eq!(names(&mut con, args![]), ["there"]);
}

#[test]
fn more_than_one_step_can_list() {
    let server = Server::start();
    let mut con = server.conn();
    let mut pipe = redis::pipe();
    for i in 0..3000 {
        pipe.cmd("DQ.PUSH").arg(format!("queue-{i:04}")).arg("x").ignore();
    }
    pipe.exec(&mut con).expect("the pushes answer");
    let expected: Vec<String> = (0..3000).map(|i| format!("queue-{i:04}")).collect();
    assert_eq!(names(&mut con, args![]), expected);
    assert_eq!(names(&mut con, args!["MATCH", "*-2999"]), ["queue-2999"]);
    let error = server.try_run(&["EVAL", "return redis.call('DQ.QUEUES')", "0"]).expect_err("a script cannot wait");
    assert!(error.to_string().contains("nobody can wait"), "{error}");
    // After a restart, and on a replica, which does not look for queues by itself.
    let replica = Server::builder().replica_of(&server).start();
    replica.catch_up(&server);
    assert_eq!(names(&mut replica.conn(), args![]), expected);
}

#[test]
fn after_a_restart_at_once() {
    let mut server = Server::builder().aof().start();
    for i in 0..50 {
        server.queue(format!("q{i:02}")).push("x");
    }
    server.crash_and_restart();
    assert_eq!(names(&mut server.conn(), args![]).len(), 50);
}

#[test]
fn a_queue_without_keys_that_somebody_waits_for() {
    let server = Server::start();
    let mut con = server.conn();
    server.queue("mail").push("x");
    server.queue_in(3, "there").push("x");
    let mut typo = server.queue("mial");
    let thread = std::thread::spawn(move || typo.claim_with(args!["BLOCK", 0]));
    let expected = [(b"mail".to_vec(), vec![1, 0, 0, 0, 0, 0]), (b"mial".to_vec(), vec![0, 0, 0, 0, 1, 0])];
    wait_for("the waiter to be in line", || rows(&mut con, args![]) == expected);
    assert_eq!(names(&mut con, args!["MATCH", "mi*"]), ["mial"]);
    // Also while the node looks for its queues: SWAPDB makes it do so, and leaves the client in its line.
    let (list, _): (Value, Value) = redis::pipe()
        .atomic()
        .cmd("SWAPDB")
        .arg(0)
        .arg(3)
        .ignore()
        .cmd("DQ.QUEUES")
        .cmd("SWAPDB")
        .arg(0)
        .arg(3)
        .query(&mut con)
        .expect("all answer");
    let found: Vec<String> = crate::common::list(&list).iter().map(|row| text(&crate::common::list(row)[0])).collect();
    assert_eq!(found, ["mial", "there"]);
    server.queue("mial").push("x");
    assert_eq!(thread.join().expect("it ends").len(), 1);
    server.queue("mial").check_clean();
}

#[test]
fn a_queue_whose_slot_moves_is_listed_with_the_keys_that_are_here() {
    let (source, target) = crate::cluster::pair();
    let mut con = source.conn();
    let mut q = source.queue("mail");
    q.unwatched();
    let job = q.push_and_claim("held");
    q.push("x");
    let slot = crate::cluster::slot(&source, "mail");
    crate::cluster::open_slot(&slot, &source, &target);
    assert_eq!(rows(&mut con, args![]), [(b"mail".to_vec(), vec![1, 0, 1, 0, 0, 0])]);
    crate::cluster::migrate(&q.key("due"), &source, &target);
    assert_eq!(rows(&mut con, args![]), [(b"mail".to_vec(), vec![0, 0, 1, 0, 0, 0])]);
    assert_error(&q.err("ACK", args![&job.receipt]), "TRYAGAIN", &[]);
    crate::cluster::close_slot(&slot, &source, &target);
    assert_eq!(rows(&mut con, args![]), []);
}

#[test]
fn bad_options() {
    let server = Server::start();
    for words in [vec!["x"], vec!["MATCH", "*", "x"], vec!["-1"], vec![""]] {
        let words = [vec!["DQ.QUEUES"], words].concat();
        let error = server.try_run(&words).expect_err("a bad option");
        assert_error(&error_text(&error), "ERR", &["unknown option"]);
    }
    for words in [vec!["MATCH"], vec!["MATCH", "*", "MATCH"]] {
        let words = [vec!["DQ.QUEUES"], words].concat();
        assert_error(&error_text(&server.try_run(&words).expect_err("no value")), "ERR", &["MATCH", "value"]);
    }
    let error = server.try_run(&["DQ.QUEUES", "MATCH", "a", "MATCH", "b"]).expect_err("twice");
    assert_error(&error_text(&error), "ERR", &["MATCH", "once"]);
}

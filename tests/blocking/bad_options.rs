//! BLOCK and numqueues out of range, and whatever else is refused.

use crate::common::*;
use crate::{args, err, ok};

#[test]
fn block_has_a_range() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "PUSH", "x", "DELAY", "1h");
    let too_long = ["86400001", "24h1", "25h", "2d", "1000d"];
    for block in too_long.iter().chain(BEYOND) {
        let error = err!(q, "CLAIM", "BLOCK", block);
        assert_error(&error, "ERR", &["BLOCK", "1d"]);
    }
    for block in NOT_NUMBERS {
        let error = err!(q, "CLAIM", "BLOCK", block);
        assert_error(&error, "ERR", &["BLOCK"]);
        let error = err!(q, "CLAIM", "COUNT", 5, "BLOCK", block, "LEASE", 5);
        assert_error(&error, "ERR", &["BLOCK"]);
    }
    assert_eq!(server.info("clients", "blocked_clients"), "0");
    assert_eq!(q.stat("waiting"), 0);
}

#[test]
fn block_is_missing_or_repeated() {
    let server = Server::start();
    let mut q = server.queue("q");
    assert_error(&err!(q, "CLAIM", "BLOCK"), "ERR", &["BLOCK"]);
    assert_error(&err!(q, "CLAIM", "COUNT", 1, "BLOCK"), "ERR", &["BLOCK"]);
    assert_error(&err!(q, "CLAIM", "BLOCK", 1, "BLOCK", 1), "ERR", &["BLOCK"]);
    assert_error(&err!(q, "CLAIM", "BLOCK", 1, "block", 0), "ERR", &["BLOCK"]);
    assert_error(&err!(q, "CLAIM", "BLOCK", "COUNT", 5), "ERR", &["BLOCK"]);
    assert_error(&err!(q, "CLAIM", "BLOCKS", 1), "ERR", &["BLOCKS"]);
    assert_error(&err!(q, "CLAIM", "BLOCK", 1, 5), "ERR", &["5"]);
    assert_error(&err!(q, "CLAIM", "BLOCK", 1, "TIMEOUT", 5), "ERR", &["TIMEOUT"]);
    assert_eq!(server.info("clients", "blocked_clients"), "0");
}

#[test]
fn a_claim_that_is_refused_does_not_wait() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.raw::<()>(args!["SET", "q", "text"]);
    assert_error(&err!(q.unwatched(), "CLAIM", "BLOCK", 0), "WRONGTYPE", &[]);
    for name in ["", "{x}", "a}b", "dq:x"] {
        let error = server.try_run(&["DQ.CLAIM", name, "BLOCK", "0"]).expect_err("the name is refused");
        assert_error(&queue::error_text(&error), "ERR", &[]);
    }
    server.set("enabled", "no");
    let error = server.try_run(&["DQ.CLAIM", "other", "BLOCK", "0"]).expect_err("the module is disabled");
    assert_error(&queue::error_text(&error), "DQDISABLED", &[]);
    let error = server.try_run(&["DQ.MCLAIM", "1", "other", "BLOCK", "0"]).expect_err("the module is disabled");
    assert_error(&queue::error_text(&error), "DQDISABLED", &[]);
    assert_eq!(server.info("clients", "blocked_clients"), "0");
}

/// An MCLAIM that must fail, changing nothing; its error's text.
fn refused(server: &Server, words: &[&str]) -> String {
    let before = server.dump();
    let mut all = vec!["DQ.MCLAIM"];
    all.extend(words);
    let error = match server.try_run(&all) {
        Ok(value) => panic!("{all:?} answered {value:?}"),
        Err(error) => queue::error_text(&error),
    };
    assert_eq!(server.dump(), before);
    assert_eq!(server.info("clients", "blocked_clients"), "0", "{words:?}");
    error
}

#[test]
fn numqueues_is_the_number_of_queues() {
    let server = Server::start();
    server.queue("a").push("x");
    for number in ["0", "1001", "4294967298", "9223372036854775807", "9223372036854775808", "18446744073709551618"] {
        assert_error(&refused(&server, &[number, "a", "b", "BLOCK", "0"]), "ERR", &["numqueues"]);
    }
    for number in ["-1", "-2", "text", "", "1.5", "+2", "2ms", "2s", "0x2", " 2", "2 ", "a"] {
        assert_error(&refused(&server, &[number, "a", "b", "BLOCK", "0"]), "ERR", &["numqueues"]);
    }
    for number in ["9", "5", "1000"] {
        assert_error(&refused(&server, &[number, "a", "b"]), "ERR", &["numqueues"]);
        assert_error(&refused(&server, &[number, "a", "b", "BLOCK", "0"]), "ERR", &[]);
    }
    // More queues than numqueues: the rest are no options.
    assert_error(&refused(&server, &["1", "a", "b", "BLOCK", "0"]), "ERR", &["b"]);
    let error = refused(&server, &["1"]);
    assert!(error.contains("wrong number of arguments"), "{error}");
}

#[test]
fn mclaim_refuses_what_it_does_not_know() {
    let server = Server::start();
    assert_error(&refused(&server, &["2", "a", "a", "BLOCK", "0"]), "ERR", &["twice"]);
    assert_error(&refused(&server, &["3", "a", "b", "a"]), "ERR", &["twice"]);
    assert_error(&refused(&server, &["2", "a", "{x}", "BLOCK", "0"]), "ERR", &[]);
    assert_error(&refused(&server, &["2", "", "a"]), "ERR", &[]);
    assert_error(&refused(&server, &["1", "a", "ORDER", "random"]), "ERR", &["ORDER", "strict", "rotate"]);
    assert_error(&refused(&server, &["1", "a", "ORDER"]), "ERR", &["ORDER"]);
    assert_error(&refused(&server, &["1", "a", "ORDER", "strict", "ORDER", "strict"]), "ERR", &["ORDER"]);
    assert_error(&refused(&server, &["1", "a", "COUNT", "0"]), "ERR", &["COUNT"]);
    assert_error(&refused(&server, &["1", "a", "LEASE", "13h"]), "ERR", &["LEASE"]);
    assert_error(&refused(&server, &["1", "a", "BLOCK", "25h"]), "ERR", &["BLOCK"]);
    assert_error(&refused(&server, &["1", "a", "BLOCK", "0", "BLOCK", "0"]), "ERR", &["BLOCK"]);
    assert_error(&refused(&server, &["1", "a", "NONSENSE"]), "ERR", &["NONSENSE"]);
    server.run(&["SET", "b", "text"]);
    assert_error(&refused(&server, &["2", "a", "b", "BLOCK", "0"]), "WRONGTYPE", &[]);
}

#[test]
fn pause_and_resume_take_a_queue_and_nothing_else() {
    let server = Server::start();
    let mut q = server.queue("q");
    for name in ["PAUSE", "RESUME"] {
        let error = err!(q, name, "now");
        assert!(error.contains("wrong number of arguments"), "{error}");
    }
    q.raw::<()>(args!["SET", "q", "text"]);
    q.unwatched();
    assert_error(&err!(q, "PAUSE"), "WRONGTYPE", &[]);
    assert_error(&err!(q, "RESUME"), "WRONGTYPE", &[]);
    for name in ["", "{x}", "a}b", "dq:x"] {
        for command in ["DQ.PAUSE", "DQ.RESUME"] {
            let error = server.try_run(&[command, name]).expect_err("the name is refused");
            assert_error(&queue::error_text(&error), "ERR", &[]);
        }
    }
}

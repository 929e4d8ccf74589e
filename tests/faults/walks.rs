//! Commands that walk for longer than one step, while the data or the role of the server change: the reply is whole, or
//! an error.

use std::collections::BTreeSet;

use redis::{Connection, RedisResult, Value};

use crate::blocked::said;
use crate::common::*;
use crate::{args, ok};

/// More queues, entries or letters than one step looks at.
const N: usize = 1500;

fn packed(words: &[Vec<u8>]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command.get_packed_command()
}

/// The reply to `long` if the server meets `others` right after it, in one pass of its event loop: before the second
/// step of a walk. `before` comes first, on the connection of `long`.
fn met_by(server: &Server, before: &[Vec<Vec<u8>>], long: &[Vec<u8>], others: &[Vec<Vec<u8>>]) -> RedisResult<Value> {
    let (reply, met) = replies_to(server, before, long, others);
    for (words, reply) in others.iter().zip(met) {
        reply.unwrap_or_else(|error| panic!("{words:?} answers {error}"));
    }
    reply
}

/// As `met_by`, with the replies to `others`.
fn replies_to(
    server: &Server,
    before: &[Vec<Vec<u8>>],
    long: &[Vec<u8>],
    others: &[Vec<Vec<u8>>],
) -> (RedisResult<Value>, Vec<RedisResult<Value>>) {
    let (mut con, mut other) = (server.conn(), server.conn());
    let send = |con: &mut Connection, commands: &[Vec<Vec<u8>>]| {
        let all: Vec<u8> = commands.iter().flat_map(|words| packed(words)).collect();
        con.send_packed_command(&all).expect("it is sent");
    };
    // Once a third client is answered, the server's list of sockets to read from holds neither of the two: it will read
    // them in the order in which they are written to.
    server.run(&["PING"]);
    server.signal(libc::SIGSTOP);
    send(&mut con, &[before, &[long.to_vec()]].concat());
    send(&mut other, others);
    server.signal(libc::SIGCONT);
    for words in before {
        con.recv_response().unwrap_or_else(|error| panic!("{words:?} answers {error}"));
    }
    // An error can also be a value of a reply.
    let reply_on = |con: &mut Connection| con.recv_response().and_then(|value| value.extract_error());
    (reply_on(&mut con), others.iter().map(|_| reply_on(&mut other)).collect())
}

fn push_queues(server: &Server, prefix: &str) -> BTreeSet<String> {
    let names: BTreeSet<String> = (0..N).map(|i| format!("{prefix}{i:04}")).collect();
    let mut pipe = redis::pipe();
    for name in &names {
        pipe.cmd("DQ.PUSH").arg(name).arg("x").arg("DELAY").arg("1h").ignore();
    }
    pipe.exec(&mut server.conn()).expect("the pushes answer");
    names
}

fn names_in(reply: &Value) -> BTreeSet<String> {
    list(reply).iter().map(|row| text(&list(row)[0])).collect()
}

#[track_caller]
fn assert_ended(reply: RedisResult<Value>, what: &str) {
    match reply {
        Ok(reply) => panic!("{what}: {} rows and no error", list(&reply).len()),
        Err(error) => assert_error(&said(&error), "UNBLOCKED", &[]),
    }
}

/// What replaces the data of database 0 or ends the acting of a primary.
fn endings() -> Vec<Vec<Vec<Vec<u8>>>> {
    vec![
        vec![args!["DEBUG", "RELOAD"]],
        vec![args!["FLUSHALL"]],
        vec![args!["FLUSHDB", "ASYNC"]],
        vec![args!["SWAPDB", 3, 0]],
        vec![args!["MULTI"], args!["SWAPDB", 0, 3], args!["SWAPDB", 0, 3], args!["EXEC"]],
        vec![args!["CONFIG", "SET", "dq.enabled", "no"], args!["CONFIG", "SET", "dq.enabled", "yes"]],
        vec![args!["REPLICAOF", "127.0.0.1", server::free_port()], args!["REPLICAOF", "NO", "ONE"]],
    ]
}

/// What changes nothing about them.
fn others() -> Vec<Vec<Vec<Vec<u8>>>> {
    vec![
        vec![args!["SELECT", 3], args!["FLUSHDB"]],
        vec![args!["SWAPDB", 3, 4]],
        vec![args!["CONFIG", "SET", "dq.lease", "20s"]],
        vec![args!["SET", "other", "x"], args!["RENAME", "other", "another"], args!["DEL", "another"]],
        vec![args!["DQ.PUSH", "other", "x"], args!["DEL", "dq:{other}:due", "dq:{other}:jobs", "other"]],
    ]
}

#[test]
fn a_list_of_queues_is_whole_or_an_error() {
    let server = Server::builder().set("stale-policy", "keep").start();
    for ending in endings() {
        server.run(&["FLUSHALL"]);
        push_queues(&server, "q");
        assert_ended(met_by(&server, &[], &args!["DQ.QUEUES"], &ending), &format!("{ending:?}"));
    }
    server.run(&["FLUSHALL"]);
    let names = push_queues(&server, "q");
    for other in others() {
        let reply = met_by(&server, &[], &args!["DQ.QUEUES"], &other).unwrap_or_else(|e| panic!("{other:?}: {e}"));
        assert_eq!(&names_in(&reply), &names, "{other:?}");
    }
    let (reply, unload) = replies_to(&server, &[], &args!["DQ.QUEUES"], &[args!["MODULE", "UNLOAD", "dq"]]);
    assert_eq!(names_in(&reply.expect("it goes on")), names);
    assert!(unload[0].is_err(), "the module is unloaded under a walk");
    // Queues that come and go do not hide one that stays.
    let gone: Vec<_> = names.iter().step_by(2).map(|name| args!["DQ.DROP", name]).collect();
    let reply = met_by(&server, &[], &args!["DQ.QUEUES"], &gone).expect("it goes on");
    let stay: BTreeSet<_> = names.iter().skip(1).step_by(2).cloned().collect();
    assert!(names_in(&reply).is_superset(&stay));
}

#[test]
fn a_list_of_a_node_that_looks_for_its_queues() {
    let server = Server::builder().set("stale-policy", "keep").start();
    let names = push_queues(&server, "q");
    let reload = [args!["DEBUG", "RELOAD"]];
    let reply = met_by(&server, &reload, &args!["DQ.QUEUES"], &[args!["PING"]]).expect("it goes on");
    assert_eq!(names_in(&reply), names);
    for ending in endings() {
        server.run(&["FLUSHALL"]);
        push_queues(&server, "q");
        assert_ended(met_by(&server, &reload, &args!["DQ.QUEUES"], &ending), &format!("{ending:?}"));
    }
}

#[test]
fn a_list_of_a_replica() {
    let server = Server::builder().set("stale-policy", "keep").start();
    let names = push_queues(&server, "q");
    let replica = Server::builder().replica_of(&server).start();
    replica.catch_up(&server);
    assert_ended(met_by(&replica, &[], &args!["DQ.QUEUES"], &[args!["DEBUG", "RELOAD"]]), "DEBUG RELOAD");
    replica.catch_up(&server);
    for other in [args!["CONFIG", "SET", "dq.lease", "20s"], args!["REPLICAOF", "NO", "ONE"]] {
        let reply = met_by(&replica, &[], &args!["DQ.QUEUES"], std::slice::from_ref(&other));
        let reply = reply.unwrap_or_else(|error| panic!("{other:?}: {error}"));
        assert_eq!(names_in(&reply), names, "{other:?}");
    }
}

#[test]
fn a_list_of_a_replica_that_is_given_other_data() {
    let (one, two) = (Server::builder().start(), Server::builder().start());
    let (of_one, of_two) = (push_queues(&one, "one"), push_queues(&two, "two"));
    for diskless_load in ["disabled", "swapdb"] {
        let replica = Server::builder().line(&format!("repl-diskless-load {diskless_load}")).replica_of(&one).start();
        replica.catch_up(&one);
        let mut con = replica.conn();
        replica.run(&["REPLICAOF", "127.0.0.1", &two.port.to_string()]);
        let (mut whole, mut refused) = (0, BTreeSet::new());
        wait_for("the replica to list what it was given", || {
            match redis::cmd("DQ.QUEUES").query::<Value>(&mut con) {
                Ok(reply) => {
                    let names = names_in(&reply);
                    assert!(names == of_one || names == of_two || names.is_empty(), "{} queues", names.len());
                    whole += 1;
                    return names == of_two;
                }
                Err(error) => drop(refused.insert(error.code().unwrap_or_default().to_string())),
            }
            false
        });
        eprintln!("{diskless_load}: {whole} lists; refused: {refused:?}");
        let known: BTreeSet<_> = ["UNBLOCKED", "LOADING", "MASTERDOWN"].map(str::to_string).into();
        assert!(refused.is_subset(&known), "{refused:?}");
    }
}

/// What replaces the keys of one queue.
fn changes_of_q() -> Vec<Vec<Vec<Vec<u8>>>> {
    vec![
        vec![args!["DQ.DROP", "q", "FORCE"]],
        vec![args!["DEL", "dq:{q}:jobs"]],
        vec![args!["DEL", "dq:{q}:dead:at"]],
        vec![args!["RENAME", "dq:{q}:due", "away"], args!["RENAME", "away", "dq:{q}:due"]],
        vec![args!["RENAME", "dq:{q}:dead:at", "away"], args!["RENAME", "away", "dq:{q}:dead:at"]],
        vec![args!["COPY", "dq:{r}:due", "dq:{q}:due", "REPLACE"]],
    ]
}

/// `N` delayed jobs and `N` letters.
fn fill(server: &Server) -> Queue {
    server.run(&["FLUSHALL"]);
    server.queue("r").push("x");
    let mut q = server.queue("q");
    q.unwatched();
    q.push_many(N, &[]);
    let jobs = crate::slices::claim_many(&mut q, N, "1h");
    let mut pipe = redis::pipe();
    for job in &jobs {
        pipe.cmd("DQ.FAIL").arg("q").arg(&job.receipt).ignore();
    }
    pipe.exec(&mut q.con).expect("all fail");
    q.push_many(N, &args!["DELAY", "1h"]);
    q
}

#[test]
fn a_check_is_whole_or_an_error() {
    let server = Server::builder().set("stale-policy", "keep").start();
    for ending in [endings(), changes_of_q()].concat() {
        fill(&server);
        assert_ended(met_by(&server, &[], &args!["DQ.CHECK", "q"], &ending), &format!("{ending:?}"));
    }
    let mut q = fill(&server);
    for other in [others(), vec![vec![args!["DQ.DROP", "r"]], vec![args!["DQ.PUSH", "q", "x"]]]].concat() {
        let reply = met_by(&server, &[], &args!["DQ.CHECK", "q"], &other).unwrap_or_else(|e| panic!("{other:?}: {e}"));
        assert_eq!(list(&reply).len(), 0, "{other:?}");
    }
    q.check_clean();
}

#[test]
fn a_check_on_a_replica_goes_on_while_its_queue_works() {
    let server = Server::builder().set("stale-policy", "keep").start();
    let mut q = fill(&server);
    let replica = Server::builder().replica_of(&server).start();
    replica.catch_up(&server);
    let (mut con, mut checks) = (replica.conn(), 0);
    // Each job makes the index of the leases, and its end takes it away.
    while checks < 20 {
        con.send_packed_command(&packed(&args!["DQ.CHECK", "q"])).expect("it is sent");
        for _ in 0..20 {
            let job = q.push_and_claim("x");
            assert_eq!(q.ack(&job.receipt), 1);
        }
        assert_eq!(list(&con.recv_response().expect("it goes on")).len(), 0);
        checks += 1;
    }
    assert_ended(met_by(&replica, &[], &args!["DQ.CHECK", "q"], &[args!["DEBUG", "RELOAD"]]), "DEBUG RELOAD");
}

#[test]
fn a_repair_is_whole_or_an_error() {
    let server = Server::builder().set("stale-policy", "keep").start();
    for ending in [endings(), changes_of_q()].concat() {
        let mut q = fill(&server);
        let reply = met_by(&server, &[], &args!["DQ.REPAIR", "q"], &ending);
        assert_ended(reply, &format!("{ending:?}"));
        ok!(q, "REPAIR");
        q.check_clean();
    }
}

#[test]
fn a_count_before_a_replay_is_whole_or_an_error() {
    let server = Server::builder().set("stale-policy", "keep").start();
    for ending in [endings(), changes_of_q()].concat() {
        let mut q = fill(&server);
        assert_ended(met_by(&server, &[], &args!["DQ.REPLAY", "q", "ALL"], &ending), &format!("{ending:?}"));
        assert_eq!(q.stats(["replayed", "replaying"]), [0, 0], "{ending:?}");
    }
    let mut replayed = 0;
    for other in others() {
        let mut q = fill(&server);
        let reply = met_by(&server, &[], &args!["DQ.REPLAY", "q", "ALL"], &other);
        assert_eq!(int(&reply.unwrap_or_else(|error| panic!("{other:?}: {error}"))), N as i64, "{other:?}");
        q.wait_stat("replaying", 0);
        replayed += 1;
        assert_eq!(q.stats(["dead", "delayed", "ready"]), [0, N as i64, N as i64]);
    }
    assert_eq!(replayed, others().len());
}

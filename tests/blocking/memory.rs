//! What clients that wait cost: nothing stays of them, all of them together take no more than the operator allows, and
//! INFO says how much that is. `cargo test --test blocking memory:: -- --nocapture` shows what each one costs.

use std::time::{Duration, Instant};

use crate::client::{Client, FewClients};
use crate::common::builds::used_memory;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

fn waiting_bytes(server: &Server) -> i64 {
    server.info("dq", "dq_waiting_bytes").parse().expect("bytes")
}

fn known_queues(server: &Server) -> i64 {
    server.info("dq", "dq_queues").parse().expect("a count")
}

/// So many names of queues, of so many bytes each, of which none begins as those of another `family`.
fn names(family: &str, count: usize, bytes: usize) -> Vec<String> {
    (0..count).map(|i| format!("{family}:{i:0>width$}", width = bytes - family.len() - 1)).collect()
}

fn wait_for_any(names: &[String], block: u64) -> Vec<Vec<u8>> {
    args!["DQ.MCLAIM", names.len(), names, "BLOCK", block]
}

#[test]
fn a_queue_without_keys_is_forgotten_with_its_last_waiter() {
    let scene = Scene::new();
    let names = names("made-up", 100, 20);
    let mut stays = Client::waiting(&scene, "stays", &["BLOCK", "0"]);
    let with_one = waiting_bytes(&scene);
    for how in ["served", "time-out", "close", "kill", "unblock", "unblock error", "flush"] {
        let mut first = Client::new(&scene);
        first.send(wait_for_any(&names, if how == "time-out" { 50 } else { 0 }));
        let mut second = Client::new(&scene);
        second.wait_for_job(&scene, args!["DQ.CLAIM", names[7], "BLOCK", 0]);
        if how != "time-out" {
            assert_eq!(known_queues(&scene), 101, "{how}");
        }
        match how {
            "served" => {
                let job = scene.queue(&names[99]).push("x");
                assert_eq!(first.queued_jobs()[0].1.id, job);
                ok!(scene.queue(&names[99]), "DROP", "FORCE");
                scene.run(&["FLUSHALL"]);
            }
            "time-out" => assert_nothing(&first.read().expect("an empty answer")),
            "close" => drop(first),
            "kill" => drop(scene.run(&["CLIENT", "KILL", "ID", &first.id.to_string()])),
            "unblock" => drop(scene.run(&["CLIENT", "UNBLOCK", &first.id.to_string()])),
            "unblock error" => drop(scene.run(&["CLIENT", "UNBLOCK", &first.id.to_string(), "ERROR"])),
            _ => {
                scene.queue(&names[3]).push("flushed");
                assert_eq!(first.queued_jobs().len(), 1);
                scene.run(&["FLUSHALL"]);
            }
        }
        // The queue that the second waits for stays, at the price of one queue.
        wait_for("the names to be forgotten", || known_queues(&scene) == 2);
        let with_two = waiting_bytes(&scene);
        assert!(with_one < with_two && with_two < 3 * with_one, "{how}: {with_one} and {with_two} bytes");
        drop(second);
        wait_for("the last name to be forgotten", || known_queues(&scene) == 1);
        assert_eq!(waiting_bytes(&scene), with_one, "{how}");
    }
    // All of them are sent away.
    scene.set("enabled", "no");
    assert_error(&stays.error(), "UNBLOCKED", &[]);
    wait_for("the name to be forgotten", || known_queues(&scene) == 0);
    assert_eq!(waiting_bytes(&scene), 0);
    scene.set("enabled", "yes");
    scene.end();
}

#[test]
fn the_state_of_a_queue_with_keys_stays_when_its_waiters_leave() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    ok!(q, "PUSH", "later", "DELAY", "1h");
    ok!(q, "PAUSE");
    drop(waiter);
    q.wait_stat("waiting", 0);
    assert_eq!(known_queues(&scene), 1);
    assert_eq!(waiting_bytes(&scene), 0);
    assert_eq!(q.stats(["pushed", "delayed", "paused"]), [1, 1, 1]);
    scene.end();
}

#[test]
fn keys_made_by_hand_are_found_while_a_client_waits_for_them() {
    let scene = Scene::of(Server::builder().set("purge-interval", "20"));
    let mut other = scene.queue("other");
    let id = other.push("by hand");
    let record: Vec<u8> = other.raw(args!["HGET", other.key("jobs"), id]);
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut hand = Client::new(&scene);
    hand.call_all(&[
        args!["MULTI"],
        args!["HSET", queue::companion_key(b"q", "jobs"), id, record],
        args!["ZADD", queue::companion_key(b"q", "due"), 1, id],
        args!["EXEC"],
    ]);
    assert_eq!(waiter.job().payload, b"by hand");
    scene.end();
}

#[test]
fn waiters_that_would_take_too_much_are_refused() {
    let scene = Scene::of(Server::builder().set("max-waiting-memory", "2mb"));
    let mut q = scene.queue("q");
    let before = used_memory(&scene);
    let (mut waiters, mut refused) = (Vec::new(), None);
    for family in 0..10 {
        let mut client = Client::new(&scene);
        client.wait_for_job(&scene, wait_for_any(&names(&format!("f{family}"), 1000, 40), 0));
        if client.has_answer() {
            refused = Some(client);
            break;
        }
        waiters.push(client);
    }
    let mut refused = refused.expect("one of them is refused");
    assert_error(&refused.error(), "OOM", &["dq.max-waiting-memory"]);
    assert!(waiters.len() > 1, "{}", waiters.len());
    let grown = used_memory(&scene) - before;
    assert!(waiting_bytes(&scene) <= 2 << 20);
    assert!(grown < 4 << 20, "{grown} bytes for {} waiters", waiters.len());
    assert_eq!(scene.info("dq", "dq_refused_waiting"), "1");
    assert_eq!(scene.log().matches("dq.max-waiting-memory").count(), 1);
    // One that need not wait, or does not want to, is served as ever.
    let many = names("g", 1000, 40);
    assert_eq!(refused.call(args!["DQ.MCLAIM", many.len(), many]), redis::Value::Array(vec![]));
    q.push("x");
    let mut all = many.clone();
    all[999] = "q".into();
    refused.send(wait_for_any(&all, 0));
    assert_eq!(refused.queued_jobs()[0].1.payload, b"x");
    refused.call_all(&[args!["MULTI"], wait_for_any(&many, 0), args!["EXEC"]]);
    // A wider limit lets it wait at once, and so does one who leaves.
    scene.set("max-waiting-memory", "4mb");
    refused.wait_for_job(&scene, wait_for_any(&many, 0));
    scene.set("max-waiting-memory", "2mb");
    waiters.drain(..2);
    wait_for("two to be gone", || scene.info("dq", "dq_waiting") == waiters.len().saturating_add(1).to_string());
    let mut next = Client::new(&scene);
    next.wait_for_job(&scene, wait_for_any(&names("h", 1000, 40), 0));
    assert!(!next.has_answer());
    drop((waiters, refused, next));
    wait_for("everyone to be gone", || waiting_bytes(&scene) == 0);
    scene.end();
}

#[test]
fn the_limit_goes_by_maxmemory_unless_it_is_set() {
    let server = Server::start();
    let max = || server.info("dq", "dq_waiting_max_bytes").parse::<u64>().expect("bytes");
    let shown = || texts(&server.run(&["CONFIG", "GET", "dq.max-waiting-memory"]))[1].clone();
    server.queue("q").push("the module begins with the first command");
    assert_eq!((max(), shown().as_str()), (256 << 20, "auto"));
    server.run(&["CONFIG", "SET", "maxmemory", "160mb"]);
    assert_eq!(max(), 10 << 20);
    server.run(&["CONFIG", "SET", "maxmemory", "4mb"]);
    assert_eq!(max(), 1 << 20, "so that workers can wait on the smallest server");
    server.set("max-waiting-memory", "3mb");
    assert_eq!((max(), shown().as_str()), (3 << 20, "3145728"));
    server.set("max-waiting-memory", "AUTO");
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!((max(), shown().as_str()), (256 << 20, "auto"));
    let server = Server::builder().line("maxmemory 320mb").start();
    server.queue("q").push("x");
    assert_eq!(server.info("dq", "dq_waiting_max_bytes"), (20 << 20).to_string());
}

#[test]
fn the_rights_of_a_worker_do_not_fill_the_memory() {
    let server = Server::builder().line("maxmemory 100mb").start();
    server.run(&["ACL", "SETUSER", "worker", "on", "nopass", "~mail*", "+dq.mclaim"]);
    let end = Instant::now() + Duration::from_secs(3);
    let (mut calls, mut waited, mut most) = (0, 0, 0);
    let mut workers: Vec<Client> = (0..4).map(|_| Client::new(&server)).collect();
    for worker in &mut workers {
        worker.call(args!["AUTH", "worker", "x"]);
    }
    while Instant::now() < end {
        for worker in &mut workers {
            worker.send(wait_for_any(&names(&format!("mail{calls}"), 300, 4096), 1));
            calls += 1;
        }
        for worker in &mut workers {
            match worker.read() {
                Ok(nothing) => {
                    assert_nothing(&nothing);
                    waited += 1;
                }
                Err(error) => assert_error(&error, "OOM", &["dq.max-waiting-memory"]),
            }
        }
        most = most.max(used_memory(&server));
    }
    eprintln!("{calls} calls of 300 names of 4,096 bytes, {waited} waited, at most {} MiB in use", most >> 20);
    assert!(waited > 3, "{waited} of {calls} waited");
    assert!(most < 50 << 20, "{most} bytes");
    wait_for("the names to be forgotten", || known_queues(&server) == 0);
    // A claim that does not wait leaves nothing, though others wait for its queues.
    let some = names("mail", 500, 1000);
    workers[0].send(wait_for_any(&some, 0));
    wait_for("it to wait", || server.info("dq", "dq_waiting") == "1");
    let before = used_memory(&server);
    for _ in 0..3 {
        workers[1].call(args!["DQ.MCLAIM", some.len(), some]);
    }
    let grown = used_memory(&server) - before;
    assert!(grown < 1 << 20, "claims without BLOCK took {grown} bytes for good");
}

/// How much of what the server takes for clients that wait is accounted for, in percent.
fn share(server: &Server, before: i64, what: &str, units: usize) -> i64 {
    let (taken, told) = (used_memory(server) - before, waiting_bytes(server));
    eprintln!("{what}: {} bytes each, {} are told", taken / units as i64, told / units as i64);
    told * 100 / taken.max(1)
}

#[test]
fn what_is_told_is_what_is_taken() {
    for (what, clients, queues, bytes) in [
        ("a client in one line of all", 2000, 0, 12),
        ("a client that names a queue of its own", 2000, 1, 12),
        ("a queue of 1,000 that one client names, with a name of 12 bytes", 20, 1000, 12),
        ("a queue of 1,000 that one client names, with a name of 100 bytes", 20, 1000, 100),
        ("a queue of 1,000 that one client names, with a name of 4,096 bytes", 5, 1000, 4096),
    ] {
        let server = Server::builder().line("maxclients 5000").set("max-waiting-memory", "512mb").start();
        server.queue("q").push_and_claim("the module has all that it needs once");
        let crowd = FewClients::new(&server, clients);
        let before = used_memory(&server);
        let claims = |i: usize| match queues {
            0 => args!["DQ.CLAIM", "q", "BLOCK", 0],
            _ => wait_for_any(&names(&format!("{i}"), queues, bytes), 0),
        };
        crowd.send(claims);
        wait_for("all of them to wait", || server.info("dq", "dq_waiting") == clients.to_string());
        let share = share(&server, before, what, clients * queues.max(1));
        assert!((88..=112).contains(&share), "{what}: {share} % of what is taken is told");
    }
}

#[test]
fn what_a_queue_costs() {
    let server = Server::start();
    let mut con = server.conn();
    for bytes in [12, 100, 4096] {
        let names = names(&format!("of-{bytes}"), 2000, bytes);
        let keys = |server: &Server| {
            let sum: i64 = names
                .iter()
                .flat_map(|name| {
                    let companions = ["due", "jobs"].map(|companion| queue::companion_key(name.as_bytes(), companion));
                    companions.into_iter().chain([name.as_bytes().to_vec()])
                })
                .map(|key| {
                    redis::cmd("MEMORY").arg(&["USAGE"]).arg(key).query::<i64>(&mut server.conn()).expect("bytes")
                })
                .sum();
            sum
        };
        let before = used_memory(&server);
        for name in &names {
            redis::cmd("DQ.PUSH").arg(&[name, "x", "DELAY", "1h"]).exec(&mut con).expect("pushed");
        }
        let each = (used_memory(&server) - before - keys(&server)) / names.len() as i64;
        eprintln!("a known queue with a name of {bytes} bytes: {each} bytes beside its keys");
        assert!(each < 4_000 + 12 * bytes as i64, "{each} bytes");
        ok!(server.queue("other"), "PUSH", "x");
        server.run(&["FLUSHALL"]);
    }
}

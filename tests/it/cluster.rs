//! Cluster mode: one slot a queue, no key in a foreign slot, and slots that move key by key.

use crate::args;
use crate::common::scenarios;
use crate::common::server::{free_port, Builder};
use crate::common::*;

use super::bad_input::all_commands;

fn node() -> Builder {
    Server::builder().line("cluster-enabled yes").line(&format!("cluster-port {}", free_port()))
}

/// Gives the node all slots and waits until the cluster is up.
fn own_all(server: &Server) {
    server.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    wait_for("the cluster to be up", || text(&server.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok"));
}

fn id(server: &Server) -> String {
    text(&server.run(&["CLUSTER", "MYID"]))
}

fn slot(server: &Server, key: &str) -> String {
    int(&server.run(&["CLUSTER", "KEYSLOT", key])).to_string()
}

#[test]
fn every_scenario_runs_in_a_cluster() {
    let server = node().start();
    own_all(&server);
    scenarios::run_all(&server);
    scenarios::check_all(&server);
    let mut q = server.queue("{tenant7}:mail");
    let job = q.push_and_claim("x");
    assert_eq!(q.ack(&job.receipt), 1);
}

#[test]
fn a_queue_in_a_cluster_goes_by_its_own_settings() {
    let server = node().start();
    own_all(&server);
    let mut q = server.queue("q");
    q.ok("CONFIG", args!["SET", "lease", "7s", "max-payload", 2, "max-delay", "1m", "max-retries", 0]);
    assert_error(&q.err("PUSH", args!["123"]), "DQSIZE", &[]);
    assert_error(&q.err("PUSH", args!["1", "DELAY", "2m"]), "DQDELAY", &[]);
    let job = q.push_and_claim("x");
    assert_eq!(job.lease_ms, 7000);
    // Whatever somebody does to the header counts at once.
    q.raw::<i64>(args!["HSET", "q", "max-payload", 3]);
    q.push("123");
    assert_error(&q.err("RELEASE", args!["DELAY", "2m", "RECEIPTS", &job.receipt]), "DQDELAY", &[]);
    assert_eq!(q.retry(&job.receipt), -1);
}

#[test]
fn a_slot_that_moves_key_by_key_loses_nothing() {
    let (source, target) = (node().start(), node().start());
    own_all(&source);
    let (port, bus) = (target.port.to_string(), text(&source.run(&["CLUSTER", "MYID"])));
    let bus_port = text(&list(&target.run(&["CONFIG", "GET", "cluster-port"]))[1]);
    assert!(!bus.is_empty());
    source.run(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]);
    wait_for("the nodes to know each other", || {
        let known = |a: &Server, b: &Server| {
            let nodes = text(&a.run(&["CLUSTER", "NODES"]));
            nodes.lines().any(|line| line.starts_with(&id(b)) && !line.contains("handshake"))
        };
        known(&source, &target) && known(&target, &source)
    });
    wait_for("the target to know the slots", || text(&target.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok"));

    let mut q = source.queue("mail");
    q.ok("PUSH", args!["delayed", "DELAY", "1h"]);
    let dead = q.push_and_claim("dead");
    q.fail(&dead.receipt);
    q.ok("PUSH", args!["named", "ID", "mine", "DELAY", "1h"]);
    let held = q.push_and_claim("held");
    q.push("ready");
    let jobs_before: i64 = q.raw(args!["HLEN", q.key("jobs")]);

    let slot = slot(&source, "mail");
    target.run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(&source)]);
    source.run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(&target)]);
    q.unwatched();
    let migrate = |key: &[u8]| {
        let done: String = redis::cmd("MIGRATE")
            .arg("127.0.0.1")
            .arg(&port)
            .arg(key)
            .arg(0)
            .arg(10_000)
            .query(&mut source.conn())
            .expect("the key moves");
        assert_eq!(done, "OK");
    };
    migrate(&q.key("jobs"));

    // With one key gone, nobody acts on half of a queue, and no key is made twice.
    // A digest, since the keys of a slot that moves are not read without ASKING.
    let digest = || [&source, &target].map(|server| text(&server.run(&["DEBUG", "DIGEST"])));
    let before = digest();
    for (name, words) in all_commands(&held.receipt, &held.id) {
        if let Err(e) = q.call(name, words) {
            let e = error_text(&e);
            assert!(e.starts_with("TRYAGAIN ") || e.starts_with("ASK "), "{name}: {e}");
        } else {
            assert!(["STATS", "GET", "CHECK"].contains(&name), "{name} acted on half a queue");
        }
    }
    assert_eq!(digest(), before);

    // Nor does the target, where the other half is.
    let mut t = target.queue("mail");
    t.unwatched();
    for (name, words) in all_commands(&held.receipt, &held.id) {
        redis::cmd("ASKING").exec(&mut t.con).expect("ASKING answers");
        if let Err(e) = t.call(name, words) {
            assert_error(&error_text(&e), "TRYAGAIN", &[]);
        } else {
            assert!(["STATS", "GET", "CHECK"].contains(&name), "{name} acted on half a queue");
        }
    }
    assert_eq!(digest(), before);

    // A lease that ends now stays as it is: the timer sees that a key is away.
    let leased = q.key("leased");
    let now = q.now();
    q.raw::<i64>(args!["ZADD", &leased, "XX", now - 5, &held.id]);
    let mut other = source.queue("other");
    other.push("x");
    other.claim_and_lapse();
    assert!(q.raw::<Option<String>>(args!["ZSCORE", &leased, &held.id]).is_some());

    let left: Vec<Vec<u8>> = q.raw(args!["CLUSTER", "GETKEYSINSLOT", &slot, 100]);
    assert!(left.contains(&b"mail".to_vec()));
    for key in left {
        migrate(&key);
    }
    target.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(&target)]);
    source.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(&target)]);

    // At the target the lease ends by itself, and all is there.
    t.watched();
    t.wait_lapse(&held.id);
    assert_eq!(t.raw::<i64>(args!["HLEN", t.key("jobs")]), jobs_before);
    let mut payloads: Vec<Vec<u8>> = t.claim_n(10).into_iter().map(|job| job.payload).collect();
    payloads.sort();
    assert_eq!(payloads, [b"held".to_vec(), b"ready".to_vec()]);
    let e = q.call("PUSH", args!["x"]).expect_err("the slot is elsewhere");
    assert_error(&error_text(&e), "MOVED", &[]);
    // Nothing of the queue is made again at the source.
    other.push("y");
    other.claim_and_lapse();
    let left = source.dump();
    assert!(left.0.keys().all(|(_, key)| !String::from_utf8_lossy(key).contains("mail")), "{left:?}");
}

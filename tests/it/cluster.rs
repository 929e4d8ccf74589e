//! Cluster mode: one slot a queue, no key in a foreign slot, and slots that move key by key.

use crate::args;
use crate::common::scenarios;
use crate::common::server::Builder;
use crate::common::*;

use super::bad_input::all_commands;

fn node() -> Builder {
    Server::builder().cluster_node()
}

/// Gives the node all slots and waits until the cluster is up.
fn own_all(server: &Server) {
    server.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    wait_for("the cluster to be up", || text(&server.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok"));
}

fn id(server: &Server) -> String {
    text(&server.run(&["CLUSTER", "MYID"]))
}

pub fn slot(server: &Server, key: &str) -> String {
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

/// The server itself says where a queue is. Clients that do not know the keys of a module's commands follow that.
#[test]
fn every_command_is_sent_to_the_node_of_its_queue() {
    let (one, two) = (node().start(), node().start());
    one.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
    two.run(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
    one.run(&["CLUSTER", "MEET", "127.0.0.1", &two.port.to_string(), &two.bus_port()]);
    for server in [&one, &two] {
        wait_for("the cluster to be up", || text(&server.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok"));
    }
    assert_eq!(slot(&one, "{a}x"), "15495");
    let mut q = one.queue("{a}x");
    q.unwatched();
    for (name, words) in all_commands("receipt", "id") {
        assert_error(&q.err(name, words), "MOVED", &["15495"]);
    }
    for words in [&["DQ.MCLAIM", "2", "{a}x", "{a}y"][..], &["DQ.MCLAIM", "1", "{a}x", "BLOCK", "0"]] {
        let e = one.try_run(words).expect_err("the queues are elsewhere");
        assert_error(&error_text(&e), "MOVED", &["15495"]);
    }
    let e = two.try_run(&["DQ.MCLAIM", "2", "{a}x", "{b}x"]).expect_err("two slots");
    assert_error(&error_text(&e), "CROSSSLOT", &[]);
    assert!(list(&two.run(&["DQ.MCLAIM", "2", "{a}x", "{a}y"])).is_empty());
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

/// Runs a script that names keys of two slots, which every server refuses. From then on Valkey 9 refuses commands of
/// modules and of other scripts, too.
fn run_cross_slot_script(server: &Server) {
    let refusal = server.try_run(&["EVAL", "return redis.call('MGET', 'a', 'b')", "0"]).expect_err("two slots");
    assert!(error_text(&refusal).to_lowercase().contains("attempted to access"), "{refusal}");
}

/// Whether the server has that fault.
fn keeps_the_mark_of_a_cross_slot_script(server: &Server) -> bool {
    server.version().starts_with("valkey 9")
}

#[test]
fn a_cross_slot_script_stops_no_queue() {
    let server = node().start();
    own_all(&server);
    let mut q = server.queue("q");
    q.push("x");
    run_cross_slot_script(&server);
    assert_eq!(q.claim_and_lapse().payload, b"x");
    let held = q.claim();
    for (name, words) in all_commands(&held.receipt, &held.id) {
        run_cross_slot_script(&server);
        if let Err(e) = q.call(name, words) {
            let e = error_text(&e);
            assert!(["RETRY", "FAIL"].contains(&name) && e.starts_with("DQLOST "), "{name}: {e}");
        }
    }
    // Those who wait are served, and told: whether the script runs before they wait or while they do.
    for before in [true, false] {
        if before {
            run_cross_slot_script(&server);
        }
        let waiting = ["served", "{served}:too"].map(|name| wait_for_job(&server, name));
        wait_for("both to wait", || server.info("dq", "dq_waiting") == "2");
        if !before {
            run_cross_slot_script(&server);
        }
        for (name, waiting) in ["served", "{served}:too"].into_iter().zip(waiting) {
            server.queue(name).unwatched().push("y");
            let jobs = waiting.join().expect("the waiter ends well").expect("it is served");
            assert_eq!(Job::of(&list(&jobs)[0]).payload, b"y");
        }
    }
    let refused = server.info("dq", "dq_cross_slot_refusals").parse::<u64>().expect("a number");
    let logged = server.log().matches("a script named keys of two slots").count();
    if keeps_the_mark_of_a_cross_slot_script(&server) {
        assert!(refused > 0, "{}", server.version());
        wait_for("one line in the log", || server.log().matches("a script named keys of two slots").count() == 1);
        // Nor do scripts of other people fail any more.
        run_cross_slot_script(&server);
        q.push("z");
        assert_eq!(server.run(&["EVAL", "return redis.call('EXISTS', KEYS[1])", "1", "q"]), redis::Value::Int(1));
    } else {
        assert_eq!((refused, logged), (0, 0));
    }
}

/// The two are told apart: keys on their way are left alone, whatever scripts did before.
#[test]
fn a_slot_on_its_way_is_seen_after_a_cross_slot_script() {
    let (source, target) = pair();
    let mut q = source.queue("mail");
    let held = q.push_and_claim("held");
    q.push("ready");
    let slot = slot(&source, "mail");
    open_slot(&slot, &source, &target);
    q.unwatched();
    migrate(&q.key("jobs"), &source, &target);
    let digest = || [&source, &target].map(|server| text(&server.run(&["DEBUG", "DIGEST"])));
    let before = digest();
    for (name, words) in all_commands(&held.receipt, &held.id) {
        run_cross_slot_script(&source);
        if let Err(e) = q.call(name, words) {
            let e = error_text(&e);
            assert!(e.starts_with("TRYAGAIN ") || e.starts_with("ASK "), "{name}: {e}");
        } else {
            assert!(["STATS", "GET", "CHECK"].contains(&name), "{name} acted on half a queue");
        }
    }
    assert_eq!(digest(), before);
}

/// Two nodes that know each other; all slots are the first one's.
pub fn pair() -> (Server, Server) {
    let (source, target) = (node().start(), node().start());
    own_all(&source);
    source.run(&["CLUSTER", "MEET", "127.0.0.1", &target.port.to_string(), &target.bus_port()]);
    wait_for("the nodes to know each other", || {
        let known = |a: &Server, b: &Server| {
            let nodes = text(&a.run(&["CLUSTER", "NODES"]));
            nodes.lines().any(|line| line.starts_with(&id(b)) && !line.contains("handshake"))
        };
        known(&source, &target) && known(&target, &source)
    });
    wait_for("the target to know the slots", || text(&target.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok"));
    (source, target)
}

/// Begins to move a slot.
pub fn open_slot(slot: &str, source: &Server, target: &Server) {
    target.run(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &id(source)]);
    source.run(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &id(target)]);
}

/// Moves one key.
pub fn migrate(key: &[u8], source: &Server, target: &Server) {
    let done: String = redis::cmd("MIGRATE")
        .arg("127.0.0.1")
        .arg(target.port)
        .arg(key)
        .arg(0)
        .arg(10_000)
        .query(&mut source.conn())
        .expect("the key moves");
    assert_eq!(done, "OK");
}

/// The keys that a node still has of a slot.
fn keys_in(slot: &str, server: &Server) -> Vec<Vec<u8>> {
    list(&server.run(&["CLUSTER", "GETKEYSINSLOT", slot, "100"])).iter().map(bytes).collect()
}

/// Moves the rest of a slot.
pub fn close_slot(slot: &str, source: &Server, target: &Server) {
    for key in keys_in(slot, source) {
        migrate(&key, source, target);
    }
    target.run(&["CLUSTER", "SETSLOT", slot, "NODE", &id(target)]);
    source.run(&["CLUSTER", "SETSLOT", slot, "NODE", &id(target)]);
}

/// Gives the queue a job in each of its keys.
fn fill_every_key(q: &mut Queue) {
    let dead = q.push_and_claim("dead");
    q.fail(&dead.receipt);
    q.push_and_claim("held");
    q.ok("PUSH", args!["named", "ID", "mine", "DELAY", "1h"]);
}

#[test]
fn a_slot_that_moves_key_by_key_loses_nothing() {
    let (source, target) = pair();
    let mut q = source.queue("mail");
    q.ok("PUSH", args!["delayed", "DELAY", "1h"]);
    let dead = q.push_and_claim("dead");
    q.fail(&dead.receipt);
    q.ok("PUSH", args!["named", "ID", "mine", "DELAY", "1h"]);
    let held = q.push_and_claim("held");
    q.push("ready");
    let jobs_before: i64 = q.raw(args!["HLEN", q.key("jobs")]);

    let slot = slot(&source, "mail");
    open_slot(&slot, &source, &target);
    q.unwatched();
    migrate(&q.key("jobs"), &source, &target);

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

    assert!(keys_in(&slot, &source).contains(&b"mail".to_vec()));
    close_slot(&slot, &source, &target);

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

#[test]
fn a_header_that_moves_first_is_not_made_again_behind_it() {
    let (source, target) = pair();
    let mut q = source.queue("mail");
    fill_every_key(&mut q);
    q.unwatched();
    let slot = slot(&source, "mail");
    open_slot(&slot, &source, &target);
    assert_eq!(keys_in(&slot, &source).len(), 7);
    migrate(b"mail", &source, &target);
    // The source has heard of it and looked at the queue when it has ended a lease that it was given later.
    let mut other = source.queue("other");
    other.push("x");
    other.claim_and_lapse();
    assert_eq!(keys_in(&slot, &source).len(), 6, "{:?}", keys_in(&slot, &source));
    close_slot(&slot, &source, &target);
    assert_eq!(target.queue("mail").stats(["delayed", "leased", "dead"]), [1, 1, 1]);
}

/// All keys of a queue are there, and the slot is not yet: whatever comes due is still for the source to do.
#[test]
fn a_target_that_has_all_keys_does_nothing_before_the_slot_is_its_own() {
    let (source, target) = pair();
    let mut q = source.queue("mail");
    fill_every_key(&mut q);
    q.push("short");
    let short = q.claim_with(args!["LEASE", "500ms"]).remove(0);
    q.unwatched();
    let slots = [slot(&source, "mail"), slot(&source, "other")];
    open_slot(&slots[1], &source, &target);
    close_slot(&slots[1], &source, &target);
    open_slot(&slots[0], &source, &target);
    for key in keys_in(&slots[0], &source) {
        migrate(&key, &source, &target);
    }
    // By the time that a lease of its own has ended, the target has looked at the other, as it does once a second.
    wait_for("the lease to be over", || {
        q.now() > target_score(&target, &q.key("leased"), &short.id).unwrap_or(i64::MAX)
    });
    let mut other = target.queue("other");
    other.push("x");
    let own = other.claim_with(args!["LEASE", "1500ms"]).remove(0);
    other.wait_lapse(&own.id);
    assert!(target_score(&target, &q.key("leased"), &short.id).is_some(), "the target ended a lease too early");
    close_slot(&slots[0], &source, &target);
    let mut there = target.queue("mail");
    there.unwatched();
    there.wait_lapse(&short.id);
}

/// A score in a slot that a node is being given.
fn target_score(target: &Server, key: &[u8], id: &str) -> Option<i64> {
    let mut con = target.conn();
    redis::cmd("ASKING").exec(&mut con).expect("ASKING answers");
    redis::cmd("ZSCORE").arg(key).arg(id).query(&mut con).expect("the key is read")
}

/// A worker that waits for a job for ever.
fn wait_for_job(server: &Server, queue: &'static str) -> std::thread::JoinHandle<redis::RedisResult<redis::Value>> {
    let mut con = server.conn();
    std::thread::spawn(move || redis::cmd("DQ.CLAIM").arg(queue).arg("BLOCK").arg(0).query(&mut con))
}

#[test]
fn a_queue_that_left_with_its_slot_is_forgotten_and_those_who_wait_are_sent_away() {
    let (source, target) = pair();
    let mut q = source.queue("mail");
    fill_every_key(&mut q);
    q.unwatched();
    // For the queue, and for one of the same slot that has no key.
    let waiting = ["mail", "{mail}:new"].map(|name| wait_for_job(&source, name));
    wait_for("both to wait", || source.info("dq", "dq_waiting") == "2");
    let slot = slot(&source, "mail");
    open_slot(&slot, &source, &target);
    close_slot(&slot, &source, &target);
    for waiting in waiting {
        let answer = waiting.join().expect("the waiter ends well").expect_err("the queue has left");
        assert_error(&error_text(&answer), "UNBLOCKED", &["slot"]);
    }
    wait_for("the source to forget the queue", || source.info("dq", "dq_queues") == "0");
    assert_eq!(target.queue("mail").stats(["delayed", "leased", "dead"]), [1, 1, 1]);
}

/// The workers may have been cut off from the node as well, so they get the grace when it is over.
#[test]
fn while_the_cluster_is_down_nobody_waits_and_then_the_grace_begins() {
    const GRACE_MS: i64 = 1500;
    let server = node().set("takeover-grace", &format!("{GRACE_MS}ms")).start();
    own_all(&server);
    let mut q = server.queue("mail");
    q.push("x");
    wait_for("the first grace to be over", || server.info("dq", "dq_takes_writes") == "1");
    let job = q.claim_with(args!["LEASE", 300]).remove(0);
    q.unwatched();
    let waiting = wait_for_job(&server, "mail");
    wait_for("somebody to wait", || server.info("dq", "dq_waiting") == "1");
    let other = (int(&server.run(&["CLUSTER", "KEYSLOT", "mail"])) + 1).to_string();
    server.run(&["CLUSTER", "DELSLOTS", &other]);
    let answer = waiting.join().expect("the waiter ends well").expect_err("the cluster is down");
    // The server tells some of them itself.
    let answer = error_text(&answer);
    assert!(answer.starts_with("UNBLOCKED ") || answer.starts_with("CLUSTERDOWN "), "{answer}");
    assert_eq!(server.info("dq", "dq_waiting"), "0");
    wait_for("the node to see that no write is taken", || server.info("dq", "dq_takes_writes") == "0");
    let up = q.now();
    server.run(&["CLUSTER", "ADDSLOTS", &other]);
    wait_for("the cluster to be up", || text(&server.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok"));
    q.wait_lapse(&job.id);
    let lapsed_after = q.now() - up;
    assert!(lapsed_after >= GRACE_MS, "the lease ended {lapsed_after} ms after the cluster was up");
}

#[test]
fn max_leased_holds_in_a_cluster_and_who_waits_for_room_is_woken() {
    let server = node().start();
    own_all(&server);
    let mut q = server.queue("{tenant7}:mail");
    q.ok("CONFIG", args!["SET", "max-leased", 2]);
    q.push_many(5, &[]);
    let held = q.claim_n(5);
    assert_eq!(held.len(), 2);
    assert!(q.claim_n(5).is_empty());
    let waiter = |q: &mut Queue, act: &mut dyn FnMut(&mut Queue)| {
        std::thread::scope(|scope| {
            let mut worker = server.queue(&q.name);
            worker.unwatched();
            let claim = scope.spawn(move || worker.claim_with(args!["COUNT", 5, "BLOCK", "20s"]));
            q.wait_stat("waiting", 1);
            act(q);
            let jobs = claim.join().expect("it is answered");
            assert_eq!(jobs.len(), 1);
            jobs
        })
    };
    waiter(&mut q, &mut |q| assert_eq!(q.ack(&held[0].receipt), 1));
    assert!(q.claim_n(5).is_empty());
    // Nor is the limit another hand's that wrote it into the header.
    let third = waiter(&mut q, &mut |q| drop(q.ok("CONFIG", args!["SET", "max-leased", 3]))).remove(0);
    q.raw::<i64>(args!["HSET", "{tenant7}:mail", "max-leased", 1]);
    assert_eq!(q.release(&third.receipt), 0);
    assert!(q.claim_n(5).is_empty(), "there are two leases still, and one is the most");
    assert_eq!(q.stats(["leased", "ready"]), [2, 2]);
}

#[test]
fn repair_mends_a_queue_in_a_cluster() {
    let server = node().start();
    own_all(&server);
    let mut q = server.queue("{tenant7}:mail");
    q.unwatched();
    let held = q.push_and_claim("held");
    let lost = q.push("lost");
    q.ok("PUSH", args!["gone", "ID", "gone", "DELAY", "1h"]);
    q.raw::<i64>(args!["ZREM", q.key("due"), &lost]);
    q.raw::<i64>(args!["HDEL", q.key("jobs"), "gone"]);
    assert_eq!(list(&q.ok("REPAIR", args![])).len(), 2);
    q.check_clean();
    assert_eq!(q.claim().id, lost);
    assert_eq!(q.ack(&held.receipt), 1);
}

#[test]
fn repair_leaves_a_queue_alone_whose_keys_are_on_their_way() {
    // What looks like entries without jobs is a queue whose jobs have gone ahead.
    for moved in ["jobs", "due", "leased"] {
        let (source, target) = pair();
        let mut q = source.queue("mail");
        let job = q.push_and_claim("held");
        q.push("ready");
        open_slot(&slot(&source, "mail"), &source, &target);
        q.unwatched();
        migrate(&q.key(moved), &source, &target);
        let digest = || [&source, &target].map(|server| text(&server.run(&["DEBUG", "DIGEST"])));
        let before = digest();
        let refusal = error_text(&q.call("REPAIR", args![]).expect_err("half a queue is not to be mended"));
        assert!(refusal.starts_with("TRYAGAIN ") || refusal.starts_with("ASK "), "{moved}: {refusal}");
        let mut t = target.queue("mail");
        t.unwatched();
        redis::cmd("ASKING").exec(&mut t.con).expect("ASKING answers");
        let refusal = error_text(&t.call("REPAIR", args![]).expect_err("nor is the other half"));
        assert_error(&refusal, "TRYAGAIN", &[]);
        assert_eq!(digest(), before, "{moved}");
        let left: Vec<Vec<u8>> = q.raw(args!["CLUSTER", "GETKEYSINSLOT", slot(&source, "mail"), 100]);
        left.iter().for_each(|key| migrate(key, &source, &target));
        for server in [&target, &source] {
            server.run(&["CLUSTER", "SETSLOT", &slot(&source, "mail"), "NODE", &id(&target)]);
        }
        let mut t = target.queue("mail");
        assert_eq!(list(&t.ok("REPAIR", args![])).len(), 0, "{moved}");
        assert_eq!(t.ack(&job.receipt), 1);
        assert_eq!(t.claim().payload, b"ready");
    }
}

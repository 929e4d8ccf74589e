//! Commands that another module calls: with a user and without, where it can wait for a promise and where it cannot.

use crate::args;
use crate::client::*;
use crate::common::caller::load_caller;
use crate::common::*;
use crate::ok;
use crate::scene::*;

/// Whether a module can wait for what it calls.
fn has_promises(scene: &Scene) -> bool {
    let has = !scene.version().starts_with("redis 7.0");
    if !has {
        skip("before Redis 7.2 a module cannot wait for a command that it calls");
    }
    has
}

fn called(flags: &str, words: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    [args!["CALLER.CALL", flags], words].concat()
}

fn wait_for_waiters(server: &Server, count: usize) {
    wait_for("the call to wait", || server.info("dq", "dq_waiting") == count.to_string());
}

#[test]
fn a_blocking_claim_fulfils_its_promise() {
    let scene = Scene::new();
    load_caller(&scene);
    if !has_promises(&scene) {
        return;
    }
    let mut q = scene.queue("q");
    let mut client = Client::new(&scene);
    for flags in ["!K", "!KE", "!KEC", "!KC"] {
        // A job.
        client.send(called(flags, args!["DQ.CLAIM", "q", "BLOCK", 0, "LEASE", "9s"]));
        wait_for_waiters(&scene, 1);
        let id = q.push(flags);
        let job = client.job();
        assert_eq!((&job.id, &job.payload[..], job.attempt, job.lease_ms), (&id, flags.as_bytes(), 1, 9000), "{flags}");
        assert_eq!(q.ack(&job.receipt), 1, "{flags}");
        // Of one of several queues, when it is due.
        client.send(called(flags, args!["DQ.MCLAIM", 2, "p", "q", "BLOCK", 0, "COUNT", 2]));
        wait_for_waiters(&scene, 1);
        ok!(q, "MPUSH", "DELAY", 20, "PAYLOADS", "a", "b");
        let jobs = client.queued_jobs();
        assert_eq!(jobs.len(), 2, "{flags}");
        jobs.iter().for_each(|(_, job)| assert_eq!(q.ack(&job.receipt), 1));
        // One that is there already.
        q.push("there");
        client.send(called(flags, args!["DQ.CLAIM", "q", "BLOCK", 0]));
        let job = client.job();
        assert_eq!(q.ack(&job.receipt), 1);
        // Nothing.
        client.send(called(flags, args!["DQ.CLAIM", "q", "BLOCK", 30]));
        assert_nothing(&client.read().expect("an empty answer"));
        // Sent away.
        client.send(called(flags, args!["DQ.CLAIM", "q", "BLOCK", 0]));
        wait_for_waiters(&scene, 1);
        scene.set("enabled", "no");
        assert_error(&client.error(), "UNBLOCKED", &[]);
        scene.set("enabled", "yes");
    }
    assert_eq!(q.stats(["released", "leased", "ready", "waiting"]), [0; 4]);
    scene.end();
}

#[test]
fn a_call_that_cannot_wait_answers_at_once() {
    let scene = Scene::new();
    load_caller(&scene);
    let mut client = Client::new(&scene);
    for flags in ["", "E", "C", "EC"] {
        for claim in [args!["DQ.CLAIM", "q", "BLOCK", 0], args!["DQ.MCLAIM", 1, "q", "BLOCK", 0]] {
            assert_nothing(&client.call(called(flags, claim)));
        }
    }
    for flags in ["E", "EC"] {
        client.send(called(flags, args!["DQ.REPAIR", "q"]));
        assert_error(&client.error(), "ERR", &["nobody can wait"]);
    }
    if has_promises(&scene) {
        // Nor can one in MULTI or in a script.
        let replies =
            client.call_all(&[args!["MULTI"], called("KE", args!["DQ.CLAIM", "q", "BLOCK", 0]), args!["EXEC"]]);
        assert_nothing(&list(&replies[2])[0]);
        let script = "return redis.call('CALLER.CALL', 'KE', 'DQ.CLAIM', 'q', 'BLOCK', 0)";
        assert_nothing(&client.call(args!["EVAL", script, 0]));
    }
    scene.end();
}

#[test]
fn repair_is_for_modules_and_for_users_who_may_run_it() {
    let scene = Scene::new();
    load_caller(&scene);
    if !has_promises(&scene) {
        return;
    }
    let mut q = scene.queue("q");
    let damage = |q: &mut Queue| {
        q.push("x");
        let key = q.key("due");
        assert_eq!(q.unwatched().raw::<i64>(args!["DEL", key]), 1);
    };
    scene.run(&["ACL", "SETUSER", "reader", "on", "nopass", "allkeys", "+dq.check", "+caller.call"]);
    scene.run(&["ACL", "SETUSER", "reader", "+client|id"]);
    let mut reader = Client::new_as(&scene, "reader");
    let mut client = Client::new(&scene);
    for flags in ["!K", "!KE", "!KEC"] {
        damage(&mut q);
        let mended = list(&client.call(called(flags, args!["DQ.REPAIR", "q"])));
        assert_eq!(text(&list(&mended[0])[0]), "job-without-index");
        q.watched().check_clean();
        ok!(q, "PURGE", "STATE", "ready");
    }
    // The module may do what its user may not, unless it asks to be bound by its rights.
    damage(&mut q);
    reader.send(called("KEC", args!["DQ.REPAIR", "q"]));
    assert_error(&reader.error(), "NOPERM", &["dq.repair"]);
    assert_eq!(list(&reader.call(called("KE", args!["DQ.REPAIR", "q"]))).len(), 1);
    q.watched().check_clean();
    scene.end();
}

#[test]
fn rights_are_asked_for_again_of_calls_that_have_a_user() {
    let scene = Scene::new();
    load_caller(&scene);
    if !has_promises(&scene) {
        return;
    }
    let mut q = scene.queue("q");
    for (flags, is_served) in [("KEC", false), ("KE", true)] {
        scene.run(&["ACL", "SETUSER", "worker", "reset", "on", "nopass", "~q", "+dq.claim", "+caller.call"]);
        let mut worker = Client::new_as(&scene, "worker");
        worker.send(called(flags, args!["DQ.CLAIM", "q", "BLOCK", 0]));
        wait_for_waiters(&scene, 1);
        scene.run(&["ACL", "SETUSER", "worker", "resetkeys"]);
        q.push("x");
        if is_served {
            assert_eq!(worker.job().payload, b"x");
        } else {
            assert_error(&worker.error(), "NOPERM", &[]);
            q.claim();
        }
        ok!(q, "PURGE", "STATE", "leased");
    }
    scene.end();
}

#[test]
fn a_client_of_a_user_that_a_module_made_is_served() {
    let scene = Scene::new();
    load_caller(&scene);
    let mut q = scene.queue("q");
    let mut client = Client::new(&scene);
    client.call(args!["CALLER.LOGIN", "nobody-in-the-acl"]);
    client.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    q.push("x");
    assert_eq!(client.job().payload, b"x");
    scene.end();
}

#[test]
fn no_command_that_a_module_calls_harms_the_server() {
    let scene = Scene::new();
    load_caller(&scene);
    let mut client = Client::new(&scene);
    let receipt = scene.queue("other").push_and_claim("x").receipt;
    let commands = [
        args!["DQ.PUSH", "q", "x"],
        args!["DQ.MPUSH", "q", "PAYLOADS", "x", "y"],
        args!["DQ.CLAIM", "q"],
        args!["DQ.MCLAIM", 2, "q", "p"],
        args!["DQ.ACK", "q", &receipt],
        args!["DQ.EXTEND", "q", 1000, &receipt],
        args!["DQ.RETRY", "q", &receipt],
        args!["DQ.RELEASE", "q", "RECEIPTS", &receipt],
        args!["DQ.FAIL", "q", &receipt],
        args!["DQ.STATS", "q"],
        args!["DQ.GET", "q", "id"],
        args!["DQ.PEEK", "q"],
        args!["DQ.CANCEL", "q", "id"],
        args!["DQ.RESCHEDULE", "q", "DELAY", 0, "ALL"],
        args!["DQ.REPLAY", "q", "ALL"],
        args!["DQ.PURGE", "q", "STATE", "ready"],
        args!["DQ.PAUSE", "q"],
        args!["DQ.RESUME", "q"],
        args!["DQ.CONFIG", "q", "GET"],
        args!["DQ.QUEUES"],
        args!["DQ.CHECK", "q"],
        args!["DQ.REPAIR", "q"],
        args!["DQ.DROP", "q", "FORCE"],
    ];
    let all = list(&scene.run(&["COMMAND", "LIST", "FILTERBY", "MODULE", "dq"])).len();
    assert_eq!(commands.len(), all, "every command");
    for flags in ["", "E", "C", "EC", "!E", "SE", "K", "KE", "KEC", "!KE"] {
        for command in &commands {
            client.send(called(flags, command.clone()));
            // A reply or an error; that it comes is all that counts.
            let _ = client.read();
        }
    }
    assert_eq!(text(&client.call(args!["PING"])), "PONG");
    // What was called without `!` the server has not told its replica, as the module wanted.
    assert_whole(&scene);
    assert!(!scene.log().contains("panicked"), "a handler panicked:\n{}", scene.log());
}

//! Rights are looked at again when a client that waits is served: whoever lost them gets NOPERM, and the job goes to the
//! next in line as if nobody had been before it.

use crate::args;
use crate::client::*;
use crate::common::*;
use crate::scene::*;

/// A client of the user `worker`, which may claim from the queues whose names begin with `mail`.
fn worker(server: &Server) -> Client {
    server.run(&[
        "ACL",
        "SETUSER",
        "worker",
        "reset",
        "on",
        "nopass",
        "~mail*",
        "+dq.claim",
        "+dq.mclaim",
        "+client|id",
    ]);
    Client::new_as(server, "worker")
}

fn set_user(server: &Server, rules: &[&str]) {
    let words: Vec<&str> = ["ACL", "SETUSER", "worker"].iter().chain(rules).copied().collect();
    server.run(&words);
}

/// Fails unless ACL LOG has so many entries, where the server makes them for modules.
#[track_caller]
fn assert_acl_log(server: &Server, entries: usize, what: &str) {
    let found = list(&server.run(&["ACL", "LOG"])).len();
    let expected = if server.version().starts_with("redis 7.0") { 0 } else { entries };
    assert_eq!(found, expected, "{what}");
}

#[test]
fn who_lost_its_rights_is_refused_and_the_next_in_line_is_served() {
    let scene = Scene::new();
    let claim = || args!["DQ.CLAIM", "mail", "BLOCK", 0];
    let both = || args!["DQ.MCLAIM", 2, "mail", "mail2", "BLOCK", 0];
    type Case = (&'static str, fn() -> Vec<Vec<u8>>, &'static [&'static str], bool);
    let cases: [Case; 9] = [
        ("its keys", claim, &["resetkeys"], true),
        ("its keys but others", claim, &["resetkeys", "~mail2"], true),
        ("the command", claim, &["-dq.claim"], true),
        ("all commands", claim, &["-@all", "+dq.mclaim"], true),
        ("everything", claim, &["reset", "on"], true),
        ("one of two keys", both, &["resetkeys", "~mail"], true),
        ("the other of two keys", both, &["resetkeys", "~mail2"], true),
        ("the command of several", both, &["-dq.mclaim"], true),
        // The server itself lets those go on who are logged in, and has no word for it in its log.
        ("its being on", claim, &["off"], false),
    ];
    for (what, words, rules, is_logged) in cases {
        let mut first = worker(&scene);
        scene.run(&["ACL", "LOG", "RESET"]);
        first.wait_for_job(&scene, words());
        assert_acl_log(&scene, 0, "nothing was denied to a client that waits");
        let mut next = Client::waiting(&scene, "mail", &["BLOCK", "0"]);
        set_user(&scene, rules);
        first.assert_silent(&scene);
        let mut q = scene.queue("mail");
        let before = q.stats(["claimed", "released", "lapsed", "lease-lost"]);
        let id = q.push(what);
        assert_error(&first.error(), "NOPERM", &[]);
        let job = next.job();
        assert_eq!((&job.id, &job.payload[..], job.attempt), (&id, what.as_bytes(), 1), "{what}");
        assert!(job.receipt.starts_with(&format!("{id}:1.")), "{what}: {}", job.receipt);
        let [claimed, others @ ..] = before;
        let after = q.stats(["claimed", "released", "lapsed", "lease-lost"]);
        assert_eq!((after[0], &after[1..]), (claimed + 1, &others[..]), "{what}");
        assert_acl_log(&scene, usize::from(is_logged), what);
        assert_eq!((q.ack(&job.receipt), scene.queue("mail2").stat("waiting")), (1, 0), "{what}");
    }
    scene.end();
}

#[test]
fn who_has_rights_enough_is_served_whatever_was_changed() {
    let scene = Scene::new();
    let mut q = scene.queue("mail");
    for rules in [
        &["resetkeys", "~m*"][..],
        &["resetkeys", "~mail", "~mail2"],
        &["-@all", "+dq.claim", "+dq.mclaim"],
        &["off", "on"],
        &["resetpass", ">new"],
        &["reset", "on", "allkeys", "allcommands"],
    ] {
        let mut client = worker(&scene);
        client.wait_for_job(&scene, args!["DQ.CLAIM", "mail", "BLOCK", 0]);
        let mut other = worker(&scene);
        set_user(&scene, rules);
        let id = q.push("x");
        assert_eq!(client.job().id, id, "{rules:?}");
        other.wait_for_job(&scene, args!["DQ.MCLAIM", 2, "mail2", "mail", "BLOCK", 0]);
        let id = q.push("y");
        assert_eq!(other.queued_jobs()[0].1.id, id, "{rules:?}");
    }
    scene.end();
}

#[test]
fn rights_that_go_in_the_same_moment_as_a_job_comes_count() {
    let scene = Scene::new();
    let mut q = scene.queue("mail");
    let mut hand = Client::new(&scene);
    for delay in [0, 30] {
        let mut client = worker(&scene);
        client.wait_for_job(&scene, args!["DQ.CLAIM", "mail", "BLOCK", 0]);
        hand.call_all(&[
            args!["MULTI"],
            args!["DQ.PUSH", "mail", delay, "DELAY", delay],
            args!["ACL", "SETUSER", "worker", "resetkeys"],
            args!["EXEC"],
        ]);
        assert_error(&client.error(), "NOPERM", &[]);
        q.wait_stat("ready", 1);
        assert_eq!(q.claim().attempt, 1);
    }
    scene.end();
}

#[test]
fn every_way_in_which_a_job_comes_due_asks_for_rights() {
    let scene = Scene::new();
    let mut q = scene.queue("mail");
    let mut held = q.push_and_claim("x");
    type Way = (&'static str, fn(&mut Queue, &str));
    let ways: [Way; 4] = [
        ("RETRY", |q, receipt| drop(q.ok("RETRY", args![receipt, "DELAY", 0]))),
        ("RELEASE", |q, receipt| drop(q.ok("RELEASE", args!["RECEIPTS", receipt]))),
        ("RESUME", |q, receipt| {
            q.ok("PAUSE", args![]);
            q.ok("RELEASE", args!["RECEIPTS", receipt]);
            q.ok("RESUME", args![]);
        }),
        ("REPLAY", |q, receipt| {
            q.ok("FAIL", args![receipt]);
            q.ok("REPLAY", args!["ALL"]);
        }),
    ];
    for (name, act) in ways {
        let mut client = worker(&scene);
        client.wait_for_job(&scene, args!["DQ.CLAIM", "mail", "BLOCK", 0]);
        set_user(&scene, &["resetkeys"]);
        act(&mut q, &held.receipt);
        assert_error(&client.error(), "NOPERM", &[]);
        held = q.claim();
        assert_eq!(held.payload, b"x", "{name}");
    }
    scene.end();
}

#[test]
fn a_user_that_is_deleted_gets_nothing() {
    let scene = Scene::new();
    let mut q = scene.queue("mail");
    let mut client = worker(&scene);
    client.wait_for_job(&scene, args!["DQ.CLAIM", "mail", "BLOCK", 0]);
    let mut next = Client::waiting(&scene, "mail", &["BLOCK", "0"]);
    // The server closes the connection, some time after.
    let mut hand = Client::new(&scene);
    hand.send_all(&[args!["ACL", "DELUSER", "worker"], args!["DQ.PUSH", "mail", "x"]]);
    assert_eq!(next.job().attempt, 1);
    if let Some(reply) = client.read_or_closed() {
        assert_error(&reply.expect_err("no job"), "NOPERM", &[]);
    }
    assert_eq!(q.stats(["claimed", "leased", "released", "waiting"]), [1, 1, 0, 0]);
    scene.end();
}

#[test]
fn many_without_rights_do_not_hold_up_the_one_who_has() {
    let scene = Scene::new();
    let mut q = scene.queue("mail");
    let mut denied: Vec<Client> = (0..200).map(|_| worker(&scene)).collect();
    for client in &mut denied {
        client.send(args!["DQ.CLAIM", "mail", "BLOCK", 0]);
    }
    q.wait_stat("waiting", 200);
    let mut last = Client::waiting(&scene, "mail", &["BLOCK", "0"]);
    set_user(&scene, &["resetkeys"]);
    q.push("x");
    assert_eq!(last.job().payload, b"x");
    for client in &mut denied {
        assert_error(&client.error(), "NOPERM", &[]);
    }
    assert_eq!(q.stats(["claimed", "leased", "waiting"]), [1, 1, 0]);
    scene.end();
}

#[test]
fn databases_that_a_user_may_use_count_where_the_server_has_such_rules() {
    let server = Server::start();
    let mut client = worker(&server);
    if server.try_run(&["ACL", "SETUSER", "worker", "resetdbs", "db=0"]).is_err() {
        return skip("before Valkey 9.1 a user's rules say nothing of databases");
    }
    let mut q = server.queue("mail");
    client.wait_for_job(&server, args!["DQ.CLAIM", "mail", "BLOCK", 0]);
    q.push("x");
    assert_eq!(client.job().payload, b"x");
    client.wait_for_job(&server, args!["DQ.MCLAIM", 2, "mail2", "mail", "BLOCK", 0]);
    set_user(&server, &["resetdbs", "db=1"]);
    q.push("y");
    assert_error(&client.error(), "NOPERM", &[]);
    assert_eq!(q.claim().payload, b"y");
    // Such a user may repair the queue if it may run the command.
    set_user(&server, &["resetdbs", "db=0", "+dq.repair"]);
    assert_nothing(&client.call(args!["DQ.REPAIR", "mail"]));
    set_user(&server, &["-dq.repair"]);
    client.send(args!["DQ.REPAIR", "mail"]);
    assert_error(&client.error(), "NOPERM", &["dq.repair"]);
}

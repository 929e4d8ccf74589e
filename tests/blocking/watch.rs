//! WATCH on a queue's keys while clients wait for its jobs.

use redis::Value;

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

/// A client that watches these keys.
fn watching(server: &Server, keys: &[&[u8]]) -> Client {
    let mut client = Client::new(server);
    client.call(args!["WATCH", keys]);
    client
}

/// Whether a transaction of the client's does not run, since something that it watched has changed.
fn is_broken(client: &mut Client) -> bool {
    match &client.call_all(&[args!["MULTI"], args!["PING"], args!["EXEC"]])[2] {
        Value::Nil => true,
        reply => {
            assert_eq!(list(reply).len(), 1);
            false
        }
    }
}

#[test]
fn serving_a_waiter_breaks_a_watch_on_what_it_changes() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let [due, leased, jobs, dead, ids] = ["due", "leased", "jobs", "dead", "ids"].map(|companion| q.key(companion));
    // One job that stays, so that no key comes or goes for want of jobs.
    ok!(q, "PUSH", "far", "DELAY", "1h", "ID", "far");
    for round in 0..5 {
        let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        ok!(q, "PUSH", "x", "DELAY", 150);
        // Nobody writes from here on but the module, when the job is due.
        let mut broken = [&due, &leased].map(|key| watching(&scene, &[key]));
        let mut both = watching(&scene, &[&dead, &leased, &jobs]);
        let mut whole = watching(&scene, &[&dead, &ids, b"beside"]);
        let mut early = watching(&scene, &[&due, &leased, &jobs]);
        assert_eq!(q.stats(["delayed", "leased"]), [2, 0], "the machine is too slow for this");
        assert!(!is_broken(&mut early), "nothing has changed yet");
        let job = waiter.job();
        for client in &mut broken {
            assert!(is_broken(client), "{round}");
        }
        assert!(is_broken(&mut both));
        assert!(!is_broken(&mut whole), "it watched nothing that changed");
        // A watch that begins after it is whole, too.
        assert!(!is_broken(&mut watching(&scene, &[&due, &leased, &jobs])));
        assert_eq!(q.ack(&job.receipt), 1);
    }
    scene.end();
}

#[test]
fn serving_breaks_a_watch_on_a_queue_that_was_not_there() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let keys = ["due", "leased", "jobs"].map(|companion| q.key(companion));
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut watchers: Vec<Client> = keys.iter().map(|key| watching(&scene, &[key])).collect();
    // Push and serve make the key `due` and take it away again.
    q.push("x");
    let job = waiter.job();
    assert!(watchers.iter_mut().all(is_broken));
    assert_eq!(q.ack(&job.receipt), 1);
    scene.end();
}

#[test]
fn waiting_and_going_break_no_watch() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    ok!(q, "PUSH", "far", "DELAY", "1h");
    let keys = ["due", "leased", "jobs", "dead", "dead:at", "ids"].map(|companion| q.key(companion));
    let mut watcher = watching(&scene, &keys.each_ref().map(Vec::as_slice));
    watcher.call(args!["WATCH", "q"]);
    let mut waiters: Vec<Client> = (0..4).map(|_| Client::waiting(&scene, "q", &["BLOCK", "0"])).collect();
    let mut short = Client::new(&scene);
    short.send(args!["DQ.CLAIM", "q", "BLOCK", 20]);
    assert_nothing(&short.read().expect("an empty answer"));
    waiters.truncate(3);
    q.wait_stat("waiting", 3);
    for (waiter, how) in waiters.iter_mut().zip(["TIMEOUT", "ERROR"]) {
        scene.run(&["CLIENT", "UNBLOCK", &waiter.id.to_string(), how]);
        assert!(!waiter.served());
    }
    scene.set("enabled", "no");
    assert!(!waiters[2].served());
    scene.set("enabled", "yes");
    assert!(!is_broken(&mut watcher));
    scene.end();
}

#[test]
fn a_waiter_that_watches() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let (due, leased) = (q.key("due"), q.key("leased"));
    // What it waits for changes what it watches.
    let mut waiter = watching(&scene, &[&due]);
    waiter.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    q.push("x");
    let job = waiter.job();
    assert!(is_broken(&mut waiter));
    assert_eq!(q.ack(&job.receipt), 1);
    // What it watches is changed by others while it waits, or by nobody.
    for changed in [true, false] {
        let mut waiter = watching(&scene, &[b"beside"]);
        waiter.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
        if changed {
            scene.run(&["SET", "beside", "1"]);
        }
        q.push("x");
        let job = waiter.job();
        assert_eq!(is_broken(&mut waiter), changed);
        assert_eq!(q.ack(&job.receipt), 1);
    }
    // In MULTI it does not wait, whatever it watches.
    let mut client = watching(&scene, &[&due, &leased]);
    let claim = [args!["MULTI"], args!["DQ.CLAIM", "q", "BLOCK", 0], args!["EXEC"]];
    assert_eq!(client.call_all(&claim)[2], Value::Array(vec![Value::Array(vec![])]));
    assert_eq!(blocked_clients(&scene), 0);
    // And where the watch is broken it claims nothing.
    client.call(args!["WATCH", &due, &leased]);
    q.push("x");
    assert_eq!(client.call_all(&claim)[2], Value::Nil);
    assert_eq!(q.stats(["ready", "leased", "waiting"]), [1, 0, 0]);
    // A look that is still good when another waiter is served elsewhere.
    let mut elsewhere = Client::waiting(&scene, "elsewhere", &["BLOCK", "0"]);
    client.call(args!["WATCH", &due, &leased]);
    scene.queue("elsewhere").push("y");
    elsewhere.job();
    let answers = list(&client.call_all(&claim)[2]);
    assert_eq!(Job::of(&list(&answers[0])[0]).payload, b"x");
    scene.end();
}

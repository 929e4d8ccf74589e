//! Jobs in a reply that the server does not send: with CLIENT REPLY OFF or SKIP, and over an output buffer limit. The
//! server does not tell the module, so the job is leased until its lease lapses.

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

/// Longer than the looks at the leased job may take.
const LEASE: &str = "2500ms";

/// Fails unless the queue's one job is leased until the lease has lapsed, and then comes back.
#[track_caller]
fn comes_back_after_its_lease(q: &mut Queue, what: &str) {
    q.wait_stat("claimed", 1);
    assert_eq!(q.stats(["ready", "leased", "lapsed"]), [0, 1, 0], "{what}");
    q.wait_stat("lapsed", 1);
    assert_eq!(q.claim().attempt, 2, "{what}");
}

#[test]
fn a_claim_whose_reply_is_off_holds_the_job_for_its_lease() {
    let scene = Scene::new();
    for mode in ["OFF", "SKIP"] {
        for block in [false, true] {
            let what = format!("REPLY {mode}, blocked {block}");
            let mut q = scene.queue(&what);
            let mut client = Client::new(&scene);
            let claim = args!["DQ.CLAIM", &what, "LEASE", LEASE, "BLOCK", if block { "20s" } else { "1ms" }];
            if !block {
                q.push("x");
            }
            client.send_all(&[args!["CLIENT", "REPLY", mode], claim]);
            if block {
                q.wait_stat("waiting", 1);
                q.push("x");
            }
            comes_back_after_its_lease(&mut q, &what);
            client.assert_silent(&scene);
        }
    }
    scene.end();
}

#[test]
fn a_claim_whose_reply_is_over_the_output_limit_holds_the_job_for_its_lease() {
    let scene = Scene::new();
    scene.run(&["CONFIG", "SET", "client-output-buffer-limit", "normal 100kb 0 0"]);
    let payload = vec![b'x'; 300_000];
    for block in [false, true] {
        let what = format!("over the limit, blocked {block}");
        let mut q = scene.queue(&what);
        // What the test looks at would be over the limit, too.
        q.unwatched();
        let mut client = Client::new(&scene);
        if block {
            client.wait_for_job(&scene, args!["DQ.CLAIM", &what, "LEASE", LEASE, "BLOCK", 0]);
            q.push(&payload[..]);
        } else {
            q.push(&payload[..]);
            client.send(args!["DQ.CLAIM", &what, "LEASE", LEASE]);
        }
        client.assert_closed();
        q.wait_stat("claimed", 1);
        assert_eq!(q.stats(["ready", "leased", "lapsed"]), [0, 1, 0], "{what}");
        q.wait_stat("lapsed", 1);
        assert_eq!(q.stats(["ready", "leased", "dead"]), [1, 0, 0], "{what}");
    }
    scene.run(&["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0"]);
    scene.end();
}

#[test]
fn a_job_that_no_reply_can_hold_becomes_a_dead_letter() {
    let scene = Scene::new();
    scene.run(&["CONFIG", "SET", "client-output-buffer-limit", "normal 100kb 0 0"]);
    let mut q = scene.queue("q");
    q.unwatched();
    ok!(q, "CONFIG", "SET", "max-lapses", 2, "backoff-base", "1ms");
    let id = text(&ok!(q, "PUSH", vec![b'x'; 300_000]));
    for lapses in 1..=2 {
        let mut client = Client::new(&scene);
        client.send(args!["DQ.CLAIM", "q", "LEASE", 20, "BLOCK", 0]);
        client.assert_closed();
        q.wait_stat("lapsed", lapses);
    }
    scene.run(&["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0"]);
    assert_eq!(text(&q.get(&id).expect("the letter")["reason"]), "lapses-exhausted");
    scene.end();
}

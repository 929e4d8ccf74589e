//! DQ.MCLAIM: from several queues, in the order given or turn by turn, at once or when one of them has a job.

use std::time::Instant;

use crate::client::*;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

/// Claims and gives the queues of the jobs that came, in order.
fn from(client: &mut Client, words: Vec<Vec<u8>>) -> Vec<String> {
    let mut command = args!["DQ.MCLAIM"];
    command.extend(words);
    let reply = client.call(command);
    queued_jobs(&reply).into_iter().map(|(queue, _)| queue).collect()
}

fn fill(scene: &Scene, names: &[&str], jobs: usize) {
    for name in names {
        let payloads: Vec<String> = (0..jobs).map(|i| format!("{name}{i}")).collect();
        ok!(scene.queue(name), "MPUSH", "PAYLOADS", payloads);
    }
}

#[test]
fn strict_takes_from_the_first_that_has_jobs() {
    let scene = Scene::new();
    let mut client = Client::new(&scene);
    fill(&scene, &["b", "c"], 3);
    assert_eq!(from(&mut client, args![3, "a", "b", "c"]), ["b"]);
    assert_eq!(from(&mut client, args![3, "a", "b", "c", "COUNT", 10]), ["b", "b"], "of one queue at a time");
    assert_eq!(from(&mut client, args![3, "a", "b", "c", "ORDER", "strict", "COUNT", 2]), ["c", "c"]);
    fill(&scene, &["a"], 1);
    assert_eq!(from(&mut client, args![3, "c", "b", "a"]), ["c"]);
    assert_eq!(from(&mut client, args![3, "c", "b", "a", "order", "STRICT"]), ["a"]);
    assert!(from(&mut client, args![3, "c", "b", "a"]).is_empty());
    scene.end();
}

#[test]
fn the_jobs_are_those_of_claim_with_the_queue_appended() {
    let scene = Scene::new();
    let mut b = scene.queue("b");
    ok!(b, "PUSH", "payload", "ID", "mine", "RETRIES", 7, "LEASE", "9s");
    let reply = scene.run(&["DQ.MCLAIM", "2", "a", "b", "LEASE", "3s"]);
    let job = list(&list(&reply)[0]);
    assert_eq!(job.len(), 7);
    let (queue, job) = queued_jobs(&reply).remove(0);
    assert_eq!(queue, "b");
    assert_eq!((job.id.as_str(), &job.payload[..], job.attempt, job.lease_ms), ("mine", &b"payload"[..], 1, 3000));
    assert_eq!(job.retries_left, 7);
    assert_eq!(b.ack(&job.receipt), 1);
    assert_eq!(b.stats(["claimed", "acked"]), [1, 1]);
    assert_eq!(scene.dump().0.keys().filter(|(_, key)| key.windows(3).any(|part| part == b"{a}")).count(), 0);
    scene.end();
}

#[test]
fn rotate_gives_every_queue_its_turn() {
    let scene = Scene::new();
    let mut client = Client::new(&scene);
    fill(&scene, &["a", "b", "c"], 4);
    let rotate = args![3, "a", "b", "c", "ORDER", "rotate"];
    let turns: Vec<String> = (0..12).flat_map(|_| from(&mut client, rotate.clone())).collect();
    for turn in turns.chunks(3) {
        let mut turn = turn.to_vec();
        turn.sort();
        assert_eq!(turn, ["a", "b", "c"], "{turns:?}");
    }
    assert!(from(&mut client, rotate.clone()).is_empty());
    // One that never runs dry does not keep the others waiting.
    fill(&scene, &["a"], 100);
    fill(&scene, &["c"], 2);
    let turns: Vec<String> = (0..4).flat_map(|_| from(&mut client, rotate.clone())).collect();
    assert_eq!(turns.iter().filter(|queue| *queue == "c").count(), 2, "{turns:?}");
    scene.end();
}

#[test]
fn other_claims_do_not_turn_the_wheel() {
    let scene = Scene::new();
    let mut client = Client::new(&scene);
    fill(&scene, &["a", "b", "c"], 40);
    let turns: Vec<String> = (0..15)
        .flat_map(|round| {
            let other = match round % 2 {
                0 => args!["DQ.CLAIM", "a"],
                _ => args!["DQ.MCLAIM", 3, "a", "b", "c"],
            };
            client.call(other);
            from(&mut client, args![3, "a", "b", "c", "ORDER", "rotate"])
        })
        .collect();
    for name in ["a", "b", "c"] {
        assert_eq!(turns.iter().filter(|turn| *turn == name).count(), 5, "{turns:?}");
    }
    scene.end();
}

#[test]
fn rotate_gives_waiters_their_turns_too() {
    let scene = Scene::new();
    let names = ["a", "b", "c"];
    let mut turns = Vec::new();
    let mut client = Client::new(&scene);
    for _ in 0..6 {
        client.wait_for_job(&scene, args!["DQ.MCLAIM", 3, &names[..], "ORDER", "rotate", "BLOCK", 0]);
        // One step, so that all three have a job when the waiter is served.
        let mut pusher = Client::new(&scene);
        pusher.call(args!["MULTI"]);
        for name in names {
            pusher.call(args!["DQ.PUSH", name, "x"]);
        }
        pusher.call(args!["EXEC"]);
        turns.push(client.queued_jobs().remove(0).0);
        // The other two are taken away without a claim.
        for name in names {
            let keys = ["due", "leased", "jobs"].map(|companion| queue::companion_key(name.as_bytes(), companion));
            pusher.call(args!["DEL", keys.to_vec()]);
        }
    }
    for turn in turns.chunks(3) {
        let mut turn = turn.to_vec();
        turn.sort();
        assert_eq!(turn, names, "{turns:?}");
    }
    scene.end();
}

/// Fails unless each of the queues was served at least so often.
#[track_caller]
fn assert_fair(turns: &[String], names: &[&str], least: usize) {
    for name in names {
        let count = turns.iter().filter(|turn| turn == name).count();
        assert!(count >= least, "{name} was served {count} times of {}", turns.len());
    }
}

#[test]
fn rotate_passes_over_no_queue_whatever_lists_the_callers_name() {
    let scene = Scene::new();
    let mut client = Client::new(&scene);
    fill(&scene, &["a", "b", "c", "d"], 200);
    let lists = [
        &[args![2, "a", "c", "ORDER", "rotate"], args![3, "a", "b", "c", "ORDER", "rotate"]][..],
        &[args![3, "c", "b", "a", "ORDER", "rotate"], args![2, "c", "a", "ORDER", "rotate"]],
        &[args![2, "a", "b", "ORDER", "rotate"], args![2, "b", "c", "ORDER", "rotate"]],
        &[
            args![2, "c", "b", "ORDER", "rotate"],
            args![3, "c", "a", "b", "ORDER", "rotate"],
            args![1, "a", "ORDER", "rotate"],
        ],
    ];
    for lists in lists {
        let turns: Vec<String> = (0..60).flat_map(|i| from(&mut client, lists[i % lists.len()].clone())).collect();
        assert_fair(&turns, &["a", "b", "c"], 14);
    }
    // Who has not been served for longest is next, and among those who never were it is the order of the names.
    assert_eq!(from(&mut client, args![4, "a", "b", "c", "d", "ORDER", "rotate"]), ["d"]);
    let names = args![4, "d", "c", "b", "a", "ORDER", "rotate"];
    let turns: Vec<String> = (0..8).flat_map(|_| from(&mut client, names.clone())).collect();
    assert_eq!(turns[..4], turns[4..]);
    assert_fair(&turns, &["a", "b", "c", "d"], 2);
    scene.end();
}

#[test]
fn rotate_passes_over_no_queue_of_waiters_with_different_lists() {
    let scene = Scene::new();
    let lists = [args![2, "a", "c", "ORDER", "rotate"], args![3, "a", "b", "c", "ORDER", "rotate"]];
    let (mut client, mut pusher) = (Client::new(&scene), Client::new(&scene));
    let names = ["a", "b", "c"];
    let mut turns = Vec::new();
    for i in 0..30 {
        client.wait_for_job(&scene, args!["DQ.MCLAIM", lists[i % 2], "BLOCK", 0]);
        // One step, so that all three have a job when the waiter is served.
        let pushes = names.map(|name| args!["DQ.PUSH", name, "x"]);
        pusher.call_all(&[&[args!["MULTI"]], &pushes[..], &[args!["EXEC"]]].concat());
        turns.push(client.queued_jobs().remove(0).0);
        for name in names {
            pusher.call(args!["DQ.PURGE", name, "STATE", "ready"]);
        }
    }
    assert_fair(&turns, &names, 7);
    scene.end();
}

#[test]
fn a_waiter_is_served_by_any_of_its_queues() {
    let scene = Scene::new();
    let mut client = Client::new(&scene);
    for name in ["a", "b", "c", "d"] {
        client.wait_for_job(&scene, args!["DQ.MCLAIM", 4, "a", "b", "c", "d", "BLOCK", 0]);
        for name in ["a", "b", "c", "d"] {
            assert_eq!(scene.queue(name).stat("waiting"), 1);
        }
        ok!(scene.queue(name), "PUSH", name, "DELAY", 10);
        let (queue, job) = client.queued_jobs().remove(0);
        assert_eq!((queue.as_str(), &job.payload[..]), (name, name.as_bytes()));
        assert_eq!(scene.queue(name).ack(&job.receipt), 1);
        for name in ["a", "b", "c", "d"] {
            assert_eq!(scene.queue(name).stats(["waiting", "leased", "ready"]), [0, 0, 0]);
        }
    }
    scene.end();
}

#[test]
fn a_strict_waiter_takes_the_first_of_those_that_come_at_once() {
    let scene = Scene::new();
    let mut client = Client::new(&scene);
    client.wait_for_job(&scene, args!["DQ.MCLAIM", 3, "a", "b", "c", "BLOCK", 0, "COUNT", 5]);
    let mut pusher = Client::new(&scene);
    pusher.call(args!["MULTI"]);
    for name in ["c", "b", "b", "a"] {
        pusher.call(args!["DQ.PUSH", name, "x"]);
    }
    pusher.call(args!["EXEC"]);
    let jobs = client.queued_jobs();
    assert_eq!(jobs.iter().map(|(queue, _)| queue.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(scene.queue("b").stats(["ready", "waiting"]), [2, 0]);
    scene.end();
}

#[test]
fn the_lines_of_several_queues_are_one_order() {
    let scene = Scene::new();
    let (mut a, mut b) = (scene.queue("a"), scene.queue("b"));
    let mut both = Client::new(&scene);
    both.wait_for_job(&scene, args!["DQ.MCLAIM", 2, "a", "b", "BLOCK", 0]);
    let mut only_a = Client::waiting(&scene, "a", &["BLOCK", "0"]);
    let mut only_b = Client::waiting(&scene, "b", &["BLOCK", "0"]);
    let mut both_behind = Client::new(&scene);
    both_behind.wait_for_job(&scene, args!["DQ.MCLAIM", 2, "b", "a", "BLOCK", 0]);
    assert_eq!((a.stat("waiting"), b.stat("waiting")), (3, 3));
    a.push(1);
    assert_eq!(both.queued_jobs()[0].1.payload, b"1");
    a.push(2);
    assert_eq!(only_a.job().payload, b"2");
    a.push(3);
    assert_eq!(both_behind.queued_jobs()[0].1.payload, b"3", "the first that is left in the line of a");
    only_b.assert_silent(&scene);
    b.push(4);
    assert_eq!(only_b.job().payload, b"4");
    assert_eq!((a.stat("waiting"), b.stat("waiting")), (0, 0));
    scene.end();
}

#[test]
fn one_that_leaves_leaves_every_line() {
    let scene = Scene::new();
    for how in ["drop", "kill", "unblock", "time-out"] {
        let block = if how == "time-out" { 100 } else { 0 };
        let mut client = Client::new(&scene);
        client.send(args!["DQ.MCLAIM", 3, "a", "b", "c", "BLOCK", block]);
        let mut behind = Client::waiting(&scene, "b", &["BLOCK", "0"]);
        match how {
            "drop" => drop(client),
            "kill" => {
                scene.run(&["CLIENT", "KILL", "ID", &client.id.to_string()]);
            }
            "unblock" => {
                scene.run(&["CLIENT", "UNBLOCK", &client.id.to_string()]);
                assert_nothing(&client.read().expect("an empty answer"));
            }
            _ => assert_nothing(&client.read().expect("an empty answer")),
        }
        for (name, left) in [("a", 0), ("b", 1), ("c", 0)] {
            scene.queue(name).wait_stat("waiting", left);
        }
        scene.queue("a").push_and_claim("x");
        behind.assert_silent(&scene);
        scene.queue("b").push("y");
        assert_eq!(behind.job().payload, b"y");
    }
    scene.end();
}

#[test]
fn a_claim_leaves_those_who_wait_for_several_what_they_get() {
    let scene = Scene::new();
    let mut client = Client::new(&scene);
    client.wait_for_job(&scene, args!["DQ.MCLAIM", 2, "a", "b", "BLOCK", 0]);
    let mut other = Client::new(&scene);
    other.send_all(&[
        args!["MULTI"],
        args!["DQ.MPUSH", "b", "PAYLOADS", 1, 2],
        args!["DQ.MCLAIM", 2, "b", "a", "COUNT", 10],
        args!["EXEC"],
    ]);
    for _ in 0..3 {
        other.read().expect("queued");
    }
    let answers = list(&other.read().expect("EXEC answers"));
    assert_eq!(queued_jobs(&answers[1]).len(), 1);
    assert_eq!(client.queued_jobs().len(), 1);
    scene.end();
}

#[test]
fn a_wrong_key_under_one_queue_does_not_hold_up_the_others() {
    let scene = Scene::new();
    let mut client = Client::new(&scene);
    client.wait_for_job(&scene, args!["DQ.MCLAIM", 3, "a", "b", "c", "BLOCK", 0]);
    scene.run(&["SET", "a", "text"]);
    scene.queue("c").push("x");
    assert_eq!(client.queued_jobs()[0].0, "c");
    scene.run(&["DEL", "a"]);
    scene.end();
}

#[test]
fn a_user_claims_from_its_own_queues_only() {
    let scene = Scene::new();
    scene.run(&["ACL", "SETUSER", "worker", "on", "nopass", "~a*", "+dq.mclaim", "+ping", "+client"]);
    let mut client = Client::new(&scene);
    client.call(args!["AUTH", "worker", "x"]);
    scene.queue("b").push("secret");
    for words in [args![2, "a", "b"], args![2, "b", "a", "BLOCK", 0], args![1, "b"]] {
        let mut command = args!["DQ.MCLAIM"];
        command.extend(words);
        client.send(command);
        assert_error(&client.error(), "NOPERM", &[]);
    }
    for number in ["9", "-1", "0", "x", "1"] {
        client.send(args!["DQ.MCLAIM", number, "b"]);
        client.error();
    }
    client.wait_for_job(&scene, args!["DQ.MCLAIM", 2, "a", "ab", "BLOCK", 0]);
    scene.queue("ab").push("x");
    assert_eq!(client.queued_jobs()[0].0, "ab");
    assert_eq!(scene.queue("b").stat("ready"), 1);
    scene.end();
}

#[test]
fn keys_are_told_to_those_who_ask() {
    let server = Server::start();
    let keys = server.run(&["COMMAND", "GETKEYS", "DQ.MCLAIM", "2", "a", "b", "BLOCK", "0"]);
    assert_eq!(texts(&keys), ["a", "b"]);
    let keys = server.run(&["COMMAND", "GETKEYS", "DQ.CLAIM", "a", "BLOCK", "0"]);
    assert_eq!(texts(&keys), ["a"]);
}

#[test]
fn a_wait_for_a_thousand_queues_costs_little_more_than_a_look_at_them() {
    let scene = Scene::new();
    let names: Vec<String> = (0..1000).map(|i| format!("q{i}")).collect();
    let mut client = Client::new(&scene);
    client.call(args!["DQ.MCLAIM", 1000, &names]);
    let before = cpu(&scene);
    for _ in 0..20 {
        client.call(args!["DQ.MCLAIM", 1000, &names]);
    }
    let look = cpu(&scene) - before;
    let (before, begin) = (cpu(&scene), Instant::now());
    for _ in 0..20 {
        client.send(args!["DQ.MCLAIM", 1000, &names, "BLOCK", 100]);
        assert_nothing(&client.read().expect("an empty answer"));
    }
    let wait = cpu(&scene) - before;
    let look_ms = look / 20.0 * 1000.0;
    let wait_ms = wait / 20.0 * 1000.0;
    eprintln!("look {look_ms:.2} ms, wait {wait_ms:.2} ms, {:?}", begin.elapsed());
    assert!(wait_ms < look_ms * 10.0 + 2.0, "a look costs {look_ms:.2} ms of CPU, a wait {wait_ms:.2}");
    // And it is still served by the last of them.
    client.send(args!["DQ.MCLAIM", 1000, &names, "BLOCK", 0]);
    scene.queue("q999").push("x");
    assert_eq!(client.queued_jobs()[0].0, "q999");
    scene.end();
}

//! Waiters that go before they are served, and those who are served at that very moment.

use std::time::{Duration, Instant};

use redis::Value;

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

#[test]
fn a_wait_ends_after_its_time_and_not_before() {
    let scene = Scene::new();
    let mut clients: Vec<(Client, Instant, u64)> = [1, 30, 100, 250, 600]
        .into_iter()
        .map(|ms: u64| {
            let mut client = Client::new(&scene);
            let at = Instant::now();
            client.send(args!["DQ.CLAIM", "q", "BLOCK", ms]);
            (client, at, ms)
        })
        .collect();
    for (client, at, ms) in &mut clients {
        assert_nothing(&client.read().expect("an empty answer"));
        let waited = at.elapsed();
        assert!(waited >= Duration::from_millis(*ms), "{ms} ms: {waited:?}");
        assert!(waited < Duration::from_millis(*ms + 1000), "{ms} ms: {waited:?}");
        assert_eq!(text(&client.call(args!["PING"])), "PONG");
    }
    assert_eq!(scene.dump(), Default::default());
    scene.end();
}

#[test]
fn units_and_zero() {
    let scene = Scene::new();
    for block in ["200ms", "0.2s"] {
        let mut client = Client::new(&scene);
        client.send(args!["DQ.CLAIM", "q", "BLOCK", block]);
        match block {
            "200ms" => assert_nothing(&client.read().expect("an empty answer")),
            _ => assert_error(&client.error(), "ERR", &["BLOCK"]),
        }
    }
    let mut for_ever = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut a_day = Client::waiting(&scene, "q", &["BLOCK", "1d"]);
    let mut short = Client::waiting(&scene, "q", &["BLOCK", "300"]);
    assert_nothing(&short.read().expect("an empty answer"));
    for_ever.assert_silent(&scene);
    a_day.assert_silent(&scene);
    let mut q = scene.queue("q");
    q.push(1);
    assert_eq!(for_ever.job().payload, b"1");
    q.push(2);
    assert_eq!(a_day.job().payload, b"2");
    scene.end();
}

#[test]
fn a_time_out_at_the_ms_a_job_is_due() {
    let scene = Scene::new();
    let mut total = Account::default();
    for round in 0..8 {
        // One pass of the server sees all claims and all pushes: deadline and due time are the same ms, or 1 apart.
        let names: Vec<String> = (0..60).map(|i| format!("r{round}-{i}")).collect();
        let mut waiters: Vec<Client> = names.iter().map(|_| Client::new(&scene)).collect();
        let mut pushers: Vec<Client> = names.iter().map(|_| Client::new(&scene)).collect();
        for (i, ((name, waiter), pusher)) in names.iter().zip(&mut waiters).zip(&mut pushers).enumerate() {
            let block = 20 + i % 5;
            waiter.send(args!["DQ.CLAIM", name, "BLOCK", block]);
            pusher.send(args!["DQ.PUSH", name, "x", "DELAY", block + [0, 0, 1][i % 3]]);
        }
        for (name, waiter) in names.iter().zip(&mut waiters) {
            let served = waiter.jobs().len() == 1;
            assert_eq!(text(&waiter.call(args!["PING"])), "PONG", "one answer and no more");
            account(&scene, name, served, &mut total);
        }
    }
    assert_eq!(total.served + total.left_behind, 480);
    eprintln!("{total:?}");
    scene.end();
}

#[test]
fn a_time_out_at_the_moment_of_a_push() {
    let scene = Scene::new();
    let mut total = Account::default();
    let mut pusher = Client::new(&scene);
    let mut waiter = Client::new(&scene);
    for round in 0..200u64 {
        let name = format!("q{round}");
        let end = Instant::now() + Duration::from_millis(8);
        waiter.send(args!["DQ.CLAIM", &name, "BLOCK", 8]);
        // From 1 ms before the deadline to 1 ms after it.
        let at = end - Duration::from_millis(1) + Duration::from_micros(round * 10);
        while Instant::now() < at {
            std::hint::spin_loop();
        }
        pusher.call(args!["DQ.PUSH", &name, "x"]);
        let served = waiter.jobs().len() == 1;
        account(&scene, &name, served, &mut total);
    }
    assert_eq!(total.served + total.left_behind, 200);
    eprintln!("{total:?}");
    scene.end();
}

#[test]
fn who_disconnects_waits_no_more() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    for how in ["drop", "half-close", "reset"] {
        let mut stays = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        let mut goes = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        assert_eq!(q.stat("waiting"), 2);
        match how {
            "drop" => drop(goes),
            "half-close" => {
                goes.half_close();
                goes.assert_closed();
            }
            _ => goes.reset(),
        }
        q.wait_stat("waiting", 1);
        q.push(how);
        assert_eq!(stays.job().payload, how.as_bytes());
    }
    assert_eq!(q.stat("waiting"), 0);
    scene.end();
}

#[test]
fn a_disconnect_in_the_pass_of_the_push() {
    let scene = Scene::new();
    let mut total = Account::default();
    let mut pusher = Client::new(&scene);
    for round in 0..30 {
        for (place, how) in ["drop", "half-close", "reset"].into_iter().enumerate() {
            let name = format!("q{round}-{place}");
            let mut waiter = Some(Client::waiting(&scene, &name, &["BLOCK", "0"]));
            let push_first = round % 2 == 0;
            in_one_pass(&scene, || {
                if push_first {
                    pusher.send(args!["DQ.PUSH", &name, "x"]);
                }
                match how {
                    "half-close" => waiter.as_mut().expect("it is there").half_close(),
                    "reset" => waiter.take().expect("it is there").reset(),
                    _ => waiter = None,
                }
                if !push_first {
                    pusher.send(args!["DQ.PUSH", &name, "x"]);
                }
            });
            pusher.read().expect("the id");
            scene.queue(&name).wait_stat("ready", 1);
            account(&scene, &name, false, &mut total);
        }
    }
    assert_eq!(total, Account { served: 0, left_behind: 90 });
    scene.end();
}

#[test]
fn a_disconnect_in_the_pass_in_which_a_job_falls_due() {
    let scene = Scene::new();
    let mut total = Account::default();
    let mut delay = 60;
    for round in 0.. {
        let name = format!("q{round}");
        let mut q = scene.queue(&name);
        let waiter = Client::waiting(&scene, &name, &["BLOCK", "0"]);
        let due = Instant::now() + Duration::from_millis(delay);
        q.raw::<String>(args!["DQ.PUSH", &name, "x", "DELAY", delay]);
        let mut in_time = false;
        in_one_pass(&scene, || {
            in_time = Instant::now() < due;
            std::thread::sleep(due.saturating_duration_since(Instant::now()) + Duration::from_millis(20));
            drop(waiter);
        });
        if !in_time {
            // A busy machine: the server went on until after the due time.
            delay *= 2;
            continue;
        }
        q.wait_stat("ready", 1);
        account(&scene, &name, false, &mut total);
        if total.left_behind == 20 {
            break;
        }
    }
    scene.end();
}

#[test]
fn client_unblock_ends_a_wait() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut stays = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    for how in [None, Some("TIMEOUT"), Some("ERROR")] {
        let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
        let id = waiter.id.to_string();
        let mut unblock = vec!["CLIENT", "UNBLOCK", &id];
        unblock.extend(how);
        assert_eq!(int(&scene.run(&unblock)), 1);
        match how {
            Some("ERROR") => assert_error(&waiter.error(), "UNBLOCKED", &[]),
            _ => assert_nothing(&waiter.read().expect("an empty answer")),
        }
        assert_eq!(int(&scene.run(&unblock)), 0, "it does not wait any more");
        assert_eq!(q.stat("waiting"), 1);
        // The connection is as good as before.
        waiter.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
        q.push("a");
        stays.job();
        q.push("b");
        assert_eq!(waiter.job().payload, b"b");
        stays = waiter;
        stays.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    }
    scene.run(&["CLIENT", "UNBLOCK", &stays.id.to_string()]);
    scene.end();
}

#[test]
fn client_unblock_in_one_pipeline_with_the_push() {
    let scene = Scene::new();
    let mut total = Account::default();
    let mut operator = Client::new(&scene);
    for round in 0..20 {
        for how in ["TIMEOUT", "ERROR"] {
            for shape in ["push-unblock", "unblock-push", "multi", "push-unblock-unblock", "multi-pushes"] {
                let name = format!("{shape}-{how}-{round}");
                let mut waiter = Client::waiting(&scene, &name, &["BLOCK", "0"]);
                let push = args!["DQ.PUSH", &name, "x"];
                let unblock = args!["CLIENT", "UNBLOCK", waiter.id, how];
                let commands = match shape {
                    "push-unblock" => vec![push, unblock],
                    "unblock-push" => vec![unblock, push],
                    "multi" => vec![args!["MULTI"], push, unblock, args!["EXEC"]],
                    "push-unblock-unblock" => vec![push, unblock.clone(), unblock],
                    _ => vec![args!["MULTI"], unblock, push, args!["EXEC"]],
                };
                operator.call_all(&commands);
                account(&scene, &name, waiter.served(), &mut total);
            }
        }
    }
    assert_eq!(total.served + total.left_behind, 200);
    eprintln!("{total:?}");
    scene.end();
}

#[test]
fn client_unblock_around_the_ms_a_job_is_due() {
    let scene = Scene::new();
    let mut total = Account::default();
    let mut operator = Client::new(&scene);
    for round in 0..100u64 {
        let name = format!("q{round}");
        let mut waiter = Client::waiting(&scene, &name, &["BLOCK", "0"]);
        let due = Instant::now() + Duration::from_millis(5);
        operator.call(args!["DQ.PUSH", &name, "x", "DELAY", 5]);
        let at = due - Duration::from_micros(500) + Duration::from_micros(round * 20);
        while Instant::now() < at {
            std::hint::spin_loop();
        }
        let how = if round % 2 == 0 { "TIMEOUT" } else { "ERROR" };
        let unblocked = int(&operator.call(args!["CLIENT", "UNBLOCK", waiter.id, how])) == 1;
        let reply = waiter.read();
        let served = matches!(&reply, Ok(reply) if list(reply).len() == 1);
        assert_eq!(served, !unblocked, "{reply:?}");
        assert_eq!(text(&waiter.call(args!["PING"])), "PONG");
        account(&scene, &name, served, &mut total);
    }
    eprintln!("{total:?}");
    scene.end();
}

#[test]
fn client_kill_alone_and_in_one_pipeline_with_the_push() {
    let scene = Scene::new();
    let mut total = Account::default();
    let mut operator = Client::new(&scene);
    for round in 0..20 {
        for shape in ["push-kill", "kill-push", "multi", "kill-all"] {
            let name = format!("{shape}-{round}");
            let mut waiter = Client::waiting(&scene, &name, &["BLOCK", "0"]);
            let push = args!["DQ.PUSH", &name, "x"];
            let kill = args!["CLIENT", "KILL", "ID", waiter.id];
            let commands = match shape {
                "push-kill" => vec![push, kill],
                "kill-push" => vec![kill, push],
                "multi" => vec![args!["MULTI"], push, kill, args!["EXEC"]],
                _ => vec![push, args!["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]],
            };
            operator.call_all(&commands);
            waiter.assert_closed();
            scene.queue(&name).wait_stat("ready", 1);
            account(&scene, &name, false, &mut total);
        }
    }
    assert_eq!(total, Account { served: 0, left_behind: 80 });
    scene.end();
}

#[test]
fn a_waiter_killed_while_a_replica_and_others_wait() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut first = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut second = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut operator = Client::new(&scene);
    operator.send_all(&[args!["DQ.PUSH", "q", 1], args!["CLIENT", "KILL", "ID", first.id]]);
    first.assert_closed();
    assert_eq!(second.job().payload, b"1", "the next in the line is served at once");
    assert_eq!(q.stats(["claimed", "leased", "waiting"]), [1, 1, 0]);
    drop(operator);
    scene.end();
}

#[test]
fn client_no_evict_keeps_a_waiter() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut kept = Client::new(&scene);
    kept.call(args!["CLIENT", "NO-EVICT", "ON"]);
    kept.wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    // The other one has sent much of a next command, and is the largest client.
    let mut large = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    large.send(args!["PING", vec![b'x'; 2_000_000]]);
    scene.run(&["CONFIG", "SET", "maxmemory-clients", "500kb"]);
    q.wait_stat("waiting", 1);
    q.push(1);
    assert_eq!(kept.job().payload, b"1");
    assert_eq!(q.stats(["claimed", "leased"]), [1, 1]);
    scene.run(&["CONFIG", "SET", "maxmemory-clients", "0"]);
    drop(large);
    scene.end();
}

#[test]
fn commands_behind_a_wait_are_answered_after_it() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut client = Client::new(&scene);
    client.send_all(&[
        args!["DQ.CLAIM", "q", "BLOCK", 0],
        args!["PING"],
        args!["DQ.CLAIM", "q", "BLOCK", 0],
        args!["DQ.CLAIM", "q", "BLOCK", 1],
        args!["DQ.CLAIM", "q"],
        args!["PING"],
    ]);
    q.wait_stat("waiting", 1);
    client.assert_silent(&scene);
    ok!(q, "MPUSH", "PAYLOADS", 1, 2);
    assert_eq!(client.job().payload, b"1");
    assert_eq!(client.read(), Ok(Value::SimpleString("PONG".into())));
    assert_eq!(client.job().payload, b"2");
    assert_nothing(&client.read().expect("an empty answer"));
    assert_nothing(&client.read().expect("an empty answer"));
    assert_eq!(client.read(), Ok(Value::SimpleString("PONG".into())));
    scene.end();
}

#[test]
fn a_client_that_is_dropped_with_commands_behind_its_wait_runs_none_of_them() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut client = Client::new(&scene);
    client.send_all(&[args!["DQ.CLAIM", "q", "BLOCK", 0], args!["SET", "ran", 1]]);
    q.wait_stat("waiting", 1);
    drop(client);
    q.wait_stat("waiting", 0);
    q.push("x");
    assert_eq!(q.stats(["ready", "leased", "claimed"]), [1, 0, 0]);
    assert!(!q.raw::<bool>(args!["EXISTS", "ran"]));
    scene.end();
}

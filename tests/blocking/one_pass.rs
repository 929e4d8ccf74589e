//! Two things that end one wait, in one pass of the server: an answer each, and no job lost.

use crate::args;
use crate::client::Client;
use crate::common::*;
use crate::scene::*;

/// Commands that an operator sends in one write, named by words; what they are to end waits for a job of `name`.
fn commands(shape: &str, name: &str, waiter: i64, how: &str) -> Vec<Vec<Vec<u8>>> {
    let command = |word: &str| match word {
        "push" => args!["DQ.PUSH", name, "x"],
        "unblock" => args!["CLIENT", "UNBLOCK", waiter, how],
        "off" => args!["CONFIG", "SET", "dq.enabled", "no"],
        "on" => args!["CONFIG", "SET", "dq.enabled", "yes"],
        // There is no server that it could follow.
        "demote" => args!["REPLICAOF", "127.0.0.1", server::free_port()],
        "promote" => args!["REPLICAOF", "NO", "ONE"],
        other => args![other],
    };
    shape.split(' ').map(command).collect()
}

/// Pushes the job of a story that has not done so.
fn push_if_not(operator: &mut Client, shape: &str, name: &str) {
    if !shape.contains("push") {
        operator.call(args!["DQ.PUSH", name, "x"]);
    }
}

#[test]
fn released_and_unblocked_in_one_pipeline() {
    let scene = Scene::new();
    let mut total = Account::default();
    let mut operator = Client::new(&scene);
    for round in 0..5 {
        for how in ["TIMEOUT", "ERROR"] {
            for shape in [
                "off unblock",
                "unblock off",
                "off on unblock",
                "off unblock on",
                "off unblock unblock on unblock",
                "push off unblock",
                "off push unblock on",
                "unblock push off on",
                "off on push unblock",
                "off on off on unblock push",
                "MULTI off unblock EXEC",
                "MULTI push off unblock on EXEC",
                "MULTI unblock off on push EXEC",
            ] {
                let name = format!("{shape}-{how}-{round}");
                let mut waiter = Client::waiting(&scene, &name, &["BLOCK", "0"]);
                let mut other = Client::waiting(&scene, &name, &["BLOCK", "0"]);
                operator.call_all(&commands(shape, &name, waiter.id, how));
                let served = [waiter.served(), other.served()];
                assert!(served != [true, true], "one job for two");
                scene.set("enabled", "yes");
                push_if_not(&mut operator, shape, &name);
                account(&scene, &name, served.contains(&true), &mut total);
                // Both connections go on as if nothing had been.
                waiter.wait_for_job(&scene, args!["DQ.CLAIM", &name, "BLOCK", 0]);
                other.wait_for_job(&scene, args!["DQ.MCLAIM", 2, &name, "no other", "BLOCK", 0]);
                operator.call(args!["DQ.MPUSH", &name, "PAYLOADS", 1, 2]);
                assert_eq!((waiter.job().payload, other.job().payload), (b"1".to_vec(), b"2".to_vec()));
            }
        }
    }
    eprintln!("{total:?}");
    scene.end();
}

#[test]
fn released_and_unblocked_by_several_in_one_pass() {
    let scene = Scene::new();
    let mut total = Account::default();
    let mut operators: Vec<Client> = (0..3).map(|_| Client::new(&scene)).collect();
    for how in ["TIMEOUT", "ERROR"] {
        for order in
            ["off unblock push", "unblock off push", "push off unblock", "push unblock off", "off push unblock"]
        {
            for busy in [false, true] {
                let name = format!("{order}-{how}-{busy}");
                let mut waiter = Client::waiting(&scene, &name, &["BLOCK", "0"]);
                let words: Vec<&str> = order.split(' ').collect();
                in_one_pass(&scene, || {
                    for (operator, word) in operators.iter_mut().zip(&words) {
                        // Where the server stands still in between, its timers are due when it goes on.
                        let pause = args!["DEBUG", "SLEEP", 0.01];
                        let mut all = commands(word, &name, waiter.id, how);
                        all.extend(busy.then_some(pause));
                        operator.send_all(&all);
                    }
                });
                for (operator, word) in operators.iter_mut().zip(&words) {
                    for _ in 0..1 + usize::from(busy) {
                        operator.read().unwrap_or_else(|error| panic!("{word}: {error}"));
                    }
                }
                let served = waiter.served();
                scene.set("enabled", "yes");
                account(&scene, &name, served, &mut total);
            }
        }
    }
    eprintln!("{total:?}");
    scene.end();
}

#[test]
fn demoted_and_unblocked_in_one_pipeline() {
    let mut server = Server::start();
    let mut total = Account::default();
    let mut operator = Client::new(&server);
    for round in 0..3 {
        for how in ["TIMEOUT", "ERROR"] {
            for shape in [
                "demote unblock",
                "unblock demote",
                "demote unblock promote",
                "demote promote unblock",
                "push demote unblock",
                "push unblock demote promote",
                "unblock demote promote push",
                "demote promote push unblock",
            ] {
                let name = format!("{shape}-{how}-{round}");
                let mut waiter = Client::waiting(&server, &name, &["BLOCK", "0"]);
                operator.call_all(&commands(shape, &name, waiter.id, how));
                let served = match waiter.read() {
                    Ok(reply) => !list(&reply).is_empty(),
                    Err(error) => {
                        assert_error(&error, "UNBLOCKED", &[]);
                        false
                    }
                };
                // The server itself closes the connections of those who waited when it becomes a replica.
                waiter.try_send_all(&[args!["PING"]]);
                if let Some(answer) = waiter.read_or_closed() {
                    assert_eq!(text(&answer.expect("PONG")), "PONG", "one answer and no more");
                }
                server.run(&["REPLICAOF", "NO", "ONE"]);
                push_if_not(&mut operator, shape, &name);
                account(&server, &name, served, &mut total);
            }
        }
    }
    eprintln!("{total:?}");
    assert_eq!(blocked_clients(&server), 0);
    assert_whole(&server);
    server.assert_alive();
}

#[test]
fn unblocked_and_pushed_by_several_in_one_pass() {
    let scene = Scene::new();
    let (mut pusher, mut unblocker) = (Client::new(&scene), Client::new(&scene));
    let mut unblocked = 0;
    for round in 0..24 {
        let how = ["TIMEOUT", "ERROR"][round % 2];
        let name = format!("q{round}");
        let mut line = [
            Client::waiting(&scene, &name, &["BLOCK", "0"]),
            Client::waiting(&scene, &name, &["COUNT", "2", "BLOCK", "0"]),
            Client::new(&scene),
        ];
        line[2].wait_for_job(&scene, args!["DQ.MCLAIM", 2, "no other", &name, "BLOCK", "1h"]);
        let mut q = scene.queue(&name);
        let when = ["push first", "unblock first", "due"][round / 2 % 3];
        let push = args!["DQ.MPUSH", &name, "PAYLOADS", 1, 2];
        let unblock = args!["CLIENT", "UNBLOCK", line[round % 3].id, how];
        if when == "due" {
            pusher.send(args!["DQ.MPUSH", &name, "DELAY", 20, "PAYLOADS", 1, 2]);
            q.wait_stat("pushed", 2);
        }
        in_one_pass(&scene, || match when {
            "push first" => {
                pusher.send(push);
                unblocker.send(unblock);
            }
            "unblock first" => {
                unblocker.send(unblock);
                pusher.send(push);
            }
            _ => {
                std::thread::sleep(std::time::Duration::from_millis(25));
                unblocker.send(unblock);
            }
        });
        pusher.read().expect("the ids");
        unblocked += int(&unblocker.read().expect("whether it waited"));
        // The two others are there for the two jobs, so that none is left over. Then nobody waits for anything.
        wait_for("both jobs to be handed out", || q.stats(["ready", "delayed", "leased"]) == [0, 0, 2]);
        let mut payloads = Vec::new();
        for waiter in &mut line {
            scene.run(&["CLIENT", "UNBLOCK", &waiter.id.to_string()]);
            match waiter.read() {
                Ok(reply) => {
                    for job in list(&reply).iter().map(Job::of) {
                        assert_eq!((job.attempt, q.ack(&job.receipt)), (1, 1));
                        payloads.push(job.payload);
                    }
                }
                Err(error) => assert_error(&error, "UNBLOCKED", &[]),
            }
            assert_eq!(text(&waiter.call(args!["PING"])), "PONG", "one answer and no more");
        }
        payloads.sort();
        assert_eq!(payloads, [b"1", b"2"], "{when}, {how}");
        assert_eq!(q.stats(["claimed", "waiting", "ready", "leased"]), [2, 0, 0, 0]);
    }
    eprintln!("{unblocked} of 24 were unblocked before a job reached them");
    scene.end();
}

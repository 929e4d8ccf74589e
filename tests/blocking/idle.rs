//! The server's own `timeout` for connections on which nothing happens.

use std::time::{Duration, Instant};

use crate::args;
use crate::client::Client;
use crate::common::*;
use crate::scene::*;

/// Waits until the server has closed a connection that does nothing, and so looked at all others too.
fn one_idle_time(server: &Server) {
    Client::new(server).assert_closed();
}

#[test]
fn who_waits_is_not_idle() {
    let scene = Scene::of(Server::builder().line("timeout 1"));
    scene.run(&["DQ.PAUSE", "paused"]);
    scene.run(&["DQ.PUSH", "paused", "x"]);
    let mut waiters: Vec<Client> = vec![
        Client::waiting(&scene, "q", &["BLOCK", "0"]),
        Client::waiting(&scene, "q", &["BLOCK", "1h"]),
        Client::waiting(&scene, "paused", &["BLOCK", "0"]),
        Client::resp3(&scene),
        Client::new(&scene),
    ];
    waiters[3].wait_for_job(&scene, args!["DQ.CLAIM", "q", "BLOCK", 0]);
    waiters[4].wait_for_job(&scene, args!["DQ.MCLAIM", 2, "q", "other", "BLOCK", 0]);
    let lines = waiters.len() as i64;
    for _ in 0..3 {
        one_idle_time(&scene);
        assert_eq!(blocked_clients(&scene), lines);
        waiters.iter_mut().for_each(|waiter| waiter.assert_silent(&scene));
    }
    scene.run(&["DQ.RESUME", "paused"]);
    scene.run(&["DQ.MPUSH", "q", "PAYLOADS", "x", "x", "x", "x"]);
    for (waiter, queue) in waiters.iter_mut().zip(["q", "q", "paused", "q", "q"]) {
        let job = waiter.job();
        assert_eq!(job.payload, b"x");
        // It has its time from here on, as after any answer.
        assert_eq!(int(&waiter.call(args!["DQ.ACK", queue, job.receipt])), 1);
    }
    // And who does not wait any more is idle like everybody else.
    waiters.iter_mut().for_each(Client::assert_closed);
    scene.end();
}

#[test]
fn a_wait_longer_than_the_timeout_ends_in_its_own_time() {
    let scene = Scene::of(Server::builder().line("timeout 1"));
    let mut client = Client::new(&scene);
    let begin = Instant::now();
    client.send(args!["DQ.CLAIM", "q", "BLOCK", 3500]);
    assert_nothing(&client.read().expect("an empty answer"));
    assert!(begin.elapsed() >= Duration::from_millis(3500));
    assert_eq!(text(&client.call(args!["PING"])), "PONG");
    scene.end();
}

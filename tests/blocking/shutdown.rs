//! A server that is told to end while clients wait.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::common::server::Builder;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

/// How long a server may take that has next to nothing to save, on a machine that is busy with other tests.
const PROMPT: Duration = Duration::from_secs(5);

/// Jobs in every state, and clients that wait for some of them and for what does not come.
fn jobs_and_waiters(server: &Server) -> (Job, Vec<Client>) {
    let mut q = server.queue("q");
    let dead = q.push_and_claim("dead");
    q.fail(&dead.receipt);
    q.push("held");
    let held = q.claim_with(args!["LEASE", "1h"]).remove(0);
    ok!(q, "PUSH", "delayed", "DELAY", "1h", "ID", "mine");
    let mut paused = server.queue("paused");
    ok!(paused, "PAUSE");
    ok!(paused, "MPUSH", "PAYLOADS", 1, 2, 3);
    let mut waiters: Vec<Client> = ["q", "q", "paused", "paused", "none"]
        .map(|name| Client::waiting(server, name, &["BLOCK", "0"]))
        .into_iter()
        .collect();
    waiters.push(Client::waiting(server, "none", &["BLOCK", "1h"]));
    let mut both = Client::resp3(server);
    both.wait_for_job(server, args!["DQ.MCLAIM", 2, "paused", "none", "BLOCK", 0]);
    waiters.push(both);
    assert_eq!(blocked_clients(server), 7);
    (held, waiters)
}

/// Ends a server by `how` and starts it again.
fn ends(builder: Builder, how: &str) {
    let mut server = builder.start();
    let (held, mut waiters) = jobs_and_waiters(&server);
    let before = server.dump();
    if how == "SHUTDOWN NOSAVE" && server.info("persistence", "aof_enabled") == "0" {
        server.run(&["SAVE"]);
    }
    let mut operator = Client::new(&server);
    let begin = Instant::now();
    match how {
        "SIGTERM" => server.signal(libc::SIGTERM),
        _ => operator.send(how.split(' ').map(|word| word.as_bytes().to_vec()).collect()),
    }
    let status = server.ended();
    assert!(status.success(), "{how}: {status}\n{}", server.log());
    assert!(begin.elapsed() < PROMPT, "{how} took {:?}", begin.elapsed());
    // Nobody is told of a job that was not handed out; the connections are closed.
    for waiter in &mut waiters {
        match waiter.read_or_closed() {
            None => {}
            Some(answer) => assert_error(&answer.expect_err("a job came out of nothing"), "UNBLOCKED", &[]),
        }
    }
    server.start_again();
    assert_eq!(server.dump(), before, "{how}");
    let (mut q, mut paused) = (server.queue("q"), server.queue("paused"));
    assert_eq!(q.stats(["ready", "delayed", "leased", "dead", "waiting"]), [0, 1, 1, 1, 0]);
    assert_eq!(q.ack(&held.receipt), 1, "its receipt is good");
    assert_eq!(paused.stats(["paused", "ready"]), [1, 3]);
    let mut waiter = Client::waiting(&server, "paused", &["COUNT", "5", "BLOCK", "0"]);
    ok!(paused, "RESUME");
    let jobs = waiter.jobs();
    assert_eq!(jobs.iter().map(|job| &job.payload[..]).collect::<Vec<_>>(), [b"1", b"2", b"3"]);
    assert!(jobs.iter().all(|job| job.attempt == 1));
    assert_whole(&server);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn every_way_to_end_a_server_ends_it_and_keeps_the_jobs() {
    ends(Server::builder(), "SHUTDOWN SAVE");
    ends(Server::builder(), "SHUTDOWN NOSAVE");
    ends(Server::builder().line("save 3600 1"), "SHUTDOWN");
    ends(Server::builder().line("save 3600 1"), "SIGTERM");
    ends(Server::builder().aof(), "SHUTDOWN NOSAVE");
    ends(Server::builder().aof(), "SHUTDOWN SAVE");
}

#[test]
fn a_push_and_the_end_in_one_pipeline() {
    for commands in [
        vec![args!["DQ.PUSH", "q", "x"], args!["SHUTDOWN", "SAVE"]],
        vec![args!["MULTI"], args!["DQ.PUSH", "q", "x"], args!["EXEC"], args!["SHUTDOWN", "SAVE"]],
        vec![args!["CONFIG", "SET", "dq.enabled", "no"], args!["DQ.PUSH", "q", "x"], args!["SHUTDOWN", "SAVE"]],
    ] {
        let mut server = Server::start();
        let mut waiter = Client::waiting(&server, "q", &["BLOCK", "0"]);
        let mut operator = Client::new(&server);
        operator.send_all(&commands);
        assert!(server.ended().success(), "{}", server.log());
        let told = match waiter.read_or_closed() {
            Some(Ok(reply)) => list(&reply).iter().map(Job::of).collect(),
            _ => vec![],
        };
        server.start_again();
        let mut q = server.queue("q");
        let mut jobs = q.claim_n(10);
        assert_eq!(told.len() + jobs.len(), 1, "it is there once");
        jobs.extend(told);
        assert_eq!((&jobs[0].payload[..], q.ack(&jobs[0].receipt)), (&b"x"[..], 1));
    }
}

#[test]
fn a_job_that_falls_due_with_the_end() {
    let mut reached = 0;
    for round in 0..10 {
        let mut server = Server::start();
        let mut waiter = Client::waiting(&server, "q", &["BLOCK", "0"]);
        let mut operator = Client::new(&server);
        operator.call(args!["DQ.PUSH", "q", "x", "DELAY", 20]);
        let due = Instant::now() + Duration::from_millis(20);
        if round % 2 == 0 {
            // It is due, and the first thing that the server hears of after that is its end.
            let stopped = Stopped::new(&server);
            wait_for("the job to be due", || Instant::now() > due);
            operator.send(args!["SHUTDOWN", "SAVE"]);
            drop(stopped);
        } else {
            // From 1 ms before it is due to 1 ms after.
            let at = due - Duration::from_millis(1) + Duration::from_micros(200 * round);
            while Instant::now() < at {
                std::hint::spin_loop();
            }
            operator.send(args!["SHUTDOWN", "SAVE"]);
        }
        assert!(server.ended().success(), "{}", server.log());
        let told = match waiter.read_or_closed() {
            Some(Ok(reply)) => list(&reply).iter().map(Job::of).next(),
            _ => None,
        };
        server.start_again();
        let mut q = server.queue("q");
        if let Some(job) = told {
            assert_eq!(q.ack(&job.receipt), 1, "what was told is held");
            reached += 1;
        } else {
            // Ready, delayed for a moment more, or held for an answer that went down with the server.
            assert_eq!(q.stats(["ready", "delayed", "leased"]).iter().sum::<i64>(), 1);
        }
        assert_eq!(q.stats(["dead", "lapsed"]), [0, 0]);
    }
    eprintln!("{reached} of 10 jobs reached their waiter");
}

//! Staged incidents: the first row of the first screen is the queue that is worst off, and says what is wrong with it.

use serde_json::json;

use crate::args;
use crate::browser::Page;
use crate::common::server::Builder;
use crate::common::{list, Job, Queue, Server};
use crate::dashboard::Dashboard;
use crate::workload::{pause, WorkerPool};

/// The name of the queue with the incident: neither the first nor the last by name.
const WORST: &str = "orders";

/// Queues that are well, or were in trouble long ago.
fn well(server: &Server, pool: &mut WorkerPool) {
    let mut letters = server.queue("letters");
    for _ in 0..3 {
        let job = letters.push_and_claim("x");
        letters.fail(&job.receipt);
    }
    server.queue("reports").push_many(200, &args!["DELAY", "30m"]);
    let mut thumbnails = server.queue("thumbnails");
    thumbnails.push_many(5, &args!["DELAY", "1h"]);
    thumbnails.ok("PAUSE", vec![]);
    pool.run(server.queue("mail"), |queue, _| {
        let _ = queue.call("PUSH", args!["x"]);
        settle(queue, |queue, job| queue.call("ACK", args![job.receipt]));
    });
}

/// Claims up to ten jobs, and settles each.
fn settle<T>(queue: &mut Queue, how: impl Fn(&mut Queue, Job) -> redis::RedisResult<T>) {
    let Ok(reply) = queue.call("CLAIM", args!["COUNT", 10, "BLOCK", 100]) else { return pause(50) };
    list(&reply).iter().map(Job::of).for_each(|job| drop(how(queue, job)));
    pause(50);
}

/// Stages an incident in the queue, and waits until the first row names it.
fn first_row(server: Builder, stage: impl FnOnce(&Server, &mut Queue, &mut WorkerPool), says: &[&str]) {
    let server = server.start();
    let mut pool = WorkerPool::default();
    well(&server, &mut pool);
    let mut queue = server.queue(WORST);
    queue.unwatched();
    stage(&server, &mut queue, &mut pool);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    let first = format!("document.querySelector('tr[data-queue]')?.dataset.queue === '{WORST}'");
    for text in says {
        page.wait(&format!(
            "{first} && document.querySelector('tr[data-queue] .why').innerText.includes({})",
            json!(text)
        ));
    }
    let level = page.eval("document.querySelector('tr[data-queue]').dataset.level");
    assert!(level == "bad" || level == "warn", "it is shown as {level}");
    // The cause is one click away.
    page.click("tr[data-queue] a");
    for text in says {
        page.sees(".reasons", text);
    }
}

#[test]
fn no_worker_is_there() {
    first_row(Server::builder(), |_, queue, _| drop(queue.push_many(200, &[])), &["no worker claims or waits"]);
}

#[test]
fn every_attempt_is_retried() {
    let stage = |server: &Server, queue: &mut Queue, pool: &mut WorkerPool| {
        queue.push_many(50, &[]);
        pool.run(server.queue(WORST), |queue, round| {
            settle(queue, |queue, job| {
                let error = format!("HTTP 502 from https://pay.example.com for user 'u{round}'");
                queue.call("RETRY", args![job.receipt, "DELAY", "200ms", "ERROR", error])
            });
        });
    };
    first_row(
        Server::builder(),
        stage,
        &["every attempt fails", "mostly “HTTP 502 from https://pay.example.com for user '#'”"],
    );
}

#[test]
fn every_job_dies() {
    let stage = |server: &Server, _: &mut Queue, pool: &mut WorkerPool| {
        pool.run(server.queue(WORST), |queue, round| {
            let _ = queue.call("PUSH", args!["x"]);
            settle(queue, |queue, job| {
                queue.call("FAIL", args![job.receipt, "ERROR", format!("KeyError: 'k{round}'")])
            });
        });
    };
    first_row(Server::builder(), stage, &["every attempt fails", "mostly “KeyError: '#'”", "died in the last"]);
}

#[test]
fn workers_crash() {
    let stage = |server: &Server, queue: &mut Queue, pool: &mut WorkerPool| {
        queue.push_many(20, &[]);
        pool.run(server.queue(WORST), |queue, _| {
            let _ = queue.call("CLAIM", args!["COUNT", 10, "LEASE", 100, "BLOCK", 100]);
            pause(50);
        });
    };
    first_row(Server::builder().set("max-lapses", "1000000"), stage, &["lapsed in the last"]);
}

#[test]
fn workers_hang() {
    let stage = |_: &Server, queue: &mut Queue, _: &mut WorkerPool| {
        queue.push_many(30, &[]);
        queue.claim_with(args!["COUNT", 10, "LEASE", "10m"]);
    };
    first_row(Server::builder(), stage, &["10 jobs in progress, nothing claimed"]);
}

#[test]
fn workers_are_too_slow() {
    let stage = |server: &Server, queue: &mut Queue, pool: &mut WorkerPool| {
        queue.push_many(500, &[]);
        pool.run(server.queue(WORST), |queue, _| {
            queue.push_many(10, &[]);
            pause(100);
        });
        pool.run(server.queue(WORST), |queue, _| {
            let Ok(reply) = queue.call("CLAIM", args![]) else { return pause(100) };
            pause(200);
            list(&reply).iter().map(Job::of).for_each(|job| drop(queue.call("ACK", args![job.receipt])));
        });
    };
    first_row(Server::builder(), stage, &["falls behind", "acknowledged a second"]);
}

#[test]
fn a_queue_is_full() {
    let stage = |server: &Server, queue: &mut Queue, pool: &mut WorkerPool| {
        queue.ok("CONFIG", args!["SET", "max-length", 10]);
        queue.push_many(10, &args!["DELAY", "1h"]);
        pool.run(server.queue(WORST), |queue, _| {
            assert!(queue.call("PUSH", args!["x"]).is_err(), "it is full");
            pause(100);
        });
    };
    first_row(Server::builder(), stage, &["full: ", "pushes refused in the last", "max-length is 10"]);
}

#[test]
fn a_pause_was_forgotten() {
    let stage = |_: &Server, queue: &mut Queue, _: &mut WorkerPool| {
        queue.push_many(30, &[]);
        queue.ok("PAUSE", vec![]);
    };
    first_row(Server::builder(), stage, &["late by", ": paused"]);
}

#[test]
fn max_leased_is_reached() {
    let stage = |server: &Server, queue: &mut Queue, pool: &mut WorkerPool| {
        queue.ok("CONFIG", args!["SET", "max-leased", 1]);
        queue.push_many(30, &[]);
        queue.claim_with(args!["LEASE", "10m"]);
        pool.run(server.queue(WORST), |queue, _| drop(queue.call("CLAIM", args!["BLOCK", 1000])));
    };
    first_row(Server::builder(), stage, &["1 worker waits for jobs: is max-leased reached?"]);
}

#[test]
fn a_producer_has_a_delay_wrong() {
    let stage = |_: &Server, queue: &mut Queue, _: &mut WorkerPool| drop(queue.push_many(50, &args!["DELAY", "5d"]));
    first_row(Server::builder().set("far-alarm", "50"), stage, &["far-future alarm: 50 jobs"]);
}

#[test]
fn jobs_are_purged_as_stale() {
    let stage = |server: &Server, _: &mut Queue, pool: &mut WorkerPool| {
        pool.run(server.queue(WORST), |queue, _| {
            let _ = queue.call("PUSH", args!["x"]);
            pause(100);
        });
    };
    let server = Server::builder().set("stale-after", "500ms").set("purge-interval", "200ms");
    first_row(server, stage, &["purged in the last", "nobody works on the queue"]);
}

#[test]
fn there_is_no_room_for_dead_letters() {
    let stage = |_: &Server, queue: &mut Queue, _: &mut WorkerPool| drop(queue.push_many(30, &[]));
    let server = Server::builder().set("stale-after", "500ms").set("purge-interval", "200ms").set("dead-max", "5");
    first_row(server, stage, &["no room for dead letters"]);
}

#[test]
fn dead_letters_are_evicted() {
    let stage = |server: &Server, queue: &mut Queue, pool: &mut WorkerPool| {
        queue.ok("CONFIG", args!["SET", "dead-max", 3]);
        pool.run(server.queue(WORST), |queue, round| {
            queue.push_many(10, &[]);
            settle(queue, |queue, job| match round % 20 {
                0 => queue.call("FAIL", args![job.receipt]),
                _ => queue.call("ACK", args![job.receipt]),
            });
        });
    };
    first_row(Server::builder(), stage, &["dead letters evicted in the last"]);
}

#[test]
fn an_index_is_broken() {
    let stage = |_: &Server, queue: &mut Queue, _: &mut WorkerPool| {
        queue.push_many(3, &args!["DELAY", "1h"]);
        let key = queue.key("due");
        queue.raw::<i64>(args!["ZADD", key, 1, "nobody"]);
        queue.claim_with(vec![]);
    };
    first_row(Server::builder(), stage, &["1 index entry without a readable job"]);
}

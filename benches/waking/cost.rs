//! What waiting workers cost the server, in processor time.

use std::time::{Duration, Instant};

use crate::args;
use crate::client::Client;
use crate::common::*;
use crate::workers::{Step, Work, Workers};
use crate::{report, seconds};

const CROWD: usize = 1000;
const PUSHES_A_SECOND: u64 = 10_000;
const PAYLOAD: [u8; 64] = [b'x'; 64];

/// By how much 1,000 waiting workers may cost more than one.
const MOST: f64 = 2.0;

/// Whether the pushes are for those who wait.
#[derive(Clone, Copy, PartialEq)]
pub enum Pushes {
    /// Each is claimed and acknowledged by one of them.
    Served,
    /// They are due in an hour.
    Delayed,
}

impl Pushes {
    pub fn name(self) -> &'static str {
        match self {
            Pushes::Served => "pushes that are claimed",
            Pushes::Delayed => "pushes for later",
        }
    }
}

struct Finisher;

impl Work for Finisher {
    fn job(&mut self, _: &Job, _: i64) -> Step {
        Step::Finish
    }

    fn due(&mut self, _: &str, _: i64) {}
}

/// What one run came to.
struct Cost {
    cpu_us_a_push: f64,
    pushes_a_second: f64,
    served: i64,
}

/// Compares one waiting worker with very many; `true` where these cost too much more.
pub fn of_pushes(pushes: Pushes) -> bool {
    let [one, many] = [1, CROWD].map(|workers| run(pushes, workers));
    let ratio = many.cpu_us_a_push / one.cpu_us_a_push;
    let verdict = if ratio > MOST { "   MISSED" } else { "" };
    println!(
        "{:<26} 1 worker: {:.2} µs of the server a push, {CROWD} workers: {:.2} µs; ratio {ratio:.2}{verdict}",
        pushes.name(),
        one.cpu_us_a_push,
        many.cpu_us_a_push
    );
    report(
        pushes.name(),
        &[
            ("cpu_us_per_push_1", one.cpu_us_a_push),
            ("cpu_us_per_push_1000", many.cpu_us_a_push),
            ("ratio", ratio),
            ("pushes_per_s_1", one.pushes_a_second),
            ("pushes_per_s_1000", many.pushes_a_second),
            ("served_1", one.served as f64),
            ("served_1000", many.served as f64),
        ],
    );
    ratio > MOST
}

fn run(pushes: Pushes, workers: usize) -> Cost {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    let workers_wait = workers as i64;
    let workers = Workers::begin(&server, workers, Finisher);
    q.wait_stat("waiting", workers_wait);
    let mut push = args!["DQ.PUSH", "q", &PAYLOAD[..]];
    if pushes == Pushes::Delayed {
        push.extend(args!["DELAY", "1h"]);
    }
    let mut pusher = Client::new(&server);
    let (count, before, begin) = (seconds() * PUSHES_A_SECOND, figures(&mut pusher).1, Instant::now());
    // Each by itself: in a pipeline, the only worker would take most of them without waiting.
    for sent in 0..count {
        let at = begin + Duration::from_micros(sent * 1_000_000 / PUSHES_A_SECOND);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        pusher.send_all(std::slice::from_ref(&push));
        pusher.read().expect("an id");
    }
    let pushes_a_second = count as f64 / begin.elapsed().as_secs_f64();
    wait_for("all to be finished", || q.stats(["ready", "leased"]) == [0, 0]);
    let cpu = figures(&mut pusher).1 - before;
    let [served] = q.stats(["acked"]);
    workers.end();
    Cost { cpu_us_a_push: cpu * 1e6 / count as f64, pushes_a_second, served }
}

/// What very many waiting workers cost while nothing is due; `true` where any command runs.
pub fn of_idling() -> bool {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    let workers = Workers::begin(&server, CROWD, Finisher);
    q.wait_stat("waiting", CROWD as i64);
    q.ok("PUSH", args!["far", "DELAY", "1h"]);
    let mut client = Client::new(&server);
    let (before, begin) = (figures(&mut client), Instant::now());
    std::thread::sleep(Duration::from_secs(seconds()));
    let (after, elapsed) = (figures(&mut client), begin.elapsed().as_secs_f64());
    workers.end();
    // The second INFO counts the first.
    let commands = after.0 - before.0 - 1.0;
    let percent = (after.1 - before.1) / elapsed * 100.0;
    let verdict = if commands > 0.0 { "   MISSED" } else { "" };
    println!(
        "{:<26} {CROWD} workers: {commands} commands in {elapsed:.1} s, {percent:.2} % of a core{verdict}",
        "idle"
    );
    report(
        "idle",
        &[("workers", CROWD as f64), ("commands", commands), ("seconds", elapsed), ("cpu_percent", percent)],
    );
    commands > 0.0
}

/// Commands that the server has run, and seconds of processor time that it has used, by one INFO.
fn figures(client: &mut Client) -> (f64, f64) {
    let all = text(&client.call(args!["INFO", "everything"]));
    let field = |name: &str| -> f64 {
        let value = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
    };
    (field("total_commands_processed"), field("used_cpu_sys") + field("used_cpu_user"))
}

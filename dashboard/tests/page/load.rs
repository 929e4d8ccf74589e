//! What watching costs the server, however many watch.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::args;
use crate::browser::Page;
use crate::common::{text, wait_for, Server};
use crate::dashboard::Dashboard;
use crate::http::get;

const BROWSERS: usize = 50;
/// Commands a second that the README promises not to pass, and those that may come at once before that counts.
const PROMISED: f64 = 10.0;
const BURST: f64 = 12.0;

/// Commands that the server has run since its start, without this question.
fn commands(server: &Server) -> i64 {
    let all = text(&server.run(&["INFO", "commandstats"]));
    // What the module itself calls inside of a command is counted there too, and is not meant.
    let names = ["dq.", "info", "zcount", "hgetall", "cluster"];
    let sent = |line: &&str| names.iter().any(|name| line.starts_with(&format!("cmdstat_{name}")));
    let calls = all.lines().filter(sent).filter_map(|line| line.split_once("calls="));
    calls.map(|(_, rest)| rest.split(',').next().and_then(|count| count.parse::<i64>().ok()).expect("a count")).sum()
}

/// What a browser asks for in a second: pages of every kind, each with jobs of its own.
fn look(port: u16, browser: usize) -> usize {
    let queue = format!("q{}", browser % 20);
    let paths = [
        "/api/live".to_string(),
        format!("/api/queue?queue={queue}"),
        format!("/api/history?queue={queue}&fine=1"),
        format!("/api/due?queue={queue}"),
        format!("/api/jobs?queue={queue}&state=delayed&from={}", 1_000_000_000_000_usize + browser),
    ];
    paths.iter().filter(|path| get(port, path).status == 200).count()
}

#[test]
fn fifty_browsers_cost_the_server_no_more_than_one() {
    let server = Server::start();
    for number in 0..20 {
        server.queue(format!("q{number}")).push_many(30, &args!["DELAY", "1h"]);
    }
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("h1", "20 queues");
    let (over, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (spent, seconds) = std::thread::scope(|threads| {
        for browser in 0..BROWSERS {
            let (over, answers) = (&over, &answers);
            threads.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    answers.fetch_add(look(dashboard.port, browser), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(500));
                }
            });
        }
        wait_for("all to look", || answers.load(Ordering::Relaxed) > BROWSERS);
        let (before, begin) = (commands(&server), Instant::now());
        std::thread::sleep(Duration::from_secs(12));
        let spent = commands(&server) - before - 1;
        over.store(true, Ordering::Relaxed);
        (spent as f64, begin.elapsed().as_secs_f64())
    });
    println!(
        "{BROWSERS} browsers, {} answers: {:.1} commands a second",
        answers.load(Ordering::Relaxed),
        spent / seconds
    );
    assert!(spent <= PROMISED * seconds + BURST, "{spent} commands in {seconds:.1} s");
    // A browser that comes now is not behind all of them for long.
    page.go("#/q/q1/delayed");
    page.wait("document.querySelectorAll('table.jobs tbody tr').length === 30");
}

#[test]
fn while_nobody_looks_the_server_is_asked_every_ten_seconds() {
    let server = Server::start();
    server.queue("mail").push("x");
    let dashboard = Dashboard::of(&server);
    wait_for("the first look", || get(dashboard.port, "/api/live").json()["rows"][0]["age_ms"].is_number());
    // Those who looked are gone after five seconds.
    std::thread::sleep(Duration::from_secs(6));
    let before = commands(&server);
    std::thread::sleep(Duration::from_secs(11));
    let spent = commands(&server) - before - 1;
    assert!((2..=10).contains(&spent), "{spent} commands in 11 s");
    // Who comes then does not wait for the next look.
    server.queue("mail").push("y");
    let begin = Instant::now();
    wait_for("what is new", || get(dashboard.port, "/api/live").json()["rows"][0]["ready"] == 2);
    assert!(begin.elapsed() < Duration::from_secs(3), "it took {:?}", begin.elapsed());
}

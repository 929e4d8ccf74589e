//! Very many queues: the plots are drawn, the order is of all of them, and what goes wrong is found in time.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::args;
use crate::browser::Page;
use crate::common::{wait_at_most, Server};
use crate::dashboard::Dashboard;
use crate::http::get;

/// Makes queues with one delayed job each.
fn quiet(server: &Server, count: usize) {
    let mut con = server.conn();
    for from in (0..count).step_by(1000) {
        let mut pushes = redis::pipe();
        for number in from..count.min(from + 1000) {
            pushes.cmd("DQ.PUSH").arg(format!("tenant-{number:05}")).arg("x").arg("DELAY").arg("1h").ignore();
        }
        pushes.exec(&mut con).expect("they are pushed");
    }
}

#[test]
fn more_queues_than_have_a_history_have_plots_and_an_order() {
    let server = Server::start();
    quiet(&server, 420);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("h1", "420 queues");
    let mut last = server.queue("zebra");
    for (queue, count) in [(&mut server.queue("yak"), 1), (&mut last, 2)] {
        for _ in 0..count {
            let job = queue.push_and_claim("x");
            queue.fail(&job.receipt);
        }
    }
    last.push_many(12, &args!["DELAY", "1h"]);
    page.wait("document.querySelectorAll('svg.plot[aria-label*=\"Backlog\"] path.line').length === 3");
    page.wait("/dead from 0 to 3/.test(document.querySelector('svg.plot[aria-label*=\"Backlog\"]').ariaLabel)");
    page.wait("document.querySelector('tr[data-queue]')?.dataset.queue === 'yak'");
    // By name it is behind the 200 that are shown; by its dead letters it is the first.
    page.eval("document.querySelector('#sort').value = 'name'; document.querySelector('#sort').dispatchEvent(new Event('change'))");
    page.wait("document.querySelector('tr[data-queue]')?.innerText.includes('tenant-00000')");
    page.wait("!document.querySelector(\"tr[data-queue='zebra']\")");
    page.eval("document.querySelector('#sort').value = 'dead'; document.querySelector('#sort').dispatchEvent(new Event('change'))");
    page.wait("document.querySelector('tr[data-queue]')?.dataset.queue === 'zebra'");
    // A queue whose page is shown has a history, too.
    page.go("#/q/zebra");
    page.wait("document.querySelectorAll('svg.plot[aria-label*=\"Backlog\"] path.line').length === 3");
    page.wait("/dead from 2 to 2/.test(document.querySelector('svg.plot[aria-label*=\"Backlog\"]').ariaLabel)");
}

#[test]
fn jobs_that_nobody_claims_are_found_among_ten_thousand_queues() {
    const WITHIN: Duration = Duration::from_secs(60);
    let server = Server::start();
    // Its metrics are known, so that it is not asked for as one that is new.
    let mut stuck = server.queue("stuck");
    stuck.unwatched();
    stuck.push_many(1, &args!["DELAY", "1h"]);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    wait_at_most(WITHIN, "its metrics", || {
        get(dashboard.port, "/api/live").json()["rows"][0]["age_ms"].is_number().then_some(())
    });
    quiet(&server, 9_999);
    wait_at_most(WITHIN, "all queues", || {
        (get(dashboard.port, "/api/live").json()["totals"]["queues"] == json!(10_000)).then_some(())
    });
    let begin = Instant::now();
    stuck.push_many(500, &[]);
    wait_at_most(WITHIN, "the queue to be the first", || {
        let first = page.eval("document.querySelector('tr[data-queue]')?.innerText ?? ''");
        let text = first.as_str().unwrap_or_default();
        (text.contains("stuck") && text.contains("no worker claims or waits")).then_some(())
    });
    println!("500 jobs among 10,000 queues: shown after {:?}", begin.elapsed());
    assert_eq!(page.eval("document.querySelector('tr[data-queue]').dataset.level"), json!("bad"));
}

//! What is shown is as old as it says: a program that hangs, a gap in the data, a browser whose clock is wrong.

use serde_json::json;

use crate::args;
use crate::browser::Page;
use crate::common::{wait_for, Server};
use crate::dashboard::Dashboard;
use crate::http::get;

/// The age beside "live", in whole seconds; 0 for "now".
const AGE: &str = "Number(/([0-9]+)/.exec(document.querySelector('#age').innerText)?.[1] ?? 0)";

#[test]
fn a_dashboard_that_hangs_is_told() {
    let server = Server::start();
    server.queue("mail").push("x");
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("#link", "live");
    page.wait(&format!("/now|[0-3] s old/.test(document.querySelector('#age').innerText) && {AGE} < 4"));
    dashboard.signal(libc::SIGSTOP);
    page.sees("#banner", "No reply from dq-dashboard itself");
    page.sees("#link", "no connection");
    page.wait(&format!("{AGE} >= 8"));
    page.wait("document.body.classList.contains('stale')");
    dashboard.signal(libc::SIGCONT);
    page.sees("#link", "live");
    page.wait(&format!("{AGE} < 4 && !document.body.classList.contains('stale')"));
}

/// The server is asked a few times a second, so a page may have to wait for longer than a reply may take.
#[test]
fn a_page_that_waits_for_its_turn_is_not_taken_for_one_that_hangs() {
    let server = Server::start();
    server.queue("mail").push_many(5, &args!["DELAY", "1h"]);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("tr[data-queue='mail']", "5");
    let port = dashboard.port;
    std::thread::scope(|threads| {
        let readers: Vec<_> = (0..32)
            .map(|number| threads.spawn(move || get(port, &format!("/api/job?queue=mail&id={number}")).status))
            .collect();
        // Behind all of them.
        wait_for("the burst to be used", || get(port, "/api/job?queue=mail&id=last").status == 429);
        page.go("#/q/mail/delayed");
        page.wait("document.querySelectorAll('table.jobs tbody tr').length === 5");
        readers.into_iter().for_each(|reader| assert!([200, 429].contains(&reader.join().expect("it ran"))));
    });
    assert!(!page.text("body").contains("No reply"), "it was taken for one that hangs");
}

#[test]
fn a_gap_in_the_data_is_a_gap_in_the_plot() {
    let server = Server::start();
    server.queue("mail").push_many(5, &args!["DELAY", "1h"]);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    let parts = "(document.querySelector('svg.plot[aria-label*=\"Backlog\"] path.line')?.getAttribute('d').match(/M/g) ?? []).length";
    page.wait(&format!("{parts} === 1"));
    server.signal(libc::SIGSTOP);
    page.sees("#banner", "No connection");
    server.signal(libc::SIGCONT);
    page.wait("!document.body.classList.contains('stale')");
    page.wait(&format!("{parts} === 2"));
}

#[test]
fn a_browser_whose_clock_is_wrong_sees_the_plots() {
    let server = Server::start();
    server.queue("mail").push_many(5, &args!["DELAY", "1h"]);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open("about:blank?");
    let fast = "{ const real = Date.now; Date.now = () => real() + 11 * 60_000; }";
    page.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": fast }));
    page.base = dashboard.base.clone();
    page.go("#/");
    page.sees("tr[data-queue='mail']", "5");
    page.wait("/ready from 0 to 0, now 0; leased/.test(document.querySelector('svg.plot[aria-label*=\"Backlog\"]')?.ariaLabel)");
    page.wait("document.querySelectorAll('svg.plot[aria-label*=\"Backlog\"] path.line').length === 3");
    // The times of jobs are by the server's clock.
    page.go("#/q/mail/delayed");
    page.sees("table.jobs", "in 59 min");
}

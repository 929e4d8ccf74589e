//! Why jobs fail, over all queues: those that will be retried, and dead letters.

use serde_json::json;

use crate::args;
use crate::browser::Page;
use crate::common::{Queue, Server};
use crate::dashboard::Dashboard;

/// Jobs that failed and wait for their next attempt.
fn retry(q: &mut Queue, count: usize, error: impl Fn(usize) -> String) -> Vec<String> {
    q.unwatched();
    q.push_many(count, &[]);
    let jobs = q.claim_n(count);
    for (number, job) in jobs.iter().enumerate() {
        q.ok("RETRY", args![&job.receipt, "DELAY", "10m", "ERROR", error(number)]);
    }
    jobs.into_iter().map(|job| job.id).collect()
}

fn group(shape: &str) -> String {
    format!(
        "[...document.querySelectorAll('.group')].find(one => one.querySelector('.group-error').innerText === {})",
        json!(shape)
    )
}

#[test]
fn errors_of_all_queues_are_grouped_with_what_can_be_done() {
    let server = Server::start();
    let shape = "HTTP 502 for user '#'";
    let ids = retry(&mut server.queue("pay"), 7, |number| format!("HTTP 502 for user 'u{number}'"));
    retry(&mut server.queue("ship"), 5, |number| format!("HTTP 502 for user 'v{number}'"));
    let mut dead = server.queue("fax");
    for _ in 0..3 {
        let job = dead.push_and_claim("x");
        dead.ok("FAIL", args![job.receipt, "ERROR", "line is busy"]);
    }
    server.queue("calm").push_many(5, &args!["DELAY", "1h"]);
    let dashboard = Dashboard::acting(&server);
    let mut page = Page::open(&dashboard.base);
    page.press("Errors");
    page.sees("h1", "Errors");
    // Both queues are one group: how many, since when, an example.
    page.wait(&format!("{}?.innerText.startsWith('12')", group(shape)));
    let text = page.eval(&format!("{}.innerText", group(shape))).as_str().expect("a text").to_string();
    for part in ["retrying", "pay\n7", "ship\n5", "First seen by this dashboard", "for example", "HTTP 502 for user 'u"]
    {
        assert!(text.replace(" \n", "\n").contains(part), "{part}: {text}");
    }
    page.wait(&format!("{}?.innerText.includes('First died')", group("line is busy")));
    page.sees("#main", "3 of 3 dead letters read, in 1 queue");
    // What can be done: replay here, see the job, pause the queue that burns its retries.
    page.eval(&format!(
        "[...{}.querySelectorAll('button')].find(one => one.innerText === 'Replay…').click()",
        group("line is busy")
    ));
    page.sees("#ask[open]", "Replay 3 dead letters?");
    page.click("#ask[open] [data-yes]");
    page.sees("#toasts", "Replayed 3 jobs");
    assert_eq!(dead.stats(["dead", "ready"]), [0, 3]);
    page.eval(&format!(
        "[...{}.querySelectorAll('button')].find(one => one.innerText === 'Pause…').click()",
        group(shape)
    ));
    page.sees("#ask[open]", "Pause pay?");
    page.click("#ask[open] [data-yes]");
    page.sees("#toasts", "pay: Paused");
    page.eval(&format!("{}.querySelector('a[data-row]').click()", group(shape)));
    page.sees(".error", "HTTP 502 for user 'u");
    assert!(ids.contains(&page.text(".job-id")), "the example is a job of the first queue");
}

#[test]
fn a_queue_shows_its_own_errors() {
    let server = Server::start();
    let mut q = server.queue("pay");
    retry(&mut q, 7, |_| "HTTP 502".to_string());
    retry(&mut q, 2, |_| "HTTP 503".to_string());
    retry(&mut server.queue("ship"), 5, |_| "no route".to_string());
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.click("tr[data-queue='pay'] a");
    page.sees(".queue-errors", "HTTP 502");
    let groups = page.eval("[...document.querySelectorAll('.group')].map(one => `${one.querySelector('.group-count').innerText} ${one.querySelector('.group-error').innerText}`).join()");
    assert_eq!(groups, json!("7 HTTP 502,2 HTTP 503"));
    // Who may not act is not offered to.
    assert_eq!(page.eval("document.querySelectorAll('.group button').length"), json!(0));
}

/// Where there are more jobs than a sample reads, the page says so.
#[test]
fn a_sample_is_called_one() {
    let server = Server::start();
    let mut q = server.queue("pay");
    for _ in 0..4 {
        retry(&mut q, 100, |number| format!("HTTP 502 for user 'u{number}'"));
    }
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.go("#/errors");
    page.sees("#main", "a sample of ");
    page.sees(".groups", "HTTP 502 for user '#'");
}

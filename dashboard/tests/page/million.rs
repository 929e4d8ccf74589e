//! Very long queues: a page of jobs takes no longer at the end than at the beginning.

use std::time::{Duration, Instant};

use crate::args;
use crate::browser::Page;
use crate::common::Server;
use crate::dashboard::Dashboard;
use crate::http::get;

/// Jobs of the queue: DQ_TEST_JOBS, else few enough for each run.
fn jobs() -> usize {
    std::env::var("DQ_TEST_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(50_000)
}

#[test]
fn a_long_queue_is_paged_without_a_pause() {
    let server = Server::start();
    let mut q = server.queue("long");
    q.unwatched();
    let (count, part) = (jobs(), 10_000);
    for from in (0..count).step_by(part) {
        // Later jobs are due later: an hour in all.
        let delay = 3_600_000 + from * 3_600_000 / count;
        q.push_many(part.min(count - from), &args!["DELAY", delay]);
    }
    let last = q.push_many(1, &args!["DELAY", "3h"]).remove(0);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    let begin = Instant::now();
    page.go("#/q/long/delayed");
    page.wait("document.querySelectorAll('table.jobs tbody tr').length === 50");
    let first_page = begin.elapsed();
    page.sees(".tabs", if count >= 1_000_000 { "Delayed 1M" } else { "Delayed 50k" });

    let mut slowest = Duration::ZERO;
    let (mut after, mut seen, begin) = ("0".to_string(), 0, Instant::now());
    for _ in 0..12 {
        let one = Instant::now();
        let told =
            get(dashboard.port, &format!("/api/jobs?queue=long&state=delayed&after={}", after.replace(':', "%3A")))
                .json();
        slowest = slowest.max(one.elapsed());
        seen += told["jobs"].as_array().expect("jobs").len();
        after = told["next"].as_str().expect("a cursor").to_string();
    }
    let pages = begin.elapsed();
    assert_eq!(seen, 600);
    // The far end, by its time.
    let far = crate::common::int(&redis::Value::Int(q.due_at(&last))) - 1000;
    let one = Instant::now();
    let told = get(dashboard.port, &format!("/api/jobs?queue=long&state=delayed&from={far}")).json();
    let end = one.elapsed();
    assert_eq!(told["jobs"][0]["id"], last.as_str());
    let one = Instant::now();
    page.go(&format!("#/q/long/job/{last}"));
    page.sees("#main", "Payload");
    println!(
        "{count} jobs: first page in the browser {first_page:?}, 12 pages {pages:?} (slowest {slowest:?}, with its turn), \
         the last page {end:?}, a job by its id in the browser {:?}",
        one.elapsed()
    );
    assert!(end < Duration::from_secs(1), "the far end took {end:?}");
}

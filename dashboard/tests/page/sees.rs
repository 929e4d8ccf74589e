//! Each page shows what the server has, and follows it.

use serde_json::json;

use crate::args;
use crate::browser::Page;
use crate::common::Server;
use crate::dashboard::Dashboard;
use crate::http::get;

/// The text of a queue's row.
fn row(name: &str) -> String {
    format!("tr[data-queue='{name}']")
}

#[test]
fn the_queues_are_shown_with_what_is_urgent_first_and_why() {
    let server = Server::start();
    let mut calm = server.queue("calm");
    calm.push_many(3, &args!["DELAY", "1h"]);
    let mut dead = server.queue("letters");
    let job = dead.push_and_claim("x");
    dead.fail(&job.receipt);
    server.queue("stuck").push_many(7, &[]);
    let mut still = server.queue("still");
    still.push("x");
    still.ok("PAUSE", vec![]);

    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees(&row("stuck"), "no worker claims or waits");
    page.sees(&row("still"), "paused");
    page.sees(&row("letters"), "1 dead letter");
    page.sees(&row("calm"), "nothing due yet");
    page.sees("h1", "of 4 queues need attention");
    let order = page.eval("[...document.querySelectorAll('tr[data-queue]')].map(row => row.dataset.queue).join(' ')");
    assert_eq!(order, json!("stuck still letters calm"));
    page.sees(".tiles", "Ready\n8");
    page.sees(".due", "3");

    // What happens is seen without a touch.
    server.queue("fresh").push("x");
    page.sees(&row("fresh"), "1");
    let ready = |server: &Server| server.queue("stuck").claim_n(7).len();
    assert_eq!(ready(&server), 7);
    page.sees(&row("stuck"), "7 jobs in progress");
    page.fill("#match", "let");
    page.wait("document.querySelectorAll('tbody tr[data-queue]').length === 1");
    page.sees("#main", "1 of 5 match");
}

#[test]
fn a_queue_shows_its_jobs_by_state_and_finds_one_by_its_id() {
    let server = Server::start();
    let mut q = server.queue("bills");
    q.push_many(120, &args!["DELAY", "2h"]);
    q.push_many(2, &[]);
    let held = q.claim();
    q.ok("PUSH", args!["march", "ID", "bill-7", "DELAY", "10m"]);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.click("tr[data-queue='bills'] a");
    page.sees(".tabs", "Delayed 121");
    page.sees(".tabs", "Leased 1");
    page.press("Delayed 121");
    page.sees("table.jobs", "bill-7");
    page.sees("table.jobs", "in 9 min");
    page.wait("document.querySelectorAll('table.jobs tbody tr').length === 50");
    page.press("Next");
    page.sees(".toolbar", "Page 2");
    page.press("Next");
    page.sees(".toolbar", "Page 3");
    page.wait("document.querySelectorAll('table.jobs tbody tr').length === 21");
    page.wait("document.querySelector('[data-next]').disabled");
    page.press("First");
    page.sees(".toolbar", "Page 1");
    // From a time on.
    page.eval(
        "(field => { const at = new Date(Date.now() + 3600e3 - new Date().getTimezoneOffset() * 60e3); \
         field.value = at.toISOString().slice(0, 19); field.dispatchEvent(new Event('change')); })(document.querySelector('#from-delayed'))",
    );
    page.wait("!document.querySelector('table.jobs').innerText.includes('bill-7')");
    page.go("#/q/bills/leased");
    page.sees("table.jobs", &held.id);
    page.fill("#find", "bill-7");
    page.press("Find");
    page.sees("#main", "march");
    page.sees(".job-side", "Pushed");
    page.go("#/q/bills/job/no-such-job");
    page.sees("#main", "No job has the id no-such-job");
    page.go("#/q/nothing");
    page.sees("#main", "There is no such queue");
    // Who may not act is not offered to.
    assert_eq!(page.eval("document.querySelectorAll('.buttons button').length"), json!(0));
}

#[test]
fn a_job_shows_its_payload_in_each_way_and_what_went_wrong() {
    let server = Server::start();
    let mut q = server.queue("mail");
    let packed = b"\x82\xa2to\xa3ann\xa1n\xc4\x02\x00\xff";
    let id = q.push(&packed[..]);
    let receipt = q.claim().receipt;
    q.ok("RETRY", args![&receipt, "DELAY", "5m", "ERROR", "mail server is busy", "STACK", "at send\nat run"]);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.go(&format!("#/q/mail/job/{id}"));
    page.sees(".payload", "\"n\": bytes(00 ff)");
    page.press("Hex");
    page.sees(".payload", "82 a2 74 6f");
    page.press("Text");
    page.sees(".payload", "\\x82");
    page.sees(".error", "mail server is busy");
    page.sees(".stack", "at send\nat run");
    page.sees(".job-side", "in 4 min");
    page.sees(".job-side", "Failures\n1");
    let file = get(dashboard.port, &format!("/api/payload?queue=mail&id={id}"));
    assert_eq!(file.body, packed);
    assert_eq!(file.header("content-disposition").as_deref(), Some("attachment; filename=\"payload.bin\""));
}

#[test]
fn dead_letters_are_grouped_by_their_error_and_the_newest_are_found() {
    let server = Server::builder().set("dead-max", "0").start();
    let mut q = server.queue("hooks");
    q.unwatched();
    let mut fail = |count: usize, error: &str| {
        q.push_many(count, &[]);
        for (number, job) in q.claim_n(count).into_iter().enumerate() {
            q.call("FAIL", args![job.receipt, "ERROR", format!("{error} {number}")]).expect("it dies");
        }
    };
    fail(700, "timeout after");
    fail(450, "no route to host");
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.go("#/q/hooks/dead");
    page.sees("#main", "All 1,150 dead letters");
    let groups = page.eval(
        "[...document.querySelectorAll('.group')].map(g => ['.group-count', '.tag', '.group-error'].map(one => g.querySelector(one).innerText).join('|')).join(';')",
    );
    assert_eq!(groups, json!("700|failed|timeout after #;450|failed|no route to host #"));
    // A letter that dies now joins its group.
    let job = server.queue("hooks").push_and_claim("x");
    server.queue("hooks").ok("FAIL", args![job.receipt, "ERROR", "no route to host 9999"]);
    page.sees("#main", "All 1,151 dead letters");
    page.press("Newest");
    page.wait("document.querySelector('table.jobs tbody tr')?.innerText.includes('9999')");
    let count = page.eval("document.querySelectorAll('table.jobs tbody tr').length").as_i64().expect("a number");
    assert!((1..=100).contains(&count), "{count} of the newest are shown");
    page.press("Oldest first");
    page.sees("table.jobs", "timeout after 0");
}

#[test]
fn settings_show_what_is_the_queues_own() {
    let server = Server::start();
    server.queue("faxes").ok("CONFIG", args!["SET", "max-length", 1000, "stale-policy", "keep"]);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.go("#/q/faxes/settings");
    page.sees("table.settings", "max-length\t1000\tthe queue");
    page.sees("table.settings", "lease\t30s\tthe server");
    page.sees("#main", "2 override the server");
}

#[test]
fn plots_follow_what_is_done_and_say_it_in_words() {
    let server = Server::start();
    let mut q = server.queue("mail");
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    q.push_many(40, &[]);
    page.sees("tr[data-queue='mail']", "40");
    page.wait("document.querySelectorAll('svg.plot[aria-label*=\"Backlog\"] path.line').length === 3");
    page.wait("/ready from [0-9]+ to 40/.test(document.querySelector('svg.plot[aria-label*=\"Backlog\"]').ariaLabel)");
    for job in q.claim_n(40) {
        q.ack(&job.receipt);
    }
    page.wait("/done from 0 to [1-9]/.test(document.querySelector('svg.plot[aria-label*=\"Throughput\"]').ariaLabel)");
    page.wait("/ready .* now 0/.test(document.querySelector('svg.plot[aria-label*=\"Backlog\"]').ariaLabel)");
    page.press("As a table");
    page.wait("document.querySelectorAll('.as-table[open] tbody tr').length > 1");
}

#[test]
fn very_many_queues_are_found_by_their_names() {
    let server = Server::start();
    let mut con = server.conn();
    for number in 0..450 {
        redis::cmd("DQ.PUSH")
            .arg(format!("tenant-{number:03}"))
            .arg("x")
            .arg("DELAY")
            .arg("1h")
            .exec(&mut con)
            .expect("it is pushed");
    }
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("#main", "450 of 450 match, the first 200 are shown");
    page.fill("#match", "tenant-44");
    page.sees("#main", "10 of 450 match");
    page.sees("table.queues", "tenant-449");
    // Of a queue that was never asked for before its page shows the metrics at once.
    page.go("#/q/tenant%2D449");
    page.click("details.metrics summary");
    page.sees(".metrics", "pushed\t1");
}

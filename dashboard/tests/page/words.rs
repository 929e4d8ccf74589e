//! The page says what is true, in the words that everybody uses.

use crate::args;
use crate::browser::Page;
use crate::common::Server;
use crate::dashboard::Dashboard;

#[test]
fn a_job_that_failed_has_a_failure() {
    let server = Server::start();
    let mut q = server.queue("mail");
    let job = q.push_and_claim("x");
    q.ok("FAIL", args![&job.receipt, "ERROR", "no such address"]);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.go(&format!("#/q/mail/job/{}", job.id));
    page.sees(".job-side", "Failures\n1");
    page.go("#/q/mail/dead");
    page.press("Oldest first");
    page.sees("table.jobs", "failed 1 time");
}

#[test]
fn every_time_has_its_zone() {
    let server = Server::start();
    let mut q = server.queue("mail");
    let id = q.push_many(1, &args!["DELAY", "1h"]).remove(0);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.call("Emulation.setTimezoneOverride", serde_json::json!({ "timezoneId": "Asia/Kolkata" }));
    page.go("");
    page.sees("#foot", "times in GMT+5:30");
    page.go(&format!("#/q/mail/job/{id}"));
    page.wait("/ GMT\\+5:30\\n[0-9-]{10} [0-9:]{8} UTC/.test(document.querySelector('.job-side').innerText)");
    page.go("#/q/mail/delayed");
    page.sees(".toolbar", "From (GMT+5:30)");
    page.wait("/GMT\\+5:30 \\([0-9-]{10} [0-9:]{8} UTC\\)/.test(document.querySelector('td.when')?.title)");
    page.go("#/q/mail");
    page.wait("/ GMT\\+5:30: /.test(document.querySelector('svg.plot')?.ariaLabel)");
}

#[test]
fn words_are_those_that_everybody_uses() {
    let server = Server::start();
    let mut q = server.queue("mail");
    q.push_many(5, &[]);
    let job = q.claim();
    q.ok("FAIL", args![&job.receipt, "ERROR", "no such address"]);
    let leased = q.claim();
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("#foot", "read-only");
    page.sees(".tiles", "Failing");
    page.sees(".legend", "failing");
    page.go("#/q/mail");
    page.sees(".tiles", "Late p99, since load");
    page.sees(".tiles", "Failing");
    for part in ["#/", "#/errors", "#/q/mail", "#/q/mail/ready", "#/q/mail/dead", "#/q/mail/settings", "#/q/none"]
        .map(String::from)
        .into_iter()
        .chain([format!("#/q/mail/job/{}", job.id), format!("#/q/mail/job/{}", leased.id)])
    {
        page.go(&part);
        page.sees("#link", "live");
        page.wait("!/Reading…|Looking…|Connecting…/.test(document.body.innerText)");
        let text = page.text("body").to_lowercase();
        for word in
            ["not well", "do nothing", "look again", "log in", "log out", "looks only", "in hand", "figures", "died of"]
        {
            assert!(!text.contains(word), "{part} says {word}: {text}");
        }
    }
    page.sees("#main", "Refresh");
}

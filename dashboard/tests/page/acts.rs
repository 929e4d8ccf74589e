//! Each action: a question first, then it is done, and said.

use redis::Value;
use serde_json::json;

use crate::args;
use crate::browser::Page;
use crate::common::{wait_for, Queue, Server};
use crate::dashboard::Dashboard;
use crate::http::act;

/// The page of a queue, at a server that it may act on.
fn at_queue(server: &Server, part: &str) -> (Dashboard, Page) {
    let dashboard = Dashboard::acting(server);
    let mut page = Page::open(&dashboard.base);
    page.go(part);
    (dashboard, page)
}

/// Answers the question with yes, once it has this in it.
fn yes(page: &mut Page, says: &str) {
    page.sees("#ask[open]", says);
    page.click("#ask[open] [data-yes]");
    page.wait("!document.querySelector('#ask').open");
}

fn dead_letters(q: &mut Queue, count: usize, error: &str) -> Vec<String> {
    q.unwatched();
    q.push_many(count, &[]);
    let jobs = q.claim_n(count);
    jobs.iter().for_each(|job| drop(q.ok("FAIL", args![&job.receipt, "ERROR", error])));
    jobs.into_iter().map(|job| job.id).collect()
}

#[test]
fn a_queue_is_paused_and_resumed() {
    let server = Server::start();
    let mut q = server.queue("mail");
    q.push_many(3, &[]);
    let (_dashboard, mut page) = at_queue(&server, "#/q/mail");
    page.press("Pause…");
    page.sees("#ask[open]", "3 jobs ready");
    page.press("Cancel");
    assert_eq!(q.stat("paused"), 0);
    page.press("Pause…");
    yes(&mut page, "Nothing is claimed from it until it is resumed");
    page.sees("#toasts", "Paused");
    assert_eq!(q.stat("paused"), 1);
    page.press("Resume…");
    yes(&mut page, "Workers claim its jobs again");
    page.sees("#toasts", "Resumed");
    assert_eq!(q.stat("paused"), 0);
}

#[test]
fn dead_letters_are_replayed_one_a_group_and_all() {
    let server = Server::start();
    let mut q = server.queue("hooks");
    let first = dead_letters(&mut q, 5, "timeout 1");
    dead_letters(&mut q, 3, "no route");
    let (_dashboard, mut page) = at_queue(&server, &format!("#/q/hooks/job/{}", first[0]));
    page.press("Replay…");
    yes(&mut page, &first[0]);
    page.sees("#toasts", "Replayed 1 job");
    assert_eq!(q.state(&first[0]), "ready");
    page.sees("#main", "ready");

    page.go("#/q/hooks/dead");
    page.press("By error");
    page.press("Replay 3…");
    yes(&mut page, "no route");
    page.sees("#toasts", "Replayed 3 jobs");
    assert_eq!(q.stats(["dead", "ready"]), [4, 4]);

    // The page has not looked since.
    dead_letters(&mut q, 2, "no route");
    page.press("Replay…");
    page.sees("#ask[open]", "6 dead letters");
    page.eval("document.querySelector('#ask-reason').value = 'failed'");
    page.fill("#ask-spread", "10m");
    yes(&mut page, "become jobs again");
    page.sees("#toasts", "Replayed 6 dead letters");
    q.wait_stat("dead", 0);
    assert!(q.stat("delayed") >= 1, "they are spread");
}

#[test]
fn chosen_jobs_are_rescheduled_and_cancelled() {
    let server = Server::start();
    let mut q = server.queue("bills");
    let ids = q.push_many(5, &args!["DELAY", "1h"]);
    let (_dashboard, mut page) = at_queue(&server, "#/q/bills/delayed");
    page.click(&format!("input[value='{}']", ids[0]));
    page.click(&format!("input[value='{}']", ids[1]));
    page.sees(".choice", "2 jobs chosen");
    page.click(".choice button:first-of-type");
    page.fill("#ask-delay", "soon");
    page.click("#ask[open] [data-yes]");
    page.sees("#ask[open]", "A duration is a number");
    page.fill("#ask-delay", "2h");
    yes(&mut page, "Reschedule 2 jobs?");
    page.sees("#toasts", "Rescheduled 2 jobs");
    let late = q.due_at(&ids[0]) - q.due_at(&ids[2]);
    assert!((3_500_000..3_700_000).contains(&late), "an hour later: {late}");
    page.sees("table.jobs", "in 1 h 59 min");

    page.click(&format!("input[value='{}']", ids[2]));
    page.click(".choice .danger");
    yes(&mut page, &ids[2]);
    page.sees("#toasts", "Cancelled 1 job");
    assert_eq!(q.stat("delayed"), 4);

    page.press("Reschedule…");
    yes(&mut page, "4 jobs that are ready or delayed now");
    page.sees("#toasts", "Rescheduled 4 jobs");
    q.wait_stat("ready", 4);
}

#[test]
fn a_queue_is_purged_of_the_states_that_were_chosen() {
    let server = Server::start();
    let mut q = server.queue("bills");
    q.push_many(6, &args!["DELAY", "1h"]);
    q.push_many(2, &[]);
    let (_dashboard, mut page) = at_queue(&server, "#/q/bills");
    page.sees(".tabs", "Delayed 6");
    page.press("Purge…");
    page.click("#ask[open] [data-yes]");
    page.sees("#ask[open]", "Choose what is to go.");
    page.click("#ask-delayed");
    yes(&mut page, "6 delayed");
    page.sees("#toasts", "Purged 6 jobs");
    assert_eq!(q.stats(["ready", "delayed"]), [2, 0]);
}

#[test]
fn what_the_server_refuses_is_told() {
    let server = Server::start();
    server.queue("mail").push("x");
    let (dashboard, mut page) = at_queue(&server, "#/q/mail");
    server.run(&["ACL", "SETUSER", "default", "-dq.pause"]);
    page.press("Pause…");
    yes(&mut page, "Pause mail?");
    page.sees("#toasts", "may not run DQ.PAUSE");
    page.sees("#toasts", "+dq.pause");
    let told = act(dashboard.port, "mail", "{\"do\":\"cancel\",\"ids\":[\"nobody\"]}").json();
    assert_eq!(told, json!({ "done": "Cancelled 0 of 1: the others were gone, or in another state" }));
    assert_eq!(act(dashboard.port, "mail", "{\"do\":\"drop\"}").status, 400);
    assert_eq!(act(dashboard.port, "mail", "{\"do\":\"purge\",\"states\":[\"ready\",\"all\"]}").status, 400);
    assert_eq!(server.queue("mail").stat("ready"), 1);
}

/// A replay by ids takes at most 8 MiB a call: all of the group are replayed all the same.
#[test]
fn a_group_of_large_letters_is_replayed_whole() {
    let server = Server::start();
    let mut q = server.queue("large");
    q.unwatched();
    for _ in 0..12 {
        q.push(vec![b'x'; 1_000_000]);
        let job = q.claim();
        q.ok("FAIL", args![job.receipt, "ERROR", "too large"]);
    }
    let (_dashboard, mut page) = at_queue(&server, "#/q/large/dead");
    page.press("By error");
    page.press("Replay 12…");
    yes(&mut page, "too large");
    page.sees("#toasts", "Replayed 12 jobs");
    wait_for("all to be back", || q.stats(["dead", "ready"]) == [0, 12]);
    assert!(matches!(q.call("CANCEL", args!["STATE", "dead", "x"]), Ok(Value::Int(0))));
}

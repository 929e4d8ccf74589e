//! Actions on a group of dead letters: on those that were shown, on all of them, and on nothing else.

use serde_json::json;

use crate::args;
use crate::browser::Page;
use crate::common::{wait_for, Queue, Server};
use crate::dashboard::Dashboard;
use crate::http::{act, get};

/// Makes dead letters with an error of their number; gives their ids.
fn die(q: &mut Queue, count: usize, error: impl Fn(usize) -> String) -> Vec<String> {
    q.unwatched();
    let mut ids = Vec::new();
    for from in (0..count).step_by(1000) {
        q.push_many(1000.min(count - from), &[]);
        let jobs = q.claim_n(1000);
        let mut fails = redis::pipe();
        for (place, job) in jobs.iter().enumerate() {
            fails.cmd("DQ.FAIL").arg(&q.name).arg(&job.receipt).arg("ERROR").arg(error(from + place)).ignore();
        }
        fails.exec(&mut q.con).expect("they die");
        ids.extend(jobs.into_iter().map(|job| job.id));
    }
    ids
}

/// Presses a button of the group with this error.
fn press_in_group(page: &mut Page, error: &str, button: &str) {
    let group =
        format!("[...document.querySelectorAll('.group')].find(one => one.innerText.includes({}))", json!(error));
    let find = format!(
        "[...({group}?.querySelectorAll('button') ?? [])].find(one => one.innerText.startsWith({}))",
        json!(button)
    );
    page.wait(&find);
    page.eval(&format!("{find}.click()"));
}

fn confirm(page: &mut Page) {
    page.click("#ask[open] [data-yes]");
    page.wait("!document.querySelector('#ask').open");
}

#[test]
fn another_browser_that_acts_meanwhile_does_not_change_what_is_acted_on() {
    let server = Server::start();
    let mut q = server.queue("hooks");
    die(&mut q, 11, |number| format!("no such address 'u{number}'"));
    let timeouts = die(&mut q, 5, |_| "gateway timeout".to_string());
    let dashboard = Dashboard::acting(&server);
    let (mut one, mut other) = (Page::open(&dashboard.base), Page::open(&dashboard.base));
    for page in [&mut one, &mut other] {
        page.go("#/q/hooks/dead");
        page.sees("#main", "All 16 dead letters");
    }
    // The other replays the largest group, and what was read of the letters is read anew.
    press_in_group(&mut one, "gateway timeout", "Replay 5");
    one.sees("#ask[open]", "gateway timeout");
    press_in_group(&mut other, "no such address", "Replay 11");
    confirm(&mut other);
    other.sees("#toasts", "Replayed 11 jobs");
    confirm(&mut one);
    one.sees("#toasts", "Replayed 5 jobs");
    timeouts.iter().for_each(|id| assert_eq!(q.state(id), "ready"));
    assert_eq!(q.stats(["dead", "ready"]), [0, 16]);
    // The log says what was acted on.
    wait_for("the log to name the shape", || dashboard.log().contains("\"shape\":\"gateway timeout\",\"count\":5"));
}

#[test]
fn a_group_that_changed_is_left_alone() {
    for button in ["Replay 8", "Cancel"] {
        let server = Server::start();
        let mut q = server.queue("hooks");
        let ids = die(&mut q, 8, |_| "gateway timeout".to_string());
        let dashboard = Dashboard::acting(&server);
        let mut page = Page::open(&dashboard.base);
        page.go("#/q/hooks/dead");
        press_in_group(&mut page, "gateway timeout", button);
        page.sees("#ask[open]", "8 dead letters");
        q.ok("CANCEL", args!["STATE", "dead", &ids[0]]);
        confirm(&mut page);
        page.sees("#toasts .failed", "it was shown with 8 dead letters and has 7 now. Nothing was done.");
        assert_eq!(q.stats(["dead", "ready"]), [7, 0]);
        // What is there now is shown, and can be acted on.
        page.sees("#main", "All 7 dead letters");
    }
}

#[test]
fn letters_that_died_after_the_group_was_shown_are_not_of_it() {
    let server = Server::start();
    let mut q = server.queue("hooks");
    die(&mut q, 7, |_| "gateway timeout".to_string());
    let dashboard = Dashboard::acting(&server);
    let mut page = Page::open(&dashboard.base);
    page.go("#/q/hooks/dead");
    press_in_group(&mut page, "gateway timeout", "Replay 7");
    page.sees("#ask[open]", "7 dead letters");
    die(&mut q, 2, |_| "gateway timeout".to_string());
    confirm(&mut page);
    page.sees("#toasts", "Replayed 7 jobs");
    assert_eq!(q.stats(["dead", "ready"]), [2, 7]);
}

#[test]
fn a_large_group_is_replayed_whole() {
    const COUNT: usize = 20_500;
    let server = Server::start();
    let mut q = server.queue("hooks");
    die(&mut q, 30, |_| "no route".to_string());
    die(&mut q, COUNT, |number| format!("order {number} of 'u{number}' timed out"));
    let dashboard = Dashboard::acting(&server);
    // A page of the letters is read a second: the group as a browser has it once all of them are.
    let shown = json!({ "reason": "failed", "shape": "order # of '#' timed out", "count": COUNT, "first_at": 0, "last_at": q.now() });
    let action = json!({ "do": "replay", "group": shown, "spread_ms": 3_600_000 }).to_string();
    wait_for("the server to be found", || {
        get(dashboard.port, "/api/live").json()["rows"][0]["dead"] == json!(COUNT + 30)
    });
    let told = act(dashboard.port, "hooks", &action).json();
    assert_eq!(told, json!({ "done": "Replayed 20,500 jobs" }));
    assert_eq!(q.stat("dead"), 30);
    // They are spread over the hour evenly: about half are due within half of it.
    let (key, now) = (q.key("due"), q.now());
    let half: i64 = q.raw(args!["ZCOUNT", key, "-inf", now + 1_800_000]);
    assert!((COUNT as i64 / 2 - 600..COUNT as i64 / 2 + 600).contains(&half), "{half} are due in half the time");
}

#[test]
fn a_group_is_spread_and_another_is_cancelled() {
    let server = Server::start();
    let mut q = server.queue("hooks");
    die(&mut q, 30, |_| "no route".to_string());
    die(&mut q, 1200, |number| format!("order {number} timed out"));
    let dashboard = Dashboard::acting(&server);
    let mut page = Page::open(&dashboard.base);
    page.go("#/q/hooks/dead");
    press_in_group(&mut page, "order # timed out", "Replay 1,200");
    page.fill("#ask-spread", "1h");
    confirm(&mut page);
    page.sees("#toasts", "Replayed 1,200 jobs");
    let (key, now) = (q.key("due"), q.now());
    let half: i64 = q.raw(args!["ZCOUNT", key, "-inf", now + 1_800_000]);
    assert!((550..650).contains(&half), "{half} are due in half the time");
    press_in_group(&mut page, "no route", "Cancel");
    page.sees("#ask[open]", "Cancel 30 dead letters?");
    confirm(&mut page);
    page.sees("#toasts", "Cancelled 30 jobs");
    assert_eq!(q.stats(["dead", "ready", "delayed"]).iter().sum::<i64>(), 1200);
}

#[test]
fn errors_are_grouped_by_what_happened() {
    let server = Server::start();
    let mut q = server.queue("db");
    die(&mut q, 3, |_| "psycopg2.OperationalError: server closed".to_string());
    die(&mut q, 2, |_| "sqlite3.OperationalError: server closed".to_string());
    die(&mut q, 4, |number| format!("no user '{}' in S3", ["ann", "bob", "eve", "joe"][number]));
    die(&mut q, 1, |_| "no user 'ann' in EC2".to_string());
    die(&mut q, 6, |number| format!("HTTP {} for 7c9e6679-7425-40de-944b-e07fc1f90ae{number}", 502 + number % 2));
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.go("#/q/db/dead");
    page.sees("#main", "All 16 dead letters");
    let groups = page.eval("[...document.querySelectorAll('.group')].map(one => `${one.querySelector('.group-count').innerText} ${one.querySelector('.group-error').innerText}`).sort().join('\\n')");
    let expected = [
        "1 no user '#' in EC2",
        "2 sqlite3.OperationalError: server closed",
        "3 HTTP 502 for #",
        "3 HTTP 503 for #",
        "3 psycopg2.OperationalError: server closed",
        "4 no user '#' in S3",
    ];
    assert_eq!(groups, json!(expected.join("\n")));
}

/// An action names a group by what it is. One that a browser of before names by its place is refused.
#[test]
fn a_group_has_no_number() {
    let server = Server::start();
    let mut q = server.queue("hooks");
    die(&mut q, 3, |_| "gateway timeout".to_string());
    let dashboard = Dashboard::acting(&server);
    wait_for("the server to be found", || get(dashboard.port, "/api/live").json()["rows"][0]["dead"] == json!(3));
    assert_eq!(act(dashboard.port, "hooks", "{\"do\":\"replay\",\"group\":\"0\"}").status, 400);
    let shown =
        "{\"reason\":\"failed\",\"shape\":\"gateway timeout\",\"count\":2,\"first_at\":0,\"last_at\":9999999999999}";
    let answer = act(dashboard.port, "hooks", &format!("{{\"do\":\"replay\",\"group\":{shown}}}"));
    assert_eq!((answer.status, q.stat("dead")), (409, 3));
}

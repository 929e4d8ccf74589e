//! By keyboard, by screen reader, on a phone, dark and light.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{json, Value};

use crate::args;
use crate::browser::Page;
use crate::common::{skip, Queue, Server};
use crate::dashboard::Dashboard;

/// What looks for barriers: https://github.com/dequelabs/axe-core.
const AXE: &str = "axe-core@4.14.1";

/// Its script, fetched at the first use; none where there is no npm.
fn axe() -> Option<String> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools").join("axe");
    let script: PathBuf = dir.join("node_modules/axe-core/axe.min.js");
    if !script.exists() {
        std::fs::create_dir_all(&dir).expect("the folder is made");
        let install = Command::new("npm")
            .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
            .arg(&dir)
            .arg(AXE)
            .output();
        install.ok().filter(|told| told.status.success())?;
    }
    std::fs::read_to_string(script).ok()
}

fn stock(server: &Server) -> (String, Queue) {
    let mut failing = server.queue("payments");
    failing.push("x");
    let job = failing.claim();
    failing.ok("RETRY", args![&job.receipt, "DELAY", "10m", "ERROR", "HTTP 502 from https://pay.example.com"]);
    let mut q = server.queue("mail");
    q.push_many(60, &args!["DELAY", "1h"]);
    q.push_many(3, &[]);
    let job = q.claim();
    q.ok("FAIL", args![&job.receipt, "ERROR", "no such address", "STACK", "at send"]);
    server.queue("a-queue-with-a-name-that-is-long-and-has-no-place-to-break-it-at-all_and_goes_on").push("x");
    (job.id, q)
}

fn parts(id: &str) -> Vec<(String, &'static str)> {
    let part = |tab: &str| format!("#/q/mail{tab}");
    vec![
        ("#/".to_string(), "mail"),
        ("#/errors".to_string(), "HTTP 502"),
        ("#/q/payments".to_string(), "HTTP 502"),
        (part(""), "Throughput"),
        (part("/ready"), "Page 1"),
        (part("/delayed"), "Page 1"),
        (part("/dead"), "by their error"),
        (part("/settings"), "max-retries"),
        (part(&format!("/job/{id}")), "no such address"),
        (part("/job/nothing"), "No job has the id"),
    ]
}

#[test]
fn no_page_has_a_barrier_that_axe_finds() {
    let Some(script) = axe() else { return skip("npm cannot give axe-core") };
    let server = Server::start();
    let (id, _q) = stock(&server);
    let dashboard = Dashboard::acting(&server);
    let mut page = Page::open(&dashboard.base);
    for dark in [false, true] {
        page.dark(dark);
        for (part, says) in parts(&id) {
            page.go(&part);
            page.sees("#main", says);
            no_barrier(&mut page, &script, &format!("{part}, dark: {dark}"));
        }
    }
    page.press("Keys ?");
    no_barrier(&mut page, &script, "the help");
    page.key("Escape");
    page.go("#/q/mail");
    page.press("Purge…");
    no_barrier(&mut page, &script, "a question");
    page.size(360, 780);
    page.press("Cancel");
    for (part, says) in parts(&id) {
        page.go(&part);
        page.sees("#main", says);
        no_barrier(&mut page, &script, &format!("{part}, narrow"));
    }
}

fn no_barrier(page: &mut Page, script: &str, at: &str) {
    page.eval(&format!("window.axe ? 0 : (() => {{ {script} }})()"));
    let found =
        page.eval("axe.run(document, { resultTypes: ['violations'] }).then(told => JSON.stringify(told.violations))");
    let found: Value = serde_json::from_str(found.as_str().expect("a text")).expect("JSON");
    let lines = found.as_array().expect("a list").iter().map(|one| {
        let nodes: Vec<String> = one["nodes"]
            .as_array()
            .expect("nodes")
            .iter()
            .take(3)
            .map(|node| format!("{} {}", node["target"], node["failureSummary"]))
            .collect();
        format!("{} ({}): {}", one["id"], one["impact"], nodes.join("; "))
    });
    let lines: Vec<String> = lines.collect();
    assert!(lines.is_empty(), "{at}:\n{}", lines.join("\n"));
}

#[test]
fn nothing_scrolls_sideways_on_a_phone() {
    let server = Server::start();
    let (id, _q) = stock(&server);
    let dashboard = Dashboard::acting(&server);
    let mut page = Page::open(&dashboard.base);
    for width in [360, 760, 1000] {
        page.size(width, 780);
        for (part, says) in parts(&id) {
            page.go(&part);
            page.sees("#main", says);
            assert!(page.overhang() <= 0, "{part} at {width} is wider by {}", page.overhang());
        }
    }
    page.size(360, 780);
    page.go("#/q/mail");
    page.press("Purge…");
    page.wait("document.querySelector('#ask').getBoundingClientRect().width <= 340");
}

/// The element that has the focus, in a word or two.
fn focus(page: &mut Page) -> String {
    let script = "(e => `${e.tagName.toLowerCase()} ${(e.innerText || e.getAttribute('aria-label') || e.id || '').trim().split('\\n')[0]}`)(document.activeElement)";
    page.eval(script).as_str().expect("a text").to_string()
}

#[test]
fn all_can_be_done_by_keyboard() {
    let server = Server::start();
    let (_, mut q) = stock(&server);
    let dashboard = Dashboard::acting(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("#main", "mail");
    page.key("Tab");
    assert_eq!(focus(&mut page), "a Skip to the content");
    page.key("Enter");
    page.wait("document.activeElement.id === 'main'");
    page.key("?");
    page.sees("#help[open]", "The next row, the one before");
    page.key("Escape");
    page.wait("!document.querySelector('#help').open");
    page.key("/");
    page.wait("document.activeElement.id === 'match'");
    page.key("Escape");
    // To the row of the queue, in, and to its parts.
    page.eval("document.querySelector('#sort').value = 'name'; document.querySelector('#sort').dispatchEvent(new Event('change'))");
    page.wait("document.querySelector('tr[data-queue]').innerText.includes('a-queue-with')");
    page.key("j");
    page.key("j");
    assert_eq!(focus(&mut page), "a mail");
    let outline = page.eval("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outline, json!("solid"), "the focus is seen");
    page.key("Enter");
    page.sees("h1", "mail");
    page.key("3");
    page.sees(".toolbar", "Page 1");
    page.key("n");
    page.sees(".toolbar", "Page 2");
    page.key("p");
    page.sees(".toolbar", "Page 1");
    page.key("j");
    page.key("Enter");
    page.sees("#main", "Payload");
    page.key("u");
    page.sees(".tabs", "Delayed 60");
    // A question: nothing is done by Escape, and Enter says yes.
    for times in 0..40 {
        assert!(times < 39, "the button is not reached");
        page.key("Tab");
        if focus(&mut page) == "button Pause…" {
            break;
        }
    }
    page.key("Enter");
    page.sees("#ask[open]", "Pause mail?");
    assert_eq!(focus(&mut page), "button Cancel", "what does no harm has the focus");
    page.key("Escape");
    page.wait("!document.querySelector('#ask').open");
    assert_eq!((focus(&mut page).as_str(), q.stat("paused")), ("button Pause…", 0), "the focus is where it was");
    page.key("Enter");
    page.sees("#ask[open]", "Pause mail?");
    page.key("Tab");
    page.key("Enter");
    page.sees("#toasts", "Paused");
    assert_eq!(q.stat("paused"), 1);
    page.key("g");
    page.sees("h1", "need");
}

#[test]
fn plots_can_be_read_by_keyboard() {
    let server = Server::start();
    let (_, _q) = stock(&server);
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.go("#/q/mail");
    page.wait("document.querySelectorAll('svg.plot[aria-label*=\"Backlog\"] path.line').length === 3");
    page.eval("document.querySelector('svg.plot[aria-label*=\"Backlog\"]').focus()");
    page.key("ArrowLeft");
    page.wait(
        "/ready 2 · leased 0 · dead 1/.test([...document.querySelectorAll('.reading')].map(e => e.innerText).join())",
    );
}

#[test]
fn the_theme_is_the_systems_or_the_one_that_was_chosen() {
    let server = Server::start();
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    let paper = |page: &mut Page| page.eval("getComputedStyle(document.body).backgroundColor").to_string();
    let light = paper(&mut page);
    page.dark(true);
    let dark = paper(&mut page);
    assert_ne!(light, dark);
    page.key("t");
    assert_eq!(paper(&mut page), light, "light was chosen");
    page.dark(false);
    page.key("t");
    assert_eq!(paper(&mut page), dark, "dark was chosen");
    page.go("");
    page.sees("#theme", "Dark");
    assert_eq!(paper(&mut page), dark, "it is kept");
}

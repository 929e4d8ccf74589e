//! Payloads, errors and names that mean harm: all of it is text, and shows what it is.

use serde_json::json;

use crate::args;
use crate::browser::Page;
use crate::common::Server;
use crate::dashboard::Dashboard;

const SCRIPT: &str =
    "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>\"><svg onload=window.hurt=3>";

/// No element came of the data, and nothing ran.
fn unhurt(page: &mut Page) {
    assert_eq!(page.eval("window.hurt ?? null"), json!(null));
    assert_eq!(
        page.eval("document.querySelectorAll('main script, main img, main [onerror], main [onload]').length"),
        json!(0)
    );
    let wide = page.eval("[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.tagName + '.' + e.className).join(' ')");
    assert!(page.overhang() <= 0, "the page can be scrolled sideways: {wide}");
}

#[test]
fn what_means_harm_is_shown_and_does_none() {
    let server = Server::start();
    let mut q = server.queue(SCRIPT.replace('}', "").as_bytes());
    q.unwatched();
    let turned = "invoice\u{202e}fdp.exe\0\u{7}end";
    let large = format!("{SCRIPT}{}", "x".repeat(1_000_000));
    for (payload, error) in [
        (SCRIPT.as_bytes(), SCRIPT),
        (turned.as_bytes(), turned),
        (b"\xff\xfe\x00<b>", "\u{202e}"),
        (large.as_bytes(), "large"),
    ] {
        q.push(payload);
        let job = q.claim();
        let error: Vec<u8> = [error.as_bytes(), b"\xff"].concat();
        q.ok("FAIL", args![job.receipt, "ERROR", error, "STACK", SCRIPT]);
    }
    let dashboard = Dashboard::acting(&server);
    let mut page = Page::open(&dashboard.base);
    page.size(360, 780);
    page.sees("#main", "<script>window.hurt");
    unhurt(&mut page);
    page.click("tr[data-queue] a");
    page.sees("h1", "<script>");
    unhurt(&mut page);
    let key = page.eval("location.hash.split('/')[2]").as_str().expect("the key of the queue").to_string();
    page.go(&format!("#/q/{key}/dead"));
    page.sees("#main", "All 4 dead letters");
    unhurt(&mut page);
    page.press("Oldest first");
    page.sees("table.jobs", "invoice⟨U+202E⟩fdp.exe␀␇end\\xff");
    unhurt(&mut page);
    let ids = page.eval("[...document.querySelectorAll('table.jobs a')].map(a => a.getAttribute('href')).join(' ')");
    let links: Vec<String> = ids.as_str().expect("links").split(' ').map(String::from).collect();
    assert_eq!(links.len(), 4);
    for (link, says) in links.iter().zip([SCRIPT, "invoice⟨U+202E⟩fdp.exe␀␇end", "ff fe 00 3c 62 3e", "xxxxx"])
    {
        page.go(link);
        page.sees(".payload", says);
        page.sees(".stack", SCRIPT);
        unhurt(&mut page);
    }
    page.sees("#main", "Only the beginning is shown");
    page.press("Replay…");
    page.sees("#ask[open]", "<script>");
    page.click("#ask[open] [data-yes]");
    page.sees("#toasts", "<script>");
    unhurt(&mut page);
}

#[test]
fn a_queue_whose_name_is_no_text_has_a_page() {
    let server = Server::start();
    let name = b"caf\xe9/\xff?&=#%41 \n\xe2\x80\xae";
    server.queue(name).push_many(2, &[]);
    let dashboard = Dashboard::acting(&server);
    let mut page = Page::open(&dashboard.base);
    page.click("tr[data-queue] a");
    page.sees("h1", "caf\\xe9/\\xff?&=#%41 ⟨U+202E⟩");
    page.sees(".tabs", "Ready 2");
    page.press("Pause…");
    page.click("#ask[open] [data-yes]");
    page.sees("#toasts", "Paused");
    assert_eq!(server.queue(name).stat("paused"), 1);
}

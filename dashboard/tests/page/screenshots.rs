//! Pictures of each page in both themes and both sizes: `make dashboard-screenshots`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args;
use crate::browser::Page;
use crate::common::Server;
use crate::dashboard::Dashboard;
use crate::workload;

/// How long the plots run before a picture is taken of them.
fn wait_for_plots() {
    let seconds = std::env::var("DQ_SCREENSHOT_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(90);
    std::thread::sleep(Duration::from_secs(seconds));
}

/// Each page: its name, its address, and what must be seen before the picture is taken.
fn pages(job: &str) -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("queues", "#/".to_string(), "webhooks"),
        ("queue", "#/q/mail".to_string(), "Throughput"),
        ("errors", "#/errors".to_string(), "HTTP 503"),
        ("failing", "#/q/payments".to_string(), "every attempt fails"),
        ("delayed", "#/q/reports/delayed".to_string(), "Page 1"),
        ("dead", "#/q/webhooks/dead".to_string(), "by their error"),
        ("job", format!("#/q/webhooks/job/{job}"), "Error"),
        ("settings", "#/q/mail/settings".to_string(), "stale-policy"),
    ]
}

#[test]
#[ignore = "takes pictures for people: make dashboard-screenshots"]
fn pictures_of_each_page() {
    let dir = PathBuf::from(std::env::var("DQ_SCREENSHOTS").unwrap_or("screenshots".to_string()));
    std::fs::create_dir_all(&dir).expect("the folder is made");
    let server = Server::start();
    let _life = workload::start(&server);
    server.queue("mail").ok("CONFIG", args!["SET", "lease", "2m", "max-leased", 50]);
    let dashboard = Dashboard::acting(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("#main", "webhooks");
    wait_for_plots();
    page.go("#/q/webhooks/dead");
    page.sees("#main", "by their error");
    let job = page.text(".groups a code");
    for (width, height, size) in [(1440, 900, "wide"), (360, 780, "narrow")] {
        for dark in [false, true] {
            page.size(width, height);
            page.dark(dark);
            let theme = if dark { "dark" } else { "light" };
            for (name, part, sees) in pages(&job) {
                page.go(&part);
                page.sees("#main", sees);
                take(&mut page, &dir, &format!("{name}-{size}-{theme}"));
            }
            page.go("#/q/invoices");
            page.press("Purge…");
            page.sees("#ask[open]", "Purge invoices?");
            take(&mut page, &dir, &format!("question-{size}-{theme}"));
            page.press("Cancel");
        }
    }
    trouble(&mut page, server, &dir);
}

/// The page while the server is away.
fn trouble(page: &mut Page, mut server: Server, dir: &Path) {
    page.size(1440, 900);
    page.dark(false);
    page.go("#/");
    page.sees("#main", "webhooks");
    server.kill();
    page.sees("#banner", "No connection");
    take(page, dir, "away-wide-light");
    let dashboard = Dashboard::start(&["redis://127.0.0.1:1"]);
    let mut page = Page::open(&dashboard.base);
    page.sees("#main", "No connection");
    take(&mut page, dir, "trouble-wide-light");
}

/// A picture once the plots are drawn, and no longer at work.
fn take(page: &mut Page, dir: &Path, name: &str) {
    std::thread::sleep(Duration::from_millis(3500));
    page.picture(&dir.join(format!("{name}.png")));
}

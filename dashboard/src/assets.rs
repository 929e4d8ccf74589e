//! The files of the page, which are part of the program.

use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};

/// Nothing but what this program itself serves is ever loaded, and no script that stands in a page is run.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                          img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../static/", $name)))),*]
    };
}

const FILES: &[(&str, &[u8])] = files![
    "index.html",
    "icon.svg",
    "base.css",
    "parts.css",
    "pages.css",
    "start.js",
    "router.js",
    "api.js",
    "dom.js",
    "format.js",
    "live.js",
    "theme.js",
    "keys.js",
    "say.js",
    "ask.js",
    "actions.js",
    "plot.js",
    "due.js",
    "charts.js",
    "trouble.js",
    "login.js",
    "overview.js",
    "queue.js",
    "jobs.js",
    "dead.js",
    "errors.js",
    "settings.js",
    "job.js",
];

/// A file by its name.
pub fn file(name: &str) -> Response {
    match FILES.iter().find(|(file, _)| *file == name) {
        Some((_, bytes)) => {
            ([(header::CONTENT_TYPE, kind(name)), (header::CACHE_CONTROL, "no-cache")], *bytes).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

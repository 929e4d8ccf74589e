//! Who is let in, and what other sites cannot do.

use serde_json::json;

use crate::browser::Page;
use crate::common::server::new_dir;
use crate::common::Server;
use crate::dashboard::{refused, url, Dashboard};
use crate::http::{act, get, request};

const PURGE: &str = "{\"do\":\"purge\",\"states\":[\"ready\"]}";

#[test]
fn another_site_can_change_nothing() {
    let server = Server::start();
    let mut q = server.queue("mail");
    q.push("x");
    let dashboard = Dashboard::acting(&server);
    let path = "/api/act?queue=mail";
    let own = ("x-dq-dashboard", "1");
    let forms = [("content-type", "text/plain")];
    let foreign: [&[(&str, &str)]; 4] = [
        &forms,
        &[own, ("origin", "http://evil.example")],
        &[own, ("sec-fetch-site", "cross-site")],
        &[own, ("origin", "null"), ("sec-fetch-site", "same-origin")],
    ];
    for headers in foreign {
        let answer = request(dashboard.port, "POST", path, headers, PURGE);
        assert_eq!((answer.status, q.stat("ready")), (403, 1), "{headers:?}");
    }
    // A page that may send what it likes but not these headers: the browser asks first, and is not answered.
    let asks = [
        ("origin", "http://evil.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "x-dq-dashboard"),
    ];
    let answer = request(dashboard.port, "OPTIONS", path, &asks, "");
    assert_eq!(answer.header("access-control-allow-origin"), None);
    // A name that was let point here.
    for name in ["evil.example", "localhost.evil.example"] {
        let answer = request(dashboard.port, "GET", "/api/live", &[("host", name)], "");
        assert_eq!(answer.status, 421, "{name}");
    }
    assert_eq!(act(dashboard.port, "mail", PURGE).status, 200);
    assert_eq!(q.stat("ready"), 0);
}

/// A form on another site, sent by a browser that is logged in nowhere and knows the address.
#[test]
fn a_form_of_another_site_is_refused_by_a_real_browser() {
    let server = Server::start();
    let mut q = server.queue("mail");
    q.push("x");
    let dashboard = Dashboard::acting(&server);
    let other = Dashboard::of(&server);
    let mut page = Page::open(&other.base);
    page.sees("#main", "mail");
    let script = format!(
        "fetch('{}api/act?queue=mail', {{ method: 'POST', mode: 'no-cors', credentials: 'include', body: '{PURGE}' }}).then(() => 'sent', () => 'refused')",
        dashboard.base
    );
    // The page's own rule does not even let it be sent.
    assert_eq!(page.eval(&script), json!("refused"));
    assert!(page.complaints().iter().any(|text| text.contains("Content Security Policy")), "the rule is told");
    assert_eq!(q.stat("ready"), 1);
}

#[test]
fn every_answer_tells_the_browser_to_be_strict() {
    let server = Server::start();
    let dashboard = Dashboard::of(&server);
    for path in ["/", "/static/start.js", "/api/live", "/api/job?queue=mail&id=x", "/nothing"] {
        let answer = get(dashboard.port, path);
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(answer.header("x-content-type-options").as_deref(), Some("nosniff"), "{path}");
        assert_eq!(answer.header("x-frame-options").as_deref(), Some("DENY"), "{path}");
    }
    let html = String::from_utf8(get(dashboard.port, "/").body).expect("text");
    assert!(!html.contains("http://") && !html.contains("https://"), "nothing comes from another host");
}

#[test]
fn nothing_is_done_without_leave() {
    let server = Server::start();
    let mut q = server.queue("mail");
    q.push("x");
    let dashboard = Dashboard::of(&server);
    for action in [PURGE, "{\"do\":\"pause\"}", "{\"do\":\"cancel\",\"ids\":[\"x\"]}"] {
        let answer = act(dashboard.port, "mail", action);
        assert_eq!(answer.status, 403);
        assert!(answer.json()["trouble"]["advice"][0].as_str().is_some_and(|text| text.contains("--allow-actions")));
    }
    assert_eq!(q.stats(["ready", "paused"]), [1, 0]);
}

#[test]
fn a_password_guards_the_page() {
    let server = Server::start();
    server.queue("mail").push("x");
    let file = new_dir().join("password");
    std::fs::write(&file, "secret of the house\n").expect("it is written");
    let dashboard = Dashboard::start(&[&url(&server), "--password-file", &file.to_string_lossy()]);
    for path in
        ["/api/live", "/api/queue?queue=mail", "/api/jobs?queue=mail&state=ready", "/api/payload?queue=mail&id=x"]
    {
        assert_eq!(get(dashboard.port, path).status, 401, "{path}");
    }
    let mut page = Page::open(&dashboard.base);
    page.fill("#password", "a guess");
    page.press("Sign in");
    page.sees("#main", "That is not the password.");
    page.fill("#password", "secret of the house");
    page.press("Sign in");
    page.sees("#main", "mail");
    let cookie = page.eval("document.cookie");
    assert_eq!(cookie, json!(""), "no script can read the cookie");
    page.go("#/q/mail");
    page.sees(".tabs", "Ready 1");
    page.press("Sign out");
    page.sees("#main", "This dashboard has a password");
    // A program gives the password with each request.
    let basic = [("authorization", "Basic YW5uOnNlY3JldCBvZiB0aGUgaG91c2U=")];
    assert_eq!(request(dashboard.port, "GET", "/api/live", &basic, "").status, 200);
}

#[test]
fn it_is_not_open_to_others_without_a_password() {
    let told = refused(&["--listen", "0.0.0.0:0"]);
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(!told.status.success() && text.contains("needs a password"), "{text}");
    let told = refused(&["--password-file", "/nothing"]);
    assert!(!told.status.success());
    let empty = new_dir().join("empty");
    std::fs::write(&empty, "\n").expect("it is written");
    let told = refused(&["--password-file", &empty.to_string_lossy()]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("is empty"));
}

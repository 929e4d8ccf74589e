//! Exposed to a network: slow clients, guessed passwords, proxies, the log, compression.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::args;
use crate::browser::Page;
use crate::common::{wait_at_most, wait_for, Server};
use crate::dashboard::{url, Dashboard};
use crate::http::{act, get, request, Answer};

const OWN: [(&str, &str); 2] = [("x-dq-dashboard", "1"), ("content-type", "application/json")];
const SECRET: &str = "secret of the house";
/// What a client that does no harm waits at most, on a busy machine.
const SOON: Duration = Duration::from_secs(3);

/// Lets this process have many connections.
fn many_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // Safety: both calls are given a valid structure.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(20_000);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

fn connect(port: u16, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), SOON).expect("it accepts");
    stream.write_all(text.as_bytes()).expect("it is sent");
    stream
}

/// Whether the other side closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("the mode is set");
    match stream.read(&mut [0; 512]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(e) => e.kind() != ErrorKind::WouldBlock,
    }
}

fn guarded(server: &Server, options: &[&str]) -> Dashboard {
    let url = url(server);
    let words: Vec<&str> = [url.as_str()].iter().chain(options).copied().collect();
    Dashboard::start_with(&words, &[("DQ_DASHBOARD_PASSWORD", SECRET)])
}

fn log_in(port: u16, password: &str, headers: &[(&str, &str)]) -> Answer {
    let headers = [&OWN[..], headers].concat();
    request(port, "POST", "/api/login", &headers, &json!({ "password": password }).to_string())
}

const HALF: &str = "GET /api/live HTTP/1.1\r\nhost: 127.0";

#[test]
fn half_sent_requests_keep_nobody_out() {
    many_files();
    let server = Server::start();
    // None of them is closed because its time is up.
    let dashboard = Dashboard::start(&[&url(&server), "--client-timeout", "600"]);
    let mut hanging = Vec::new();
    for _ in 0..20 {
        hanging.extend((0..100).map(|_| connect(dashboard.port, HALF)));
        let begin = Instant::now();
        assert_eq!(get(dashboard.port, "/api/live").status, 200);
        assert!(begin.elapsed() < SOON, "with {} half open it took {:?}", hanging.len(), begin.elapsed());
    }
    wait_for("the surplus to be closed", || {
        hanging.retain_mut(|stream| !is_closed(stream));
        hanging.len() <= 512
    });
    assert!(sockets(&dashboard) < 600, "{} connections", sockets(&dashboard));
}

#[test]
fn half_sent_requests_are_closed_when_their_time_is_up() {
    let server = Server::start();
    let dashboard = Dashboard::start(&[&url(&server), "--client-timeout", "1"]);
    let mut hanging: Vec<TcpStream> = (0..100).map(|_| connect(dashboard.port, HALF)).collect();
    // One that has sent nothing, and one that sends a byte now and then.
    hanging.push(connect(dashboard.port, ""));
    let mut slow = connect(dashboard.port, HALF);
    wait_at_most(Duration::from_secs(20), "all slow ones to be closed", || {
        hanging.retain_mut(|stream| !is_closed(stream));
        let is_slow_closed = slow.write_all(b".").is_err() || is_closed(&mut slow);
        (hanging.is_empty() && is_slow_closed).then_some(())
    });
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let server = Server::start();
    let dashboard = Dashboard::start(&[&url(&server), "--allow-actions", "--client-timeout", "1"]);
    for path in ["/api/login", "/api/act?queue=mail"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-dq-dashboard: 1\r\ncontent-length: 100\r\n\
             content-type: application/json\r\n\r\n{{\"do\":"
        );
        let mut stream = connect(dashboard.port, &head);
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("the timeout is set");
        let mut told = String::new();
        stream.read_to_string(&mut told).expect("it answers and closes");
        assert!(told.starts_with("HTTP/1.1 408 "), "{path}: {told}");
    }
    let large = json!({ "password": "x".repeat(5000) }).to_string();
    assert_eq!(request(dashboard.port, "POST", "/api/login", &OWN, &large).status, 413);
}

/// Connections of the program, with the one to the server.
fn sockets(dashboard: &Dashboard) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", dashboard.pid())).expect("its files are seen");
    let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn a_reply_that_is_not_read_is_given_up() {
    let server = Server::start();
    let mut q = server.queue("mail");
    let id = q.push(&*"x".repeat(1_000_000));
    let dashboard = Dashboard::start(&[&url(&server), "--client-timeout", "1"]);
    wait_for("the server to be connected", || get(dashboard.port, "/api/counts?queue=mail").status == 200);
    let one = format!("GET /api/payload?queue=mail&id={id} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    let stream = connect(dashboard.port, &one.repeat(10));
    stream.peek(&mut [0; 1]).expect("the reply begins");
    let client = stream.local_addr().expect("an address").port();
    assert!(is_established(dashboard.port, client));
    wait_at_most(Duration::from_secs(20), "its end", || (!is_established(dashboard.port, client)).then_some(()));
}

/// Whether the connection between these ports is open at the side of the first.
fn is_established(port: u16, client: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("connections are listed");
    // Address and port of this side, of the other side, and the state.
    let line = format!("0100007F:{port:04X} 0100007F:{client:04X} 01 ");
    table.contains(&line)
}

#[test]
fn a_request_that_takes_too_long_is_ended_and_says_so() {
    let server = Server::start();
    server.queue("mail").push("x");
    let dashboard = Dashboard::start(&[&url(&server), "--allow-actions", "--request-timeout", "1"]);
    wait_for("the server to be connected", || get(dashboard.port, "/api/counts?queue=mail").status == 200);
    server.signal(libc::SIGSTOP);
    let answer = act(dashboard.port, "mail", "{\"do\":\"pause\"}");
    server.signal(libc::SIGCONT);
    assert_eq!(answer.status, 504);
    let trouble = &answer.json()["trouble"];
    assert_eq!(trouble["what"], "There was no answer within 1 seconds");
    assert!(answer.header("content-security-policy").is_some());
    // What was begun is done to its end, and logged.
    dashboard.logs(&["action: address=127.0.0.1", "queue=\"mail\"", "result=\"Paused"]);
}

#[test]
fn guesses_keep_nobody_with_the_password_out() {
    let server = Server::start();
    let dashboard = guarded(&server, &["--trusted-proxy", "127.0.0.1"]);
    let port = dashboard.port;
    let (over, guessing) = (AtomicBool::new(false), ("x-forwarded-for", "203.0.113.66"));
    std::thread::scope(|threads| {
        let _end = AtEnd(&over);
        for _ in 0..100 {
            let over = &over;
            threads.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    assert_ne!(log_in(port, "a guess", &[guessing]).status, 200);
                }
            });
        }
        wait_for("many guesses", || dashboard.log().matches("sign-in failed: address=203.0.113.66").count() > 20);
        for last in 1..20 {
            let begin = Instant::now();
            let other = format!("203.0.113.{last}");
            assert_eq!(log_in(port, SECRET, &[("x-forwarded-for", &other)]).status, 200);
            assert!(begin.elapsed() < SOON, "{other} took {:?}", begin.elapsed());
        }
        let basic = [("authorization", "Basic YW5uOnNlY3JldCBvZiB0aGUgaG91c2U="), ("x-forwarded-for", "203.0.113.99")];
        assert_eq!(request(port, "GET", "/api/live", &basic, "").status, 200);
        // Behind the same address it has its turn after those who came first: 100, at ten per second.
        let begin = Instant::now();
        assert_eq!(log_in(port, SECRET, &[guessing]).status, 200);
        assert!(begin.elapsed() < Duration::from_secs(20), "the same address took {:?}", begin.elapsed());
    });
}

/// Sets the flag when it is dropped, also by a panic.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_address_that_guesses_is_slowed_down_and_cannot_choose_another() {
    let server = Server::start();
    // Nobody is trusted: what the client says of its address counts for nothing.
    let dashboard = guarded(&server, &[]);
    let begin = Instant::now();
    for number in 0..40 {
        let address = format!("203.0.113.{number}");
        assert_eq!(log_in(dashboard.port, "a guess", &[("x-forwarded-for", &address)]).status, 403);
    }
    assert!(begin.elapsed() > Duration::from_millis(2500), "40 guesses took {:?}", begin.elapsed());
    dashboard.logs(&["127.0.0.1 forwards requests but is not trusted", "--trusted-proxy 127.0.0.1"]);
    assert!(!dashboard.log().contains("203.0.113."), "an address that a client made up is not logged");
}

#[test]
fn what_is_refused_and_what_is_done_is_in_the_log() {
    let server = Server::start();
    server.queue("mail").push("x");
    let proxy = ["--trusted-proxy", "127.0.0.0/8", "--user-header", "X-Remote-User"];
    let acting = guarded(&server, &[&proxy[..], &["--allow-actions"]].concat());
    let from = ("x-forwarded-for", "203.0.113.7");
    log_in(acting.port, "a guess", &[from]);
    acting.logs(&["sign-in failed: address=203.0.113.7 proxy=127.0.0.1 user=\"-\" reason=\"wrong password\""]);
    let wrong = [("authorization", "Basic YW5uOng="), from];
    assert_eq!(request(acting.port, "GET", "/api/live", &wrong, "").status, 401);
    acting.logs(&["sign-in failed", "user=\"ann\""]);
    let cookie = log_in(acting.port, SECRET, &[from]).header("set-cookie").expect("a cookie");
    acting.logs(&["signed in: address=203.0.113.7"]);
    let cookie = ("cookie", cookie.split(';').next().expect("a pair"));
    let post = |headers: &[(&str, &str)], body| {
        request(acting.port, "POST", "/api/act?queue=mail", &[&OWN[..], headers].concat(), body)
    };
    assert_eq!(post(&[from], "{\"do\":\"pause\"}").status, 401);
    acting.logs(&["action refused: address=203.0.113.7", "reason=\"not signed in\""]);
    let known = [from, cookie, ("x-remote-user", "bob")];
    assert_eq!(post(&known, "{\"do\":\"pause\"}").status, 200);
    acting.logs(&["action: address=203.0.113.7 proxy=127.0.0.1 user=\"bob\" queue=\"mail\" request={\"do\":\"pause\"} result=\"Paused"]);
    assert_eq!(post(&known, "{\"do\":\"explode\"}").status, 400);
    acting.logs(&["action refused", "user=\"bob\"", "explode"]);
    assert_eq!(post(&[from, cookie, ("origin", "http://evil.example")], "{\"do\":\"purge\"}").status, 403);
    acting.logs(&["request refused: address=203.0.113.7", "POST /api/act", "not come from the page"]);
    assert_eq!(post(&[from, cookie, ("host", "evil.example")], "{\"do\":\"purge\"}").status, 421);
    acting.logs(&["request refused", "the host is not known"]);
    // Without leave to act, and from a stranger again and again.
    let only_shows = Dashboard::of(&server);
    for _ in 0..100 {
        assert_eq!(act(only_shows.port, "mail", "{\"do\":\"resume\"}").status, 403);
    }
    only_shows.logs(&["action refused: address=127.0.0.1", "resume", "without leave to act"]);
    let lines = only_shows.log().matches("action refused").count();
    assert!(lines < 60, "{lines} lines: one address must not fill the disk");
}

#[test]
fn cookies_are_secure_behind_tls() {
    let server = Server::start();
    let secure = |dashboard: &Dashboard, headers: &[(&str, &str)]| {
        let cookie = log_in(dashboard.port, SECRET, headers).header("set-cookie").expect("a cookie");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        cookie.contains("; Secure")
    };
    let from = ("x-forwarded-for", "203.0.113.7");
    let https = ("x-forwarded-proto", "https");
    let plain = guarded(&server, &[]);
    assert!(!secure(&plain, &[]) && !secure(&plain, &[from, https]), "nobody is trusted");
    let behind = guarded(&server, &["--trusted-proxy", "127.0.0.1"]);
    assert!(secure(&behind, &[from, https]));
    assert!(!secure(&behind, &[from, ("x-forwarded-proto", "http")]));
    let rfc = guarded(&server, &["--trusted-proxy", "127.0.0.1", "--forwarding", "forwarded"]);
    assert!(secure(&rfc, &[("forwarded", "for=\"[2001:db8::1]:4711\";proto=https")]));
    rfc.logs(&["signed in: address=2001:db8::1 proxy=127.0.0.1"]);
    assert!(!secure(&rfc, &[from, https]));
    assert!(secure(&guarded(&server, &["--secure-cookies"]), &[]));
}

/// A request that accepts gzip, in HTTP/1.0 so that the answer is in one piece; the head and the body as it was sent.
fn zipped(port: u16, path: &str, site: &str) -> (String, Vec<u8>) {
    let text = format!(
        "GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\naccept-encoding: gzip, br\r\nsec-fetch-site: {site}\r\n\r\n"
    );
    let mut all = Vec::new();
    connect(port, &text).read_to_end(&mut all).expect("it answers");
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head ends");
    let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
    assert!(head.starts_with("http/1.0 200"), "{path}: {head}");
    (head, all.split_off(end + 4))
}

#[test]
fn figures_and_files_are_compressed_and_what_jobs_hold_is_not() {
    let server = Server::start();
    for number in 0..40 {
        server.queue(format!("queue-{number}")).push_many(20, &args!["DELAY", "1h"]);
    }
    let dashboard = Dashboard::of(&server);
    let rows = || get(dashboard.port, "/api/live").json()["rows"].as_array().map_or(0, Vec::len);
    wait_for("all queues", || rows() == 40);
    for path in ["/", "/static/start.js", "/static/base.css", "/api/live"] {
        let whole = get(dashboard.port, path).body;
        let (head, body) = zipped(dashboard.port, path, "same-origin");
        assert!(head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"), "{path}: {head}");
        assert!(body.len() * 3 < whole.len() * 2, "{path}: {} of {} bytes", body.len(), whole.len());
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&*body).read_to_end(&mut text).expect("it is gzip");
        if path == "/api/live" {
            let told: Value = serde_json::from_slice(&text).expect("it is JSON");
            assert_eq!(told["rows"].as_array().map_or(0, Vec::len), 40);
        } else {
            assert_eq!(text, whole, "{path}");
        }
        let (head, _) = zipped(dashboard.port, path, "cross-site");
        assert!(!head.contains("content-encoding"), "{path}, for another site: {head}");
    }
    let (head, body) = zipped(dashboard.port, "/api/jobs?queue=queue-1&state=delayed", "same-origin");
    assert!(body.len() > 1024 && !head.contains("content-encoding"), "{head}");
}

#[test]
fn strangers_learn_nothing_of_the_server() {
    let server = Server::start();
    server.queue("mail").push("x");
    let dashboard = guarded(&server, &["--allow-actions"]);
    let answer = get(dashboard.port, "/api/session");
    assert_eq!(answer.json(), json!({ "known": false, "password": true }));
    let (port, version) = (server.port.to_string(), env!("CARGO_PKG_VERSION"));
    for path in ["/", "/api/session", "/api/live", "/api/nothing", "/static/start.js"] {
        let answer = get(dashboard.port, path);
        let text = format!("{}\n{}", answer.head, String::from_utf8_lossy(&answer.body));
        assert!(!text.contains(&port) && !text.contains(version), "{path}: {text}");
    }
    let mut page = Page::open(&dashboard.base);
    page.wait("document.querySelector('#password')");
    assert_eq!([page.text("#target"), page.text("#foot")], ["", ""]);
    page.fill("#password", SECRET);
    page.key("Enter");
    page.sees("#main", "mail");
    page.sees("#target", &port);
    page.sees("#foot", version);
}

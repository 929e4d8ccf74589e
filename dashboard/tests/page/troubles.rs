//! What stands in the way is told, with what to do about it.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use crate::args;
use crate::browser::Page;
use crate::common::Server;
use crate::dashboard::{url, Dashboard};

/// The rules of a user of docs/users.md.
fn user(name: &str) -> Vec<String> {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/users.md")).expect("the page is there");
    let begin = format!("ACL SETUSER {name} ");
    let line = page.lines().find(|line| line.starts_with(&begin)).expect("the page has the user");
    line.split_whitespace().map(String::from).collect()
}

fn set_user(server: &Server, name: &str, more: &[&str]) {
    let rules = user(name);
    let words: Vec<&str> = rules.iter().map(String::as_str).chain(more.iter().copied()).collect();
    server.run(&words);
}

/// A dashboard that is this user of docs/users.md.
fn as_user(server: &Server, name: &str, args: &[&str]) -> Dashboard {
    let (url, password) = (url(server), format!("{name}-password"));
    let args: Vec<&str> = [url.as_str(), "--user", name].into_iter().chain(args.iter().copied()).collect();
    Dashboard::start_with(&args, &[("DQ_REDIS_PASSWORD", &password)])
}

#[test]
fn a_user_who_only_reads_is_enough_to_watch() {
    let server = Server::start();
    set_user(&server, "viewer", &[]);
    let mut q = server.queue("mail");
    let ids = q.push_many(30, &args!["DELAY", "30s"]);
    q.push_many(1200, &args!["DELAY", "2h"]);
    let job = q.push_and_claim("x");
    q.fail(&job.receipt);
    let dashboard = as_user(&server, "viewer", &["--allow-actions"]);
    let mut page = Page::open(&dashboard.base);
    page.sees("tr[data-queue='mail']", "1 dead letter");
    // Without ZCOUNT the next thousand are counted, and it says so.
    page.sees(".due", "With the rule +zcount all are counted.");
    page.wait("[...document.querySelectorAll('.due tr')].some(row => /^10 s – 1 min\\s+30$/.test(row.innerText))");
    page.go("#/q/mail/delayed");
    page.sees("table.jobs", &ids[0]);
    page.go("#/q/mail/dead");
    page.sees("#main", "All 1 dead letter");
    page.go(&format!("#/q/mail/job/{}", ids[0]));
    page.sees("#main", "Payload");
    page.go("#/q/mail/settings");
    page.sees("#main", "+hgetall or +dq.config allows it");
    page.go("#/q/mail");
    page.press("Pause…");
    page.click("#ask[open] [data-yes]");
    page.sees("#toasts", "may not run DQ.PAUSE");
    set_user(&server, "viewer", &["+zcount", "+hgetall"]);
    q.ok("CONFIG", args!["SET", "lease", "7s"]);
    page.go("#/q/mail/settings");
    page.sees("table.settings", "lease\t7s");
}

#[test]
fn the_operator_of_the_page_on_users_may_do_all_that_the_page_offers() {
    let server = Server::start();
    set_user(&server, "operator", &[]);
    let mut q = server.queue("mail");
    let job = q.push_and_claim("x");
    q.fail(&job.receipt);
    q.push_many(2, &args!["DELAY", "1h"]);
    let dashboard = as_user(&server, "operator", &["--allow-actions"]);
    let mut page = Page::open(&dashboard.base);
    page.sees("#main", "mail");
    let acts = [
        "{\"do\":\"pause\"}",
        "{\"do\":\"resume\"}",
        "{\"do\":\"replay\"}",
        "{\"do\":\"reschedule\",\"delay_ms\":1000}",
        "{\"do\":\"cancel\",\"ids\":[\"x\"]}",
        "{\"do\":\"purge\",\"states\":[\"ready\",\"delayed\",\"leased\",\"dead\"]}",
    ];
    for action in acts {
        let answer = crate::http::act(dashboard.port, "mail", action);
        assert_eq!(answer.status, 200, "{action}: {}", String::from_utf8_lossy(&answer.body));
    }
    page.go("#/q/mail/settings");
    page.sees("table.settings", "max-retries");
}

/// The page of a trouble has this headline and this advice, and goes on by itself once it is mended.
fn tells(args: &[&str], env: &[(&str, &str)], kind: &str, says: &[&str]) -> (Dashboard, Page) {
    let dashboard = Dashboard::start_with(args, env);
    let mut page = Page::open(&dashboard.base);
    page.wait(&format!("document.querySelector('[data-trouble=\"{kind}\"]')"));
    says.iter().for_each(|text| page.sees("#main", text));
    (dashboard, page)
}

#[test]
fn a_wrong_password_and_none_are_told_apart() {
    let server = Server::start();
    let url = url(&server);
    let mut con = server.conn();
    redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("house").exec(&mut con).expect("it is set");
    let wrong = [("DQ_REDIS_PASSWORD", "guess")];
    tells(&[&url], &wrong, "password", &["does not take this user and password", "ACL SETUSER viewer"]);
    let (_dashboard, mut page) =
        tells(&[&url], &[], "password", &["asks for a user and a password", "DQ_REDIS_PASSWORD"]);
    redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("").exec(&mut con).expect("it is taken away");
    page.sees("#main", "No queues yet");
}

#[test]
fn a_server_without_the_module_is_told_what_to_do() {
    let server = Server::builder().without_module().start();
    let (_dashboard, mut page) =
        tells(&[&url(&server)], &[], "no-module", &["has not loaded DQ", "loadmodule /usr/lib/redis/modules/libdq.so"]);
    server.run(&["MODULE", "LOAD", &crate::common::server::module_path().to_string_lossy()]);
    page.sees("#main", "No queues yet");
}

#[test]
fn a_user_who_may_not_even_look_is_told_the_rule() {
    let server = Server::start();
    server.run(&["ACL", "SETUSER", "stranger", "on", ">p", "~*", "+ping", "+info"]);
    let args = [&url(&server) as &str, "--user", "stranger"];
    tells(&args, &[("DQ_REDIS_PASSWORD", "p")], "permission", &["may not run DQ.QUEUES", "+dq.queues", "viewer"]);
}

#[test]
fn nobody_there_is_told() {
    let port = crate::common::server::free_port();
    tells(
        &[&format!("redis://127.0.0.1:{port}")],
        &[],
        "unreachable",
        &["No connection to 127.0.0.1", "tried again each second"],
    );
    let port = port.to_string();
    tells(&["--sentinel", &format!("127.0.0.1:{port}")], &[], "sentinel", &["No connection to the Sentinel"]);
}

#[test]
fn an_old_module_is_told_what_is_needed() {
    let port = old_server();
    tells(
        &[&format!("redis://127.0.0.1:{port}")],
        &[],
        "old-module",
        &["has DQ 0.0.9, which is too old", "0.1.0 or later"],
    );
}

/// Something that answers as a server with a module of long ago would: there is no such build to run.
fn old_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it has an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(client));
        }
    });
    port
}

fn answer(client: TcpStream) -> Option<()> {
    let mut lines = BufReader::new(client.try_clone().ok()?).lines().map_while(Result::ok);
    let mut client = client;
    loop {
        let count: usize = lines.next()?.strip_prefix('*')?.parse().ok()?;
        let words: Vec<String> = (0..count).filter_map(|_| lines.nth(1)).collect();
        let info = "redis_version:7.0.15\r\ndq_version:0.0.9\r\n";
        let reply =
            if words.first()? == "INFO" { format!("${}\r\n{info}\r\n", info.len()) } else { "+OK\r\n".to_string() };
        client.write_all(reply.as_bytes()).ok()?;
    }
}

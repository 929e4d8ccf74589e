//! Servers that go away and come back: the page says so while it lasts, and goes on by itself.

use crate::args;
use crate::browser::Page;
use crate::common::sentinel::{Sentinel, MASTER};
use crate::common::{wait_for, Server};
use crate::dashboard::Dashboard;
use crate::topology::Cluster;

/// What was known before is still shown, as such.
fn is_grey(page: &mut Page) {
    page.wait("document.body.classList.contains('stale')");
    page.sees("#banner", "trying again. What is shown below is from before.");
}

fn is_live(page: &mut Page) {
    page.wait("!document.body.classList.contains('stale') && document.querySelector('#banner').innerText === ''");
    page.sees("#link", "live");
}

#[test]
fn a_restart_is_told_while_it_lasts() {
    let mut server = Server::builder().aof().start();
    server.queue("mail").push_many(5, &args!["DELAY", "1h"]);
    let port = server.port;
    let dashboard = Dashboard::acting(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("tr[data-queue='mail']", "5");
    server.kill();
    page.sees("#banner", &format!("No connection to 127.0.0.1:{port}"));
    is_grey(&mut page);
    page.sees("tr[data-queue='mail']", "5");
    page.wait("/for [1-9][0-9]* s|for [1-9.]+ s/.test(document.querySelector('#banner').innerText)");
    page.go("#/q/mail");
    page.sees("#banner", "No connection");
    page.press("Pause…");
    page.click("#ask[open] [data-yes]");
    page.sees("#toasts", "No connection");
    server.start_again();
    assert_eq!(server.port, port, "the port was free");
    is_live(&mut page);
    server.queue("mail").push("x");
    page.sees(".tabs", "Ready 1");
}

#[test]
fn a_server_that_stands_still_is_told() {
    let server = Server::start();
    server.queue("mail").push("x");
    let dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("tr[data-queue='mail']", "1");
    server.signal(libc::SIGSTOP);
    page.sees("#banner", "No connection");
    is_grey(&mut page);
    server.signal(libc::SIGCONT);
    is_live(&mut page);
}

#[test]
fn the_dashboard_itself_that_is_gone_is_told() {
    let server = Server::start();
    let mut dashboard = Dashboard::of(&server);
    let mut page = Page::open(&dashboard.base);
    page.sees("#main", "No queues yet");
    dashboard.kill();
    page.sees("#banner", "No reply from dq-dashboard itself");
}

#[test]
fn a_failover_by_sentinel_is_followed() {
    let mut primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.catch_up(&primary);
    let sentinel = Sentinel::watch(&primary);
    primary.queue("mail").push_many(4, &args!["DELAY", "1h"]);
    let at = format!("127.0.0.1:{}", sentinel.port);
    let dashboard = Dashboard::start(&["--sentinel", &at, "--master", MASTER, "--allow-actions"]);
    let mut page = Page::open(&dashboard.base);
    page.sees("tr[data-queue='mail']", "4");
    page.sees("#foot", &format!("127.0.0.1:{}", primary.port));
    replica.catch_up(&primary);
    primary.kill();
    is_grey(&mut page);
    is_live(&mut page);
    page.sees("#foot", &format!("127.0.0.1:{}", replica.port));
    page.go("#/q/mail");
    page.press("Pause…");
    page.click("#ask[open] [data-yes]");
    page.sees("#toasts", "Paused");
    wait_for("the new primary to be told", || replica.queue("mail").unwatched().stat("paused") == 1);
}

#[test]
fn a_cluster_is_one_list_and_a_node_that_goes_is_told() {
    let mut cluster = Cluster::start(0, 5000);
    // Names of three slots, one at each node.
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        let home =
            cluster.nodes.iter().find(|node| node.server.try_run(&["DQ.PUSH", name, "x", "DELAY", "1h"]).is_ok());
        assert!(home.is_some(), "a node has the slot of {name}");
    }
    let seed = format!("redis://127.0.0.1:{}", cluster.nodes[1].server.port);
    let dashboard = Dashboard::start(&[&seed, "--allow-actions"]);
    let mut page = Page::open(&dashboard.base);
    page.sees("h1", "6 queues");
    page.sees("#foot", "3 primaries");
    page.sees(".due", "6 jobs");
    for name in names {
        page.go(&format!("#/q/{name}/delayed"));
        page.wait("document.querySelectorAll('table.jobs tbody tr').length === 1");
        let answer = crate::http::act(dashboard.port, name, "{\"do\":\"pause\"}");
        assert_eq!(answer.status, 200, "{name}: {}", String::from_utf8_lossy(&answer.body));
    }
    // Of a queue that was never seen the home is not known: the node that is asked names it.
    for name in ["u", "v", "w", "x", "y", "z"] {
        let answer = crate::http::get(dashboard.port, &format!("/api/job?queue={name}&id=1"));
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"null"[..]), "{name}");
    }
    page.go("#/");
    cluster.nodes[2].server.kill();
    is_grey(&mut page);
    cluster.nodes[2].server.start_again();
    is_live(&mut page);
    page.sees("h1", "6 queues");
}

#[test]
fn a_failover_in_a_cluster_is_followed_though_the_node_that_was_named_is_gone() {
    let mut cluster = Cluster::start(1, 1000);
    let named = 0;
    let server = &cluster.nodes[named].server;
    let name = ["a", "b", "c", "d", "e", "f"]
        .into_iter()
        .find(|name| server.try_run(&["DQ.PUSH", name, "x", "DELAY", "1h"]).is_ok());
    let name = name.expect("a name has a slot there");
    server.run(&["WAIT", "1", "10000"]);
    let dashboard = Dashboard::start(&[&format!("redis://127.0.0.1:{}", server.port)]);
    let mut page = Page::open(&dashboard.base);
    page.sees(&format!("tr[data-queue='{name}']"), "nothing due yet");
    cluster.nodes[named].server.kill();
    is_grey(&mut page);
    is_live(&mut page);
    page.sees(&format!("tr[data-queue='{name}']"), "nothing due yet");
}

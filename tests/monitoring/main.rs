//! monitoring/ as it is: a server with DQ under load, Debian's exporter with the script, Debian's Prometheus with the
//! configuration and the rules; each panel of the dashboard and each alert has data.
//!
//! Where Debian's packages cannot be had it is left out, and said; `DQ_TEST_LANGUAGES`, which the CI machine sets,
//! demands it.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../examples/toolchain.rs"]
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use common::{wait_for, Server};

/// The one line of the README's user `viewer` that the exporter needs more than.
const USER: &str = "ACL SETUSER exporter reset on >exporter-password resetchannels %R~* \
    +ping +info +eval +dq.stats +dq.queues +client|setname +slowlog|len +latency|latest";

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The folder with the programs, or None where they cannot be had.
fn programs() -> Option<PathBuf> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(fetch) {
        Ok(folder) => Some(folder.clone()),
        Err(why) if std::env::var_os("DQ_TEST_LANGUAGES").is_some() => panic!("monitoring is demanded: {why}"),
        Err(why) => {
            common::skip(why);
            None
        }
    }
}

/// Fetches them below the folder that cargo builds in, once.
fn fetch() -> Result<PathBuf, String> {
    let folder = toolchain::target("monitoring")?;
    let programs = folder.join("usr/bin");
    if !programs.join("prometheus-redis-exporter").exists() {
        toolchain::run(Command::new(source("scripts/fetch-monitoring.sh")).arg(&folder))?;
    }
    Ok(programs)
}

#[track_caller]
fn well(output: Output) -> String {
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn each_alert_fires_when_it_should_and_is_silent_when_not() {
    let Some(programs) = programs() else { return };
    let rules = fs::read_to_string(source("monitoring/dq.rules.yml")).unwrap();
    let tests = fs::read_to_string(source("monitoring/dq.rules.test.yml")).unwrap();
    let blocks: Vec<&str> = tests.split("  - name: ").collect();
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let of: Vec<&&str> = blocks.iter().filter(|block| block.contains(&format!("alertname: {alert}\n"))).collect();
        assert!(of.iter().any(|block| block.contains("exp_labels")), "{alert} has a case in which it fires");
        assert!(of.iter().any(|block| block.contains("exp_alerts: []")), "{alert} has a case in which it must not");
    }
    let mut promtool = Command::new(programs.join("promtool"));
    well(promtool.args(["test", "rules", "dq.rules.test.yml"]).current_dir(source("monitoring")).output().unwrap());
}

/// Queues in all the states that the dashboard shows, one of them with a name that is no UTF-8.
fn load(server: &Server) {
    let mut mail = server.queue("mail");
    mail.unwatched();
    mail.push_many(200, &[]);
    for job in mail.claim_n(100) {
        mail.ack(&job.receipt);
    }
    let held = mail.claim_n(12);
    mail.fail(&held[0].receipt);
    mail.ok("RETRY", args![&held[1].receipt, "DELAY", "1h"]);
    server.queue("größe \"x\" {").push("quoted");
    server.queue(b"no \xff text").push("bytes");
    server.run(&["DQ.MPUSH", "later", "DELAY", "2h", "PAYLOADS", "a", "b", "c"]);
    server.run(&["DQ.PAUSE", "paused"]);
}

#[test]
fn from_the_server_to_every_panel() {
    let Some(programs) = programs() else { return };
    let server = Server::builder().set("far-alarm", "2").line("maxmemory 500mb").start();
    load(&server);
    server.run(&USER.split_whitespace().collect::<Vec<_>>());
    wait_for("INFO to have counted all", || server.info("dq", "dq_queues_far") == "1");
    let mut chain = Command::new("/usr/bin/python3");
    chain.arg(source("tests/monitoring/chain.py")).arg(server.port.to_string()).arg(&programs).arg(server.dir());
    println!("{}", well(chain.arg(source("monitoring")).output().unwrap()));
}

/// The script is what holds the server up at each scrape: with very many queues it tells of some, and says so.
#[test]
fn the_script_stays_small_with_very_many_queues() {
    let server = Server::start();
    let mut con = server.conn();
    let mut push = |from: usize, to: usize| {
        for i in from..to {
            redis::cmd("DQ.PUSH").arg(format!("q{i:04}")).arg("x").exec(&mut con).unwrap();
        }
        wait_for("INFO to know all queues", || server.info("dq", "dq_queues") == to.to_string());
    };
    let script = fs::read_to_string(source("monitoring/dq.lua")).unwrap();
    let told = |script: &str| -> Vec<(String, String)> {
        let words: Vec<String> = redis::cmd("EVAL").arg(script).arg(0).query(&mut server.conn()).unwrap();
        words.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    };
    let of = |told: &[(String, String)], key: &str| told.iter().filter(|(name, _)| name.ends_with(key)).count();
    push(0, 600);
    let some = told(&script);
    assert_eq!(of(&some, " ready"), 50);
    assert!(some.contains(&("dq_queues_untold".into(), "550".into())));
    push(600, 1200);
    let totals = told(&script);
    assert_eq!(of(&totals, " ready"), 0, "DQ.QUEUES is refused in a script");
    assert!(totals.contains(&("dq_queues_untold".into(), "1200".into())), "{totals:?}");
    let named = told(&script.replace("NAMES = 50, {}", "NAMES = 50, {'q0007', 'q1100'}"));
    assert_eq!(of(&named, " ready"), 2);
    assert!(named.contains(&("dq_queues_untold".into(), "0".into())), "{named:?}");
}

#[test]
fn on_a_replica_and_without_the_module_the_script_says_little() {
    let script = fs::read_to_string(source("monitoring/dq.lua")).unwrap();
    let primary = Server::start();
    primary.queue("mail").push("x");
    let replica = Server::builder().replica_of(&primary).start();
    replica.catch_up(&primary);
    let told: Vec<String> = redis::cmd("EVAL").arg(&script).arg(0).query(&mut replica.conn()).unwrap();
    assert!(told.windows(2).any(|pair| pair == ["dq_acting", "0"]), "{told:?}");
    assert!(!told.iter().any(|word| word.starts_with("queue ")), "{told:?}");
    let plain = Server::builder().without_module().start();
    let told: Vec<String> = redis::cmd("EVAL").arg(&script).arg(0).query(&mut plain.conn()).unwrap();
    assert!(told.is_empty(), "{told:?}");
}

//! The users of docs/users.md: each can do its part and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use redis::Value;

use crate::args;
use crate::common::*;

/// A user by its name, as docs/users.md and redis.conf.example tell of it.
const ROLES: [&str; 4] = ["producer", "worker", "viewer", "operator"];

/// The lines of a file of the repository that begin so, without that beginning.
fn lines(file: &str, begin: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().filter_map(|line| line.strip_prefix(begin)).map(String::from).collect()
}

/// The rules of each user in docs/users.md, but for the default user.
fn users() -> Vec<Vec<String>> {
    let lines = lines("docs/users.md", "ACL SETUSER ");
    lines
        .iter()
        .filter(|line| !line.starts_with("default "))
        .map(|line| line.split_whitespace().map(String::from).collect())
        .collect()
}

/// A server that has the users.
fn guarded() -> Server {
    let server = Server::builder().line("notify-keyspace-events Ed").set("stale-policy", "keep").start();
    for rules in users() {
        let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(rules.iter().map(String::as_str)).collect();
        server.run(&words);
    }
    server
}

/// The queue as one of the users sees it.
fn queue_of(server: &Server, role: &str, name: &str) -> Queue {
    let mut q = server.queue(name);
    q.unwatched();
    redis::cmd("AUTH").arg(role).arg(format!("{role}-password")).exec(&mut q.con).expect("the user is there");
    q
}

fn refused(q: &mut Queue, name: &str, args: Vec<Vec<u8>>) {
    match q.call(name, args) {
        Err(error) => assert_error(&error_text(&error), "NOPERM", &[]),
        Ok(reply) => panic!("DQ.{name} of {} answered {reply:?}", String::from_utf8_lossy(&q.name)),
    }
}

#[test]
fn the_page_and_redis_conf_example_have_the_same_users() {
    let page = lines("docs/users.md", "ACL SETUSER ");
    assert_eq!(lines("redis.conf.example", "#user "), page);
    let names: Vec<&str> = page.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, [&ROLES[..], &["default"]].concat());
}

#[test]
fn every_command_of_the_module_is_somebodys() {
    let server = Server::start();
    let all = texts(&server.run(&["COMMAND", "LIST", "FILTERBY", "MODULE", "dq"]));
    let rules: BTreeSet<String> = users().into_iter().flatten().collect();
    for command in all {
        assert!(rules.contains(&format!("+{command}")), "{command} is in no line of docs/users.md");
    }
}

/// Whether the user may run the command at all, whatever its keys.
fn may_run(server: &Server, role: &str, command: &str, arity: i64) -> bool {
    let mut words = vec!["ACL", "DRYRUN", role];
    words.extend(command.split('|'));
    let least = usize::try_from(arity.unsigned_abs()).expect("an arity") + 3;
    words.resize(least.max(words.len()), "1");
    !text(&server.run(&words)).contains("no permissions to run")
}

#[test]
fn a_user_can_run_what_its_line_names_and_nothing_else() {
    let server = guarded();
    let mut all = vec!["COMMAND".to_string(), "INFO".to_string()];
    all.extend(texts(&server.run(&["COMMAND", "LIST"])));
    let words: Vec<&str> = all.iter().map(String::as_str).collect();
    let infos: Vec<Vec<Value>> = list(&server.run(&words)).iter().map(list).collect();
    // A command that only holds others cannot be run; those are listed as well.
    let infos: Vec<_> = infos.into_iter().filter(|info| list(&info[9]).is_empty()).collect();
    let is_there = |name: &str| infos.iter().any(|info| text(&info[0]) == name);
    assert!(infos.len() > 250 && is_there("config|set") && is_there("dq.push"), "{} commands", infos.len());
    for rules in users() {
        let named: BTreeSet<&str> = rules.iter().filter_map(|rule| rule.strip_prefix('+')).collect();
        let mut found = BTreeSet::new();
        for info in &infos {
            let (name, arity, flags) = (text(&info[0]), int(&info[1]), texts(&info[2]));
            // AUTH, HELLO and their like are open to everyone.
            if !flags.iter().any(|flag| flag == "no_auth") && may_run(&server, &rules[0], &name, arity) {
                found.insert(name);
            }
        }
        assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), named, "{}", rules[0]);
    }
}

#[test]
fn a_producer_pushes_to_its_queues() {
    let server = guarded();
    let mut q = queue_of(&server, "producer", "mail:new");
    q.ok("PUSH", args!["x", "ID", "mine", "DELAY", 10]);
    q.ok("PUSH", args!["y", "ID", "mine", "REPLACE"]);
    q.ok("MPUSH", args!["JOBS", "", 0, "x", "other", "1h", "y"]);
    assert_eq!(q.raw::<i64>(args!["WAIT", 0, 10]), 0);
    refused(&mut q, "CLAIM", args![]);
    refused(&mut q, "STATS", args![]);
    let mut of_others = queue_of(&server, "producer", "bills");
    refused(&mut of_others, "PUSH", args!["x"]);
    refused(&mut of_others, "MPUSH", args!["PAYLOADS", "x"]);
    for command in [args!["HGETALL", q.key("jobs")], args!["DEL", "mail:new"], args!["KEYS", "*"]] {
        let error = redis::Cmd::new().arg(command).query::<Value>(&mut q.con).expect_err("not allowed");
        assert_error(&error_text(&error), "NOPERM", &[]);
    }
    assert_eq!(server.queue("mail:new").stats(["pushed", "ready", "delayed"]), [3, 2, 1]);
}

#[test]
fn a_worker_works_on_its_queues() {
    let server = guarded();
    let mut all = server.queue("mail");
    all.push_many(8, &[]);
    all.unwatched();
    let mut q = queue_of(&server, "worker", "mail");
    let jobs = q.claim_n(5);
    assert_eq!(int(&q.ok("ACK", args![&jobs[0].receipt])), 1);
    assert_eq!(ints(&q.ok("EXTEND", args!["1m", &jobs[1].receipt])), [60_000]);
    assert!(int(&q.ok("RETRY", args![&jobs[2].receipt, "ERROR", "e"])) > 0);
    assert_eq!(ints(&q.ok("RELEASE", args!["RECEIPTS", &jobs[3].receipt])), [0]);
    q.ok("FAIL", args![&jobs[4].receipt]);
    q.name = b"2".to_vec();
    assert_eq!(list(&q.ok("MCLAIM", args!["report", "mail", "COUNT", 9])).len(), 4);
    refused(&mut q, "MCLAIM", args!["mail", "bills"]);
    q.name = b"mail".to_vec();
    refused(&mut q, "PUSH", args!["x"]);
    refused(&mut q, "PAUSE", args![]);
    refused(&mut queue_of(&server, "worker", "bills"), "CLAIM", args![]);
    // One that waits is served by the module itself, not by a command of the user's.
    let claim = redis::cmd("DQ.CLAIM").arg("report").arg("BLOCK").arg(0).get_packed_command();
    q.con.send_packed_command(&claim).expect("it is sent");
    wait_for("the worker to wait", || server.info("dq", "dq_waiting") == "1");
    server.queue("report").push("x");
    assert_eq!(list(&q.con.recv_response().expect("the job")).len(), 1);
}

#[test]
fn a_viewer_reads_all_queues_and_changes_nothing() {
    let server = guarded();
    let mut all = server.queue("bills");
    let job = all.push_and_claim("x");
    all.push_many(3000, &args!["DELAY", "1h"]);
    for role in ["viewer", "operator"] {
        let mut q = queue_of(&server, role, "bills");
        let [delayed, leased, memory] = q.stats(["delayed", "leased", "memory-bytes"]);
        assert_eq!((delayed, leased), (3000, 1));
        assert!(memory > 100_000, "{memory}: what the module asks of the server is not the user's to ask");
        assert_eq!(text(&q.get(&job.id).expect("the job")["state"]), "leased");
        assert_eq!(list(&q.ok("CHECK", args![])).len(), 0, "a walk in slices");
        assert!(text(&q.raw::<Value>(args!["INFO", "dq"])).contains("dq_queues:1"));
        for (name, args) in [("PUSH", args!["x"]), ("CLAIM", args![]), ("ACK", args![&job.receipt])] {
            refused(&mut q, name, args);
        }
    }
    let mut viewer = queue_of(&server, "viewer", "bills");
    refused(&mut viewer, "PAUSE", args![]);
    viewer.con.send_packed_command(&redis::cmd("PSUBSCRIBE").arg("__keyevent@*").get_packed_command()).expect("sent");
    viewer.con.recv_response().expect("a subscription");
    all.fail(&job.receipt);
    assert_eq!(texts(&viewer.con.recv_response().expect("an event"))[2..], ["__keyevent@0__:dq.dead", "bills"]);
}

#[test]
fn an_operator_pauses_and_resumes() {
    let server = guarded();
    let mut q = queue_of(&server, "operator", "bills");
    assert_eq!(text(&q.ok("PAUSE", args![])), "OK");
    assert_eq!(q.stat("paused"), 1);
    assert_eq!(text(&q.ok("RESUME", args![])), "OK");
}

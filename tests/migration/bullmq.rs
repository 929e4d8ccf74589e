//! BullMQ's delayed jobs, as its version 6.7 keeps them: a sorted set of ids whose scores are 4096 for a ms, and a hash
//! for each job. Where Node and BullMQ can be had, BullMQ itself writes them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use redis::{Commands, Connection};

use crate::common::{skip, Server};
use crate::program::{run, url};
use crate::toolchain;

/// What addDelayedJob writes.
fn write(con: &mut Connection, id: &str, fields: &[(&str, &str)], due: i64) {
    let _: () = con.hset_multiple(format!("bull:video:{id}"), fields).unwrap();
    let _: i64 = con.zadd("bull:video:delayed", id, due * 4096 + 1).unwrap();
}

fn fill(server: &Server, now: i64) {
    let mut con = server.conn();
    let due = now + 3_600_000;
    let exponential = r#"{"attempts":5,"delay":3600000,"backoff":{"type":"exponential","delay":2000}}"#;
    let fixed = r#"{"attempts":3,"backoff":{"type":"fixed","delay":7000}}"#;
    write(&mut con, "1", &[("name", "encode"), ("data", r#"{"n":1}"#), ("opts", exponential)], due);
    write(&mut con, "2", &[("name", "encode"), ("data", "2"), ("opts", fixed), ("atm", "1")], due + 1);
    write(&mut con, "my id", &[("name", "once"), ("data", "[]"), ("opts", "{}")], due + 2);
    // Not to be moved: a job of a flow, its parent, one of a scheduler, one without a hash.
    write(&mut con, "child", &[("name", "c"), ("data", "1"), ("opts", "{}"), ("parentKey", "bull:video:9")], due);
    write(&mut con, "parent", &[("name", "p"), ("data", "1"), ("opts", "{}")], due);
    let _: i64 = con.sadd("bull:video:parent:dependencies", "bull:video:8").unwrap();
    write(&mut con, "repeat:every:1", &[("name", "t"), ("data", "1"), ("opts", "{}"), ("rjk", "every")], due);
    let _: i64 = con.zadd("bull:video:delayed", "gone", due * 4096).unwrap();
}

#[test]
pub fn jobs_are_moved_with_what_is_left_of_their_attempts() {
    let server = Server::start();
    moves(&server, &server);
    moves(&Server::builder().without_module().start(), &Server::start());
}

fn moves(from: &Server, to: &Server) {
    let mut queue = to.queue("jobs");
    let now = queue.now();
    fill(from, now);
    let said = run("move_bullmq.py", &["video", "jobs", "--from", &url(from), "--to", &url(to)]).well();
    assert!(said.contains("stay     4 that cannot be moved"), "{said}");
    assert_eq!(queue.stats(["ready", "delayed"]), [0, 3]);
    queue.ok("RESCHEDULE", crate::args!["DELAY", 0, "ALL"]);
    let mut jobs = queue.claim_n(10);
    jobs.sort_by_key(|job| job.retries_left);
    assert_eq!(jobs.iter().map(|job| job.retries_left).collect::<Vec<_>>(), [0, 1, 4]);
    assert_eq!(jobs[2].payload, br#"{"name": "encode", "data": {"n": 1}}"#);
    assert_eq!(queue.retry(&jobs[1].receipt), 7000, "a fixed backoff stays as long");
    assert_eq!(queue.retry(&jobs[2].receipt), 2000);
    let left: Vec<String> = con_keys(from);
    assert_eq!(left, ["child", "delayed", "parent", "parent:dependencies", "repeat:every:1"]);
}

fn con_keys(server: &Server) -> Vec<String> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*bull:video:*").query(&mut server.conn()).unwrap();
    let mut keys: Vec<String> = keys.iter().map(|key| key.replace("bull:video:", "")).collect();
    keys.sort();
    keys
}

const PRODUCER: &str = r#"
import { Queue } from "bullmq";
const queue = new Queue("video", { connection: { host: "127.0.0.1", port: Number(process.argv[2]) } });
for (let n = 0; n < 60; n++) {
  await queue.add("encode", { n }, { delay: 60000 + n * 1000, attempts: 5, backoff: { type: "exponential", delay: 2000 } });
}
await queue.add("in a month", "\u0000ü", { delay: 30 * 86400000 });
await queue.upsertJobScheduler("every", { every: 3600000, startDate: Date.now() + 3600000 }, { name: "tick" });
await queue.close();
"#;

/// A folder below the one that cargo builds in, with BullMQ 6 in it.
fn bullmq() -> Result<PathBuf, String> {
    toolchain::node()?;
    let folder = toolchain::target("bullmq")?;
    toolchain::npm_install(&folder, &["bullmq@6.7.0", "ioredis@5.9.3"])?;
    fs::write(folder.join("producer.mjs"), PRODUCER).map_err(|e| e.to_string())?;
    Ok(folder)
}

#[test]
pub fn what_bullmq_itself_has_written() {
    let folder = match bullmq() {
        Ok(folder) => folder,
        Err(why) if toolchain::is_demanded("node") => panic!("node is demanded: {why}"),
        Err(why) => return skip(&why),
    };
    let server = Server::start();
    let output =
        Command::new("node").arg("producer.mjs").arg(server.port.to_string()).current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let words = ["video", "jobs", "--from", &url(&server)];
    run("move_bullmq.py", &words).refused(&["30.0 days", "DQ.CONFIG jobs SET max-delay 31d"]);
    server.run(&["DQ.CONFIG", "jobs", "SET", "max-delay", "31d"]);
    let said = run("move_bullmq.py", &words).well();
    assert!(said.contains("moved    61") && said.contains("stay     1"), "{said}");
    let mut queue = server.queue("jobs");
    queue.ok("RESCHEDULE", crate::args!["DELAY", 0, "ALL"]);
    let jobs = queue.claim_n(100);
    assert_eq!(jobs.len(), 61);
    assert_eq!(jobs.iter().filter(|job| job.retries_left == 4).count(), 60);
    assert!(jobs.iter().any(|job| job.payload == br#"{"name": "in a month", "data": "\u0000\u00fc"}"#));
}

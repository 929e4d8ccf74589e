//! A client library that gives up on a blocked call and sends it again.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

/// A worker with redis-py: time-outs of the socket that are far shorter than BLOCK, and everything else by default.
/// Its ACKs have time: this is about giving up on a claim. It says what it got, finishes it, and ends after the job `end`.
const WORKER: &str = r#"
import sys, redis
port, block = int(sys.argv[1]), sys.argv[2]
r = redis.Redis(port=port, socket_timeout=0.5)
patient = redis.Redis(port=port)
gave_up = 0
while True:
    try:
        jobs = r.execute_command("DQ.CLAIM", "q", "BLOCK", block)
    except redis.exceptions.TimeoutError:
        gave_up += 1
        continue
    for receipt, payload, id, attempt, lease, left in jobs:
        acked = patient.execute_command("DQ.ACK", "q", receipt)
        print("job", payload.decode(), attempt, acked, flush=True)
        if payload == b"end":
            print("gave up", gave_up, 0, 0, flush=True)
            sys.exit()
"#;

#[test]
fn a_library_that_times_out_and_sends_again_loses_no_job() {
    let scene = Scene::new();
    // A job that is on its way when the client gives up was told, as far as the server can know: its lease brings it back.
    scene.set("lease", "2s");
    let mut q = scene.queue("q");
    let workers: Vec<_> = (0..4)
        .map(|_| {
            Command::new("/usr/bin/python3")
                .args(["-c", WORKER, &scene.port.to_string(), "5000"])
                .stdout(Stdio::piped())
                .spawn()
                .expect("python3 is installed")
        })
        .collect();
    q.wait_stat("waiting", 4);
    // Due all over the times at which they give up: 4 s of jobs, about 8 time-outs a worker.
    let jobs = 400;
    for i in 0..jobs {
        q.unwatched();
        ok!(q, "PUSH", i, "DELAY", 100 + i * 10);
    }
    q.watched();
    wait_for("all to be finished", || q.stats(["ready", "delayed", "leased"]) == [0, 0, 0]);
    // Each has to give up at least once more.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    // None that gave up is still in the line: it was 20 rounds by now.
    assert!(q.stat("waiting") <= 4);
    q.wait_stat("waiting", 4);
    for _ in &workers {
        q.push("end");
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let (mut gave_up, mut again) = (0, 0);
    for worker in workers {
        let output = worker.wait_with_output().expect("it ends");
        assert!(output.status.success());
        for line in String::from_utf8(output.stdout).expect("text").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == "gave" {
                gave_up += words[2].parse::<usize>().expect("a count");
                continue;
            }
            assert_eq!(words[3], "1", "finished by the one who has it: {line}");
            again += words[2].parse::<i64>().expect("an attempt") - 1;
            *seen.entry(words[1].to_string()).or_default() += 1;
        }
    }
    eprintln!("gave up {gave_up} times, {again} of them with a job on its way");
    assert!(gave_up >= 4, "it was to give up, and did {gave_up} times");
    assert_eq!(seen.remove("end"), Some(4));
    assert_eq!(seen.len(), jobs);
    assert!(seen.values().all(|times| *times == 1));
    let total = jobs as i64 + 4;
    assert!(again <= i64::try_from(gave_up).expect("small"), "{again} jobs came again");
    let counted = q.stats(["pushed", "claimed", "acked", "lapsed", "lease-lost"]);
    assert_eq!(counted, [total, total + again, total, again, 0]);
    assert_eq!(q.raw::<i64>(args!["DBSIZE"]), 1, "nothing but the header is left");
    scene.end();
}

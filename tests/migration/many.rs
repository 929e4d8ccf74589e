//! Very many jobs: the program's memory and each step of the server stay small.

use crate::common::Server;
use crate::program::{program, url, Ended};

/// `DQ_TEST_JOBS=1000000` for the run that docs/migration/zset.md tells of.
fn jobs() -> usize {
    std::env::var("DQ_TEST_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(30_000)
}

#[test]
fn memory_and_steps_are_bounded() {
    let server = Server::start();
    let jobs = jobs();
    let now = server.queue("mail").now();
    let mut con = server.conn();
    for start in (0..jobs).step_by(1000) {
        let mut add = redis::cmd("ZADD");
        add.arg("old");
        for i in start..(start + 1000).min(jobs) {
            add.arg(now + 60_000 + (i as i64 * 7919) % 86_400_000).arg(format!("{i:0>100}"));
        }
        add.exec(&mut con).unwrap();
    }
    server.run(&["CONFIG", "RESETSTAT"]);
    let mut command = program("move_zset.py", &["old", "mail", "--from", &url(&server)]);
    Ended::of(command.output().unwrap()).well();
    let mut queue = server.queue("mail");
    assert_eq!(queue.stat("delayed"), jobs as i64);
    let steps = server.info("commandstats", "cmdstat_eval");
    let steps: usize = steps.split(['=', ',']).nth(1).unwrap().parse().unwrap();
    assert!(steps >= jobs / 50, "{steps} steps for {jobs} jobs");
    // Safety: getrusage only writes into what it is given.
    let peak = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage), 0);
        usage.ru_maxrss
    };
    println!("{jobs} jobs in {steps} steps; the largest child had {peak} kB");
}

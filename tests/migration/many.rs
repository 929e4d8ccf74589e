//! Very many jobs: the program's memory and each step of the server stay small.

use std::process::Child;

use crate::common::Server;
use crate::program::{program, url};

/// `DQ_TEST_JOBS=1000000` for the run that docs/migration/zset.md tells of.
fn jobs() -> usize {
    std::env::var("DQ_TEST_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(30_000)
}

#[test]
pub fn memory_and_steps_are_bounded() {
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
    let child = program("move_zset.py", &["old", "mail", "--from", &url(&server)]).spawn().unwrap();
    let (code, peak_kb) = end_and_peak(child);
    assert_eq!(code, 0);
    let mut queue = server.queue("mail");
    assert_eq!(queue.stat("delayed"), jobs as i64);
    let steps = server.info("commandstats", "cmdstat_eval");
    let steps: usize = steps.split(['=', ',']).nth(1).unwrap().parse().unwrap();
    assert!(steps >= jobs / 50, "{steps} steps for {jobs} jobs");
    println!("{jobs} jobs in {steps} steps, {peak_kb} kB of memory");
    assert!(peak_kb < 60_000, "{peak_kb} kB");
}

/// How the process ended, and the most memory that it had.
fn end_and_peak(child: Child) -> (i32, i64) {
    let mut status = 0;
    // Safety: wait4 only writes into what it is given, and nobody else waits for this child.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(child.id() as i32, &mut status, 0, &mut usage), child.id() as i32);
        usage
    };
    (libc::WEXITSTATUS(status), usage.ru_maxrss)
}

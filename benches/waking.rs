//! How late a blocked worker gets its job, as a client on the same machine sees it, and what waiting costs the server.
//! `make bench-waking`.
//!
//! * Lateness: 100 blocked workers, 500 jobs a second whose due times lie anywhere; pushed with a delay, retried,
//!   released, and left behind by a worker that died. Aim: 0.5 ms in the median, 2 ms at p99, never early.
//! * Cost: the processor time of 10,000 pushes a second with 1 and with 1,000 blocked workers. Aim: not twice as much.
//! * Idle: what 1,000 blocked workers cost while nothing is due. Aim: no command at all.
//!
//! A short table, and each of its lines once more as JSON. `DQ_TEST_SERVER` and `DQ_MODULE` choose the server and the
//! module as for the tests, `DQ_BENCH_SECONDS` the length of each measurement (10), and an argument those whose name it
//! is part of. Ends with 1 where a job came early, or an aim is missed that the machine's other load does not touch;
//! lateness is what it is on the machine as it is, beside the round trip of a PING meanwhile.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[path = "../tests/blocking/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../tests/common/mod.rs"]
#[allow(dead_code, unused_imports)]
mod common;
#[path = "waking/cost.rs"]
mod cost;
#[path = "waking/lateness.rs"]
mod lateness;
#[path = "waking/workers.rs"]
mod workers;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let part = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let asked = |name: &str| name.contains(&part);
    let mut missed = false;
    println!("load of the machine {}, {} cores", load(), cores());
    lateness::print_head();
    for how in lateness::ALL {
        if asked(how.name()) {
            missed |= lateness::measure(how);
        }
    }
    for pushes in [cost::Pushes::Delayed, cost::Pushes::Served] {
        if asked(pushes.name()) {
            missed |= cost::of_pushes(pushes);
        }
    }
    if asked("idle") {
        missed |= cost::of_idling();
    }
    ExitCode::from(u8::from(missed))
}

/// How long each measurement takes.
fn seconds() -> u64 {
    std::env::var("DQ_BENCH_SECONDS").map_or(10, |seconds| seconds.parse().expect("DQ_BENCH_SECONDS is a number"))
}

/// Processes that want to run, over the last minute.
fn load() -> String {
    let all = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    all.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("0").to_string()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// One line of JSON, with the machine's load.
fn report(name: &str, fields: &[(&str, f64)]) {
    let fields: String = fields.iter().map(|(field, value)| format!(",\"{field}\":{value}")).collect();
    println!("{{\"bench\":\"waking\",\"name\":\"{name}\"{fields},\"load\":{},\"cores\":{}}}", load(), cores());
}

/// The system's time in µs.
fn wall_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_micros()).expect("it fits")
}

//! DQ against the peers that can be installed from registries, each through the client that its users use: BullMQ, RQ,
//! Celery, beanstalkd, ChasquiMQ, and asynq as the sequence of its commands. `make bench-peers`; docs/benchmarks.md
//! explains the figures.
//!
//! * Cost: the server's processor time a job, for the push with a delay, for all from then on (fall due, claim, finish),
//!   and for the whole life. Without persistence. DQ and each peer run in turn, on servers of their own; a ratio is that of
//!   runs that stood side by side, and the median of those counts.
//!   `ping` is what three commands of no work cost in place of push, claim and finish: the server's sockets.
//! * Memory of a delayed job, and what a whole life writes to the AOF.
//! * Lateness: from the call that pushes a job, or from when it is due, until a worker that waits has it.
//!
//! A payload has 100 bytes. An argument chooses the groups whose name it is part of. `DQ_TEST_SERVER` and `DQ_MODULE`
//! choose the server and the module as for the tests, `DQ_BENCH_RUNS` the number of runs (4). What cannot be had or cannot
//! run here is said, and the others go on.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

/// What the result is called.
const BENCH: &str = "peers";

#[path = "peers/asynq.rs"]
mod asynq;
#[path = "peers/beanstalkd.rs"]
mod beanstalkd;
#[path = "../tests/common/mod.rs"]
#[allow(dead_code, unused_imports)]
mod common;
#[path = "peers/dq.rs"]
mod dq;
#[path = "peers/host.rs"]
mod host;
#[path = "peers/install.rs"]
mod install;
#[path = "peers/late.rs"]
mod late;
#[path = "peers/peer.rs"]
mod peer;
#[path = "life/report.rs"]
#[allow(dead_code)]
mod report;
#[path = "peers/script.rs"]
mod script;
#[path = "life/swarm.rs"]
mod swarm;
#[path = "life/ways.rs"]
#[allow(dead_code)]
mod ways;
#[path = "life/wire.rs"]
#[allow(dead_code)]
mod wire;

use host::{Host, Kind};
use peer::{Entry, Group, Outcome, Peer};
use report::Aim;
use script::{Program, Script};

const PAYLOAD: usize = 100;
/// Jobs that are pushed, claimed or acked together, where that is done.
const BULK: usize = 50;
/// Commands in a pipeline of bare sockets.
const DEPTH: usize = 64;
/// Connections of a Go program's pool.
const POOL: usize = 10;

fn main() {
    pin(1);
    let part = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let runs = std::env::var("DQ_BENCH_RUNS").map_or(4, |runs| runs.parse().expect("DQ_BENCH_RUNS is a number"));
    let begun = report::load();
    let (node, python) = (install::node(), install::python());
    println!("load of the machine: {begun}\n");
    println!("| figure | unit | medians | ratio, median (least–most) | aim |\n| --- | --- | --- | --- | --- |");
    let (mut figures, mut missing) = (Vec::new(), Vec::new());
    for group in groups(&node, &python).into_iter().filter(|group| group.name.contains(&part)) {
        let (found, absent) = peer::measure(group, runs);
        found.iter().for_each(|figure| println!("{}", figure.row()));
        figures.extend(found);
        missing.extend(absent);
    }
    println!();
    missing.iter().for_each(|what| println!("not measured: {what}"));
    println!();
    figures.iter().for_each(|figure| println!("{}", figure.json()));
    let mut facts = versions();
    facts.extend([("load-before", begun), ("load-after", report::load()), ("not-measured", missing.join("; "))]);
    println!("\nload of the machine: {}; {}", report::load(), report::write(&figures, &facts).display());
}

/// Keeps this program, and all that it starts from now on, on one processor, where there are two.
fn pin(cpu: usize) {
    // Safety: an all-zero set is an empty one, and the kernel reads no more than its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

fn versions() -> Vec<(&'static str, String)> {
    let server = &common::server::server_command()[0];
    vec![
        ("server", host::version(server, &["--version"])),
        ("node", host::version("node", &["--version"])),
        ("beanstalkd", host::version("beanstalkd", &["-v"])),
        ("node-packages", install::NODE.join(" ")),
        ("python-packages", install::PYTHON.join(" ")),
    ]
}

fn groups(node: &Outcome<Program>, python: &Outcome<Program>) -> Vec<Group> {
    vec![
        bullmq_one(node),
        bullmq_bulk(node),
        asynq_pool(),
        python_one(python),
        beanstalkd_pipe(),
        chasquimq_push(python),
    ]
}

fn script(
    name: &'static str,
    program: &Outcome<Program>,
    (kind, batch): (&'static str, usize),
    jobs: usize,
    stock: usize,
) -> Entry {
    let program = program.clone();
    let host = if kind == "dq" { Kind::Module } else { Kind::Plain };
    let make = move |host: &mut Host| -> Outcome<Box<dyn Peer>> {
        Ok(Box::new(Script::start(program.as_ref().map_err(Clone::clone)?, kind, host.port(), batch)?))
    };
    Entry { name, kind: host, jobs, stock, delay_ms: 200, make: Box::new(make) }
}

fn bullmq_one(node: &Outcome<Program>) -> Group {
    Group {
        name: "node, one by one",
        entries: vec![
            script("bullmq", node, ("bullmq", 1), 1200, 20_000),
            script("dq", node, ("dq", 1), 1200, 20_000),
            script("ping", node, ("ping", 1), 1200, 0),
        ],
        pairs: vec![("bullmq", "dq")],
        aims: vec![],
    }
}

fn bullmq_bulk(node: &Outcome<Program>) -> Group {
    Group {
        name: "node, 50 at once",
        entries: vec![
            script("bullmq", node, ("bullmq", BULK), 5000, 20_000),
            script("dq", node, ("dq", BULK), 20_000, 20_000),
        ],
        pairs: vec![("bullmq", "dq")],
        aims: vec![Aim::RatioLeast("bullmq", "dq", 8.0)],
    }
}

fn pipelined_dq(name: &'static str, depth: usize, count: usize) -> Entry {
    let make = move |host: &mut Host| -> Outcome<Box<dyn Peer>> {
        Ok(Box::new(dq::Pipeline::open(host.port(), depth, count)))
    };
    Entry { name, kind: Kind::Module, jobs: 30_000, stock: 100_000, delay_ms: 200, make: Box::new(make) }
}

fn asynq_pool() -> Group {
    let crowd = |host: &mut Host| -> Outcome<Box<dyn Peer>> { Ok(Box::new(dq::Crowd::open(host.port(), POOL))) };
    let asynq = |host: &mut Host| -> Outcome<Box<dyn Peer>> { Ok(Box::new(asynq::Asynq::open(host.port(), POOL))) };
    let pings = |host: &mut Host| -> Outcome<Box<dyn Peer>> { Ok(Box::new(dq::Pings::open(host.port(), POOL))) };
    Group {
        name: "10 connections",
        entries: vec![
            Entry {
                name: "asynq",
                kind: Kind::Plain,
                jobs: 10_000,
                stock: 50_000,
                delay_ms: 1000,
                make: Box::new(asynq),
            },
            Entry { name: "dq", kind: Kind::Module, jobs: 10_000, stock: 50_000, delay_ms: 200, make: Box::new(crowd) },
            Entry { name: "ping", kind: Kind::Plain, jobs: 10_000, stock: 0, delay_ms: 0, make: Box::new(pings) },
            pipelined_dq("dq-bulk", DEPTH, BULK),
        ],
        pairs: vec![("asynq", "dq")],
        aims: vec![Aim::RatioLeast("asynq", "dq-bulk", 8.0)],
    }
}

fn python_one(python: &Outcome<Program>) -> Group {
    Group {
        name: "python, one by one",
        entries: vec![
            script("rq", python, ("rq", 1), 400, 4000),
            script("celery", python, ("celery", 1), 400, 4000),
            script("dq", python, ("dq", 1), 1200, 20_000),
            script("ping", python, ("ping", 1), 1200, 0),
            script("dq-bulk", python, ("dq", BULK), 20_000, 20_000),
        ],
        pairs: vec![("rq", "dq"), ("celery", "dq"), ("rq", "dq-bulk"), ("celery", "dq-bulk")],
        aims: vec![],
    }
}

fn beanstalkd_pipe() -> Group {
    let make =
        |host: &mut Host| -> Outcome<Box<dyn Peer>> { Ok(Box::new(beanstalkd::Pipeline::open(host.port(), DEPTH))) };
    Group {
        name: "64 in a pipeline",
        entries: vec![
            Entry {
                name: "beanstalkd",
                kind: Kind::Beanstalkd,
                jobs: 30_000,
                stock: 200_000,
                delay_ms: 1000,
                make: Box::new(make),
            },
            pipelined_dq("dq", DEPTH, 1),
            pipelined_dq("dq-bulk", DEPTH, BULK),
        ],
        pairs: vec![("beanstalkd", "dq"), ("beanstalkd", "dq-bulk")],
        aims: vec![],
    }
}

/// Its engine hands jobs out by XADD with IDMP, which is younger than every server that the registries have.
fn chasquimq_push(python: &Outcome<Program>) -> Group {
    let program = python.clone();
    let chasquimq = move |host: &mut Host| -> Outcome<Box<dyn Peer>> {
        let program = program.as_ref().map_err(Clone::clone)?;
        let script = Script::start(program, "chasquimq", host.port(), BULK)?;
        Ok(Box::new(script.only_pushes("needs Redis 8.6")))
    };
    Group {
        name: "python, pushes of 50",
        entries: vec![
            Entry {
                name: "chasquimq",
                kind: Kind::Plain,
                jobs: 10_000,
                stock: 50_000,
                delay_ms: 200,
                make: Box::new(chasquimq),
            },
            script("dq-bulk", python, ("dq", BULK), 10_000, 50_000),
        ],
        pairs: vec![("chasquimq", "dq-bulk")],
        aims: vec![],
    }
}

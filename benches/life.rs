//! What a job costs the server from push to ack, against the native commands it is made of and against the usual Lua
//! scripts, on servers of its own. `make bench`; docs/benchmarks.md explains the figures.
//!
//! Cost is the server's processor time (INFO used_cpu), so that a slow client hides nothing. What is compared is run in
//! turn, several times; a ratio is that of runs that stood side by side, and the median of those counts.
//!
//! An argument chooses the measurements whose name it is part of. `DQ_TEST_SERVER` and `DQ_MODULE` choose the server and
//! the module as for the tests; `DQ_BENCH_RUNS` the number of runs (7); `DQ_BENCH_LARGE=1` grows to 10,000,000 jobs;
//! `DQ_BENCH_PROFILE=push|claim|ack|mpush` only keeps a server at work for `DQ_BENCH_SECONDS` (20) and has perf look at
//! that part: `DQ_BENCH_CONTROL` is the fifo of `perf record --control`, `DQ_BENCH_WAY` native, lua or dq.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

/// What the result is called.
const BENCH: &str = "life";

#[path = "../tests/common/mod.rs"]
#[allow(dead_code, unused_imports)]
mod common;
#[path = "life/report.rs"]
#[allow(dead_code)]
mod report;
#[path = "life/swarm.rs"]
mod swarm;
#[path = "life/ways.rs"]
mod ways;
#[path = "life/wire.rs"]
mod wire;

use std::time::{Duration, Instant};

use common::server::{module_path, Builder};
use common::Server;
use report::{Aim, Figure};
use ways::{payloads, Due, Line, Way, WAYS};
use wire::{Batch, Wire};

const PAYLOAD: usize = 100;
/// Commands in a pipeline.
const DEPTH: usize = 32;
/// Jobs of one claim, one ack and one MPUSH.
const COUNT: usize = 50;
/// Claims or acks of COUNT in a pipeline.
const COUNT_DEPTH: usize = 4;

/// What is measured, by name.
type Measurement = (&'static str, fn(&mut Vec<Figure>));

const ALL: &[Measurement] = &[
    ("life", life_without_aof),
    ("life-aof", life_with_aof),
    ("crowd", crowd),
    ("memory", memory),
    ("growth", growth),
    ("queues", queues),
    ("payloads", payload_sizes),
    ("others", others),
    ("module", module),
];

fn main() {
    pin(0, 1);
    if let Ok(what) = std::env::var("DQ_BENCH_PROFILE") {
        return profile(&what);
    }
    let part = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let mut figures = Vec::new();
    let begun = report::load();
    println!("load of the machine: {begun}\n");
    println!("| figure | unit | medians | ratio, median (least–most) | aim |\n| --- | --- | --- | --- | --- |");
    for (_, measure) in ALL.iter().filter(|(name, _)| name.contains(&part)) {
        let before = figures.len();
        measure(&mut figures);
        figures[before..].iter().for_each(|figure| println!("{}", figure.row()));
    }
    println!();
    figures.iter().for_each(|figure| println!("{}", figure.json()));
    let server = Server::builder().without_module().start();
    let version = Wire::open(server.port).text(&["INFO", "server"]);
    let version = version.lines().find(|line| line.starts_with("redis_version")).unwrap_or_default().trim().to_string();
    let facts = [("server", version), ("load-before", begun), ("load-after", report::load())];
    println!("\nload of the machine: {}; {}", report::load(), report::write(&figures, &facts).display());
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn runs() -> usize {
    setting("DQ_BENCH_RUNS", 7)
}

/// Keeps a process (0: this one) on one processor, where there are two.
fn pin(pid: i32, cpu: usize) {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    // Safety: an all-zero set is an empty one, and the kernel reads no more than its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(pid, size_of::<libc::cpu_set_t>(), &set);
    }
}

fn start(builder: Builder) -> (Server, Wire) {
    let server = builder.line("maxclients 1000").start();
    pin(server.pid(), 0);
    let wire = Wire::open(server.port);
    (server, wire)
}

/// Leases end by themselves no sooner than the bench does.
fn plain() -> Builder {
    Server::builder().set("lease", "1h").set("stale-policy", "keep").set("dead-max", "0")
}

fn with_aof() -> Builder {
    plain().line("appendonly yes").line("appendfsync everysec").line("auto-aof-rewrite-percentage 0")
}

/// What one step of `n` jobs costs, in µs a job.
fn cost(wire: &mut Wire, n: usize, batches: &[Batch]) -> f64 {
    wire.cost(|wire| wire.run_all(batches)) / n as f64
}

/// Claims `n` jobs that are due; the cost of each, and what names them.
fn claim(wire: &mut Wire, line: &mut Line, n: usize, count: usize, depth: usize) -> (f64, Vec<Vec<u8>>) {
    let (batches, mut kept) = (line.claims(n, count, depth), Vec::new());
    let cost = wire.cost(|wire| batches.iter().for_each(|batch| wire.run(batch, Some(&mut kept)))) / n as f64;
    (cost, line.held(n, &kept))
}

fn lines(wire: &mut Wire, queue: &str, payload: usize) -> Vec<Line> {
    WAYS.iter().map(|way| Line::new(wire, *way, queue, payload)).collect()
}

// The whole life of a job.

fn life_without_aof(figures: &mut Vec<Figure>) {
    life(figures, plain(), "");
}

fn life_with_aof(figures: &mut Vec<Figure>) {
    life(figures, with_aof(), ", AOF everysec");
}

fn life(figures: &mut Vec<Figure>, builder: Builder, suffix: &str) {
    const N: usize = 40_000;
    let aof = !suffix.is_empty();
    let (_server, mut wire) = start(builder);
    let mut lines = lines(&mut wire, "life", PAYLOAD);
    let unit = "µs/job";
    let mut push = Figure::new(format!("push, {DEPTH} in a pipeline{suffix}"), unit);
    let mut mpush = Figure::new(format!("MPUSH of {COUNT}{suffix}"), unit).aim(Aim::Most("dq", 4.0));
    let mut claims = Figure::new(format!("claim COUNT {COUNT}{suffix}"), unit);
    let mut acks = Figure::new(format!("ack of {COUNT}{suffix}"), unit);
    let mut whole = Figure::new(format!("whole life{suffix}"), unit)
        .aim(Aim::RatioMost("dq", "native", if aof { 0.85 } else { 0.95 }))
        .aim(Aim::RatioMost("dq", "lua", 0.55))
        .aim(Aim::Most("dq", 14.0));
    let mut bytes = Figure::new("AOF of a whole life", "bytes/job").aim(Aim::Most("dq", 450.0));
    for run in 0..=runs() {
        for line in &mut lines {
            let name = line.way.name();
            let written = |wire: &mut Wire| if aof { wire.info("persistence", "aof_current_size") } else { 0.0 };
            let before = written(&mut wire);
            let batches = line.pushes(N, DEPTH, Due::Now);
            let pushed = cost(&mut wire, N, &batches);
            let (claimed, held) = claim(&mut wire, line, N, COUNT, COUNT_DEPTH);
            let acked = cost(&mut wire, N, &line.acks(&held, COUNT, COUNT_DEPTH));
            assert_eq!(line.jobs(&mut wire), 0, "{name} left jobs behind");
            let life_bytes = (written(&mut wire) - before) / N as f64;
            let batches = line.mass_pushes(N, COUNT, COUNT_DEPTH, Due::Now);
            let mass = cost(&mut wire, N, &batches);
            let (_, held) = claim(&mut wire, line, N, 500, 1);
            cost(&mut wire, N, &line.acks(&held, 500, 1));
            // The first run warms the server up.
            if run > 0 {
                push.add(name, pushed);
                mpush.add(name, mass);
                claims.add(name, claimed);
                acks.add(name, acked);
                whole.add(name, pushed + claimed + acked);
                bytes.add(name, life_bytes);
            }
        }
    }
    figures.extend([push, mpush, claims, acks, whole]);
    if aof {
        figures.push(bytes);
    }
}

// Without a pipeline.

fn crowd(figures: &mut Vec<Figure>) {
    const CLIENTS: usize = 50;
    const N: usize = 30_000;
    let (server, mut wire) = start(plain());
    let mut swarm = swarm::Swarm::open(server.port, CLIENTS);
    let mut lines = lines(&mut wire, "crowd", PAYLOAD);
    let mut rate = Figure::new(format!("pushes a second, {CLIENTS} connections"), "1/s")
        .aim(Aim::RatioLeast("dq", "zadd", 0.85))
        .aim(Aim::RatioLeast("dq", "lua", 1.2));
    let mut push_cost = Figure::new(format!("push, {CLIENTS} connections, server"), "µs/job").pair("dq", "zadd");
    let mut work = Figure::new(format!("claim COUNT 1 and ack, {CLIENTS} connections"), "jobs/s")
        .aim(Aim::RatioLeast("dq", "lua", 1.5));
    let mut work_cost = Figure::new(format!("claim COUNT 1 and ack, {CLIENTS} connections, server"), "µs/job");
    for run in 0..=runs() {
        let zadds: Vec<Vec<u8>> = (0..N)
            .map(|i| {
                let id = format!("{:011}", run * N + i);
                Batch::of(&[b"ZADD", b"plain", ways::now_ms().to_string().as_bytes(), id.as_bytes()]).bytes
            })
            .collect();
        let begin = Instant::now();
        let cost = wire.cost(|_| swarm.run_each(&zadds));
        let seconds = begin.elapsed().as_secs_f64();
        wire.ask(&["UNLINK", "plain"]);
        if run > 0 {
            rate.add("zadd", N as f64 / seconds);
            push_cost.add("zadd", cost / N as f64);
        }
        for line in lines.iter_mut().filter(|line| line.way != Way::Native) {
            let name = line.way.name();
            let pushes: Vec<Vec<u8>> = line.pushes(N, 1, Due::Now).into_iter().map(|batch| batch.bytes).collect();
            let begin = Instant::now();
            let cost = wire.cost(|_| swarm.run_each(&pushes));
            let pushed = begin.elapsed().as_secs_f64();
            let claim = line.claim_one().bytes;
            let begin = Instant::now();
            let ack = |reply: &[u8]| line.acks(&[wire::bulks(reply)[0].to_vec()], 1, 1)[0].bytes.clone();
            let worked = wire.cost(|_| swarm.run_pairs(N, &claim, &ack));
            let took = begin.elapsed().as_secs_f64();
            assert_eq!(line.jobs(&mut wire), 0, "{name} left jobs behind");
            if run > 0 {
                rate.add(name, N as f64 / pushed);
                push_cost.add(name, cost / N as f64);
                work.add(name, N as f64 / took);
                work_cost.add(name, worked / N as f64);
            }
        }
    }
    figures.extend([rate, push_cost, work, work_cost]);
}

// Memory.

fn is_valkey_9() -> bool {
    let (_server, mut wire) = start(plain());
    let facts = wire.text(&["INFO", "server"]);
    facts.lines().any(|line| line.starts_with("valkey_version:9"))
}

fn memory(figures: &mut Vec<Figure>) {
    let jobs = setting("DQ_BENCH_JOBS", 1_000_000);
    // A newer Valkey keeps a field and its value in one piece, and a hash table in less.
    let most = if is_valkey_9() { 230.0 } else { 280.0 };
    let mut used = Figure::new(format!("memory, {jobs} delayed jobs"), "bytes/job").aim(Aim::Most("dq", most));
    let mut usage = Figure::new("the same by MEMORY USAGE", "bytes/job");
    let mut leased = Figure::new("memory, all leased", "bytes/job");
    let mut dead = Figure::new("memory, all dead", "bytes/job");
    for way in [Way::Native, Way::Dq] {
        let (_server, mut wire) = start(plain());
        let mut line = Line::new(&mut wire, way, "memory", PAYLOAD);
        let name = way.name();
        let before = wire.info("memory", "used_memory");
        let grown = |wire: &mut Wire| (wire.info("memory", "used_memory") - before) / jobs as f64;
        fill(&mut wire, &mut line, jobs, Due::Later);
        used.add(name, grown(&mut wire));
        let sum: i64 = line.keys().iter().map(|key| wire.count(&["MEMORY", "USAGE", key, "SAMPLES", "1000"])).sum();
        usage.add(name, sum as f64 / jobs as f64);
        wire.ask(&["FLUSHALL"]);
        fill(&mut wire, &mut line, jobs, Due::Now);
        let ids_skipped = if way == Way::Dq { 0 } else { jobs };
        line.skip_claims(ids_skipped);
        let (_, held) = claim(&mut wire, &mut line, jobs, 1000, 1);
        leased.add(name, grown(&mut wire));
        if way == Way::Dq {
            for batch in held.chunks(DEPTH) {
                let mut fails = Batch::default();
                batch.iter().for_each(|receipt| fails.add(&[b"DQ.FAIL", b"memory", receipt, b"ERROR", b"timeout"]));
                wire.run(&fails, None);
            }
            dead.add(name, grown(&mut wire));
        }
    }
    figures.extend([used, usage, leased, dead]);
}

fn fill(wire: &mut Wire, line: &mut Line, jobs: usize, due: Due) {
    for from in (0..jobs).step_by(50_000) {
        let batches = line.mass_pushes(50_000.min(jobs - from), 500, 4, due);
        wire.run_all(&batches);
    }
}

// Growth.

/// The commands whose cost is measured in a queue that holds many jobs, besides push, claim and ack.
fn other_commands(wire: &mut Wire, line: &mut Line, n: usize) -> Vec<(&'static str, f64)> {
    let queue = line.queue.clone().into_bytes();
    let mut found = Vec::new();
    let mut each = |wire: &mut Wire, name: &'static str, commands: Vec<Vec<Vec<u8>>>| {
        let mut batches = Vec::new();
        for chunk in commands.chunks(DEPTH) {
            let mut batch = Batch::default();
            chunk.iter().for_each(|words| batch.add(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()));
            batches.push(batch);
        }
        found.push((name, cost(wire, commands.len(), &batches)));
    };
    let words = |words: &[&[u8]]| -> Vec<Vec<u8>> { words.iter().map(|word| word.to_vec()).collect() };
    let mut claimed = |wire: &mut Wire| {
        let batches = line.pushes(n, DEPTH, Due::Now);
        wire.run_all(&batches);
        claim(wire, line, n, COUNT, COUNT_DEPTH).1
    };
    let held = claimed(wire);
    each(wire, "EXTEND", held.iter().map(|r| words(&[b"DQ.EXTEND", &queue, b"1h", r])).collect());
    each(wire, "GET", held.iter().map(|r| words(&[b"DQ.GET", &queue, &r[..11]])).collect());
    each(wire, "RETRY", held.iter().map(|r| words(&[b"DQ.RETRY", &queue, r, b"DELAY", b"0"])).collect());
    let (_, held) = claim(wire, line, n, COUNT, COUNT_DEPTH);
    each(wire, "RELEASE", held.iter().map(|r| words(&[b"DQ.RELEASE", &queue, b"RECEIPTS", r])).collect());
    let (_, held) = claim(wire, line, n, COUNT, COUNT_DEPTH);
    each(wire, "FAIL", held.iter().map(|r| words(&[b"DQ.FAIL", &queue, r])).collect());
    let by_id = |command: &[&[u8]]| {
        held.iter().map(|r| words(command).into_iter().chain([r[..11].to_vec()]).collect()).collect::<Vec<Vec<_>>>()
    };
    each(wire, "REPLAY", by_id(&[b"DQ.REPLAY", &queue, b"DELAY", b"1h", b"IDS"]));
    each(wire, "RESCHEDULE", by_id(&[b"DQ.RESCHEDULE", &queue, b"DELAY", b"2h", b"IDS"]));
    each(wire, "CANCEL", by_id(&[b"DQ.CANCEL", &queue]));
    each(wire, "PEEK COUNT 10", (0..n / 10).map(|_| words(&[b"DQ.PEEK", &queue])).collect());
    each(wire, "STATS", (0..n / 10).map(|_| words(&[b"DQ.STATS", &queue])).collect());
    each(wire, "CLAIM of nothing", (0..n).map(|_| words(&[b"DQ.CLAIM", &queue])).collect());
    each(
        wire,
        "PAUSE and RESUME",
        (0..n).map(|i| words(&[if i % 2 == 0 { b"DQ.PAUSE" } else { b"DQ.RESUME" }, &queue])).collect(),
    );
    found
}

fn growth(figures: &mut Vec<Figure>) {
    const N: usize = 5_000;
    let large = if std::env::var("DQ_BENCH_LARGE").is_ok_and(|v| v == "1") { 10_000_000 } else { 1_000_000 };
    let sizes = [("small", 10_000), ("large", large)];
    let (_server, mut wire) = start(plain());
    let mut all = Vec::new();
    for (size, jobs) in sizes {
        for way in [Way::Native, Way::Dq] {
            let mut line = Line::new(&mut wire, way, size, PAYLOAD);
            fill(&mut wire, &mut line, jobs, Due::Later);
            line.skip_claims(jobs);
            all.push((size, line));
        }
    }
    let mut by_command: Vec<Figure> = Vec::new();
    let mut add = |way: Way, command: &str, size: &str, cost: f64| {
        let name = format!("{} {command}, 10,000 and {large} jobs", way.name());
        let place = by_command.iter().position(|figure| figure.name == name).unwrap_or_else(|| {
            let figure = Figure::new(&name, "µs/job").pair("large", "small");
            by_command.push(if way == Way::Dq { figure.aim(Aim::RatioMost("large", "small", 1.6)) } else { figure });
            by_command.len() - 1
        });
        by_command[place].add(size, cost);
    };
    for run in 0..=runs() {
        for (size, line) in &mut all {
            let way = line.way;
            // Few, so that the small one stays small.
            let batches = line.pushes(N / 5, DEPTH, Due::Later);
            let later = cost(&mut wire, N / 5, &batches);
            line.skip_claims(N / 5);
            let batches = line.pushes(N, DEPTH, Due::Now);
            let pushed = cost(&mut wire, N, &batches);
            let (claimed, held) = claim(&mut wire, line, N, COUNT, COUNT_DEPTH);
            let acked = cost(&mut wire, N, &line.acks(&held, COUNT, COUNT_DEPTH));
            let mut costs = vec![("push later", later), ("push now", pushed), ("claim", claimed), ("ack", acked)];
            if way == Way::Dq {
                costs.extend(other_commands(&mut wire, line, N / 5));
            }
            if run > 0 {
                costs.into_iter().for_each(|(command, cost)| add(way, command, size, cost));
            }
        }
    }
    figures.extend(by_command);
}

// Many queues.

fn queues(figures: &mut Vec<Figure>) {
    const QUEUES: usize = 10_000;
    let (_server, mut wire) = start(plain());
    let mut push = Figure::new("dq push, one queue and 10,000", "µs/job").aim(Aim::RatioMost("many", "one", 1.1));
    let mut work =
        Figure::new("dq claim COUNT 1 and ack, one queue and 10,000", "µs/job").aim(Aim::RatioMost("many", "one", 1.1));
    let mut native = Figure::new("native push, one queue and 10,000", "µs/job").pair("many", "one");
    let body = &payloads(PAYLOAD, 1)[0];
    // One job stays in each, so that its keys do.
    for run in 0..=runs() {
        let name_of = |many: bool, i: usize| format!("q{}", if many { i } else { 0 });
        for many in [false, true] {
            let column = if many { "many" } else { "one" };
            let batches = |command: &dyn Fn(&mut Batch, usize)| -> Vec<Batch> {
                let mut batches = Vec::new();
                for from in (0..QUEUES).step_by(DEPTH) {
                    let mut batch = Batch::default();
                    (from..QUEUES.min(from + DEPTH)).for_each(|i| command(&mut batch, i));
                    batches.push(batch);
                }
                batches
            };
            let pushes = batches(&|batch, i| batch.add(&[b"DQ.PUSH", name_of(many, i).as_bytes(), body]));
            if run == 0 {
                cost(&mut wire, QUEUES, &pushes);
            }
            let pushed = cost(&mut wire, QUEUES, &pushes);
            let claims = batches(&|batch, i| batch.add(&[b"DQ.CLAIM", name_of(many, i).as_bytes()]));
            let mut kept = Vec::new();
            let claimed = wire.cost(|wire| claims.iter().for_each(|batch| wire.run(batch, Some(&mut kept))));
            let receipts: Vec<Vec<u8>> = wire::bulks(&kept).chunks_exact(3).map(|job| job[0].to_vec()).collect();
            assert_eq!(receipts.len(), QUEUES);
            let acks = batches(&|batch, i| batch.add(&[b"DQ.ACK", name_of(many, i).as_bytes(), &receipts[i]]));
            let acked = cost(&mut wire, QUEUES, &acks);
            let natives = batches(&|batch, i| {
                let id = format!("{:011}", run * QUEUES + i);
                let (due, jobs) =
                    (format!("native:{}:due", name_of(many, i)), format!("native:{}:jobs", name_of(many, i)));
                batch.add(&[b"ZADD", due.as_bytes(), ways::now_ms().to_string().as_bytes(), id.as_bytes()]);
                batch.add(&[b"HSET", jobs.as_bytes(), id.as_bytes(), body]);
            });
            let native_pushed = cost(&mut wire, QUEUES, &natives);
            if run > 0 {
                push.add(column, pushed);
                work.add(column, (claimed / QUEUES as f64) + acked);
                native.add(column, native_pushed);
            }
        }
    }
    figures.extend([push, work, native]);
}

// Payloads.

fn payload_sizes(figures: &mut Vec<Figure>) {
    let (_server, mut wire) = start(plain());
    for (size, n) in [(10, 20_000), (1_000, 20_000), (10_000, 5_000), (100_000, 500), (1_048_576, 50)] {
        let mut figure = Figure::new(format!("whole life, payload of {size} bytes"), "µs/job");
        let depth = (1_000_000 / size).clamp(1, DEPTH);
        let count = (4_000_000 / size).clamp(1, COUNT);
        let mut lines = lines(&mut wire, &format!("size{size}"), size);
        for run in 0..=runs() {
            for line in &mut lines {
                let batches = line.pushes(n, depth, Due::Now);
                let pushed = cost(&mut wire, n, &batches);
                let (claimed, held) = claim(&mut wire, line, n, count, 1);
                let acked = cost(&mut wire, n, &line.acks(&held, count, 1));
                assert_eq!(line.jobs(&mut wire), 0);
                if run > 0 {
                    figure.add(line.way.name(), pushed + claimed + acked);
                }
            }
        }
        figures.push(figure);
    }
}

// The module itself.

/// What SET, ZADD and HSET cost other users of a server that has the module, over one that has not. Two servers of one
/// kind differ by some percent themselves, so each run has a pair of its own.
fn others(figures: &mut Vec<Figure>) {
    const N: usize = 40_000;
    const ROUNDS: usize = 12;
    let body = &payloads(PAYLOAD, 1)[0];
    let commands = [("SET", 1.01), ("ZADD", 1.03), ("HSET", 1.03)];
    let batches = commands.map(|(name, _)| {
        let mut batches = Vec::new();
        for from in (0..N).step_by(DEPTH) {
            let mut batch = Batch::default();
            for i in from..N.min(from + DEPTH) {
                let id = format!("{:011}", i * 7919 % N);
                match name {
                    "SET" => batch.add(&[b"SET", id.as_bytes(), body]),
                    "ZADD" => batch.add(&[b"ZADD", b"z", i.to_string().as_bytes(), id.as_bytes()]),
                    _ => batch.add(&[b"HSET", b"h", id.as_bytes(), body]),
                }
            }
            batches.push(batch);
        }
        batches
    });
    let mut found = commands.map(|(name, most)| {
        Figure::new(format!("{name} of other users"), "µs").aim(Aim::RatioMost("with", "without", most))
    });
    for run in 0..runs() {
        let mut servers = [("without", start(plain().without_module())), ("with", start(plain()))];
        servers.rotate_left(run % 2);
        for (figure, batches) in found.iter_mut().zip(&batches) {
            let mut costs = [Vec::new(), Vec::new()];
            for round in 0..=ROUNDS {
                // Who goes first takes turns too.
                for place in [round % 2, (round + 1) % 2] {
                    let cost = cost(&mut servers[place].1 .1, N, batches);
                    if round > 0 {
                        costs[place].push(cost);
                    }
                }
            }
            for ((column, _), costs) in servers.iter().zip(&costs) {
                figure.add(column, report::spread(costs).median);
            }
        }
    }
    figures.extend(found);
}

fn module(figures: &mut Vec<Figure>) {
    let path = module_path();
    let mut size = Figure::new("size of the module", "MB").aim(Aim::Most("dq", 2.0));
    size.add("dq", std::fs::metadata(&path).expect("the module is there").len() as f64 / 1e6);
    let mut load = Figure::new("MODULE LOAD", "ms").aim(Aim::Most("dq", 50.0));
    for _ in 0..runs() {
        let (_server, mut wire) = start(Server::builder().without_module());
        let begin = Instant::now();
        wire.ask(&["MODULE", "LOAD", &path.to_string_lossy()]);
        load.add("dq", begin.elapsed().as_secs_f64() * 1e3);
    }
    figures.extend([size, load]);
}

// For perf.

fn profile(what: &str) {
    const N: usize = 20_000;
    let end = Instant::now() + Duration::from_secs(setting("DQ_BENCH_SECONDS", 20) as u64);
    let way = match std::env::var("DQ_BENCH_WAY").as_deref() {
        Ok("native") => Way::Native,
        Ok("lua") => Way::Lua,
        _ => Way::Dq,
    };
    let (server, mut wire) = start(if std::env::var("DQ_BENCH_AOF").is_ok() { with_aof() } else { plain() });
    let mut line = Line::new(&mut wire, way, "profile", PAYLOAD);
    println!("{}", server.pid());
    let control = |word: &str| {
        if let Ok(path) = std::env::var("DQ_BENCH_CONTROL") {
            std::fs::write(path, word).expect("perf reads its fifo");
        }
    };
    let (mut sums, mut rounds) = ([0.0; 3], 0.0);
    while Instant::now() < end {
        let batches = if what == "mpush" {
            line.mass_pushes(N, COUNT, COUNT_DEPTH, Due::Now)
        } else {
            line.pushes(N, DEPTH, Due::Now)
        };
        let mut held = Vec::new();
        for (place, phase) in ["push", "claim", "ack"].into_iter().enumerate() {
            let watched = phase == what || (what == "mpush" && phase == "push");
            if watched {
                control("enable\n");
            }
            sums[place] += match phase {
                "push" => cost(&mut wire, N, &batches),
                "claim" => {
                    let claimed = claim(&mut wire, &mut line, N, COUNT, COUNT_DEPTH);
                    held = claimed.1;
                    claimed.0
                }
                _ => cost(&mut wire, N, &line.acks(&held, COUNT, COUNT_DEPTH)),
            };
            if watched {
                control("disable\n");
            }
        }
        rounds += 1.0;
    }
    println!("µs a job: {:?}", sums.map(|sum| sum / rounds));
}

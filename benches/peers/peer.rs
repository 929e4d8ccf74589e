//! What is compared, and how: groups of peers of which each is measured beside DQ, round by round.

use std::time::Duration;

use crate::host::{Host, Kind};
use crate::report::{spread, Aim, Figure};

pub type Outcome<T = ()> = Result<T, String>;

/// How long jobs are delayed in a round. beanstalkd and asynq know whole seconds only.
const DELAY_MS: u64 = 1000;
/// How long to wait until they are due for sure.
const PATIENCE: Duration = Duration::from_millis(1200);
const HOUR_MS: u64 = 3_600_000;

/// Jobs whose lateness is measured.
#[derive(Clone, Copy)]
pub struct Sends {
    pub count: usize,
    /// The pause between two of them.
    pub gap_ms: u64,
    pub delay_ms: u64,
}

/// A queue and its client.
pub trait Peer {
    /// Pushes so many jobs with a delay; all are in when it returns.
    fn push(&mut self, jobs: usize, delay_ms: u64) -> Outcome;

    /// Claims and finishes so many jobs that are due.
    fn work(&mut self, jobs: usize) -> Outcome;

    /// How late each job was in a worker's hands, in µs after it was due. `None` where it cannot be measured.
    fn late(&mut self, _sends: Sends) -> Outcome<Option<Vec<f64>>> {
        Ok(None)
    }

    /// Whether it keeps jobs, which have a size.
    fn has_jobs(&self) -> bool {
        true
    }

    /// Why jobs cannot be worked on here, where that is so: only pushes are measured then.
    fn cannot_work(&self) -> Option<String> {
        None
    }
}

type Make = Box<dyn Fn(&mut Host) -> Outcome<Box<dyn Peer>>>;

/// Something that takes part in a group, and how much it is given to do: slower ones less.
pub struct Entry {
    pub name: &'static str,
    pub kind: Kind,
    /// Jobs of a round.
    pub jobs: usize,
    /// Delayed jobs whose memory is measured.
    pub stock: usize,
    /// The shortest delay that it knows, for lateness.
    pub delay_ms: u64,
    pub make: Make,
}

/// Peers that are measured side by side.
pub struct Group {
    pub name: &'static str,
    pub entries: Vec<Entry>,
    /// Whose cost is divided by whose.
    pub pairs: Vec<(&'static str, &'static str)>,
    pub aims: Vec<Aim>,
}

struct Running {
    entry: Entry,
    host: Host,
    peer: Box<dyn Peer>,
}

/// What a life took of the server, in µs a job.
struct Cost {
    push: f64,
    /// From then on: falling due, claim and finish.
    rest: Option<f64>,
}

impl Running {
    fn start(entry: Entry, aof: bool) -> Outcome<Running> {
        let mut host = Host::start(entry.kind, aof)?;
        let peer = (entry.make)(&mut host)?;
        Ok(Running { entry, host, peer })
    }

    fn live(&mut self, jobs: usize) -> Outcome<Cost> {
        let begin = self.host.cpu_us();
        self.peer.push(jobs, DELAY_MS)?;
        let pushed = self.host.cpu_us();
        let push = (pushed - begin) / jobs as f64;
        if self.peer.cannot_work().is_some() {
            self.host.wire().ask(&["FLUSHALL"]);
            return Ok(Cost { push, rest: None });
        }
        std::thread::sleep(PATIENCE);
        self.peer.work(jobs)?;
        Ok(Cost { push, rest: Some((self.host.cpu_us() - pushed) / jobs as f64) })
    }
}

/// Measures a group, and says which of its peers could not be measured, and why.
pub fn measure(mut group: Group, runs: usize) -> (Vec<Figure>, Vec<String>) {
    let mut missing = Vec::new();
    let mut running = Vec::new();
    for entry in std::mem::take(&mut group.entries) {
        let (name, jobs) = (entry.name, entry.jobs);
        // The first life warms up client and server, and shows whether the peer works at all.
        let tried = Running::start(entry, false).and_then(|mut one| one.live(jobs / 2).map(|_| one));
        match tried {
            Ok(one) => {
                let cannot = one.peer.cannot_work().map(|why| format!("{}: {name}: only pushes: {why}", group.name));
                missing.extend(cannot);
                running.push(one);
            }
            Err(why) => missing.push(format!("{}: {name}: {why}", group.name)),
        }
    }
    let mut figures = costs(&group, &mut running, runs);
    figures.extend(lateness(&group, &mut running, &mut missing));
    figures.push(memory(&group, &mut running));
    figures.push(logs(&group, running));
    figures.retain(|figure| !figure.is_empty());
    (figures, missing)
}

fn figure(group: &Group, what: &str, unit: &'static str) -> Figure {
    group
        .pairs
        .iter()
        .fold(Figure::new(format!("{}: {what}", group.name), unit), |figure, (of, to)| figure.pair(of, to))
}

fn costs(group: &Group, running: &mut [Running], runs: usize) -> Vec<Figure> {
    let unit = "µs/job";
    let mut push = figure(group, "push with a delay", unit);
    let mut rest = figure(group, "fall due, claim, finish", unit);
    let mut whole = group.aims.iter().fold(figure(group, "whole life", unit), |whole, aim| whole.aim(*aim));
    for _ in 0..runs {
        for one in running.iter_mut() {
            let cost = one.live(one.entry.jobs).unwrap_or_else(|why| panic!("{}: {why}", one.entry.name));
            push.add(one.entry.name, cost.push);
            if let Some(after) = cost.rest {
                rest.add(one.entry.name, after);
                whole.add(one.entry.name, cost.push + after);
            }
        }
    }
    vec![push, rest, whole]
}

fn lateness(group: &Group, running: &mut [Running], missing: &mut Vec<String>) -> Vec<Figure> {
    let mut figures = ["waiting worker", "delayed, waiting worker"]
        .map(|how| ["p50", "p99"].map(|part| figure(group, &format!("late, {how}, {part}"), "µs")));
    for one in running.iter_mut() {
        let name = one.entry.name;
        // Far enough apart for the slowest worker: waiting behind other jobs is not what is measured.
        let pushed = Sends { count: 150, gap_ms: 20, delay_ms: 0 };
        let delayed = Sends { count: 100, delay_ms: one.entry.delay_ms, ..pushed };
        for (sends, [median, most]) in [pushed, delayed].into_iter().zip(&mut figures) {
            match one.peer.late(sends) {
                Ok(Some(late)) if late.len() == sends.count => {
                    // In parts: a while in which the machine stood still spoils one of them.
                    late.chunks(sends.count / 5).for_each(|part| median.add(name, spread(part).median));
                    most.add(name, per_hundred(late, 99));
                }
                Ok(Some(late)) => missing.push(format!("{}: {name}: late: {} jobs came", group.name, late.len())),
                Ok(None) => {}
                Err(why) => missing.push(format!("{}: {name}: late: {why}", group.name)),
            }
        }
    }
    figures.into_iter().flatten().collect()
}

/// The value within which so many per cent lie.
fn per_hundred(mut all: Vec<f64>, part: usize) -> f64 {
    all.sort_by(f64::total_cmp);
    all[(all.len() * part / 100).min(all.len() - 1)]
}

fn memory(group: &Group, running: &mut [Running]) -> Figure {
    let mut figure = figure(group, "memory of a delayed job", "bytes/job");
    for one in running.iter_mut().filter(|one| one.peer.has_jobs()) {
        let before = one.host.memory();
        one.peer.push(one.entry.stock, HOUR_MS).unwrap_or_else(|why| panic!("{}: {why}", one.entry.name));
        figure.add(one.entry.name, (one.host.memory() - before) / one.entry.stock as f64);
    }
    figure
}

/// What a whole life writes to the AOF, each on a new server.
fn logs(group: &Group, running: Vec<Running>) -> Figure {
    let mut figure = figure(group, "AOF of a whole life", "bytes/job");
    let writes = |one: &Running| one.entry.kind != Kind::Beanstalkd && one.peer.has_jobs();
    let entries = running.into_iter().filter(|one| writes(one) && one.peer.cannot_work().is_none());
    // The old servers and clients are gone before the new ones start.
    for entry in entries.map(|one| one.entry).collect::<Vec<_>>() {
        let (name, jobs) = (entry.name, entry.jobs / 2);
        let written = Running::start(entry, true).and_then(|mut one| {
            let before = one.host.written();
            one.live(jobs).map(|_| one.host.written() - before)
        });
        figure.add(name, written.unwrap_or_else(|why| panic!("{name}: {why}")) / jobs as f64);
    }
    figure
}

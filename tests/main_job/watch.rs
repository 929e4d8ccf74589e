//! Looks at the server while the others work: figures that must add up at every moment, keys that must be whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use super::common::msgpack::id_in_member;
use super::common::{bytes, int, list, pairs, text, Queue, Server};
use super::{wall_us, QUEUE};

/// How often all keys are looked at, and DQ.CHECK is asked.
const WHOLE_EVERY: Duration = Duration::from_secs(1);

/// Counts of what cannot happen here.
const ALWAYS_ZERO: [&str; 10] = [
    "waiting",
    "paused",
    "far",
    "far-alarm",
    "released",
    "stale-purged",
    "dead-evicted",
    "replayed",
    "cancelled",
    "dangling",
];

/// DQ.STATS and the sizes of the keys, at one moment.
#[derive(Clone, Default)]
struct Look(BTreeMap<String, i64>);

impl Look {
    fn take(con: &mut Connection) -> Look {
        let key = |companion| super::common::queue::companion_key(QUEUE.as_bytes(), companion);
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("DQ.STATS").arg(QUEUE);
        let sizes = [("ZCARD", "due"), ("ZCARD", "leased"), ("HLEN", "jobs"), ("HLEN", "dead"), ("ZCARD", "dead:at")];
        for (command, companion) in sizes {
            pipe.cmd(command).arg(key(companion));
        }
        let replies: Vec<Value> = pipe.query(con).unwrap_or_else(|e| panic!("DQ.STATS and the keys: {e}"));
        let mut all: BTreeMap<String, i64> =
            pairs(&replies[0]).into_iter().map(|(name, value)| (name, int(&value))).collect();
        for ((_, companion), size) in sizes.iter().zip(&replies[1..]) {
            all.insert(format!("key {companion}"), int(size));
        }
        Look(all)
    }

    fn get(&self, name: &str) -> i64 {
        *self.0.get(name).unwrap_or_else(|| panic!("DQ.STATS has no {name}"))
    }

    fn sum(&self, names: &[&str]) -> i64 {
        names.iter().map(|name| self.get(name)).sum()
    }

    /// Only a push adds a job, only an ACK or the bounds of the dead letters remove one: this never changes.
    fn kept(&self) -> i64 {
        self.sum(&["ready", "delayed", "leased", "dead"]) + self.sum(&["acked", "dead-evicted"]) - self.get("pushed")
    }

    /// Each claim is running or ended in one way; an act that came late counts beside its lapse.
    fn late(&self) -> i64 {
        self.sum(&["leased", "acked", "retried", "failed", "lapsed", "released"]) - self.get("claimed")
    }

    fn judge(&self, problems: &mut Vec<String>) {
        let mut same = |what: &str, left: i64, right: i64| {
            if left != right {
                problems.push(format!("STATS: {what}: {left} and {right}"));
            }
        };
        same("ready + delayed, and the key due", self.sum(&["ready", "delayed"]), self.get("key due"));
        same("leased, and its key", self.get("leased"), self.get("key leased"));
        same("dead, and its key", self.get("dead"), self.get("key dead"));
        same("the keys dead and dead:at", self.get("key dead"), self.get("key dead:at"));
        same("the keys jobs, and due + leased", self.get("key jobs"), self.sum(&["key due", "key leased"]));
        for name in ALWAYS_ZERO {
            same(name, self.get(name), 0);
        }
        for (name, value) in &self.0 {
            if *value < 0 {
                problems.push(format!("STATS: {name} is {value}"));
            }
        }
        let lateness = ["lateness-p50-us", "lateness-p99-us", "lateness-max-us"].map(|name| self.get(name));
        if !lateness.is_sorted() {
            problems.push(format!("STATS: the lateness is {lateness:?}"));
        }
    }

    /// What only grows, since a look before in the same life of the server.
    fn judge_since(&self, before: &Look, problems: &mut Vec<String>) {
        for name in ["pushed", "deduplicated", "claimed", "acked", "retried", "failed", "lapsed", "lease-lost"] {
            if self.get(name) < before.get(name) {
                problems.push(format!("STATS: {name} fell from {} to {}", before.get(name), self.get(name)));
            }
        }
        if self.kept() != before.kept() {
            problems.push(format!("STATS: {} jobs came or went untold", self.kept() - before.kept()));
        }
        if self.late() < before.late() {
            problems.push(format!("STATS: {} claims ended untold", before.late() - self.late()));
        }
    }
}

/// The figures of one life of the server, from its first look to its last.
#[derive(Clone)]
pub struct Life {
    first: Look,
    last: Look,
    /// Wall time after the first look and before the last, in µs.
    first_at: u64,
    last_at: u64,
}

impl Life {
    pub fn stat(&self, name: &str) -> u64 {
        u64::try_from(self.last.get(name)).unwrap_or(0)
    }

    /// Jobs in workers' hands when it began.
    pub fn leased_before(&self) -> u64 {
        u64::try_from(self.first.late()).unwrap_or(0)
    }

    /// Acts that came after the end of their lease.
    pub fn late(&self) -> u64 {
        u64::try_from(self.last.late() - self.first.late()).unwrap_or(0)
    }
}

pub struct Watch {
    con: Connection,
    queue: Queue,
    lives: Vec<Life>,
    whole_at: Instant,
    pub looks: u32,
}

impl Watch {
    pub fn new(server: &Server) -> Watch {
        let mut con = server.conn();
        let last_at = wall_us();
        let first = Look::take(&mut con);
        let life = Life { last: first.clone(), first, first_at: wall_us(), last_at };
        Watch { con, queue: quiet(server), lives: vec![life], whole_at: Instant::now(), looks: 0 }
    }

    pub fn next_life(&mut self, server: &Server) {
        let lives = std::mem::take(&mut self.lives);
        *self = Watch { looks: self.looks, ..Watch::new(server) };
        self.lives.splice(0..0, lives);
    }

    pub fn life(&self) -> &Life {
        &self.lives[self.lives.len() - 1]
    }

    pub fn first_life(&self) -> &Life {
        &self.lives[0]
    }

    /// From the last look at the first life to the first look at this one, in µs of wall time: what came meanwhile is in
    /// no figure.
    pub fn blind(&self) -> RangeInclusive<u64> {
        self.first_life().last_at..=self.life().first_at
    }

    /// One look; gives how many jobs are live.
    pub fn look(&mut self, problems: &mut Vec<String>) -> i64 {
        let last_at = wall_us();
        let look = Look::take(&mut self.con);
        self.looks += 1;
        let life = self.lives.last_mut().expect("there is always one life");
        look.judge(problems);
        look.judge_since(&life.last, problems);
        let left = look.get("key jobs");
        (life.last, life.last_at) = (look, last_at);
        if self.whole_at.elapsed() > WHOLE_EVERY {
            assert_whole(&mut self.queue, problems);
            self.whole_at = Instant::now();
        }
        left
    }

    /// The last look of a life.
    pub fn close(&mut self, problems: &mut Vec<String>) {
        self.look(problems);
        assert_whole(&mut self.queue, problems);
    }
}

fn quiet(server: &Server) -> Queue {
    let mut queue = server.queue(QUEUE);
    queue.unwatched();
    queue
}

/// Notes whatever DQ.CHECK finds, and what the keys themselves show at one moment. (DQ.CHECK of so many jobs does not
/// run in a transaction, so the two look at different moments.)
pub fn assert_whole(queue: &mut Queue, problems: &mut Vec<String>) {
    for problem in list(&queue.ok("CHECK", vec![])) {
        let words: Vec<String> = list(&problem).iter().map(text).collect();
        problems.push(format!("DQ.CHECK: {}", words.join(" ")));
    }
    let scored = ["due", "leased", "dead:at", "ids"];
    let mut pipe = redis::pipe();
    pipe.atomic();
    for companion in scored {
        pipe.cmd("ZRANGE").arg(queue.key(companion)).arg(0).arg(-1).arg("WITHSCORES");
    }
    for companion in ["jobs", "dead"] {
        pipe.cmd("HKEYS").arg(queue.key(companion));
    }
    let replies: Vec<Value> = pipe.query(&mut queue.con).unwrap_or_else(|e| panic!("the keys: {e}"));
    let ids =
        |at: usize, step: usize| -> BTreeSet<Vec<u8>> { list(&replies[at]).iter().step_by(step).map(bytes).collect() };
    let due: BTreeSet<Vec<u8>> = ids(0, 2).iter().map(|member| id_in_member(member).to_vec()).collect();
    let (leased, dead_at) = (ids(1, 2), ids(2, 2));
    let (jobs, dead) = (ids(4, 1), ids(5, 1));
    let both = due.intersection(&leased).count();
    if both > 0 {
        problems.push(format!("{both} jobs are due and leased"));
    }
    let live: BTreeSet<Vec<u8>> = due.union(&leased).cloned().collect();
    for (what, left, right) in [("jobs, and due and leased", &jobs, &live), ("dead, and dead:at", &dead, &dead_at)] {
        if left != right {
            problems.push(format!("the keys {what} differ in {} ids", left.symmetric_difference(right).count()));
        }
    }
    for (at, companion) in scored.iter().enumerate() {
        let bad =
            list(&replies[at]).iter().skip(1).step_by(2).filter(|score| text(score).parse::<u64>().is_err()).count();
        if bad > 0 {
            problems.push(format!("{bad} scores of the key {companion} are no whole ms"));
        }
    }
}

/// How far the wall clock moves against the clock that only runs, which the module's own clock follows slowly.
#[derive(Default)]
pub struct Drift {
    offsets: Option<(u64, u64)>,
}

impl Drift {
    pub fn look(&mut self) {
        let (before, wall, after) = (boot_us(), wall_us(), boot_us());
        // Only where nobody came between the two.
        if after - before < 100 {
            let offset = wall.abs_diff(before);
            let (least, most) = self.offsets.unwrap_or((offset, offset));
            self.offsets = Some((least.min(offset), most.max(offset)));
        }
    }

    /// In µs.
    pub fn us(&self) -> u64 {
        self.offsets.map_or(0, |(least, most)| most - least)
    }
}

fn boot_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Safety: the call fills the struct that it is given.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) }, 0);
    u64::try_from(time.tv_sec * 1_000_000 + time.tv_nsec / 1000).expect("the machine was started")
}

//! The one task that asks the servers: a few commands a second, however many browsers look.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep;

use crate::attention::{self, Facts};
use crate::due::{self, Due, EDGES};
use crate::history::{History, Point};
use crate::link::Link;
use crate::lookers::Lookers;
use crate::node::{command, Node};
use crate::reply::{bytes, int, list};
use crate::sample::{key, now_ms, Row, Sample};
use crate::server::{self, SECTIONS};
use crate::stats::{per_second, Counts, Recent, Stats};
use crate::trouble::Trouble;
use crate::visible::line;

/// Between two looks while somebody looks, and while nobody does.
const WATCHED: Duration = Duration::from_secs(1);
const ALONE: Duration = Duration::from_secs(10);
/// Between two tries to connect.
const RETRY: Duration = Duration::from_secs(1);
/// INFO changes slowly.
const INFO_EVERY: Duration = Duration::from_secs(5);
/// DQ.STATS of so many queues a look and server.
const STATS_A_LOOK: usize = 4;
/// Commands a second for when delayed jobs come due.
const DUE_A_SECOND: f64 = 2.0;
/// Of all queues together, so many with the most delayed jobs are counted.
const DUE_QUEUES: usize = 20;
/// A list of very many queues takes the server's time: it is asked for no more than this part of it.
const LIST_SHARE: u32 = 20;
/// Points of the small line in the table.
const SPARK: usize = 60;
/// A name in a list.
const NAME: usize = 80;

/// What the sampler shares with the pages.
pub struct Shared {
    pub sample: watch::Sender<Arc<Sample>>,
    pub history: Mutex<History>,
    pub due: Mutex<Due>,
    pub lookers: Lookers,
}

impl Shared {
    pub fn new() -> Shared {
        let (sample, _) = watch::channel(Arc::new(Sample { at: now_ms(), ..Sample::default() }));
        Shared { sample, history: Mutex::default(), due: Mutex::default(), lookers: Lookers::default() }
    }

    pub fn sample(&self) -> Arc<Sample> {
        self.sample.borrow().clone()
    }
}

/// A queue, between looks.
#[derive(Default)]
struct Known {
    node: usize,
    counts: Counts,
    stats: Option<(Stats, Instant, u64)>,
    recent: Recent,
}

pub struct Sampler {
    link: Arc<Link>,
    shared: Arc<Shared>,
    known: HashMap<Vec<u8>, Known>,
    servers: Vec<server::Facts>,
    informed: Option<Instant>,
    /// When the list of queues may be asked for again.
    list_at: Instant,
    due_credit: f64,
    last: Instant,
    number: u64,
    trouble: Option<(Trouble, u64)>,
}

impl Sampler {
    pub fn new(link: Arc<Link>, shared: Arc<Shared>) -> Sampler {
        let now = Instant::now();
        Sampler {
            link,
            shared,
            known: HashMap::new(),
            servers: Vec::new(),
            informed: None,
            list_at: now,
            due_credit: 0.0,
            last: now,
            number: 0,
            trouble: None,
        }
    }

    /// Looks for ever.
    pub async fn run(mut self) {
        loop {
            let pause = match self.look().await {
                Ok(()) => self.publish(None),
                Err(trouble) => self.publish(Some(trouble)),
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.shared.lookers.come() => {}
            }
        }
    }

    async fn look(&mut self) -> Result<(), Trouble> {
        let nodes = match self.link.nodes() {
            Ok(nodes) => nodes,
            Err(_) => self.connect().await?,
        };
        let looked = self.look_at(&nodes).await;
        if let Err(trouble) = &looked {
            self.link.cut(trouble.clone());
        }
        looked
    }

    async fn connect(&mut self) -> Result<Arc<Vec<Node>>, Trouble> {
        self.informed = None;
        self.list_at = Instant::now();
        self.link.connect().await
    }

    async fn look_at(&mut self, nodes: &[Node]) -> Result<(), Trouble> {
        if self.informed.is_none_or(|at| at.elapsed() >= INFO_EVERY) {
            self.inform(nodes).await?;
        }
        if Instant::now() >= self.list_at {
            self.list(nodes).await?;
        }
        for (place, node) in nodes.iter().enumerate() {
            self.ask_stats(place, node).await?;
        }
        self.count_due(nodes).await
    }

    async fn inform(&mut self, nodes: &[Node]) -> Result<(), Trouble> {
        let mut servers = Vec::new();
        for node in nodes {
            servers.push(server::Facts::of(&node.address, &node.ask_info(&SECTIONS).await?));
        }
        self.servers = servers;
        self.informed = Some(Instant::now());
        // Sentinel's primary that is one no longer: the next one is to be found.
        match self.servers.iter().find(|server| !server.primary) {
            Some(server) if !self.link.target.sentinels.is_empty() => Err(Trouble::new(
                crate::trouble::Kind::Sentinel,
                format!("{} is not the primary any more", server.address),
                &["The next one is asked for."],
            )),
            _ => Ok(()),
        }
    }

    /// The queues of every server, and their counts.
    async fn list(&mut self, nodes: &[Node]) -> Result<(), Trouble> {
        let (begin, mut found) = (Instant::now(), HashMap::new());
        for (place, node) in nodes.iter().enumerate() {
            let reply = node.ask(redis::cmd("DQ.QUEUES")).await?;
            for queue in list(&reply).iter().map(list).filter(|queue| queue.len() >= 7) {
                let number = |at: usize| int(&queue[at]);
                let counts = Counts {
                    ready: number(1),
                    delayed: number(2),
                    leased: number(3),
                    dead: number(4),
                    waiting: number(5),
                    paused: number(6) != 0,
                };
                found.insert(bytes(&queue[0]).to_vec(), (place, counts));
            }
        }
        self.list_at = begin + begin.elapsed() * LIST_SHARE;
        self.link.settle(found.iter().map(|(queue, (place, _))| (queue.clone(), *place)).collect());
        self.known.retain(|queue, _| found.contains_key(queue));
        for (queue, (node, counts)) in found {
            let known = self.known.entry(queue).or_default();
            (known.node, known.counts) = (node, counts);
        }
        Ok(())
    }

    /// DQ.STATS of the queues that need it most: those looked at, then those whose figures are old.
    async fn ask_stats(&mut self, place: usize, node: &Node) -> Result<(), Trouble> {
        let looked_at = self.shared.lookers.queues();
        let mut queues: Vec<(f64, Vec<u8>)> = self
            .known
            .iter()
            .filter(|(_, known)| known.node == place)
            .map(|(queue, known)| (urgency(known, looked_at.contains(queue)), queue.clone()))
            .collect();
        queues.sort_by(|a, b| b.0.total_cmp(&a.0));
        queues.truncate(STATS_A_LOOK);
        let commands = queues.iter().map(|(_, queue)| command("DQ.STATS", &[queue])).collect();
        for ((_, queue), answer) in queues.into_iter().zip(node.ask_all(commands).await) {
            let Some(known) = self.known.get_mut(&queue) else { continue };
            match answer {
                Ok(reply) => {
                    let (stats, now) = (Stats::of(&reply), Instant::now());
                    known.recent.add(now, &stats);
                    known.stats = Some((stats, now, now_ms()));
                }
                Err(trouble) if trouble.cuts() || trouble.kind == crate::trouble::Kind::Permission => {
                    return Err(trouble)
                }
                // A queue whose keys somebody spoilt, or that moves: the others go on.
                Err(_) => known.stats = Some((Stats::default(), Instant::now(), now_ms())),
            }
        }
        Ok(())
    }

    /// Counts for one queue when delayed jobs come due, where enough time has passed since the last one.
    async fn count_due(&mut self, nodes: &[Node]) -> Result<(), Trouble> {
        let passed = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        let cost = EDGES.len() as f64;
        self.due_credit = (self.due_credit + passed * DUE_A_SECOND).min(cost);
        if self.due_credit < cost || !self.shared.lookers.anybody() {
            return Ok(());
        }
        let Some(queue) = self.next_due() else { return Ok(()) };
        let Some(known) = self.known.get(&queue) else { return Ok(()) };
        let now = now_ms() as i64 + self.servers.get(known.node).map_or(0, |server| server.ahead_ms);
        let no_zcount = self.due().is_without_zcount();
        let (bars, no_zcount) = due::count(&nodes[known.node], &queue, now, known.counts.delayed, no_zcount).await;
        self.due_credit = 0.0;
        match bars {
            Ok(bars) => self.due().put(&queue, bars, no_zcount),
            Err(trouble) if trouble.cuts() => return Err(trouble),
            Err(_) => {}
        }
        Ok(())
    }

    /// A queue that is looked at every other time, else one of those with the most delayed jobs.
    fn next_due(&self) -> Option<Vec<u8>> {
        let looked_at = self.shared.lookers.queues();
        let looked_at: Vec<Vec<u8>> = looked_at.into_iter().filter(|queue| self.known.contains_key(queue)).collect();
        let most = self.most_delayed();
        let due = self.due();
        if self.number.is_multiple_of(2) || most.is_empty() {
            due.oldest(looked_at.iter().chain(&most)).cloned()
        } else {
            due.oldest(most.iter()).cloned()
        }
    }

    fn most_delayed(&self) -> Vec<Vec<u8>> {
        let mut queues: Vec<_> = self.known.iter().filter(|(_, known)| known.counts.delayed > 0).collect();
        queues.sort_by_key(|(_, known)| std::cmp::Reverse(known.counts.delayed));
        queues.into_iter().take(DUE_QUEUES).map(|(queue, _)| queue.clone()).collect()
    }

    fn due(&self) -> std::sync::MutexGuard<'_, Due> {
        self.shared.due.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Gives the look to the pages, and says when the next one is.
    fn publish(&mut self, trouble: Option<Trouble>) -> Duration {
        let at = now_ms();
        self.number += 1;
        let since = self.trouble.as_ref().map_or(at, |(_, since)| *since);
        self.trouble = trouble.map(|trouble| (trouble, since));
        let rows = if self.trouble.is_none() { self.rows(at) } else { self.shared.sample().rows.clone() };
        let stats = self.known.iter().filter_map(|(queue, known)| {
            known.stats.as_ref().map(|(stats, _, at)| (queue.clone(), (stats.clone(), *at)))
        });
        let sample = Sample {
            number: self.number,
            at,
            trouble: self.trouble.clone(),
            servers: self.servers.clone(),
            rows,
            stats: stats.collect(),
        };
        self.shared.sample.send_replace(Arc::new(sample));
        match (&self.trouble, self.shared.lookers.anybody()) {
            (Some(_), _) => RETRY,
            (None, true) => WATCHED,
            (None, false) => ALONE,
        }
    }

    /// The rows, the most urgent first; what they show goes into the history.
    fn rows(&mut self, at: u64) -> Vec<Row> {
        let mut history = self.shared.history.lock().unwrap_or_else(|e| e.into_inner());
        let seconds = (at / 1000) as u32;
        let mut all = Point { at: seconds, ..Point::default() };
        let mut rows = Vec::new();
        for (queue, known) in &self.known {
            let point = point(known, seconds);
            add(&mut all, &point);
            history.add(queue, point);
            let node = self.servers.get(known.node).map_or("", |server| &server.address);
            rows.push(row(queue, known, node, history.backlog(queue, SPARK)));
        }
        history.add(b"", all);
        history.tidy(seconds);
        drop(history);
        self.due().tidy(|queue| self.known.contains_key(queue));
        rows.sort_by(|a, b| {
            let urgent = |row: &Row| (row.level, row.late_ms / 10_000);
            urgent(b).cmp(&urgent(a)).then_with(|| a.raw.cmp(&b.raw))
        });
        rows
    }
}

/// Those who are looked at first, then those that were never asked for, then by age; jobs that are ready count thrice.
fn urgency(known: &Known, looked_at: bool) -> f64 {
    let age = known.stats.as_ref().map_or(1e6, |(_, at, _)| at.elapsed().as_secs_f64());
    let weight = if known.counts.ready > 0 { 3.0 } else { 1.0 };
    age * weight + if looked_at { 1e9 } else { 0.0 }
}

fn point(known: &Known, at: u32) -> Point {
    let (counted, seconds) = known.recent.last_look();
    let rate = |count| per_second(count, seconds) as f32;
    let late = known.stats.as_ref().map_or(0, |(stats, ..)| stats.get("oldest-ready-age-ms"));
    Point {
        at,
        pushed: rate(counted.pushed),
        acked: rate(counted.acked),
        bad: rate(counted.bad()),
        late: if known.counts.ready > 0 { late as f32 / 1000.0 } else { 0.0 },
        ready: known.counts.ready as f32,
        delayed: known.counts.delayed as f32,
        leased: known.counts.leased as f32,
        dead: known.counts.dead as f32,
    }
}

/// Adds the point of a queue to that of all; the lateness of all is the worst.
fn add(all: &mut Point, one: &Point) {
    all.pushed += one.pushed;
    all.acked += one.acked;
    all.bad += one.bad;
    all.late = all.late.max(one.late);
    all.ready += one.ready;
    all.delayed += one.delayed;
    all.leased += one.leased;
    all.dead += one.dead;
}

fn row(queue: &[u8], known: &Known, node: &str, backlog: Vec<f32>) -> Row {
    let none = Stats::default();
    let (stats, age_ms) = match &known.stats {
        Some((stats, at, _)) => (stats, Some(at.elapsed().as_millis() as u64)),
        None => (&none, None),
    };
    let (lately, lately_s) = known.recent.lately();
    let late_ms = if known.counts.ready > 0 { stats.get("oldest-ready-age-ms") } else { 0 };
    let facts = Facts {
        counts: known.counts,
        late_ms,
        far_alarm: stats.get("far-alarm") != 0,
        far: stats.get("far"),
        held: stats.get("stale-held"),
        dangling: stats.get("dangling"),
        replaying: stats.get("replaying"),
        purging: stats.get("purging"),
        rescheduling: stats.get("rescheduling"),
        lately,
        lately_s,
        minute: known.recent.last_minute().0,
    };
    let reasons = attention::reasons(&facts);
    Row {
        raw: queue.to_vec(),
        key: key(queue),
        name: line(queue, NAME),
        level: reasons[0].0,
        why: reasons.into_iter().map(|(_, why)| why).collect(),
        counts: known.counts,
        late_ms,
        far: facts.far,
        far_alarm: facts.far_alarm,
        memory: stats.get("memory-bytes"),
        pushed: per_second(lately.pushed, lately_s),
        acked: per_second(lately.acked, lately_s),
        bad: per_second(lately.bad(), lately_s),
        p50_us: stats.get("lateness-p50-us"),
        p99_us: stats.get("lateness-p99-us"),
        max_us: stats.get("lateness-max-us"),
        replaying: facts.replaying,
        purging: facts.purging,
        rescheduling: facts.rescheduling,
        age_ms,
        backlog,
        node: node.to_string(),
    }
}

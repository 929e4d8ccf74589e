//! The one task that asks the servers: a few commands a second, however many viewers there are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep;

use crate::attention::{self, Facts, Level};
use crate::dead::Dead;
use crate::due::{self, Due, EDGES};
use crate::errors::{Errors, Page, STATES};
use crate::history::{History, Point};
use crate::jobs::peek;
use crate::link::Link;
use crate::node::{command, Node};
use crate::reply::{bytes, int, list};
use crate::sample::{key, now_ms, Row, Sample, Totals};
use crate::server::{self, SECTIONS};
use crate::stats::{Counts, Recent, Stats};
use crate::trouble::Trouble;
use crate::viewers::Viewers;
use crate::visible::line;

/// Between two looks while there are viewers, and while there are none.
const WATCHED: Duration = Duration::from_secs(1);
const ALONE: Duration = Duration::from_secs(10);
/// Between two tries to connect.
const RETRY: Duration = Duration::from_secs(1);
/// INFO changes slowly.
const INFO_EVERY: Duration = Duration::from_secs(5);
/// DQ.STATS of so many queues a look and server.
const STATS_A_LOOK: usize = 4;
/// Commands a second for when delayed jobs come due, and for why jobs fail.
const DUE_A_SECOND: f64 = 1.5;
const ERRORS_A_SECOND: f64 = 1.0;
/// Of all queues together, so many with the most delayed jobs are counted.
const DUE_QUEUES: usize = 20;
/// A list of very many queues takes the server's time: it is asked for no more than this part of it.
const LIST_SHARE: u32 = 20;
/// But at least so often: a queue on which nobody works has to be found in time.
const LIST_EVERY: Duration = Duration::from_secs(10);
/// Points of the small line in the table.
const SPARK: usize = 60;
/// A name in a list.
const NAME: usize = 80;
/// A queue whose ready jobs nobody took at so many looks, over such a time, is not worked on, whatever DQ.STATS said
/// before that.
const STILL_LOOKS: u32 = 5;
const STILL: Duration = Duration::from_secs(10);
/// One for which that has been so for a shorter time is asked for its metrics soon.
const SUSPECT: Duration = Duration::from_secs(2);
/// A queue that was never asked for its metrics is as urgent as one whose metrics are so many seconds old.
const NEVER: f64 = 600.0;
/// Metrics that are older say nothing about how late a queue is.
const OLD: Duration = Duration::from_secs(30);

/// What the sampler shares with the pages.
pub struct Shared {
    pub sample: watch::Sender<Arc<Sample>>,
    pub history: Mutex<History>,
    pub due: Mutex<Due>,
    pub errors: Mutex<Errors>,
    pub dead: Arc<Dead>,
    pub viewers: Viewers,
}

impl Shared {
    pub fn new() -> Shared {
        let (sample, _) = watch::channel(Arc::new(Sample { at: now_ms(), ..Sample::default() }));
        Shared {
            sample,
            history: Mutex::default(),
            due: Mutex::default(),
            errors: Mutex::default(),
            dead: Arc::default(),
            viewers: Viewers::default(),
        }
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
    still: Option<Still>,
}

/// Ready jobs that nobody takes.
struct Still {
    since: Instant,
    looks: u32,
}

impl Known {
    /// Takes the counts of a look that was begun at this time.
    fn look(&mut self, counts: Counts, at: Instant, before: Instant) {
        let is_untouched = |counts: &Counts| counts.ready > 0 && counts.leased == 0 && counts.waiting == 0;
        let is_still = is_untouched(&self.counts) && is_untouched(&counts) && counts.ready >= self.counts.ready;
        self.still = match self.still.take() {
            _ if !is_still => None,
            Some(still) => Some(Still { looks: still.looks + 1, ..still }),
            None => Some(Still { since: before.min(at), looks: 1 }),
        };
        self.counts = counts;
    }

    fn still_for(&self) -> Duration {
        self.still.as_ref().map_or(Duration::ZERO, |still| still.since.elapsed())
    }

    /// How long the first ready job has been due, in ms, and whether it may have been for longer.
    fn late(&self) -> (i64, bool) {
        if self.counts.ready == 0 {
            return (0, false);
        }
        let known = self.stats.as_ref().filter(|(_, at, _)| at.elapsed() < OLD);
        let late = known.map_or(0, |(stats, ..)| stats.get("oldest-ready-age-ms"));
        let seen = self.still.as_ref().filter(|still| still.looks >= STILL_LOOKS && still.since.elapsed() >= STILL);
        let still = seen.map_or(0, |still| still.since.elapsed().as_millis() as i64);
        if known.is_none() && still > 0 {
            (still, true)
        } else {
            (late, false)
        }
    }
}

pub struct Sampler {
    link: Arc<Link>,
    shared: Arc<Shared>,
    known: HashMap<Vec<u8>, Known>,
    servers: Vec<server::Facts>,
    informed: Option<Instant>,
    /// When the list of queues may be asked for again.
    list_at: Instant,
    /// When the list of queues was asked for last.
    listed: (Instant, u64),
    due_credit: f64,
    errors_credit: f64,
    last: Instant,
    pause: Duration,
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
            listed: (now, now_ms()),
            due_credit: 0.0,
            errors_credit: 0.0,
            last: now,
            pause: WATCHED,
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
                () = self.shared.viewers.come() => {}
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
        let passed = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        self.count_due(nodes, passed).await?;
        self.read_errors(nodes, passed).await
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
        let (begin, begin_ms, mut found) = (Instant::now(), now_ms(), HashMap::new());
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
        self.list_at = begin + (begin.elapsed() * LIST_SHARE).min(LIST_EVERY);
        self.link.settle(found.iter().map(|(queue, (place, _))| (queue.clone(), *place)).collect());
        self.known.retain(|queue, _| found.contains_key(queue));
        for (queue, (node, counts)) in found {
            let known = self.known.entry(queue).or_default();
            known.node = node;
            known.look(counts, begin, self.listed.0);
        }
        self.listed = (begin, begin_ms);
        Ok(())
    }

    /// DQ.STATS of the queues that need it most: those whose page is shown, then by [`urgency`].
    async fn ask_stats(&mut self, place: usize, node: &Node) -> Result<(), Trouble> {
        let viewed = self.shared.viewers.queues();
        let mut queues: Vec<(f64, Vec<u8>)> = self
            .known
            .iter()
            .filter(|(_, known)| known.node == place)
            .map(|(queue, known)| (urgency(known, viewed.contains(queue)), queue.clone()))
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

    /// Counts for one queue when delayed jobs come due, if enough time has passed since the last one.
    async fn count_due(&mut self, nodes: &[Node], passed: f64) -> Result<(), Trouble> {
        let cost = EDGES.len() as f64;
        self.due_credit = (self.due_credit + passed * DUE_A_SECOND).min(cost);
        if self.due_credit < cost || !self.shared.viewers.any() {
            return Ok(());
        }
        let Some(queue) = self.next_due() else { return Ok(()) };
        let Some(known) = self.known.get(&queue) else { return Ok(()) };
        let now = self.now_at(known.node);
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

    /// Reads a page of the jobs or of the dead letters of the queue whose errors are needed most.
    async fn read_errors(&mut self, nodes: &[Node], passed: f64) -> Result<(), Trouble> {
        self.errors_credit = (self.errors_credit + passed * ERRORS_A_SECOND).min(1.0);
        if self.errors_credit < 1.0 || !self.shared.viewers.any() {
            return Ok(());
        }
        let Some((queue, page)) = self.next_errors() else { return Ok(()) };
        let Some(known) = self.known.get(&queue) else { return Ok(()) };
        let (node, now) = (&nodes[known.node], self.now_at(known.node));
        let jobs = self.errors().jobs(&queue);
        let mut number = 0;
        let reply = match page {
            Page::Jobs(state) => node.ask(peek(&queue, STATES[state], jobs, b"")).await,
            Page::Dead => match self.shared.dead.next(&queue, usize::try_from(known.counts.dead).unwrap_or(0)).await {
                Some((command, next)) => {
                    number = next;
                    node.ask(command).await
                }
                None => {
                    let seen = self.shared.dead.show(&queue).await;
                    self.errors().take_dead(&queue, seen);
                    return Ok(());
                }
            },
        };
        self.errors_credit = 0.0;
        match (reply, page) {
            (Err(trouble), _) if trouble.cuts() => return Err(trouble),
            (Err(_), Page::Jobs(state)) => self.errors().skip_jobs(&queue, state),
            (Err(_), Page::Dead) => {
                let seen = self.shared.dead.show(&queue).await;
                self.errors().take_dead(&queue, seen);
            }
            (Ok(reply), Page::Jobs(state)) => self.errors().take_jobs(&queue, state, &reply, now),
            (Ok(reply), Page::Dead) => {
                let seen = self.shared.dead.take(&queue, number, &reply).await;
                self.errors().take_dead(&queue, seen);
            }
        }
        Ok(())
    }

    fn next_errors(&self) -> Option<(Vec<u8>, Page)> {
        let (now, errors, viewed) = (Instant::now(), self.errors(), self.shared.viewers.queues());
        let pages = self.known.iter().filter_map(|(queue, known)| {
            let minute = known.recent.last_minute(now);
            let failing = if minute.seconds < 180.0 { minute.counted.failures() } else { 0 };
            let (urgency, page) = errors.next(queue, &known.counts, failing)?;
            Some((if viewed.contains(queue) { urgency * 10.0 } else { urgency }, queue, page))
        });
        let next = pages.max_by(|one, other| one.0.total_cmp(&other.0));
        next.map(|(_, queue, page)| (queue.clone(), page))
    }

    fn errors(&self) -> std::sync::MutexGuard<'_, Errors> {
        self.shared.errors.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Queue time in ms at a server.
    fn now_at(&self, node: usize) -> i64 {
        now_ms() as i64 + self.servers.get(node).map_or(0, |server| server.ahead_ms)
    }

    /// A queue whose page is shown every other time, else one of those with the most delayed jobs.
    fn next_due(&self) -> Option<Vec<u8>> {
        let viewed = self.shared.viewers.queues();
        let viewed: Vec<Vec<u8>> = viewed.into_iter().filter(|queue| self.known.contains_key(queue)).collect();
        let most = self.most_delayed();
        let due = self.due();
        if self.number.is_multiple_of(2) || most.is_empty() {
            due.oldest(viewed.iter().chain(&most)).cloned()
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
        let now = now_ms();
        self.number += 1;
        let since = self.trouble.as_ref().map_or(now, |(_, since)| *since);
        self.trouble = trouble.map(|trouble| (trouble, since));
        let (rows, totals) = match &self.trouble {
            None => {
                let rows = self.rows(now);
                let totals = Totals::of(&rows);
                (Arc::new(rows), totals)
            }
            Some(_) => {
                self.history().gap((now / 1000) as u32);
                let last = self.shared.sample();
                (last.rows.clone(), last.totals.clone())
            }
        };
        let stats = self.known.iter().filter_map(|(queue, known)| {
            known.stats.as_ref().map(|(stats, _, at)| (queue.clone(), (stats.clone(), *at)))
        });
        let sample = Sample {
            number: self.number,
            at: self.listed.1,
            trouble: self.trouble.clone(),
            servers: self.servers.clone(),
            rows,
            totals,
            stats: stats.collect(),
            ..Sample::default()
        };
        self.shared.sample.send_replace(Arc::new(sample));
        self.pause = match (&self.trouble, self.shared.viewers.any()) {
            (Some(_), _) => RETRY,
            (None, true) => WATCHED,
            (None, false) => ALONE,
        };
        self.pause
    }

    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.shared.history.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The rows, the most urgent first; what they show goes into the history.
    fn rows(&mut self, now: u64) -> Vec<Row> {
        let (mut history, viewed) = (self.history(), self.shared.viewers.queues());
        let (seconds, pause) = ((now / 1000) as u32, self.pause.as_secs() as u32);
        let mut all = Point { at: seconds, ..Point::default() };
        let mut rows = Vec::new();
        let errors = self.errors();
        for (queue, known) in &self.known {
            let point = point(known, seconds);
            add(&mut all, &point);
            history.add(queue, point, pause, viewed.contains(queue));
            let node = self.servers.get(known.node).map_or("", |server| &server.address);
            rows.push(row(queue, known, node, &errors, history.backlog(queue, SPARK)));
        }
        drop(errors);
        history.add_all(all, pause);
        history.tidy(seconds);
        drop(history);
        self.due().tidy(|queue| self.known.contains_key(queue));
        self.errors().tidy(self.now_at(0), |queue| self.known.get(queue).map(|known| known.counts));
        rows.sort_by(|a, b| {
            let urgent = |(rank, row): &(Rank, Row)| (*rank, row.late_ms / 10_000);
            urgent(b).cmp(&urgent(a)).then_with(|| a.1.raw.cmp(&b.1.raw))
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

type Rank = (Level, u32);

/// Queues whose page is shown come first, then by the age of their metrics, which counts more if something happens there,
/// and most if nobody seems to work on the queue, or jobs died since.
fn urgency(known: &Known, viewed: bool) -> f64 {
    let age = known.stats.as_ref().map_or(NEVER, |(_, at, _)| at.elapsed().as_secs_f64());
    let counts = &known.counts;
    let before = known.stats.as_ref().map(|(stats, ..)| Counts::of(stats)).unwrap_or_default();
    let is_untouched = counts.ready > before.ready && counts.leased + counts.waiting == 0;
    let urgency = match () {
        () if is_untouched || known.still_for() >= SUSPECT || counts.dead > before.dead => NEVER + age * 30.0,
        () if *counts != before || counts.ready + counts.leased + counts.waiting > 0 => age * 3.0,
        () => age,
    };
    urgency + if viewed { 1e9 } else { 0.0 }
}

fn point(known: &Known, at: u32) -> Point {
    let look = known.recent.last_look();
    Point {
        at,
        is_gap: false,
        pushed: look.rate(|of| of.pushed) as f32,
        acked: look.rate(|of| of.acked) as f32,
        bad: look.rate(|of| of.bad()) as f32,
        late: known.late().0 as f32 / 1000.0,
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

fn row(queue: &[u8], known: &Known, node: &str, errors: &Errors, backlog: Vec<f32>) -> (Rank, Row) {
    let none = Stats::default();
    let (stats, age_ms) = match &known.stats {
        Some((stats, at, _)) => (stats, Some(at.elapsed().as_millis() as u64)),
        None => (&none, None),
    };
    let (late_ms, at_least) = known.late();
    let lately = known.recent.lately();
    let facts = Facts {
        counts: known.counts,
        late_ms,
        at_least,
        far_alarm: stats.get("far-alarm") != 0,
        far: stats.get("far"),
        max_length: stats.get("max-length"),
        held: stats.get("stale-held"),
        dangling: stats.get("dangling"),
        replaying: stats.get("replaying"),
        purging: stats.get("purging"),
        rescheduling: stats.get("rescheduling"),
        lately,
        minute: known.recent.last_minute(Instant::now()),
        retry_error: errors.most_common(queue),
        dead_error: errors.most_common_dead(queue),
    };
    let reasons = attention::reasons(&facts);
    let row = Row {
        raw: queue.to_vec(),
        key: key(queue),
        name: line(queue, NAME),
        level: reasons[0].level,
        rate_s: lately.seconds,
        counts: known.counts,
        late_ms,
        far: facts.far,
        far_alarm: facts.far_alarm,
        memory: stats.get("memory-bytes"),
        pushed: lately.rate(|of| of.pushed),
        acked: lately.rate(|of| of.acked),
        bad: lately.rate(|of| of.bad()),
        p50_us: stats.get("lateness-p50-us"),
        p99_us: stats.get("lateness-p99-us"),
        max_us: stats.get("lateness-max-us"),
        replaying: facts.replaying,
        purging: facts.purging,
        rescheduling: facts.rescheduling,
        age_ms,
        backlog,
        node: node.to_string(),
        why: Vec::new(),
    };
    let rank = reasons[0].rank();
    (rank, Row { why: reasons.into_iter().map(|reason| reason.text).collect(), ..row })
}

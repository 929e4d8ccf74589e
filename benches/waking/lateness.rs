//! How late a job is in a worker's hands, by the time at which it was due.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis::Value;

use crate::args;
use crate::client::Client;
use crate::common::*;
use crate::workers::{Step, Work, Workers};
use crate::{report, seconds, wall_us};

const WORKERS: usize = 100;
const JOBS_A_SECOND: u64 = 500;

/// The aims, in µs.
const MEDIAN: i64 = 500;
const P99: i64 = 2000;

/// How the jobs become due.
#[derive(Clone, Copy, PartialEq)]
pub enum How {
    Pushed,
    Retried,
    Released,
    Died,
}

pub const ALL: [How; 4] = [How::Pushed, How::Retried, How::Released, How::Died];

impl How {
    pub fn name(self) -> &'static str {
        match self {
            How::Pushed => "pushed with a delay",
            How::Retried => "retried",
            How::Released => "released",
            How::Died => "worker died",
        }
    }

    /// Which delivery is measured; the one before it makes the job due again.
    fn measured(self) -> usize {
        if self == How::Pushed {
            1
        } else {
            2
        }
    }
}

/// What is written down of one job.
#[derive(Default)]
struct Entry {
    /// When it is due, in ms of queue time.
    due_ms: AtomicI64,
    /// When it was in a worker's hands, in µs of the system's time.
    came_us: AtomicI64,
    deliveries: AtomicUsize,
}

/// All jobs of one measurement, by their ids, which are numbers.
struct Diary(Vec<Entry>);

impl Diary {
    fn entry(&self, id: &str) -> &Entry {
        &self.0[id.parse::<usize>().expect("the id is a number")]
    }
}

/// The first delivery of a job that is to come back is given back at a random time, or its worker dies.
struct Deliveries {
    how: How,
    diary: Arc<Diary>,
    dice: Dice,
}

impl Work for Deliveries {
    fn job(&mut self, job: &Job, at_us: i64) -> Step {
        let entry = self.diary.entry(&job.id);
        let delivery = entry.deliveries.fetch_add(1, SeqCst) + 1;
        if delivery == self.how.measured() {
            entry.came_us.store(at_us, SeqCst);
        }
        if delivery >= self.how.measured() {
            return Step::Finish;
        }
        let delay = self.dice.delay();
        match self.how {
            How::Retried => Step::GiveBack(args!["DQ.RETRY", "q", &job.receipt, "DELAY", delay]),
            How::Released => Step::GiveBack(args!["DQ.RELEASE", "q", "DELAY", delay, "RECEIPTS", &job.receipt]),
            _ => Step::Die,
        }
    }

    fn due(&mut self, id: &str, at_ms: i64) {
        self.diary.entry(id).due_ms.store(at_ms, SeqCst);
    }
}

/// Random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        // Xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// A delay in ms.
    fn delay(&mut self) -> u64 {
        20 + self.below(480)
    }
}

/// Measures and prints; `true` where a job came early.
pub fn measure(how: How) -> bool {
    let server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    let clock = queue_clock(&server);
    let jobs = seconds() * JOBS_A_SECOND;
    let diary = Arc::new(Diary((0..jobs).map(|_| Entry::default()).collect()));
    let work = Deliveries { how, diary: Arc::clone(&diary), dice: Dice(0xD1B5_4A32_D192_ED03) };
    let workers = Workers::begin(&server, WORKERS, work);
    q.wait_stat("waiting", WORKERS as i64);
    let pings = Pings::begin(&server);
    let rate = push(&server, how, jobs, &diary);
    wait_for("all jobs to be finished", || q.stats(["ready", "delayed", "leased"]) == [0, 0, 0]);
    let pings = pings.end();
    let server_side = q.stats(["lateness-p50-us", "lateness-p99-us", "lateness-max-us"]);
    workers.end();
    let late = diary.0.iter().map(|entry| {
        assert!(entry.deliveries.load(SeqCst) >= how.measured(), "a job was not delivered");
        entry.came_us.load(SeqCst) + clock.ahead_us - entry.due_ms.load(SeqCst) * 1000
    });
    print(how, rate, &clock, &sorted(late), server_side, &pings)
}

/// Pushes the jobs, as many a second as are asked for, and says how many it were.
fn push(server: &Server, how: How, jobs: u64, diary: &Diary) -> f64 {
    let (mut pusher, mut dice) = (Client::new(server), Dice(0x9E37_79B9_7F4A_7C15));
    let due_key = queue::companion_key(b"q", "due");
    let begin = Instant::now();
    let mut at = begin;
    for number in 0..jobs {
        // A random distance, so that pushes and due times lie anywhere within a ms.
        at += Duration::from_micros(dice.below(2_000_000 / JOBS_A_SECOND));
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let (id, delay) = (number.to_string(), dice.delay());
        let mut command = args!["DQ.PUSH", "q", "x", "ID", &id];
        match how {
            How::Pushed => command.extend(args!["DELAY", delay]),
            How::Died => command.extend(args!["LEASE", delay]),
            _ => {}
        }
        pusher.call(command);
        if how == How::Pushed {
            let score = pusher.call(args!["ZSCORE", &due_key, &id]);
            diary.entry(&id).due_ms.store(whole(&score), SeqCst);
        }
    }
    jobs as f64 / begin.elapsed().as_secs_f64()
}

fn print(how: How, rate: f64, clock: &QueueClock, late: &[i64], server_side: [i64; 3], pings: &[i64]) -> bool {
    let [min, p50, p99, max] = [0, 500, 990, 1000].map(|part| per_mille(late, part));
    let [ping_p50, ping_p99, ping_max] = [500, 990, 1000].map(|part| per_mille(pings, part));
    let [server_p50, server_p99, server_max] = server_side;
    let early = min < -clock.unsure_us;
    let verdict = match (early, p50 <= MEDIAN && p99 <= P99) {
        (true, _) => "   EARLY",
        (_, false) => "   over the aim",
        _ => "",
    };
    println!(
        "{:<22} {:>6} {min:>7} {p50:>7} {p99:>7} {max:>7}   {server_p50:>7} {server_p99:>7} {server_max:>7}   \
         {ping_p50:>6} {ping_p99:>6} {ping_max:>6}{verdict}",
        how.name(),
        late.len(),
    );
    let unsure = clock.unsure_us;
    report(
        how.name(),
        &[
            ("jobs", late.len() as f64),
            ("workers", WORKERS as f64),
            ("jobs_per_s", rate),
            ("min_us", min as f64),
            ("p50_us", p50 as f64),
            ("p99_us", p99 as f64),
            ("max_us", max as f64),
            ("server_p50_us", server_p50 as f64),
            ("server_p99_us", server_p99 as f64),
            ("server_max_us", server_max as f64),
            ("ping_p50_us", ping_p50 as f64),
            ("ping_p99_us", ping_p99 as f64),
            ("ping_max_us", ping_max as f64),
            ("clock_unsure_us", unsure as f64),
        ],
    );
    early
}

/// The head of the table.
pub fn print_head() {
    println!(
        "{:<22} {:>6} {:>31}   {:>23}   {:>20}",
        "µs late", "jobs", "to the client: min p50 p99 max", "to the server: p50 p99 max", "a PING: p50 p99 max"
    );
}

/// A client that sends a PING now and then: what the machine's other load does to any client.
struct Pings {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<i64>>,
}

impl Pings {
    fn begin(server: &Server) -> Pings {
        let (mut client, over) = (Client::new(server), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut trips = Vec::new();
            while !seen.load(SeqCst) {
                let begin = Instant::now();
                client.call(args!["PING"]);
                trips.push(i64::try_from(begin.elapsed().as_micros()).expect("it fits"));
                std::thread::sleep(Duration::from_millis(2));
            }
            trips
        });
        Pings { over, thread }
    }

    /// The round trips in µs, in order of size.
    fn end(self) -> Vec<i64> {
        self.over.store(true, SeqCst);
        sorted(self.thread.join().expect("it ends well"))
    }
}

fn sorted(all: impl IntoIterator<Item = i64>) -> Vec<i64> {
    let mut all: Vec<i64> = all.into_iter().collect();
    all.sort_unstable();
    all
}

/// The value within which so many per mille of the sorted `all` lie.
fn per_mille(all: &[i64], part: usize) -> i64 {
    all.get((all.len() * part / 1000).min(all.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn whole(score: &Value) -> i64 {
    text(score).parse().expect("a score is a whole number")
}

/// By how much queue time is ahead of the system's time, in µs, and how well that is known.
struct QueueClock {
    ahead_us: i64,
    unsure_us: i64,
}

/// Finds out by due times: a job pushed with a delay of 1 ms is due at the first whole ms of queue time by which 1 ms
/// has passed, and each push narrows down when that ms began.
fn queue_clock(server: &Server) -> QueueClock {
    let (mut client, mut dice) = (Client::new(server), Dice(77));
    let due_key = queue::companion_key(b"clock", "due");
    let (mut least, mut most) = (i64::MIN, i64::MAX);
    for number in 0..2000 {
        let id = format!("clock-{number}");
        std::thread::sleep(Duration::from_micros(dice.below(1000)));
        let before = wall_us();
        client.call(args!["DQ.PUSH", "clock", "x", "ID", &id, "DELAY", 1]);
        let after = wall_us();
        // Queue time was in the ms that ends here when the system's time was between the two.
        let ends = (whole(&client.call(args!["ZSCORE", &due_key, &id])) - 1) * 1000;
        least = least.max(ends - 1000 - after);
        most = most.min(ends - before);
    }
    client.call(args!["FLUSHALL"]);
    QueueClock { ahead_us: (least + most) / 2, unsure_us: ((most - least) / 2).max(0) + 1 }
}

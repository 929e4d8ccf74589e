//! The main job on real input: workers and a producer in Python, killed and replaced, a server that is killed and
//! comes back, and an account of every single job.
//!
//! `DQ_TEST_SEED` makes a run's jobs again, `DQ_TEST_PYTHON` chooses the Python, which needs redis-py and msgpack.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)]
mod common;

#[path = "main_job/account.rs"]
mod account;
#[path = "main_job/crew.rs"]
mod crew;
#[path = "main_job/diary.rs"]
mod diary;
#[path = "main_job/plan.rs"]
mod plan;
#[path = "main_job/watch.rs"]
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use account::{Account, Letter};
use common::dice::{seed, Dice};
use common::msgpack::Record;
use common::server::new_dir;
use common::{Queue, Server};
use crew::{Crew, Fate, WORKERS};
use diary::{Claim, Diary, End};
use plan::Plan;
use watch::{Drift, Life, Watch};

const QUEUE: &str = "jobs";

/// After how many pushes the server is killed.
const SERVER_KILLED_AT: u32 = plan::JOBS / 2;
/// After how many a worker is killed, whatever it does.
const WORKER_KILLED_AT: [u32; 5] = [1500, 3000, 6500, 8000, 9500];
/// The most jobs that one claim of a worker asks for.
const MOST_CLAIMED: u64 = 16;

/// How long all of it may take. It takes about 20 s; only a broken module, or a machine that stands still, needs this.
const PATIENCE: Duration = Duration::from_secs(180);

#[test]
fn every_job_of_the_main_job_is_accounted_for() {
    need_python();
    let seed = seed();
    let plan = Plan::new(seed);
    let mut run = Run::start(&plan);
    run.until_all_is_done();
    let report = run.account();
    tell(&report.text);
    assert!(report.problems.is_empty(), "{} problems, seed {seed}", report.problems.len());
}

/// One run of the whole play.
struct Run<'a> {
    plan: &'a Plan,
    folder: PathBuf,
    server: Server,
    crew: Crew,
    watch: Watch,
    drift: Drift,
    dice: Dice,
    started: Instant,
    /// Wall time between the two lives of the server, in µs.
    between_lives: u64,
    down: Duration,
    problems: Vec<String>,
}

struct Report {
    text: String,
    problems: Vec<String>,
}

impl<'a> Run<'a> {
    fn start(plan: &'a Plan) -> Run<'a> {
        let ms = |ms: u64| ms.to_string();
        let server = Server::with_grace()
            .aof()
            .set("lease", &ms(plan::LEASE_MS))
            .set("max-retries", &plan::MAX_RETRIES.to_string())
            .set("max-lapses", &plan::MAX_LAPSES.to_string())
            .set("backoff-base", &ms(plan::BACKOFF.0))
            .set("backoff-cap", &ms(plan::BACKOFF.1))
            .set("backoff-jitter", &plan::JITTER_PERCENT.to_string())
            .set("max-error", &plan::MAX_ERROR.to_string())
            .set("takeover-grace", &ms(plan::GRACE_MS))
            .start();
        let folder = new_dir();
        plan.write(&folder);
        Crew::write_port(&folder, server.port);
        Run {
            plan,
            watch: Watch::new(&server),
            drift: Drift::default(),
            crew: Crew::new(&folder),
            server,
            folder,
            dice: Dice(plan.seed ^ 1),
            started: Instant::now(),
            between_lives: 0,
            down: Duration::ZERO,
            problems: Vec::new(),
        }
    }

    fn until_all_is_done(&mut self) {
        let mut kills = WORKER_KILLED_AT.iter().peekable();
        loop {
            self.crew.attend();
            let pushed = self.crew.pushed;
            while kills.next_if(|at| pushed >= **at).is_some() {
                let number = self.crew.some_worker(self.dice.next());
                self.crew.kill(number, Fate::KilledAtRandom);
            }
            if pushed >= SERVER_KILLED_AT && self.between_lives == 0 {
                assert!(!self.crew.all_pushed, "the producer waits for the second life of the server");
                self.kill_the_server();
            }
            self.drift.look();
            let left = self.watch.look(&mut self.problems);
            if self.crew.all_pushed && left == 0 {
                break;
            }
            let elapsed = self.started.elapsed();
            assert!(elapsed < PATIENCE, "{left} jobs are left after {elapsed:?}, {pushed} were pushed");
        }
        self.crew.dismiss();
        self.watch.close(&mut self.problems);
    }

    fn kill_the_server(&mut self) {
        self.watch.close(&mut self.problems);
        self.server.kill();
        let killed = Instant::now();
        self.between_lives = wall_us();
        self.server.start_again();
        self.down = killed.elapsed();
        self.watch.next_life(&self.server);
        Crew::write_port(&self.folder, self.server.port);
        std::fs::write(self.folder.join("restarted"), "").expect("the file is written");
    }

    /// Judges all that was written down against the plan, the keys and the figures.
    fn account(mut self) -> Report {
        let took = self.started.elapsed();
        let diary = Diary::read(&self.folder, self.crew.fates.len());
        let mut queue = self.server.queue(QUEUE);
        queue.unwatched();
        let letters = self.read_what_is_left(&mut queue, &diary);
        let mut account = Account::new(self.plan, &diary, &self.crew.fates, &letters, self.drift.us());
        account.problems.append(&mut self.problems);
        let kills = Kills::of(&self.crew.fates);
        let claims_on_their_way = (kills.at_random + WORKERS as u64) * MOST_CLAIMED;
        if account.lapses.unseen > claims_on_their_way {
            let unseen = account.lapses.unseen;
            account.problems.push(format!("{unseen} claims that no worker saw, at most {claims_on_their_way}"));
        }
        let mut text = self.heading(took, &diary, &account, &kills);
        text.push_str(&account.table());
        let mut problems = std::mem::take(&mut account.problems);
        text.push_str(&self.judge_figures(&diary, &account, &mut problems));
        let _ = std::fs::remove_dir_all(&self.folder);
        let shown = problems.iter().take(40).map(|problem| format!("  PROBLEM {problem}\n"));
        text.extend(shown);
        let verdict = if problems.is_empty() { "every job is accounted for" } else { "the account does not balance" };
        writeln!(text, "  {verdict}; problems: {}", problems.len()).expect("text is written");
        Report { text, problems }
    }

    /// The keys as they are in the end: no live job, the letters.
    fn read_what_is_left(&mut self, queue: &mut Queue, diary: &Diary) -> BTreeMap<String, Letter> {
        watch::assert_whole(queue, &mut self.problems);
        for companion in ["due", "leased", "jobs"] {
            let key = queue.key(companion);
            if queue.raw::<bool>(args!["EXISTS", key]) {
                self.problems.push(format!("the key {companion} is not gone"));
            }
        }
        let (dead, dead_at, ids) = (queue.key("dead"), queue.key("dead:at"), queue.key("ids"));
        let raw: BTreeMap<String, Vec<u8>> = queue.raw(args!["HGETALL", dead]);
        let times: BTreeMap<String, String> = queue.raw(args!["ZRANGE", dead_at, 0, -1, "WITHSCORES"]);
        let taken: BTreeSet<String> = queue.raw(args!["ZRANGE", ids, 0, -1]);
        // An id of the caller's is taken for 5 minutes after its push, unless its job died.
        for (key, push) in &diary.pushes {
            let task = &self.plan.tasks[key.0 as usize];
            let wanted = task.own_id.is_some() && task.outcome.reason().is_none();
            if taken.contains(&push.id) != wanted {
                let outcome = task.outcome.name();
                self.problems.push(format!("the id {} of a job {outcome} is taken: {}", push.id, !wanted));
            }
        }
        let mut letters = BTreeMap::new();
        for (id, bytes) in raw {
            match (Record::read_letter(&bytes), times.get(&id).and_then(|at| at.parse().ok())) {
                (Ok((reason, record)), Some(died_at)) => {
                    letters.insert(id, Letter { reason, record, died_at });
                }
                (letter, at) => self.problems.push(format!("the letter {id} of {at:?}: {:?}", letter.err())),
            }
        }
        letters
    }

    fn heading(&self, took: Duration, diary: &Diary, account: &Account, kills: &Kills) -> String {
        let lost: u32 = diary.lost.values().sum();
        let lapses = &account.lapses;
        let acts = |kind: &str, end: fn(End) -> bool| {
            let is = |claim: &&Claim| claim.act.as_ref().is_some_and(|act| act.kind == kind) && end(claim.end());
            diary.claims.iter().filter(is).count()
        };
        let lines = [
            format!("the main job, seed {} (DQ_TEST_SEED)", self.plan.seed),
            format!(
                "  {} jobs of {} to {} bytes, {:.1} MB, waiting 0 to {} ms, in {:.1} s",
                self.plan.tasks.len(),
                plan::SMALLEST,
                plan::LARGEST,
                self.plan.bytes() as f64 / 1e6,
                plan::LONGEST_WAIT_MS,
                took.as_secs_f64()
            ),
            format!(
                "  the server: killed once after {SERVER_KILLED_AT} pushes, back after {:.0} ms, looked at {} times",
                self.down.as_secs_f64() * 1e3,
                self.watch.looks
            ),
            format!(
                "  {WORKERS} workers: killed in a job {}, at random {}, replaced {}",
                kills.in_a_job,
                kills.at_random,
                kills.in_a_job + kills.at_random
            ),
            format!(
                "  pushes: answered {}, again with the same id {}, without an answer {lost}, of which arrived {}",
                diary.pushes.len(),
                diary.dups.len(),
                account.arrived_unanswered
            ),
            format!(
                "  claims: seen {}, unseen {}; ACK 1: {}, 0: {}, without an answer {} (finished {}); RETRY {}; FAIL {}",
                diary.claims.len(),
                lapses.unseen,
                acts("ack", |end| end == End::Done),
                acts("ack", |end| end == End::Stale),
                acts("ack", |end| end == End::Unknown),
                account.finished_unanswered,
                acts("retry", |_| true),
                acts("fail", |_| true),
            ),
            format!(
                "  lapses: killed in the job {}, with its worker {}, no answer {}, claim unseen {}, too slow {}",
                lapses.in_the_job, lapses.with_the_worker, lapses.unanswered, lapses.unseen, lapses.slow
            ),
        ];
        lines.join("\n") + "\n"
    }

    /// DQ.STATS counts since the server came back: compares it with what the programs saw since then.
    fn judge_figures(&self, diary: &Diary, account: &Account, problems: &mut Vec<String>) -> String {
        let life = self.watch.life();
        let since = self.between_lives;
        let count = |of: &dyn Fn(&Claim) -> bool| diary.claims.iter().filter(|claim| of(claim)).count() as u64;
        let acted = |claim: &Claim| claim.act.as_ref().is_some_and(|act| act.after > since);
        let unknown = |kind: &str| {
            count(&|claim| {
                let act = claim.act.as_ref();
                claim.end() == End::Unknown && act.is_some_and(|act| act.kind == kind)
            })
        };
        let claimed = count(&|claim| claim.after > since);
        let acked = count(&|claim| acted(claim) && claim.end() == End::Done);
        let retried = count(&|claim| acted(claim) && matches!(claim.end(), End::Retried(_)));
        let failed = count(&|claim| acted(claim) && claim.end() == End::Dead);
        let stale = count(&|claim| {
            let answered = claim.act.as_ref().is_some_and(|act| act.answer.is_some());
            acted(claim) && answered && matches!(claim.end(), End::Stale | End::Unknown)
        });
        let pushed = diary.pushes.values().filter(|push| push.after > since).count() as u64;
        let dups = diary.dups.iter().filter(|after| **after > since).count() as u64;
        let lost = diary.lost.values().map(|times| u64::from(*times)).sum::<u64>();
        let late = count(&|claim| acted(claim) && claim.may_be_late());
        let unknown_acts = unknown("ack") + unknown("retry") + unknown("fail");
        let checks: [(&str, u64, RangeInclusive<u64>); 8] = [
            ("pushed", life.stat("pushed"), pushed.saturating_sub(lost)..=pushed),
            ("deduplicated", life.stat("deduplicated"), dups..=dups + lost),
            ("claimed", life.stat("claimed"), claimed..=claimed + account.lapses.unseen),
            ("acked", life.stat("acked"), acked..=acked + unknown("ack")),
            ("retried", life.stat("retried"), retried..=retried + unknown("retry")),
            ("failed", life.stat("failed"), failed..=failed + unknown("fail") + unknown("retry")),
            ("lease-lost", life.stat("lease-lost"), stale..=stale + unknown_acts),
            ("late acts", life.late(), 0..=late + unknown_acts),
        ];
        let mut text = format!("  {:<32}{:>8}  {}\n", "DQ.STATS since the restart", "figure", "the programs saw");
        for (name, figure, range) in checks {
            let seen = if range.start() == range.end() {
                range.start().to_string()
            } else {
                format!("{} to {}", range.start(), range.end())
            };
            writeln!(text, "  {name:<32}{figure:>8}  {seen}").expect("text is written");
            if !range.contains(&figure) {
                problems.push(format!("STATS {name} is {figure}, and the programs saw {seen}"));
            }
        }
        self.judge_lapses(diary, account, life, problems);
        writeln!(
            text,
            "  leased at the restart {} + claimed {} + late {} = acked {} + retried {} + failed {} + lapsed {}",
            life.leased_before(),
            life.stat("claimed"),
            life.late(),
            life.stat("acked"),
            life.stat("retried"),
            life.stat("failed"),
            life.stat("lapsed")
        )
        .expect("text is written");
        text
    }

    /// The lapses of both lives are not more than the jobs tell, and those that a late act made good. What came between
    /// the last look and the kill, or before the first look after it, is in no figure: a lapse, or the late act after one
    /// that is in them.
    fn judge_lapses(&self, diary: &Diary, account: &Account, life: &Life, problems: &mut Vec<String>) {
        let of_jobs = account.total().lapses;
        let first = self.watch.first_life();
        let counted = first.stat("lapsed") - first.late() + life.stat("lapsed") - life.late();
        let blind = self.watch.blind();
        let uncounted = |claim: &&Claim| match (&claim.act, claim.end()) {
            (_, End::Unknown) => true,
            (Some(act), _) => claim.may_be_late() && act.after >= *blind.start() && act.before <= *blind.end(),
            (None, _) => false,
        };
        let made_good = diary.claims.iter().filter(uncounted).count() as u64;
        if counted > of_jobs + made_good {
            let late = format!("at most {made_good} were made good while nobody looked");
            problems.push(format!("{counted} lapses in STATS, {of_jobs} in the jobs; {late}"));
        }
    }
}

/// How many workers were killed, and how.
struct Kills {
    in_a_job: u64,
    at_random: u64,
}

impl Kills {
    fn of(fates: &[Fate]) -> Kills {
        let count = |fate| fates.iter().filter(|other| **other == fate).count() as u64;
        Kills { in_a_job: count(Fate::KilledInJob), at_random: count(Fate::KilledAtRandom) }
    }
}

/// The Python that Debian's redis-py is for.
fn python() -> String {
    std::env::var("DQ_TEST_PYTHON").unwrap_or_else(|_| "/usr/bin/python3".to_string())
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/main_job").join(name)
}

fn need_python() {
    let status = Command::new(python()).args(["-c", "import msgpack, redis"]).stdin(Stdio::null()).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{} with redis-py and msgpack is needed: apt-get install python3-redis python3-msgpack",
        python()
    );
}

fn wall_us() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(elapsed.as_micros()).expect("it is before the year 586,000")
}

/// Writes where `cargo test` shows it, whether the test fails or not: only the print macros are captured.
fn tell(text: &str) {
    let _ = std::io::stderr().write_all(format!("\n{text}").as_bytes());
}

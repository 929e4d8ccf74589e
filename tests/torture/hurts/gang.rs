//! Workers that are processes: this test's program started again, each with a diary on the disk, so that they can be
//! stopped and killed at any moment.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use super::port::{told_by, Port};
use crate::args;
use crate::common::dice::Dice;
use crate::common::server::mortal;
use crate::common::{list, Job};
use crate::crew::{acted, number_of, Plan};
use crate::ledger::{now_us, Act, Claim, Ledger, Span, Told, Verb};
use crate::way::{Answer, Direct, Link};

const BLOCK: Duration = Duration::from_millis(300);
/// What a worker process finds in its environment: its number, its diary, the file with the port, queues, its lease.
const ORDERS: &str = "DQ_TORTURE_WORKER";

pub struct Gang {
    port: Arc<Port>,
    plan: Plan,
    next: usize,
    running: Vec<Child>,
    diaries: Vec<PathBuf>,
}

impl Gang {
    pub fn new(port: Arc<Port>, plan: Plan) -> Gang {
        Gang { port, plan, next: 100, running: Vec::new(), diaries: Vec::new() }
    }

    /// Sees to it that there are so many.
    pub fn be(&mut self, workers: usize) {
        while self.running.len() < workers {
            self.hire();
        }
    }

    fn hire(&mut self) {
        let diary = self.port.folder().join(format!("worker-{}", self.next));
        let (number, lease) = (self.next.to_string(), self.plan.lease_ms.to_string());
        let (diary_path, port) = (diary.display().to_string(), self.port.file().display().to_string());
        let orders = [number, diary_path, port, self.plan.queues.join(" "), lease].join("\n");
        let mut command = mortal(std::env::current_exe().expect("the program knows its path"));
        command
            .args(["--exact", "hurts::gang::worker_process", "--ignored", "--nocapture"])
            .env(ORDERS, orders)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.running.push(command.spawn().expect("this program starts"));
        self.diaries.push(diary);
        self.next += 1;
    }

    fn signal(&self, signal: libc::c_int) {
        for worker in &self.running {
            // Safety: the child has not been waited for, so the id is still its own.
            assert_eq!(unsafe { libc::kill(worker.id() as i32, signal) }, 0);
        }
    }

    pub fn freeze(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    /// kill -9 of one, and another in its place.
    pub fn kill_one(&mut self, which: u64) {
        if !self.running.is_empty() {
            let mut worker = self.running.swap_remove(which as usize % self.running.len());
            worker.kill().expect("the worker is there to be killed");
            worker.wait().expect("the worker ends");
            self.hire();
        }
    }

    /// How many jobs they have claimed, as far as their diaries tell.
    pub fn claims(&self) -> usize {
        self.pages().map(|page| page.matches("claim\t").count()).sum()
    }

    /// How many ACKs they sent after the lease, as far as their diaries tell. Some of them are stale, and some finish a job
    /// that is due again and that nobody has claimed.
    pub fn late_acks(&self) -> usize {
        self.pages().map(|page| late_acks_on(&page)).sum()
    }

    fn pages(&self) -> impl Iterator<Item = String> + '_ {
        self.diaries.iter().map(|diary| fs::read_to_string(diary).unwrap_or_default())
    }

    /// All finish what they are at and leave, and their diaries go into the ledger.
    pub fn dismiss(&mut self, ledger: &Ledger) {
        for worker in &mut self.running {
            worker.stdin = None;
        }
        for mut worker in self.running.drain(..) {
            let status = worker.wait().expect("the worker ends");
            assert!(status.success(), "a worker ended: {status}");
        }
        for diary in self.diaries.drain(..) {
            read_diary(&diary, ledger);
        }
    }
}

impl Drop for Gang {
    fn drop(&mut self) {
        for worker in &mut self.running {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

/// A worker's own process; as a test it does nothing.
#[test]
#[ignore = "the program of the worker processes"]
fn worker_process() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let orders: Vec<&str> = orders.split('\n').collect();
    let [number, diary, port, queues, lease] = orders[..] else { panic!("orders {orders:?}") };
    let diary = File::options().create(true).append(true).open(diary).expect("the diary opens");
    let number: usize = number.parse().expect("a number");
    let mut worker = Worker {
        number,
        diary,
        port: PathBuf::from(port),
        queues: queues.split(' ').map(String::from).collect(),
        lease_ms: lease.parse().expect("ms"),
        dice: Dice(now_us() + number as u64),
        link: None,
        acts: 0,
    };
    let dismissed = Arc::new(AtomicBool::new(false));
    let tell = dismissed.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        tell.store(true, Ordering::Relaxed);
    });
    while !dismissed.load(Ordering::Relaxed) {
        worker.work();
    }
}

struct Worker {
    number: usize,
    diary: File,
    port: PathBuf,
    queues: Vec<String>,
    lease_ms: u64,
    dice: Dice,
    link: Option<Direct>,
    acts: usize,
}

impl Worker {
    fn ask(&mut self, words: &[Vec<u8>], patience: Duration) -> Option<(Answer, Span)> {
        if self.link.is_none() {
            self.link = told_by(&self.port).and_then(Direct::to);
        }
        let Some(link) = &mut self.link else {
            std::thread::sleep(Duration::from_millis(20));
            return None;
        };
        let asked = now_us();
        let answer = link.ask(words, patience);
        match &answer {
            Answer::Nothing => self.link = None,
            // Another server may answer for the queue by now.
            Answer::Refused(error) if !error.starts_with("DQLOST") => {
                self.link = None;
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => {}
        }
        Some((answer, Span { asked, answered: now_us(), node: 0 }))
    }

    fn work(&mut self) {
        let queue = self.dice.pick(&self.queues).clone();
        let (count, lease) = (self.dice.between(1, 3), self.lease_ms);
        let words = args!["DQ.CLAIM", &queue, "COUNT", count, "LEASE", lease, "BLOCK", BLOCK.as_millis()];
        let Some((Answer::Reply(reply), span)) = self.ask(&words, BLOCK) else { return };
        for job in list(&reply).iter().map(Job::of) {
            let Some(number) = number_of(&job.payload) else {
                self.write(&["fault", &format!("{} came with the payload {:?}", job.id, job.payload)]);
                continue;
            };
            self.write_claim(number, &queue, &job, span);
            self.finish(number, &queue, &job);
        }
    }

    fn write_claim(&mut self, number: u64, queue: &str, job: &Job, span: Span) {
        let Job { id, receipt, attempt, lease_ms, .. } = job;
        let (worker, Span { asked, answered, .. }) = (self.number, span);
        let line =
            format!("claim\t{number}\t{queue}\t{id}\t{receipt}\t{attempt}\t{lease_ms}\t{worker}\t{asked}\t{answered}");
        self.write(&[&line]);
    }

    fn finish(&mut self, number: u64, queue: &str, job: &Job) {
        match self.dice.between(0, 9) {
            0 => self.act(number, queue, job, Verb::Extend, self.lease_ms * 2),
            1 => return self.act(number, queue, job, Verb::Retry, self.dice.0 % 200),
            2..=4 => std::thread::sleep(Duration::from_millis(self.dice.between(0, self.lease_ms / 4))),
            _ => {}
        }
        self.act(number, queue, job, Verb::Ack, 0);
    }

    /// What it is about to do is written before it is sent: whoever is killed meanwhile may have done it.
    fn act(&mut self, number: u64, queue: &str, job: &Job, verb: Verb, ms: u64) {
        let receipt = &job.receipt;
        let words = match verb {
            Verb::Extend => args!["DQ.EXTEND", queue, ms, receipt],
            Verb::Retry => args!["DQ.RETRY", queue, receipt, "DELAY", ms],
            _ => args!["DQ.ACK", queue, receipt],
        };
        self.acts += 1;
        let act = self.acts.to_string();
        let line = format!("act\t{act}\t{number}\t{receipt}\t{verb:?}\t{ms}\t{}", now_us());
        self.write(&[&line]);
        match self.ask(&words, Duration::ZERO) {
            None => self.write(&["unsent", &act]),
            Some((answer, span)) => match acted(verb, &answer) {
                Told::Nothing => {}
                Told::Refused(error) => self.write(&["told", &act, &span.answered.to_string(), &error]),
                told => self.write(&["told", &act, &span.answered.to_string(), &format!("{told:?}")]),
            },
        }
    }

    /// One line, in one piece.
    fn write(&mut self, words: &[&str]) {
        let line = words.join("\t") + "\n";
        self.diary.write_all(line.as_bytes()).expect("the diary is written");
    }
}

fn read_diary(diary: &Path, ledger: &Ledger) {
    let mut acts: Vec<(String, Act)> = Vec::new();
    let mut pages = ledger.pages();
    for line in fs::read_to_string(diary).unwrap_or_default().lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words[..] {
            ["claim", job, queue, id, receipt, attempt, lease, worker, asked, answered] => pages.claims.push(Claim {
                job: number(job),
                queue: queue.to_string(),
                id: id.to_string(),
                receipt: receipt.to_string(),
                attempt: number(attempt) as i64,
                lease_ms: number(lease),
                worker: number(worker) as usize,
                span: Span { asked: number(asked), answered: number(answered), node: 0 },
            }),
            ["act", act, job, receipt, verb, ms, asked] => {
                let verb = match verb {
                    "Ack" => Verb::Ack,
                    "Retry" => Verb::Retry,
                    "Extend" => Verb::Extend,
                    other => panic!("no verb of a worker: {other}"),
                };
                let (receipt, span) = (receipt.to_string(), Span { asked: number(asked), answered: now_us(), node: 0 });
                let (job, ms) = (number(job), number(ms));
                let act_done = Act { job, receipt, verb, ms, span, told: Told::Nothing, confirmed: false };
                acts.push((act.to_string(), act_done));
            }
            ["unsent", act] => acts.retain(|(name, _)| name != act),
            ["told", act, answered, told] => {
                let (_, found) = acts.iter_mut().rfind(|(name, _)| name == act).expect("it was written before");
                found.span.answered = number(answered);
                found.told = match told {
                    "Done" => Told::Done,
                    "Stale" => Told::Stale,
                    error => Told::Refused(error.to_string()),
                };
            }
            ["fault", fault] => pages.faults.push(fault.to_string()),
            _ => panic!("no line of a diary: {line}"),
        }
    }
    pages.acts.extend(acts.into_iter().map(|(_, act)| act));
}

fn late_acks_on(page: &str) -> usize {
    let (mut ends, mut late) = (HashMap::new(), 0);
    for line in page.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["claim", _, _, _, receipt, _, lease, _, _, answered] => {
                ends.insert(receipt, number(answered) + number(lease) * 1000);
            }
            ["act", _, _, receipt, "Extend", ..] => drop(ends.remove(receipt)),
            ["act", _, _, receipt, "Ack", _, asked] => {
                late += usize::from(ends.get(receipt).is_some_and(|end| number(asked) > *end));
            }
            _ => {}
        }
    }
    late
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

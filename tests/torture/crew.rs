//! Producers and workers, each a thread with a connection of its own, who write down all that they ask and are told.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use redis::Value;

use crate::args;
use crate::common::dice::Dice;
use crate::common::{int, ints, list, text, Job};
use crate::ledger::{now_us, Act, Claim, Ledger, Push, Span, Told, Verb};
use crate::way::{Answer, Link, Way};

/// How long somebody waits before he tries again where no server is to be had.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a worker lets a claim wait for a job.
const BLOCK: Duration = Duration::from_millis(300);

/// How long a client waits for the replicas.
const CONFIRM: Duration = Duration::from_millis(500);

/// Who is there, and what they do.
#[derive(Clone)]
pub struct Plan {
    pub queues: Vec<String>,
    pub producers: usize,
    pub workers: usize,
    /// How long a producer rests after each push.
    pub pace: Duration,
    /// The lease that a claim asks for, in ms.
    pub lease_ms: u64,
    /// Clients ask with WAIT whether a replica has what they did.
    pub confirm: bool,
}

impl Plan {
    pub fn of(queues: &[&str]) -> Plan {
        Plan {
            queues: queues.iter().map(ToString::to_string).collect(),
            producers: 2,
            workers: 6,
            pace: Duration::from_millis(2),
            lease_ms: 1500,
            confirm: false,
        }
    }
}

/// Jobs from this number on have large payloads; no crew pushes them.
pub const LARGE: u64 = 1 << 40;

/// The id of a job whose producer chooses it.
pub fn own_id(job: u64) -> String {
    format!("job-{job}")
}

/// The payload of a job: its number, and bytes that follow from it.
pub fn payload(job: u64) -> Vec<u8> {
    let most = if job < LARGE { 200 } else { 20_000 };
    let mut bytes = format!("{job}:").into_bytes();
    let mut dice = Dice(job);
    bytes.extend((0..dice.between(0, most)).map(|_| dice.next() as u8));
    bytes
}

/// The number of the job with this payload, where it is whole.
pub fn number_of(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.split(|byte| *byte == b':').next()?;
    let job = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (payload(job) == bytes).then_some(job)
}

/// What all clients of a crew share.
struct Shared {
    plan: Plan,
    way: Arc<dyn Way>,
    ledger: Arc<Ledger>,
    next_job: AtomicU64,
    pushing: AtomicBool,
    /// Workers only finish what they get.
    draining: AtomicBool,
    working: AtomicBool,
}

pub struct Crew {
    shared: Arc<Shared>,
    producers: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

impl Crew {
    pub fn start(plan: Plan, way: Arc<dyn Way>, ledger: Arc<Ledger>, seed: u64) -> Crew {
        let shared = Arc::new(Shared {
            plan,
            way,
            ledger,
            next_job: AtomicU64::new(1),
            pushing: AtomicBool::new(true),
            draining: AtomicBool::new(false),
            working: AtomicBool::new(true),
        });
        let mut dice = Dice(seed);
        let mut spawn = |number: usize, work: fn(&mut Client, usize)| {
            let mut client = Client { shared: shared.clone(), dice: Dice(dice.next()), link: None };
            std::thread::spawn(move || work(&mut client, number))
        };
        let producers = (0..shared.plan.producers).map(|n| spawn(n, Client::produce)).collect();
        let workers = (0..shared.plan.workers).map(|n| spawn(n, Client::work)).collect();
        Crew { shared, producers, workers }
    }

    /// The producers finish what they are at, and leave.
    pub fn stop_pushing(&mut self) {
        self.shared.pushing.store(false, Ordering::Relaxed);
        for producer in self.producers.drain(..) {
            producer.join().expect("a producer ends well");
        }
    }

    /// From now on the workers finish each job that they get.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
    }

    /// Everybody finishes what he is at, and leaves.
    pub fn dismiss(mut self) {
        self.stop_pushing();
        self.shared.working.store(false, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            worker.join().expect("a worker ends well");
        }
    }
}

/// One producer or worker.
struct Client {
    shared: Arc<Shared>,
    dice: Dice,
    link: Option<(String, Box<dyn Link>)>,
}

impl Client {
    /// The connection for a queue, where a server is to be had.
    fn link(&mut self, queue: &str) -> Option<&mut Box<dyn Link>> {
        if self.link.as_ref().is_none_or(|(of, link)| of != queue || link.is_over()) {
            self.link = self.shared.way.link(queue).map(|link| (queue.to_string(), link));
        }
        self.link.as_mut().map(|(_, link)| link)
    }

    /// Asks, and says when; `None` where nothing was sent.
    fn ask(&mut self, queue: &str, words: &[Vec<u8>], patience: Duration) -> Option<(Answer, Span)> {
        let Some(link) = self.link(queue) else {
            std::thread::sleep(PAUSE);
            return None;
        };
        let asked = now_us();
        let answer = link.ask(words, patience);
        let node = link.node();
        match &answer {
            Answer::Nothing => self.link = None,
            Answer::Refused(error) => self.note_refusal(error),
            Answer::Reply(_) => {}
        }
        Some((answer, Span { asked, answered: now_us(), node }))
    }

    fn note_refusal(&self, error: &str) {
        let code = error.split(' ').next().unwrap_or_default().to_string();
        *self.shared.ledger.pages().refusals.entry(code).or_default() += 1;
    }

    fn confirmed(&mut self) -> bool {
        let confirm = self.shared.plan.confirm;
        confirm && self.link.as_mut().is_some_and(|(_, link)| link.confirmed(CONFIRM))
    }

    fn produce(&mut self, _number: usize) {
        while self.shared.pushing.load(Ordering::Relaxed) {
            let job = self.shared.next_job.fetch_add(1, Ordering::Relaxed);
            let queue = self.dice.pick(&self.shared.plan.queues).clone();
            if self.dice.one_in(3) {
                self.push_until_sure(job, &queue);
            } else {
                self.push_once(job, &queue);
            }
            std::thread::sleep(self.shared.plan.pace);
        }
    }

    fn delay(&mut self) -> u64 {
        if self.dice.one_in(2) {
            0
        } else {
            self.dice.between(1, 1500)
        }
    }

    /// A producer that does not send again: where no answer comes, the job is there or not.
    fn push_once(&mut self, job: u64, queue: &str) {
        let words = args!["DQ.PUSH", queue, payload(job), "DELAY", self.delay()];
        if let Some((answer, span)) = self.ask(queue, &words, Duration::ZERO) {
            let (told, id) = pushed(&answer);
            let confirmed = told == Told::Done && self.confirmed();
            self.note_push(Push { job, queue: queue.to_string(), span, told, id, confirmed });
        }
    }

    /// A producer that chose the id, and sends again until it is answered.
    fn push_until_sure(&mut self, job: u64, queue: &str) {
        let id = own_id(job);
        let words = args!["DQ.PUSH", queue, payload(job), "ID", &id, "DELAY", self.delay()];
        let started = now_us();
        let (mut sent, mut node) = (false, 0);
        loop {
            let answered = match self.ask(queue, &words, Duration::ZERO) {
                Some((answer, span)) => {
                    (sent, node) = (true, span.node);
                    let (told, _) = pushed(&answer);
                    (told == Told::Done).then_some(span.answered)
                }
                None => None,
            };
            let gone = !self.shared.pushing.load(Ordering::Relaxed);
            if answered.is_none() && !gone {
                std::thread::sleep(PAUSE);
                continue;
            }
            if sent {
                let confirmed = answered.is_some() && self.confirmed();
                let span = Span { asked: started, answered: answered.unwrap_or_else(now_us), node };
                let told = if answered.is_some() { Told::Done } else { Told::Nothing };
                self.note_push(Push { job, queue: queue.to_string(), span, told, id: Some(id), confirmed });
            }
            return;
        }
    }

    fn note_push(&self, push: Push) {
        self.shared.ledger.pages().pushes.push(push);
    }

    fn work(&mut self, number: usize) {
        while self.shared.working.load(Ordering::Relaxed) {
            let queue = self.dice.pick(&self.shared.plan.queues).clone();
            for (claim, job) in self.claim(number, &queue) {
                self.shared.ledger.pages().claims.push(claim.clone());
                self.deal_with(&claim, &job);
            }
        }
    }

    fn claim(&mut self, worker: usize, queue: &str) -> Vec<(Claim, Job)> {
        let (count, lease) = (self.dice.between(1, 3), self.shared.plan.lease_ms);
        let words = args!["DQ.CLAIM", queue, "COUNT", count, "LEASE", lease, "BLOCK", BLOCK.as_millis()];
        let Some((answer, span)) = self.ask(queue, &words, BLOCK) else {
            return Vec::new();
        };
        let Answer::Reply(reply) = answer else {
            std::thread::sleep(PAUSE);
            return Vec::new();
        };
        let mut claims = Vec::new();
        for job in list(&reply).iter().map(Job::of) {
            let Some(number) = number_of(&job.payload) else {
                let fault = format!("{} of {queue} came with the payload {:?}", job.id, job.payload);
                self.shared.ledger.pages().faults.push(fault);
                continue;
            };
            let (id, receipt) = (job.id.clone(), job.receipt.clone());
            let (attempt, lease_ms) = (job.attempt, job.lease_ms as u64);
            let queue = queue.to_string();
            claims.push((Claim { job: number, queue, id, receipt, attempt, lease_ms, worker, span }, job));
        }
        claims
    }

    fn deal_with(&mut self, claim: &Claim, job: &Job) {
        let lease = Duration::from_millis(claim.lease_ms);
        if self.shared.draining.load(Ordering::Relaxed) {
            return self.act(claim, Verb::Ack, 0);
        }
        match self.dice.between(0, 99) {
            0..=9 => self.act(claim, Verb::Retry, self.dice.0 % 200),
            10..=14 => self.act(claim, Verb::Release, self.dice.0 % 200),
            15..=16 => self.act(claim, Verb::Fail, 0),
            17..=21 => {
                self.act(claim, Verb::Extend, claim.lease_ms * 2);
                self.act(claim, Verb::Ack, 0);
            }
            // A worker that is too slow, and does not know it.
            22..=23 => {
                std::thread::sleep(lease + lease / 4);
                self.act(claim, Verb::Ack, 0);
            }
            // One that dies with the job in hand.
            24..=25 => self.link = None,
            // One whose acknowledgement does not wait for its answer.
            26..=27 => self.ack_and_leave(claim, job),
            _ => self.act(claim, Verb::Ack, 0),
        }
    }

    fn ack_and_leave(&mut self, claim: &Claim, job: &Job) {
        let asked = now_us();
        let words = args!["DQ.ACK", &claim.queue, &job.receipt];
        if let Some(link) = self.link(&claim.queue) {
            link.send(&words);
            let node = link.node();
            self.link = None;
            let span = Span { asked, answered: now_us(), node };
            self.note_act(claim, Verb::Ack, 0, span, Told::Nothing, false);
        }
    }

    fn act(&mut self, claim: &Claim, verb: Verb, ms: u64) {
        let (queue, receipt) = (&claim.queue, &claim.receipt);
        let words = match verb {
            Verb::Ack => args!["DQ.ACK", queue, receipt],
            Verb::Retry => args!["DQ.RETRY", queue, receipt, "DELAY", ms, "ERROR", "busy"],
            Verb::Release => args!["DQ.RELEASE", queue, "DELAY", ms, "RECEIPTS", receipt],
            Verb::Fail => args!["DQ.FAIL", queue, receipt, "ERROR", "broken"],
            Verb::Extend => args!["DQ.EXTEND", queue, ms, receipt],
        };
        if let Some((answer, span)) = self.ask(queue, &words, Duration::ZERO) {
            let told = acted(verb, &answer);
            let confirmed = told == Told::Done && self.confirmed();
            self.note_act(claim, verb, ms, span, told, confirmed);
        }
    }

    fn note_act(&self, claim: &Claim, verb: Verb, ms: u64, span: Span, told: Told, confirmed: bool) {
        let (job, receipt) = (claim.job, claim.receipt.clone());
        self.shared.ledger.pages().acts.push(Act { job, receipt, verb, ms, span, told, confirmed });
    }
}

fn pushed(answer: &Answer) -> (Told, Option<String>) {
    match answer {
        Answer::Reply(id) => (Told::Done, Some(text(id))),
        Answer::Refused(error) => (Told::Refused(error.clone()), None),
        Answer::Nothing => (Told::Nothing, None),
    }
}

pub fn acted(verb: Verb, answer: &Answer) -> Told {
    let reply = match answer {
        Answer::Reply(reply) => reply,
        Answer::Refused(error) if error.starts_with("DQLOST") => return Told::Stale,
        Answer::Refused(error) => return Told::Refused(error.clone()),
        Answer::Nothing => return Told::Nothing,
    };
    let done = match verb {
        Verb::Ack => int(reply) == 1,
        Verb::Retry => int(reply) >= 0,
        Verb::Release | Verb::Extend => ints(reply)[0] >= 0,
        Verb::Fail => matches!(reply, Value::Okay),
    };
    if done {
        Told::Done
    } else {
        Told::Stale
    }
}

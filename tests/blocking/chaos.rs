//! Everything that can happen to clients that wait, in an order that is drawn, and an account of every job at the end.
//! `DQ_TEST_SEED` draws a run again; its pace is the machine's.

use std::collections::{BTreeMap, BTreeSet};

use crate::args;
use crate::client::{pack, Client};
use crate::common::dice::{seed, Dice};
use crate::common::*;
use crate::scene::*;

const STEPS: usize = 4000;
const WORKERS: usize = 12;
const QUEUES: [&str; 3] = ["a", "b", "c"];

/// Ways to end a wait from outside.
const UNBLOCKS: [&str; 2] = ["TIMEOUT", "ERROR"];

/// A client that claims, and what it has in hand.
struct Worker {
    client: Client,
    /// It has sent a claim, and read no answer.
    asks: bool,
    jobs: Vec<(String, Job)>,
}

impl Worker {
    fn new(server: &Server) -> Worker {
        Worker { client: Client::new(server), asks: false, jobs: Vec::new() }
    }
}

/// A command, and the queue of the jobs that it pushes.
struct Step {
    command: Vec<Vec<u8>>,
    pushes: Option<&'static str>,
}

impl Step {
    fn of(command: Vec<Vec<u8>>) -> Step {
        Step { command, pushes: None }
    }
}

/// What has everybody served again.
fn open_again() -> Vec<Step> {
    let mut steps = vec![Step::of(args!["CONFIG", "SET", "dq.enabled", "yes"])];
    steps.extend(QUEUES.map(|queue| Step::of(args!["DQ.RESUME", queue])));
    steps
}

struct Chaos<'a> {
    scene: &'a Scene,
    dice: Dice,
    workers: Vec<Worker>,
    operator: Client,
    /// Ids of the jobs whose push was answered, with their queue.
    pushed: BTreeMap<String, &'static str>,
    /// Those whose ACK answered 1.
    done: BTreeSet<String>,
    /// Those whose FAIL answered OK.
    failed: BTreeSet<String>,
    receipts: BTreeSet<String>,
    own_ids: u32,
    /// Clients of which CLIENT UNBLOCK said that it ended their wait.
    unblocked: Vec<i64>,
    /// How often what happened.
    tally: BTreeMap<&'static str, usize>,
}

impl<'a> Chaos<'a> {
    fn new(scene: &'a Scene, seed: u64) -> Chaos<'a> {
        Chaos {
            scene,
            dice: Dice(seed),
            workers: (0..WORKERS).map(|_| Worker::new(scene)).collect(),
            operator: Client::new(scene),
            pushed: BTreeMap::new(),
            done: BTreeSet::new(),
            failed: BTreeSet::new(),
            receipts: BTreeSet::new(),
            own_ids: 0,
            unblocked: Vec::new(),
            tally: BTreeMap::new(),
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn some_worker(&mut self) -> usize {
        self.dice.between(0, WORKERS as u64 - 1) as usize
    }

    /// One that asks, where a few draws find one.
    fn some_who_asks(&mut self) -> usize {
        let mut worker = self.some_worker();
        for _ in 0..4 {
            if self.workers[worker].asks {
                break;
            }
            worker = self.some_worker();
        }
        worker
    }

    fn step(&mut self) {
        match self.dice.between(0, 99) {
            // Fewer jobs than those who ask would take, so that some wait.
            0..=9 if self.pushed.len() - self.done.len() - self.failed.len() < WORKERS => {
                let push = self.push();
                self.tell(vec![push]);
            }
            0..=66 => {
                let worker = self.some_worker();
                self.turn_of(worker);
            }
            67..=72 => {
                let worker = self.some_who_asks();
                self.leave(worker);
            }
            73..=88 => {
                let count = self.dice.between(1, 5);
                let mut steps: Vec<Step> = (0..count).map(|_| self.order()).collect();
                // Off and paused for a moment, as a rule.
                if !self.dice.one_in(8) {
                    steps.extend(open_again());
                }
                self.tell(steps);
            }
            89..=91 => self.transaction(),
            92 => self.tell(open_again()),
            93..=95 => self.server_pause(),
            _ => self.one_pass(),
        }
    }

    /// A push of one job or of several, due now or in a moment.
    fn push(&mut self) -> Step {
        let queue = *self.dice.pick(&QUEUES);
        let delay = if self.dice.one_in(2) { 0 } else { self.dice.between(1, 25) };
        let command = if self.dice.one_in(4) {
            let payloads: Vec<u64> = (0..self.dice.between(1, 4)).collect();
            args!["DQ.MPUSH", queue, "DELAY", delay, "PAYLOADS", payloads]
        } else if self.dice.one_in(3) {
            self.own_ids += 1;
            args!["DQ.PUSH", queue, "x", "DELAY", delay, "ID", format!("own-{}", self.own_ids)]
        } else {
            args!["DQ.PUSH", queue, "x", "DELAY", delay]
        };
        Step { command, pushes: Some(queue) }
    }

    /// A command of an operator's: whatever ends a wait, or lets one go on.
    fn order(&mut self) -> Step {
        let worker = self.some_who_asks();
        let id = self.workers[worker].client.id;
        match self.dice.between(0, 9) {
            0 => self.push(),
            1..=5 => Step::of(args!["CLIENT", "UNBLOCK", id, *self.dice.pick(&UNBLOCKS)]),
            6 => Step::of(args!["CONFIG", "SET", "dq.enabled", *self.dice.pick(&["yes", "no"])]),
            7 => Step::of(args!["DQ.PAUSE", *self.dice.pick(&QUEUES)]),
            _ => Step::of(args!["DQ.RESUME", *self.dice.pick(&QUEUES)]),
        }
    }

    /// Sends the operator's commands in one write, and reads the answers.
    fn tell(&mut self, steps: Vec<Step>) {
        self.send(&steps);
        self.hear(steps);
        self.read_unblocked();
    }

    /// Those who were unblocked have their answer.
    fn read_unblocked(&mut self) {
        for id in std::mem::take(&mut self.unblocked) {
            if let Some(worker) = self.workers.iter().position(|worker| worker.client.id == id && worker.asks) {
                self.read_answer(worker);
            }
        }
    }

    fn send(&mut self, steps: &[Step]) {
        let commands: Vec<_> = steps.iter().map(|step| step.command.clone()).collect();
        self.operator.send_all(&commands);
    }

    fn hear(&mut self, steps: Vec<Step>) {
        for step in steps {
            let answer = self.operator.read();
            let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", dump::show(&pack(&step.command))));
            self.note(&step, &answer);
        }
    }

    /// Notes what one of the operator's commands did.
    fn note(&mut self, step: &Step, answer: &redis::Value) {
        let Some(queue) = step.pushes else {
            if step.command[1] == b"UNBLOCK" && int(answer) == 1 {
                self.count("waits unblocked");
                let id = std::str::from_utf8(&step.command[2]).expect("a number");
                self.unblocked.push(id.parse().expect("a number"));
            }
            return;
        };
        let ids = if step.command[0] == b"DQ.MPUSH" { texts(answer) } else { vec![text(answer)] };
        for id in ids {
            assert!(self.pushed.insert(id.clone(), queue).is_none(), "the id {id} was given twice");
        }
    }

    /// A worker goes on: it asks, looks for its answer, or does something with its jobs and asks again.
    fn turn_of(&mut self, worker: usize) {
        if self.workers[worker].asks {
            if self.workers[worker].client.has_answer() {
                self.read_answer(worker);
            }
        } else {
            while let Some((queue, job)) = self.workers[worker].jobs.pop() {
                self.finish(worker, queue, job);
            }
            self.ask(worker);
        }
    }

    fn ask(&mut self, worker: usize) {
        let dice = &mut self.dice;
        let (queue, other) = (*dice.pick(&QUEUES), *dice.pick(&QUEUES));
        let (count, lease) = (dice.between(1, 3), *dice.pick(&[25, 100, 1000]));
        let block = if dice.one_in(3) { 0 } else { dice.between(1, 40) };
        let claim = match dice.between(0, 3) {
            0 if queue != other => args!["DQ.MCLAIM", 2, queue, other, "ORDER", "rotate", "BLOCK", block],
            1 if queue != other => args!["DQ.MCLAIM", 2, queue, other, "COUNT", count, "LEASE", lease, "BLOCK", block],
            2 => args!["DQ.MCLAIM", 1, queue, "BLOCK", block],
            _ => args!["DQ.MCLAIM", 1, queue, "COUNT", count, "LEASE", lease, "BLOCK", block],
        };
        self.workers[worker].client.send(claim);
        self.workers[worker].asks = true;
        self.count("claims");
    }

    /// Reads the answer of a claim, which must come.
    fn read_answer(&mut self, worker: usize) {
        let answer = self.workers[worker].client.read();
        self.workers[worker].asks = false;
        match answer {
            Ok(reply) => {
                for (queue, job) in list(&reply).iter().map(|job| (text(&list(job)[6]), Job::of(job))) {
                    assert_eq!(self.pushed.get(&job.id), Some(&queue.as_str()), "{job:?}");
                    assert!(self.receipts.insert(job.receipt.clone()), "a receipt was given twice: {job:?}");
                    self.count("jobs handed out");
                    self.workers[worker].jobs.push((queue, job));
                }
            }
            Err(error) if error.starts_with("UNBLOCKED") => self.count("UNBLOCKED"),
            Err(error) => assert_error(&error, "DQDISABLED", &[]),
        }
    }

    fn finish(&mut self, worker: usize, queue: String, job: Job) {
        let act = self.dice.between(0, 9);
        let delay = self.dice.between(0, 15);
        let command = match act {
            0..=5 => args!["DQ.ACK", &queue, &job.receipt],
            6 => args!["DQ.RETRY", &queue, &job.receipt, "DELAY", delay],
            7 => args!["DQ.RELEASE", &queue, "DELAY", delay, "RECEIPTS", &job.receipt],
            8 => args!["DQ.FAIL", &queue, &job.receipt],
            // Its lease ends.
            _ => return,
        };
        let client = &mut self.workers[worker].client;
        client.send(command);
        match client.read() {
            Ok(redis::Value::Int(1)) if act <= 5 => {
                assert!(self.done.insert(job.id.clone()), "finished twice: {job:?}");
            }
            Ok(_) if act == 8 => assert!(self.failed.insert(job.id.clone()), "died twice: {job:?}"),
            Ok(_) => {}
            Err(error) => assert_error(&error, "DQLOST", &[]),
        }
    }

    /// A worker goes, in one manner or another, with whatever it has in hand; another comes.
    fn leave(&mut self, worker: usize) {
        let new = Worker::new(self.scene);
        let Worker { mut client, asks, .. } = std::mem::replace(&mut self.workers[worker], new);
        self.count(if asks { "workers gone while they waited" } else { "workers gone" });
        match self.dice.between(0, 3) {
            0 => drop(client),
            1 => client.reset(),
            2 => client.half_close(),
            _ => {
                self.operator.call(args!["CLIENT", "KILL", "ID", client.id]);
            }
        }
    }

    /// The same commands of an operator's, all in one step.
    fn transaction(&mut self) {
        let mut steps = vec![Step::of(args!["MULTI"])];
        let count = self.dice.between(1, 4);
        steps.extend((0..count).map(|_| self.order()));
        steps.push(Step::of(args!["EXEC"]));
        self.send(&steps);
        let answers: Vec<_> = steps.iter().map(|_| self.operator.read().expect("an answer to each")).collect();
        for (step, answer) in steps[1..].iter().zip(list(&answers[answers.len() - 1])) {
            self.note(step, &answer);
        }
        self.read_unblocked();
        self.count("transactions");
    }

    /// Writes are paused for a moment, while some ask, some push and some go. Nobody is unblocked meanwhile: CLIENT
    /// UNBLOCK of a client that the pause holds back ends some servers, with the module or without.
    fn server_pause(&mut self) {
        self.operator.call(args!["CLIENT", "PAUSE", 60_000, "WRITE"]);
        let push = [self.push()];
        let mut pusher = Client::new(self.scene);
        pusher.send(push[0].command.clone());
        for _ in 0..self.dice.between(0, 4) {
            let worker = self.some_worker();
            if self.dice.one_in(2) {
                self.leave(worker);
            } else if !self.workers[worker].asks && self.workers[worker].jobs.is_empty() {
                self.ask(worker);
            }
        }
        self.operator.call(args!["CLIENT", "UNPAUSE"]);
        let answer = pusher.read().expect("the push is answered");
        self.note(&push[0], &answer);
        self.count("pauses of the server");
    }

    /// One pass of the server sees what several clients sent, and what fell due meanwhile.
    fn one_pass(&mut self) {
        let count = self.dice.between(1, 4);
        let steps: Vec<Step> = (0..count).map(|_| self.order()).collect();
        let mut going = Vec::new();
        let stopped = Stopped::new(self.scene);
        let operator_first = self.dice.one_in(2);
        if operator_first {
            self.send(&steps);
        }
        for _ in 0..self.dice.between(1, 4) {
            let worker = self.some_worker();
            let Worker { asks, jobs, client } = &mut self.workers[worker];
            if *asks && !going.contains(&worker) && self.dice.one_in(2) {
                client.half_close();
                going.push(worker);
            } else if !*asks && jobs.is_empty() && !going.contains(&worker) {
                self.ask(worker);
            }
        }
        if !operator_first {
            self.send(&steps);
        }
        drop(stopped);
        self.hear(steps);
        for worker in going {
            self.workers[worker] = Worker::new(self.scene);
        }
        self.read_unblocked();
        self.count("passes that saw it all");
    }

    /// Everybody who waits is sent away with one answer each, and goes; the queues are open again.
    fn send_home(&mut self) {
        self.tell(open_again());
        for worker in 0..WORKERS {
            if self.workers[worker].asks {
                self.operator.call(args!["CLIENT", "UNBLOCK", self.workers[worker].client.id]);
                self.read_answer(worker);
            }
            assert_eq!(text(&self.workers[worker].client.call(args!["PING"])), "PONG", "one answer and no more");
        }
        self.workers.clear();
        wait_for("nobody to wait", || self.scene.info("dq", "dq_waiting") == "0" && blocked_clients(self.scene) == 0);
    }

    /// Where each job is by the keys: in one place, and in the one that the answers tell.
    fn account(&mut self) {
        let (mut live, mut dead) = (BTreeMap::new(), BTreeSet::new());
        for name in QUEUES {
            let mut q = self.scene.queue(name);
            for id in q.raw::<Vec<String>>(args!["HKEYS", q.key("jobs")]) {
                assert!(live.insert(id.clone(), name).is_none(), "{id} is in two queues");
            }
            dead.extend(q.raw::<Vec<String>>(args!["HKEYS", q.key("dead")]));
        }
        assert_eq!(dead, self.failed, "left: the dead letters, right: those whose FAIL was answered");
        for (id, queue) in &self.pushed {
            let places = [live.get(id) == Some(queue), self.done.contains(id), self.failed.contains(id)];
            assert_eq!(places.iter().filter(|is| **is).count(), 1, "{id} of {queue} is live, done, dead: {places:?}");
        }
        for id in live.keys() {
            assert!(self.pushed.contains_key(id), "nobody pushed {id}");
        }
        self.tally.insert("jobs left", live.len());
    }

    /// One worker finishes whatever is left.
    fn finish_all(&mut self) {
        let mut worker = Client::new(self.scene);
        wait_for("all jobs to be finished", || {
            worker.send(args!["DQ.MCLAIM", QUEUES.len(), QUEUES.to_vec(), "COUNT", 100, "BLOCK", 20]);
            for (queue, job) in worker.queued_jobs() {
                assert_eq!(int(&worker.call(args!["DQ.ACK", queue, &job.receipt])), 1, "{job:?}");
                assert!(self.done.insert(job.id.clone()), "finished twice: {job:?}");
            }
            self.done.len() + self.failed.len() >= self.pushed.len()
        });
        self.account();
        let mut sums = [0; 5];
        for name in QUEUES {
            let figures = self.scene.queue(name).stats(["pushed", "acked", "failed", "stale-purged", "dangling"]);
            sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
        }
        let [pushed, done, failed] = [self.pushed.len(), self.done.len(), self.failed.len()].map(|count| count as i64);
        assert_eq!(sums, [pushed, done, failed, 0, 0]);
    }
}

#[test]
fn whatever_happens_every_job_is_accounted_for() {
    let seed = seed();
    eprintln!("seed {seed} (DQ_TEST_SEED)");
    let builder = Server::builder()
        .aof()
        .line("appendfsync no")
        .set("lease", "1s")
        .set("backoff-base", "1ms")
        .set("backoff-cap", "5ms")
        .set("max-lapses", "1000000")
        .set("max-retries", "1000000");
    let scene = Scene::of(builder);
    let mut chaos = Chaos::new(&scene, seed);
    for _ in 0..STEPS {
        chaos.step();
    }
    chaos.send_home();
    chaos.account();
    let left = chaos.tally["jobs left"];
    chaos.finish_all();
    eprintln!("{} jobs, {left} of them left at first; {:?}", chaos.pushed.len(), chaos.tally);
    scene.end();
}

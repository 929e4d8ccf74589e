//! A cluster under load: its primaries are killed and give way to their replicas, its slots move key by key and in one
//! piece; afterwards every job is accounted for, and no node holds a key that is not its own.

mod client;
mod moves;
mod topology;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use redis::Value;

use crate::account::{Account, Left};
use crate::args;
use crate::common::dice::{seed, Dice};
use crate::common::{error_text, list, wait_for, Job, Server};
use crate::crew::{Crew, Plan};
use crate::ledger::{now_us, Ledger, Rollback};
use crate::scene::{left_in, wait_until_done};
use crate::way::Direct;

use client::{ClusterWay, Shared};
use topology::Cluster;

/// A primary is given up by the others after this long without an answer, in ms.
const NODE_TIMEOUT_MS: u32 = 1500;
/// Where no failover is wanted, a busy machine must not cause one.
const PATIENT_MS: u32 = 30_000;
/// What a primary did so long before it went may not have reached its replica, in µs.
const TAIL_US: u64 = 1_000_000;
/// Slots from the first of a node in which queues are that `reshard` shall move: it takes the first ones.
const NEAR: u16 = 30;
/// More slots than these take the tool too long.
const MOST_SLOTS: u16 = 100;
/// Rounds of a short run.
const ROUNDS: usize = 4;

/// One cluster under load at a time: a failover that only the load of the others causes proves nothing.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// The rounds of one run: so many, or as many as there is time for in `DQ_TORTURE_MINUTES`.
fn rounds(short: usize) -> impl Iterator<Item = usize> {
    let minutes = std::env::var("DQ_TORTURE_MINUTES").ok().map(|minutes| minutes.parse::<f64>().expect("minutes"));
    let end = minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(minutes * 60.0));
    (0..).take_while(move |round| end.map_or(*round < short, |end| *round < short || Instant::now() < end))
}

/// A cluster that a crew works on, with two queues on each primary.
struct Scene {
    cluster: Cluster,
    way: Arc<ClusterWay>,
    ledger: Arc<Ledger>,
    crew: Crew,
    queues: Vec<String>,
    dice: Dice,
    /// The primaries as they should be, and when they last were.
    primaries: BTreeSet<usize>,
    settled_at: u64,
}

impl Scene {
    fn begin(replicas: usize, node_timeout_ms: u32) -> Scene {
        let seed = seed();
        eprintln!("DQ_TEST_SEED={seed}");
        let cluster = Cluster::start(replicas, node_timeout_ms);
        let mut queues = Vec::new();
        for primary in [0, 0, 1, 1, 2, 2] {
            queues.push(cluster.name_near_the_start_of(primary, NEAR, &queues));
        }
        let (way, ledger) = (ClusterWay::to(cluster.ports()), Arc::new(Ledger::default()));
        let mut plan = Plan::of(&queues.iter().map(String::as_str).collect::<Vec<_>>());
        plan.confirm = replicas > 0;
        let crew = Crew::start(plan, Arc::new(Shared(way.clone())), ledger.clone(), seed);
        wait_for("the crew to be at work", || ledger.pushed() > 100);
        let primaries = cluster.primaries().into_iter().collect();
        Scene { cluster, way, ledger, crew, queues, dice: Dice(seed), primaries, settled_at: now_us() }
    }

    /// Waits until so many more pushes were answered.
    fn work_on(&self, pushes: usize) {
        let before = self.ledger.pushed();
        wait_for("the crew to go on", || self.ledger.pushed() >= before + pushes);
    }

    /// Notes that what a primary did since `from` may have been undone by the failover that it did not survive as one.
    fn undone(&self, primary: usize, from: u64, why: &'static str) {
        let rollback = Rollback { from: from.saturating_sub(TAIL_US), to: now_us(), why, spares_confirmed: true };
        self.ledger.deposed(self.cluster.nodes[primary].server.port, from, rollback);
    }

    /// Waits until the cluster is whole again. A machine that is busy with other things can make a primary look dead that
    /// is only slow: such a failover is one without WAIT, too.
    fn settle(&mut self) {
        self.cluster.settle();
        let now: BTreeSet<usize> = self.cluster.primaries().into_iter().collect();
        for primary in self.primaries.difference(&now) {
            eprintln!("a failover that nobody asked for, of the node {primary}");
            self.undone(*primary, self.settled_at, "a primary was too slow, and its tail was not replicated");
        }
        self.primaries = now;
        self.settled_at = now_us();
    }

    /// A replica is to take the place of its primary.
    fn swap(&mut self, primary: usize, replica: usize) {
        self.primaries.remove(&primary);
        self.primaries.insert(replica);
    }

    /// One of the queues, its slot, and its owner.
    fn draw(&mut self) -> (String, u16, usize) {
        let queue = self.dice.pick(&self.queues).clone();
        let slot = self.cluster.slot_of(&queue);
        let owner = self.cluster.owner(slot);
        (queue, slot, owner)
    }

    /// A primary other than this one.
    fn another(&mut self, than: usize) -> usize {
        let others: Vec<usize> = self.cluster.primaries().into_iter().filter(|primary| *primary != than).collect();
        *self.dice.pick(&others)
    }

    /// Has all jobs done, and looks whether nothing is wrong.
    fn end(mut self) {
        self.crew.stop_pushing();
        self.crew.drain();
        self.settle();
        for queue in &self.queues {
            let owner = self.cluster.owner(self.cluster.slot_of(queue));
            wait_until_done(&self.cluster.nodes[owner].server, std::slice::from_ref(queue));
        }
        self.crew.dismiss();
        let mut left = Left::new();
        for queue in &self.queues {
            let owner = self.cluster.owner(self.cluster.slot_of(queue));
            left_in(&self.cluster.nodes[owner].server, std::slice::from_ref(queue), &mut left);
        }
        self.cluster.assert_no_foreign_keys();
        if self.cluster.nodes.len() > self.cluster.primaries().len() {
            self.cluster.assert_replicas_same();
        }
        self.way.assert_expected();
        let pages = self.ledger.pages();
        Account::of(&pages, &left).settle();
    }
}

/// A primary dies; it comes back as a replica of the one that took over.
fn kill(scene: &mut Scene) {
    let victim = *scene.dice.pick(&scene.cluster.primaries());
    let replica = scene.cluster.replica_of(victim);
    let from = now_us();
    scene.cluster.nodes[victim].server.kill();
    scene.undone(victim, from, "a primary was killed, and its tail was not replicated");
    wait_for("the replica to take over", || scene.cluster.is_primary(replica));
    scene.work_on(20);
    scene.cluster.nodes[victim].server.start_again();
    scene.swap(victim, replica);
    scene.settle();
}

/// A replica takes over, in the way that is asked for.
fn take_over(scene: &mut Scene, how: Option<&'static str>) {
    let primary = *scene.dice.pick(&scene.cluster.primaries());
    let replica = scene.cluster.replica_of(primary);
    let from = now_us();
    let words: Vec<&str> = ["CLUSTER", "FAILOVER"].into_iter().chain(how).collect();
    let is_done = || scene.cluster.is_primary(replica) && !scene.cluster.is_primary(primary);
    // The one that is asked for in order may give up where the primary is slow, and is asked for again.
    wait_for("the replica to take over and the old primary to follow", || {
        if !is_done() {
            let _ = scene.cluster.nodes[replica].server.try_run(&words);
        }
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(6) && !is_done() {
            std::thread::sleep(Duration::from_millis(10));
        }
        is_done()
    });
    match how {
        Some("FORCE") => scene.undone(primary, from, "CLUSTER FAILOVER FORCE does not wait for the primary's tail"),
        Some(_) => scene.undone(primary, from, "CLUSTER FAILOVER TAKEOVER does not wait for the primary's tail"),
        None => {}
    }
    scene.swap(primary, replica);
    scene.settle();
}

#[test]
fn primaries_that_die_or_give_way_lose_nothing_that_a_replica_had() {
    let _alone = alone();
    let mut scene = Scene::begin(1, NODE_TIMEOUT_MS);
    for round in rounds(ROUNDS) {
        scene.work_on(150);
        match round % ROUNDS {
            0 => kill(&mut scene),
            1 => take_over(&mut scene, None),
            2 => take_over(&mut scene, Some(if round % (2 * ROUNDS) < ROUNDS { "FORCE" } else { "TAKEOVER" })),
            _ => kill(&mut scene),
        }
    }
    assert!(scene.way.count("MOVED") > 0);
    scene.end();
}

#[test]
fn slots_that_move_key_by_key_under_load_lose_nothing() {
    let _alone = alone();
    let mut scene = Scene::begin(1, PATIENT_MS);
    let tool = moves::tool();
    if tool.is_none() {
        eprintln!("no redis-cli and no DQ_TEST_CLI: slots move by CLUSTER SETSLOT and MIGRATE alone");
    }
    for round in rounds(ROUNDS) {
        scene.work_on(50);
        match (&tool, round % ROUNDS) {
            (Some(tool), 1) => reshard(&mut scene, tool),
            (Some(tool), 3) => moves::rebalance(tool, &scene.cluster),
            _ => step_by_step(&mut scene),
        }
    }
    for code in ["MOVED", "ASK", "TRYAGAIN"] {
        assert!(scene.way.count(code) > 0, "no client met {code}");
    }
    scene.end();
}

fn step_by_step(scene: &mut Scene) {
    let (_, slot, from) = scene.draw();
    let to = scene.another(from);
    moves::step_by_step(&scene.cluster, slot, to, &mut scene.dice);
}

/// The tool moves the first slots of a node, up to that of the queue which is nearest to its start.
fn reshard(scene: &mut Scene, tool: &[String]) {
    let place_of = |queue: &String| {
        let slot = scene.cluster.slot_of(queue);
        let owner = scene.cluster.owner(slot);
        (slots_up_to(&scene.cluster, owner, slot), owner)
    };
    let (slots, from) = scene.queues.iter().map(place_of).min().expect("there are queues");
    let to = scene.another(from);
    if slots <= MOST_SLOTS {
        moves::reshard(tool, &scene.cluster, from, to, slots);
    } else {
        step_by_step(scene);
    }
}

/// How many slots of a node have to be moved from its first one on, so that this one is among them.
fn slots_up_to(cluster: &Cluster, owner: usize, slot: u16) -> u16 {
    let seen = cluster.seen_by(&cluster.nodes[owner]);
    let own = seen.iter().find(|seen| seen.id == cluster.nodes[owner].id).expect("it knows itself");
    (0..=slot).filter(|slot| own.owns(*slot)).count() as u16
}

#[test]
fn slots_that_move_in_one_piece_under_load_lose_nothing() {
    let _alone = alone();
    if !one_piece_works() {
        return;
    }
    let mut scene = Scene::begin(1, PATIENT_MS);
    for _ in rounds(3 * ROUNDS) {
        scene.work_on(50);
        let (_, slot, from) = scene.draw();
        let to = scene.another(from);
        moves::in_one_piece(&scene.cluster, slot, to);
    }
    assert!(scene.way.count("MOVED") > 0);
    assert_eq!([scene.way.count("ASK"), scene.way.count("TRYAGAIN")], [0, 0], "the slot moves in one piece");
    scene.end();
}

fn one_piece_works() -> bool {
    let works = moves::in_one_piece_works(&Server::builder().cluster_node().start());
    if !works {
        eprintln!("skipped: this server has no CLUSTER MIGRATESLOTS; Valkey has it from 9.0 on");
    }
    works
}

/// How long after its slot is handed over a waiter may wait to be sent away, and a lease to end that is over.
const PROMPT: Duration = Duration::from_secs(3);

#[test]
fn a_queue_whose_slot_moves_key_by_key_goes_on_at_the_new_owner_by_itself() {
    goes_on(|cluster, slot, to| moves::step_by_step(cluster, slot, to, &mut Dice(1)));
}

#[test]
fn a_queue_whose_slot_moves_in_one_piece_goes_on_at_the_new_owner_by_itself() {
    if one_piece_works() {
        goes_on(|cluster, slot, to| {
            let (source, target) = (&cluster.nodes[cluster.owner(slot)].server, &cluster.nodes[to].server);
            source.run(&["DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", "1"]);
            moves::begin_in_one_piece(cluster, slot, to);
            wait_for("the keys to be at both", || count(target, slot) == count(source, slot));
            // The target looks at all that it has. What it does not own it leaves alone: this lease ends once.
            target.set("enabled", "no");
            target.set("enabled", "yes");
            let mut held = source.queue("{moved}:held");
            held.push("while it moves");
            held.claim_and_lapse();
            held.unwatched();
            source.run(&["DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", "0"]);
            moves::wait_until_moved(cluster, slot, to);
        });
    }
}

fn count(server: &Server, slot: u16) -> Value {
    server.run(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()])
}

/// Moves a slot with queues that clients wait for and that have jobs in every state, and looks at each.
fn goes_on(move_slot: impl FnOnce(&Cluster, u16, usize)) {
    let cluster = Cluster::start(0, PATIENT_MS);
    let slot = cluster.slot_of("{moved}:held");
    let from = cluster.owner(slot);
    let to = (from + 1) % cluster.nodes.len();
    let (source, target) = (&cluster.nodes[from].server, &cluster.nodes[to].server);

    let mut held = source.queue("{moved}:held");
    held.push("held");
    let job = held.claim_with(args!["LEASE", "4s"]).remove(0);
    let lease_end = held.score("leased", &job.id).expect("it is leased");
    held.unwatched();
    let mut emptied = source.queue("{moved}:emptied");
    let only = emptied.push_and_claim("x");
    emptied.ack(&only.receipt);
    let mut later = source.queue("{moved}:later");
    later.ok("PUSH", args!["later", "DELAY", "5s"]);
    for queue in [&mut emptied, &mut later] {
        queue.unwatched();
    }

    let names = ["{moved}:emptied", "{moved}:later", "{moved}:never-there"];
    let waiting = names.map(|name| wait_for_job(source.port, name));
    wait_for("three to wait", || source.info("dq", "dq_waiting") == "3");
    move_slot(&cluster, slot, to);
    let handed_over = Instant::now();

    // Without a command to help, and not a moment too late: the lease ends at the new owner.
    let mut there = target.queue("{moved}:held");
    there.unwatched();
    let may_end = lease_end.max(there.now());
    there.wait_lapse(&job.id);
    let late = there.now() - may_end;
    assert!(late < PROMPT.as_millis() as i64, "the lease ended {late} ms late");
    assert!(held.call("STATS", vec![]).is_err());
    for waiting in waiting {
        let (answer, at) = waiting.join().expect("the waiter ends well");
        let error = error_text(&answer.expect_err("the queue is elsewhere"));
        assert!(["UNBLOCKED", "MOVED"].contains(&error.split(' ').next().unwrap_or_default()), "{error}");
        assert!(at < handed_over + PROMPT, "sent away {:?} after the slot was", at - handed_over);
    }

    let waiting = names.map(|name| wait_for_job(target.port, name));
    wait_for("two to wait at the new owner", || ["2", "3"].contains(&target.info("dq", "dq_waiting").as_str()));
    for name in ["{moved}:emptied", "{moved}:never-there"] {
        target.queue(name).unwatched().push(name);
    }
    for (waiting, payload) in waiting.into_iter().zip(["{moved}:emptied", "later", "{moved}:never-there"]) {
        let (answer, _) = waiting.join().expect("the waiter ends well");
        let job = Job::of(&list(&answer.expect("a job"))[0]);
        assert_eq!(job.payload, payload.as_bytes());
    }
    there.watched();
    let jobs = there.claim_n(10);
    assert!(jobs.iter().any(|again| again.id == job.id), "{jobs:?}");
    assert!(jobs.iter().all(|job| job.attempt == 2), "each lapsed once: {jobs:?}");
    wait_for("the source to have forgotten all", || source.info("dq", "dq_queues") == "0");
    cluster.assert_no_foreign_keys();
}

type Waiting = std::thread::JoinHandle<(redis::RedisResult<Value>, Instant)>;

/// A worker that waits for a job for ever.
fn wait_for_job(port: u16, queue: &'static str) -> Waiting {
    let mut con = Direct::to(port).expect("the server is there").0;
    std::thread::spawn(move || {
        con.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
        let answer = redis::cmd("DQ.CLAIM").arg(queue).arg("BLOCK").arg(0).query(&mut con);
        (answer, Instant::now())
    })
}

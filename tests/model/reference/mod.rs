//! The reference: DQ as DESIGN and the documents describe it, in plain Rust. It is told what each command answered, says
//! whether that was right, and takes over what only the server can know: the ids and the receipts that it makes, and what
//! jitter adds. It shares no code with the module.

pub mod job;
pub mod openings;
pub mod queue;

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use openings::Openings;
use queue::{Id, Live, Place, Queue, Receipt, Scene};

use crate::common::msgpack::Record;
use crate::settings;

/// A server that the boot clock shows to have done nothing for so long stood still, in µs.
const STANDSTILL_US: u64 = 1_500_000;

/// What is pushed.
#[derive(Clone, Debug, Default)]
pub struct NewJob {
    pub id: Option<Id>,
    pub payload: Vec<u8>,
    /// Queue time at which it is due.
    pub due: u64,
    pub retries: Option<u64>,
    pub lease: Option<u64>,
    pub backoff: Option<(u64, u64)>,
}

/// How a caller's ids are taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taking {
    pub keep: Option<u64>,
    pub replace: bool,
}

/// What a push comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pushed {
    Made,
    Replaced,
    Duplicate,
}

/// A client that waits.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// Its queues by their places.
    pub queues: Vec<usize>,
    pub count: u64,
    pub lease: Option<u64>,
    pub rotates: bool,
    /// Boot time in µs.
    pub deadline: Option<u64>,
}

/// What a waiter is told.
#[derive(Clone, Debug)]
pub enum Told {
    /// The jobs that it gets, of the queue of that place.
    Jobs(usize, Vec<Id>),
    Nothing,
    Unblocked,
}

/// The numbers of which ids and births are made.
#[derive(Clone, Copy, Default)]
pub struct Numbers {
    /// The newest that the server drew since it started.
    newest: u64,
    /// The time of the newest that it may have met when it started.
    ahead: u64,
}

/// A server and its queues.
#[derive(Clone)]
pub struct World {
    pub scene: Scene,
    pub boot_us: u64,
    pub wall_us: u64,
    pub openings: Openings,
    pub queues: Vec<Queue>,
    pub receipts: Vec<(usize, Receipt)>,
    pub waiter: Option<Waiter>,
    /// What the waiter has been told and the test has not yet read.
    pub told: Option<Told>,
    /// What the world may be instead, see [`World::pass`] and [`World::take_turns`].
    pub others: Vec<World>,
    order: Order,
    lives: u64,
    /// Rotating claims that were served.
    turns: u64,
    pub numbers: Numbers,
    receipt_texts: HashSet<String>,
}

type Check<T = ()> = Result<T, String>;

const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The number of an id that the server made.
pub fn number_of(id: &[u8]) -> Option<u64> {
    if id.len() != 11 {
        return None;
    }
    id.iter().try_fold(0u64, |number, byte| {
        let digit = DIGITS.iter().position(|other| other == byte)? as u64;
        number.checked_mul(62)?.checked_add(digit)
    })
}

/// The ms at which it was made.
pub fn ms_of(number: u64) -> u64 {
    number >> 22
}

impl World {
    pub fn new(boot_us: u64, wall_us: u64, now_us: u64, server: BTreeMap<&'static str, u64>) -> World {
        World {
            scene: Scene { now_us, server: Rc::new(server) },
            boot_us,
            wall_us,
            openings: Openings::default(),
            queues: Vec::new(),
            receipts: Vec::new(),
            waiter: None,
            told: None,
            others: Vec::new(),
            order: Order::ByTime,
            lives: 0,
            turns: 0,
            numbers: Numbers::default(),
            receipt_texts: HashSet::new(),
        }
    }

    pub fn now(&self) -> u64 {
        self.scene.now()
    }

    pub fn setting(&self, name: &str) -> u64 {
        self.scene.server[name]
    }

    pub fn is_enabled(&self) -> bool {
        self.setting("enabled") == 0
    }

    /// Runs `act` on a queue as a command that writes does.
    pub fn change<T>(&mut self, q: usize, act: impl FnOnce(&mut Queue, &Scene) -> T) -> T {
        let scene = self.scene.clone();
        let queue = &mut self.queues[q];
        let was_known = queue.known.is_some();
        queue.begin(&scene);
        let outcome = act(queue, &scene);
        queue.end(&scene, was_known);
        outcome
    }

    /// Queue time of a time of the wall clock, in ms; now where that has passed.
    pub fn queue_time_of(&self, at: u64) -> u64 {
        let wait_us = (at * 1000).saturating_sub(self.wall_us);
        if wait_us == 0 {
            self.now()
        } else {
            (self.scene.now_us + wait_us).div_ceil(1000)
        }
    }

    /// What becomes of each of `jobs`, or the code of the refusal. Nothing changes yet.
    pub fn plan_push(&self, q: usize, jobs: &[NewJob], taking: Taking) -> Result<Vec<Pushed>, &'static str> {
        let (scene, mut queue) = (&self.scene, self.queues[q].clone());
        let max = queue.rule(scene, "max-payload");
        if max > 0 && jobs.iter().any(|job| job.payload.len() as u64 > max) {
            return Err("DQSIZE");
        }
        let plan: Vec<Pushed> = (0u32..)
            .zip(jobs)
            .map(|(place, job)| {
                let id = job.id.clone().unwrap_or_else(|| format!("new {place}").into_bytes());
                push_one(&mut queue, scene, &id, job, taking, 0)
            })
            .collect();
        let (max, made) = (self.queues[q].rule(scene, "max-length"), plan.contains(&Pushed::Made));
        if max > 0 && made && queue.jobs.len() as u64 > max {
            return Err("DQFULL");
        }
        Ok(plan)
    }

    /// Pushes the jobs, whose ids were answered.
    pub fn push(&mut self, q: usize, jobs: &[NewJob], taking: Taking, ids: &[Id]) -> Check {
        for (job, id) in jobs.iter().zip(ids) {
            match &job.id {
                Some(own) if own != id => return Err(format!("the id of {} was answered", id.escape_ascii())),
                Some(_) => {}
                None => self.take_number(q, id)?,
            }
            self.lives += 1;
            let life = self.lives;
            let pushed = self.change(q, |queue, scene| push_one(queue, scene, id, job, taking, life));
            let figure = match pushed {
                Pushed::Made => "pushed",
                Pushed::Duplicate => "deduplicated",
                Pushed::Replaced => continue,
            };
            self.queues[q].count(figure, 1);
        }
        Ok(())
    }

    /// Checks an id that the server made now.
    fn take_number(&mut self, q: usize, id: &[u8]) -> Check {
        let shown = id.escape_ascii();
        let number = number_of(id).ok_or(format!("{shown} is no id"))?;
        if number <= self.numbers.newest {
            return Err(format!("the id {shown} does not come behind the one before"));
        }
        if self.queues[q].jobs.contains_key(id) || self.queues[q].dead.contains_key(id) {
            return Err(format!("the id {shown} is there already"));
        }
        self.check_time(number)?;
        self.numbers.newest = number;
        Ok(())
    }

    /// A number is of the time at which it is drawn, unless others are of a time yet to come.
    fn check_time(&self, number: u64) -> Check {
        let (made, now) = (ms_of(number), self.now());
        let latest = self.numbers.ahead.max(ms_of(self.numbers.newest)).max(now.saturating_sub(1)) + 1;
        if (now..=latest).contains(&made) && (made == now || latest > now) {
            Ok(())
        } else {
            Err(format!("the number drawn is of {made}, and it is {now}"))
        }
    }

    /// Takes over the number that was drawn at the push of a caller's id.
    pub fn take_birth(&mut self, birth: u64) -> Check {
        self.check_time(birth)?;
        self.numbers.newest = self.numbers.newest.max(birth);
        Ok(())
    }

    /// Takes over the receipt of a claim that has just been made.
    pub fn take_receipt(&mut self, q: usize, id: &[u8], text: String) -> Check {
        let fine = !text.is_empty()
            && text.len() <= 160
            && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(&byte));
        if !fine {
            return Err(format!("{text:?} is no receipt"));
        }
        if !self.receipt_texts.insert(format!("{q} {text}")) {
            return Err(format!("the receipt {text} named a claim before"));
        }
        let job = &self.queues[q].jobs[id];
        let receipt = Receipt { text, id: id.to_vec(), life: job.life, claim: job.record.claims + 1 };
        self.receipts.push((q, receipt));
        Ok(())
    }

    /// Claims from the first of the queues that has jobs; that one and its jobs.
    pub fn claim(&mut self, queues: &[usize], count: u64, lease: Option<u64>, rotates: bool) -> (usize, Vec<Id>) {
        for q in self.in_turn(queues, rotates) {
            let jobs = self.change(q, |queue, scene| queue.claim(scene, count, lease));
            if !jobs.is_empty() {
                self.note_turn(q, rotates);
                self.note_work(queues);
                return (q, jobs);
            }
        }
        (queues[0], Vec::new())
    }

    /// The queues in the order in which a claim looks at them.
    fn in_turn(&self, queues: &[usize], rotates: bool) -> Vec<usize> {
        let mut queues = queues.to_vec();
        if rotates {
            queues.sort_by_key(|q| self.queues[*q].known.as_ref().map_or(0, |known| known.served));
        }
        queues
    }

    fn note_turn(&mut self, q: usize, rotates: bool) {
        if let (true, Some(known)) = (rotates, &mut self.queues[q].known) {
            self.turns += 1;
            known.served = self.turns;
        }
    }

    /// A claim named these queues, whichever of them gave jobs.
    fn note_work(&mut self, queues: &[usize]) {
        for q in queues {
            self.queues[*q].note_work(&self.scene);
        }
    }

    pub fn stand_in_line(&mut self, waiter: Waiter) {
        let scene = self.scene.clone();
        for q in &waiter.queues {
            self.queues[*q].begin(&scene);
        }
        self.waiter = Some(waiter);
    }

    pub fn waits_for(&self, q: usize) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| waiter.queues.contains(&q))
    }

    /// Whether so much time at once, in µs, is one in which the server stood still.
    pub fn stands_still(&self, us: u64) -> bool {
        us >= STANDSTILL_US && self.is_enabled() && self.openings.is_open()
    }

    /// Time passes, and all that is due by then is done.
    pub fn pass(&mut self, us: u64) {
        self.boot_us += us;
        self.wall_us += us;
        self.scene.now_us += us;
        if self.stands_still(us) {
            let (now, grace) = (self.now(), self.setting("takeover-grace"));
            self.openings.jumped(now - us / 1000, now, grace);
        }
        // A turn that has much to do, or too little of the machine, ends a wait before it has done all else.
        let mut early = self.as_other(Order::LeasesFirst);
        early.end_wait();
        self.take_turns();
        self.end_wait();
        self.others.iter_mut().for_each(World::end_wait);
        if early.told.is_some() {
            early.take_turns();
            self.others.push(early);
        }
    }

    fn as_other(&self, order: Order) -> World {
        World { order, others: Vec::new(), ..self.clone() }
    }

    fn end_wait(&mut self) {
        if self.waiter.as_ref().is_some_and(|waiter| waiter.deadline.is_some_and(|at| at <= self.boot_us)) {
            self.waiter = None;
            self.told = Some(Told::Nothing);
        }
    }

    /// Does by itself what is due, in the order in which it became due. Where things of several kinds are due in one turn,
    /// the module may do either first, for what it planned for one of them may be gone: `others` are those worlds.
    pub fn take_turns(&mut self) {
        if !self.is_enabled() {
            return;
        }
        let grace = self.setting("takeover-grace");
        self.openings.open(self.now(), grace);
        loop {
            let tasks = self.due_tasks();
            let Some((_, task, q)) = tasks.first().copied() else { break };
            let is_mixed = tasks.iter().any(|(_, other, _)| *other != task);
            if is_mixed && self.others.is_empty() && self.order == Order::ByTime {
                for order in [Order::LeasesFirst, Order::UpkeepFirst] {
                    let mut other = self.as_other(order);
                    other.take_turns();
                    self.others.push(other);
                }
            }
            self.run(q, task);
        }
    }

    /// Goes on as one of the others.
    pub fn become_other(&mut self, place: usize) {
        *self = World { order: Order::ByTime, ..self.others.swap_remove(place) };
    }

    fn run(&mut self, q: usize, task: Task) {
        let scene = self.scene.clone();
        match task {
            Task::Leases => self.queues[q].end_leases(&scene),
            Task::Serve => self.serve(),
            Task::Upkeep => self.look_over(q),
        }
    }

    /// What is due, in the order in which it is done.
    fn due_tasks(&self) -> Vec<(u64, Task, usize)> {
        let (now, grace) = (self.now(), self.openings.grace_until);
        let mut tasks = Vec::new();
        for (q, queue) in self.queues.iter().enumerate() {
            let Some(known) = &queue.known else { continue };
            if now >= grace {
                tasks.extend(queue.leased().first().map(|(ends, _)| ((*ends).max(grace), Task::Leases, q)));
                tasks.push((known.upkeep_at.max(grace), Task::Upkeep, q));
            }
            if self.waits_for(q) && !queue.is_paused() && queue.room(&self.scene) > 0 {
                let first = queue.jobs.values().filter_map(Live::due_at).min();
                tasks.extend(first.map(|at| (at, Task::Serve, q)));
            }
        }
        tasks.retain(|(at, ..)| *at <= now);
        match self.order {
            Order::ByTime => tasks.sort(),
            Order::LeasesFirst => tasks.sort_by_key(|(at, task, q)| (*task, *at, *q)),
            Order::UpkeepFirst => tasks.sort_by_key(|(at, task, q)| (std::cmp::Reverse(*task), *at, *q)),
        }
        tasks
    }

    /// Whether the queue has something for those who wait.
    fn has_claimable(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        !queue.is_paused() && queue.room(&self.scene) > 0 && !queue.due_until(self.now()).is_empty()
    }

    /// Serves the waiter, of a queue of which has something for it.
    fn serve(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        let scene = self.scene.clone();
        let mut queues = self.in_turn(&waiter.queues, waiter.rotates).into_iter();
        let Some(q) = queues.find(|q| self.has_claimable(*q)) else { return };
        let jobs = self.queues[q].claim(&scene, waiter.count, waiter.lease);
        self.note_turn(q, waiter.rotates);
        self.told = Some(Told::Jobs(q, jobs));
    }

    fn look_over(&mut self, q: usize) {
        let (scene, now) = (self.scene.clone(), self.now());
        let has_waiters = self.waits_for(q);
        let queue = &mut self.queues[q];
        let since = self.openings.since(now, queue.rule(&scene, "stale-after"));
        queue.purge_stale(&scene, since, has_waiters);
        queue.sweep_ids(now);
        queue.trim_dead(&scene);
        let Some(known) = &mut queue.known else { return };
        known.upkeep_at = now + scene.server["purge-interval"];
        let is_over = now - known.last_change >= scene.server["idle-queue-ttl"];
        if is_over && queue.is_idle() {
            queue.header = None;
        }
        if !queue.exists() {
            queue.known = None;
        }
    }

    /// A setting of the server has another value.
    pub fn set(&mut self, name: &'static str, value: u64) {
        let was_enabled = self.is_enabled();
        let server = Rc::make_mut(&mut self.scene.server);
        server.insert(name, value);
        let now = self.now();
        if !self.is_enabled() {
            self.openings.close(now);
            if self.waiter.take().is_some() {
                self.told = Some(Told::Unblocked);
            }
        } else if !was_enabled {
            self.meet_all();
        } else if name == "purge-interval" {
            self.hurry_upkeep(now + value);
        } else if name == "takeover-grace" {
            self.openings.shorten_grace(now, value);
            self.hurry_upkeep(now + value);
        }
    }

    /// Every queue is looked over at `at`, or before.
    fn hurry_upkeep(&mut self, at: u64) {
        for known in self.queues.iter_mut().filter_map(|queue| queue.known.as_mut()) {
            known.upkeep_at = known.upkeep_at.min(at);
        }
    }

    /// A node that acts finds the queues that there are.
    fn find_queues(&mut self) {
        let (scene, acts) = (self.scene.clone(), self.is_enabled());
        self.queues.iter_mut().filter(|queue| acts && queue.exists()).for_each(|queue| queue.begin(&scene));
    }

    fn meet_all(&mut self) {
        self.find_queues();
        let at = self.now() + self.setting("purge-interval");
        for known in self.queues.iter_mut().filter_map(|queue| queue.known.as_mut()) {
            known.upkeep_at = at;
        }
    }

    /// The server was ended and has started again, or has loaded its data anew: the figures begin at zero.
    pub fn restart(&mut self, is_reload: bool) {
        if !is_reload {
            self.scene.now_us = self.wall_us;
        }
        self.openings = Openings::default();
        self.queues.iter_mut().for_each(|queue| queue.known = None);
        self.waiter = None;
        self.meet_all();
        // A number may come again that belongs to nothing any more.
        let present = self.queues.iter().flat_map(|queue| queue.jobs.keys().chain(queue.dead.keys()));
        let ids = present.filter_map(|id| number_of(id));
        let live = self.queues.iter().flat_map(|queue| queue.jobs.values().map(|job| job.record.birth));
        let dead = self.queues.iter().flat_map(|queue| queue.dead.values().map(|letter| letter.record.birth));
        let ahead = ids.chain(live.chain(dead).flatten()).map(ms_of).max().unwrap_or(0);
        self.numbers = Numbers { newest: 0, ahead };
    }
}

/// Does one push, whatever else stands in its way.
fn push_one(queue: &mut Queue, scene: &Scene, id: &Id, job: &NewJob, taking: Taking, life: u64) -> Pushed {
    let pushed = match queue.jobs.get(id) {
        Some(live) if live.due_at().is_some() && taking.replace => Pushed::Replaced,
        Some(_) => Pushed::Duplicate,
        None if job.id.is_some() && queue.ids.get(id).is_some_and(|until| *until > scene.now()) => Pushed::Duplicate,
        None => Pushed::Made,
    };
    if pushed == Pushed::Duplicate {
        return pushed;
    }
    queue.make_header(scene);
    if job.id.is_some() {
        let keep = taking.keep.unwrap_or_else(|| queue.rule(scene, "id-keep"));
        let until = scene.now() + keep;
        if keep > 0 && queue.ids.get(id).is_none_or(|taken| *taken < until) {
            queue.ids.insert(id.clone(), until);
        }
    }
    let record = Record {
        payload: job.payload.clone(),
        retries: job.retries,
        lease: job.lease,
        backoff_base: job.backoff.map(|(base, _)| base),
        backoff_cap: job.backoff.map(|(_, cap)| cap),
        ..Record::default()
    };
    let place = Place::Due { at: job.due, up_to: job.due };
    queue.jobs.insert(id.clone(), Live { record, place, life, is_newborn: job.id.is_some() });
    pushed
}

/// In which order one turn does what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    ByTime,
    LeasesFirst,
    UpkeepFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Leases,
    Serve,
    Upkeep,
}

/// The server's settings as they are by default, with `changes`.
pub fn server_settings(changes: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    let mut all: BTreeMap<_, _> = settings::ALL.iter().map(|setting| (setting.name, setting.default)).collect();
    all.extend(changes.iter().copied());
    all
}

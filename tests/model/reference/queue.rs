//! One queue as the contract has it: its jobs, its dead letters, the ids that are taken, its header, its figures.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::job::{self, Next, Rules, Worth};
use super::number_of;
use crate::common::msgpack::Record;

pub type Id = Vec<u8>;

/// When a step happens, and what the server's settings are.
#[derive(Clone)]
pub struct Scene {
    /// Queue time in µs.
    pub now_us: u64,
    pub server: Rc<BTreeMap<&'static str, u64>>,
}

impl Scene {
    pub fn now(&self) -> u64 {
        self.now_us / 1000
    }

    /// The first ms by which `ms` have passed; at once is now.
    pub fn after(&self, ms: u64) -> u64 {
        if ms == 0 {
            self.now()
        } else {
            self.now_us.div_ceil(1000) + ms
        }
    }
}

#[derive(Clone, Debug)]
pub enum Place {
    /// Due at a time that jitter may have made later than `at`, and `up_to` at most.
    Due {
        at: u64,
        up_to: u64,
    },
    Leased {
        ends: u64,
    },
}

/// A job that is due or leased.
#[derive(Clone, Debug)]
pub struct Live {
    pub record: Record,
    pub place: Place,
    /// Tells the jobs apart that had the same id one after the other.
    pub life: u64,
    /// Whether the number that is drawn at the push of a caller's id is still to be read.
    pub is_newborn: bool,
}

impl Live {
    pub fn due_at(&self) -> Option<u64> {
        match self.place {
            Place::Due { at, .. } => Some(at),
            Place::Leased { .. } => None,
        }
    }

    /// Where the job stands among those of its ms: by the number that was drawn at its push. One that is still to be read is
    /// larger than those before, and the pushes are numbered here, too.
    fn order(&self, id: &[u8]) -> (u64, u64) {
        let number = if self.is_newborn { None } else { self.record.birth.or_else(|| number_of(id)) };
        (number.unwrap_or(u64::MAX), self.life)
    }

    pub fn lease_ends(&self) -> Option<u64> {
        match self.place {
            Place::Due { .. } => None,
            Place::Leased { ends } => Some(ends),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Letter {
    pub reason: String,
    pub record: Record,
    pub at: u64,
    pub life: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    pub made: u64,
    pub paused: Option<u64>,
    pub rules: BTreeMap<&'static str, u64>,
}

/// One claim of one job.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub text: String,
    pub id: Id,
    pub life: u64,
    pub claim: u64,
}

/// What the node remembers of a queue.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub counts: BTreeMap<&'static str, u64>,
    /// How late each claim was, in µs.
    pub late_us: Vec<u64>,
    pub worked_on: u64,
    pub last_change: u64,
    pub resumed_at: u64,
    /// When the queue is looked over next.
    pub upkeep_at: u64,
    /// The number of the last rotating claim that the queue served.
    pub served: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Queue {
    pub name: Vec<u8>,
    pub header: Option<Header>,
    pub jobs: BTreeMap<Id, Live>,
    pub dead: BTreeMap<Id, Letter>,
    pub ids: BTreeMap<Id, u64>,
    pub known: Option<Known>,
}

/// What a receipt stands for.
pub enum Named {
    Job(Worth),
    /// For a letter of the reason `lapses-exhausted` or `stale`.
    Letter,
    Nothing,
}

impl Queue {
    pub fn exists(&self) -> bool {
        self.header.is_some() || self.has_companions()
    }

    pub fn has_companions(&self) -> bool {
        !(self.jobs.is_empty() && self.dead.is_empty() && self.ids.is_empty())
    }

    pub fn count(&mut self, figure: &'static str, more: u64) {
        if let Some(known) = &mut self.known {
            *known.counts.entry(figure).or_default() += more;
        }
    }

    /// A command is about to act on the queue.
    pub fn begin(&mut self, scene: &Scene) {
        let interval = scene.server["purge-interval"];
        self.known.get_or_insert_with(|| Known {
            worked_on: scene.now(),
            last_change: scene.now(),
            upkeep_at: scene.now() + interval,
            ..Known::default()
        });
    }

    /// It has acted; `was_known` says whether the queue was known before.
    pub fn end(&mut self, scene: &Scene, was_known: bool) {
        if !was_known && !self.exists() {
            self.known = None;
        } else if let Some(known) = &mut self.known {
            known.last_change = scene.now();
        }
    }

    /// The value of a setting that counts here.
    pub fn rule(&self, scene: &Scene, name: &str) -> u64 {
        let own = self.header.as_ref().and_then(|header| header.rules.get(name));
        *own.or_else(|| scene.server.get(name)).unwrap_or(&0)
    }

    pub fn job_rules(&self, scene: &Scene) -> Rules {
        Rules {
            max_retries: self.rule(scene, "max-retries"),
            max_lapses: self.rule(scene, "max-lapses"),
            backoff_base: self.rule(scene, "backoff-base"),
            backoff_cap: self.rule(scene, "backoff-cap"),
            backoff_jitter: self.rule(scene, "backoff-jitter"),
        }
    }

    pub fn lease_ms(&self, scene: &Scene, record: &Record, asked: Option<u64>) -> u64 {
        let lease = asked.or(record.lease).unwrap_or_else(|| self.rule(scene, "lease"));
        lease.min(scene.server["max-lease"])
    }

    pub fn is_paused(&self) -> bool {
        self.header.as_ref().is_some_and(|header| header.paused.is_some())
    }

    pub fn make_header(&mut self, scene: &Scene) {
        let made = scene.now();
        self.header.get_or_insert_with(|| Header { made, paused: None, rules: BTreeMap::new() });
    }

    /// Jobs that are due by `until`, first come first: of one ms in push order.
    pub fn due_until(&self, until: u64) -> Vec<Id> {
        let entry =
            |(id, job): (&Id, &Live)| Some((job.due_at().filter(|at| *at <= until)?, job.order(id), id.clone()));
        let mut due: Vec<(u64, (u64, u64), Id)> = self.jobs.iter().filter_map(entry).collect();
        due.sort();
        due.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Leased jobs, the first to end first.
    pub fn leased(&self) -> Vec<(u64, Id)> {
        let mut leased: Vec<(u64, Id)> =
            self.jobs.iter().filter_map(|(id, job)| Some((job.lease_ends()?, id.clone()))).collect();
        leased.sort();
        leased
    }

    /// Letters, the first to die first.
    pub fn letters(&self) -> Vec<Id> {
        let mut letters: Vec<(u64, &Id)> = self.dead.iter().map(|(id, letter)| (letter.at, id)).collect();
        letters.sort();
        letters.into_iter().map(|(_, id)| id.clone()).collect()
    }

    fn leased_len(&self) -> u64 {
        self.jobs.values().filter(|job| job.lease_ends().is_some()).count() as u64
    }

    /// How many more jobs may be leased.
    pub fn room(&self, scene: &Scene) -> u64 {
        match self.rule(scene, "max-leased") {
            0 => u64::MAX,
            max => max.saturating_sub(self.leased_len()),
        }
    }

    /// A job is about to leave its lease: the queue was worked on until now.
    fn unlease(&mut self, scene: &Scene, id: &[u8]) {
        if self.jobs.get(id).is_some_and(|job| job.lease_ends().is_some()) {
            self.note_work(scene);
        }
    }

    pub fn note_work(&mut self, scene: &Scene) {
        if let Some(known) = &mut self.known {
            known.worked_on = scene.now();
        }
    }

    /// What a claim takes: up to `count` due jobs.
    pub fn claim(&mut self, scene: &Scene, count: u64, lease: Option<u64>) -> Vec<Id> {
        self.note_work(scene);
        if self.is_paused() {
            return Vec::new();
        }
        let count = count.min(self.room(scene));
        let taken: Vec<Id> = self.due_until(scene.now()).into_iter().take(count as usize).collect();
        for id in &taken {
            let job = &self.jobs[id];
            let late_us = scene.now_us - job.due_at().expect("it is due") * 1000;
            let ends = scene.after(self.lease_ms(scene, &job.record, lease));
            self.jobs.get_mut(id).expect("it is there").place = Place::Leased { ends };
            if let Some(known) = &mut self.known {
                known.late_us.push(late_us);
            }
        }
        self.count("claimed", taken.len() as u64);
        taken
    }

    pub fn named(&self, receipt: &Receipt) -> Named {
        if let Some(job) = self.jobs.get(&receipt.id) {
            let is_leased = job.lease_ends().is_some();
            return if job.life != receipt.life {
                Named::Nothing
            } else if is_leased && receipt.claim == job.record.claims + 1 {
                Named::Job(Worth::Current)
            } else if !is_leased && job.record.late && receipt.claim == job.record.claims {
                Named::Job(Worth::Late)
            } else {
                Named::Nothing
            };
        }
        match self.dead.get(&receipt.id) {
            Some(letter)
                if letter.life == receipt.life
                    && ["lapses-exhausted", "stale"].contains(&letter.reason.as_str())
                    && letter.record.late
                    && letter.record.claims == receipt.claim =>
            {
                Named::Letter
            }
            _ => Named::Nothing,
        }
    }

    pub fn ack(&mut self, scene: &Scene, receipt: &Receipt) -> bool {
        match self.named(receipt) {
            Named::Job(_) => {
                self.unlease(scene, &receipt.id);
                self.jobs.remove(&receipt.id);
            }
            Named::Letter => {
                self.dead.remove(&receipt.id);
            }
            Named::Nothing => {
                self.count("lease-lost", 1);
                return false;
            }
        }
        self.count("acked", 1);
        true
    }

    pub fn extend(&mut self, scene: &Scene, receipt: &Receipt, ms: u64) -> bool {
        let Named::Job(worth) = self.named(receipt) else {
            self.count("lease-lost", 1);
            return false;
        };
        let job = self.jobs.get_mut(&receipt.id).expect("it is live");
        if worth == Worth::Late {
            job::take_back(&mut job.record);
        }
        job.place = Place::Leased { ends: scene.after(ms) };
        true
    }

    pub fn release(&mut self, scene: &Scene, receipt: &Receipt, delay: u64) -> bool {
        let Named::Job(worth) = self.named(receipt) else {
            self.count("lease-lost", 1);
            return false;
        };
        self.unlease(scene, &receipt.id);
        let job = self.jobs.get_mut(&receipt.id).expect("it is live");
        job::release(&mut job.record, worth);
        let at = scene.after(delay);
        job.place = Place::Due { at, up_to: at };
        self.count("released", 1);
        true
    }

    /// RETRY: the least and the most ms until it is due, none where it died; an error where the receipt is stale.
    pub fn retry(
        &mut self,
        scene: &Scene,
        receipt: &Receipt,
        delay: Option<u64>,
        note: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<Option<(u64, u64)>, ()> {
        let Named::Job(worth) = self.named(receipt) else {
            self.count("lease-lost", 1);
            return Err(());
        };
        let (rules, max_error) = (self.job_rules(scene), self.rule(scene, "max-error"));
        let job = self.jobs.get_mut(&receipt.id).expect("it is live");
        job::note(&mut job.record, note.0, note.1, max_error);
        match job::retry(&mut job.record, worth, delay, &rules) {
            Next::In(least, most) => {
                self.make_due(scene, &receipt.id, least, most);
                self.count("retried", 1);
                Ok(Some((least, most)))
            }
            Next::Dead => {
                self.bury(scene, &receipt.id, "retries-exhausted");
                self.count("failed", 1);
                Ok(None)
            }
        }
    }

    pub fn fail(&mut self, scene: &Scene, receipt: &Receipt, note: (Option<&[u8]>, Option<&[u8]>)) -> bool {
        let max_error = self.rule(scene, "max-error");
        match self.named(receipt) {
            Named::Job(worth) => {
                let job = self.jobs.get_mut(&receipt.id).expect("it is live");
                job::fail(&mut job.record, worth);
                job::note(&mut job.record, note.0, note.1, max_error);
                self.bury(scene, &receipt.id, "failed");
            }
            Named::Letter => {
                let letter = self.dead.get_mut(&receipt.id).expect("it is live");
                letter.reason = "failed".into();
                letter.record.late = false;
                job::note(&mut letter.record, note.0, note.1, max_error);
            }
            Named::Nothing => {
                self.count("lease-lost", 1);
                return false;
            }
        }
        self.count("failed", 1);
        true
    }

    fn make_due(&mut self, scene: &Scene, id: &[u8], least: u64, most: u64) {
        self.unlease(scene, id);
        let job = self.jobs.get_mut(id).expect("it is there");
        job.place = Place::Due { at: scene.after(least), up_to: scene.after(most) };
    }

    /// A live job becomes a dead letter, and its id is free.
    pub fn bury(&mut self, scene: &Scene, id: &[u8], reason: &str) {
        if self.dead.contains_key(id) {
            self.count("dead-evicted", 1);
        } else if self.rule(scene, "dead-max") > 0 {
            let over = (self.dead.len() as u64 + 1).saturating_sub(self.rule(scene, "dead-max"));
            // One death pushes out one letter, and works off one more where the bound was lowered.
            self.evict(over.min(2));
        }
        self.unlease(scene, id);
        let job = self.jobs.remove(id).expect("a job that dies lives");
        self.ids.remove(id);
        let letter = Letter { reason: reason.into(), record: job.record, at: scene.now(), life: job.life };
        self.dead.insert(id.to_vec(), letter);
    }

    fn evict(&mut self, count: u64) {
        for id in self.letters().into_iter().take(count as usize) {
            self.dead.remove(&id);
            self.count("dead-evicted", 1);
        }
    }

    /// A job goes for good, and its id is free.
    pub fn remove_job(&mut self, scene: &Scene, id: &[u8]) {
        self.unlease(scene, id);
        self.jobs.remove(id);
        self.ids.remove(id);
    }

    /// Ends the leases that ran out.
    pub fn end_leases(&mut self, scene: &Scene) {
        let rules = self.job_rules(scene);
        for (ends, id) in self.leased() {
            if ends > scene.now() {
                break;
            }
            let job = self.jobs.get_mut(&id).expect("it is leased");
            match job::lapse(&mut job.record, &rules) {
                Next::In(least, most) => self.make_due(scene, &id, least, most),
                Next::Dead => self.bury(scene, &id, "lapses-exhausted"),
            }
            self.count("lapsed", 1);
        }
    }

    /// Deals with the jobs that nobody claimed from `since` on. `has_waiters`: somebody waits for the queue.
    pub fn purge_stale(&mut self, scene: &Scene, since: Option<u64>, has_waiters: bool) {
        let Some(known) = &mut self.known else { return };
        let Some(since) = since else { return };
        if known.resumed_at > since || self.header.as_ref().is_some_and(|header| header.paused.is_some()) {
            return;
        }
        let was_worked_on = known.worked_on > since || has_waiters;
        known.counts.insert("stale-held", 0);
        if was_worked_on || self.leased_len() > 0 {
            return;
        }
        let (policy, dead_max) = (self.rule(scene, "stale-policy"), self.rule(scene, "dead-max"));
        let stale = if policy == 2 { Vec::new() } else { self.due_until(since) };
        for (place, id) in stale.iter().enumerate() {
            if policy == 0 && dead_max > 0 && self.dead.len() as u64 >= dead_max {
                self.count("stale-held", (stale.len() - place) as u64);
                return;
            }
            self.count("stale-purged", 1);
            if policy == 0 {
                self.bury(scene, id, "stale");
            } else {
                self.remove_job(scene, id);
            }
        }
    }

    /// Frees the ids whose time is over.
    pub fn sweep_ids(&mut self, now: u64) {
        self.ids.retain(|_, until| *until > now);
    }

    /// Evicts what is over `dead-max` or older than `dead-max-age`.
    pub fn trim_dead(&mut self, scene: &Scene) {
        let max = match self.rule(scene, "dead-max") {
            0 => u64::MAX,
            max => max,
        };
        self.evict((self.dead.len() as u64).saturating_sub(max));
        let age = self.rule(scene, "dead-max-age");
        if age > 0 {
            let aged = self.dead.values().filter(|letter| letter.at + age <= scene.now()).count();
            self.evict(aged as u64);
        }
    }

    /// Whether the queue has only a header that says nothing.
    pub fn is_idle(&self) -> bool {
        let says = |header: &Header| header.paused.is_some() || !header.rules.is_empty();
        !self.has_companions() && !self.header.as_ref().is_some_and(says)
    }
}

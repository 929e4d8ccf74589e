//! The account: where each single job is, how it came there, and whether that is what was planned.

use std::collections::{BTreeMap, BTreeSet};

use super::common::msgpack::Record;
use super::crew::Fate;
use super::diary::{Claim, Diary, End, JobKey};
use super::plan::{Outcome, Plan, Task, ASKED_LEASE_MS, JITTER_PERCENT, LEASE_MS, MAX_LAPSES};

/// A dead letter as the keys have it.
pub struct Letter {
    pub reason: String,
    pub record: Record,
    /// In ms.
    pub died_at: u64,
}

/// What the jobs of one outcome came to.
#[derive(Default)]
pub struct Row {
    pub jobs: u64,
    pub finished: u64,
    pub dead: BTreeMap<&'static str, u64>,
    pub claims: u64,
    pub failures: u64,
    pub lapses: u64,
    /// Jobs that took as many attempts as planned, and no more for lapses of their neighbours' making.
    pub as_planned: u64,
    pub most_attempts: u64,
}

/// Why leases ran out.
#[derive(Default)]
pub struct Lapses {
    /// The worker was killed while it waited in this job.
    pub in_the_job: u64,
    /// The worker was killed for another job, or at random.
    pub with_the_worker: u64,
    /// The worker was too slow.
    pub slow: u64,
    /// The worker did not get an answer.
    pub unanswered: u64,
    /// The worker did not get the claim.
    pub unseen: u64,
}

pub struct Account<'a> {
    plan: &'a Plan,
    diary: &'a Diary,
    fates: &'a [Fate],
    letters: &'a BTreeMap<String, Letter>,
    /// By how much the clocks of this machine moved against each other, in µs.
    drift_us: u64,
    pub rows: BTreeMap<Outcome, Row>,
    pub lapses: Lapses,
    /// Acknowledgements whose answer was lost with the server or the worker, and which did finish their job.
    pub finished_unanswered: u64,
    /// Pushes without an answer that did arrive.
    pub arrived_unanswered: u64,
    pub problems: Vec<String>,
}

impl<'a> Account<'a> {
    pub fn new(
        plan: &'a Plan,
        diary: &'a Diary,
        fates: &'a [Fate],
        letters: &'a BTreeMap<String, Letter>,
        drift_us: u64,
    ) -> Account<'a> {
        let mut account = Account {
            plan,
            diary,
            fates,
            letters,
            drift_us,
            rows: BTreeMap::new(),
            lapses: Lapses::default(),
            finished_unanswered: 0,
            arrived_unanswered: 0,
            problems: diary.problems.clone(),
        };
        account.judge_all();
        account
    }

    fn judge_all(&mut self) {
        let mut claims: BTreeMap<JobKey, Vec<&'a Claim>> = BTreeMap::new();
        let mut receipts = BTreeSet::new();
        for claim in &self.diary.claims {
            claims.entry(claim.key).or_default().push(claim);
            if !receipts.insert(&claim.receipt) {
                self.problem(claim.key, &format!("the receipt {} was given twice", claim.receipt));
            }
        }
        let mut ids = BTreeSet::new();
        for task in &self.plan.tasks {
            if self.diary.pushes.range((task.serial, 0)..=(task.serial, u8::MAX)).next().is_none() {
                self.problems.push(format!("job {}: never pushed", task.serial));
            }
        }
        let lost = self.diary.lost.keys().filter(|key| !self.diary.pushes.contains_key(key));
        let keys: Vec<JobKey> = self.diary.pushes.keys().chain(lost).copied().collect();
        for key in keys {
            let mut story = claims.remove(&key).unwrap_or_default();
            story.sort_by_key(|claim| claim.attempt);
            if let Some(id) = self.judge(key, &story) {
                if !ids.insert(id.clone()) {
                    self.problem(key, &format!("another job has its id {id}"));
                }
            }
        }
        for key in claims.into_keys() {
            self.problem(key, "was claimed and never pushed");
        }
        for id in self.letters.keys().filter(|id| !ids.contains(*id)) {
            self.problems.push(format!("the dead letter {id} was never pushed"));
        }
    }

    fn problem(&mut self, key: JobKey, what: &str) {
        let outcome = self.plan.tasks[key.0 as usize].outcome.name();
        self.problems.push(format!("job {}.{} ({outcome}): {what}", key.0, key.1));
    }

    /// Judges one job; gives its id, where it was there at all.
    fn judge(&mut self, key: JobKey, story: &[&'a Claim]) -> Option<String> {
        let (plan, diary) = (self.plan, self.diary);
        let task = &plan.tasks[key.0 as usize];
        let push = diary.pushes.get(&key);
        if push.is_none() {
            if story.is_empty() {
                return None;
            }
            self.arrived_unanswered += 1;
        }
        self.rows.entry(task.outcome).or_default().jobs += 1;
        let Some(last) = story.last() else {
            self.problem(key, "was never claimed");
            return push.map(|push| push.id.clone());
        };
        let id = push.map_or(&last.id, |push| &push.id);
        if let (Some(push), None) = (push, diary.lost.get(&key)) {
            self.not_before(key, "its first claim", story[0], push.due - u64::from(task.at));
        }
        let mut expected = (0, 0);
        for (i, claim) in story.iter().enumerate() {
            if claim.id != *id {
                self.problem(key, &format!("was pushed as {id} and claimed as {}", claim.id));
            }
            self.judge_claim(key, task, claim);
            let counts = counts_of(task, claim);
            match i.checked_sub(1).map(|before| story[before]) {
                None => {
                    let unseen = counts.1;
                    self.lapses.unseen += unseen;
                    expected.1 += unseen;
                }
                Some(before) => expected = self.judge_step(key, task, before, claim, expected),
            }
            if counts != expected {
                let what = format!("claim {} counts {counts:?} failures and lapses, not {expected:?}", claim.attempt);
                self.problem(key, &what);
                expected = counts;
            }
        }
        self.judge_fate(key, task, story, id);
        Some(id.clone())
    }

    /// What one claim tells for itself.
    fn judge_claim(&mut self, key: JobKey, task: &Task, claim: &Claim) {
        if !claim.same {
            self.problem(key, "came with another payload");
        }
        let lease = if claim.asked { ASKED_LEASE_MS } else { task.lease.unwrap_or(LEASE_MS) };
        if claim.lease != lease {
            self.problem(key, &format!("was leased for {} ms, not {lease}", claim.lease));
        }
        if claim.retries_left > task.retry_limit() || claim.attempt < 1 {
            self.problem(key, &format!("attempt {}, retries left {}", claim.attempt, claim.retries_left));
        }
        if let End::Retried(ms) = claim.end() {
            let failures = counts_of(task, claim).0 + 1;
            let (least, most) = match task.retry_delay {
                Some(delay) => (delay, delay),
                None => (task.backoff(failures), task.backoff(failures) * (100 + JITTER_PERCENT) / 100),
            };
            if !(least..=most).contains(&ms) {
                self.problem(key, &format!("RETRY answered {ms} ms after failure {failures}, not {least} to {most}"));
            }
        }
        let killed = self.fates[claim.worker] != Fate::Running;
        let unfinished = match claim.end() {
            End::Nothing => true,
            End::Unknown => claim.act.as_ref().is_some_and(|act| act.answer.is_none()),
            _ => false,
        };
        if unfinished && !killed {
            self.problem(key, &format!("worker {} did nothing with attempt {}", claim.worker, claim.attempt));
        }
        if let (End::Refused, Some(act)) = (claim.end(), &claim.act) {
            self.problem(key, &format!("{} was answered {:?}", act.kind, act.answer));
        }
        if claim.end() == End::Stale && !claim.may_be_late() {
            self.problem(key, &format!("the receipt {} was stale within its lease", claim.receipt));
        }
    }

    /// From one claim of a job to the next that a worker saw: gives the failures and lapses that the next must show.
    fn judge_step(
        &mut self,
        key: JobKey,
        task: &Task,
        before: &Claim,
        after: &Claim,
        (failures, lapses): (u64, u64),
    ) -> (u64, u64) {
        let Some(unseen) = after.attempt.checked_sub(before.attempt + 1) else {
            self.problem(key, &format!("attempt {} was handed out twice", after.attempt));
            return counts_of(task, after);
        };
        self.lapses.unseen += unseen;
        let retried = match before.end() {
            End::Done | End::Dead => {
                self.problem(key, &format!("was handed out again after its end in attempt {}", before.attempt));
                return counts_of(task, after);
            }
            End::Retried(_) => true,
            End::Stale | End::Nothing | End::Refused => false,
            End::Unknown => counts_of(task, after).0 > failures,
        };
        if retried {
            let wait = match before.end() {
                End::Retried(ms) => ms,
                _ => 0,
            };
            let act_at = before.act.as_ref().map_or(0, |act| act.before).max(before.before);
            self.not_before(key, "the claim after its RETRY", after, act_at / 1000 + wait);
            return (failures + 1, lapses + unseen);
        }
        self.explain_lapse(before);
        let wait = if lapses > 0 { task.backoff(lapses) } else { 0 };
        let free_at = before.before / 1000 + before.lease + wait;
        self.not_before(key, "the claim after its lease", after, free_at);
        (failures, lapses + 1 + unseen)
    }

    /// Fails unless the claim was made at `at` ms or later, by the server's clock after it.
    fn not_before(&mut self, key: JobKey, what: &str, claim: &Claim, at: u64) {
        let early = (at * 1000).saturating_sub(claim.after + self.drift_us);
        if early > 0 {
            self.problem(key, &format!("{what} came at least {early} µs too early"));
        }
    }

    fn explain_lapse(&mut self, claim: &Claim) {
        let cause = match claim.end() {
            End::Nothing if claim.crashed && self.fates[claim.worker] == Fate::KilledInJob => {
                &mut self.lapses.in_the_job
            }
            End::Nothing => &mut self.lapses.with_the_worker,
            End::Unknown => &mut self.lapses.unanswered,
            _ => &mut self.lapses.slow,
        };
        *cause += 1;
    }

    /// How it ended, and whether that is its planned outcome.
    fn judge_fate(&mut self, key: JobKey, task: &Task, story: &[&Claim], id: &str) {
        let last = story[story.len() - 1];
        let done = story.iter().filter(|claim| claim.end() == End::Done).count();
        let (mut failures, mut lapses) = counts_of(task, last);
        let mut attempts = last.attempt;
        match (self.letters.get(id), task.outcome.reason()) {
            (None, None) => {
                let unanswered = last.act.as_ref().is_some_and(|act| act.kind == "ack") && last.end() == End::Unknown;
                if done == 0 && unanswered {
                    self.finished_unanswered += 1;
                } else if done != 1 {
                    self.problem(key, &format!("was finished {done} times; its last claim: {:?}", last.end()));
                }
                self.row(task).finished += 1;
            }
            (None, Some(reason)) => self.problem(key, &format!("is no dead letter, but was to be {reason}")),
            (Some(letter), None) => {
                self.problem(key, &format!("is dead: {}; finished {done} times", letter.reason));
            }
            (Some(letter), Some(reason)) => {
                if letter.reason != reason || done > 0 {
                    self.problem(key, &format!("is dead: {}, not {reason}; finished {done} times", letter.reason));
                }
                *self.row(task).dead.entry(reason).or_default() += 1;
                attempts = self.judge_letter(key, task, last, letter);
                (failures, lapses) = (letter.record.failures, letter.record.lapses);
            }
        }
        let row = self.row(task);
        row.claims += story.len() as u64;
        row.failures += failures;
        row.lapses += lapses;
        row.most_attempts = row.most_attempts.max(attempts);
        row.as_planned += u64::from(attempts == task.attempts());
        // Attempts are failures and lapses, and each lapse beyond the planned ones has been explained for itself. A slow
        // worker is in time after all where all others are busy.
        let least = if task.outcome == Outcome::Slow { 0 } else { task.lapses() };
        if failures != task.failures() || lapses < least {
            let (planned, at_least) = (task.failures(), task.lapses());
            let what = format!("{failures} failures, {lapses} lapses, not {planned} and {at_least} or more");
            self.problem(key, &what);
        }
    }

    /// The letter, field by field; gives how many attempts there were.
    fn judge_letter(&mut self, key: JobKey, task: &Task, last: &Claim, letter: &Letter) -> u64 {
        let (failures, lapses) = counts_of(task, last);
        let record = &letter.record;
        let mut expected = Record {
            payload: self.plan.payload(task, key.1),
            // It is a number of the server's; that it is one at all is what can be known.
            birth: record.birth.filter(|birth| *birth > 0 && task.own_id.is_some()),
            failures,
            lapses,
            claims: last.attempt,
            retries: task.retries,
            lease: task.lease,
            backoff_base: task.backoff.map(|(base, _)| base),
            backoff_cap: task.backoff.map(|(_, cap)| cap),
            ..Record::default()
        };
        if task.own_id.is_some() && record.birth.is_none() {
            self.problem(key, "has an id of its own and no birth");
        }
        match task.outcome {
            Outcome::CrashAlways | Outcome::RetryThenCrash => {
                self.explain_lapse(last);
                let unseen = record.lapses.saturating_sub(lapses + 1);
                self.lapses.unseen += unseen;
                expected.lapses = MAX_LAPSES;
                expected.claims += unseen;
                expected.late = true;
                if failures > 0 {
                    (expected.error, expected.stack) = task.note(key.1, "retry", failures);
                }
            }
            Outcome::UsedUp => {
                expected.failures += 1;
                (expected.error, expected.stack) = task.note(key.1, "retry", expected.failures);
            }
            _ => {
                if last.may_be_late() && record.lapses == lapses + 1 {
                    self.lapses.slow += 1;
                    expected.lapses += 1;
                }
                (expected.error, expected.stack) = task.note(key.1, "fail", failures + 1);
            }
        }
        if *record != expected {
            let what = format!("its letter is not as expected: {}", difference(record, &expected));
            self.problem(key, &what);
        }
        if letter.died_at * 1000 + 1000 + self.drift_us < last.before {
            self.problem(key, "died before its last claim");
        }
        // A FAIL ends a claim that counts neither as a failure nor as a lapse.
        expected.claims
    }

    fn row(&mut self, task: &Task) -> &mut Row {
        self.rows.entry(task.outcome).or_default()
    }

    /// All outcomes together.
    pub fn total(&self) -> Row {
        let mut total = Row::default();
        self.rows.values().for_each(|row| total.add(row));
        total
    }

    /// The table, one line for each outcome.
    pub fn table(&self) -> String {
        let mut text = format!(
            "  {:<17}{:>7}{:>10}{:>8}{:>11}{:>10}{:>8}{:>10}{:>8}{:>11}{:>14}\n",
            "planned",
            "jobs",
            "finished",
            "failed",
            "exhausted",
            "lease-exp",
            "claims",
            "failures",
            "lapses",
            "as-planned",
            "most-attempts"
        );
        let rows = self.rows.iter().map(|(outcome, row)| row.line(outcome.name()));
        text.extend(rows);
        text.push_str(&self.total().line("all"));
        text
    }
}

impl Row {
    fn add(&mut self, other: &Row) {
        self.jobs += other.jobs;
        self.finished += other.finished;
        for (reason, count) in &other.dead {
            *self.dead.entry(reason).or_default() += count;
        }
        self.claims += other.claims;
        self.failures += other.failures;
        self.lapses += other.lapses;
        self.as_planned += other.as_planned;
        self.most_attempts = self.most_attempts.max(other.most_attempts);
    }

    fn line(&self, name: &str) -> String {
        let dead = |reason| self.dead.get(reason).copied().unwrap_or(0);
        format!(
            "  {name:<17}{:>7}{:>10}{:>8}{:>11}{:>10}{:>8}{:>10}{:>8}{:>11}{:>14}\n",
            self.jobs,
            self.finished,
            dead("failed"),
            dead("retries-exhausted"),
            dead("lapses-exhausted"),
            self.claims,
            self.failures,
            self.lapses,
            self.as_planned,
            self.most_attempts
        )
    }
}

/// The failures and lapses that a claim shows.
fn counts_of(task: &Task, claim: &Claim) -> (u64, u64) {
    let failures = task.retry_limit().saturating_sub(claim.retries_left);
    (failures, claim.attempt.saturating_sub(failures + 1))
}

/// The fields in which two records differ, without their payloads.
fn difference(left: &Record, right: &Record) -> String {
    let bare = |record: &Record| Record { payload: Vec::new(), ..record.clone() };
    let payload = if left.payload == right.payload { "the same payload" } else { "another payload" };
    format!("{payload}, {:?}, not {:?}", bare(left), bare(right))
}

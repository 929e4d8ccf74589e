//! Each command: what is sent for it, and what it must answer.

use std::collections::HashSet;

use redis::Value;

use crate::args;
use crate::common::bytes;
use crate::ops::{IdOptions, IdRef, JobOptions, Op, Wait, Which};
use crate::reference::queue::{Id, Live, Named, Place, Queue, Receipt};
use crate::reference::{job, ms_of, number_of, NewJob, Pushed, Taking, Waiter};
use crate::run::{expect, refused, Check, Reply, Run};
use crate::settings;

pub const STATES: [&str; 4] = ["ready", "delayed", "leased", "dead"];
const REASONS: [&str; 4] = ["failed", "retries-exhausted", "lapses-exhausted", "stale"];
const OWN_IDS: [&str; 4] = ["a", "b:1", "c\"'\\d", "~00000000000~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~"];
/// A receipt that names no claim.
const NOBODYS: &str = "00000000001:1";

fn payload(place: usize) -> Vec<u8> {
    match place {
        0 => b"x".to_vec(),
        1 => Vec::new(),
        2 => b"a\0b%s%n\xff\xfe\r\n".to_vec(),
        3 => "größe 日本語 🦀".as_bytes().to_vec(),
        4 => vec![b'y'; 5000],
        5 => vec![b'z'; 4096],
        6 => (0..=255).collect(),
        _ => vec![0; 70_000],
    }
}

fn text(place: usize) -> Vec<u8> {
    match place {
        0 => b"boom".to_vec(),
        1 => Vec::new(),
        2 => "größe 日本語 🦀".as_bytes().to_vec(),
        3 => b"a\0b%s%n".to_vec(),
        4 => vec![b'e'; 300],
        5 => b"\xff\xfe\xc3".to_vec(),
        _ => "日本".as_bytes().to_vec(),
    }
}

/// A duration in one of its spellings.
fn duration(ms: u64) -> Vec<u8> {
    if ms > 0 && ms.is_multiple_of(60_000) {
        format!("{}M", ms / 60_000).into_bytes()
    } else if ms > 0 && ms.is_multiple_of(1000) {
        format!("{}s", ms / 1000).into_bytes()
    } else if ms.is_multiple_of(2) {
        ms.to_string().into_bytes()
    } else {
        format!("{ms}ms").into_bytes()
    }
}

fn number(value: u64) -> Value {
    Value::Int(i64::try_from(value).expect("it is small"))
}

fn bulk(text: impl AsRef<[u8]>) -> Value {
    Value::BulkString(text.as_ref().to_vec())
}

fn numbers(values: impl IntoIterator<Item = i64>) -> Value {
    Value::Array(values.into_iter().map(Value::Int).collect())
}

type Group = Vec<Vec<u8>>;

impl Run<'_> {
    pub fn take(&mut self, op: &Op) -> Check {
        match op {
            Op::Push { q, payload, own, wait, options } => self.push(*q, *payload, own.as_ref(), *wait, options),
            Op::MpushPayloads { q, payloads, wait, options } => self.mpush_payloads(*q, payloads, *wait, options),
            Op::MpushJobs { q, jobs, ids, options } => self.mpush_jobs(*q, jobs, ids, options),
            Op::Claim { q, count, lease } => self.claim(*q, *count, *lease),
            Op::Mclaim { first, count, lease, rotate } => self.mclaim(*first, *count, *lease, *rotate),
            Op::Block { q, several, count, lease, ms, rotate } => {
                self.block(*q, *several, *count, *lease, *ms, *rotate)
            }
            Op::Ack { q, receipts, each } => self.ack(*q, receipts, *each),
            Op::Extend { q, ms, receipts } => self.extend(*q, *ms, receipts),
            Op::Retry { q, receipt, delay, error, stack } => self.retry(*q, *receipt, *delay, *error, *stack),
            Op::Release { q, delay, receipts } => self.release(*q, *delay, receipts),
            Op::Fail { q, receipt, error, stack } => self.fail(*q, *receipt, *error, *stack),
            Op::Get { q, id } => self.get(*q, *id),
            Op::Peek { q, state, count } => self.peek(*q, *state, *count),
            Op::Cancel { q, state, ids } => self.cancel(*q, *state, ids),
            Op::Reschedule { q, wait, which } => self.reschedule(*q, *wait, which),
            Op::Replay { q, reason, count, delay, spread, which } => {
                self.replay(*q, *reason, *count, *delay, *spread, which)
            }
            Op::Purge { q, states } => self.purge(*q, states),
            Op::Drop { q, force } => self.drop(*q, *force),
            Op::Pause { q } => self.pause(*q),
            Op::Resume { q } => self.resume(*q),
            Op::ConfigGet { q, field } => self.config_get(*q, *field),
            Op::ConfigSet { q, values } => self.config_set(*q, values),
            Op::ConfigReset { q, fields } => self.config_reset(*q, fields),
            Op::Queues { pattern } => self.queues(*pattern),
            Op::Server { name, value } => self.server_setting(name, *value),
            Op::Advance { us } => self.advance(*us),
            Op::AdvanceToNext { off, us } => self.advance_to_next(*off, *us),
            Op::Outage { grace } => self.outage(*grace),
            Op::Wall { hours } => self.set_wall(*hours),
            Op::Restart(how) => self.restart(*how),
            Op::Harm { q, harm, at } => self.harm(*q, *harm, *at),
            Op::Refused { q, which, number } => self.refused(*q, *which, *number),
            Op::WrongType { key, command } => self.wrong_type(*key, *command),
        }
    }

    /// Options in the order and the case of this step.
    fn options(&self, mut groups: Vec<Group>) -> Vec<Vec<u8>> {
        if !groups.is_empty() {
            let places = self.turn % groups.len();
            groups.rotate_left(places);
        }
        if self.turn % 2 == 1 {
            groups.iter_mut().for_each(|group| group[0].make_ascii_lowercase());
        }
        groups.concat()
    }

    fn queue(&self, q: usize) -> &Queue {
        &self.world.queues[q]
    }

    fn rule(&self, q: usize, name: &str) -> u64 {
        self.queue(q).rule(&self.world.scene, name)
    }

    /// Whether a lease that is asked for is one.
    fn lease_fits(&self, lease: Option<u64>) -> bool {
        lease.is_none_or(|lease| lease <= self.world.setting("max-lease"))
    }

    /// A receipt of the queue, the latest first: of those that still stand, or at every fourth place of all.
    fn receipt(&self, q: usize, place: usize) -> Receipt {
        let nobodys = Receipt { text: NOBODYS.into(), id: b"00000000001".to_vec(), life: 0, claim: 1 };
        if place == usize::MAX {
            return nobodys;
        }
        let all = || self.world.receipts.iter().rev().filter(|(other, _)| *other == q).map(|(_, receipt)| receipt);
        let stand: Vec<&Receipt> =
            all().filter(|receipt| !matches!(self.queue(q).named(receipt), Named::Nothing)).collect();
        let some = if place % 4 == 3 || stand.is_empty() { all().collect() } else { stand };
        some.get(place % some.len().max(1)).map_or(nobodys, |receipt| (*receipt).clone())
    }

    pub fn recent_receipt(&self, q: usize) -> String {
        self.receipt(q, 0).text
    }

    fn receipts(&self, q: usize, places: &[usize]) -> (Vec<Vec<u8>>, Vec<Receipt>) {
        let receipts: Vec<Receipt> = places.iter().map(|place| self.receipt(q, *place)).collect();
        (receipts.iter().map(|receipt| receipt.text.clone().into_bytes()).collect(), receipts)
    }

    fn id(&self, q: usize, id: IdRef) -> Id {
        match id {
            IdRef::Own(place) => OWN_IDS[place].into(),
            IdRef::Present(place) => one_of(self.queue(q).jobs.keys().chain(self.queue(q).dead.keys()), place),
            IdRef::Dead(place) => one_of(self.queue(q).dead.keys(), place),
        }
    }

    /// Ids, each once.
    fn ids(&self, q: usize, ids: &[IdRef]) -> (Vec<Id>, Vec<Id>) {
        let all: Vec<Id> = ids.iter().map(|id| self.id(q, *id)).collect();
        let mut met = HashSet::new();
        let once = all.iter().filter(|id| met.insert((*id).clone())).cloned().collect();
        (all, once)
    }

    /// The option that says when a job is due, the queue time, and whether that is too far ahead.
    fn wait(&self, q: usize, wait: Wait) -> (Option<Group>, u64, bool) {
        let (scene, max) = (&self.world.scene, self.rule(q, "max-delay"));
        match wait {
            Wait::No => (None, scene.now(), false),
            Wait::Delay(ms) => (Some(args!["DELAY", duration(ms)]), scene.after(ms), ms > max),
            Wait::At(off) => {
                let at = (self.world.wall_us / 1000).saturating_add_signed(off);
                let due = self.world.queue_time_of(at);
                (Some(args!["AT", at]), due.max(scene.now()), due - scene.now() > max)
            }
        }
    }

    fn job_options(&self, options: &JobOptions) -> Vec<Group> {
        let mut groups = Vec::new();
        groups.extend(options.retries.map(|retries| args!["RETRIES", retries]));
        groups.extend(options.lease.map(|lease| args!["LEASE", duration(lease)]));
        groups.extend(options.backoff.map(|(base, cap)| args!["BACKOFF", duration(base), duration(cap)]));
        groups
    }

    fn id_options(options: &IdOptions) -> Vec<Group> {
        let mut groups = Vec::new();
        groups.extend(options.keep.map(|keep| args!["KEEP", duration(keep)]));
        groups.extend(options.nx.then(|| args!["NX"]));
        groups.extend(options.replace.then(|| args!["REPLACE"]));
        groups
    }

    fn new_job(id: Option<usize>, place: usize, due: u64, options: &JobOptions) -> NewJob {
        NewJob {
            id: id.map(|id| OWN_IDS[id].into()),
            payload: payload(place),
            due,
            retries: options.retries,
            lease: options.lease,
            backoff: options.backoff,
        }
    }

    fn push(
        &mut self,
        q: usize,
        place: usize,
        own: Option<&(usize, IdOptions)>,
        wait: Wait,
        options: &JobOptions,
    ) -> Check {
        let (due_option, due, too_far) = self.wait(q, wait);
        let mut groups = self.job_options(options);
        groups.extend(due_option);
        if let Some((id, options)) = own {
            groups.push(args!["ID", OWN_IDS[*id]]);
            groups.extend(Self::id_options(options));
        }
        let reply = self.call("PUSH", q, [args![payload(place)], self.options(groups)].concat());
        let job = Self::new_job(own.map(|(id, _)| *id), place, due, options);
        let ids = own.map_or(IdOptions { keep: None, nx: false, replace: false }, |(_, options)| options.clone());
        let reply = reply.map(|one| Value::Array(vec![one]));
        self.check_push(q, &[job], &ids, options, too_far, &reply)
    }

    fn mpush_payloads(&mut self, q: usize, places: &[usize], wait: Wait, options: &JobOptions) -> Check {
        let (due_option, due, too_far) = self.wait(q, wait);
        let mut groups = self.job_options(options);
        groups.extend(due_option);
        let mut words = self.options(groups);
        words.extend(args!["PAYLOADS"]);
        words.extend(places.iter().map(|place| payload(*place)));
        let reply = self.call("MPUSH", q, words);
        let jobs: Vec<NewJob> = places.iter().map(|place| Self::new_job(None, *place, due, options)).collect();
        let ids = IdOptions { keep: None, nx: false, replace: false };
        self.check_push(q, &jobs, &ids, options, too_far, &reply)
    }

    fn mpush_jobs(
        &mut self,
        q: usize,
        list: &[(Option<usize>, u64, usize)],
        ids: &IdOptions,
        options: &JobOptions,
    ) -> Check {
        let groups = [self.job_options(options), Self::id_options(ids)].concat();
        let mut words = self.options(groups);
        words.extend(args!["JOBS"]);
        let (mut jobs, mut too_far) = (Vec::new(), false);
        for (id, delay, place) in list {
            words.extend(args![id.map_or("", |id| OWN_IDS[id]), duration(*delay), payload(*place)]);
            let (_, due, is_far) = self.wait(q, Wait::Delay(*delay));
            too_far |= is_far;
            jobs.push(Self::new_job(*id, *place, due, options));
        }
        let reply = self.call("MPUSH", q, words);
        self.check_push(q, &jobs, ids, options, too_far, &reply)
    }

    fn check_push(
        &mut self,
        q: usize,
        jobs: &[NewJob],
        ids: &IdOptions,
        options: &JobOptions,
        too_far: bool,
        reply: &Reply,
    ) -> Check {
        if !self.lease_fits(options.lease) {
            // Which of two errors is told is nobody's promise.
            return refused(reply, "ERR").or_else(|e| if too_far { refused(reply, "DQDELAY") } else { Err(e) });
        }
        let taking = Taking { keep: ids.keep, replace: ids.replace };
        let plan = self.world.plan_push(q, jobs, taking);
        if too_far || plan.is_err() {
            self.world.change(q, |_, _| ());
        }
        if refused(reply, "DQFULL").is_ok() {
            self.world.queues[q].count("refused-full", 1);
        }
        if too_far {
            return refused(reply, "DQDELAY").or_else(|e| plan.map_or_else(|code| refused(reply, code), |_| Err(e)));
        }
        let plan = match plan {
            Ok(plan) => plan,
            Err(code) => return refused(reply, code),
        };
        let Ok(Value::Array(answers)) = reply else { return Err("ids were to be answered".into()) };
        if answers.len() != jobs.len() {
            return Err(format!("{} ids were to be answered", jobs.len()));
        }
        let mut answered = Vec::new();
        for ((job, pushed), answer) in jobs.iter().zip(plan).zip(answers) {
            match (answer, &job.id) {
                (Value::Nil, Some(id)) if ids.nx && pushed == Pushed::Duplicate => answered.push(id.clone()),
                (Value::BulkString(id), _) if !(ids.nx && pushed == Pushed::Duplicate) => answered.push(id.clone()),
                _ => return Err(format!("{answer:?} was answered for {pushed:?}")),
            }
        }
        self.world.push(q, jobs, taking, &answered)
    }

    fn claim(&mut self, q: usize, count: Option<u64>, lease: Option<u64>) -> Check {
        let words = self.options(claim_options(count, lease));
        let reply = self.call("CLAIM", q, words);
        self.check_claim(&[q], count, lease, false, false, &reply)
    }

    fn mclaim(&mut self, first: usize, count: Option<u64>, lease: Option<u64>, rotate: Option<bool>) -> Check {
        let queues = self.both(first);
        let mut groups = claim_options(count, lease);
        groups.extend(rotate.map(|rotate| args!["ORDER", if rotate { "rotate" } else { "STRICT" }]));
        let words = [self.mclaim_words(&queues), self.options(groups)].concat();
        let reply = self.send(words);
        self.check_claim(&queues, count, lease, rotate.unwrap_or(false), true, &reply)
    }

    fn both(&self, first: usize) -> Vec<usize> {
        vec![first, 1 - first]
    }

    fn mclaim_words(&self, queues: &[usize]) -> Vec<Vec<u8>> {
        let mut words = args!["DQ.MCLAIM", queues.len()];
        words.extend(queues.iter().map(|q| self.queue(*q).name.clone()));
        words
    }

    fn check_claim(
        &mut self,
        queues: &[usize],
        count: Option<u64>,
        lease: Option<u64>,
        rotates: bool,
        several: bool,
        reply: &Reply,
    ) -> Check {
        if !self.lease_fits(lease) {
            return refused(reply, "ERR");
        }
        if !self.world.is_enabled() {
            return refused(reply, "DQDISABLED");
        }
        let (q, jobs) = self.world.claim(queues, count.unwrap_or(1), lease, rotates);
        self.check_jobs(q, &jobs, lease, several, reply)
    }

    /// The jobs of a claim as they are answered; the receipts are taken over.
    pub fn check_jobs(&mut self, q: usize, jobs: &[Id], lease: Option<u64>, several: bool, reply: &Reply) -> Check {
        let Ok(Value::Array(answers)) = reply else { return Err("jobs were to be answered".into()) };
        if answers.len() != jobs.len() {
            return Err(format!("{} jobs were to be answered", jobs.len()));
        }
        for (id, answer) in jobs.iter().zip(answers) {
            let Value::Array(fields) = answer else { return Err(format!("no job: {answer:?}")) };
            let Some(Value::BulkString(receipt)) = fields.first() else { return Err("no receipt".into()) };
            let (queue, scene) = (self.queue(q), &self.world.scene);
            let record = &queue.jobs[id].record;
            let retries = record.retries.unwrap_or(queue.rule(scene, "max-retries"));
            let mut expected = vec![
                bulk(receipt),
                bulk(&record.payload),
                bulk(id),
                number(1 + record.failures + record.lapses),
                number(queue.lease_ms(scene, record, lease)),
                number(retries.saturating_sub(record.failures)),
            ];
            expected.extend(several.then(|| bulk(&queue.name)));
            expect(&Ok(answer.clone()), &Value::Array(expected))?;
            let receipt = String::from_utf8(receipt.clone()).map_err(|e| e.to_string())?;
            self.world.take_receipt(q, id, receipt)?;
        }
        Ok(())
    }

    fn block(&mut self, q: usize, several: bool, count: u64, lease: Option<u64>, ms: u64, rotates: bool) -> Check {
        if self.waiting.is_some() || !self.lease_fits(lease) || !self.world.is_enabled() {
            return Ok(());
        }
        let queues = if several { self.both(q) } else { vec![q] };
        // One that is not there is forgotten by the turn that finds nobody waiting: before or after the wait has ended,
        // which its figures tell only later. tests/blocking waits for such queues.
        if queues.iter().any(|q| !self.world.queues[*q].exists()) {
            return Ok(());
        }
        let rotates = several && rotates;
        let mut groups = claim_options(Some(count), lease);
        groups.push(args!["BLOCK", duration(ms)]);
        groups.extend(rotates.then(|| args!["ORDER", "rotate"]));
        let head = if several { self.mclaim_words(&queues) } else { args!["DQ.CLAIM", &self.queue(q).name] };
        let words = [head, self.options(groups)].concat();
        self.trace.push(format!("      a client waits: {}", words.concat().escape_ascii()));
        let mut con = self.host.server.conn();
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| {
            command.arg(word);
        });
        con.send_packed_command(&command.get_packed_command()).map_err(|e| e.to_string())?;
        let (from, jobs) = self.world.claim(&queues, count, lease, rotates);
        if !jobs.is_empty() {
            con.set_read_timeout(Some(self.host.patience)).expect("it can be set");
            let reply = crate::look::reply_of(con.recv_response());
            return self.check_jobs(from, &jobs, lease, several, &reply);
        }
        let deadline = (ms > 0).then_some(self.world.boot_us + ms * 1000);
        self.world.stand_in_line(Waiter { queues, count, lease, rotates, deadline });
        self.waiting = Some((con, lease, several));
        Ok(())
    }

    fn ack(&mut self, q: usize, places: &[usize], each: bool) -> Check {
        let (mut words, receipts) = self.receipts(q, places);
        words.extend(each.then(|| if self.turn % 2 == 1 { b"each".to_vec() } else { b"EACH".to_vec() }));
        let reply = self.call("ACK", q, words);
        let done: Vec<i64> = self
            .world
            .change(q, |queue, scene| receipts.iter().map(|receipt| i64::from(queue.ack(scene, receipt))).collect());
        let expected = if each { numbers(done) } else { Value::Int(done.iter().sum()) };
        expect(&reply, &expected)
    }

    fn extend(&mut self, q: usize, ms: u64, places: &[usize]) -> Check {
        let (words, receipts) = self.receipts(q, places);
        let reply = self.call("EXTEND", q, [args![duration(ms)], words].concat());
        if !self.lease_fits(Some(ms)) {
            return refused(&reply, "ERR");
        }
        let left: Vec<i64> = self.world.change(q, |queue, scene| {
            receipts.iter().map(|receipt| if queue.extend(scene, receipt, ms) { ms as i64 } else { -1 }).collect()
        });
        expect(&reply, &numbers(left))
    }

    fn note(error: Option<usize>, stack: Option<usize>) -> Vec<Group> {
        let mut groups = Vec::new();
        groups.extend(error.map(|place| args!["ERROR", text(place)]));
        groups.extend(stack.map(|place| args!["STACK", text(place)]));
        groups
    }

    fn retry(
        &mut self,
        q: usize,
        place: usize,
        delay: Option<u64>,
        error: Option<usize>,
        stack: Option<usize>,
    ) -> Check {
        let receipt = self.receipt(q, place);
        let mut groups = Self::note(error, stack);
        groups.extend(delay.map(|delay| args!["DELAY", duration(delay)]));
        let words = self.options(groups);
        let reply = self.call("RETRY", q, [args![&receipt.text], words].concat());
        if delay.is_some_and(|delay| delay > self.rule(q, "max-delay")) {
            return refused(&reply, "DQDELAY");
        }
        let (error, stack) = (error.map(text), stack.map(text));
        let note = (error.as_deref(), stack.as_deref());
        match self.world.change(q, |queue, scene| queue.retry(scene, &receipt, delay, note)) {
            Err(()) => refused(&reply, "DQLOST"),
            Ok(None) => expect(&reply, &Value::Int(-1)),
            Ok(Some((least, most))) => match reply {
                Ok(Value::Int(ms)) if (least as i64..=most as i64).contains(&ms) => {
                    let at = self.world.scene.after(ms as u64);
                    let job = self.world.queues[q].jobs.get_mut(&receipt.id).expect("it is there");
                    job.place = Place::Due { at, up_to: at };
                    Ok(())
                }
                _ => Err(format!("the reply was to be {least} to {most} ms")),
            },
        }
    }

    fn release(&mut self, q: usize, delay: Option<u64>, places: &[usize]) -> Check {
        let (words, receipts) = self.receipts(q, places);
        let groups: Vec<Group> = delay.into_iter().map(|delay| args!["DELAY", duration(delay)]).collect();
        let words = [self.options(groups), args!["RECEIPTS"], words].concat();
        let reply = self.call("RELEASE", q, words);
        if delay.is_some_and(|delay| delay > self.rule(q, "max-delay")) {
            return refused(&reply, "DQDELAY");
        }
        let delay = delay.unwrap_or(0);
        let waits: Vec<i64> = self.world.change(q, |queue, scene| {
            receipts.iter().map(|one| if queue.release(scene, one, delay) { delay as i64 } else { -1 }).collect()
        });
        expect(&reply, &numbers(waits))
    }

    fn fail(&mut self, q: usize, place: usize, error: Option<usize>, stack: Option<usize>) -> Check {
        let receipt = self.receipt(q, place);
        let words = self.options(Self::note(error, stack));
        let reply = self.call("FAIL", q, [args![&receipt.text], words].concat());
        let (error, stack) = (error.map(text), stack.map(text));
        let note = (error.as_deref(), stack.as_deref());
        if self.world.change(q, |queue, scene| queue.fail(scene, &receipt, note)) {
            expect(&reply, &Value::Okay)
        } else {
            refused(&reply, "DQLOST")
        }
    }

    /// The map of one job, as GET and PEEK show it: the live one of that id unless the letter is meant.
    fn view(&self, q: usize, id: &Id, letter_is_meant: bool) -> Option<Value> {
        let (queue, scene) = (self.queue(q), &self.world.scene);
        let rules = queue.job_rules(scene);
        let live = queue.jobs.get(id).filter(|_| !letter_is_meant);
        let letter = queue.dead.get(id);
        let record = live.map(|job| &job.record).or(letter.map(|letter| &letter.record))?;
        let state = match live.map(|job| &job.place) {
            Some(Place::Leased { .. }) => "leased",
            Some(Place::Due { at, .. }) if *at <= scene.now() => "ready",
            Some(Place::Due { .. }) => "delayed",
            None => "dead",
        };
        let retries = record.retries.unwrap_or(rules.max_retries);
        let mut fields = vec![
            ("id", bulk(id)),
            ("state", bulk(state)),
            ("payload", bulk(&record.payload)),
            ("attempt", number(1 + record.failures + record.lapses)),
            ("failures", number(record.failures)),
            ("lapses", number(record.lapses)),
            ("releases", number(record.releases)),
            ("claims", number(record.claims)),
            ("retries-left", number(retries.saturating_sub(record.failures))),
            ("retries", number(retries)),
            ("lease-ms", number(queue.lease_ms(scene, record, None))),
            ("backoff-base-ms", number(record.backoff_base.unwrap_or(rules.backoff_base))),
            ("backoff-cap-ms", number(record.backoff_cap.unwrap_or(rules.backoff_cap))),
            ("pushed-at", record.birth.or(number_of(id)).map_or(Value::Nil, |number_| number(ms_of(number_)))),
        ];
        match (live.map(|job| &job.place), letter) {
            (Some(Place::Due { at, .. }), _) => fields.push(("due-at", number(*at))),
            (Some(Place::Leased { ends }), _) => fields.push(("lease-ends-at", number(*ends))),
            (None, Some(letter)) => {
                fields.push(("died-at", number(letter.at)));
                fields.push(("reason", bulk(&letter.reason)));
            }
            (None, None) => {}
        }
        fields.extend(record.error.iter().map(|text| ("error", bulk(text))));
        fields.extend(record.stack.iter().map(|text| ("stack", bulk(text))));
        Some(Value::Array(fields.into_iter().flat_map(|(name, value)| [bulk(name), value]).collect()))
    }

    fn get(&mut self, q: usize, id: IdRef) -> Check {
        let id = self.id(q, id);
        let reply = self.call("GET", q, vec![id.clone()]);
        expect(&reply, &self.view(q, &id, false).unwrap_or(Value::Nil))
    }

    /// The ids of one state, or of those that claims come to, in order.
    fn in_state(&self, q: usize, state: Option<usize>) -> Vec<Id> {
        let (queue, now) = (self.queue(q), self.world.now());
        let due = queue.due_until(u64::MAX);
        let is_ready = |id: &Id| queue.jobs[id].due_at().is_some_and(|at| at <= now);
        match state {
            None => due,
            Some(0) => due.into_iter().filter(|id| is_ready(id)).collect(),
            Some(1) => due.into_iter().filter(|id| !is_ready(id)).collect(),
            Some(2) => queue.leased().into_iter().map(|(_, id)| id).collect(),
            Some(_) => queue.letters(),
        }
    }

    /// Page after page.
    fn peek(&mut self, q: usize, state: Option<usize>, count: Option<u64>) -> Check {
        let ids = self.in_state(q, state);
        let size = count.unwrap_or(10) as usize;
        let pages: Vec<&[Id]> = if ids.is_empty() { vec![&[]] } else { ids.chunks(size).collect() };
        let mut cursor = b"0".to_vec();
        for (place, page) in pages.iter().enumerate() {
            let mut groups = Vec::new();
            groups.extend(state.map(|state| args!["STATE", STATES[state]]));
            groups.extend(count.map(|count| args!["COUNT", count]));
            if place > 0 || self.turn.is_multiple_of(2) {
                groups.push(args!["AFTER", cursor]);
            }
            let words = self.options(groups);
            let reply = self.call("PEEK", q, words);
            let next = match &reply {
                Ok(Value::Array(parts)) if parts.len() == 2 => bytes(&parts[0]),
                _ => return Err("no page".into()),
            };
            if (place + 1 == pages.len()) != (next == b"0") {
                return Err(format!("the cursor of page {place} of {} is {}", pages.len(), next.escape_ascii()));
            }
            let jobs = page.iter().map(|id| self.view(q, id, state == Some(3)).expect("it is there")).collect();
            expect(&reply, &Value::Array(vec![bulk(&next), Value::Array(jobs)]))?;
            cursor = next;
        }
        Ok(())
    }

    fn cancel(&mut self, q: usize, state: Option<usize>, ids: &[IdRef]) -> Check {
        let (all, once) = self.ids(q, ids);
        let words = state.map_or_else(Vec::new, |state| args!["STATE", STATES[state]]);
        let reply = self.call("CANCEL", q, [words, all].concat());
        let of_state: Option<Vec<Id>> = state.map(|state| self.in_state(q, Some(state)));
        let gone = self.world.change(q, |queue, scene| {
            let mut gone = 0;
            for id in &once {
                let is_meant = of_state.as_ref().is_none_or(|ids| ids.contains(id));
                let dead_is_meant = state.is_none_or(|state| state == 3);
                if is_meant && state != Some(3) && queue.jobs.contains_key(id) {
                    queue.remove_job(scene, id);
                } else if !(is_meant && dead_is_meant && queue.dead.remove(id).is_some()) {
                    continue;
                }
                gone += 1;
            }
            queue.count("cancelled", gone);
            gone
        });
        expect(&reply, &number(gone))
    }

    fn which(&self, q: usize, which: &Which) -> (Vec<Vec<u8>>, Option<Vec<Id>>) {
        match which {
            Which::All => (args!["ALL"], None),
            Which::Ids(ids) => {
                let (all, once) = self.ids(q, ids);
                ([args!["IDS"], all].concat(), Some(once))
            }
        }
    }

    fn reschedule(&mut self, q: usize, wait: Wait, which: &Which) -> Check {
        let wait = if matches!(wait, Wait::No) { Wait::Delay(0) } else { wait };
        let (option, to, too_far) = self.wait(q, wait);
        let (which, ids) = self.which(q, which);
        let words = [self.options(option.into_iter().collect()), which].concat();
        let reply = self.call("RESCHEDULE", q, words);
        if too_far {
            return refused(&reply, "DQDELAY");
        }
        if ids.is_none() && !self.world.is_enabled() {
            return refused(&reply, "DQDISABLED");
        }
        let moved = self.world.change(q, |queue, _| {
            let moves = |id: &Id, job: &Live| match &ids {
                Some(ids) => job.due_at().is_some() && ids.contains(id),
                // Those that are due at that time already do not move.
                None => job.due_at().is_some_and(|at| at != to),
            };
            let moving: Vec<&mut Live> =
                queue.jobs.iter_mut().filter(|(id, job)| moves(id, job)).map(|(_, job)| job).collect();
            let moved = moving.len() as u64;
            moving.into_iter().for_each(|job| job.place = Place::Due { at: to, up_to: to });
            queue.count("rescheduled", moved);
            moved
        });
        expect(&reply, &number(moved))
    }

    fn replay(
        &mut self,
        q: usize,
        reason: Option<usize>,
        count: Option<u64>,
        delay: Option<u64>,
        spread: Option<u64>,
        which: &Which,
    ) -> Check {
        let mut groups = Vec::new();
        groups.extend(reason.map(|reason| args!["REASON", REASONS[reason]]));
        groups.extend(count.map(|count| args!["COUNT", count]));
        groups.extend(delay.map(|delay| args!["DELAY", duration(delay)]));
        groups.extend(spread.map(|spread| args!["SPREAD", duration(spread)]));
        let (which, ids) = self.which(q, which);
        let words = [self.options(groups), which].concat();
        let reply = self.call("REPLAY", q, words);
        let (delay, spread) = (delay.unwrap_or(0), spread.unwrap_or(0));
        if delay + spread > self.rule(q, "max-delay") {
            return refused(&reply, "DQDELAY");
        }
        if ids.is_none() && !self.world.is_enabled() {
            return refused(&reply, "DQDISABLED");
        }
        let replayed = self.world.change(q, |queue, scene| {
            let is_meant = |queue: &Queue, id: &Id| {
                ids.as_ref().is_none_or(|ids| ids.contains(id))
                    && !queue.jobs.contains_key(id)
                    && reason.is_none_or(|reason| queue.dead[id].reason == REASONS[reason])
            };
            let mut meant: Vec<Id> = queue.letters().into_iter().filter(|id| is_meant(queue, id)).collect();
            meant.truncate(count.unwrap_or(u64::MAX) as usize);
            let total = meant.len() as u64;
            for (place, id) in (0u64..).zip(&meant) {
                queue.make_header(scene);
                let mut letter = queue.dead.remove(id).expect("it is there");
                job::revive(&mut letter.record, &letter.reason);
                let at = scene.after(delay) + spread * place / total;
                let place = Place::Due { at, up_to: at };
                let live = Live { record: letter.record, place, life: letter.life, is_newborn: false };
                queue.jobs.insert(id.clone(), live);
            }
            queue.count("replayed", total);
            total
        });
        expect(&reply, &number(replayed))
    }

    fn purge(&mut self, q: usize, states: &[usize]) -> Check {
        let mut words = self.options(vec![args!["STATE"]]);
        words.extend(states.iter().map(|state| STATES[*state].into()));
        let reply = self.call("PURGE", q, words);
        if !self.world.is_enabled() {
            return refused(&reply, "DQDISABLED");
        }
        let going: Vec<(usize, Id)> =
            states.iter().flat_map(|state| self.in_state(q, Some(*state)).into_iter().map(|id| (*state, id))).collect();
        self.world.change(q, |queue, scene| {
            for (state, id) in &going {
                if *state == 3 {
                    queue.dead.remove(id);
                } else {
                    queue.remove_job(scene, id);
                }
            }
            queue.count("purged", going.len() as u64);
        });
        expect(&reply, &number(going.len() as u64))
    }

    fn drop(&mut self, q: usize, force: bool) -> Check {
        let words = self.options(force.then(|| args!["FORCE"]).into_iter().collect());
        let reply = self.call("DROP", q, words);
        let gone = self.world.change(q, |queue, _| {
            if !force && !queue.leased().is_empty() {
                return None;
            }
            let gone = (queue.jobs.len() + queue.dead.len()) as u64;
            queue.header = None;
            queue.jobs.clear();
            queue.dead.clear();
            queue.ids.clear();
            if let Some(known) = &mut queue.known {
                (known.resumed_at, known.served) = (0, 0);
            }
            Some(gone)
        });
        match gone {
            Some(gone) => expect(&reply, &number(gone)),
            None => refused(&reply, "ERR"),
        }
    }

    fn pause(&mut self, q: usize) -> Check {
        let reply = self.call("PAUSE", q, Vec::new());
        self.world.change(q, |queue, scene| {
            queue.make_header(scene);
            let header = queue.header.as_mut().expect("it was made");
            header.paused.get_or_insert(scene.now());
        });
        expect(&reply, &Value::Okay)
    }

    fn resume(&mut self, q: usize) -> Check {
        let reply = self.call("RESUME", q, Vec::new());
        self.world.change(q, |queue, scene| {
            let was_paused = queue.header.as_mut().is_some_and(|header| header.paused.take().is_some());
            if let (true, Some(known)) = (was_paused, &mut queue.known) {
                known.resumed_at = scene.now();
            }
        });
        expect(&reply, &Value::Okay)
    }

    fn config_get(&mut self, q: usize, field: Option<usize>) -> Check {
        let meant: Vec<_> = match field {
            None => settings::of_queues().collect(),
            Some(place) => vec![&settings::ALL[place]],
        };
        let words = field.map_or_else(Vec::new, |place| args![settings::ALL[place].name]);
        let reply = self.call("CONFIG", q, [args!["get"], words].concat());
        let rows = meant.iter().map(|setting| {
            let own = self.queue(q).header.as_ref().is_some_and(|header| header.rules.contains_key(setting.name));
            let value = self.rule(q, setting.name);
            let source = if own { "queue" } else { "server" };
            Value::Array(vec![bulk(setting.name), bulk(setting.show(value)), bulk(source)])
        });
        expect(&reply, &Value::Array(rows.collect()))
    }

    fn config_set(&mut self, q: usize, values: &[(&'static str, u64)]) -> Check {
        let mut words = args!["SET"];
        for (name, value) in values {
            words.extend(args![*name, settings::setting(name).show(*value)]);
        }
        let reply = self.call("CONFIG", q, words);
        let names: HashSet<&str> = values.iter().map(|(name, _)| *name).collect();
        if names.len() < values.len() {
            return refused(&reply, "ERR");
        }
        self.world.change(q, |queue, scene| {
            queue.make_header(scene);
            queue.header.as_mut().expect("it was made").rules.extend(values.iter().copied());
        });
        expect(&reply, &Value::Okay)
    }

    fn config_reset(&mut self, q: usize, fields: &[usize]) -> Check {
        let names: Vec<&str> = fields.iter().map(|place| settings::ALL[*place].name).collect();
        let reply = self.call("CONFIG", q, [args!["reset"], args![names.clone()]].concat());
        if names.iter().collect::<HashSet<_>>().len() < names.len() {
            return refused(&reply, "ERR");
        }
        let reset = self.world.change(q, |queue, _| {
            let Some(header) = &mut queue.header else { return 0 };
            names.iter().filter(|name| header.rules.remove(**name).is_some()).count()
        });
        expect(&reply, &number(reset as u64))
    }

    fn queues(&mut self, pattern: bool) -> Check {
        let round = self.host.rounds;
        let words = if pattern { args!["MATCH", format!("*q{round}*")] } else { Vec::new() };
        let reply = self.send([args!["DQ.QUEUES"], words].concat());
        let Ok(Value::Array(rows)) = &reply else { return Err("no queues".into()) };
        let is_tick = |row: &Value| matches!(row, Value::Array(fields) if fields[0] == bulk("tick"));
        let found: Vec<Value> = rows.iter().filter(|row| !is_tick(row)).cloned().collect();
        let now = self.world.now();
        let mut expected = Vec::new();
        for (q, queue) in self.world.queues.iter().enumerate() {
            // A node that does not act looks for the companions alone.
            if !(queue.has_companions() || (queue.exists() && self.world.is_enabled())) {
                continue;
            }
            let due: Vec<u64> = queue.jobs.values().filter_map(Live::due_at).collect();
            let ready = due.iter().filter(|at| **at <= now).count();
            let counts =
                [ready, due.len() - ready, queue.jobs.len() - due.len(), queue.dead.len()].map(|n| number(n as u64));
            let flags = [self.world.waits_for(q), queue.is_paused()].map(|is| number(u64::from(is)));
            expected.push(Value::Array([vec![bulk(&queue.name)], counts.to_vec(), flags.to_vec()].concat()));
        }
        expect(&Ok(Value::Array(found)), &Value::Array(expected))
    }
}

/// The id at a place among these, or one that nothing has.
fn one_of<'a>(ids: impl Iterator<Item = &'a Id>, place: usize) -> Id {
    let ids: Vec<&Id> = ids.collect();
    ids.get(place % ids.len().max(1)).map_or_else(|| b"nosuch".to_vec(), |id| (*id).clone())
}

fn claim_options(count: Option<u64>, lease: Option<u64>) -> Vec<Group> {
    let mut groups = Vec::new();
    groups.extend(count.map(|count| args!["COUNT", count]));
    groups.extend(lease.map(|lease| args!["LEASE", duration(lease)]));
    groups
}

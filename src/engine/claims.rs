//! Claims at once and claims that wait, and who is served when.

use super::index::{Index, Known, QueueNumber, Task};
use super::turn::Job;
use super::waiters::{Answer, ClaimWait, Claimed, Order, Waiter, Wanted};
use super::{Node, NODE};
use crate::core::names::QueueName;
use crate::queue::{Queue, Reach, Slice, State};
use crate::redis::{boot_us, Ctx, Level, Reply, WaitKey, Waiting};
use crate::settings;
use smallvec::{smallvec, SmallVec};
use std::rc::Rc;

/// Waits that end in one turn; the server takes about 10 µs to tell each.
const MAX_ENDS: usize = 100;

/// Waiters that are told together that they are sent away.
const MAX_RELEASES: usize = 250;

/// Queues whose slot is looked at together.
const MAX_SLOT_LOOKS: usize = 500;

/// What a waiter reads that is sent away because this node does not act any more.
const UNBLOCKED: &str =
    "UNBLOCKED this node gives out no jobs now: it is a replica, loads its data, or dq.enabled is no";
/// What a waiter reads whose queue is no longer on this node of the cluster, or that of a cluster that is down.
const UNBLOCKED_SLOT: &str = "UNBLOCKED the queue's slot is no longer served by this node";

/// Claims from the first of `queues` that has due jobs, and answers; where none has, the client waits for `block` ms
/// (0: for ever), or is told at once where it cannot wait or does not want to.
pub fn claim(ctx: &Ctx, queues: &[QueueName], wanted: Wanted, block: Option<u64>) -> Result<(), String> {
    if !settings::is_enabled() {
        return Err("DQDISABLED dq.enabled is no".into());
    }
    let mut next_claimable: SmallVec<[_; 1]> = smallvec![None; queues.len()];
    let round = || NODE.round_of(wanted.order, |index| index.find(ctx.db(), queues[0].as_bytes()));
    let mut order = places(queues.len(), round().as_deref());
    while let Some(place) = order.next() {
        match NODE.claim_now(ctx, &queues[place], wanted)? {
            Outcome::Nothing { until } => next_claimable[place] = until,
            Outcome::Jobs(claimed) => {
                note_turn(round().as_deref(), place);
                if queues.len() > 1 {
                    NODE.note_claims(ctx, order.map(|place| &queues[place]));
                }
                claimed.count();
                (wanted.reply)(ctx, &claimed);
                return Ok(());
            }
        }
    }
    match block.and_then(|block| Some((block, Waiting::begin(ctx)?))) {
        Some((block, waiting)) => NODE.stand_in_line(ctx, queues, &next_claimable, wanted, waiting, block),
        None => ctx.reply_array(0),
    }
    Ok(())
}

/// The places of `count` queues in the order in which they are looked at.
fn places(count: usize, round: Option<&State>) -> impl Iterator<Item = usize> {
    let first = round.map_or(0, |state| state.next_turn.get() % count);
    (0..count).map(move |step| (first + step) % count)
}

/// The next rotating claim of these queues begins behind the one that has just given jobs.
fn note_turn(round: Option<&State>, place: usize) {
    if let Some(state) = round {
        state.next_turn.set(place + 1);
    }
}

fn release(ctx: &Ctx) {
    NODE.release_alarm.fired();
    NODE.tell_leaving(ctx);
}

/// What one queue has for a claim.
enum Outcome {
    Jobs(Claimed),
    /// Nothing, and as far as can be told until then.
    Nothing {
        until: Option<u64>,
    },
}

/// A client does not wait any more, and nobody answered it.
pub fn waiter_left(key: WaitKey) {
    let waiter = NODE.waiters.borrow_mut().remove_key(key);
    drop(waiter.or_else(|| NODE.leaving.borrow_mut().remove(&key)));
}

/// A client was gone before it could be told of its jobs. They go back in the next turn: this one may not write.
pub fn give_back(claimed: Claimed) {
    NODE.untold.borrow_mut().push(claimed);
    NODE.turn_soon_from_anywhere();
}

impl Node {
    /// The queue that remembers, of claims that name it first, whose turn it is; none where claims do not rotate.
    fn round_of(&self, order: Order, first: impl FnOnce(&Index) -> Option<&Known>) -> Option<Rc<State>> {
        match order {
            Order::Strict => None,
            Order::Rotate => first(&self.index.borrow()).map(|known| Rc::clone(&known.state)),
        }
    }

    /// Claims what is due beyond what those who wait already will get.
    fn claim_now(&self, ctx: &Ctx, name: &QueueName, wanted: Wanted) -> Result<Outcome, String> {
        let ((jobs, until), state) = self.change(ctx, name, Reach::CLAIM, |queue, number| {
            let ahead = number.map_or(0, |number| self.waiters.borrow().wanted(number));
            let jobs = queue.claim(wanted.count, wanted.lease, ahead);
            let until = if jobs.is_empty() { queue.next_claimable() } else { None };
            Ok((jobs, until))
        })?;
        if jobs.is_empty() {
            return Ok(Outcome::Nothing { until });
        }
        Ok(Outcome::Jobs(Claimed { db: ctx.db(), state, jobs }))
    }

    /// A claim names these queues too, though it needs nothing of them: somebody works on them.
    fn note_claims<'q>(&self, ctx: &Ctx, queues: impl Iterator<Item = &'q QueueName<'q>>) {
        let (now, db, index) = (self.now(ctx), ctx.db(), self.index.borrow());
        let known = queues.filter_map(|name| index.find(db, name.as_bytes()));
        known.for_each(|known| known.state.worked_on.set(now));
    }

    fn stand_in_line(
        &self,
        ctx: &Ctx,
        queues: &[QueueName],
        next_claimable: &[Option<u64>],
        wanted: Wanted,
        waiting: Waiting<ClaimWait>,
        block: u64,
    ) {
        let (now, db) = (self.now(ctx), ctx.db());
        let deadline = (block > 0).then(|| boot_us().saturating_add(block.saturating_mul(1000)));
        let queues = self.lines_of(db, queues, next_claimable, now);
        self.waiters.borrow_mut().add(Waiter { waiting, queues, wanted }, deadline);
        self.wake_for_tasks(ctx, now);
        if let Some(at_us) = deadline {
            self.wake_by_boot(at_us);
        }
    }

    /// The queues by their numbers, each looked at again when it has something.
    fn lines_of(&self, db: i32, queues: &[QueueName], next: &[Option<u64>], now: u64) -> Rc<[QueueNumber]> {
        let mut index = self.index.borrow_mut();
        let mut line_of = |(name, next): (&QueueName, &Option<u64>)| {
            let number = index.adopt_name(db, name, now);
            index.keep(number, now);
            if let Some(at) = next {
                index.schedule.set_by(Task::Serve(number), *at);
            }
            number
        };
        queues.iter().zip(next).map(&mut line_of).collect()
    }

    /// Gives due jobs to those who wait, one after the other; says when there is more to give.
    pub(super) fn serve(&self, job: &Job, slice: &mut Slice) -> Option<u64> {
        while let Some(ticket) = self.first_in_line(job.number) {
            if slice.is_over() {
                return Some(job.now);
            }
            let Some(claimed) = self.claim_for(job, ticket) else { break };
            slice.spend(claimed.jobs.iter().map(|job| job.payload().len()).sum());
            let waiter = self.waiters.borrow_mut().remove(ticket);
            if let Some(waiter) = waiter {
                waiter.waiting.answer(Answer::Jobs(claimed, waiter.wanted.reply));
            }
        }
        self.first_in_line(job.number)?;
        let Some(mut queue) = self.open(job.ctx, job.state, job.now_us, Reach::CLAIM) else {
            return self.shut_out(job);
        };
        queue.next_claimable()
    }

    fn first_in_line(&self, number: QueueNumber) -> Option<u64> {
        self.waiters.borrow().first_in(number)
    }

    /// Claims for one waiter, from the first of its queues that has due jobs and in which nobody is before it. A queue
    /// that has some is the one at hand, or its own turn to be looked at has come.
    fn claim_for(&self, job: &Job, ticket: u64) -> Option<Claimed> {
        let (queues, wanted) = {
            let waiters = self.waiters.borrow();
            let waiter = waiters.get(ticket)?;
            (Rc::clone(&waiter.queues), waiter.wanted)
        };
        let round = self.round_of(wanted.order, |index| index.get(queues[0]));
        for place in places(queues.len(), round.as_deref()) {
            let has_turn = queues[place] == job.number || self.is_to_serve(queues[place], job.now);
            if !has_turn || self.first_in_line(queues[place]) != Some(ticket) {
                continue;
            }
            if let Some(claimed) = self.claim_from(job, queues[place], wanted) {
                note_turn(round.as_deref(), place);
                return Some(claimed);
            }
        }
        None
    }

    fn is_to_serve(&self, number: QueueNumber, now: u64) -> bool {
        self.index.borrow().schedule.at(&Task::Serve(number)).is_some_and(|at| at <= now)
    }

    fn claim_from(&self, job: &Job, number: QueueNumber, wanted: Wanted) -> Option<Claimed> {
        let (db, state) = self.index.borrow().get(number).map(|known| (known.db, Rc::clone(&known.state)))?;
        let mut queue = self.open(job.ctx, &state, job.now_us, Reach::CLAIM)?;
        let jobs = queue.claim(wanted.count, wanted.lease, 0);
        self.set_by_step(number, &queue);
        drop(queue);
        (!jobs.is_empty()).then_some(Claimed { db, state, jobs })
    }

    /// Tells those whose time is up that there was nothing, so many a turn.
    pub(super) fn end_waits(&self) {
        let now_us = boot_us();
        for _ in 0..MAX_ENDS {
            let waiter = self.waiters.borrow_mut().pop_overdue(now_us);
            let Some(waiter) = waiter else { return };
            waiter.waiting.answer(Answer::Nothing);
        }
    }

    /// Sends everyone away: out of the lines at once, and told by a timer of 0 ms, not within the command that calls for
    /// it. On Redis 7.0 a CLIENT UNBLOCK in the same pass would leave the client without any answer.
    pub(super) fn release_all(&self, ctx: &Ctx) {
        let waiters = self.waiters.borrow_mut().drain();
        self.leaving.borrow_mut().extend(waiters.into_iter().map(|waiter| (waiter.waiting.key(), waiter)));
        if !self.leaving.borrow().is_empty() && !self.release_alarm.is_armed() {
            self.release_alarm.arm(ctx, 0, release);
        }
    }

    pub(super) fn release_if_held_back(&self, ctx: &Ctx) {
        self.release_alarm.rearm_if_held_back(ctx, release);
    }

    /// Tells the next few of those who are sent away.
    fn tell_leaving(&self, ctx: &Ctx) {
        for _ in 0..MAX_RELEASES {
            let next = self.leaving.borrow_mut().pop_first();
            let Some((_, waiter)) = next else { return };
            waiter.waiting.answer(Answer::Refused(UNBLOCKED));
        }
        self.release_alarm.arm(ctx, 1, release);
    }

    /// Sends those away whose queue's slot has left this node, or has its keys on their way; and everyone whom a node that
    /// the cluster is down for would keep from looking elsewhere. Where this node takes no writes for a while, they stay.
    pub(super) fn release_waiters_of_lost_slots(&self, ctx: &Ctx) {
        let queues = self.waiters.borrow().queues_after(self.slot_cursor.get(), MAX_SLOT_LOOKS);
        for number in queues {
            self.slot_cursor.set(number);
            let known = self.index.borrow().get(number).map(|known| (known.db, Rc::clone(&known.state)));
            let Some((db, state)) = known else { continue };
            let refusal = ctx.select_db(db).then(|| ctx.would_write(&state.keys.due).err()).flatten();
            if refusal.is_some_and(|refusal| refusal.is_of_the_slot()) {
                self.release_waiters_of(number);
                self.index.borrow_mut().schedule.set_by(Task::Meet(number), self.now(ctx));
            }
        }
    }

    pub(super) fn release_waiters_of(&self, number: QueueNumber) {
        let waiters = self.waiters.borrow_mut().drain_queue(number);
        waiters.into_iter().for_each(|waiter| waiter.waiting.answer(Answer::Refused(UNBLOCKED_SLOT)));
    }

    /// Puts the jobs back that nobody could be told of, with their old due time and nothing counted.
    pub(super) fn take_back_untold(&self, ctx: &Ctx, now_us: u64) {
        let untold = std::mem::take(&mut *self.untold.borrow_mut());
        for claimed in untold {
            if !ctx.select_db(claimed.db) {
                continue;
            }
            let Some(mut queue) = self.open(ctx, &claimed.state, now_us, Reach::CLAIM) else {
                ctx.log(Level::Warning, "dq: jobs of a client that left stay leased until their lease ends");
                continue;
            };
            claimed.jobs.iter().for_each(|job| queue.give_back(job));
            let number = self.index.borrow().find(claimed.db, claimed.state.name()).map(|known| known.number);
            if let Some(number) = number {
                self.set_by_step(number, &queue);
            }
        }
    }

    /// Sets what one step in a queue calls for: the next lease end, and a look at who waits.
    pub(super) fn set_by_step(&self, number: QueueNumber, queue: &Queue) {
        let mut index = self.index.borrow_mut();
        if let Some(at) = queue.first_lease_end_set() {
            index.schedule.set_by(Task::Leases(number), at);
        }
        if let Some(at) = queue.first_due_set().filter(|_| self.waiters.borrow().count(number) > 0) {
            index.schedule.set_by(Task::Serve(number), at);
        }
    }
}

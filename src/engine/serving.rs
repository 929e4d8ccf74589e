//! How those who wait are served, and how their waits end otherwise.

use super::claims::last_served;
use super::index::{Index, QueueNumber, Task};
use super::turn::Job;
use super::waiters::{Answer, Claimed, Ticket, Wanted};
use super::{Node, NODE};
use crate::queue::{Reach, Slice};
use crate::redis::{boot_us, Ctx, Level, Text, WaitKey};
use smallvec::SmallVec;
use std::rc::Rc;

/// Waits that end in one turn; the server takes about 10 µs to tell each.
const MAX_ENDS: usize = 100;

/// Waiters that are told together that they are sent away.
const MAX_RELEASES: usize = 250;

/// Queues that waiters leave in one turn. Each takes about 1 µs.
const MAX_LEFT_QUEUES: usize = 1000;

/// Queues whose slot is looked at together.
const MAX_SLOT_LOOKS: usize = 500;

/// What a waiter reads that is sent away because this node does not act any more.
const UNBLOCKED: &str =
    "UNBLOCKED this node gives out no jobs now: it is a replica, loads its data, or dq.enabled is no";
/// What a waiter reads whose user may no longer claim.
const DENIED: &str = "NOPERM the user's rights changed while the client waited: it may not claim from these queues";
/// What a waiter reads whose queue is no longer on this node of the cluster, or that of a cluster that is down.
const UNBLOCKED_SLOT: &str = "UNBLOCKED the queue's slot is no longer served by this node";

fn release(ctx: &Ctx) {
    NODE.release_alarm.fired();
    NODE.tell_leaving(ctx);
}

/// What one waiter gets.
enum Service {
    Jobs(Claimed),
    Nothing,
    /// There is a job, but the client's user may not have it any more.
    Denied,
}

/// A client does not wait any more, and nobody answered it.
pub fn waiter_left(key: WaitKey) {
    drop(NODE.take_waiter_of(key));
}

/// A client was gone before it could be told of its jobs. They go back in the next turn: this one may not write.
pub fn give_back(claimed: Claimed) {
    NODE.untold.borrow_mut().push(claimed);
    NODE.turn_soon_from_anywhere();
}

impl Node {
    /// Gives due jobs to those who wait, one after the other; says when there is more to give.
    pub(super) fn serve(&self, job: &Job, slice: &mut Slice) -> Option<u64> {
        while let Some(ticket) = self.first_in_line(job.number) {
            if slice.is_over() {
                return Some(job.now);
            }
            let service = self.claim_for(job, ticket);
            if let Service::Nothing = service {
                break;
            }
            let Some(waiter) = self.take_waiter(ticket) else { break };
            let answer = match service {
                Service::Jobs(claimed) => {
                    slice.spend(claimed.jobs.iter().map(|job| job.payload().len()).sum());
                    Answer::Jobs(claimed, waiter.wanted.reply)
                }
                Service::Denied | Service::Nothing => {
                    slice.spend(0);
                    Answer::Refused(DENIED)
                }
            };
            waiter.waiting.answer(answer);
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
    fn claim_for(&self, job: &Job, ticket: u64) -> Service {
        let (queues, wanted) = {
            let waiters = self.waiters.borrow();
            let Some(waiter) = waiters.get(ticket) else { return Service::Nothing };
            (Rc::clone(&waiter.queues), waiter.wanted)
        };
        let served = |index: &Index, place: usize| last_served(index.get(queues[place]));
        for place in self.places(queues.len(), wanted.order, served) {
            let has_turn = queues[place] == job.number || self.is_to_serve(queues[place], job.now);
            if !has_turn || self.first_in_line(queues[place]) != Some(ticket) {
                continue;
            }
            match self.claim_from(job, queues[place], ticket, wanted) {
                Service::Jobs(claimed) => {
                    self.note_turn(wanted.order, &claimed);
                    return Service::Jobs(claimed);
                }
                Service::Denied => return Service::Denied,
                Service::Nothing => {}
            }
        }
        Service::Nothing
    }

    fn is_to_serve(&self, number: QueueNumber, now: u64) -> bool {
        self.index.borrow().schedule.at(&Task::Serve(number)).is_some_and(|at| at <= now)
    }

    fn claim_from(&self, job: &Job, number: QueueNumber, ticket: Ticket, wanted: Wanted) -> Service {
        // One without a state has no keys.
        let known = self.index.borrow().get(number).and_then(|known| Some((known.db, known.state()?)));
        let Some((db, state)) = known else { return Service::Nothing };
        let Some(mut queue) = self.open(job.ctx, &state, job.now_us, Reach::CLAIM) else { return Service::Nothing };
        if queue.next_claimable().is_none_or(|at| at > job.now) {
            return Service::Nothing;
        }
        if !self.may_still_claim(job.ctx, ticket) {
            return Service::Denied;
        }
        let jobs = queue.claim(wanted.count, wanted.lease, 0);
        self.set_by_step(number, &queue);
        drop(queue);
        if jobs.is_empty() {
            return Service::Nothing;
        }
        Service::Jobs(Claimed { db, state, jobs })
    }

    /// Whether the user of the client may still do what it did when it began to wait: run the command on all of its
    /// queues. Its rights may have been taken away since. Asked before the claim, so that nothing has to be given back.
    fn may_still_claim(&self, ctx: &Ctx, ticket: Ticket) -> bool {
        let waiters = self.waiters.borrow();
        let Some((waiter, user)) = waiters.get(ticket).and_then(|waiter| Some((waiter, waiter.user.as_ref()?))) else {
            return true;
        };
        let index = self.index.borrow();
        let names: SmallVec<[Text; 4]> =
            waiter.queues.iter().filter_map(|number| Some(index.get(*number)?.name_text().clone())).collect();
        let call = waiter.wanted.command.call_with(&names);
        drop(index);
        ctx.user_may(user, &call)
    }

    /// Tells those whose time is up that there was nothing, so many a turn.
    pub(super) fn end_waits(&self) {
        let (now_us, mut left_queues) = (boot_us(), 0);
        for _ in 0..MAX_ENDS {
            let Some(waiter) = self.take_overdue_waiter(now_us) else { return };
            left_queues += waiter.queues.len();
            waiter.waiting.answer(Answer::Nothing);
            if left_queues >= MAX_LEFT_QUEUES {
                return;
            }
        }
    }

    /// Sends everyone away: out of the lines at once, and told by a timer of 0 ms, not within the command that calls for
    /// it. On Redis 7.0 a CLIENT UNBLOCK in the same pass would leave the client without any answer.
    pub(super) fn release_all(&self, ctx: &Ctx) {
        self.send_all_waiters_away();
        if !self.leaving.borrow().is_empty() && !self.release_alarm.is_armed() {
            self.release_alarm.arm(ctx, 0, release);
        }
    }

    pub(super) fn release_if_held_back(&self, ctx: &Ctx) {
        self.release_alarm.rearm_if_held_back(ctx, release);
    }

    /// Tells the next few of those who are sent away.
    fn tell_leaving(&self, ctx: &Ctx) {
        let mut left_queues = 0;
        for _ in 0..MAX_RELEASES {
            let Some(waiter) = self.take_leaving_waiter() else { return };
            left_queues += waiter.queues.len();
            waiter.waiting.answer(Answer::Refused(UNBLOCKED));
            if left_queues >= MAX_LEFT_QUEUES {
                break;
            }
        }
        self.release_alarm.arm(ctx, 1, release);
    }

    /// Sends those away whose queue's slot has left this node, or has its keys on their way; and everyone whom a node that
    /// the cluster is down for would keep from looking elsewhere. Where this node takes no writes for a while, they stay.
    pub(super) fn release_waiters_of_lost_slots(&self, ctx: &Ctx) {
        let queues = self.waiters.borrow().queues_after(self.slot_cursor.get(), MAX_SLOT_LOOKS);
        for number in queues {
            self.slot_cursor.set(number);
            let known = self.index.borrow().get(number).map(|known| (known.db, known.state_or_fresh(self.now(ctx))));
            let Some((db, state)) = known else { continue };
            let refusal = ctx.select_db(db).then(|| ctx.would_write(&state.keys.due).err()).flatten();
            if refusal.is_some_and(|refusal| refusal.is_of_the_slot()) {
                self.release_waiters_of(number);
                self.index.borrow_mut().schedule.set_by(Task::Meet(number), self.now(ctx));
            }
        }
    }

    pub(super) fn release_waiters_of(&self, number: QueueNumber) {
        while let Some(waiter) = self.first_in_line(number).and_then(|ticket| self.take_waiter(ticket)) {
            waiter.waiting.answer(Answer::Refused(UNBLOCKED_SLOT));
        }
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
}

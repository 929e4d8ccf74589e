//! Clients that wait for a job. Per queue they stand in one line, first come, first served.

use super::index::QueueNumber;
use super::schedule::{Map, Schedule};
use crate::core::table::fit;
use crate::queue::{State, Taken};
use crate::redis::{Ctx, Reply, Wait, WaitKey, Waiting};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A waiter's place: smaller came first.
pub type Ticket = u64;

/// Jobs of one queue on their way to a worker.
pub struct Claimed {
    pub db: i32,
    pub state: Rc<State>,
    pub jobs: Vec<Taken>,
}

/// Writes claimed jobs to the client.
pub type ReplyClaimed = fn(&Ctx, &Claimed);

/// In which order the queues of one claim are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Always as they were named.
    #[default]
    Strict,
    /// Beginning behind the one that gave jobs last.
    Rotate,
}

/// What a claim asks for.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub count: usize,
    pub lease: Option<u64>,
    pub order: Order,
    pub reply: ReplyClaimed,
}

/// What a waiter gets.
pub enum Answer {
    Jobs(Claimed, ReplyClaimed),
    Nothing,
    /// An error, its code included.
    Refused(&'static str),
}

/// The waiting of DQ.CLAIM and DQ.MCLAIM.
pub struct ClaimWait;

impl Wait for ClaimWait {
    type Answer = Answer;

    fn must_arrive(answer: &Answer) -> bool {
        matches!(answer, Answer::Jobs(..))
    }

    fn reply(ctx: &Ctx, answer: &Answer) {
        match answer {
            Answer::Jobs(claimed, reply) => {
                claimed.count();
                reply(ctx, claimed);
            }
            Answer::Nothing => ctx.reply_array(0),
            Answer::Refused(error) => ctx.reply_error(error),
        }
    }

    fn reply_timed_out(ctx: &Ctx) {
        ctx.reply_array(0);
    }

    fn left(key: WaitKey) {
        super::waiter_left(key);
    }

    fn untold(answer: Answer) {
        if let Answer::Jobs(claimed, _) = answer {
            super::give_back(claimed);
        }
    }
}

impl Claimed {
    /// Counts the jobs as claimed: they are told.
    pub fn count(&self) {
        self.state.metrics.claimed.add(self.jobs.len());
        self.jobs.iter().for_each(|job| self.state.metrics.lateness.record(job.late_us));
    }
}

/// One client that waits, in the line of each of its queues.
pub struct Waiter {
    pub waiting: Waiting<ClaimWait>,
    pub queues: Rc<[QueueNumber]>,
    pub wanted: Wanted,
}

/// Those who wait for one queue.
#[derive(Default)]
struct Line {
    tickets: BTreeSet<Ticket>,
    /// Jobs that they would take, all together.
    wanted: usize,
}

/// All clients that wait.
#[derive(Default)]
pub struct Waiters {
    waiters: Map<Ticket, Waiter>,
    tickets: Map<WaitKey, Ticket>,
    lines: Map<QueueNumber, Line>,
    /// When who gives up, in µs of boot time: a wait is a stretch of time, which no clock's step cuts short.
    deadlines: Schedule<Ticket>,
    next_ticket: Ticket,
}

impl Waiters {
    pub fn add(&mut self, waiter: Waiter, deadline: Option<u64>) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tickets.insert(waiter.waiting.key(), ticket);
        for queue in waiter.queues.iter() {
            let line = self.lines.entry(*queue).or_default();
            line.tickets.insert(ticket);
            line.wanted += waiter.wanted.count;
        }
        if let Some(at) = deadline {
            self.deadlines.set(ticket, at);
        }
        self.waiters.insert(ticket, waiter);
    }

    pub fn remove(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        self.tickets.remove(&waiter.waiting.key());
        self.deadlines.remove(&ticket);
        for queue in waiter.queues.iter() {
            if let Some(line) = self.lines.get_mut(queue) {
                line.tickets.remove(&ticket);
                line.wanted -= waiter.wanted.count;
                if line.tickets.is_empty() {
                    self.lines.remove(queue);
                }
            }
        }
        fit(&mut self.waiters);
        fit(&mut self.tickets);
        fit(&mut self.lines);
        Some(waiter)
    }

    pub fn remove_key(&mut self, key: WaitKey) -> Option<Waiter> {
        let ticket = *self.tickets.get(&key)?;
        self.remove(ticket)
    }

    /// Takes a waiter whose time is up, in µs of boot time.
    pub fn pop_overdue(&mut self, now: u64) -> Option<Waiter> {
        let ticket = self.deadlines.pop(now)?;
        self.remove(ticket)
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.next_at()
    }

    pub fn get(&self, ticket: Ticket) -> Option<&Waiter> {
        self.waiters.get(&ticket)
    }

    pub fn first_in(&self, queue: QueueNumber) -> Option<Ticket> {
        self.lines.get(&queue)?.tickets.first().copied()
    }

    pub fn count(&self, queue: QueueNumber) -> usize {
        self.lines.get(&queue).map_or(0, |line| line.tickets.len())
    }

    /// Jobs that those who wait for the queue would take.
    pub fn wanted(&self, queue: QueueNumber) -> usize {
        self.lines.get(&queue).map_or(0, |line| line.wanted)
    }

    /// How many queues somebody waits for.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    pub fn queues(&self) -> Vec<QueueNumber> {
        self.lines.keys().copied().collect()
    }

    /// Up to `count` queues that somebody waits for, beginning behind `queue` and going round.
    pub fn queues_after(&self, queue: QueueNumber, count: usize) -> Vec<QueueNumber> {
        let mut queues = self.queues();
        queues.sort_unstable();
        let behind = queues.partition_point(|number| *number <= queue);
        queues.rotate_left(behind);
        queues.truncate(count);
        queues
    }

    /// Takes those who wait for this queue.
    pub fn drain_queue(&mut self, queue: QueueNumber) -> Vec<Waiter> {
        let tickets: Vec<_> =
            self.lines.get(&queue).map(|line| line.tickets.iter().copied().collect()).unwrap_or_default();
        tickets.into_iter().filter_map(|ticket| self.remove(ticket)).collect()
    }

    /// Takes everyone.
    pub fn drain(&mut self) -> Vec<Waiter> {
        let waiters = std::mem::take(self);
        self.next_ticket = waiters.next_ticket;
        waiters.waiters.into_values().collect()
    }
}

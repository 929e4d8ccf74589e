//! Clients that wait for a job. Per queue they stand in one line, first come, first served.

use super::index::{allocated, QueueNumber};
use super::schedule::{Map, Schedule};
use super::Node;
use crate::core::table::fit;
use crate::queue::{State, Taken};
use crate::redis::{Command, Ctx, Reply, User, Wait, WaitKey, Waiting};
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
    /// The command that asks.
    pub command: &'static Command,
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
    /// Whose rights count; `None` if nobody's do.
    pub user: Option<User>,
    /// What the server keeps of the command while the client waits, in bytes.
    pub argument_bytes: usize,
}

// What clients that wait cost, in bytes, apart from the names. Measured by `cargo test --test blocking memory::`.

/// A client. Nearly all of it is the server's: it keeps two clients of its own with their reply buffers for each that a
/// module blocks.
const CLIENT: usize = 35 * 1024;
/// A place in the line of one queue, and the queue's name among the arguments that the server keeps.
const PLACE: usize = 60;
/// A queue that somebody waits for.
const LINE: usize = 230;

impl Waiter {
    /// Bytes that one more client would take which names so many queues, in names of so many bytes together.
    pub fn bytes_for(queues: usize, name_bytes: usize) -> usize {
        CLIENT + queues * PLACE + allocated(name_bytes)
    }

    fn bytes(&self) -> usize {
        Waiter::bytes_for(self.queues.len(), self.argument_bytes)
    }
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
    /// Bytes for the clients, without their lines.
    client_bytes: usize,
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
        self.client_bytes += waiter.bytes();
        self.waiters.insert(ticket, waiter);
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        self.client_bytes -= waiter.bytes();
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

    fn remove_key(&mut self, key: WaitKey) -> Option<Waiter> {
        let ticket = *self.tickets.get(&key)?;
        self.remove(ticket)
    }

    /// Takes a waiter whose time is up, in µs of boot time.
    fn pop_overdue(&mut self, now: u64) -> Option<Waiter> {
        let ticket = self.deadlines.pop(now)?;
        self.remove(ticket)
    }

    /// Takes everyone.
    fn drain(&mut self) -> Vec<Waiter> {
        let waiters = std::mem::take(self);
        self.next_ticket = waiters.next_ticket;
        waiters.waiters.into_values().collect()
    }

    /// Bytes that the line of a queue takes which has none yet.
    pub fn line_bytes(&self, queue: Option<QueueNumber>) -> usize {
        if queue.is_some_and(|queue| self.lines.contains_key(&queue)) {
            0
        } else {
            LINE
        }
    }

    /// Bytes that all of them take together.
    pub fn bytes(&self) -> usize {
        self.client_bytes + self.lines.len() * LINE
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
}

/// The only ways out of the lines. A queue that has no keys is forgotten when the last client has left its line, so that
/// nothing stays of names that somebody made up.
impl Node {
    pub(super) fn take_waiter(&self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiters.borrow_mut().remove(ticket)?;
        self.let_go_of(&waiter.queues);
        Some(waiter)
    }

    pub(super) fn take_waiter_of(&self, key: WaitKey) -> Option<Waiter> {
        let waiter = self.waiters.borrow_mut().remove_key(key);
        let waiter = waiter.or_else(|| self.leaving.borrow_mut().remove(&key))?;
        self.let_go_of(&waiter.queues);
        Some(waiter)
    }

    /// Takes a waiter whose time is up, in µs of boot time.
    pub(super) fn take_overdue_waiter(&self, now_us: u64) -> Option<Waiter> {
        let waiter = self.waiters.borrow_mut().pop_overdue(now_us)?;
        self.let_go_of(&waiter.queues);
        Some(waiter)
    }

    /// Moves everyone out of the lines and among those who are sent away.
    pub(super) fn send_all_waiters_away(&self) {
        let waiters = self.waiters.borrow_mut().drain();
        self.leaving.borrow_mut().extend(waiters.into_iter().map(|waiter| (waiter.waiting.key(), waiter)));
    }

    /// Takes one of those who are sent away.
    pub(super) fn take_leaving_waiter(&self) -> Option<Waiter> {
        let (_, waiter) = self.leaving.borrow_mut().pop_first()?;
        self.let_go_of(&waiter.queues);
        Some(waiter)
    }

    fn let_go_of(&self, queues: &[QueueNumber]) {
        for number in queues {
            if self.waiters.borrow().count(*number) == 0 && self.index.borrow().is_only_waited_for(*number) {
                self.forget(*number);
            }
        }
    }

    /// Bytes that all who wait take together, with the queues that are known only because of them.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiters.borrow().bytes() + self.index.borrow().waiting_bytes()
    }
}

//! Claims that are made at once, and the way into the lines.

use super::index::{self, Index, Known, QueueNumber, Task};
use super::waiters::{ClaimWait, Claimed, Order, Waiter, Wanted};
use super::{Node, NODE};
use crate::core::names::QueueName;
use crate::queue::{Queue, Reach};
use crate::redis::{boot_us, Ctx, Level, Reply, Text, Waiting};
use crate::settings;
use smallvec::{smallvec, SmallVec};
use std::ops::Range;
use std::rc::Rc;

/// Between two lines of the log about BLOCK that is refused, in ms.
const WARNING_PAUSE_MS: u64 = 60_000;

/// Claims from the first of `queues` that has due jobs, and answers; where none has, the client waits for `block` ms
/// (0: for ever), or is told at once where it cannot wait or does not want to.
pub fn claim(ctx: &Ctx, queues: &[QueueName], wanted: Wanted, block: Option<u64>) -> Result<(), String> {
    if !settings::is_enabled() {
        return Err("DQDISABLED dq.enabled is no".into());
    }
    let mut next_claimable: SmallVec<[_; 1]> = smallvec![None; queues.len()];
    let served = |index: &Index, place: usize| last_served(index.find(ctx.db(), queues[place].as_bytes()));
    let mut order = NODE.places(queues.len(), wanted.order, served);
    while let Some(place) = order.next() {
        match NODE.claim_now(ctx, &queues[place], wanted)? {
            Outcome::Nothing { until } => next_claimable[place] = until,
            Outcome::Jobs(claimed) => {
                NODE.note_turn(wanted.order, &claimed);
                if queues.len() > 1 {
                    NODE.note_claims(ctx, order.map(|place| &queues[place]));
                }
                claimed.count();
                (wanted.reply)(ctx, &claimed);
                return Ok(());
            }
        }
    }
    let Some(block) = block.filter(|_| !ctx.denies_blocking()) else {
        ctx.reply_array(0);
        return Ok(());
    };
    NODE.check_room_to_wait(ctx, queues)?;
    match Waiting::begin(ctx) {
        Some(waiting) => NODE.stand_in_line(ctx, queues, &next_claimable, wanted, waiting, block),
        None => ctx.reply_array(0),
    }
    Ok(())
}

/// The places of the queues of one claim, in the order in which they are looked at.
pub(super) enum Places {
    Named(Range<usize>),
    ByTurn(std::vec::IntoIter<(u64, usize)>),
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Places::Named(places) => places.next(),
            Places::ByTurn(places) => places.next().map(|(_, place)| place),
        }
    }
}

/// The number of the last rotating claim that the queue served; 0 if it has served none.
pub(super) fn last_served(known: Option<&Known>) -> u64 {
    known.and_then(Known::state).map_or(0, |state| state.served.get())
}

/// What one queue has for a claim.
enum Outcome {
    Jobs(Claimed),
    /// Nothing, and as far as can be told until then.
    Nothing {
        until: Option<u64>,
    },
}

impl Node {
    /// The places of `count` queues. With ORDER rotate the queue that served such a claim longest ago comes first,
    /// whichever queues that claim named: a queue that shares its workers with others in several ways is not passed over.
    pub(super) fn places(&self, count: usize, order: Order, served: impl Fn(&Index, usize) -> u64) -> Places {
        if order == Order::Strict || count == 1 {
            return Places::Named(0..count);
        }
        let index = self.index.borrow();
        let mut places: Vec<_> = (0..count).map(|place| (served(&index, place), place)).collect();
        places.sort_unstable();
        Places::ByTurn(places.into_iter())
    }

    pub(super) fn note_turn(&self, order: Order, claimed: &Claimed) {
        if order == Order::Rotate {
            let turn = self.last_turn.get() + 1;
            self.last_turn.set(turn);
            claimed.state.served.set(turn);
        }
    }

    /// Refuses to let one more client wait if all of them would take more memory than they may.
    fn check_room_to_wait(&self, ctx: &Ctx, queues: &[QueueName]) -> Result<(), String> {
        let max = self.max_waiting_bytes();
        if self.waiting_bytes().saturating_add(self.bytes_to_wait(ctx.db(), queues)) <= max {
            return Ok(());
        }
        self.refused_to_wait(ctx, max);
        Err("OOM clients that wait for jobs may take no more memory (dq.max-waiting-memory); claim without BLOCK"
            .into())
    }

    /// Bytes that one more client would take that waits for these queues.
    fn bytes_to_wait(&self, db: i32, queues: &[QueueName]) -> usize {
        let (index, waiters) = (self.index.borrow(), self.waiters.borrow());
        let names = queues.iter().map(|name| name.as_bytes().len()).sum();
        let lines = queues.iter().map(|name| match index.find(db, name.as_bytes()) {
            None => index::waiting_bytes_of(name.as_bytes()) + waiters.line_bytes(None),
            Some(known) => waiters.line_bytes(Some(known.number)),
        });
        Waiter::bytes_for(queues.len(), names) + lines.sum::<usize>()
    }

    fn refused_to_wait(&self, ctx: &Ctx, max: usize) {
        self.figures.refused_waiting.add(1);
        let (now, before) = (self.now(ctx), self.warned_of_waiting_at.get());
        if before == 0 || now >= before.saturating_add(WARNING_PAUSE_MS) {
            self.warned_of_waiting_at.set(now);
            let waiting = self.waiters.borrow().len();
            let bytes = self.waiting_bytes();
            ctx.log(
                Level::Warning,
                &format!(
                    "dq: {waiting} clients that wait for jobs take {bytes} bytes, at most {max} are allowed \
                     (dq.max-waiting-memory): BLOCK is refused with OOM"
                ),
            );
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
        let states = queues.filter_map(|name| index.find(db, name.as_bytes())?.state());
        states.for_each(|state| state.worked_on.set(now));
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
        let call = wanted.command.call_with(&[Text::new(queues[0].as_bytes())]);
        let argument_bytes = queues.iter().map(|name| name.as_bytes().len()).sum();
        let queues = self.lines_of(db, queues, next_claimable, now);
        let user = ctx.user(&call);
        self.waiters.borrow_mut().add(Waiter { waiting, queues, wanted, user, argument_bytes }, deadline);
        self.wake_for_tasks(ctx, now);
        if let Some(at_us) = deadline {
            self.wake_by_boot(at_us);
        }
    }

    /// The queues by their numbers, each looked at again when it has something.
    fn lines_of(&self, db: i32, queues: &[QueueName], next: &[Option<u64>], now: u64) -> Rc<[QueueNumber]> {
        let mut index = self.index.borrow_mut();
        let mut line_of = |(name, next): (&QueueName, &Option<u64>)| {
            let number = index.await_name(db, name);
            index.keep(number, now);
            if let Some(at) = next {
                index.schedule.set_by(Task::Serve(number), *at);
            }
            number
        };
        queues.iter().zip(next).map(&mut line_of).collect()
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

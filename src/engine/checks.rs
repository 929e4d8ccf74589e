//! Walks of DQ.CHECK over queues that are too large for one step: a slice a turn, while the client waits.

use super::{Node, NODE};
use crate::core::names::QueueName;
use crate::queue::{CheckWalk, Fault, Progress, Queue, Slice, State};
use crate::redis::{Ctx, Reply, Wait, WaitKey, Waiting};
use std::rc::Rc;

/// Entries that are walked over at once, without making the client wait.
const AT_ONCE: usize = 1000;
/// Between two slices of the walks, in ms.
const PAUSE_MS: u64 = 1;

/// Writes what a walk found.
type ReplyWalk = fn(&Ctx, &CheckWalk);

/// One walk under way.
pub struct LongCheck {
    db: i32,
    state: Rc<State>,
    walk: CheckWalk,
    waiting: Waiting<CheckWait>,
    reply: ReplyWalk,
}

/// The waiting of DQ.CHECK.
pub struct CheckWait;

impl Wait for CheckWait {
    type Answer = Result<(CheckWalk, ReplyWalk), Fault>;

    fn must_arrive(_: &Self::Answer) -> bool {
        false
    }

    fn reply(ctx: &Ctx, answer: &Self::Answer) {
        match answer {
            Ok((walk, reply)) => reply(ctx, walk),
            Err(fault) => ctx.reply_error(&fault.to_string()),
        }
    }

    fn reply_timed_out(ctx: &Ctx) {
        ctx.reply_error("UNBLOCKED the walk was not finished");
    }

    fn left(key: WaitKey) {
        NODE.checks.borrow_mut().retain(|check| check.waiting.key() != key);
    }

    fn untold(_: Self::Answer) {}
}

/// Walks over a queue, and answers by `reply` at once or when the walk is over.
pub fn begin(ctx: &Ctx, name: &QueueName, reply: ReplyWalk) -> Result<(), String> {
    let (db, mut walk) = (ctx.db(), CheckWalk::default());
    let long = super::look(ctx, name, |queue, _| {
        let long = queue.entries() > AT_ONCE;
        while !long && walk.step(queue, &mut Slice::new()) == Progress::More {}
        Ok(long)
    })?;
    if !long {
        reply(ctx, &walk);
        return Ok(());
    }
    let waiting = Waiting::begin(ctx).ok_or_else(|| Fault::CannotWait.to_string())?;
    let (_, state) = super::find(db, name, super::now(ctx));
    NODE.checks.borrow_mut().push(LongCheck { db, state, walk, waiting, reply });
    if !NODE.check_alarm.is_armed() {
        NODE.check_alarm.arm(ctx, 0, turn);
    }
    Ok(())
}

fn turn(ctx: &Ctx) {
    NODE.check_alarm.fired();
    NODE.take_check_turn(ctx);
}

impl Node {
    /// Goes on with the walks, where a step of the wall clock holds their timer back.
    pub(super) fn check_if_held_back(&self, ctx: &Ctx) {
        self.check_alarm.rearm_if_held_back(ctx, turn);
    }

    fn take_check_turn(&self, ctx: &Ctx) {
        let checks = std::mem::take(&mut *self.checks.borrow_mut());
        let mut slice = Slice::new();
        let mut left: Vec<_> = checks.into_iter().filter_map(|check| self.go_on(ctx, check, &mut slice)).collect();
        if !left.is_empty() {
            left.rotate_left(1);
            self.check_alarm.arm(ctx, PAUSE_MS, turn);
        }
        *self.checks.borrow_mut() = left;
    }

    /// Goes on with one walk; gives it back where it is not over.
    fn go_on(&self, ctx: &Ctx, mut check: LongCheck, slice: &mut Slice) -> Option<LongCheck> {
        ctx.select_db(check.db);
        let outcome = Queue::look(self.scene(ctx, self.now_us(ctx)), &check.state)
            .map(|mut queue| check.walk.step(&mut queue, slice));
        let answer = match outcome {
            Ok(Progress::More) => return Some(check),
            Ok(Progress::Done) => Ok((check.walk, check.reply)),
            Err(fault) => Err(fault),
        };
        check.waiting.answer(answer);
        None
    }
}

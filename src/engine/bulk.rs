//! Work on very many jobs, which goes on in the turns of the timer until it is done. A restart, another role,
//! `dq.enabled no` and keys that somebody moves end it where it is: asking again goes on.

use super::index::{Known, Task};
use super::turn::Job;
use super::walks::{self, Ground, Walk};
use super::{Node, NODE};
use crate::core::names::QueueName;
use crate::queue::{Bulk, Fault, Progress, Queue, Reach, Replay, ReplayAll, Replaying, Slice, State};
use crate::redis::Ctx;
use crate::settings;
use std::rc::Rc;

/// As `change`, for what may leave work to the turns.
pub fn change_all<T>(
    ctx: &Ctx,
    name: &QueueName,
    act: impl FnOnce(&mut Queue) -> Result<T, Fault>,
) -> Result<T, String> {
    if !settings::is_enabled() {
        return Err("DQDISABLED dq.enabled is no".into());
    }
    let done = super::change(ctx, name, Reach::ALL, act)?;
    NODE.see_to_bulk(ctx, name);
    Ok(done)
}

/// Writes how many.
type ReplyCount = fn(&Ctx, u64);

/// Counts the letters and begins to replay them; the client waits where there are too many to be counted in one step.
pub fn replay_all(ctx: &Ctx, name: &QueueName, replay: Replay, reply: ReplyCount) -> Result<(), String> {
    match change_all(ctx, name, |queue| Ok(queue.replay_all(replay)))? {
        Replaying::Counted(total) => {
            reply(ctx, total);
            Ok(())
        }
        Replaying::Uncounted(all) => {
            let state = super::find(ctx.db(), name, super::now(ctx)).state;
            let total = all.total();
            let count = Count { db: ctx.db(), state, all: Some(all), total, reply };
            walks::begin(ctx, Ground::Queue(name.as_bytes().to_vec()), Box::new(count))
        }
    }
}

/// The count before a replay.
struct Count {
    db: i32,
    state: Rc<State>,
    /// `None` when they are counted.
    all: Option<ReplayAll>,
    total: u64,
    reply: ReplyCount,
}

impl Walk for Count {
    fn step(&mut self, ctx: &Ctx, slice: &mut Slice) -> Result<Progress, Fault> {
        let Some(mut all) = self.all.take() else { return Ok(Progress::Done) };
        let progress = all.count(&mut NODE.open_to_read(ctx, &self.state)?, slice);
        self.total = all.total();
        if progress == Progress::More {
            self.all = Some(all);
            return Ok(Progress::More);
        }
        NODE.begin_replay(ctx, self.db, &self.state, all)?;
        Ok(Progress::Done)
    }

    fn reply(&self, ctx: &Ctx) {
        (self.reply)(ctx, self.total);
    }
}

impl Node {
    fn begin_replay(&self, ctx: &Ctx, db: i32, state: &Rc<State>, all: ReplayAll) -> Result<(), Fault> {
        let mut index = self.index.borrow_mut();
        let is_same = |known: &&Known| known.state().is_some_and(|known| Rc::ptr_eq(&known, state));
        let known = index.find(db, state.name()).filter(|known| self.is_acting() && is_same(known));
        let number = known.map(|known| known.number).ok_or(Fault::GivenUp)?;
        state.add_bulk(Bulk::Replay(all));
        let now = self.now(ctx);
        index.schedule.set_by(Task::Bulk(number), now);
        drop(index);
        self.wake_for_tasks(ctx, now);
        Ok(())
    }

    fn see_to_bulk(&self, ctx: &Ctx, name: &QueueName) {
        let now = self.now(ctx);
        let mut index = self.index.borrow_mut();
        let has_bulk = |known: &&Known| known.state().is_some_and(|state| state.has_bulk());
        let under_way = index.find(ctx.db(), name.as_bytes()).filter(has_bulk);
        if let Some(number) = under_way.map(|known| known.number) {
            index.schedule.set_by(Task::Bulk(number), now);
            drop(index);
            self.wake_for_tasks(ctx, now);
        }
    }

    pub(super) fn go_on_with_bulk(&self, job: &Job, queue: &mut Queue, slice: &mut Slice) -> Option<u64> {
        match queue.go_on(slice) {
            Progress::More => Some(job.now),
            Progress::Done => None,
        }
    }

    pub(super) fn end_bulk(&self) {
        self.index.borrow().states().for_each(|state| state.end_bulk());
    }
}

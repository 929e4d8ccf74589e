//! DQ.CHECK, at once or as a walk while the client waits, and DQ.REPAIR, always as a walk.

use super::walks::{self, Ground, Walk};
use super::NODE;
use crate::core::names::QueueName;
use crate::queue::{CheckWalk, Fault, Progress, Reach, Slice, State};
use crate::redis::{Ctx, Refusal};
use crate::settings;
use std::rc::Rc;

/// Entries that are walked over at once, without making the client wait.
const AT_ONCE: usize = 1000;

/// Writes what a walk found.
type ReplyWalk = fn(&Ctx, &CheckWalk);

struct Check {
    state: Rc<State>,
    walk: CheckWalk,
    reply: ReplyWalk,
}

impl Walk for Check {
    fn step(&mut self, ctx: &Ctx, slice: &mut Slice) -> Result<Progress, Fault> {
        let mut queue = NODE.open_to_read(ctx, &self.state)?;
        Ok(self.walk.step(&mut queue, slice))
    }

    fn reply(&self, ctx: &Ctx) {
        (self.reply)(ctx, &self.walk);
    }
}

/// Walks over a queue, and answers by `reply` at once or when the walk is over.
pub fn begin(ctx: &Ctx, name: &QueueName, reply: ReplyWalk) -> Result<(), String> {
    let mut walk = CheckWalk::looking();
    let long = super::look(ctx, name, |queue, _| {
        let long = queue.entries() > AT_ONCE;
        while !long && walk.step(queue, &mut Slice::new()) == Progress::More {}
        Ok(long)
    })?;
    if !long {
        reply(ctx, &walk);
        return Ok(());
    }
    let state = super::find(ctx.db(), name, super::now(ctx)).state;
    walks::begin(ctx, Ground::Queue(name.as_bytes().to_vec()), Box::new(Check { state, walk, reply }))
}

struct Repair {
    name: Vec<u8>,
    state: Rc<State>,
    walk: CheckWalk,
    reply: ReplyWalk,
}

impl Walk for Repair {
    /// Waits while writes are paused, as any client's write does, and fails where they are refused.
    fn step(&mut self, ctx: &Ctx, slice: &mut Slice) -> Result<Progress, Fault> {
        if ctx.writes_are_paused() {
            return Ok(Progress::More);
        }
        ctx.would_write(&self.state.keys.due).map_err(fault_of)?;
        let name = QueueName::parse(&self.name).map_err(|_| Fault::GivenUp)?;
        let walk = &mut self.walk;
        super::change(ctx, &name, Reach::ALL, |queue| Ok(walk.step(queue, slice))).map_err(Fault::Refused)
    }

    fn reply(&self, ctx: &Ctx) {
        (self.reply)(ctx, &self.walk);
    }

    fn may_go_on(&self) -> Result<(), Fault> {
        may_repair().map_err(Fault::Refused)
    }
}

/// The server refuses all writes, or those to a slot that has left or is on its way.
fn fault_of(refusal: Refusal) -> Fault {
    if NODE.cluster.get() && !refusal.is_of_all_writes() && !refusal.is_of_the_type() {
        Fault::TryAgain
    } else {
        Fault::Refused(refusal.0)
    }
}

/// As `begin`, and repairs what it finds.
pub fn begin_repair(ctx: &Ctx, name: &QueueName, reply: ReplyWalk) -> Result<(), String> {
    may_repair()?;
    if ctx.denies_blocking() {
        return Err(Fault::CannotWait.to_string());
    }
    NODE.begin(ctx);
    let state = super::find(ctx.db(), name, super::now(ctx)).state;
    let (name, walk) = (name.as_bytes().to_vec(), CheckWalk::mending());
    walks::begin(ctx, Ground::Queue(name.clone()), Box::new(Repair { name, state, walk, reply }))
}

fn may_repair() -> Result<(), String> {
    if !NODE.primary.get() {
        Err("READONLY DQ changes queues on a primary only".into())
    } else if !settings::is_enabled() {
        Err("DQDISABLED dq.enabled is no".into())
    } else {
        Ok(())
    }
}

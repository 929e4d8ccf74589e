//! DQ.CHECK: at once, or as a walk while the client waits.

use super::walks::{self, Walk};
use super::NODE;
use crate::core::names::QueueName;
use crate::queue::{CheckWalk, Fault, Progress, Slice, State};
use crate::redis::Ctx;
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
    let mut walk = CheckWalk::default();
    let long = super::look(ctx, name, |queue, _| {
        let long = queue.entries() > AT_ONCE;
        while !long && walk.step(queue, &mut Slice::new()) == Progress::More {}
        Ok(long)
    })?;
    if !long {
        reply(ctx, &walk);
        return Ok(());
    }
    let (_, state) = super::find(ctx.db(), name, super::now(ctx));
    walks::begin(ctx, Box::new(Check { state, walk, reply }))
}

//! Walks that are too long for one step: a slice a turn, while the client waits.

use super::{Node, NODE};
use crate::queue::{Fault, Progress, Queue, Slice, State};
use crate::redis::{Ctx, Reply, Wait, WaitKey, Waiting};

/// Between two slices of the walks, in ms.
const PAUSE_MS: u64 = 1;

/// What a walk does and finds.
pub trait Walk {
    /// Goes on as far as the slice goes. Nobody asks here whether writes are paused or refused: a walk that writes asks
    /// itself.
    fn step(&mut self, ctx: &Ctx, slice: &mut Slice) -> Result<Progress, Fault>;
    /// Writes what was found.
    fn reply(&self, ctx: &Ctx);
}

/// One walk under way.
pub struct LongWalk {
    db: i32,
    walk: Box<dyn Walk>,
    waiting: Waiting<WalkWait>,
}

/// The waiting for a walk.
pub struct WalkWait;

impl Wait for WalkWait {
    type Answer = Result<Box<dyn Walk>, Fault>;

    fn must_arrive(_: &Self::Answer) -> bool {
        false
    }

    fn reply(ctx: &Ctx, answer: &Self::Answer) {
        match answer {
            Ok(walk) => walk.reply(ctx),
            Err(fault) => ctx.reply_error(&fault.to_string()),
        }
    }

    fn reply_timed_out(ctx: &Ctx) {
        ctx.reply_error("UNBLOCKED the walk was not finished");
    }

    fn left(key: WaitKey) {
        NODE.walks.borrow_mut().retain(|walk| walk.waiting.key() != key);
    }

    fn untold(_: Self::Answer) {}
}

/// Goes on with a walk in the database of the client, which waits for it.
pub fn begin(ctx: &Ctx, walk: Box<dyn Walk>) -> Result<(), String> {
    let waiting = Waiting::begin(ctx).ok_or_else(|| Fault::CannotWait.to_string())?;
    NODE.walks.borrow_mut().push(LongWalk { db: ctx.db(), walk, waiting });
    if !NODE.walk_alarm.is_armed() {
        NODE.walk_alarm.arm(ctx, 0, turn);
    }
    Ok(())
}

fn turn(ctx: &Ctx) {
    NODE.walk_alarm.fired();
    NODE.take_walk_turn(ctx);
}

impl Node {
    /// Goes on with the walks, where a step of the wall clock holds their timer back.
    pub(super) fn walk_if_held_back(&self, ctx: &Ctx) {
        self.walk_alarm.rearm_if_held_back(ctx, turn);
    }

    fn take_walk_turn(&self, ctx: &Ctx) {
        let walks = std::mem::take(&mut *self.walks.borrow_mut());
        let mut slice = Slice::new();
        let mut left: Vec<_> = walks.into_iter().filter_map(|walk| go_on(ctx, walk, &mut slice)).collect();
        if !left.is_empty() {
            left.rotate_left(1);
            self.walk_alarm.arm(ctx, PAUSE_MS, turn);
        }
        *self.walks.borrow_mut() = left;
    }

    /// The queue, to be read.
    pub(super) fn open_to_read<'a>(&self, ctx: &'a Ctx, state: &'a State) -> Result<Queue<'a>, Fault> {
        Queue::look(self.scene(ctx, self.now_us(ctx)), state)
    }
}

/// Goes on with one walk; gives it back where it is not over.
fn go_on(ctx: &Ctx, mut long: LongWalk, slice: &mut Slice) -> Option<LongWalk> {
    ctx.select_db(long.db);
    let answer = match long.walk.step(ctx, slice) {
        Ok(Progress::More) => return Some(long),
        Ok(Progress::Done) => Ok(long.walk),
        Err(fault) => Err(fault),
    };
    long.waiting.answer(answer);
    None
}

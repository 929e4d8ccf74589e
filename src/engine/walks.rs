//! Walks that are too long for one step: a slice a turn, while the client waits.

use super::{Node, NODE};
use crate::queue::{Fault, Progress, Queue, Slice, State};
use crate::redis::{Ctx, Reply, Wait, WaitKey, Waiting};

/// Between two slices of the walks, in ms.
const PAUSE_MS: u64 = 1;

/// What a walk does and finds.
pub trait Walk {
    /// Continues for one slice. Nobody checks here whether writes are paused or refused: a walk that writes checks itself.
    fn step(&mut self, ctx: &Ctx, slice: &mut Slice) -> Result<Progress, Fault>;
    /// Writes what was found.
    fn reply(&self, ctx: &Ctx);
    /// Returns the error to reply with if this node's state no longer allows the walk.
    fn may_go_on(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// The keys that a walk reads. Its result is only whole if they stay the same keys until it ends: the cursor of a walk
/// means nothing in a keyspace, an index or a key that was replaced.
pub enum Ground {
    /// The queues of the database.
    Database,
    /// The keys of one queue.
    Queue(Vec<u8>),
}

/// One walk under way.
pub struct LongWalk {
    db: i32,
    ground: Ground,
    /// Whether the keys were replaced, or this node stopped acting, since the walk began.
    given_up: bool,
    /// `None` during its own step.
    walk: Option<Box<dyn Walk>>,
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

/// Continues a walk in the database of the client, which waits for it.
pub fn begin(ctx: &Ctx, ground: Ground, walk: Box<dyn Walk>) -> Result<(), String> {
    let waiting = Waiting::begin(ctx).ok_or_else(|| Fault::CannotWait.to_string())?;
    let long = LongWalk { db: ctx.db(), ground, given_up: false, walk: Some(walk), waiting };
    NODE.walks.borrow_mut().push(long);
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
    /// Continues the walks if a step of the wall clock holds their timer back.
    pub(super) fn walk_if_held_back(&self, ctx: &Ctx) {
        self.walk_alarm.rearm_if_held_back(ctx, turn);
    }

    /// Ends all walks in one database, or in every one if `db` is `None`, with an error. Their clients are told in the
    /// next slice, never within the command or event that calls for it.
    pub(super) fn give_up_walks(&self, db: Option<i32>) {
        let mut walks = self.walks.borrow_mut();
        walks.iter_mut().filter(|long| db.is_none_or(|db| db == long.db)).for_each(|long| long.given_up = true);
    }

    /// As `give_up_walks`, for the walks over one queue.
    pub(super) fn give_up_walks_of(&self, db: i32, queue: &[u8]) {
        let is_over = |long: &LongWalk| long.db == db && matches!(&long.ground, Ground::Queue(name) if name == queue);
        let mut walks = self.walks.borrow_mut();
        walks.iter_mut().filter(|long| is_over(long)).for_each(|long| long.given_up = true);
    }

    pub(super) fn has_walks(&self) -> bool {
        !self.walks.borrow().is_empty()
    }

    fn take_walk_turn(&self, ctx: &Ctx) {
        let mut slice = Slice::new();
        let keys: Vec<_> = self.walks.borrow().iter().map(|long| long.waiting.key()).collect();
        keys.into_iter().for_each(|key| self.go_on_with_walk(ctx, key, &mut slice));
        let mut left = self.walks.borrow_mut();
        if !left.is_empty() {
            left.rotate_left(1);
            self.walk_alarm.arm(ctx, PAUSE_MS, turn);
        }
    }

    /// Takes one step of a walk, and answers its client if that was the last. The walk stays in the list meanwhile: its
    /// own step can make the server report that a key went.
    fn go_on_with_walk(&self, ctx: &Ctx, key: WaitKey, slice: &mut Slice) {
        let take = |long: &mut LongWalk| Some((long.db, long.given_up, long.walk.take()?));
        let taken = self.find_walk(key, take).flatten();
        let Some((db, given_up, mut walk)) = taken else { return };
        ctx.select_db(db);
        let step = walk.may_go_on().and_then(|()| if given_up { Err(Fault::GivenUp) } else { walk.step(ctx, slice) });
        let answer = match step {
            Ok(_) if self.find_walk(key, |long| long.given_up) == Some(true) => Err(Fault::GivenUp),
            Ok(Progress::Done) => Ok(walk),
            Err(fault) => Err(fault),
            Ok(Progress::More) => {
                self.find_walk(key, |long| long.walk = Some(walk));
                return;
            }
        };
        let mut walks = self.walks.borrow_mut();
        let ended = walks.iter().position(|long| long.waiting.key() == key).map(|place| walks.remove(place));
        drop(walks);
        if let Some(long) = ended {
            long.waiting.answer(answer);
        }
    }

    fn find_walk<T>(&self, key: WaitKey, act: impl FnOnce(&mut LongWalk) -> T) -> Option<T> {
        self.walks.borrow_mut().iter_mut().find(|long| long.waiting.key() == key).map(act)
    }

    /// Opens the queue for reading.
    pub(super) fn open_to_read<'a>(&self, ctx: &'a Ctx, state: &'a State) -> Result<Queue<'a>, Fault> {
        Queue::look(self.scene(ctx, self.now_us(ctx)), state)
    }
}

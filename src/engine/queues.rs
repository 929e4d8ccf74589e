//! DQ.QUEUES: the queues of one database, at once or as a walk while the client waits.

use super::index::QueueNumber;
use super::walks::{self, Ground, Walk};
use super::{Found, NODE};
use crate::core::glob;
use crate::core::names::{self, QueueName};
use crate::queue::{Counts, Fault, Progress, Queue, Scene, Slice};
use crate::redis::{Ctx, KeyspaceScan};
use std::collections::BTreeSet;

/// Known queues that are looked at together.
const BATCH: usize = 64;

/// One queue.
pub struct QueueRow {
    pub name: Vec<u8>,
    pub counts: Counts,
    pub paused: bool,
    pub waiting: usize,
}

/// Writes what was found.
type ReplyRows = fn(&Ctx, &[QueueRow]);

/// Where names are still to be looked for.
enum Source {
    /// Among the queues that this node knows, from this number on.
    Known(QueueNumber),
    /// Among the keys of the database, where this node does not know its queues.
    Keys(KeyspaceScan),
    /// Nowhere.
    None,
}

struct Queues {
    db: i32,
    pattern: Vec<u8>,
    source: Source,
    /// Those that are still to be looked into.
    names: BTreeSet<Vec<u8>>,
    rows: Vec<QueueRow>,
    reply: ReplyRows,
}

impl Walk for Queues {
    fn step(&mut self, ctx: &Ctx, slice: &mut Slice) -> Result<Progress, Fault> {
        if self.look_for_names(ctx, slice) == Progress::More {
            return Ok(Progress::More);
        }
        while !slice.is_over() {
            let Some(name) = self.names.pop_first() else { return Ok(Progress::Done) };
            slice.spend(0);
            self.rows.extend(row(ctx, self.db, name));
        }
        Ok(Progress::More)
    }

    fn reply(&self, ctx: &Ctx) {
        (self.reply)(ctx, &self.rows);
    }
}

impl Queues {
    fn look_for_names(&mut self, ctx: &Ctx, slice: &mut Slice) -> Progress {
        while !slice.is_over() {
            let mut found = Vec::new();
            let more = self.source.step(ctx, self.db, slice, &mut found);
            self.names.extend(found.into_iter().filter(|name| glob::matches(&self.pattern, name)));
            if !more {
                self.source = Source::None;
                return Progress::Done;
            }
        }
        Progress::More
    }
}

impl Source {
    /// Adds the next few names; `false` if there are no more.
    fn step(&mut self, ctx: &Ctx, db: i32, slice: &mut Slice, found: &mut Vec<Vec<u8>>) -> bool {
        let more = match self {
            Source::None => false,
            Source::Known(from) => {
                let index = NODE.index.borrow();
                let mut known = index.from(*from).take(BATCH).peekable();
                let more = known.peek().is_some();
                for known in known {
                    slice.spend(0);
                    *from = known.number + 1;
                    found.extend((known.db == db).then(|| known.name().to_vec()));
                }
                more
            }
            Source::Keys(scan) => scan.step(ctx, &mut |key| {
                slice.spend(0);
                found.extend(names::queue_of(key).map(|(name, _)| name.as_bytes().to_vec()));
            }),
        };
        match self {
            // A queue that somebody waits for may have no key.
            Source::Keys(_) if !more => *self = Source::Known(0),
            _ => return more,
        }
        true
    }
}

/// Looks for the queues whose names match `pattern`, and answers by `reply`, in the order of the names.
pub fn list(ctx: &Ctx, pattern: &[u8], reply: ReplyRows) -> Result<(), String> {
    NODE.begin(ctx);
    let knows_all = NODE.is_acting() && NODE.discovery.borrow().is_over();
    let source = if knows_all { Source::Known(0) } else { Source::Keys(KeyspaceScan::default()) };
    let (db, pattern) = (ctx.db(), pattern.to_vec());
    let mut queues = Queues { db, pattern, source, names: BTreeSet::new(), rows: Vec::new(), reply };
    let progress = match queues.look_for_names(ctx, &mut Slice::at_once()) {
        Progress::Done => queues.step(ctx, &mut Slice::at_once()).map_err(|fault| fault.to_string())?,
        Progress::More => Progress::More,
    };
    match progress {
        Progress::Done => {
            queues.reply(ctx);
            Ok(())
        }
        Progress::More => walks::begin(ctx, Ground::Database, Box::new(queues)),
    }
}

/// `None` if there is no such queue any more and nobody waits for it, or its keys are not a queue's. A queue of which
/// some keys are on another node of a cluster already is listed with those that are here.
fn row(ctx: &Ctx, db: i32, name: Vec<u8>) -> Option<QueueRow> {
    let queue_name = QueueName::parse(&name).ok()?;
    let Found { number, state, .. } = super::find(db, &queue_name, NODE.now(ctx));
    let here = || Queue::look(Scene { cluster: false, ..NODE.scene(ctx, NODE.now_us(ctx)) }, &state);
    let mut queue = NODE.open_to_read(ctx, &state).or_else(|_| here()).ok()?;
    let waiting = number.map_or(0, |number| NODE.waiters.borrow().count(number));
    if !queue.exists() && waiting == 0 {
        return None;
    }
    let (counts, paused) = (queue.counts(), queue.is_paused());
    drop(queue);
    Some(QueueRow { name, counts, paused, waiting })
}

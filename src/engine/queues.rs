//! DQ.QUEUES: the queues of one database, at once or as a walk while the client waits.

use super::walks::{self, Walk};
use super::NODE;
use crate::core::glob;
use crate::core::names::{self, QueueName};
use crate::queue::{Counts, Fault, Progress, Slice};
use crate::redis::{Ctx, KeyspaceScan};
use std::collections::BTreeSet;

/// One queue.
pub struct QueueRow {
    pub name: Vec<u8>,
    pub counts: Counts,
    pub paused: bool,
    pub waiting: usize,
}

/// Writes what was found.
type ReplyRows = fn(&Ctx, &[QueueRow]);

struct Queues {
    db: i32,
    pattern: Vec<u8>,
    /// Where this node does not know its queues: the keys that are still to be looked at.
    scan: Option<KeyspaceScan>,
    /// Those that are still to be looked into.
    names: BTreeSet<Vec<u8>>,
    rows: Vec<QueueRow>,
    reply: ReplyRows,
}

impl Walk for Queues {
    fn step(&mut self, ctx: &Ctx, slice: &mut Slice) -> Result<Progress, Fault> {
        while !slice.is_over() {
            if let Some(scan) = &mut self.scan {
                let more = scan.step(ctx, &mut |key| {
                    slice.spend(0);
                    self.names.extend(names::queue_of(key).map(|(name, _)| name.as_bytes().to_vec()));
                });
                if !more {
                    self.scan = None;
                }
                continue;
            }
            let Some(name) = self.names.pop_first() else { return Ok(Progress::Done) };
            slice.spend(0);
            if glob::matches(&self.pattern, &name) {
                self.rows.extend(row(ctx, self.db, name));
            }
        }
        Ok(Progress::More)
    }

    fn reply(&self, ctx: &Ctx) {
        (self.reply)(ctx, &self.rows);
    }
}

/// Looks for the queues whose names match `pattern`, and answers by `reply`, in the order of the names.
pub fn list(ctx: &Ctx, pattern: &[u8], reply: ReplyRows) -> Result<(), String> {
    NODE.begin(ctx);
    let (db, index) = (ctx.db(), NODE.index.borrow());
    let knows_all = NODE.is_acting() && NODE.discovery.borrow().is_over();
    let known = index.numbers_in(Some(db)).into_iter().filter_map(|number| index.get(number));
    let mut queues = Queues {
        db,
        pattern: pattern.to_vec(),
        scan: (!knows_all).then(KeyspaceScan::default),
        names: known.map(|known| known.state.name().to_vec()).collect(),
        rows: Vec::new(),
        reply,
    };
    drop(index);
    match queues.step(ctx, &mut Slice::at_once()).map_err(|fault| fault.to_string())? {
        Progress::Done => {
            queues.reply(ctx);
            Ok(())
        }
        Progress::More => walks::begin(ctx, Box::new(queues)),
    }
}

/// `None` where there is no such queue any more, or its keys are not a queue's.
fn row(ctx: &Ctx, db: i32, name: Vec<u8>) -> Option<QueueRow> {
    let queue_name = QueueName::parse(&name).ok()?;
    let (number, state) = super::find(db, &queue_name, NODE.now(ctx));
    let mut queue = NODE.open_to_read(ctx, &state).ok()?;
    let waiting = number.map_or(0, |number| NODE.waiters.borrow().count(number));
    let (counts, paused) = queue.exists().then(|| (queue.counts(), queue.is_paused()))?;
    drop(queue);
    Some(QueueRow { name, counts, paused, waiting })
}

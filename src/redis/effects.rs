//! What the replicas and the AOF are told of one key, in the order in which it happened.

use super::{Ctx, NativeCommand, Text};
use smallvec::SmallVec;

/// Runs of like changes, each one native command. One change needs no memory of its own.
#[derive(Default)]
pub(super) struct Effects {
    /// The arguments of all runs, one behind the other.
    args: SmallVec<[Text; 2]>,
    /// Each run's kind, and where its arguments end.
    runs: SmallVec<[(Change, usize); 2]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Put,
    Remove,
    /// The whole key went.
    Unlink,
}

impl Effects {
    /// Makes room for the arguments of what is about to change.
    pub fn expect(&mut self, args: usize) {
        self.args.reserve(args);
    }

    /// Adds the arguments of one change to the run that it goes on, or begins one.
    pub fn add<const N: usize>(&mut self, change: Change, args: [Text; N]) {
        self.args.extend(args);
        let end = self.args.len();
        match self.runs.last_mut() {
            Some((kind, run_end)) if *kind == change => *run_end = end,
            _ => self.runs.push((change, end)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Hands all to the server, as `put key arg …` and `remove key arg …`.
    pub fn replicate(&self, ctx: &Ctx, key: &Text, put: NativeCommand, remove: NativeCommand) {
        let mut start = 0;
        for &(change, end) in &self.runs {
            let command = match change {
                Change::Put => put,
                Change::Remove => remove,
                Change::Unlink => NativeCommand::Unlink,
            };
            ctx.replicate(command, key, &self.args[start..end]);
            start = end;
        }
    }
}

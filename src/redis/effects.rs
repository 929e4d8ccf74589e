//! What the replicas and the AOF are told of one key, in the order in which it happened.

use super::{Ctx, Text};
use std::ffi::CStr;

/// Runs of like changes, each one native command.
#[derive(Default)]
pub(super) struct Effects(Vec<(Change, Vec<Text>)>);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Put,
    Remove,
}

impl Effects {
    /// Adds the arguments of one change to the run that it goes on, or begins one.
    pub fn add<const N: usize>(&mut self, change: Change, args: [Text; N]) {
        match self.0.last_mut() {
            Some((kind, run)) if *kind == change => run.extend(args),
            _ => self.0.push((change, args.into())),
        }
    }

    /// Hands all to the server, as `put key arg …` and `remove key arg …`.
    pub fn replicate(&self, ctx: &Ctx, key: &Text, put: &CStr, remove: &CStr) {
        for (change, args) in &self.0 {
            let command = if *change == Change::Put { put } else { remove };
            let args: Vec<_> = args.iter().map(Text::raw).collect();
            ctx.replicate(command, key, &args);
        }
    }
}

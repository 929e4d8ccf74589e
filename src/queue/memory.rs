//! How much memory a queue takes.

use super::due::id_in;
use super::Queue;
use crate::redis::{HashKey, Text, ZsetKey};

/// From so many entries on, MEMORY USAGE of a HASH can take very long: while the server makes the table larger or
/// smaller it goes through the buckets that it has emptied, up to ten times as many, to find the first entry.
const LARGE_HASH: usize = 10_000;
/// What the server needs beside the bytes of a field and its value, in bytes: 57 were measured on Redis 7.0.
const ENTRY_OVERHEAD: usize = 57;
/// Entries at the beginning of an index that stand for all.
const SAMPLES: usize = 4;

impl Queue<'_> {
    /// As MEMORY USAGE estimates the keys, in bytes; many records by those that are first and last in the indexes.
    pub fn memory(&mut self) -> u64 {
        let due = ends(&mut self.due).map(|member| id_in(&member).into_owned());
        let live: Vec<Text> = due.chain(ends(&mut self.leased)).collect();
        let dead: Vec<Text> = ends(&mut self.dead_at).collect();
        let indexes = [&self.due, &self.leased, &self.ids, &self.dead_at].map(ZsetKey::usage);
        let records = hash_memory(&mut self.jobs, &live) + hash_memory(&mut self.dead, &dead);
        self.header.usage() + indexes.iter().sum::<u64>() + records
    }
}

fn ends(index: &mut ZsetKey) -> impl Iterator<Item = Text> {
    let last = index.last();
    index.first(u64::MAX, SAMPLES).into_iter().chain(last).map(|(id, _)| id)
}

fn hash_memory(hash: &mut HashKey, sample: &[Text]) -> u64 {
    let entries = hash.len();
    if entries < LARGE_HASH {
        return hash.usage();
    }
    let lengths: Vec<usize> =
        sample.iter().filter_map(|id| Some(id.as_bytes().len() + hash.get(id)?.as_bytes().len())).collect();
    let mean = lengths.iter().sum::<usize>() / lengths.len().max(1);
    (entries * (mean + ENTRY_OVERHEAD)) as u64
}

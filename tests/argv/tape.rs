//! The last commands of a run, kept so that they can be sent again.

use std::collections::VecDeque;
use std::fs;

use super::wire::{encode, Words};
use crate::common::dump::show;

/// How many commands are kept, and how many bytes of them at most.
const COMMANDS: usize = 5000;
const BYTES: usize = 256 << 20;
/// How many of them are printed.
const PRINTED: usize = 25;

#[derive(Default)]
pub struct Tape {
    /// With the database in which each was given.
    commands: VecDeque<(i64, Words)>,
    bytes: usize,
}

impl Tape {
    pub fn note(&mut self, db: i64, words: &Words) {
        self.bytes += size(words);
        self.commands.push_back((db, words.clone()));
        while self.commands.len() > COMMANDS || self.bytes > BYTES {
            let Some((_, words)) = self.commands.pop_front() else { break };
            self.bytes -= size(&words);
        }
    }

    /// Writes all to a file and gives what to print: how to send them again, and the last of them.
    pub fn tell(&self, seed: u64) -> String {
        let path = std::env::temp_dir().join(format!("dq-argv-{seed}.resp"));
        let (mut all, mut selected) = (Vec::new(), None);
        for (db, words) in &self.commands {
            if selected.replace(*db) != Some(*db) {
                encode(&vec![b"SELECT".to_vec(), db.to_string().into_bytes()], &mut all);
            }
            encode(words, &mut all);
        }
        let written = match fs::write(&path, all) {
            Ok(()) => format!("redis-cli -p PORT --pipe <{}", path.display()),
            Err(e) => format!("they could not be written to {}: {e}", path.display()),
        };
        let last = self.commands.iter().skip(self.commands.len().saturating_sub(PRINTED));
        let lines: Vec<String> = last.map(|(db, words)| format!("  db {db}: {}", line(words))).collect();
        format!("the last {} commands again: {written}\nof these the last:\n{}", self.commands.len(), lines.join("\n"))
    }
}

fn size(words: &Words) -> usize {
    words.iter().map(|word| word.len() + 24).sum()
}

/// The command as redis-cli takes it, long words cut.
fn line(words: &Words) -> String {
    let shown = words.iter().take(60).map(|word| format!("\"{}\"", show(word)));
    let more = if words.len() > 60 { format!(" … {} words", words.len()) } else { String::new() };
    shown.collect::<Vec<_>>().join(" ") + &more
}

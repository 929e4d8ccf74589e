//! A server's disk: it can be full, and its power can be cut, after which only what was synced is there.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::common::dice::Dice;
use crate::common::preload;
use crate::common::server::{new_dir, Builder};

pub struct Disk {
    folder: PathBuf,
}

/// What a power cut left.
pub struct Cut {
    /// Bytes of the append only file that were written and had not been synced.
    pub lost: u64,
    /// When the last sync that was completed had begun.
    pub synced_at: Option<u64>,
}

impl Disk {
    /// Builds the library that stands between the server and the disk.
    pub fn new() -> Disk {
        let folder = new_dir();
        fs::write(folder.join("full"), [0]).expect("the switch is written");
        preload::build(&folder, "disk", include_str!("disk.c"));
        Disk { folder }
    }

    /// Makes the server write to this disk.
    pub fn serves(&self, builder: Builder) -> Builder {
        builder.preload(&self.folder.join("disk.so")).env("DQ_DISK", &self.folder.to_string_lossy())
    }

    pub fn fill(&self) {
        self.set(1);
    }

    pub fn free(&self) {
        self.set(0);
    }

    fn set(&self, full: u8) {
        // Written in place: the server has the file mapped.
        File::options()
            .write(true)
            .open(self.folder.join("full"))
            .and_then(|file| file.write_all_at(&[full], 0))
            .expect("the switch is written");
    }

    /// Takes from the append only files of a server that was killed what it had not synced, or the end of that: a disk
    /// that loses power stops anywhere in what it has to write. Here it stops between two commands, which may be in the
    /// middle of a MULTI. Where it stops within a command of a MULTI, all servers before Valkey 9.1 keep the begin of that
    /// MULTI in the file, and put what they write later inside it (valkey-io/valkey#4342): no module can mend that.
    pub fn cut_power(&self, server_dir: &Path, dice: &mut Dice) -> Cut {
        let mut cut = Cut { lost: 0, synced_at: None };
        for entry in fs::read_dir(server_dir.join("appendonlydir")).expect("the folder is read").flatten() {
            if !entry.file_name().to_string_lossy().ends_with(".incr.aof") {
                continue;
            }
            let about = entry.metadata().expect("the file is there");
            let (safe, at) = self.synced(about.ino()).unwrap_or((0, 0));
            cut.synced_at = cut.synced_at.max(Some(at).filter(|at| *at > 0));
            if safe < about.len() {
                let bytes = fs::read(entry.path()).expect("the file is read");
                let kept = *dice.pick(&ends_of_commands(&bytes, safe as usize)) as u64;
                cut.lost += about.len() - kept;
                let file = File::options().write(true).open(entry.path()).expect("the file opens");
                file.set_len(kept).expect("the file is cut");
            }
        }
        cut
    }

    /// How long a file was when its last sync began, and when that was.
    fn synced(&self, inode: u64) -> Option<(u64, u64)> {
        let note = fs::read(self.folder.join(inode.to_string())).ok()?;
        let number = |at: usize| Some(u64::from_ne_bytes(note.get(at..at + 8)?.try_into().ok()?));
        Some((number(0)?, number(8)?))
    }
}

/// Where commands end in an append only file, from an end on.
fn ends_of_commands(file: &[u8], from: usize) -> Vec<usize> {
    let mut ends = vec![from];
    let mut at = from;
    while let Some(end) = end_of_command(file, at) {
        ends.push(end);
        at = end;
    }
    ends
}

/// Where the command ends that begins there, where it is whole.
fn end_of_command(file: &[u8], at: usize) -> Option<usize> {
    // The number after the mark `*` or `$`, and where its line ends.
    let number = |at: usize| {
        let line = file.get(at..)?.split(|byte| *byte == b'\n').next()?;
        let digits = std::str::from_utf8(line.get(1..)?).ok()?.trim_end();
        Some((digits.parse::<usize>().ok()?, at + line.len() + 1))
    };
    let (words, mut at) = number(at)?;
    for _ in 0..words {
        let (bytes, begin) = number(at)?;
        at = begin + bytes + 2;
    }
    (at <= file.len()).then_some(at)
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

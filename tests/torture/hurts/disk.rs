//! A server's disk: it can be full, and its power can be cut, after which only what was synced is there.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

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
        fs::write(folder.join("disk.c"), include_str!("disk.c")).expect("the source is written");
        fs::write(folder.join("full"), [0]).expect("the switch is written");
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o", "disk.so", "disk.c", "-ldl"])
            .current_dir(&folder)
            .output()
            .expect("cc is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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

    /// Takes from the append only files of a server that was killed what it had not synced.
    pub fn cut_power(&self, server_dir: &Path) -> Cut {
        let mut cut = Cut { lost: 0, synced_at: None };
        for entry in fs::read_dir(server_dir.join("appendonlydir")).expect("the folder is read").flatten() {
            if !entry.file_name().to_string_lossy().ends_with(".incr.aof") {
                continue;
            }
            let about = entry.metadata().expect("the file is there");
            let (safe, at) = self.synced(about.ino()).unwrap_or((0, 0));
            cut.synced_at = cut.synced_at.max(Some(at).filter(|at| *at > 0));
            if safe < about.len() {
                cut.lost += about.len() - safe;
                let file = File::options().write(true).open(entry.path()).expect("the file opens");
                file.set_len(safe).expect("the file is cut");
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

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

//! A clock that stands still for the module, and moves when the test says so.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use crate::common::server::{new_dir, Builder};

/// Where the boot clock stands at first, in µs.
const BOOT_US: u64 = 1_000_000_000_000;
/// Where the wall clock stands at first, in µs since 1970.
const WALL_US: u64 = 1_800_000_000_000_000;

/// The boot clock and the wall clock of one server.
pub struct FrozenClock {
    dir: PathBuf,
    boot_us: u64,
    wall_us: u64,
}

impl FrozenClock {
    /// Builds the library that stops the clocks.
    pub fn new() -> FrozenClock {
        let dir = new_dir();
        fs::write(dir.join("frozen.c"), include_str!("frozen.c")).expect("the source is written");
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o", "frozen.so", "frozen.c", "-ldl"])
            .current_dir(&dir)
            .output()
            .expect("cc is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let clock = FrozenClock { dir, boot_us: BOOT_US, wall_us: WALL_US };
        fs::write(clock.dir.join("clocks"), [0; 16]).expect("the clocks are written");
        clock.write();
        clock
    }

    /// Makes the server's module live by this clock.
    pub fn rules(&self, builder: Builder) -> Builder {
        let path = |name: &str| self.dir.join(name).to_string_lossy().into_owned();
        builder.env("LD_PRELOAD", &path("frozen.so")).env("DQ_FROZEN_CLOCK", &path("clocks"))
    }

    /// Lets so many µs pass.
    pub fn pass(&mut self, us: u64) {
        self.boot_us += us;
        self.wall_us += us;
        self.write();
    }

    /// Sets the wall clock alone.
    pub fn set_wall(&mut self, us: u64) {
        self.wall_us = us;
        self.write();
    }

    pub fn boot_us(&self) -> u64 {
        self.boot_us
    }

    pub fn wall_us(&self) -> u64 {
        self.wall_us
    }

    /// Written in place, for the server has the file mapped.
    fn write(&self) {
        let file = fs::File::options().write(true).open(self.dir.join("clocks")).expect("the clocks are there");
        let ahead = self.wall_us.wrapping_sub(self.boot_us);
        file.write_all_at(&ahead.to_ne_bytes(), 8).expect("the wall clock is written");
        file.write_all_at(&self.boot_us.to_ne_bytes(), 0).expect("the boot clock is written");
    }
}

impl Drop for FrozenClock {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

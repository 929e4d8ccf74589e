//! A server whose wall clock a test can set.

use std::fs;
use std::path::PathBuf;

use super::preload;
use super::server::{new_dir, Builder};

/// The wall clock of one server.
pub struct Wall {
    dir: PathBuf,
}

impl Wall {
    /// Builds the library that lies about the time.
    pub fn new() -> Wall {
        let dir = new_dir();
        fs::write(dir.join("offset"), [0; 16]).expect("the offset is written");
        preload::build(&dir, "step", include_str!("clock_step.c"));
        Wall { dir }
    }

    /// Makes the server live by this clock.
    pub fn rules(&self, builder: Builder) -> Builder {
        let offset = self.dir.join("offset");
        builder.preload(&self.dir.join("step.so")).env("DQ_CLOCK_OFFSET", &offset.to_string_lossy())
    }

    /// Sets the clock to the real time and so many ms.
    pub fn set(&self, ms: i64) {
        self.write(ms, 0);
    }

    /// Holds the module's threads up for so many ms whenever they are about to read the clock.
    #[allow(dead_code)] // Not for every suite.
    pub fn hold_up(&self, ms: i64) {
        self.write(ms, 8);
    }

    fn write(&self, number: i64, place: u64) {
        use std::os::unix::fs::FileExt;
        // Written in place: the server has the file mapped.
        fs::File::options()
            .write(true)
            .open(self.dir.join("offset"))
            .and_then(|file| file.write_all_at(&number.to_ne_bytes(), place))
            .expect("the offset is written");
    }
}

impl Drop for Wall {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

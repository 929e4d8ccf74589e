//! The JavaScript blocks of a page: each is a program of its own, run by Node with the newest ioredis and node-redis.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::common::server::mortal;
use crate::common::{DEADLINE, PAUSE};
use crate::toolchain;

/// A program that runs, or has run.
pub struct Program {
    child: Child,
    /// What it printed so far.
    printed: PathBuf,
    errors: PathBuf,
}

/// Starts a block in the page's folder. `Err` says why this machine cannot.
pub fn start(folder: &Path, name: &str, text: &str) -> Result<Program, String> {
    let libraries = toolchain::node_libraries()?.join("node_modules");
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let link = folder.join("node_modules");
    if !link.exists() {
        symlink(libraries, link).map_err(failed)?;
    }
    let file = folder.join(format!("{name}.mjs"));
    fs::write(&file, text).map_err(failed)?;
    let (printed, errors) = (file.with_extension("printed"), file.with_extension("errors"));
    let mut node: Command = mortal("node");
    if text.contains("node:test") {
        node.arg("--test");
    }
    node.arg(file).current_dir(folder).stdin(Stdio::null());
    node.stdout(File::create(&printed).map_err(failed)?).stderr(File::create(&errors).map_err(failed)?);
    let child = node.spawn().map_err(|e| format!("node does not start: {e}"))?;
    Ok(Program { child, printed, errors })
}

impl Program {
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.printed).unwrap_or_default()
    }

    /// Waits for its end, which must be a good one.
    pub fn finish(&mut self) -> Result<String, String> {
        let end = std::time::Instant::now() + DEADLINE;
        loop {
            match self.child.try_wait().map_err(|e| e.to_string())? {
                Some(status) if status.success() => return Ok(self.printed()),
                Some(status) => return Err(self.failure(&status.to_string())),
                None if std::time::Instant::now() > end => return Err(self.failure("it does not end")),
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Fails if it has ended, other than well.
    pub fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait().map_err(|e| e.to_string())?.filter(|status| !ExitStatus::success(status)) {
            Some(status) => Err(self.failure(&status.to_string())),
            None => Ok(()),
        }
    }

    fn failure(&self, what: &str) -> String {
        let errors = fs::read_to_string(&self.errors).unwrap_or_default();
        format!("{what}; it printed:\n{}{errors}", self.printed())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

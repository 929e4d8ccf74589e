//! The examples as processes: a worker that runs, a producer that says the id.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::common::server::{mortal, new_dir};
use crate::{wait_for, wait_until};

/// How a language's programs are started.
pub struct Programs {
    pub worker: Vec<String>,
    pub producer: Vec<String>,
    pub env: Vec<(String, String)>,
}

/// What a worker or a producer is told by its environment.
#[derive(Clone, Default)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    pub fn of(port: u16, queue: &str) -> Settings {
        Settings::default().and("DQ_URL", format!("redis://127.0.0.1:{port}")).and("DQ_QUEUE", queue)
    }

    pub fn and(mut self, name: &str, value: impl ToString) -> Settings {
        self.0.push((name.to_string(), value.to_string()));
        self
    }
}

fn command(words: &[String], programs: &Programs, settings: &Settings) -> Command {
    let mut command = mortal(&words[0]);
    command.args(&words[1..]).envs(programs.env.iter().cloned()).envs(settings.0.iter().cloned());
    command.stdin(Stdio::null());
    command
}

/// Runs the producer to its end and gives the id that it printed.
pub fn produce(programs: &Programs, settings: &Settings, words: &[&str]) -> String {
    let output = command(&programs.producer, programs, settings).args(words).output().expect("the producer starts");
    assert!(output.status.success(), "the producer: {output:?}");
    String::from_utf8(output.stdout).expect("an id is text").trim().to_string()
}

/// A running worker. Dropping it kills it, and shows what it said where the test fails.
pub struct Worker {
    child: Child,
    dir: PathBuf,
}

impl Worker {
    pub fn start(programs: &Programs, settings: &Settings) -> Worker {
        let dir = new_dir();
        let log = File::create(dir.join("log")).expect("the log opens");
        let mut command = command(&programs.worker, programs, settings);
        command.stdout(log.try_clone().expect("the log opens twice")).stderr(log);
        let child = command.spawn().unwrap_or_else(|e| panic!("{:?} does not start: {e}", programs.worker));
        Worker { child, dir }
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.join("log")).unwrap_or_default()).into_owned()
    }

    /// Waits until the worker has said all of these words in one line.
    pub fn wait_says(&self, words: &[&str]) {
        wait_for(&format!("the worker to say {words:?}"), || {
            self.log().lines().any(|line| words.iter().all(|word| line.contains(word)))
        });
    }

    pub fn signal(&self, signal: libc::c_int) {
        // Safety: the child has not been waited for, so the id is still its own.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Waits for the worker to end by itself.
    pub fn ended(&mut self) -> ExitStatus {
        wait_until("the worker to end", || self.child.try_wait().expect("the child can be asked"))
    }

    /// Fails the test where the worker is no longer running.
    pub fn assert_alive(&mut self) {
        let ended = self.child.try_wait().expect("the child can be asked");
        assert!(ended.is_none(), "the worker ended: {ended:?}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            crate::tell(&format!("--- a worker's log\n{}---\n", self.log()));
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

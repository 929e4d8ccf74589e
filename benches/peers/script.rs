//! Peers whose clients are libraries of Node or Python: a child process that does as it is told, a line at a time.
//!
//! * `push N DELAY` pushes, `work N` finishes so many jobs that are due, `send N GAP DELAY` pushes jobs whose payload is
//!   the time at which they are due. Each is answered by `ok`.
//! * `listen N` starts a worker that waits, and answers `ok`; then `late NS ...` when so many have come.
//!
//! Times are those of the monotonic clock, which all processes share.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use crate::common::server::mortal;
use crate::peer::{Outcome, Peer, Sends};
use crate::PAYLOAD;

/// How long an order may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program of this folder, and what runs it.
#[derive(Clone)]
pub struct Program {
    pub runner: PathBuf,
    pub file: &'static str,
    pub installed: PathBuf,
}

struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    errors: PathBuf,
}

impl Process {
    fn start(program: &Program, kind: &str, port: u16, batch: usize) -> Outcome<Process> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers").join(program.file);
        let errors = std::env::temp_dir().join(format!("dq-peers-{}-{kind}-{port}", std::process::id()));
        let log = fs::File::create(&errors).map_err(|e| e.to_string())?;
        let mut command = mortal(&program.runner);
        let mut child = command
            .process_group(0)
            .arg(file)
            .args([kind, &port.to_string(), &batch.to_string()])
            .env("DQ_PEERS_NODE", &program.installed)
            .env("DQ_PEERS_PAYLOAD", PAYLOAD.to_string())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|e| format!("{} does not start: {e}", program.runner.display()))?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(orders), Some(answers)) = (orders, answers) else { unreachable!("both were asked for") };
        let mut process = Process { child, orders, answers: BufReader::new(answers), errors };
        process.expect("ok")?;
        Ok(process)
    }

    /// The next line, which begins with `word`; what follows it.
    fn expect(&mut self, word: &str) -> Outcome<String> {
        if self.answers.buffer().is_empty() && !self.says_something() {
            return Err(format!("no answer within {} s", PATIENCE.as_secs()));
        }
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        match line.trim_end().strip_prefix(word) {
            Some(rest) if read.is_ok() => Ok(rest.trim().to_string()),
            _ => Err(self.last_words(&line)),
        }
    }

    /// Waits for an answer, or the end of the process.
    fn says_something(&self) -> bool {
        let mut fd = libc::pollfd { fd: self.answers.get_ref().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let ms = i32::try_from(PATIENCE.as_millis()).expect("it fits");
        // Safety: one live descriptor, as is said.
        unsafe { libc::poll(&mut fd, 1, ms) > 0 }
    }

    fn order(&mut self, line: &str) -> Outcome<String> {
        writeln!(self.orders, "{line}").map_err(|_| self.last_words(""))?;
        self.expect("ok")
    }

    fn last_words(&self, line: &str) -> String {
        let errors = fs::read_to_string(&self.errors).unwrap_or_default();
        let said = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(line.trim());
        said.chars().map(|c| if c == '"' || c == '\\' || c.is_control() { '\'' } else { c }).take(200).collect()
    }
}

impl Process {
    fn signal(&self, pid: i32, signal: i32) {
        // Safety: the child has not been waited for, so its id, and that of its group, is still its own.
        unsafe { libc::kill(pid, signal) };
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = self.child.id() as i32;
        // RQ's scheduler, a process of its own, keeps the next one out for a minute where it is not asked to end.
        self.signal(pid, libc::SIGTERM);
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            if self.has_ended() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if !self.has_ended() {
            self.signal(-pid, libc::SIGKILL);
            let _ = self.child.wait();
        }
        let _ = fs::remove_file(&self.errors);
    }
}

pub struct Script {
    process: Process,
    again: Box<dyn Fn() -> Outcome<Process>>,
    cannot_work: Option<String>,
    has_jobs: bool,
}

impl Script {
    pub fn start(program: &Program, kind: &'static str, port: u16, batch: usize) -> Outcome<Script> {
        let program = program.clone();
        let process = Process::start(&program, kind, port, batch)?;
        // Lateness is that of one job at a time.
        let again = Box::new(move || Process::start(&program, kind, port, 1));
        Ok(Script { process, again, cannot_work: None, has_jobs: kind != "ping" })
    }

    pub fn only_pushes(self, why: &str) -> Script {
        Script { cannot_work: Some(why.into()), ..self }
    }
}

impl Peer for Script {
    fn push(&mut self, jobs: usize, delay_ms: u64) -> Outcome {
        self.process.order(&format!("push {jobs} {delay_ms}")).map(drop)
    }

    fn work(&mut self, jobs: usize) -> Outcome {
        self.process.order(&format!("work {jobs}")).map(drop)
    }

    fn late(&mut self, sends: Sends) -> Outcome<Option<Vec<f64>>> {
        if self.cannot_work.is_some() || !self.has_jobs {
            return Ok(None);
        }
        let Sends { count, gap_ms, delay_ms } = sends;
        let mut worker = (self.again)()?;
        worker.order(&format!("listen {count}"))?;
        // Some say so before they wait.
        std::thread::sleep(Duration::from_secs(2));
        (self.again)()?.order(&format!("send {count} {gap_ms} {delay_ms}"))?;
        let late = worker.expect("late")?;
        Ok(Some(late.split(' ').filter_map(|ns| ns.parse::<f64>().ok()).map(|ns| ns / 1e3).collect()))
    }

    fn has_jobs(&self) -> bool {
        self.has_jobs
    }

    fn cannot_work(&self) -> Option<String> {
        self.cannot_work.clone()
    }
}

//! The program itself, started as a user does.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Output, Stdio};
use std::sync::{Arc, Mutex};

use crate::common::server::mortal;
use crate::common::{wait_for, wait_until, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_dq-dashboard");

/// A running dashboard. Dropping it ends it.
pub struct Dashboard {
    child: Child,
    /// `http://127.0.0.1:8380/`
    pub base: String,
    pub port: u16,
    log: Arc<Mutex<String>>,
}

impl Dashboard {
    /// Shows the server, and only that.
    pub fn of(server: &Server) -> Dashboard {
        Dashboard::start(&[&url(server)])
    }

    /// Shows the server, with leave to act.
    pub fn acting(server: &Server) -> Dashboard {
        Dashboard::start(&[&url(server), "--allow-actions"])
    }

    pub fn start(args: &[&str]) -> Dashboard {
        Dashboard::start_with(args, &[])
    }

    pub fn start_with(args: &[&str], env: &[(&str, &str)]) -> Dashboard {
        let mut command = mortal(PROGRAM);
        command.args(["--listen", "127.0.0.1:0"]).args(args).envs(env.iter().copied());
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let log = read_log(&mut child);
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it has an output"));
        output.read_line(&mut line).expect("it tells where it is");
        let base = line.split(' ').find(|word| word.starts_with("http://")).unwrap_or_else(|| panic!("{line}"));
        let port = base.trim_end_matches('/').rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
        Dashboard { child, base: base.to_string(), port, log }
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: libc::c_int) {
        // Safety: the child has not been waited for, so the id is still its own.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The error output so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("the log is whole").clone()
    }

    /// Waits for a line of the error output that has all of the parts, and returns it.
    pub fn logs(&self, parts: &[&str]) -> String {
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        wait_until(&format!("{parts:?} in the log"), || self.log().lines().find(has_all).map(String::from))
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the error output, and shows it with that of the test.
fn read_log(child: &mut Child) -> Arc<Mutex<String>> {
    let log = Arc::new(Mutex::new(String::new()));
    let (kept, output) = (log.clone(), BufReader::new(child.stderr.take().expect("it has an error output")));
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            eprintln!("{line}");
            kept.lock().expect("the log is whole").push_str(&format!("{line}\n"));
        }
    });
    log
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs the program where it is to refuse to start. Where it does start it is ended, and the test fails.
pub fn refused(args: &[&str]) -> Output {
    let mut command = mortal(PROGRAM);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    wait_for("the program to refuse", || child.try_wait().expect("the child can be asked").is_some());
    child.wait_with_output().expect("what it told is there")
}

pub fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port)
}

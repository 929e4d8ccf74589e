//! A program of `examples/migration/` as a process.

use std::cell::RefCell;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::server::mortal;
use crate::common::Server;
use crate::toolchain::PYTHON3;

thread_local! {
    /// What runs the programs of the test that this thread runs.
    static PYTHON: RefCell<String> = RefCell::new(PYTHON3.to_string());
}

/// Runs a test whose programs are run by this Python.
pub fn with_python(python: &str, test: fn()) {
    PYTHON.set(python.to_string());
    test();
}

/// The program with what it is told, not yet started.
pub fn program(name: &str, words: &[&str]) -> Command {
    let mut command = mortal(PYTHON.with_borrow(String::clone));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/migration").join(name);
    command.arg(path).args(words).env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port)
}

/// How a run ended.
pub struct Ended {
    pub code: Option<i32>,
    pub said: String,
}

impl Ended {
    pub fn of(output: Output) -> Ended {
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        Ended { code: output.status.code(), said }
    }

    /// Fails the test unless all went well.
    #[track_caller]
    pub fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.said);
        self.said
    }

    /// Fails the test unless it was refused for a reason that has all of these in its text.
    #[track_caller]
    pub fn refused(self, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{}", self.said);
        assert!(self.said.contains("refused, nothing was moved"), "{}", self.said);
        for word in words {
            assert!(self.said.contains(word), "it was to say {word}: {}", self.said);
        }
    }

    /// Fails the test unless it stopped with some of the work left.
    #[track_caller]
    pub fn stopped(self, word: &str) {
        assert_eq!(self.code, Some(2), "{}", self.said);
        assert!(self.said.contains(word), "it was to say {word}: {}", self.said);
    }
}

/// Runs the program to its end.
pub fn run(name: &str, words: &[&str]) -> Ended {
    Ended::of(program(name, words).output().expect("the program starts"))
}

/// Runs `move_zset.py old mail` from one server to another, or the same.
pub fn move_zset(from: &Server, to: &Server, options: &[&str]) -> Ended {
    let (from, to) = (url(from), url(to));
    let words = [&["old", "mail", "--from", &from, "--to", &to], options].concat();
    run("move_zset.py", &words)
}

/// Starts it and lets it run.
pub fn start_move(from: &Server, to: &Server, options: &[&str]) -> Child {
    let (from, to) = (url(from), url(to));
    let words = [&["old", "mail", "--from", &from, "--to", &to], options].concat();
    program("move_zset.py", &words).spawn().expect("the program starts")
}

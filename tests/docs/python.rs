//! The Python blocks of a page: one process runs them in order, with Debian's Python and its redis-py, or with the newest
//! redis-py, which speaks RESP3.

use std::io::{BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde::{Deserialize, Serialize};

use crate::common::server::mortal;

const DRIVER: &str = include_str!("driver.py");

/// What the process is told.
#[derive(Serialize)]
struct Order<'a> {
    r#do: &'a str,
    page: &'a str,
    line: usize,
    text: &'a str,
}

/// What it answers.
#[derive(Deserialize)]
struct Answer {
    error: Option<String>,
    printed: String,
}

/// How a block is run.
pub enum Way {
    /// The blocks that follow wait for it.
    Now,
    Thread,
    Process,
}

pub struct Python {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    pub fn new(program: &str, folder: &Path) -> Python {
        let mut command = mortal(program);
        command.args(["-c", DRIVER]).current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 starts");
        let orders = child.stdin.take().expect("it was asked for");
        let answers = BufReader::new(child.stdout.take().expect("it was asked for"));
        Python { child, orders, answers }
    }

    /// Runs a block of the page, or starts it.
    pub fn run(&mut self, page: &str, line: usize, text: &str, way: Way) -> Result<(), String> {
        let r#do = match way {
            Way::Now => "run",
            Way::Thread => "thread",
            Way::Process => "process",
        };
        self.tell(&Order { r#do, page, line, text }).map(|_| ())
    }

    /// What was printed since the last block began.
    pub fn printed(&mut self) -> Result<String, String> {
        self.tell(&Order { r#do: "look", page: "", line: 0, text: "" })
    }

    /// Ends what runs in the background.
    pub fn end(&mut self) -> Result<(), String> {
        self.tell(&Order { r#do: "end", page: "", line: 0, text: "" }).map(|_| ())
    }

    fn tell(&mut self, order: &Order) -> Result<String, String> {
        let order = rmp_serde::to_vec_named(order).expect("an order can be written");
        self.orders.write_all(&order).map_err(|e| format!("Python is gone: {e}"))?;
        let answer: Answer = rmp_serde::from_read(&mut self.answers).map_err(|e| format!("Python is gone: {e}"))?;
        answer.error.map_or(Ok(answer.printed), Err)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

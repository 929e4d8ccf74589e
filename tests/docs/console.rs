//! Sessions of redis-cli: each command is typed into a real one, and what it prints must be what the page shows.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use crate::blocks::Block;
use crate::common::server::mortal;
use crate::same::{but_for_numbers, Names};

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A line that redis-cli answers by itself, without the server: so the end of the reply before it is known.
const END_LINE: &str = "\"";
const END_REPLY: &str = "Invalid argument(s)";
/// By how much the waits that jitter lengthens may differ.
const JITTER: f64 = 0.25;
/// How much less a wait may take than it is shown, in s: what the commands before it took.
const EARLIER: f64 = 1.5;

/// A redis-cli that runs as long as the page does.
pub struct Session {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
}

impl Session {
    pub fn new(port: u16) -> Session {
        let cli = std::env::var("DQ_TEST_CLI").unwrap_or_else(|_| "redis-cli".to_string());
        let line = format!("exec {cli} -p {port} --no-raw 2>&1");
        let mut command = mortal("sh");
        let mut child =
            command.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh starts");
        let input = child.stdin.take().expect("it was asked for");
        let lines = BufReader::new(child.stdout.take().expect("it was asked for"));
        let (sender, output) = channel();
        std::thread::spawn(move || {
            for line in lines.split(b'\n').map_while(Result::ok) {
                let _ = sender.send(String::from_utf8_lossy(&line).trim_end().to_string());
            }
        });
        Session { child, input, output }
    }

    /// What redis-cli prints for the command; where the server closed the connection meanwhile, for the second try.
    fn run(&mut self, command: &str) -> Vec<String> {
        let reply = self.try_run(command);
        let is_closed = reply.iter().any(|line| line == "Error: Server closed the connection");
        if is_closed {
            self.try_run(command)
        } else {
            reply
        }
    }

    fn try_run(&mut self, command: &str) -> Vec<String> {
        writeln!(self.input, "{command}\n{END_LINE}").expect("redis-cli is there");
        let mut reply = Vec::new();
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(line) if line == END_REPLY => return reply,
                Ok(line) => reply.push(line),
                Err(_) => panic!("redis-cli does not answer {command:?}; so far it said {reply:?}"),
            }
        }
    }

    /// Runs the block, and says where the page shows something else.
    pub fn run_block(&mut self, block: &Block, names: &mut Names) -> Result<(), String> {
        for step in steps(block)? {
            let command = names.replaced(&step.command);
            let reply = self.run(&command);
            step.compare(&reply, names).map_err(|why| format!("{}\n{why}", step.line))?;
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command of the page and the reply that it shows.
struct Step {
    /// The command's line.
    line: usize,
    command: String,
    reply: Vec<String>,
}

fn steps(block: &Block) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    for (line, text) in (block.line + 1..).zip(block.text.lines()) {
        match (command_of(text), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { line, command: command.to_string(), reply: Vec::new() }),
            (None, Some(step)) => step.reply.push(text.trim_end().to_string()),
            (None, None) => return Err(format!("{line}\na session begins with the prompt 127.0.0.1:6380>")),
        }
    }
    Ok(steps)
}

/// What is typed behind the prompt: `127.0.0.1:6380> `, `127.0.0.1:6380[1]> ` or `127.0.0.1:6380(TX)> `.
fn command_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("127.0.0.1:6380")?;
    let (between, command) = rest.split_once("> ")?;
    between.chars().all(|c| c.is_ascii_alphanumeric() || "[]()".contains(c)).then_some(command)
}

impl Step {
    fn compare(&self, reply: &[String], names: &mut Names) -> Result<(), String> {
        let (shown, shown_time) = without_time(&self.reply);
        let (real, time) = without_time(reply);
        let loosely = |before: &str, shown: &str, real: &str| self.may_differ(before, shown, real);
        if !names.lines("", &shown, &real, &loosely) {
            return Err(format!("shown:\n{}\nreal:\n{}", self.reply.join("\n"), reply.join("\n")));
        }
        match (shown_time, time) {
            (Some(shown), None) => Err(format!("it was to take {shown} s, and took less than half a second")),
            (Some(shown), Some(real)) if real < shown - EARLIER => {
                Err(format!("it was to take {shown} s, and took {real} s"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the line may have other numbers: what hangs on jitter, on the machine's speed or on the server's version.
    fn may_differ(&self, before: &str, shown: &str, real: &str) -> bool {
        let measured = |name: &str| ["-us", "-bytes", "-age-ms"].iter().any(|end| name.ends_with(end));
        let label = before.rsplit('"').nth(1).unwrap_or_default();
        let field = shown.split(':').next().filter(|name| name.starts_with("dq_")).unwrap_or_default();
        let counted = ["_us", "_runs"].iter().any(|end| field.ends_with(end));
        let is_retry = self.command.to_ascii_uppercase().starts_with("DQ.RETRY ");
        (measured(label) || counted) && but_for_numbers(shown, real) || is_retry && is_near(shown, real)
    }
}

/// The lines of a reply, and the seconds that redis-cli says it took.
fn without_time(reply: &[String]) -> (Vec<&str>, Option<f64>) {
    let mut lines: Vec<&str> = reply.iter().map(String::as_str).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let time = lines.last().and_then(|line| line.strip_prefix('(')?.strip_suffix("s)")?.parse().ok());
    if time.is_some() {
        lines.pop();
    }
    (lines, time)
}

fn is_near(shown: &str, real: &str) -> bool {
    let number = |line: &str| line.strip_prefix("(integer) ")?.parse::<f64>().ok();
    match (number(shown), number(real)) {
        (Some(shown), Some(real)) => (real - shown).abs() <= shown * JITTER,
        _ => false,
    }
}

//! Connections that break: in the middle of a command, of an answer, of a wait, and all at once.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::arena::{alone, over, Arena, Hurt, Keeping};
use crate::args;
use crate::common::int;
use crate::crew::payload;
use crate::ledger::{now_us, Push, Span, Told};

pub const HALF_COMMANDS: Hurt = Hurt { name: "half a command", begin: half_commands, end: over };
pub const UNREAD_ANSWERS: Hurt = Hurt { name: "answers not read", begin: unread_answers, end: over };
pub const HALF_ANSWERS: Hurt = Hurt { name: "half an answer", begin: half_answers, end: over };
pub const BUFFER_LIMIT: Hurt = Hurt { name: "client-output-buffer-limit", begin: overflow, end: over };
pub const LEFT_WAITS: Hurt = Hurt { name: "waiters that leave", begin: leave_waiting, end: over };
pub const CLIENT_KILL: Hurt = Hurt { name: "CLIENT KILL", begin: kill_all, end: over };

/// How many large jobs are pushed at a time; 10 KB each.
const MANY: u64 = 60;
const LEASE_MS: u64 = 300;

/// A command as it goes over the wire.
fn packed(words: &[Vec<u8>]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(&word[..]);
    }
    command.get_packed_command()
}

impl Arena {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.server.port)).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout is set");
        stream
    }

    fn next_large(&mut self) -> u64 {
        self.next_large += 1;
        self.next_large
    }

    fn note_large(&self, job: u64, queue: &str, asked: u64, told: Told) {
        let span = Span { asked, answered: now_us(), node: 0 };
        let push = Push { job, queue: queue.to_string(), span, told, id: None, confirmed: false };
        self.ledger.pages().pushes.push(push);
    }

    /// Pushes large jobs; gives their queue, and whether that was done.
    fn push_large(&mut self) -> (String, bool) {
        let queue = self.dice.pick(&self.plan.queues.clone()).clone();
        let jobs: Vec<u64> = (0..MANY).map(|_| self.next_large()).collect();
        let mut words = args!["PAYLOADS"];
        words.extend(jobs.iter().map(|job| payload(*job)));
        let asked = now_us();
        let answer = self.server.queue(&queue).unwatched().call("MPUSH", words);
        let told = match &answer {
            Ok(_) => Told::Done,
            Err(e) if e.code().is_some() => Told::Refused(e.to_string()),
            Err(_) => Told::Nothing,
        };
        for job in jobs {
            self.note_large(job, &queue, asked, told.clone());
        }
        (queue, answer.is_ok())
    }

    /// Pushes large jobs and asks for all of them at once on a connection that reads nothing.
    fn ask_for_large(&mut self) -> TcpStream {
        let (queue, _) = self.push_large();
        let mut stream = self.connect();
        let claim = packed(&args!["DQ.CLAIM", queue, "COUNT", 1000, "LEASE", LEASE_MS]);
        stream.write_all(&claim).expect("the command is sent");
        stream
    }
}

/// The first bytes of commands that never come whole: nothing of them is done.
fn half_commands(arena: &mut Arena) {
    for _ in 0..10 {
        let (job, queue) = (arena.next_large(), arena.plan.queues[0].clone());
        let command = packed(&args!["DQ.PUSH", queue, payload(job)]);
        let cut = arena.dice.between(1, command.len() as u64 - 1) as usize;
        let mut stream = arena.connect();
        stream.write_all(&command[..cut]).expect("half a command is sent");
        let _ = stream.shutdown(Shutdown::Both);
        arena.see("half commands");
    }
}

/// Whole commands whose client is gone before it is answered: done or not, but not twice.
fn unread_answers(arena: &mut Arena) {
    for _ in 0..10 {
        let (job, queue) = (arena.next_large(), arena.plan.queues[0].clone());
        let asked = now_us();
        let mut stream = arena.connect();
        stream.write_all(&packed(&args!["DQ.PUSH", &queue, payload(job)])).expect("the command is sent");
        drop(stream);
        arena.note_large(job, &queue, asked, Told::Nothing);
        arena.see("answers not read");
    }
}

/// Reads the first bytes of a large answer and leaves; the leases of the jobs end.
fn half_answers(arena: &mut Arena) {
    for _ in 0..2 {
        let mut stream = arena.ask_for_large();
        let mut some = [0; 1000];
        if stream.read(&mut some).is_ok_and(|read| read == some.len()) {
            arena.see("half answers");
        }
    }
}

/// Reads nothing of a large answer until the server has had enough of it.
fn overflow(arena: &mut Arena) {
    let limit = |limit: &str| {
        arena.server.run(&["CONFIG", "SET", "client-output-buffer-limit", &format!("normal {limit} 0 0")]);
    };
    limit("100kb");
    let mut stream = arena.ask_for_large();
    let mut all = Vec::new();
    let ended = stream.read_to_end(&mut all);
    if ended.is_ok() || ended.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset) {
        arena.see("clients that were too slow");
    }
    arena.server.run(&["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0"]);
}

fn leave_waiting(arena: &mut Arena) {
    let mut streams = Vec::new();
    for _ in 0..20 {
        let queue = arena.dice.pick(&arena.plan.queues.clone()).clone();
        let mut stream = arena.connect();
        let claim = packed(&args!["DQ.CLAIM", queue, "LEASE", LEASE_MS, "BLOCK", 10_000]);
        stream.write_all(&claim).expect("the command is sent");
        streams.push(stream);
        if arena.dice.one_in(2) {
            let which = arena.dice.next() as usize % streams.len();
            drop(streams.swap_remove(which));
            arena.see("waiters that left");
        }
    }
}

fn kill_all(arena: &mut Arena) {
    for _ in 0..3 {
        let killed = int(&arena.server.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]));
        arena.see_many("clients killed", killed as u64);
        let ms = arena.some_ms(10, 100);
        arena.last(ms);
    }
}

#[test]
fn commands_that_break_off() {
    let mut arena = Arena::start(Keeping::EverySecond);
    for _ in 0..3 {
        arena.live_through(&HALF_COMMANDS);
        arena.live_through(&UNREAD_ANSWERS);
    }
    let settled = arena.settle();
    assert_eq!(settled.seen["half commands"], 30);
}

#[test]
fn answers_that_break_off() {
    let mut arena = Arena::start(Keeping::EverySecond);
    for _ in 0..2 {
        arena.live_through(&HALF_ANSWERS);
        arena.live_through(&BUFFER_LIMIT);
        arena.live_through(&LEFT_WAITS);
    }
    let settled = arena.settle();
    for what in ["half answers", "clients that were too slow", "waiters that left"] {
        assert!(settled.seen.contains_key(what), "{what}: {:?}", settled.seen);
    }
}

#[test]
fn all_clients_are_killed() {
    let (arena, times) = alone(Keeping::EverySecond, &CLIENT_KILL, 3);
    assert!(arena.settle().seen["clients killed"] >= times as u64 * 6);
}

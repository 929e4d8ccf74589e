//! The ledger: what each client asked, and what it was told, with the moments of both.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// A moment in µs on the monotonic clock, which all processes of this machine share.
pub fn now_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write to.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    assert_eq!(done, 0, "the monotonic clock is there");
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// From when a command was sent until it was answered, or until its client gave it up.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub asked: u64,
    pub answered: u64,
    /// The port of the server that was asked; 0 where there is only one.
    pub node: u16,
}

/// What a client knows of a command that it sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// It did what it was to do.
    Done,
    /// It found nothing to do: a stale receipt.
    Stale,
    /// The server refused it with this error.
    Refused(String),
    /// No answer came.
    Nothing,
}

/// A push, with all that its producer sent until it was sure or gave up.
// Some fields are for the reader of a story, who has its Debug form.
#[allow(dead_code)]
#[derive(Clone, Debug)]
pub struct Push {
    /// The job's number, which its payload begins with.
    pub job: u64,
    pub queue: String,
    pub span: Span,
    pub told: Told,
    /// The id that was answered, or that the producer chose.
    pub id: Option<String>,
    /// A replica had it before the producer went on.
    pub confirmed: bool,
}

/// A job that a worker was handed.
#[allow(dead_code)]
#[derive(Clone, Debug)]
pub struct Claim {
    pub job: u64,
    pub queue: String,
    pub id: String,
    pub receipt: String,
    pub attempt: i64,
    pub lease_ms: u64,
    pub worker: usize,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verb {
    Ack,
    Retry,
    Release,
    Fail,
    Extend,
}

/// What a worker did with a job that it held.
#[derive(Clone, Debug)]
pub struct Act {
    pub job: u64,
    pub receipt: String,
    pub verb: Verb,
    /// The lease that an EXTEND asked for.
    pub ms: u64,
    pub span: Span,
    pub told: Told,
    /// A replica had it before the worker went on.
    pub confirmed: bool,
}

/// A hurt that may undo what was answered: whatever a server did from `from` to `to` may be gone.
#[derive(Clone, Debug)]
pub struct Rollback {
    pub from: u64,
    pub to: u64,
    /// The hurt, and why it may do so.
    pub why: &'static str,
    /// What a replica had confirmed stays.
    pub spares_confirmed: bool,
}

/// A primary that others took over from, and what it may have done that they never heard of.
pub struct Deposed {
    /// Its port.
    pub node: u16,
    /// Nobody took over before.
    pub since: u64,
    pub rollback: Rollback,
}

/// A time in which no lease may end: one that ran at `from` runs until `to` at least.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    pub from: u64,
    pub to: u64,
    /// The clock was set meanwhile: whatever ran at `from` may be over at `to`.
    pub ends_all: bool,
}

#[derive(Default)]
pub struct Pages {
    pub pushes: Vec<Push>,
    pub claims: Vec<Claim>,
    pub acts: Vec<Act>,
    pub rollbacks: Vec<Rollback>,
    pub deposed: Vec<Deposed>,
    /// In the order of time.
    pub graces: Vec<Grace>,
    /// By how many percent the queue clock may outrun the monotonic one: it closes an offset so.
    pub hurry: u64,
    /// How often a command was refused with which code.
    pub refusals: BTreeMap<String, usize>,
    /// What no account is needed for to see that it is wrong.
    pub faults: Vec<String>,
}

/// Written to by every client.
#[derive(Default)]
pub struct Ledger(Mutex<Pages>);

impl Ledger {
    pub fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// How many pushes were answered.
    pub fn pushed(&self) -> usize {
        self.pages().pushes.iter().filter(|push| push.told == Told::Done).count()
    }

    /// How many pushes and acts came to an end.
    pub fn answers(&self) -> usize {
        let pages = self.pages();
        pages.pushes.len() + pages.acts.len()
    }

    /// How many jobs were finished or given back since there were so many acts.
    pub fn done_since(&self, acts: usize) -> usize {
        self.pages().acts[acts..].iter().filter(|act| act.told == Told::Done).count()
    }

    pub fn rollback(&self, rollback: Rollback) {
        self.pages().rollbacks.push(rollback);
    }

    pub fn deposed(&self, node: u16, since: u64, rollback: Rollback) {
        self.pages().deposed.push(Deposed { node, since, rollback });
    }

    pub fn grace(&self, grace: Grace) {
        self.pages().graces.push(grace);
    }

    /// How many commands were refused with this code.
    pub fn refused(&self, code: &str) -> usize {
        self.pages().refusals.get(code).copied().unwrap_or(0)
    }
}

//! The invariants of a queue, looked over entry by entry.
//!
//! An id in `jobs` is in exactly one of `due` and `leased`; an id in either is in `jobs`; a member of `due` is the place of
//! its job; `dead` and `dead:at` hold the same ids; every score, also in `ids`, is a whole number of ms up to [`MAX_TIME`];
//! every record can be read.

use super::due::{birth_in, id_in};
use super::{Progress, Queue, Slice};
use crate::core::record::{Job, Letter};
use crate::redis::{EntryScan, Text};
use std::collections::BTreeMap;

/// Problems that one walk tells at most.
const MOST_PROBLEMS: usize = 1000;

/// The latest time that a score can mean, in ms: in the year 2248. That is later than any clock, the ids of the server
/// (to 2109) and `max-delay` (10 years) together reach, and earlier than a time that somebody wrote in µs. A bound that
/// goes by the clock would condemn every delayed job when the clock is set back far enough.
pub(super) const MAX_TIME: u64 = 1 << 43;

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    DueWithoutJob,
    LeasedWithoutJob,
    JobWithoutIndex,
    DueAndLeased,
    DueOutOfPlace,
    DeadWithoutTime,
    TimeWithoutDead,
    BadScore,
    BadRecord,
    BadLetter,
}

impl Problem {
    pub fn name(self) -> &'static str {
        match self {
            Problem::DueWithoutJob => "due-without-job",
            Problem::LeasedWithoutJob => "leased-without-job",
            Problem::JobWithoutIndex => "job-without-index",
            Problem::DueAndLeased => "due-and-leased",
            Problem::DueOutOfPlace => "due-out-of-place",
            Problem::DeadWithoutTime => "dead-without-time",
            Problem::TimeWithoutDead => "time-without-dead",
            Problem::BadScore => "bad-score",
            Problem::BadRecord => "bad-record",
            Problem::BadLetter => "bad-letter",
        }
    }
}

/// The key that is walked over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Due,
    Leased,
    Jobs,
    DeadAt,
    Dead,
    Ids,
}

impl Part {
    fn next(self) -> Option<Part> {
        match self {
            Part::Due => Some(Part::Leased),
            Part::Leased => Some(Part::Jobs),
            Part::Jobs => Some(Part::DeadAt),
            Part::DeadAt => Some(Part::Dead),
            Part::Dead => Some(Part::Ids),
            Part::Ids => None,
        }
    }
}

/// A walk over a whole queue that can be left and taken up again. Each entry is judged as it stands when it is met, so
/// a job that moves meanwhile is no problem.
pub struct CheckWalk {
    part: Option<Part>,
    scan: EntryScan,
    /// Whether what is found is mended, to the end of the queue.
    mends: bool,
    /// What was found, and whether it was mended.
    problems: BTreeMap<(Problem, Vec<u8>), bool>,
}

impl CheckWalk {
    /// A walk that only looks.
    pub fn looking() -> CheckWalk {
        CheckWalk { part: Some(Part::Due), scan: EntryScan::default(), mends: false, problems: BTreeMap::new() }
    }

    /// A walk that mends what it finds, in a queue that is open for changes.
    pub fn mending() -> CheckWalk {
        CheckWalk { mends: true, ..CheckWalk::looking() }
    }

    /// What was found first, each with whether it was mended.
    pub fn problems(&self) -> impl ExactSizeIterator<Item = (Problem, &[u8], bool)> {
        self.problems.iter().map(|((problem, id), mended)| (*problem, id.as_slice(), *mended))
    }

    /// Goes on as far as the slice goes.
    pub fn step(&mut self, queue: &mut Queue, slice: &mut Slice) -> Progress {
        while let Some(part) = self.part {
            if slice.is_over() {
                return Progress::More;
            }
            if !self.visit(queue, part, slice) {
                self.part = part.next();
                self.scan = EntryScan::default();
            }
            if !self.mends && self.problems.len() >= MOST_PROBLEMS {
                break;
            }
        }
        Progress::Done
    }

    /// Judges the next few entries of one key; `false` when it has been walked over.
    fn visit(&mut self, queue: &mut Queue, part: Part, slice: &mut Slice) -> bool {
        let mut met = Vec::new();
        let mut note = |name: &[u8], value: &[u8]| met.push(Met::new(part, name, value));
        let more = match part {
            Part::Due => self.scan.step(&mut queue.due, &mut note),
            Part::Leased => self.scan.step(&mut queue.leased, &mut note),
            Part::Jobs => self.scan.step(&mut queue.jobs, &mut note),
            Part::DeadAt => self.scan.step(&mut queue.dead_at, &mut note),
            Part::Dead => self.scan.step(&mut queue.dead, &mut note),
            Part::Ids => self.scan.step(&mut queue.ids, &mut note),
        };
        for entry in met {
            slice.spend(0);
            let unreadable = (!entry.readable).then_some(part.unreadable());
            for problem in self.misplaced(queue, part, &entry, slice).into_iter().chain(unreadable) {
                let mended = self.mends && queue.mend(problem, part, &entry, slice);
                if self.problems.len() < MOST_PROBLEMS {
                    self.problems.insert((problem, entry.id.as_bytes().to_vec()), mended);
                }
            }
        }
        more
    }

    fn misplaced(&self, queue: &mut Queue, part: Part, entry: &Met, slice: &mut Slice) -> Option<Problem> {
        let problem = queue.misplaced(part, entry, slice)?;
        // An entry that is not the job's place was told of when it was met, and is none that a look from the job finds.
        let was_met = |problem| self.problems.contains_key(&(problem, entry.id.as_bytes().to_vec()));
        let has_entry = problem == Problem::JobWithoutIndex
            && !self.mends
            && (was_met(Problem::DueOutOfPlace) || was_met(Problem::BadRecord));
        (!has_entry).then_some(problem)
    }
}

/// An entry that was met.
pub(super) struct Met {
    /// The member or field.
    pub name: Text,
    /// The id of the job for which it stands.
    pub id: Text,
    readable: bool,
    /// The birth that a record tells.
    pub birth: Option<u64>,
}

impl Met {
    fn new(part: Part, name: &[u8], value: &[u8]) -> Met {
        let name = Text::new(name);
        let id = if part == Part::Due { id_in(&name).into_owned() } else { name.clone() };
        let (readable, birth) = match part {
            Part::Jobs => Job::decode(value).map_or((false, None), |job| (true, job.birth)),
            Part::Dead => (Letter::decode(value).is_ok(), None),
            Part::Due | Part::Leased | Part::DeadAt | Part::Ids => (is_whole_ms(value), None),
        };
        Met { name, id, readable, birth }
    }
}

impl Part {
    fn unreadable(self) -> Problem {
        match self {
            Part::Jobs => Problem::BadRecord,
            Part::Dead => Problem::BadLetter,
            Part::Due | Part::Leased | Part::DeadAt | Part::Ids => Problem::BadScore,
        }
    }
}

fn is_whole_ms(score: &[u8]) -> bool {
    let score = std::str::from_utf8(score).ok().and_then(|text| text.parse::<f64>().ok());
    score.is_some_and(|score| is_time(score) && score.fract() == 0.0)
}

pub(super) fn is_time(score: f64) -> bool {
    (0.0..=MAX_TIME as f64).contains(&score)
}

impl Queue<'_> {
    fn misplaced(&mut self, part: Part, entry: &Met, slice: &mut Slice) -> Option<Problem> {
        let id = &entry.id;
        match part {
            Part::Due => self.misplaced_due(&entry.name, id, slice),
            Part::Leased if self.leased.score(id).is_some() && !self.jobs.has(id) => Some(Problem::LeasedWithoutJob),
            Part::Jobs => self.misplaced_job(id, entry.birth),
            Part::DeadAt if !self.dead.has(id) => Some(Problem::TimeWithoutDead),
            Part::Dead if self.dead_at.score(id).is_none() => Some(Problem::DeadWithoutTime),
            _ => None,
        }
    }

    /// A member that is an id is not held against the birth of its job: that is done when the record is met.
    fn misplaced_due(&mut self, member: &Text, id: &Text, slice: &mut Slice) -> Option<Problem> {
        self.due.score(member)?;
        let birth = birth_in(member);
        let record = if birth.is_some() { self.jobs.get(id) } else { None };
        if record.is_none() && (birth.is_some() || !self.jobs.has(id)) {
            return Some(Problem::DueWithoutJob);
        }
        if self.leased.score(id).is_some() {
            return Some(Problem::DueAndLeased);
        }
        let record = record?;
        slice.spend_bytes(record.as_bytes().len());
        match Job::decode(record.as_bytes()) {
            Err(_) => Some(Problem::BadRecord),
            Ok(job) if job.birth != birth => Some(Problem::DueOutOfPlace),
            Ok(_) => None,
        }
    }

    fn misplaced_job(&mut self, id: &Text, birth: Option<u64>) -> Option<Problem> {
        if self.leased.score(id).is_some() {
            return None;
        }
        if birth.is_some() && self.due.score(id).is_some() {
            return Some(Problem::DueOutOfPlace);
        }
        (self.find_due(id, birth).is_none() && self.jobs.has(id)).then_some(Problem::JobWithoutIndex)
    }
}

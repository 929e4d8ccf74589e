//! The invariants of a queue, looked over entry by entry.
//!
//! An id in `jobs` is in exactly one of `due` and `leased`; an id in either is in `jobs`; `dead` and `dead:at` hold
//! the same ids; every score, also in `ids`, is a whole number of ms up to [`MAX_TIME`]; every record can be read.

use super::{Progress, Queue, Slice};
use crate::core::record::{Job, Letter};
use crate::redis::{EntryScan, Text};
use std::collections::BTreeMap;

/// Problems that one walk tells at most.
const MOST_PROBLEMS: usize = 1000;

/// The latest time that a score can mean, in ms: in the year 2248. That is later than any clock, the ids of the server
/// (to 2109) and `max-delay` (10 years) together reach, and earlier than a time that somebody wrote in µs. A bound that
/// goes by the clock would condemn every delayed job when the clock is set back far enough.
const MAX_TIME: u64 = 1 << 43;

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    DueWithoutJob,
    LeasedWithoutJob,
    JobWithoutIndex,
    DueAndLeased,
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
        let mut note = |id: &[u8], value: &[u8]| met.push((Text::new(id), is_readable(part, value)));
        let more = match part {
            Part::Due => self.scan.step(&mut queue.due, &mut note),
            Part::Leased => self.scan.step(&mut queue.leased, &mut note),
            Part::Jobs => self.scan.step(&mut queue.jobs, &mut note),
            Part::DeadAt => self.scan.step(&mut queue.dead_at, &mut note),
            Part::Dead => self.scan.step(&mut queue.dead, &mut note),
            Part::Ids => self.scan.step(&mut queue.ids, &mut note),
        };
        for (id, readable) in met {
            slice.spend(0);
            let unreadable = (!readable).then_some(part.unreadable());
            for problem in queue.misplaced(part, &id).into_iter().chain(unreadable) {
                let mended = self.mends && queue.mend(problem, part, &id, slice);
                if self.problems.len() < MOST_PROBLEMS {
                    self.problems.insert((problem, id.as_bytes().to_vec()), mended);
                }
            }
        }
        more
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

fn is_readable(part: Part, value: &[u8]) -> bool {
    match part {
        Part::Jobs => Job::decode(value).is_ok(),
        Part::Dead => Letter::decode(value).is_ok(),
        Part::Due | Part::Leased | Part::DeadAt | Part::Ids => is_whole_ms(value),
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
    fn misplaced(&mut self, part: Part, id: &Text) -> Option<Problem> {
        if part == Part::Ids {
            return None;
        }
        let (due, leased) = (self.due.score(id).is_some(), self.leased.score(id).is_some());
        match part {
            Part::Due if due && !self.jobs.has(id) => Some(Problem::DueWithoutJob),
            Part::Due if due && leased => Some(Problem::DueAndLeased),
            Part::Leased if leased && !self.jobs.has(id) => Some(Problem::LeasedWithoutJob),
            Part::Jobs if !due && !leased && self.jobs.has(id) => Some(Problem::JobWithoutIndex),
            Part::DeadAt if !self.dead.has(id) => Some(Problem::TimeWithoutDead),
            Part::Dead if self.dead_at.score(id).is_none() => Some(Problem::DeadWithoutTime),
            _ => None,
        }
    }
}

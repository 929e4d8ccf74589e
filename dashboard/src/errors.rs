//! Why jobs fail, over all queues: the errors of jobs that will be retried, by samples, and of dead letters.
//!
//! The server has no list of errors, so they are read from the jobs themselves, one page of one queue at a time. The
//! sampler asks for the page that is needed most. What is shown says how much was read.

use std::collections::HashMap;
use std::time::Instant;

use redis::Value;
use serde::Serialize;

use crate::dead::Seen;
use crate::jobs::{brief, Brief};
use crate::reply::{list, text};
use crate::sample::key;
use crate::shapes::{mask, Shapes};
use crate::stats::Counts;
use crate::visible::line;

/// The states in which a job that failed waits for, or is in, its next attempt.
pub const STATES: [&str; 3] = ["delayed", "ready", "leased"];
/// Jobs of one sample: as many as are likely to be within so many bytes.
const JOBS: i64 = 100;
const FIRST_JOBS: i64 = 20;
const BYTES: i64 = 256 * 1024;
/// How long an error is shown after it was last seen.
const KEEP_MS: i64 = 10 * 60_000;
/// Errors of one queue, of one answer, and queues of one error in it.
const SHAPES: usize = 100;
const GROUPS: usize = 200;
const QUEUES: usize = 20;
/// Characters of an error in a reason.
const SHORT: usize = 90;

/// What was read of every queue.
#[derive(Default)]
pub struct Errors(HashMap<Vec<u8>, Read>);

/// What was read of one queue.
#[derive(Default)]
struct Read {
    samples: [Option<Sample>; STATES.len()],
    shapes: Shapes,
    /// Errors of jobs that will be retried, by their shape.
    retrying: HashMap<String, Sighting>,
    dead: Option<(Seen, Instant)>,
    job_bytes: Option<i64>,
}

/// The jobs of one state that one command read.
struct Sample {
    at: Instant,
    read: usize,
    /// Whether these were all jobs of the state.
    whole: bool,
    failed: HashMap<String, Found>,
}

#[derive(Clone)]
struct Found {
    count: usize,
    example: String,
    example_id: String,
}

/// An error of jobs that will be retried. When they failed the server does not say: these are the times of the samples.
#[derive(Clone)]
struct Sighting {
    found: Found,
    first_at: i64,
    last_at: i64,
}

/// A page to read next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Page {
    /// The place of a state in [`STATES`].
    Jobs(usize),
    Dead,
}

/// An error, over all queues.
#[derive(Serialize)]
pub struct Group {
    pub state: &'static str,
    pub reason: String,
    pub shape: String,
    pub count: usize,
    pub first_at: i64,
    pub last_at: i64,
    pub queues: Vec<Place>,
    /// Queues that have the error; the list may have fewer.
    pub all_queues: usize,
    /// Whether there may be more jobs: those of a queue were not all read.
    pub at_least: bool,
}

/// An error in one queue.
#[derive(Serialize)]
pub struct Place {
    pub key: String,
    pub name: String,
    pub count: usize,
    pub first_at: i64,
    pub last_at: i64,
    pub example: String,
    pub example_id: String,
}

/// The errors, and how much of the jobs was read for them.
#[derive(Serialize, Default)]
pub struct Shown {
    pub groups: Vec<Group>,
    pub all_groups: usize,
    /// Queues that were sampled for retrying jobs, jobs that the last samples read, and whether those were all there are.
    pub sampled_queues: usize,
    pub sampled_jobs: usize,
    pub sampled_all: bool,
    /// Dead letters that were read.
    pub dead_read: usize,
}

impl Errors {
    /// The page of a queue that is needed most, and how much: by the age of what was read, and by how often the queue
    /// fails. Nothing if there is nothing to learn. `failing` is how many attempts failed in the last minute.
    pub fn next(&self, queue: &[u8], counts: &Counts, failing: i64) -> Option<(f64, Page)> {
        let read = self.0.get(queue);
        let age = |at: Option<Instant>| at.map_or(600.0, |at| at.elapsed().as_secs_f64());
        let has_errors = read.is_some_and(|read| !read.retrying.is_empty());
        let retries = failing > 0 || has_errors || (read.is_none() && counts.delayed > 0);
        let jobs = [counts.delayed, counts.ready, counts.leased];
        let weight = 1.0 + (failing.max(0) as f64).ln_1p();
        let live = (0..STATES.len()).filter(|state| retries && jobs[*state] > 0).map(|state| {
            let at = read.and_then(|read| read.samples[state].as_ref()).map(|sample| sample.at);
            // A job that failed is delayed first.
            let first = if state == 0 { 3.0 } else { 1.0 };
            (age(at) * weight * first, Page::Jobs(state))
        });
        let dead = read.and_then(|read| read.dead.as_ref());
        let is_read = dead.is_some_and(|(seen, _)| (seen.all || seen.bounded) && seen.seen as i64 == counts.dead);
        let letters = (counts.dead > 0 && !is_read).then(|| (age(dead.map(|(_, at)| *at)) * weight * 2.0, Page::Dead));
        live.chain(letters).max_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// How many jobs of a queue a sample asks for.
    pub fn jobs(&self, queue: &[u8]) -> i64 {
        let bytes = self.0.get(queue).and_then(|read| read.job_bytes);
        bytes.map_or(FIRST_JOBS, |bytes| (BYTES / bytes.max(1)).clamp(1, JOBS))
    }

    /// Takes a page of jobs of one state. `now` is queue time in ms.
    pub fn take_jobs(&mut self, queue: &[u8], state: usize, reply: &Value, now: i64) {
        let read = self.0.entry(queue.to_vec()).or_default();
        let jobs: Vec<Brief> = list(reply).get(1).map(list).unwrap_or_default().iter().map(brief).collect();
        if !jobs.is_empty() {
            let bytes = jobs.iter().map(|job| job.bytes + job.error_head.len() + 200).sum::<usize>() / jobs.len();
            read.job_bytes = Some(bytes as i64);
        }
        let mut failed: HashMap<String, Found> = HashMap::new();
        for job in jobs.iter().filter(|job| job.failures > 0) {
            let masked = mask(&job.error_head);
            read.shapes.learn(&masked);
            let shape = read.shapes.shape(&masked);
            if failed.len() >= SHAPES && !failed.contains_key(&shape) {
                continue;
            }
            let found = Found { count: 0, example: job.error.clone(), example_id: job.id.clone() };
            failed.entry(shape).or_insert(found).count += 1;
        }
        let whole = list(reply).first().map(text).is_none_or(|next| next == "0");
        read.samples[state] = Some(Sample { at: Instant::now(), read: jobs.len(), whole, failed });
        read.note(now);
    }

    /// A page of jobs could not be read: others are tried first.
    pub fn skip_jobs(&mut self, queue: &[u8], state: usize) {
        let sample = Sample { at: Instant::now(), read: 0, whole: false, failed: HashMap::new() };
        self.0.entry(queue.to_vec()).or_default().samples[state] = Some(sample);
    }

    /// Takes what is known of the dead letters of a queue.
    pub fn take_dead(&mut self, queue: &[u8], seen: Seen) {
        self.0.entry(queue.to_vec()).or_default().dead = Some((seen, Instant::now()));
    }

    /// Forgets what is gone: queues, jobs of states that are empty, and errors that were not seen for long.
    pub fn tidy(&mut self, now: i64, counts: impl Fn(&[u8]) -> Option<Counts>) {
        self.0.retain(|queue, read| {
            let Some(counts) = counts(queue) else { return false };
            for (sample, jobs) in read.samples.iter_mut().zip([counts.delayed, counts.ready, counts.leased]) {
                if jobs == 0 {
                    *sample = None;
                }
            }
            if counts.dead == 0 {
                read.dead = None;
            }
            read.retrying.retain(|_, sighting| sighting.last_at + KEEP_MS > now);
            true
        });
    }

    /// The most common error of the jobs of a queue that will be retried.
    pub fn most_common(&self, queue: &[u8]) -> Option<String> {
        let counts = self.0.get(queue)?.counts();
        let most = counts.into_iter().max_by(|one, other| one.1.count.cmp(&other.1.count).then(other.0.cmp(&one.0)));
        most.map(|(shape, _)| short(&shape))
    }

    /// The error of the dead letters of a queue that most of the lately died have.
    pub fn most_common_dead(&self, queue: &[u8]) -> Option<String> {
        let (seen, _) = self.0.get(queue)?.dead.as_ref()?;
        let newest = seen.groups.iter().map(|group| group.last_at).max()?;
        let lately = seen.groups.iter().filter(|group| group.last_at + KEEP_MS > newest && !group.reason.is_empty());
        lately.max_by_key(|group| group.count).map(|group| short(&group.shape))
    }

    /// The errors of one queue, or of all: those that occur now first, then those of the most jobs.
    pub fn show(&self, only: Option<&[u8]>, now: i64) -> Shown {
        let mut shown = Shown { sampled_all: true, ..Shown::default() };
        let mut groups: HashMap<(&'static str, &str, &str), Group> = HashMap::new();
        for (queue, read) in self.0.iter().filter(|(queue, _)| only.is_none_or(|only| only == queue.as_slice())) {
            let samples = || read.samples.iter().flatten();
            shown.sampled_queues += usize::from(samples().next().is_some());
            shown.sampled_jobs += samples().map(|sample| sample.read).sum::<usize>();
            let whole = samples().all(|sample| sample.whole);
            shown.sampled_all &= whole;
            for (shape, sighting) in &read.retrying {
                let all = groups.entry(("retrying", "", shape)).or_insert_with(|| group("retrying", "", shape));
                all.at_least |= !whole;
                add(all, place(queue, &sighting.found, sighting.first_at, sighting.last_at));
            }
            let Some((seen, _)) = &read.dead else { continue };
            shown.dead_read += seen.seen;
            for dead in &seen.groups {
                let name = ("dead", dead.reason.as_str(), dead.shape.as_str());
                let all = groups.entry(name).or_insert_with(|| group(name.0, name.1, name.2));
                all.at_least |= !seen.all;
                let (example, example_id) = (dead.example.clone(), dead.example_id.clone());
                let found = Found { count: dead.count, example, example_id };
                add(all, place(queue, &found, dead.first_at, dead.last_at));
            }
        }
        shown.all_groups = groups.len();
        shown.groups = groups.into_values().collect();
        for group in &mut shown.groups {
            group.all_queues = group.queues.len();
            group.queues.sort_by(|a, b| b.count.cmp(&a.count).then(a.name.cmp(&b.name)));
            group.queues.truncate(QUEUES);
        }
        shown.groups.sort_by(|a, b| {
            let rank = |group: &Group| (group.last_at + KEEP_MS > now, group.count, group.last_at);
            rank(b).cmp(&rank(a)).then_with(|| a.shape.cmp(&b.shape))
        });
        shown.groups.truncate(GROUPS);
        shown
    }
}

impl Read {
    /// How many of the jobs that the last samples read have each error.
    fn counts(&self) -> HashMap<String, Found> {
        let mut all: HashMap<String, Found> = HashMap::new();
        for (shape, found) in self.samples.iter().flatten().flat_map(|sample| &sample.failed) {
            match all.get_mut(shape) {
                Some(sum) => sum.count += found.count,
                None => drop(all.insert(shape.clone(), found.clone())),
            }
        }
        all
    }

    /// Notes when each error was seen.
    fn note(&mut self, now: i64) {
        for (shape, found) in self.counts() {
            if self.retrying.len() >= SHAPES && !self.retrying.contains_key(&shape) {
                continue;
            }
            let sighting =
                self.retrying.entry(shape).or_insert(Sighting { found: found.clone(), first_at: now, last_at: now });
            (sighting.found, sighting.last_at) = (found, now);
        }
    }
}

fn group(state: &'static str, reason: &str, shape: &str) -> Group {
    Group {
        state,
        reason: reason.to_string(),
        shape: shape.to_string(),
        count: 0,
        first_at: i64::MAX,
        last_at: 0,
        queues: Vec::new(),
        all_queues: 0,
        at_least: false,
    }
}

fn place(queue: &[u8], found: &Found, first_at: i64, last_at: i64) -> Place {
    let Found { count, example, example_id } = found.clone();
    Place { key: key(queue), name: line(queue, 80), count, first_at, last_at, example, example_id }
}

fn add(group: &mut Group, place: Place) {
    group.count += place.count;
    group.first_at = group.first_at.min(place.first_at);
    group.last_at = group.last_at.max(place.last_at);
    group.queues.push(place);
}

/// A shape as a part of a sentence.
fn short(shape: &str) -> String {
    if shape.is_empty() {
        return "no error text".to_string();
    }
    line(shape.as_bytes(), SHORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, failures: i64, error: &str) -> Value {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields =
            [("id", text(id)), ("failures", Value::Int(failures)), ("error", text(error)), ("payload", text("x"))];
        Value::Array(fields.into_iter().flat_map(|(name, value)| [text(name), value]).collect())
    }

    fn page(next: &str, jobs: Vec<Value>) -> Value {
        Value::Array(vec![Value::BulkString(next.as_bytes().to_vec()), Value::Array(jobs)])
    }

    #[test]
    fn errors_of_several_queues_are_one_group() {
        let mut errors = Errors::default();
        errors.take_jobs(
            b"one",
            0,
            &page("0", vec![job("a", 1, "user 'ann'"), job("b", 2, "user 'bob'"), job("c", 0, "")]),
            1000,
        );
        errors.take_jobs(b"two", 1, &page("7:x", vec![job("d", 1, "user 'eve'")]), 2000);
        let shown = errors.show(None, 3000);
        assert_eq!((shown.sampled_queues, shown.sampled_jobs, shown.sampled_all), (2, 4, false));
        let group = &shown.groups[0];
        assert_eq!((shown.groups.len(), group.shape.as_str(), group.count), (1, "user '#'", 3));
        assert_eq!((group.first_at, group.last_at, group.queues[0].name.as_str()), (1000, 2000, "one"));
        assert_eq!(errors.most_common(b"one").as_deref(), Some("user '#'"));
        assert_eq!(errors.show(Some(b"two"), 3000).groups[0].count, 1);
    }

    #[test]
    fn what_fails_most_is_read_first_and_what_was_read_is_not_read_again() {
        let mut errors = Errors::default();
        let counts = Counts { delayed: 5, ..Counts::default() };
        let (calm, page) = errors.next(b"q", &counts, 0).expect("a new queue is read once");
        assert_eq!(page, Page::Jobs(0));
        assert!(errors.next(b"q", &counts, 500).expect("it fails").0 > calm);
        errors.take_jobs(b"q", 0, &self::page("0", vec![]), 1000);
        assert_eq!(errors.next(b"q", &counts, 0), None);
        let ready = Counts { ready: 3, dead: 2, ..counts };
        assert_eq!(errors.next(b"q", &ready, 1).map(|(_, page)| page), Some(Page::Dead));
    }

    #[test]
    fn a_sample_of_large_jobs_is_small() {
        let mut errors = Errors::default();
        assert_eq!(errors.jobs(b"q"), FIRST_JOBS);
        errors.take_jobs(b"q", 0, &page("0", vec![job("a", 1, "x")]), 0);
        assert_eq!(errors.jobs(b"q"), JOBS);
        errors.0.get_mut(b"q".as_slice()).expect("it was read").job_bytes = Some(1 << 20);
        assert_eq!(errors.jobs(b"q"), 1);
    }
}

//! What the Python programs wrote down: every push, every claim and how it ended.

use std::collections::BTreeMap;
use std::path::Path;

/// A job: its serial number, and which copy of it, where one was pushed again after an answer was lost.
pub type JobKey = (u32, u8);

/// An answered push.
pub struct Push {
    pub id: String,
    /// The job is due no earlier, in ms.
    pub due: u64,
    /// The server's time after the answer, in µs.
    pub after: u64,
}

/// What a worker did with a claimed job.
#[derive(Default)]
pub struct Act {
    pub kind: String,
    /// Times it was sent.
    pub sent: u32,
    /// Times the answer was lost.
    pub lost: u32,
    pub answer: Option<String>,
    pub before: u64,
    pub after: u64,
}

/// One claimed job, as its worker saw it. Times are the server's, in µs.
pub struct Claim {
    pub worker: usize,
    pub receipt: String,
    pub id: String,
    pub key: JobKey,
    pub attempt: u64,
    pub lease: u64,
    pub retries_left: u64,
    /// Whether the payload was the one that was planned.
    pub same: bool,
    /// Whether the claim named a lease.
    pub asked: bool,
    pub before: u64,
    pub after: u64,
    pub crashed: bool,
    pub act: Option<Act>,
}

/// How a claim ended, as far as its worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Retried(u64),
    Dead,
    /// The receipt was stale.
    Stale,
    /// The worker did not get the first answer.
    Unknown,
    /// The worker did nothing.
    Nothing,
    /// The answer was none of these.
    Refused,
}

impl Claim {
    pub fn end(&self) -> End {
        let Some(act) = &self.act else { return End::Nothing };
        let Some(answer) = act.answer.as_deref() else { return End::Unknown };
        let stale = if act.lost > 0 { End::Unknown } else { End::Stale };
        match (act.kind.as_str(), answer) {
            ("ack", "1") => End::Done,
            ("ack", "0") | ("retry" | "fail", "stale") => stale,
            ("fail", "OK") | ("retry", "-1") => End::Dead,
            ("retry", ms) => ms.parse().map_or(End::Refused, End::Retried),
            _ => End::Refused,
        }
    }

    /// Whether the act may have come after the end of the lease.
    pub fn may_be_late(&self) -> bool {
        self.act.as_ref().is_some_and(|act| act.after >= self.before / 1000 * 1000 + self.lease * 1000)
    }
}

/// All of it.
#[derive(Default)]
pub struct Diary {
    pub pushes: BTreeMap<JobKey, Push>,
    /// Second pushes of an own id: the time after each.
    pub dups: Vec<u64>,
    /// How often a push of this had no answer.
    pub lost: BTreeMap<JobKey, u32>,
    pub claims: Vec<Claim>,
    /// Whether each worker ended by itself.
    pub ended: Vec<bool>,
    /// What should not stand in a diary.
    pub problems: Vec<String>,
}

impl Diary {
    pub fn read(folder: &Path, workers: usize) -> Diary {
        let mut diary = Diary::default();
        for line in lines(folder, "producer") {
            diary.read_push(&line);
        }
        for worker in 0..workers {
            diary.ended.push(false);
            // The newest claim of each receipt; that none comes twice, the account sees to.
            let mut places = BTreeMap::new();
            for line in lines(folder, &format!("worker-{worker}")) {
                diary.read_work(worker, &line, &mut places);
            }
        }
        diary
    }

    fn read_push(&mut self, line: &[String]) {
        let key = || (number(&line[1]) as u32, number(&line[2]) as u8);
        match line[0].as_str() {
            "push" => {
                let push = Push { id: line[3].clone(), due: number(&line[4]), after: number(&line[5]) };
                if self.pushes.insert(key(), push).is_some() {
                    self.problems.push(format!("the producer pushed twice: {line:?}"));
                }
            }
            "dup" => {
                self.dups.push(number(&line[4]));
                if self.pushes.get(&key()).is_none_or(|push| push.id != line[3]) {
                    self.problems.push(format!("the same push made another job: {line:?}"));
                }
            }
            "lost" => *self.lost.entry(key()).or_default() += 1,
            _ => self.problems.push(format!("the producer: {}", line.join(" "))),
        }
    }

    fn read_work(&mut self, worker: usize, line: &[String], places: &mut BTreeMap<String, usize>) {
        if self.ended[worker] {
            self.problems.push(format!("worker {worker} wrote after its end: {}", line.join(" ")));
        }
        match line[0].as_str() {
            "claim" => {
                places.insert(line[1].clone(), self.claims.len());
                self.claims.push(Claim {
                    worker,
                    receipt: line[1].clone(),
                    id: line[2].clone(),
                    key: (number(&line[3]) as u32, number(&line[4]) as u8),
                    attempt: number(&line[5]),
                    lease: number(&line[6]),
                    retries_left: number(&line[7]),
                    same: line[8] == "same",
                    asked: line[9] == "asked",
                    before: number(&line[10]),
                    after: number(&line[11]),
                    crashed: false,
                    act: None,
                });
            }
            "crash" => self.claims[places[&line[1]]].crashed = true,
            "end" => self.ended[worker] = true,
            what => {
                let claim = &mut self.claims[places[&line[2]]];
                let act = claim.act.get_or_insert_with(Act::default);
                if what == "sent" {
                    if act.sent > act.lost || act.sent > 0 && act.kind != line[1] {
                        self.problems.push(format!("worker {worker} acted twice on {}", line[2]));
                    }
                    act.kind = line[1].clone();
                    act.sent += 1;
                } else if what == "lost" {
                    act.lost += 1;
                } else {
                    act.answer = Some(line[3].clone());
                    (act.before, act.after) = (number(&line[4]), number(&line[5]));
                }
            }
        }
    }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word} in a diary is not a number"))
}

/// The lines of a file, in words; a last line that a SIGKILL cut is left out.
fn lines(folder: &Path, name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| line.split(' ').map(String::from).collect()).collect()
}

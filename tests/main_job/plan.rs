//! What is to become of each of the jobs: made from a seed, written for the Python programs, judged by the account.

use std::path::Path;

use serde::Serialize;
use serde_bytes::ByteBuf;

use super::common::dice::Dice;

pub const JOBS: u32 = 10_000;
pub const LONGEST_WAIT_MS: u64 = 3000;
pub const SMALLEST: u32 = 10;
pub const LARGEST: u32 = 20_000;

// The settings of the server, short so that the test is.
pub const LEASE_MS: u64 = 2500;
pub const ASKED_LEASE_MS: u64 = 3000;
pub const MAX_RETRIES: u64 = 3;
pub const MAX_LAPSES: u64 = 4;
pub const BACKOFF: (u64, u64) = (50, 400);
pub const JITTER_PERCENT: u64 = 20;
pub const MAX_ERROR: usize = 4096;
pub const GRACE_MS: u64 = 1000;

/// What is to become of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Done,
    RetryOnce,
    RetryTwice,
    Failed,
    FailAfterRetry,
    UsedUp,
    /// Its first worker is killed in the middle of it.
    CrashOnce,
    /// Each of its workers is.
    CrashAlways,
    RetryThenCrash,
    /// Its first worker is done with it only after its lease.
    Slow,
}

impl Outcome {
    /// Each with the number of jobs that get it; all others are done at once.
    pub const SHARES: [(Outcome, u32); 10] = [
        (Outcome::Done, 0),
        (Outcome::RetryOnce, 1000),
        (Outcome::RetryTwice, 700),
        (Outcome::Failed, 300),
        (Outcome::FailAfterRetry, 200),
        (Outcome::UsedUp, 400),
        (Outcome::CrashOnce, 16),
        (Outcome::CrashAlways, 5),
        (Outcome::RetryThenCrash, 3),
        (Outcome::Slow, 6),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::RetryOnce => "retry-once",
            Outcome::RetryTwice => "retry-twice",
            Outcome::Failed => "failed",
            Outcome::FailAfterRetry => "fail-after-retry",
            Outcome::UsedUp => "used-up",
            Outcome::CrashOnce => "crash-once",
            Outcome::CrashAlways => "crash-always",
            Outcome::RetryThenCrash => "retry-then-crash",
            Outcome::Slow => "slow",
        }
    }

    /// The reason of the dead letter, where it is to become one.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Outcome::Done | Outcome::RetryOnce | Outcome::RetryTwice | Outcome::CrashOnce | Outcome::Slow => None,
            Outcome::Failed | Outcome::FailAfterRetry => Some("failed"),
            Outcome::UsedUp => Some("retries-exhausted"),
            Outcome::CrashAlways | Outcome::RetryThenCrash => Some("lapses-exhausted"),
        }
    }

    /// Whether leases of its jobs run out.
    fn lapses(self) -> bool {
        matches!(self, Outcome::CrashOnce | Outcome::CrashAlways | Outcome::RetryThenCrash | Outcome::Slow)
    }
}

/// One planned job, in the order in which Python reads it.
#[derive(Serialize)]
pub struct Task {
    pub serial: u32,
    #[serde(serialize_with = "name_of")]
    pub outcome: Outcome,
    pub wait_ms: u64,
    /// Pushed with AT, not with DELAY.
    pub at: bool,
    /// How an id of its own begins.
    pub own_id: Option<ByteBuf>,
    /// Pushed twice in a row.
    pub twice: bool,
    /// Pushed by MPUSH, which takes no options for one job.
    pub many: bool,
    pub retries: Option<u64>,
    pub lease: Option<u64>,
    pub backoff: Option<(u64, u64)>,
    /// The length of STACK; 0 for none.
    pub stack: usize,
    /// DELAY of its RETRYs.
    pub retry_delay: Option<u64>,
    start: usize,
    length: usize,
}

fn name_of<S: serde::Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.name())
}

impl Task {
    pub fn retry_limit(&self) -> u64 {
        self.retries.unwrap_or(MAX_RETRIES)
    }

    /// Failures that are counted in the end.
    pub fn failures(&self) -> u64 {
        match self.outcome {
            Outcome::Done | Outcome::Failed | Outcome::CrashOnce | Outcome::CrashAlways | Outcome::Slow => 0,
            Outcome::RetryOnce | Outcome::FailAfterRetry | Outcome::RetryThenCrash => 1,
            Outcome::RetryTwice => 2,
            Outcome::UsedUp => self.retry_limit() + 1,
        }
    }

    /// Lapses that are counted in the end, where nothing else goes wrong.
    pub fn lapses(&self) -> u64 {
        match self.outcome {
            // Another worker is done with a slow job before its first one, unless all are busy.
            Outcome::CrashOnce | Outcome::Slow => 1,
            Outcome::CrashAlways | Outcome::RetryThenCrash => MAX_LAPSES,
            _ => 0,
        }
    }

    /// Claims that it takes, where nothing else goes wrong.
    pub fn attempts(&self) -> u64 {
        match self.outcome {
            // The last failure or lapse is the end of a claim, as FAIL and ACK are.
            Outcome::UsedUp | Outcome::CrashAlways | Outcome::RetryThenCrash => self.failures() + self.lapses(),
            _ => self.failures() + self.lapses() + 1,
        }
    }

    /// The wait after failure or further lapse number `nth`, before jitter.
    pub fn backoff(&self, nth: u64) -> u64 {
        let (base, cap) = self.backoff.unwrap_or(BACKOFF);
        (base << (nth - 1)).min(cap)
    }

    /// What a worker says of failure number `nth`, as the letter keeps it.
    pub fn note(&self, copy: u8, act: &str, nth: u64) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let mut error = format!("job {}.{copy}: {act} {nth}", self.serial).into_bytes();
        error.extend_from_slice(b"\0\xff");
        let line = format!("at job {}, failure {nth}\r\n", self.serial).into_bytes();
        let stack: Vec<u8> = line.into_iter().cycle().take(self.stack.min(MAX_ERROR)).collect();
        (Some(error), (!stack.is_empty()).then_some(stack))
    }
}

/// All of it.
pub struct Plan {
    pub seed: u64,
    pub tasks: Vec<Task>,
    payloads: Vec<u8>,
}

impl Plan {
    pub fn new(seed: u64) -> Plan {
        let mut dice = Dice(seed);
        let outcomes = outcomes(&mut dice);
        let mut plan = Plan { seed, tasks: Vec::new(), payloads: Vec::new() };
        for (serial, outcome) in (0..).zip(outcomes) {
            let task = plan.task(serial, outcome, &mut dice);
            plan.tasks.push(task);
        }
        plan
    }

    fn task(&mut self, serial: u32, outcome: Outcome, dice: &mut Dice) -> Task {
        let (start, length) = self.add_payload(serial, outcome, dice);
        let many = serial / 50 % 3 == 2;
        let alone = |chance: bool| chance && !many;
        let wait_ms = if dice.one_in(4) { 0 } else { dice.between(0, LONGEST_WAIT_MS) };
        // Some that a receipt has to write in another way.
        let own_id = [&b"own"[..], b"say-\"hi\"", b"back\\slash'", b"a:long~id-0123456789-0123456789-0123456789"];
        let own_id = dice.one_in(3).then(|| ByteBuf::from(own_id[dice.between(0, 3) as usize]));
        let dies = outcome.reason().is_some();
        let retries = alone(dice.one_in(2)).then(|| match outcome {
            Outcome::UsedUp => dice.between(0, 2),
            _ => dice.between(2, 9),
        });
        Task {
            serial,
            outcome,
            wait_ms,
            at: alone(dice.one_in(5)),
            twice: alone(dice.one_in(4)) && own_id.is_some() && !dies,
            own_id,
            many,
            retries,
            lease: alone(dice.one_in(8) && !outcome.lapses()).then_some(4000),
            backoff: alone(dice.one_in(4)).then_some((20, 100)),
            stack: if dice.one_in(3) { 0 } else { dice.between(1, 6000) as usize },
            retry_delay: dice.one_in(6).then(|| dice.between(0, 200)),
            start,
            length,
        }
    }

    /// From the smallest to the largest, each order of magnitude as often.
    fn add_payload(&mut self, serial: u32, outcome: Outcome, dice: &mut Dice) -> (usize, usize) {
        let spread = f64::from(LARGEST) / f64::from(SMALLEST);
        let length = match serial % 1000 {
            0 => SMALLEST,
            1 => LARGEST,
            _ => (f64::from(SMALLEST) * spread.powf(dice.share())) as u32,
        };
        let (start, length) = (self.payloads.len(), length.clamp(SMALLEST, LARGEST) as usize);
        self.payloads.extend_from_slice(&serial.to_be_bytes());
        self.payloads.extend_from_slice(&[0, outcome as u8]);
        while self.payloads.len() < start + length {
            self.payloads.extend_from_slice(&dice.next().to_le_bytes());
        }
        self.payloads.truncate(start + length);
        (start, length)
    }

    /// What was to be pushed as this copy of a job.
    pub fn payload(&self, task: &Task, copy: u8) -> Vec<u8> {
        let mut payload = self.payloads[task.start..task.start + task.length].to_vec();
        payload[4] = copy;
        payload
    }

    pub fn bytes(&self) -> usize {
        self.payloads.len()
    }

    /// For the Python programs.
    pub fn write(&self, folder: &Path) {
        let plan = rmp_serde::to_vec(&(MAX_RETRIES, &self.tasks)).expect("the plan is written");
        std::fs::write(folder.join("plan"), plan).expect("the plan is written");
        std::fs::write(folder.join("payloads"), &self.payloads).expect("the payloads are written");
    }
}

/// One outcome for each job, in any order, but those that take the longest not at the end.
fn outcomes(dice: &mut Dice) -> Vec<Outcome> {
    let mut all = vec![Outcome::Done; JOBS as usize];
    for (outcome, share) in Outcome::SHARES {
        let last = if outcome.lapses() { u64::from(JOBS) * 6 / 10 } else { u64::from(JOBS) - 1 };
        for _ in 0..share {
            let place = loop {
                let place = dice.between(0, last) as usize;
                if all[place] == Outcome::Done {
                    break place;
                }
            };
            all[place] = outcome;
        }
    }
    all
}

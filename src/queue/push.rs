//! New jobs.

use super::{Fault, Queue};
use crate::core::ids::{self, IdText};
use crate::core::record::Job;
use crate::redis::Text;
use crate::settings;
use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::collections::HashMap;

/// A job to be pushed.
pub struct NewJob {
    /// The caller's own id.
    pub id: Option<Text>,
    pub payload: Text,
    pub due: Due,
    pub retries: Option<u32>,
    pub lease: Option<u64>,
    /// Base and cap, in ms.
    pub backoff: Option<(u64, u64)>,
}

/// When a job may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// In so many ms.
    In(u64),
    /// At this queue time, in ms; at once where it has passed.
    At(u64),
}

impl Due {
    /// How long after `now`, in ms.
    fn wait(self, now: u64) -> u64 {
        match self {
            Due::In(delay) => delay,
            Due::At(at) => at.saturating_sub(now),
        }
    }
}

/// How a caller's ids are taken.
#[derive(Clone, Copy, Default)]
pub struct Taking {
    /// For how long from the push an id stays taken, in ms; else for `id-keep`.
    pub keep: Option<u64>,
    /// A job that is still due takes the new payload, time and options.
    pub replace: bool,
}

/// What became of one push.
pub enum Pushed {
    Made(Text),
    Replaced(Text),
    Duplicate(Text),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    Make,
    Replace,
    Nothing,
}

impl Queue<'_> {
    /// Pushes all `jobs` or, where that would pass a limit of the queue, none. `next_id` makes ids that only grow from
    /// the queue time in ms.
    pub fn push(
        &mut self,
        jobs: &[NewJob],
        taking: Taking,
        next_id: &mut dyn FnMut(u64) -> u64,
    ) -> Result<SmallVec<[Pushed; 1]>, Fault> {
        self.check_payloads(jobs)?;
        self.check_delays(jobs)?;
        let plans = self.plan(jobs, taking);
        let made = plans.iter().filter(|plan| **plan == Plan::Make).count();
        self.check_length(made)?;
        if plans.iter().any(|plan| *plan != Plan::Nothing) {
            self.make_header();
            self.jobs.expect_puts(jobs.len());
            self.due.expect_puts(jobs.len());
        }
        let pushed = jobs.iter().zip(plans).map(|(job, plan)| self.push_one(job, plan, taking, next_id)).collect();
        self.state.metrics.pushed.add(made);
        Ok(pushed)
    }

    /// What becomes of each job. Of several with one id in one batch, the later ones find what the first left.
    fn plan(&mut self, jobs: &[NewJob], taking: Taking) -> SmallVec<[Plan; 1]> {
        let mut met = HashMap::<_, _, RandomState>::default();
        jobs.iter()
            .map(|job| match &job.id {
                None => Plan::Make,
                Some(id) => {
                    let plan = match met.get(id.as_bytes()) {
                        None => self.plan_own(id, taking),
                        Some(Plan::Nothing) => Plan::Nothing,
                        Some(_) => Plan::of_due(taking),
                    };
                    met.insert(id.as_bytes(), plan);
                    plan
                }
            })
            .collect()
    }

    fn plan_own(&mut self, id: &Text, taking: Taking) -> Plan {
        if self.jobs.has(id) {
            return if taking.replace && self.find_due_by_id(id).is_some() { Plan::Replace } else { Plan::Nothing };
        }
        match self.ids.score(id) {
            // An id in `leased` that no job has is not taken: its job was lost, not finished. In `due` only the record could
            // tell where to look for it.
            Some(until) if until > self.now() && self.leased.score(id).is_none() => Plan::Nothing,
            _ => Plan::Make,
        }
    }

    fn check_payloads(&mut self, jobs: &[NewJob]) -> Result<(), Fault> {
        let Some(max) = self.rules().limit(&settings::MAX_PAYLOAD) else { return Ok(()) };
        let mut sizes = jobs.iter().map(|job| job.payload.as_bytes().len() as u64);
        sizes.find(|bytes| *bytes > max).map_or(Ok(()), |bytes| Err(Fault::TooLarge { bytes, max }))
    }

    fn check_delays(&mut self, jobs: &[NewJob]) -> Result<(), Fault> {
        let (now, max) = (self.now(), self.rules().get(&settings::MAX_DELAY));
        let late = jobs.iter().map(|job| job.due).find(|due| due.wait(now) > max);
        late.map_or(Ok(()), |due| Err(Fault::TooLate { due, max }))
    }

    fn check_length(&mut self, made: usize) -> Result<(), Fault> {
        match self.rules().limit(&settings::MAX_LENGTH) {
            Some(max) if made > 0 && self.jobs.len().saturating_add(made) as u64 > max => {
                self.state.metrics.refused_full.add(1);
                Err(Fault::Full { max })
            }
            _ => Ok(()),
        }
    }

    fn push_one(&mut self, job: &NewJob, plan: Plan, taking: Taking, next_id: &mut dyn FnMut(u64) -> u64) -> Pushed {
        let (pushed, birth) = match job.id.clone() {
            None => (Pushed::Made(self.write_under_new_id(job, next_id)), None),
            Some(id) if plan == Plan::Nothing => {
                self.state.metrics.deduplicated.add(1);
                return Pushed::Duplicate(id);
            }
            Some(id) => {
                self.take_id(&id, taking.keep);
                if plan == Plan::Replace {
                    // The old job's birth, which its record tells, is part of its entry.
                    self.remove_due_by_id(&id);
                }
                let birth = Some(next_id(self.now()));
                self.write_record(&id, &job.record(birth));
                (if plan == Plan::Replace { Pushed::Replaced(id) } else { Pushed::Made(id) }, birth)
            }
        };
        let due_at = match job.due {
            Due::In(delay) => self.after(delay),
            Due::At(at) => at.max(self.now()),
        };
        self.put_due(pushed.id(), birth, due_at);
        pushed
    }

    /// Writes the record under an id that no job has; nor any dead letter, where ids were met from after our time.
    fn write_under_new_id(&mut self, job: &NewJob, next_id: &mut dyn FnMut(u64) -> u64) -> Text {
        let record = Text::of_parts(job.record(None).encode().parts());
        loop {
            let text: IdText = ids::encode(next_id(self.now()));
            let id = Text::new(&text);
            let is_letters = self.state.ids_are_ahead.get() && self.dead.has(&id);
            if !is_letters && self.jobs.put_new(&id, record.clone()) {
                return id;
            }
        }
    }

    fn take_id(&mut self, id: &Text, keep: Option<u64>) {
        let keep = keep.unwrap_or_else(|| self.rules().get(&settings::ID_KEEP));
        let until = self.now().saturating_add(keep);
        if keep > 0 && self.ids.score(id).is_none_or(|taken| taken < until) {
            self.ids.put(id, until);
        }
        self.unlease(id);
    }

    pub(super) fn write_record(&mut self, id: &Text, job: &Job) {
        self.jobs.put(id, Text::of_parts(job.encode().parts()));
    }
}

impl NewJob {
    fn record(&self, birth: Option<u64>) -> Job<'_> {
        Job {
            payload: self.payload.as_bytes(),
            birth,
            retries: self.retries,
            lease: self.lease,
            backoff_base: self.backoff.map(|(base, _)| base),
            backoff_cap: self.backoff.map(|(_, cap)| cap),
            ..Job::default()
        }
    }
}

impl Pushed {
    pub fn id(&self) -> &Text {
        match self {
            Pushed::Made(id) | Pushed::Replaced(id) | Pushed::Duplicate(id) => id,
        }
    }
}

impl Plan {
    /// For an id that a job has which is still due.
    fn of_due(taking: Taking) -> Plan {
        if taking.replace {
            Plan::Replace
        } else {
            Plan::Nothing
        }
    }
}

//! New jobs.

use super::{Fault, Queue};
use crate::core::ids::{self, IdText};
use crate::core::record::Job;
use crate::redis::Text;
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

/// How a caller's ids are taken.
#[derive(Clone, Copy, Default)]
pub struct Taking {
    /// For how long from the push an id stays taken, in ms.
    pub keep: u64,
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
    /// Pushes all `jobs` or, where that would pass `max_length`, none. `next_id` makes ids that only grow.
    pub fn push(
        &mut self,
        jobs: Vec<NewJob>,
        taking: Taking,
        max_length: Option<u64>,
        next_id: &mut dyn FnMut() -> u64,
    ) -> Result<Vec<Pushed>, Fault> {
        let plans = self.plan(&jobs, taking);
        let made = plans.iter().filter(|plan| **plan == Plan::Make).count();
        self.fits(made, max_length)?;
        if plans.iter().any(|plan| *plan != Plan::Nothing) {
            self.make_header();
            self.jobs.will_write();
            self.due.will_write();
        }
        let pushed = jobs.into_iter().zip(plans).map(|(job, plan)| self.push_one(job, plan, taking, next_id)).collect();
        self.state.metrics.pushed.add(made);
        Ok(pushed)
    }

    /// What becomes of each job. Of several with one id in one batch, the later ones find what the first left.
    fn plan(&mut self, jobs: &[NewJob], taking: Taking) -> Vec<Plan> {
        let mut met = HashMap::new();
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
            return if self.due.score(id).is_some() { Plan::of_due(taking) } else { Plan::Nothing };
        }
        match self.ids.score(id) {
            Some(until) if until > self.now() => Plan::Nothing,
            _ => Plan::Make,
        }
    }

    fn fits(&mut self, made: usize, max_length: Option<u64>) -> Result<(), Fault> {
        match max_length {
            Some(max) if made > 0 && self.jobs.len().saturating_add(made) as u64 > max => Err(Fault::Full { max }),
            _ => Ok(()),
        }
    }

    fn push_one(&mut self, job: NewJob, plan: Plan, taking: Taking, next_id: &mut dyn FnMut() -> u64) -> Pushed {
        match (job.id.clone(), plan) {
            (Some(id), Plan::Nothing) => {
                self.state.metrics.deduplicated.add(1);
                Pushed::Duplicate(id)
            }
            (Some(id), plan) => {
                self.take_id(&id, taking.keep);
                self.write_new(&id, &job, Some(next_id()));
                if plan == Plan::Replace {
                    Pushed::Replaced(id)
                } else {
                    Pushed::Made(id)
                }
            }
            (None, _) => {
                let id = self.free_id(next_id);
                self.write_new(&id, &job, None);
                Pushed::Made(id)
            }
        }
    }

    /// An id that neither a job nor a dead letter has.
    fn free_id(&mut self, next_id: &mut dyn FnMut() -> u64) -> Text {
        loop {
            let text: IdText = ids::encode(next_id());
            let id = Text::new(&text);
            if !self.jobs.has(&id) && !self.dead.has(&id) {
                return id;
            }
        }
    }

    fn take_id(&mut self, id: &Text, keep: u64) {
        let until = self.now().saturating_add(keep);
        if keep > 0 && self.ids.score(id).is_none_or(|taken| taken < until) {
            self.ids.put(id, until);
        }
        if self.leased.score(id).is_some() {
            self.leased.remove(id);
        }
    }

    fn write_new(&mut self, id: &Text, new: &NewJob, birth: Option<u64>) {
        let job = Job {
            payload: new.payload.as_bytes(),
            birth,
            retries: new.retries,
            lease: new.lease,
            backoff_base: new.backoff.map(|(base, _)| base),
            backoff_cap: new.backoff.map(|(_, cap)| cap),
            ..Job::default()
        };
        self.write_record(id, &job);
        let due_at = match new.due {
            Due::In(delay) => self.after(delay),
            Due::At(at) => at.max(self.now()),
        };
        self.put_due(id, due_at);
    }

    pub(super) fn write_record(&mut self, id: &Text, job: &Job) {
        let mut record = Vec::with_capacity(job.payload.len() + 32);
        job.encode(&mut record);
        self.jobs.put(id, Text::new(&record));
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

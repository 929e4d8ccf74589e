//! What a reader sees: the figures of the queue, one job.

use super::due::{id_in, is_place};
use super::{Counts, Fault, JobState, Queue};
use crate::core::ids;
use crate::core::place::JobPlace;
use crate::core::record::{Job, Letter, Reason};
use crate::redis::Text;

/// Counts and sizes of the queue now.
pub struct Figures {
    pub counts: Counts,
    pub paused: bool,
    /// Jobs due later than the horizon.
    pub far: u64,
    pub oldest_ready_age_ms: u64,
    pub memory_bytes: u64,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Ready {
        due_at: u64,
    },
    Delayed {
        due_at: u64,
    },
    Leased {
        ends_at: u64,
    },
    Dead {
        died_at: Option<u64>,
        reason: Reason,
    },
    /// In no index: DQ.CHECK tells of it.
    Nowhere,
}

impl Place {
    /// The state as it is asked for; `None` of a job that is lost.
    pub fn state(self) -> Option<JobState> {
        match self {
            Place::Ready { .. } => Some(JobState::Ready),
            Place::Delayed { .. } => Some(JobState::Delayed),
            Place::Leased { .. } => Some(JobState::Leased),
            Place::Dead { .. } => Some(JobState::Dead),
            Place::Nowhere => None,
        }
    }
}

/// One job or dead letter.
pub struct View {
    pub place: Place,
    bytes: Text,
}

impl View {
    pub fn job(&self) -> Option<Job<'_>> {
        match self.place {
            Place::Dead { .. } => Letter::decode(self.bytes.as_bytes()).ok().map(|letter| letter.job),
            _ => Job::decode(self.bytes.as_bytes()).ok(),
        }
    }

    /// The bytes of its record.
    pub fn len(&self) -> usize {
        self.bytes.as_bytes().len()
    }
}

impl Queue<'_> {
    pub fn figures(&mut self, far_horizon: u64) -> Figures {
        let (now, counts) = (self.now(), self.counts());
        Figures {
            counts,
            paused: self.is_paused(),
            far: self.far(far_horizon),
            oldest_ready_age_ms: self.due.first(now, 1).first().map_or(0, |(_, at)| now - at),
            memory_bytes: self.memory(),
        }
    }

    /// The live job of that id, else its dead letter.
    pub fn view(&mut self, id: &Text) -> Result<Option<View>, Fault> {
        if let Some(bytes) = self.jobs.get(id) {
            return Ok(Some(View { place: self.place_of(id), bytes }));
        }
        let Some(bytes) = self.dead.get(id) else { return Ok(None) };
        let reason = Letter::decode(bytes.as_bytes()).map_err(|_| Fault::BadRecord)?.reason;
        Ok(Some(View { place: Place::Dead { died_at: self.dead_at.score(id), reason }, bytes }))
    }

    pub(super) fn place_of(&mut self, id: &Text) -> Place {
        if let Some(ends_at) = self.leased.score(id) {
            return Place::Leased { ends_at };
        }
        self.find_due_by_id(id).map_or(Place::Nowhere, |(_, due_at)| self.place_of_due(due_at))
    }

    fn place_of_due(&self, due_at: u64) -> Place {
        if due_at <= self.now() {
            Place::Ready { due_at }
        } else {
            Place::Delayed { due_at }
        }
    }

    /// The job or dead letter of an entry of the index of `state`, with its id; `None` if there is none that can be read.
    pub(super) fn view_in(&mut self, state: Option<JobState>, member: &Text, score: f64) -> Option<(Text, View)> {
        let at = score as u64;
        let id = match state {
            Some(JobState::Dead | JobState::Leased) => member.clone(),
            Some(JobState::Ready | JobState::Delayed) | None => id_in(member).into_owned(),
        };
        let view = match state {
            Some(JobState::Dead) => {
                let bytes = self.dead.get(&id)?;
                let reason = Letter::decode(bytes.as_bytes()).ok()?.reason;
                View { place: Place::Dead { died_at: Some(at), reason }, bytes }
            }
            Some(JobState::Leased) => View { place: Place::Leased { ends_at: at }, bytes: self.jobs.get(&id)? },
            Some(JobState::Ready | JobState::Delayed) | None => {
                let view = View { place: self.place_of_due(at), bytes: self.jobs.get(&id)? };
                let birth = view.job()?.birth;
                if !is_place(member, birth) && !self.is_only_entry(&id, birth) {
                    return None;
                }
                view
            }
        };
        view.job().is_some().then_some((id, view))
    }

    /// The newest ids and births that a look at the ends of the indexes shows, as numbers.
    pub fn latest_numbers(&mut self) -> impl Iterator<Item = u64> {
        let due = self.due.last().and_then(|(member, _)| JobPlace::parse(member.as_bytes()).number());
        let leased = self.leased.last().and_then(|(id, _)| {
            ids::decode(id.as_bytes()).or_else(|| Job::decode(self.jobs.get(&id)?.as_bytes()).ok()?.birth)
        });
        let dead = self.dead_at.last().and_then(|(id, _)| {
            ids::decode(id.as_bytes()).or_else(|| Letter::decode(self.dead.get(&id)?.as_bytes()).ok()?.job.birth)
        });
        [due, leased, dead].into_iter().flatten()
    }

    /// When the last lease ends.
    pub fn last_lease_end(&mut self) -> Option<u64> {
        self.leased.last().map(|(_, ends_at)| ends_at)
    }

    /// How many entries a walk over the whole queue meets.
    pub fn entries(&mut self) -> usize {
        self.due.len() + self.leased.len() + self.jobs.len() + self.dead.len() + self.dead_at.len() + self.ids.len()
    }
}

//! The states that a job is asked for by.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobState {
    Ready,
    Delayed,
    Leased,
    Dead,
}

impl JobState {
    pub const ALL: [JobState; 4] = [JobState::Ready, JobState::Delayed, JobState::Leased, JobState::Dead];

    pub fn name(self) -> &'static str {
        match self {
            JobState::Ready => "ready",
            JobState::Delayed => "delayed",
            JobState::Leased => "leased",
            JobState::Dead => "dead",
        }
    }
}

//! Pages of jobs, in the order of their index.

use super::claim::MAX_REPLY_BYTES;
use super::read::View;
use super::{JobState, Queue};
use crate::redis::{Position, Text};

/// Some jobs in a row.
pub struct Page {
    pub jobs: Vec<(Text, View)>,
    /// Where the next page begins; `None` where there is none.
    pub next: Option<Position>,
}

impl Queue<'_> {
    /// The next `count` entries behind `after`: of one state, or of those that claims come to, the ready and then the
    /// delayed ones. Entries without a readable job are left out, and a page holds at most 8 MiB or a single larger job.
    pub fn peek(&mut self, state: Option<JobState>, after: Position, count: usize) -> Page {
        let now = self.now();
        let after = if state == Some(JobState::Delayed) { after.or_above(now) } else { after };
        let up_to = if state == Some(JobState::Ready) { now as f64 } else { f64::INFINITY };
        let mut entries = match state {
            Some(JobState::Leased) => self.leased.beyond(&after, count + 1),
            Some(JobState::Dead) => self.dead_at.beyond(&after, count + 1),
            Some(JobState::Ready | JobState::Delayed) | None => self.due.beyond(&after, count + 1),
        };
        entries.retain(|(_, score)| *score <= up_to);
        let (mut jobs, mut next, mut bytes) = (Vec::new(), after, 0);
        for (place, (member, score)) in entries.into_iter().enumerate() {
            let view = self.view_in(state, &member, score);
            bytes += view.as_ref().map_or(0, |(_, view)| view.len());
            if place == count || (bytes > MAX_REPLY_BYTES && !jobs.is_empty()) {
                return Page { jobs, next: Some(next) };
            }
            next = Position::behind(score, &member);
            jobs.extend(view);
        }
        Page { jobs, next: None }
    }
}

//! Dead letters that become jobs again.

use super::bulk::{Bulk, Walk};
use super::{Progress, Queue, Slice};
use crate::core::life;
use crate::core::record::{Letter, Reason};
use crate::redis::{Position, Text};

/// Which letters are meant, and when their jobs are due.
#[derive(Clone, Copy)]
pub struct Replay {
    pub reason: Option<Reason>,
    /// The most that are replayed.
    pub count: u64,
    /// From now until the first job is due, in ms.
    pub delay: u64,
    /// From the first job to the last, in ms.
    pub spread: u64,
}

/// All letters that are meant: counted first, so that they can be spread evenly.
pub struct ReplayAll {
    replay: Replay,
    first_due: u64,
    walk: Walk,
    total: u64,
    done: u64,
}

/// What became of REPLAY ALL.
pub enum Replaying {
    /// So many are replayed, at once or in slices.
    Counted(u64),
    /// There are more than one step can count.
    Uncounted(ReplayAll),
}

impl ReplayAll {
    /// Goes on counting.
    pub fn count(&mut self, queue: &mut Queue, slice: &mut Slice) -> Progress {
        while self.total < self.replay.count {
            let Some((id, _)) = self.walk.next(&mut queue.dead_at, slice) else {
                if self.walk.progress() == Progress::More {
                    return Progress::More;
                }
                break;
            };
            self.total += u64::from(queue.is_replayable(&id, self.replay.reason, slice));
        }
        self.walk.restart();
        Progress::Done
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn step(&mut self, queue: &mut Queue, slice: &mut Slice) -> Progress {
        while self.done < self.total {
            let Some((id, _)) = self.walk.next(&mut queue.dead_at, slice) else { return self.walk.progress() };
            if queue.is_replayable(&id, self.replay.reason, slice) {
                let due = self.replay.due_of(self.first_due, self.done, self.total);
                self.done += u64::from(queue.revive(&id, due));
            }
        }
        Progress::Done
    }

    pub(super) fn left(&self) -> u64 {
        self.total - self.done
    }

    /// As `Bulk::covers`.
    pub(super) fn covers(&self, other: &ReplayAll) -> bool {
        self.replay.reason == other.replay.reason
    }
}

impl Replay {
    /// When the job at `place` of `total` is due.
    fn due_of(&self, first: u64, place: u64, total: u64) -> u64 {
        let behind = u128::from(self.spread) * u128::from(place) / u128::from(total.max(1));
        first.saturating_add(u64::try_from(behind).unwrap_or(u64::MAX))
    }
}

impl Queue<'_> {
    /// Replays the letters of `ids` in the order in which they died, up to the bytes of one step; says how many.
    pub fn replay(&mut self, ids: &[Text], replay: &Replay) -> u64 {
        let (mut slice, first_due) = (Slice::at_once(), self.after(replay.delay));
        let mut letters = Vec::new();
        for id in ids {
            if !slice.is_over() && self.is_replayable(id, replay.reason, &mut slice) {
                slice.spend(0);
                letters.push((self.dead_at.score(id), id));
            }
        }
        letters.sort_by(|(at, id), (other, another)| (at, id.as_bytes()).cmp(&(other, another.as_bytes())));
        letters.truncate(usize::try_from(replay.count).unwrap_or(usize::MAX));
        let total = letters.len() as u64;
        let revived = (0..).zip(letters).filter(|(place, (_, id))| {
            let due = replay.due_of(first_due, *place, total);
            self.revive(id, due)
        });
        revived.count() as u64
    }

    /// As `replay`, for all that are there now, in slices.
    pub fn replay_all(&mut self, replay: Replay) -> Replaying {
        let walk = Walk::new(&self.state.arrivals.dead, Position::start(), 0);
        let mut all = ReplayAll { replay, first_due: self.after(replay.delay), walk, total: 0, done: 0 };
        if all.count(self, &mut Slice::at_once()) == Progress::More {
            return Replaying::Uncounted(all);
        }
        let total = all.total;
        self.begin(Bulk::Replay(all));
        Replaying::Counted(total)
    }

    /// Whether there is a letter of this id and reason that can be read, and no live job.
    fn is_replayable(&mut self, id: &Text, reason: Option<Reason>, slice: &mut Slice) -> bool {
        if self.jobs.has(id) {
            return false;
        }
        let Some(bytes) = self.dead.get(id) else { return false };
        slice.spend_bytes(bytes.as_bytes().len());
        Letter::decode(bytes.as_bytes()).is_ok_and(|letter| reason.is_none_or(|reason| reason == letter.reason))
    }

    fn revive(&mut self, id: &Text, due: u64) -> bool {
        let Some(bytes) = self.dead.get(id) else { return false };
        let Ok(letter) = Letter::decode(bytes.as_bytes()) else { return false };
        self.make_header();
        self.unlease(id);
        let job = life::revive(letter);
        self.write_record(id, &job);
        self.put_due(id, job.birth, due);
        self.remove_letter(id);
        self.state.metrics.replayed.add(1);
        true
    }
}

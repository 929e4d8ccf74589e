//! The entries of `due`. The member of a job is its place, so that jobs of one ms are in push order: see
//! [`core::place`](crate::core::place).
//!
//! Only the record knows a job's birth, and with it the place. An entry can have another member: the first version wrote
//! every id as it is, and a job that lost its record leaves its entry behind. Such an entry counts if the job has no other,
//! and gets the right member when it is met. If the job has another, it goes, so that no job is handed out twice.

use super::check::MAX_TIME;
use super::{Queue, Slice};
use crate::core::ids;
use crate::core::place::JobPlace;
use crate::core::record::Job;
use crate::redis::Text;
use std::borrow::Cow;

/// The member of `due` for the job of this id and birth.
pub(super) fn member_of(id: &Text, birth: Option<u64>) -> Cow<'_, Text> {
    match (JobPlace { id: id.as_bytes(), birth }).text() {
        Some(text) => Cow::Owned(Text::new(&text)),
        None => Cow::Borrowed(id),
    }
}

/// The id of the job for which a member of `due` stands.
pub(super) fn id_in(member: &Text) -> Cow<'_, Text> {
    let JobPlace { id, .. } = JobPlace::parse(member.as_bytes());
    if id.len() == member.as_bytes().len() {
        Cow::Borrowed(member)
    } else {
        Cow::Owned(Text::new(id))
    }
}

/// The birth that a member of `due` names.
pub(super) fn birth_in(member: &Text) -> Option<u64> {
    JobPlace::parse(member.as_bytes()).birth
}

/// Whether a member of `due` is the place of the job that it names, given the job's birth.
pub(super) fn is_place(member: &Text, birth: Option<u64>) -> bool {
    birth_in(member) == birth
}

/// Whether the id is one that the server makes. A caller may choose such an id, too.
fn looks_made(id: &Text) -> bool {
    ids::decode(id.as_bytes()).is_some()
}

impl Queue<'_> {
    /// Makes a job due at `at`, in ms.
    pub(super) fn put_due(&mut self, id: &Text, birth: Option<u64>, at: u64) {
        let member = member_of(id, birth);
        self.state.arrivals.due.note(&member);
        self.set_due(&member, at);
    }

    /// As `put_due`, for a member that is in the index already: it is no arrival.
    ///
    /// A backoff without end, which only a record written by hand can have, ends at the latest time there is.
    pub(super) fn set_due(&mut self, member: &Text, at: u64) {
        let at = at.min(MAX_TIME);
        self.due.put(member, at);
        self.first_due = Some(self.first_due.map_or(at, |first| first.min(at)));
    }

    /// The member of the job of this id and birth, and its score.
    pub(super) fn find_due<'t>(&mut self, id: &'t Text, birth: Option<u64>) -> Option<(Cow<'t, Text>, u64)> {
        let place = member_of(id, birth);
        if let Some(at) = self.due.score(&place) {
            return Some((place, at));
        }
        birth.and_then(|_| self.due.score(id)).map(|at| (Cow::Borrowed(id), at))
    }

    /// As `find_due`, for a live job of any birth.
    pub(super) fn find_due_by_id<'t>(&mut self, id: &'t Text) -> Option<(Cow<'t, Text>, u64)> {
        if looks_made(id) {
            if let Some(at) = self.due.score(id) {
                return Some((Cow::Borrowed(id), at));
            }
        }
        let birth = self.birth_of(id);
        self.find_due(id, birth)
    }

    /// Takes the entry out of the job of this id and birth; `false` if there was none.
    pub(super) fn remove_due(&mut self, id: &Text, birth: Option<u64>) -> bool {
        self.due.remove(&member_of(id, birth)) || birth.is_some() && self.due.remove(id)
    }

    /// As `remove_due`, for a live job of any birth.
    pub(super) fn remove_due_by_id(&mut self, id: &Text) {
        if !(looks_made(id) && self.due.remove(id)) {
            let birth = self.birth_of(id);
            self.remove_due(id, birth);
        }
    }

    /// The birth of a live job; `None` also if its record cannot be read.
    pub(super) fn birth_of(&mut self, id: &Text) -> Option<u64> {
        Job::decode(self.jobs.get(id)?.as_bytes()).ok()?.birth
    }

    /// Whether a member that is not the place of the job of this id and birth is its only entry all the same.
    pub(super) fn is_only_entry(&mut self, id: &Text, birth: Option<u64>) -> bool {
        self.leased.score(id).is_none() && self.due.score(&member_of(id, birth)).is_none()
    }

    /// Moves the entry `member`, which is not the place of the job of this id and birth, to it; returns the place. `None` if
    /// the job has another entry: then this one goes.
    pub(super) fn move_to_place(&mut self, member: &Text, id: &Text, birth: Option<u64>, at: u64) -> Option<Text> {
        let is_only = self.is_only_entry(id, birth);
        self.due.remove(member);
        if !is_only {
            return None;
        }
        let place = member_of(id, birth).into_owned();
        self.set_due(&place, at);
        Some(place)
    }

    /// The live job of an entry that a walk met: its id and its member, which is its place now. The record of a job whose id the server
    /// made is not read.
    pub(super) fn job_at(&mut self, member: Text, at: u64, slice: &mut Slice) -> Option<(Text, Text)> {
        if looks_made(&member) {
            return self.jobs.has(&member).then(|| (member.clone(), member));
        }
        let id = id_in(&member).into_owned();
        let record = self.jobs.get(&id)?;
        slice.spend_bytes(record.as_bytes().len());
        match Job::decode(record.as_bytes()) {
            Ok(job) if !is_place(&member, job.birth) => {
                self.move_to_place(&member, &id, job.birth, at).map(|place| (id, place))
            }
            _ => Some((id, member)),
        }
    }
}

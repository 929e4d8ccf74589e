//! Which keys of a queue a step may touch. Those are looked at before anything is changed; the rest cost nothing.

use super::{Fault, Queue};

/// A set of a queue's keys.
#[derive(Clone, Copy)]
pub struct Reach(u8);

impl Reach {
    const HEADER: u8 = 1;
    /// The header, unless it is known to be as it is remembered.
    const UNKNOWN_HEADER: u8 = 1 << 7;
    const DUE: u8 = 1 << 1;
    const LEASED: u8 = 1 << 2;
    const JOBS: u8 = 1 << 3;
    const IDS: u8 = 1 << 4;
    const DEAD: u8 = 1 << 5;
    const DEAD_AT: u8 = 1 << 6;

    /// Jobs are made, under ids of the server's.
    pub const PUSH: Reach = Reach(Reach::UNKNOWN_HEADER | Reach::DUE | Reach::JOBS);
    /// Jobs are made, some under their callers' ids.
    pub const PUSH_OWN: Reach = Reach(Reach::PUSH.0 | Reach::LEASED | Reach::IDS);
    /// Due jobs are leased.
    pub const CLAIM: Reach = Reach(Reach::UNKNOWN_HEADER | Reach::DUE | Reach::LEASED | Reach::JOBS);
    /// Leases are ended, and jobs and letters taken away.
    pub const FINISH: Reach = Reach(Reach::DUE | Reach::LEASED | Reach::JOBS);
    /// What rules the queue is looked up.
    pub const RULES: Reach = Reach(Reach::UNKNOWN_HEADER | Reach::JOBS);
    /// Everything, as a look at the whole queue does, and each step that may make a dead letter.
    pub const ALL: Reach = Reach(u8::MAX);

    fn has(self, key: u8) -> bool {
        self.0 & key != 0
    }

    /// Whether the step may give a lease or end one.
    pub(super) fn has_leases(self) -> bool {
        self.has(Reach::LEASED)
    }

    /// Whether the step goes by what the header says.
    pub(super) fn has_header(self) -> bool {
        self.has(Reach::HEADER | Reach::UNKNOWN_HEADER)
    }
}

impl Queue<'_> {
    /// Refuses the queue where a key in reach is not what it should be.
    pub fn check(&mut self, reach: Reach) -> Result<(), Fault> {
        let header = reach.has(Reach::HEADER) || reach.has(Reach::UNKNOWN_HEADER) && !self.header_is_known();
        if header && (self.header.check().is_err() || !self.header_is_ours()) {
            return Err(Fault::WrongType);
        }
        let hashes = [(Reach::JOBS, &mut self.jobs), (Reach::DEAD, &mut self.dead)];
        let zsets = [
            (Reach::DUE, &mut self.due),
            (Reach::LEASED, &mut self.leased),
            (Reach::IDS, &mut self.ids),
            (Reach::DEAD_AT, &mut self.dead_at),
        ];
        let right = hashes.into_iter().all(|(key, hash)| !reach.has(key) || hash.check().is_ok())
            && zsets.into_iter().all(|(key, zset)| !reach.has(key) || zset.check().is_ok());
        right.then_some(()).ok_or(Fault::WrongType)
    }
}

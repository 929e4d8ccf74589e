//! A whole queue that goes.

use super::{Fault, Queue};

impl Queue<'_> {
    /// DROP: every key goes in this step, the memory in the background; says how many jobs and letters went. Refused
    /// while jobs are leased, unless `force`.
    pub fn drop_all(&mut self, force: bool) -> Result<u64, Fault> {
        let leased = self.leased.len() as u64;
        if leased > 0 && !force {
            return Err(Fault::Leased { jobs: leased });
        }
        let gone = self.jobs.len() + self.dead.len();
        [&mut self.header, &mut self.jobs, &mut self.dead].into_iter().for_each(|hash| hash.unlink());
        let zsets = [&mut self.due, &mut self.leased, &mut self.ids, &mut self.dead_at];
        zsets.into_iter().for_each(|zset| zset.unlink());
        self.state.forget_keys();
        Ok(gone as u64)
    }
}

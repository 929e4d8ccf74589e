//! Keyspace events of the module's own class, for what goes wrong: at most one per queue, kind and second.

use super::index::QueueNumber;
use super::schedule::Map;
use crate::queue::State;
use crate::redis::Ctx;
use std::ffi::CStr;

/// What is told, with the queue's name as the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alert {
    /// A job became a dead letter.
    Dead,
    /// Jobs were stale, and the policy was carried out.
    Stale,
    /// Jobs have been ready for `dq.stale-after`, but workers claim.
    Behind,
    /// A lease ran out.
    Lapsed,
    /// Stale jobs had to stay because there is no room for more dead letters.
    DeadFull,
}

impl Alert {
    fn event(self) -> &'static CStr {
        match self {
            Alert::Dead => c"dq.dead",
            Alert::Stale => c"dq.stale",
            Alert::Behind => c"dq.behind",
            Alert::Lapsed => c"dq.lapsed",
            Alert::DeadFull => c"dq.dead-full",
        }
    }
}

/// The second, in queue time, in which each was told last.
#[derive(Default)]
pub struct Alerts(Map<(QueueNumber, Alert), u64>);

impl Alerts {
    /// Whether this one is to be told now.
    pub fn is_new(&mut self, number: QueueNumber, alert: Alert, now: u64) -> bool {
        self.0.insert((number, alert), now / 1000) != Some(now / 1000)
    }

    pub fn forget(&mut self, number: QueueNumber) {
        self.0.retain(|(of, _), _| *of != number);
    }
}

pub fn tell(ctx: &Ctx, alert: Alert, state: &State) {
    ctx.notify(alert.event(), &state.keys.header);
}

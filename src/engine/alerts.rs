//! What goes wrong. Keyspace events of the module's own class tell of it, at most one per queue, kind and second; what
//! goes on for a while is logged when it begins and when it is over.

use super::index::QueueNumber;
use super::schedule::Map;
use super::Node;
use crate::core::table::fit;
use crate::queue::State;
use crate::redis::{Ctx, Level};
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
    /// A push was refused because the queue is at its `max-length`.
    Full,
    /// Very many jobs are due very late.
    FarAlarm,
}

impl Alert {
    const ALL: [Alert; 7] =
        [Alert::Dead, Alert::Stale, Alert::Behind, Alert::Lapsed, Alert::DeadFull, Alert::Full, Alert::FarAlarm];

    fn event(self) -> &'static CStr {
        match self {
            Alert::Dead => c"dq.dead",
            Alert::Stale => c"dq.stale",
            Alert::Behind => c"dq.behind",
            Alert::Lapsed => c"dq.lapsed",
            Alert::DeadFull => c"dq.dead-full",
            Alert::Full => c"dq.full",
            Alert::FarAlarm => c"dq.far-alarm",
        }
    }
}

/// Stands for all queues that this node does not know: a push to a new one can be refused too.
pub const UNKNOWN: QueueNumber = QueueNumber::MAX;

/// Between two lines of the log for commands that name a queue which does not exist, in ms.
const LOG_PAUSE_MS: u64 = 60_000;

/// What was told, and what goes on.
#[derive(Default)]
pub struct Alerts {
    /// The second, in queue time, in which each was told last.
    told: Map<(QueueNumber, Alert), u64>,
    /// What began and is not over: the log has one line for each of the two.
    troubles: Map<(QueueNumber, Alert), ()>,
    /// When a command for a queue that does not exist was logged last, in ms of queue time.
    unknown_queue_logged: Option<u64>,
}

impl Alerts {
    /// Whether this one is to be told now.
    pub fn is_new(&mut self, number: QueueNumber, alert: Alert, now: u64) -> bool {
        self.told.insert((number, alert), now / 1000) != Some(now / 1000)
    }

    /// Whether another command for a queue that does not exist may have a line in the log.
    pub fn may_log_unknown_queue(&mut self, now: u64) -> bool {
        let may = self.unknown_queue_logged.is_none_or(|logged| now >= logged.saturating_add(LOG_PAUSE_MS));
        if may {
            self.unknown_queue_logged = Some(now);
        }
        may
    }

    /// Whether the trouble begins now.
    pub fn begin(&mut self, number: QueueNumber, alert: Alert) -> bool {
        self.troubles.insert((number, alert), ()).is_none()
    }

    /// Whether the trouble ends now.
    pub fn end(&mut self, number: QueueNumber, alert: Alert) -> bool {
        self.troubles.remove(&(number, alert)).is_some()
    }

    /// How many queues have the trouble.
    pub fn troubled(&self, alert: Alert) -> u64 {
        self.troubles.keys().filter(|(_, of)| *of == alert).count() as u64
    }

    pub fn forget(&mut self, number: QueueNumber) {
        for alert in Alert::ALL {
            self.told.remove(&(number, alert));
            self.troubles.remove(&(number, alert));
        }
        fit(&mut self.told);
        fit(&mut self.troubles);
    }
}

pub fn tell(ctx: &Ctx, alert: Alert, state: &State) {
    ctx.notify(alert.event(), &state.keys.header);
}

impl Node {
    /// Where the trouble begins now, logs it and says so.
    pub(super) fn begin_trouble(
        &self,
        ctx: &Ctx,
        number: QueueNumber,
        alert: Alert,
        line: impl FnOnce() -> String,
    ) -> bool {
        let begins = self.alerts.borrow_mut().begin(number, alert);
        if begins {
            ctx.log(Level::Warning, &line());
        }
        begins
    }

    /// Logs that a trouble is over, where it ends now.
    pub(super) fn end_trouble(&self, ctx: &Ctx, number: QueueNumber, alert: Alert, line: impl FnOnce() -> String) {
        if self.alerts.borrow_mut().end(number, alert) {
            ctx.log(Level::Warning, &line());
        }
    }
}

//! The state of one queue in its keys. Every change of a key happens in this room, together with its effect for the
//! replicas and the AOF, and nowhere else.

mod arrivals;
mod bulk;
mod bury;
mod cancel;
mod check;
mod claim;
mod clear;
mod counts;
mod drop;
mod due;
mod fault;
mod finish;
mod header;
mod hold;
mod job_state;
mod lapse;
mod leases;
mod locate;
mod memory;
mod mend;
mod metrics;
mod peek;
mod policy;
mod purge;
mod push;
mod reach;
mod read;
mod replay;
mod reschedule;
mod retry;
mod rules;
mod slice;
mod state;
mod tenure;

pub use bulk::Bulk;
pub use check::CheckWalk;
pub use claim::Taken;
pub use counts::Counts;
pub use fault::Fault;
pub use finish::FailNote;
pub use job_state::JobState;
pub use lapse::LapseReport;
pub use metrics::Counter;
pub use policy::{lease_of, policy_of};
pub use purge::PurgeReport;
pub use push::{Due, NewJob, Pushed, Taking};
pub use reach::Reach;
pub use read::{Figures, Place};
pub use replay::{Replay, ReplayAll, Replaying};
pub use retry::Retried;
pub use rules::{Rules, Source};
pub use slice::{Progress, Slice};
pub use state::State;

use crate::redis::{Ctx, HashKey, Purpose, ZsetKey};

/// An index entry without a readable job is put off by so long, in ms: it stops nobody, DQ.CHECK still shows it, and
/// a job that comes back meanwhile (RENAME and RESTORE move one key at a time) is not late for ever.
const DANGLING_PUT_OFF_MS: u64 = 600_000;

/// Where and when a step happens.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub ctx: &'a Ctx,
    /// Queue time, in µs.
    pub now_us: u64,
    /// Whether the server is a node of a cluster.
    pub cluster: bool,
}

/// A queue, opened for one step. When it goes out of use, the effects of the step are handed to the server.
pub struct Queue<'a> {
    ctx: &'a Ctx,
    state: &'a State,
    /// Queue time of the step, in µs.
    now_us: u64,
    cluster: bool,
    /// Whether the header is there and says what is remembered of it, so that this step need not look.
    remembers_header: bool,
    header: HashKey<'a>,
    due: ZsetKey<'a>,
    leased: ZsetKey<'a>,
    jobs: HashKey<'a>,
    ids: ZsetKey<'a>,
    dead: HashKey<'a>,
    dead_at: ZsetKey<'a>,
    first_lease_end: Option<u64>,
    first_due: Option<u64>,
}

impl<'a> Queue<'a> {
    /// Opens the queue to change what is in `reach`, or refuses it as it stands: a key of another type, a key that is on
    /// its way.
    pub fn open(scene: Scene<'a>, state: &'a State, reach: Reach) -> Result<Queue<'a>, Fault> {
        let mut queue = Queue::new(scene, state, Purpose::Change).remembering(reach).checked(reach)?;
        if reach.has_leases() && state.tenure.is_to_begin() {
            state.tenure.begin(queue.last_lease_end());
        }
        if reach.has_header() && !queue.header_is_known() {
            queue.learn_header();
        }
        Ok(queue)
    }

    /// As `open`, for a step that changes nothing.
    pub fn look(scene: Scene<'a>, state: &'a State) -> Result<Queue<'a>, Fault> {
        let mut queue = Queue::new(scene, state, Purpose::Look).remembering(Reach::ALL).checked(Reach::ALL)?;
        if !queue.header_is_known() {
            queue.read_header();
        }
        Ok(queue)
    }

    /// The rules of a queue that nothing else is done with yet; the server's where its header is not one.
    pub fn rules_of(scene: Scene<'a>, state: &'a State) -> Rules {
        let mut queue = Queue::new(scene, state, Purpose::Change).remembering(Reach::RULES);
        if queue.header_is_known() {
            return state.header.borrow().rules.clone();
        }
        if queue.check(Reach::RULES).is_ok() {
            queue.read_header();
        }
        queue.rules()
    }

    fn new(Scene { ctx, now_us, cluster }: Scene<'a>, state: &'a State, purpose: Purpose) -> Queue<'a> {
        let keys = &state.keys;
        Queue {
            ctx,
            state,
            now_us,
            cluster,
            remembers_header: false,
            header: HashKey::new(ctx, &keys.header, purpose),
            due: ZsetKey::new(ctx, &keys.due, purpose),
            leased: ZsetKey::new(ctx, &keys.leased, purpose),
            jobs: HashKey::new(ctx, &keys.jobs, purpose),
            ids: ZsetKey::new(ctx, &keys.ids, purpose),
            dead: HashKey::new(ctx, &keys.dead, purpose),
            dead_at: ZsetKey::new(ctx, &keys.dead_at, purpose),
            first_lease_end: None,
            first_due: None,
        }
    }

    /// Goes by what is remembered of the header, if the step goes by the header at all and the memory holds. It does not
    /// in a cluster, whose slots leave and come back without a word, nor in MULTI and scripts, where an HSET may have come
    /// just before.
    fn remembering(mut self, reach: Reach) -> Queue<'a> {
        let holds = reach.has_header() && !self.cluster && self.state.header_holds.get();
        self.remembers_header = holds && !self.ctx.is_in_transaction();
        self
    }

    fn checked(mut self, reach: Reach) -> Result<Queue<'a>, Fault> {
        self.check(reach)?;
        if self.cluster && self.lacks_a_key() {
            self.ctx.exists(&self.state.keys.all()).map_err(|_| Fault::TryAgain)?;
        }
        Ok(self)
    }

    fn lacks_a_key(&mut self) -> bool {
        let hashes = [&mut self.header, &mut self.jobs, &mut self.dead];
        let zsets = [&mut self.due, &mut self.leased, &mut self.ids, &mut self.dead_at];
        !(hashes.into_iter().all(HashKey::exists) && zsets.into_iter().all(ZsetKey::exists))
    }

    /// Whether any key of the queue is there.
    pub fn exists(&mut self) -> bool {
        self.header.exists() || self.has_companions()
    }

    fn has_companions(&mut self) -> bool {
        let hashes = [&mut self.jobs, &mut self.dead];
        let zsets = [&mut self.due, &mut self.leased, &mut self.ids, &mut self.dead_at];
        hashes.into_iter().any(HashKey::exists) || zsets.into_iter().any(ZsetKey::exists)
    }

    /// Whether there are records at all. An index without any is one whose keys are moved one at a time, or were taken
    /// away: nothing is done with it until records are there.
    pub fn has_jobs(&mut self) -> bool {
        self.jobs.exists()
    }

    /// Queue time of the step, in ms.
    pub fn now(&self) -> u64 {
        self.now_us / 1000
    }

    /// The first whole ms of queue time by which `ms` have passed: never early. Nothing to wait for is now.
    fn after(&self, ms: u64) -> u64 {
        if ms == 0 {
            self.now()
        } else {
            self.now_us.div_ceil(1000).saturating_add(ms)
        }
    }

    /// The earliest lease end that this step set, for the timer.
    pub fn first_lease_end_set(&self) -> Option<u64> {
        self.first_lease_end
    }

    /// The earliest due time that this step set, for those who wait.
    pub fn first_due_set(&self) -> Option<u64> {
        self.first_due
    }

    /// When the next job can be claimed, as far as can be told; never, of a queue that is paused or at its `max-leased`:
    /// what ends that calls for a look.
    pub fn next_claimable(&mut self) -> Option<u64> {
        if self.is_paused() || !self.has_jobs() || self.room_for_leases() == Some(0) {
            return None;
        }
        self.due.first(u64::MAX, 1).first().map(|(_, at)| *at)
    }
}

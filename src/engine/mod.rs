//! What acts by itself, and what all commands share: the clock, the ids, the queues that this node knows, the waiters
//! and the turns.

mod alerts;
mod availability;
mod bulk;
mod census;
mod checks;
mod claims;
mod cross_slot;
mod discovery;
mod index;
mod info;
mod queues;
mod schedule;
mod serving;
mod standstill;
mod time;
mod turn;
mod waiters;
mod wake;
mod walks;
mod warnings;

pub use bulk::{change_all, replay_all};
pub use checks::{begin as begin_check, begin_repair};
pub use claims::claim;
pub use discovery::ServerEvents;
pub use info::NodeInfo;
pub use queues::{list as list_queues, QueueRow};
pub use waiters::{Claimed, Order, Wanted};

use crate::core::args::printable;
use crate::core::ids::{self, IdMaker};
use crate::core::names::QueueName;
use crate::queue::{Fault, Queue, Reach, Rules, Scene, State};
use crate::redis::{random, Ctx, Level, MainThread, WaitKey};
use crate::settings::{self, Setting};
use alerts::{Alert, Alerts};
use availability::Availability;
use census::Census;
use discovery::Discovery;
use index::{Index, Task};
use info::Figures;
use lazy_static::lazy_static;
use serving::{give_back, waiter_left};
use standstill::Doubt;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use time::Clock;
use waiters::{Waiter, Waiters};
use wake::{Alarm, Wake};
use walks::LongWalk;
use warnings::Warnings;

/// How often the clocks are looked at, and whether writes are taken, in ms.
const HEARTBEAT_MS: u64 = 1000;

lazy_static! {
    static ref NODE: MainThread<Node> = MainThread::new(Node::new());
}

/// This server, as the module sees it.
struct Node {
    clock: Clock,
    ids: RefCell<IdMaker>,
    index: RefCell<Index>,
    availability: RefCell<Availability>,
    doubt: Cell<Option<Doubt>>,
    discovery: RefCell<Discovery>,
    alerts: RefCell<Alerts>,
    census: RefCell<Census>,
    census_alarm: Alarm,
    figures: Figures,
    waiters: RefCell<Waiters>,
    /// Those who are sent away and not told yet.
    leaving: RefCell<BTreeMap<WaitKey, Waiter>>,
    /// Jobs of clients that were gone before they could be told.
    untold: RefCell<Vec<Claimed>>,
    /// Walks under way that clients wait for.
    walks: RefCell<Vec<LongWalk>>,
    walk_alarm: Alarm,
    release_alarm: Alarm,
    wake: Wake,
    /// Whether the server has called since it loaded the module.
    begun: Cell<bool>,
    /// Whether it has stopped to act, and not begun again.
    stands_down: Cell<bool>,
    primary: Cell<bool>,
    loading: Cell<bool>,
    cluster: Cell<bool>,
    /// Whether the log says that the server refuses calls for an earlier cross-slot script.
    cross_slot_fault: Cell<bool>,
    warnings: Warnings,
    /// When the slots of those who wait were looked at last, in ms of queue time.
    slots_looked_at: Cell<u64>,
    /// The queue whose slot was looked at last.
    slot_cursor: Cell<index::QueueNumber>,
    /// The number of the last rotating claim that was served.
    last_turn: Cell<u64>,
    /// The server's `maxmemory`, in bytes; 0 for no limit.
    maxmemory: Cell<u64>,
    /// When the log was last told that BLOCK is refused, in ms of queue time; 0 for never.
    warned_of_waiting_at: Cell<u64>,
}

impl Node {
    fn new() -> Node {
        Node {
            clock: Clock::new(),
            ids: RefCell::new(IdMaker::new(draw())),
            index: RefCell::default(),
            availability: RefCell::default(),
            doubt: Cell::new(None),
            discovery: RefCell::default(),
            alerts: RefCell::default(),
            census: RefCell::default(),
            census_alarm: Alarm::default(),
            figures: Figures::default(),
            waiters: RefCell::default(),
            leaving: RefCell::default(),
            untold: RefCell::default(),
            walks: RefCell::default(),
            walk_alarm: Alarm::default(),
            release_alarm: Alarm::default(),
            wake: Wake::default(),
            begun: Cell::new(false),
            stands_down: Cell::new(false),
            primary: Cell::new(false),
            loading: Cell::new(false),
            cluster: Cell::new(false),
            cross_slot_fault: Cell::new(false),
            warnings: Warnings::default(),
            slots_looked_at: Cell::new(0),
            slot_cursor: Cell::new(0),
            last_turn: Cell::new(0),
            maxmemory: Cell::new(0),
            warned_of_waiting_at: Cell::new(0),
        }
    }

    fn is_acting(&self) -> bool {
        self.begun.get() && self.primary.get() && !self.loading.get() && settings::is_enabled()
    }

    /// Begins to act, the first time that the server calls after it has loaded the module for good.
    fn begin(&self, ctx: &Ctx) {
        if self.begun.replace(true) {
            return;
        }
        match self.start_waker(ctx) {
            Ok(()) => {
                self.look_at_memory_limit(ctx);
                self.warn(ctx);
                self.take_over(ctx);
            }
            Err(error) => {
                self.begun.set(false);
                ctx.log(Level::Warning, &format!("dq: {error}; tried again"));
            }
        }
    }

    /// Looks how much memory the server may use.
    fn look_at_memory_limit(&self, ctx: &Ctx) {
        self.maxmemory.set(ctx.server_setting("maxmemory").and_then(|bytes| bytes.parse().ok()).unwrap_or(0));
    }

    /// Bytes that all clients which wait may take together.
    fn max_waiting_bytes(&self) -> usize {
        let max = settings::max_waiting_memory(self.maxmemory.get());
        usize::try_from(max).unwrap_or(usize::MAX)
    }

    /// Becomes a node that acts, by the system's clock as it stands now.
    fn take_over(&self, ctx: &Ctx) {
        self.clock.restart();
        self.begin_anew(ctx);
    }

    /// The data are new: the queues are looked for, and the grace begins. Queue time goes on.
    fn begin_anew(&self, ctx: &Ctx) {
        *self.ids.borrow_mut() = IdMaker::new(draw());
        *self.availability.borrow_mut() = Availability::default();
        self.doubt.set(None);
        self.census.borrow_mut().begin_again();
        self.index.borrow().states().for_each(|state| state.forget_what_may_change());
        self.start(ctx);
    }

    /// Acts again, where it may: looks for the queues, since they may have changed while it was not looking.
    fn start(&self, ctx: &Ctx) {
        if self.is_acting() {
            let now = self.now(ctx);
            self.stands_down.set(false);
            self.discovery.borrow_mut().scan_all();
            self.meet_all(now);
            self.wake_by(ctx, now);
        }
    }

    /// Acts no more: nobody waits, and no turn comes.
    fn stand_down(&self, ctx: &Ctx) {
        self.stands_down.set(true);
        self.doubt.set(None);
        self.index.borrow().states().for_each(|state| state.forget_what_may_change());
        let now = self.now(ctx);
        self.availability.borrow_mut().close(now);
        self.release_all(ctx);
        self.end_bulk();
        self.untold.borrow_mut().clear();
        self.census_alarm.stop(ctx);
        self.sleep_on(ctx);
    }

    /// Looks anew at every queue that it knows.
    fn meet_all(&self, now: u64) {
        let mut index = self.index.borrow_mut();
        index.meet_all(now);
        for number in self.waiters.borrow().queues() {
            index.schedule.set(Task::Serve(number), now);
        }
    }

    /// Has one task of every queue done in `within` ms at the latest.
    fn hurry(&self, ctx: &Ctx, task: fn(index::QueueNumber) -> Task, within: u64) {
        let now = self.now(ctx);
        let mut index = self.index.borrow_mut();
        for number in index.numbers_in(None) {
            index.schedule.set_by(task(number), now.saturating_add(within));
        }
        drop(index);
        self.wake_for_tasks(ctx, now);
    }

    /// Knows a queue from now on.
    fn know(&self, db: i32, state: &Rc<State>, now: u64) -> index::QueueNumber {
        let mut index = self.index.borrow_mut();
        let number = index.adopt(db, state);
        index.meet_new(number, now);
        number
    }

    fn observe_ids(&self, queue: &mut Queue, state: &State, now: u64) {
        state.ids_are_known.set(true);
        for number in queue.latest_numbers() {
            self.ids.borrow_mut().observe(number, now);
            state.ids_are_ahead.set(state.ids_are_ahead.get() || ids::ms_of(number) > now);
        }
    }

    fn scene<'a>(&self, ctx: &'a Ctx, now_us: u64) -> Scene<'a> {
        Scene { ctx, now_us, cluster: self.cluster.get() }
    }

    /// As [`change`]. `act` is told the queue's number if this node knew it already; the queue's memory comes back with
    /// what `act` gave.
    fn change<T>(
        &self,
        ctx: &Ctx,
        name: &QueueName,
        reach: Reach,
        act: impl FnOnce(&mut Queue, Option<index::QueueNumber>) -> Result<T, Fault>,
    ) -> Result<(T, Rc<State>), String> {
        if !self.primary.get() {
            return Err("READONLY DQ changes queues on a primary only".into());
        }
        self.begin(ctx);
        let (now_us, db) = (self.now_us(ctx), ctx.db());
        if self.doubts_replicas(ctx) {
            return Err(standstill::REFUSAL.into());
        }
        let Found { number: known, is_fresh, state } = find(db, name, now_us / 1000);
        let before = state.metrics.dead_letters();
        let (number, outcome) = {
            let mut queue = self.open_for(ctx, is_fresh, &state, now_us, reach).map_err(|fault| fault.to_string())?;
            let outcome = act(&mut queue, known);
            let number = if is_fresh && queue.exists() { Some(self.know(db, &state, now_us / 1000)) } else { known };
            if let Some(number) = number {
                self.set_by_step(number, &queue);
            }
            (number, outcome)
        };
        if let Some(number) = number {
            state.last_change.set(now_us / 1000);
            self.wake_for_tasks(ctx, now_us / 1000);
            if state.metrics.dead_letters() > before {
                self.alert(ctx, number, &state, Alert::Dead, now_us / 1000);
            }
        }
        if let Err(Fault::Full { max }) = &outcome {
            self.refused_full(ctx, number, &state, *max, now_us / 1000);
        }
        outcome.map(|outcome| (outcome, state)).map_err(|fault| fault.to_string())
    }

    /// A queue that is met for the first time, or anew after others had it, is looked at as a whole.
    fn open_for<'a>(
        &self,
        ctx: &'a Ctx,
        is_fresh: bool,
        state: &'a State,
        now_us: u64,
        reach: Reach,
    ) -> Result<Queue<'a>, Fault> {
        let open = |reach| Queue::open(self.scene(ctx, now_us), state, reach);
        if !is_fresh && state.ids_are_known.get() {
            return open(reach);
        }
        match open(Reach::ALL) {
            Ok(mut queue) => {
                self.observe_ids(&mut queue, state, now_us / 1000);
                Ok(queue)
            }
            Err(fault) if is_fresh => Err(fault),
            Err(_) => open(reach),
        }
    }

    /// Tells of a push that was refused. The queue may have no key, and then this node does not know it.
    fn refused_full(&self, ctx: &Ctx, number: Option<index::QueueNumber>, state: &State, max: u64, now: u64) {
        self.figures.refused_full.add(1);
        self.alert(ctx, number.unwrap_or(alerts::UNKNOWN), state, Alert::Full, now);
        if let Some(number) = number {
            let line = || {
                let name = printable(state.name());
                format!("dq: queue {name}: at its max-length of {max} jobs, pushes are refused with DQFULL")
            };
            self.begin_trouble(ctx, number, Alert::Full, line);
        }
    }

    fn settles_unknown_queue(&self, ctx: &Ctx, name: &QueueName, now: u64) {
        self.figures.unknown_queue.add(1);
        if self.alerts.borrow_mut().may_log_unknown_queue(now) {
            let name = printable(name.as_bytes());
            let line =
                format!("dq: a receipt was sent for queue {name}, which does not exist; dq_unknown_queue counts on");
            ctx.log(Level::Warning, &line);
        }
    }

    fn alert(&self, ctx: &Ctx, number: index::QueueNumber, state: &State, alert: Alert, now: u64) {
        if self.alerts.borrow_mut().is_new(number, alert, now) {
            alerts::tell(ctx, alert, state);
        }
    }
}

fn draw() -> u8 {
    random().to_le_bytes()[0]
}

/// Looks at the server that loads the module. Nothing is armed yet: the server may still take the module away, where a
/// setting that it was given has no such name, and could not with a timer on.
pub fn load(ctx: &Ctx) {
    NODE.primary.set(ctx.is_primary());
    NODE.loading.set(ctx.is_loading());
    NODE.cluster.set(ctx.is_cluster());
    NODE.begun.set(false);
    NODE.warnings.load(ctx);
}

/// Leaves nothing behind that the server or another build of the module would meet; refuses while the event loop still
/// holds a call into this one.
pub fn unload(ctx: &Ctx) -> Result<(), String> {
    NODE.sleep_on(ctx);
    if crate::redis::Waker::is_awaited() {
        return Err("a wake-up is on its way; try again".into());
    }
    NODE.stand_down(ctx);
    NODE.stop_waker();
    *NODE.index.borrow_mut() = Index::default();
    *NODE.discovery.borrow_mut() = Discovery::default();
    *NODE.alerts.borrow_mut() = Alerts::default();
    *NODE.census.borrow_mut() = Census::default();
    *NODE.availability.borrow_mut() = Availability::default();
    *NODE.waiters.borrow_mut() = Waiters::default();
    *NODE.leaving.borrow_mut() = BTreeMap::default();
    *NODE.untold.borrow_mut() = Vec::default();
    Ok(())
}

/// A setting has a new value.
pub fn setting_changed(ctx: &Ctx, setting: &Setting) {
    if setting.is(&settings::ENABLED) && !settings::is_enabled() {
        NODE.give_up_walks(None);
    }
    if !NODE.is_acting() {
        NODE.stand_down(ctx);
    } else if NODE.stands_down.get() {
        NODE.start(ctx);
    } else if setting.is(&settings::PURGE_INTERVAL) {
        NODE.hurry(ctx, Task::Upkeep, settings::PURGE_INTERVAL.get());
    } else if setting.is(&settings::TAKEOVER_GRACE) {
        let (now, grace) = (NODE.now(ctx), settings::TAKEOVER_GRACE.get());
        NODE.availability.borrow_mut().shorten_grace(now, grace);
        // Both may be put off to the end of a longer grace, also of one that refused writes have cut off.
        NODE.hurry(ctx, Task::Leases, grace);
        NODE.hurry(ctx, Task::Upkeep, grace);
    }
}

/// Queue time, in ms, of the system's time `at`, in ms.
pub fn queue_time_of(ctx: &Ctx, at: u64) -> u64 {
    NODE.queue_time_of(ctx, at)
}

/// Queue time in ms.
pub fn now(ctx: &Ctx) -> u64 {
    NODE.now(ctx)
}

/// A new id, larger than all before it, at queue time `now` in ms.
pub fn next_id(now: u64) -> u64 {
    NODE.ids.borrow_mut().next(now)
}

/// Runs one change of what is in `reach` in a queue: finds it, opens it, and when the change is done hands its effects
/// to the server and sets the timer by what it left behind.
pub fn change<T>(
    ctx: &Ctx,
    name: &QueueName,
    reach: Reach,
    act: impl FnOnce(&mut Queue) -> Result<T, Fault>,
) -> Result<T, String> {
    NODE.change(ctx, name, reach, |queue, _| act(queue)).map(|(outcome, _)| outcome)
}

/// Removes a whole queue, unless its jobs are leased and `force` is not given; returns how many jobs and letters went.
pub fn drop_queue(ctx: &Ctx, name: &QueueName, force: bool) -> Result<u64, String> {
    let gone = change(ctx, name, Reach::ALL, |queue| queue.drop_all(force))?;
    NODE.give_up_walks_of(ctx.db(), name.as_bytes());
    Ok(gone)
}

/// As [`change`], for a command that names claims by their receipts. One that names a queue which does not exist is
/// counted and now and then logged: its worker settles nothing, most likely since a name is misspelled.
pub fn settle<T>(
    ctx: &Ctx,
    name: &QueueName,
    reach: Reach,
    act: impl FnOnce(&mut Queue) -> Result<T, Fault>,
) -> Result<T, String> {
    change(ctx, name, reach, |queue| {
        let before = queue.lease_lost();
        let outcome = act(queue);
        if queue.lease_lost() > before && !queue.exists() {
            NODE.settles_unknown_queue(ctx, name, queue.now());
        }
        outcome
    })
}

/// How many clients wait for the queue.
pub fn waiting(ctx: &Ctx, name: &QueueName) -> usize {
    let index = NODE.index.borrow();
    index.find(ctx.db(), name.as_bytes()).map_or(0, |known| NODE.waiters.borrow().count(known.number))
}

/// Runs one look at a queue, which changes nothing.
pub fn look<T>(
    ctx: &Ctx,
    name: &QueueName,
    act: impl FnOnce(&mut Queue, &State) -> Result<T, Fault>,
) -> Result<T, String> {
    NODE.begin(ctx);
    let (now_us, db) = (NODE.now_us(ctx), ctx.db());
    let Found { is_fresh, state, .. } = find(db, name, now_us / 1000);
    let mut queue = Queue::look(NODE.scene(ctx, now_us), &state).map_err(|fault| fault.to_string())?;
    if is_fresh && NODE.is_acting() && queue.exists() {
        NODE.know(db, &state, now_us / 1000);
        NODE.wake_for_tasks(ctx, now_us / 1000);
    }
    act(&mut queue, &state).map_err(|fault| fault.to_string())
}

/// What rules the queue, for a command that has not opened it yet.
pub fn rules(ctx: &Ctx, name: &QueueName) -> Rules {
    let state = find(ctx.db(), name, 0).state;
    Queue::rules_of(NODE.scene(ctx, 0), &state)
}

/// A queue as this node knows it.
struct Found {
    /// `None` if this node does not know the queue.
    number: Option<index::QueueNumber>,
    /// Whether the state was made for this step, because the queue is unknown or only waited for. It is kept if the step
    /// finds or makes keys.
    is_fresh: bool,
    state: Rc<State>,
}

fn find(db: i32, name: &QueueName, now: u64) -> Found {
    let index = NODE.index.borrow();
    let known = index.find(db, name.as_bytes());
    let number = known.map(|known| known.number);
    match known.and_then(index::Known::state) {
        Some(state) => Found { number, is_fresh: false, state },
        None => Found { number, is_fresh: true, state: Rc::new(State::new(name, now)) },
    }
}

//! What acts by itself, and what all commands share: the clock, the ids, the queues that this node knows, the timer.

mod alerts;
mod availability;
mod checks;
mod discovery;
mod index;
mod schedule;
mod turn;

pub use checks::begin as begin_check;
pub use discovery::ServerEvents;

use crate::core::clock::{QueueClock, Reading, StepPolicy};
use crate::core::ids::{self, IdMaker};
use crate::core::names::QueueName;
use crate::queue::{Fault, Queue, State};
use crate::redis::{boot_us, random, wall_us, Ctx, Level, MainThread, TimerHandle};
use crate::settings;
use alerts::{Alert, Alerts};
use availability::Availability;
use checks::LongCheck;
use discovery::Discovery;
use index::{Index, Task};
use lazy_static::lazy_static;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How often the clocks are looked at, and whether writes are taken, in ms.
const HEARTBEAT_MS: u64 = 1000;

lazy_static! {
    static ref NODE: MainThread<Node> = MainThread::new(Node::new());
}

/// This server, as the module sees it.
struct Node {
    clock: RefCell<QueueClock>,
    last_look_us: Cell<u64>,
    ids: RefCell<IdMaker>,
    index: RefCell<Index>,
    availability: RefCell<Availability>,
    discovery: RefCell<Discovery>,
    alerts: RefCell<Alerts>,
    /// Walks of DQ.CHECK under way.
    checks: RefCell<Vec<LongCheck>>,
    /// The timer that is armed, and the queue time in ms at which it is to fire.
    timer: RefCell<Option<(TimerHandle, u64)>>,
    primary: Cell<bool>,
    loading: Cell<bool>,
    cluster: Cell<bool>,
}

impl Node {
    fn new() -> Node {
        Node {
            clock: RefCell::new(QueueClock::new(reading())),
            last_look_us: Cell::new(0),
            ids: RefCell::new(IdMaker::new(draw())),
            index: RefCell::default(),
            availability: RefCell::default(),
            discovery: RefCell::default(),
            alerts: RefCell::default(),
            checks: RefCell::default(),
            timer: RefCell::new(None),
            primary: Cell::new(false),
            loading: Cell::new(false),
            cluster: Cell::new(false),
        }
    }

    /// Queue time in µs. Looks at the system's clock where the last look is a heartbeat old.
    fn now_us(&self, ctx: &Ctx) -> u64 {
        let boot = boot_us();
        if boot.saturating_sub(self.last_look_us.get()) >= HEARTBEAT_MS * 1000 {
            self.last_look_us.set(boot);
            self.look(ctx);
        }
        self.clock.borrow_mut().now_us(boot)
    }

    fn now(&self, ctx: &Ctx) -> u64 {
        self.now_us(ctx) / 1000
    }

    fn look(&self, ctx: &Ctx) {
        let policy = if settings::follows_clock_steps() { StepPolicy::Follow } else { StepPolicy::Slew };
        let mut clock = self.clock.borrow_mut();
        let before = clock.now(boot_us());
        let Some(step) = clock.look(reading(), policy) else { return };
        let after = clock.now(boot_us());
        if step.taken_ms > 0 {
            self.availability.borrow_mut().jumped(before, after, settings::TAKEOVER_GRACE.get());
        }
        let (by, offset) = (step.by_ms, clock.offset_ms());
        let held = if clock.held() { "; the offset is too large to be closed and stays" } else { "" };
        ctx.log(
            Level::Warning,
            &format!("dq: the system's clock was set by {by} ms; queue time is {offset} ms behind it{held}"),
        );
    }

    fn is_acting(&self) -> bool {
        self.primary.get() && !self.loading.get() && settings::is_enabled()
    }

    /// Sees to it that the timer fires at `at` or before.
    fn wake_by(&self, ctx: &Ctx, at: u64) {
        if !self.is_acting() {
            return;
        }
        let now = self.now(ctx);
        let armed = self.timer.borrow().as_ref().map(|(_, at)| *at);
        if armed.is_some_and(|armed| armed <= at && now < armed.saturating_add(HEARTBEAT_MS)) {
            return;
        }
        self.stop_timer(ctx);
        let timer = TimerHandle::arm(ctx, at.saturating_sub(now), turn::take);
        *self.timer.borrow_mut() = Some((timer, at.max(now)));
    }

    fn stop_timer(&self, ctx: &Ctx) {
        if let Some((timer, _)) = self.timer.borrow_mut().take() {
            timer.stop(ctx);
        }
    }

    /// Becomes a node that acts: the queues are looked for, and the grace begins.
    fn take_over(&self, ctx: &Ctx) {
        *self.clock.borrow_mut() = QueueClock::new(reading());
        self.last_look_us.set(boot_us());
        *self.ids.borrow_mut() = IdMaker::new(draw());
        *self.availability.borrow_mut() = Availability::default();
        self.discovery.borrow_mut().scan_all();
        let now = self.now(ctx);
        self.index.borrow_mut().meet_all(now);
        self.start(ctx);
    }

    /// Acts again, where it may.
    fn start(&self, ctx: &Ctx) {
        if self.is_acting() {
            let now = self.now(ctx);
            self.availability.borrow_mut().open(now, settings::TAKEOVER_GRACE.get());
            self.wake_by(ctx, now);
        }
    }

    /// Acts no more: no timer is left behind.
    fn stand_down(&self, ctx: &Ctx) {
        let now = self.now(ctx);
        self.availability.borrow_mut().close(now);
        self.stop_timer(ctx);
    }

    fn observe_ids(&self, queue: &mut Queue, now: u64) {
        for id in queue.latest_ids() {
            if let Some(number) = ids::decode(id.as_bytes()) {
                self.ids.borrow_mut().observe(number, now);
            }
        }
    }

    fn alert(&self, ctx: &Ctx, number: index::QueueNumber, state: &State, alert: Alert, now: u64) {
        if self.alerts.borrow_mut().is_new(number, alert, now) {
            alerts::tell(ctx, alert, state);
        }
    }
}

fn reading() -> Reading {
    Reading { boot_us: boot_us(), wall_us: wall_us() }
}

fn draw() -> u8 {
    random().to_le_bytes()[0]
}

/// Starts on the server that loads the module.
pub fn load(ctx: &Ctx) {
    NODE.primary.set(ctx.is_primary());
    NODE.loading.set(ctx.is_loading());
    NODE.cluster.set(ctx.is_cluster());
    NODE.take_over(ctx);
}

/// Leaves nothing behind that the server or another build of the module would meet.
pub fn unload(ctx: &Ctx) {
    NODE.stand_down(ctx);
    *NODE.index.borrow_mut() = Index::default();
    *NODE.discovery.borrow_mut() = Discovery::default();
    *NODE.alerts.borrow_mut() = Alerts::default();
}

/// A setting has a new value.
pub fn settings_changed(ctx: &Ctx) {
    if !NODE.is_acting() {
        NODE.stand_down(ctx);
        return;
    }
    NODE.start(ctx);
    let now = NODE.now(ctx);
    NODE.availability.borrow_mut().shorten_grace(now, settings::TAKEOVER_GRACE.get());
    let mut index = NODE.index.borrow_mut();
    for number in index.numbers() {
        index.schedule.set_by(Task::Upkeep(number), now.saturating_add(settings::PURGE_INTERVAL.get()));
        index.schedule.set_by(Task::Leases(number), now);
    }
    drop(index);
    NODE.wake_by(ctx, now);
}

/// Queue time, in ms, of the system's time `at`, in ms.
pub fn queue_time_of(ctx: &Ctx, at: u64) -> u64 {
    QueueClock::wall_to_queue(at, wall_us() / 1000, NODE.now(ctx))
}

/// Queue time in ms.
pub fn now(ctx: &Ctx) -> u64 {
    NODE.now(ctx)
}

/// A new id, larger than all before it.
pub fn next_id(ctx: &Ctx) -> u64 {
    let now = NODE.now(ctx);
    NODE.ids.borrow_mut().next(now)
}

/// Runs one change of a queue: finds it, opens it, and when the change is done hands its effects to the server and
/// sets the timer by what it left behind.
pub fn change<T>(ctx: &Ctx, name: &QueueName, act: impl FnOnce(&mut Queue) -> Result<T, Fault>) -> Result<T, String> {
    if !NODE.primary.get() {
        return Err("READONLY DQ changes queues on a primary only".into());
    }
    let (now_us, db) = (NODE.now_us(ctx), ctx.db());
    let state = state_of(db, name, now_us / 1000);
    let mut queue = Queue::open(ctx, &state, now_us, NODE.cluster.get()).map_err(|fault| fault.to_string())?;
    let before = state.metrics.dead_letters();
    let outcome = act(&mut queue).map_err(|fault| fault.to_string());
    let first_lease_end = queue.first_lease_end_set();
    let number = queue.exists().then(|| NODE.index.borrow_mut().adopt(db, Rc::clone(&state)));
    drop(queue);
    if let Some(number) = number {
        state.last_change.set(now_us / 1000);
        set_tasks(ctx, number, first_lease_end, now_us / 1000);
        if state.metrics.dead_letters() > before {
            NODE.alert(ctx, number, &state, Alert::Dead, now_us / 1000);
        }
    }
    outcome
}

/// Runs one look at a queue, which changes nothing.
pub fn look<T>(
    ctx: &Ctx,
    name: &QueueName,
    act: impl FnOnce(&mut Queue, &State) -> Result<T, Fault>,
) -> Result<T, String> {
    let now_us = NODE.now_us(ctx);
    let state = state_of(ctx.db(), name, now_us / 1000);
    let mut queue = Queue::open(ctx, &state, now_us, NODE.cluster.get()).map_err(|fault| fault.to_string())?;
    act(&mut queue, &state).map_err(|fault| fault.to_string())
}

/// What the node remembers of the queue; a fresh memory of one that it does not know.
fn state_of(db: i32, name: &QueueName, now: u64) -> Rc<State> {
    match NODE.index.borrow().find(db, name.as_bytes()) {
        Some(known) => Rc::clone(&known.state),
        None => Rc::new(State::new(name, now)),
    }
}

fn set_tasks(ctx: &Ctx, number: index::QueueNumber, first_lease_end: Option<u64>, now: u64) {
    let mut index = NODE.index.borrow_mut();
    if !index.schedule.has(&Task::Upkeep(number)) {
        index.meet(number, now);
    }
    if let Some(at) = first_lease_end {
        index.schedule.set_by(Task::Leases(number), at);
    }
    let next = index.schedule.next_at().unwrap_or(now).min(now.saturating_add(HEARTBEAT_MS));
    drop(index);
    NODE.wake_by(ctx, next);
}

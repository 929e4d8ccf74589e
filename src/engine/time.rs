//! The node's clock: queue time, as core/clock.rs keeps it, and the looks at the system's clock.

use super::{Node, HEARTBEAT_MS};
use crate::core::clock::{QueueClock, Reading, StepPolicy};
use crate::redis::{boot_us, wall_us, Ctx, Level};
use crate::settings;
use std::cell::{Cell, RefCell};

pub struct Clock {
    clock: RefCell<QueueClock>,
    last_look_us: Cell<u64>,
    /// When the server called the module last, in µs of boot time.
    pub(super) seen_us: Cell<u64>,
    steps: Cell<u64>,
}

/// What INFO and STATS say of the clock.
pub struct ClockFigures {
    /// The system's clock less queue time, in ms.
    pub offset_ms: i64,
    /// Steps of the system's clock that were seen.
    pub steps: u64,
    /// Whether the offset is too large to be closed.
    pub held: bool,
}

impl Clock {
    pub fn new() -> Clock {
        Clock {
            clock: RefCell::new(QueueClock::new(reading())),
            last_look_us: Cell::new(boot_us()),
            seen_us: Cell::new(boot_us()),
            steps: Cell::new(0),
        }
    }

    /// Starts again at the system's time.
    pub fn restart(&self) {
        *self.clock.borrow_mut() = QueueClock::new(reading());
        self.last_look_us.set(boot_us());
        self.seen_us.set(boot_us());
    }

    pub fn figures(&self) -> ClockFigures {
        let clock = self.clock.borrow();
        ClockFigures { offset_ms: clock.offset_ms(), steps: self.steps.get(), held: clock.held() }
    }

    /// Queue time in ms when the boot clock shows `boot_us`.
    pub fn now(&self, boot_us: u64) -> u64 {
        self.clock.borrow_mut().now(boot_us)
    }

    /// The boot time in µs at which queue time is `at`, in ms.
    pub fn boot_at(&self, at: u64) -> u64 {
        self.clock.borrow_mut().boot_at(boot_us(), at.saturating_mul(1000))
    }
}

fn reading() -> Reading {
    Reading::take(boot_us, wall_us)
}

impl Node {
    /// Queue time in µs. Looks at the system's clock where the last look is a heartbeat old.
    pub(super) fn now_us(&self, ctx: &Ctx) -> u64 {
        let boot = boot_us();
        self.notice_standstill(ctx, boot);
        if boot.saturating_sub(self.clock.last_look_us.get()) >= HEARTBEAT_MS * 1000 {
            self.look_at_clock(ctx);
        }
        self.clock.clock.borrow_mut().now_us(boot)
    }

    /// Queue time in ms.
    pub(super) fn now(&self, ctx: &Ctx) -> u64 {
        self.now_us(ctx) / 1000
    }

    /// The first whole ms of queue time by which the system's clock shows `at`, in ms; now, where it has shown that.
    pub(super) fn queue_time_of(&self, ctx: &Ctx, at: u64) -> u64 {
        let Reading { boot_us, wall_us } = self.look_at_clock(ctx);
        let (now_us, at_us) = (self.clock.clock.borrow_mut().now_us(boot_us), at.saturating_mul(1000));
        if at_us <= wall_us {
            now_us / 1000
        } else {
            QueueClock::wall_to_queue(at_us, wall_us, now_us).div_ceil(1000)
        }
    }

    /// Compares the system's clock with queue time, and says by what.
    fn look_at_clock(&self, ctx: &Ctx) -> Reading {
        let policy = if settings::follows_clock_steps() { StepPolicy::Follow } else { StepPolicy::Slew };
        let mut clock = self.clock.clock.borrow_mut();
        let reading = reading();
        self.clock.last_look_us.set(reading.boot_us);
        let before = clock.now(reading.boot_us);
        let Some(step) = clock.look(reading, policy) else { return reading };
        let after = clock.now(reading.boot_us);
        self.clock.steps.set(self.clock.steps.get() + 1);
        let (by, offset, held) = (step.by_ms, clock.offset_ms(), clock.held());
        drop(clock);
        if step.taken_ms > 0 {
            self.availability.borrow_mut().jumped(before, after, settings::TAKEOVER_GRACE.get());
        }
        let becomes = match (offset, held) {
            (0, _) => "queue time follows at once",
            (_, true) => "queue time stays as it is: delays and leases are not touched, and AT goes by the new time",
            (_, false) => "queue time closes the offset slowly",
        };
        let line = format!("dq: the system's clock was set by {by} ms and is {offset} ms off queue time; {becomes}");
        ctx.log(Level::Warning, &line);
        reading
    }
}

//! When the next turn comes. Near moments are a timer of 0 ms, later ones the waker thread's.

use super::{turn, Node, HEARTBEAT_MS, NODE};
use crate::redis::{arm_now, boot_us, Ctx, TimerHandle, Waker};
use std::cell::{Cell, RefCell};

/// A timer that has not fired so long after its time, in µs, is held back by a step of the wall clock.
const HELD_BACK_US: u64 = 50_000;

/// One timer of the server, which runs on the wall clock, and the boot time at which it should fire.
#[derive(Default)]
pub struct Alarm(RefCell<Option<(TimerHandle, u64)>>);

impl Alarm {
    /// Arms the timer, in place of one that is armed.
    pub fn arm(&self, ctx: &Ctx, in_ms: u64, call: fn(&Ctx)) {
        let timer = TimerHandle::arm(ctx, in_ms, call);
        let before = self.0.borrow_mut().replace((timer, boot_us().saturating_add(in_ms * 1000)));
        if let Some((timer, _)) = before {
            timer.stop(ctx);
        }
    }

    /// The timer has fired: its handle means nothing any more.
    pub fn fired(&self) {
        self.0.borrow_mut().take();
    }

    pub fn is_armed(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub fn is_held_back(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(|(_, due)| boot_us().saturating_sub(*due) > HELD_BACK_US)
    }

    /// Arms the timer anew, to fire at once, where a step of the wall clock holds it back.
    pub fn rearm_if_held_back(&self, ctx: &Ctx, call: fn(&Ctx)) {
        if self.is_held_back() {
            self.arm(ctx, 0, call);
        }
    }

    pub fn stop(&self, ctx: &Ctx) {
        if let Some((timer, _)) = self.0.borrow_mut().take() {
            timer.stop(ctx);
        }
    }
}

#[derive(Default)]
pub struct Wake {
    waker: RefCell<Option<Waker>>,
    /// The moment that the waker sleeps to, in µs of boot time.
    moment: Cell<Option<u64>>,
    /// A turn comes at this queue time, in ms, or before.
    planned: Cell<Option<u64>>,
    /// The timer of 0 ms.
    soon: Alarm,
}

impl Wake {
    /// The turn has come.
    pub fn fired(&self) {
        self.soon.fired();
        self.moment.set(None);
        self.planned.set(None);
    }

    fn must_arm(&self) -> bool {
        !self.soon.is_armed() || self.soon.is_held_back()
    }
}

/// Called by the event loop when the waker's moment has come.
fn on_wake(ctx: &Ctx) {
    NODE.turn_soon(ctx);
}

impl Node {
    pub(super) fn start_waker(&self, ctx: &Ctx) -> Result<(), String> {
        *self.wake.waker.borrow_mut() = Some(Waker::start(ctx, on_wake)?);
        Ok(())
    }

    pub(super) fn stop_waker(&self) {
        if let Some(waker) = self.wake.waker.borrow_mut().take() {
            waker.stop();
        }
    }

    /// Sees to it that a turn comes at `at` or before, in ms of queue time.
    pub(super) fn wake_by(&self, ctx: &Ctx, at: u64) {
        if self.wake.planned.get().is_some_and(|planned| planned <= at) || !self.is_acting() {
            return;
        }
        let now = self.now(ctx);
        let at = at.min(now + HEARTBEAT_MS);
        self.wake.planned.set(Some(at));
        if at <= now {
            self.turn_soon(ctx);
        } else {
            self.wake_by_boot(self.clock.boot_at(at));
        }
    }

    /// Sees to it that a turn comes at `at_us` or before, in µs of boot time.
    pub(super) fn wake_by_boot(&self, at_us: u64) {
        if self.is_acting() && self.wake.moment.get().is_none_or(|moment| moment > at_us) {
            self.wake.moment.set(Some(at_us));
            if let Some(waker) = self.wake.waker.borrow().as_ref() {
                waker.set(Some(at_us));
            }
        }
    }

    /// Has a turn come in this turn of the event loop, after what runs now.
    pub(super) fn turn_soon(&self, ctx: &Ctx) {
        if self.is_acting() && self.wake.must_arm() {
            self.wake.soon.arm(ctx, 0, turn::take);
        }
    }

    /// As `turn_soon`, from a callback of the server that has no context to arm timers with.
    pub(super) fn turn_soon_from_anywhere(&self) {
        if self.is_acting() && self.wake.must_arm() {
            arm_now(|ctx| self.wake.soon.arm(ctx, 0, turn::take));
        }
    }

    /// A turn now, where the one that should have come did not: a step of the wall clock held its timer back, or the
    /// waker's call was lost.
    pub(super) fn turn_if_held_back(&self, ctx: &Ctx) {
        let overdue = self.wake.moment.get().is_some_and(|moment| boot_us() > moment.saturating_add(HELD_BACK_US));
        if overdue || self.wake.soon.is_held_back() {
            self.turn_soon(ctx);
        }
    }

    /// No turn comes any more.
    pub(super) fn sleep_on(&self, ctx: &Ctx) {
        self.wake.soon.stop(ctx);
        self.wake.moment.set(None);
        self.wake.planned.set(None);
        if let Some(waker) = self.wake.waker.borrow().as_ref() {
            waker.set(None);
        }
    }
}

//! When the next turn comes. Near moments are a timer of 0 ms, later ones the waker thread's.

use super::{turn, Node, HEARTBEAT_MS, NODE};
use crate::redis::{arm_now, boot_us, Ctx, TimerHandle, Waker};
use std::cell::{Cell, RefCell};

/// A timer of 0 ms that has not fired for so long, in µs, is held back by a step of the wall clock.
const HELD_BACK_US: u64 = 50_000;

pub struct Wake {
    waker: RefCell<Option<Waker>>,
    /// The moment that the waker sleeps to, in ms of queue time.
    moment: Cell<Option<u64>>,
    /// The timer of 0 ms that is armed, and the boot time in µs at which it was.
    soon: RefCell<Option<(TimerHandle, u64)>>,
}

impl Wake {
    pub fn new() -> Wake {
        Wake { waker: RefCell::new(None), moment: Cell::new(None), soon: RefCell::new(None) }
    }

    /// The timer has fired: its handle means nothing any more.
    pub fn fired(&self) {
        self.soon.borrow_mut().take();
        self.moment.set(None);
    }

    fn must_arm(&self) -> bool {
        self.soon.borrow().as_ref().is_none_or(|(_, since)| boot_us().saturating_sub(*since) > HELD_BACK_US)
    }
}

/// Called by the event loop when the waker's moment has come.
fn on_wake(ctx: &Ctx) {
    NODE.turn_soon(ctx);
}

impl Node {
    pub(super) fn start_waker(&self, ctx: &Ctx) -> Result<(), String> {
        let waker = Waker::start(ctx, on_wake).map_err(|error| format!("cannot start a thread: {error}"))?;
        *self.wake.waker.borrow_mut() = Some(waker);
        Ok(())
    }

    pub(super) fn stop_waker(&self) {
        if let Some(waker) = self.wake.waker.borrow_mut().take() {
            waker.stop();
        }
    }

    /// Sees to it that a turn comes at `at` or before, in ms of queue time.
    pub(super) fn wake_by(&self, ctx: &Ctx, at: u64) {
        if !self.is_acting() {
            return;
        }
        let now = self.now(ctx);
        let at = at.min(now + HEARTBEAT_MS);
        if at <= now {
            self.turn_soon(ctx);
        } else if self.wake.moment.get().is_none_or(|moment| moment > at) {
            self.wake.moment.set(Some(at));
            if let Some(waker) = self.wake.waker.borrow().as_ref() {
                waker.set(Some(self.clock.boot_at(at)));
            }
        }
    }

    /// Has a turn come in this turn of the event loop, after what runs now.
    pub(super) fn turn_soon(&self, ctx: &Ctx) {
        if self.is_acting() && self.wake.must_arm() {
            self.arm_soon(ctx, TimerHandle::arm(ctx, 0, turn::take));
        }
    }

    /// As `turn_soon`, from a callback of the server that has no context to arm timers with.
    pub(super) fn turn_soon_from_anywhere(&self) {
        if self.is_acting() && self.wake.must_arm() {
            if let Some(timer) = arm_now(turn::take) {
                *self.wake.soon.borrow_mut() = Some((timer, boot_us()));
            }
        }
    }

    /// A turn now, where the one that should have come did not: a step of the wall clock held its timer back, or the
    /// waker's call was lost.
    pub(super) fn turn_if_held_back(&self, ctx: &Ctx) {
        let overdue = self.wake.moment.get().is_some_and(|moment| self.now(ctx) > moment + HELD_BACK_US / 1000);
        let held_back = self.wake.soon.borrow().is_some() && self.wake.must_arm();
        if overdue || held_back {
            self.turn_soon(ctx);
        }
    }

    fn arm_soon(&self, ctx: &Ctx, timer: TimerHandle) {
        let held_back = self.wake.soon.borrow_mut().replace((timer, boot_us()));
        if let Some((timer, _)) = held_back {
            timer.stop(ctx);
        }
    }

    /// No turn comes any more.
    pub(super) fn sleep_on(&self, ctx: &Ctx) {
        if let Some((timer, _)) = self.wake.soon.borrow_mut().take() {
            timer.stop(ctx);
        }
        self.wake.moment.set(None);
        if let Some(waker) = self.wake.waker.borrow().as_ref() {
            waker.set(None);
        }
    }
}

//! Timers of the server.

use super::{api, boot_us, Ctx, MainThread};
use redis_module::raw;
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;

/// What a timer calls when it fires. It carries no data, so nothing leaks when it is stopped.
pub type Timers = fn(&Ctx);

/// A timer that is armed.
pub struct TimerHandle(raw::RedisModuleTimerID);

extern "C" fn fire(ctx: *mut raw::RedisModuleCtx, data: *mut c_void) {
    // SAFETY: `data` is the function pointer that `arm` was given, and the context is live while the callback runs.
    let (ctx, call) = unsafe { (Ctx::lent(ctx), std::mem::transmute::<*mut c_void, Timers>(data)) };
    let begun_us = boot_us();
    if catch_unwind(AssertUnwindSafe(|| call(&ctx))).is_err() {
        ctx.log(super::Level::Warning, "dq: a timer failed; see the panic message above");
    }
    note_run(boot_us().saturating_sub(begun_us));
}

/// What all timers of the module took of the server since it was loaded.
#[derive(Clone, Copy)]
pub struct TimerFigures {
    pub runs: u64,
    pub us: u64,
    pub longest_us: u64,
}

static FIGURES: MainThread<Cell<TimerFigures>> =
    MainThread::new(Cell::new(TimerFigures { runs: 0, us: 0, longest_us: 0 }));

fn note_run(us: u64) {
    let before = FIGURES.get();
    FIGURES.set(TimerFigures {
        runs: before.runs + 1,
        us: before.us.saturating_add(us),
        longest_us: before.longest_us.max(us),
    });
}

pub fn timer_figures() -> TimerFigures {
    FIGURES.get()
}

impl TimerHandle {
    /// Arms a timer that fires once, `in_ms` from now on the server's wall clock.
    pub fn arm(ctx: &Ctx, in_ms: u64, call: Timers) -> TimerHandle {
        let in_ms = i64::try_from(in_ms).unwrap_or(i64::MAX / 2);
        // SAFETY: the context is live; `fire` turns the data back into the same function pointer.
        TimerHandle(unsafe { api!(RedisModule_CreateTimer(ctx.raw(), in_ms, Some(fire), call as *mut c_void)) })
    }

    /// Stops the timer. Must not be called from the timer itself: by then its handle is to be forgotten.
    pub fn stop(self, ctx: &Ctx) {
        // SAFETY: the context is live; an id that is gone already is answered with an error and harms nothing.
        unsafe { api!(RedisModule_StopTimer(ctx.raw(), self.0, null_mut())) };
    }
}

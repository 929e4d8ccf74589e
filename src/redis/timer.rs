//! Clocks, timers of the server, and the waker.
//!
//! A module timer of the server runs on the wall clock and in whole ms. The waker is more precise: a thread of the module
//! sleeps until the next moment on the boot clock and has the event loop arm a timer of 0 ms. That timer fires in the same
//! iteration of the loop and may do all that a timer may.

use super::{api, Ctx, MainThread};
use redis_module::raw;
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// µs since the machine started, sleep included; no step of the system's clock moves it.
pub fn boot_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the struct that it is given; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// µs since 1970 by the system's clock; 0 where it is set before that.
pub fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The main thread is called again after so long, in µs, where the timer did not fire: a step of the wall clock in
/// just that moment can hold it back.
const CALL_AGAIN_US: u64 = 100_000;

/// Called on the main thread when the moment has come.
type OnWake = fn(&Ctx);

/// A context that outlives every call, for arming timers only.
static DETACHED: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(null_mut());
/// What the event loop calls; null stands for nothing.
static ON_WAKE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// Calls that the event loop has not made yet.
static POSTED: AtomicUsize = AtomicUsize::new(0);

struct Moment {
    /// Boot time in µs; `None` for none.
    at_us: Option<u64>,
    over: bool,
}

struct Shared {
    moment: Mutex<Moment>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Moment> {
        self.moment.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread and the moment that it sleeps to.
///
/// It is a plain thread of the C library: the standard library's `spawn` leaves a destructor with the main thread, and
/// that would keep the library mapped after MODULE UNLOAD.
pub struct Waker {
    shared: Arc<Shared>,
    thread: libc::pthread_t,
}

impl Waker {
    /// Starts the thread. `on_wake` must do nothing but arm a timer.
    pub fn start(ctx: &Ctx, on_wake: OnWake) -> Result<Waker, String> {
        let shared =
            Arc::new(Shared { moment: Mutex::new(Moment { at_us: None, over: false }), changed: Condvar::new() });
        let given = Arc::into_raw(Arc::clone(&shared));
        let mut thread = 0;
        // SAFETY: `run` takes over the reference that is given; the default attributes are asked for by null.
        let error = unsafe { libc::pthread_create(&mut thread, std::ptr::null(), run, given.cast_mut().cast()) };
        if error != 0 {
            // SAFETY: no thread has taken the reference.
            drop(unsafe { Arc::from_raw(given) });
            return Err(format!("cannot start a thread: {}", std::io::Error::from_raw_os_error(error)));
        }
        // SAFETY: the context is live; the detached one is freed by `stop`.
        DETACHED.store(unsafe { api!(RedisModule_GetDetachedThreadSafeContext(ctx.raw())) }, SeqCst);
        ON_WAKE.store(on_wake as *mut c_void, SeqCst);
        Ok(Waker { shared, thread })
    }

    /// Sets the moment, in boot time in µs; `None` to sleep on.
    pub fn set(&self, at_us: Option<u64>) {
        let mut moment = self.shared.lock();
        let sooner = match (moment.at_us, at_us) {
            (Some(before), Some(at)) => at < before,
            (None, at) => at.is_some(),
            (Some(_), None) => false,
        };
        moment.at_us = at_us;
        drop(moment);
        if sooner {
            self.shared.changed.notify_one();
        }
    }

    /// Whether the event loop still holds a call into the module, so that the module must stay.
    pub fn is_awaited() -> bool {
        POSTED.load(SeqCst) > 0
    }

    /// Ends the thread. No moment comes after this.
    pub fn stop(self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_one();
        // SAFETY: the thread was made by `start` and is joined once, here.
        unsafe { libc::pthread_join(self.thread, null_mut()) };
        let detached = DETACHED.swap(null_mut(), SeqCst);
        if !detached.is_null() {
            // SAFETY: made by `start`, freed once, here.
            unsafe { api!(RedisModule_FreeThreadSafeContext(detached)) };
        }
    }
}

extern "C" fn run(given: *mut c_void) -> *mut c_void {
    // SAFETY: the one reference that `start` gave to this thread.
    let shared = unsafe { Arc::from_raw(given.cast::<Shared>().cast_const()) };
    // SAFETY: names this thread and asks the kernel to wake it to the point (1 ns instead of 50 µs of slack).
    unsafe {
        libc::pthread_setname_np(libc::pthread_self(), c"dq-waker".as_ptr());
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
    }
    // A panic here would be one of the standard library; the server's own tick then brings the turns, ten a second.
    let _ = catch_unwind(AssertUnwindSafe(|| sleep(&shared)));
    null_mut()
}

fn sleep(shared: &Shared) {
    let mut moment = shared.lock();
    while !moment.over {
        let now = boot_us();
        moment = match moment.at_us {
            None => shared.changed.wait(moment).unwrap_or_else(PoisonError::into_inner),
            Some(at) if at > now => {
                let nap = Duration::from_micros(at - now);
                shared.changed.wait_timeout(moment, nap).unwrap_or_else(PoisonError::into_inner).0
            }
            Some(_) => {
                moment.at_us = Some(now + CALL_AGAIN_US);
                post();
                moment
            }
        };
    }
}

/// Has the event loop call `awake`; safe from any thread.
fn post() {
    POSTED.fetch_add(1, SeqCst);
    // SAFETY: the function is safe to call from a thread; `awake` takes no data.
    unsafe { api!(RedisModule_EventLoopAddOneShot(Some(awake), null_mut())) };
}

extern "C" fn awake(_: *mut c_void) {
    POSTED.fetch_sub(1, SeqCst);
    let (detached, on_wake) = (DETACHED.load(SeqCst), ON_WAKE.load(SeqCst));
    if detached.is_null() || on_wake.is_null() {
        return;
    }
    // SAFETY: the context is live until `stop`; the pointer is the function that `start` was given.
    let (ctx, call) = unsafe { (Ctx::lent(detached), std::mem::transmute::<*mut c_void, OnWake>(on_wake)) };
    let _ = catch_unwind(AssertUnwindSafe(|| call(&ctx)));
}

/// Lends the context that outlives every call, to arm a timer with where the server gave none; nothing before the start.
pub fn arm_now(arm: impl FnOnce(&Ctx)) {
    let detached = DETACHED.load(SeqCst);
    if !detached.is_null() {
        // SAFETY: the context is live until `stop`.
        arm(&unsafe { Ctx::lent(detached) });
    }
}

//! Waking the main thread to the point. A module timer of the server runs on the wall clock and in whole ms; a thread
//! of the module's own sleeps to the moment instead and has the event loop arm a timer of 0 ms, which fires in the
//! same turn of the loop and may do all that a timer may.

use super::{api, clock::boot_us, timer::TimerHandle, Ctx};
use redis_module::raw;
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

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
pub struct Waker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Waker {
    /// Starts the thread. `on_wake` must do nothing but arm a timer.
    pub fn start(ctx: &Ctx, on_wake: OnWake) -> std::io::Result<Waker> {
        // SAFETY: the context is live; the detached one is freed by `stop`.
        DETACHED.store(unsafe { api!(RedisModule_GetDetachedThreadSafeContext(ctx.raw())) }, SeqCst);
        ON_WAKE.store(on_wake as *mut c_void, SeqCst);
        let shared =
            Arc::new(Shared { moment: Mutex::new(Moment { at_us: None, over: false }), changed: Condvar::new() });
        let seen = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("dq-waker".into()).spawn(move || sleep(&seen))?;
        Ok(Waker { shared, thread: Some(thread) })
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
    pub fn stop(mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended as well.
            let _ = thread.join();
        }
        let detached = DETACHED.swap(null_mut(), SeqCst);
        if !detached.is_null() {
            // SAFETY: made by `start`, freed once, here.
            unsafe { api!(RedisModule_FreeThreadSafeContext(detached)) };
        }
    }
}

fn sleep(shared: &Shared) {
    // SAFETY: asks the kernel to wake this thread to the point (1 ns instead of 50 µs of slack); changes nothing else.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
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

/// Arms a timer of 0 ms from wherever the main thread is, without a context of its own; `None` before the start.
pub fn arm_now(call: fn(&Ctx)) -> Option<TimerHandle> {
    let detached = DETACHED.load(SeqCst);
    // SAFETY: the context is live until `stop`.
    (!detached.is_null()).then(|| TimerHandle::arm(&unsafe { Ctx::lent(detached) }, 0, call))
}

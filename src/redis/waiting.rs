//! Clients that wait for something to happen.
//!
//! The server is told no time-out: its own and a wake-up in the same turn of the loop can lose the reply (Redis 7.0),
//! so deadlines are kept by the caller. A client is unblocked exactly once: by `answer`, or by the drop of its handle
//! when the server says that it left.

use super::{api, Ctx, Level};
use redis_module::raw;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;

/// What one kind of waiting comes to.
pub trait Wait: 'static {
    type Answer;
    /// Whether an answer that does not reach its client is lost, so that it is worth a look at the client first.
    fn must_arrive(answer: &Self::Answer) -> bool;
    /// Writes the answer to the client.
    fn reply(ctx: &Ctx, answer: &Self::Answer);
    /// Writes what a client gets that CLIENT UNBLOCK ends.
    fn reply_timed_out(ctx: &Ctx);
    /// The client left: it disconnected, or CLIENT UNBLOCK ended its wait. Its handle is to be dropped, if it is still
    /// kept.
    fn left(key: WaitKey);
    /// The answer was on its way, but the client was gone.
    fn untold(answer: Self::Answer);
}

/// Names a client that waits, as long as it does.
pub type WaitKey = usize;

/// A client that waits.
pub struct Waiting<W: Wait> {
    client: *mut raw::RedisModuleBlockedClient,
    client_id: u64,
    kind: PhantomData<W>,
}

/// An answer on its way.
struct Parcel<A> {
    answer: A,
    client_id: u64,
    told: bool,
}

impl<W: Wait> Waiting<W> {
    /// Makes the client that called wait; `None` in MULTI and in a script, where none can.
    pub fn begin(ctx: &Ctx) -> Option<Self> {
        if ctx.denies_blocking() {
            return None;
        }
        // SAFETY: the context is live; the callbacks have the form that the server asks for.
        unsafe {
            let client =
                api!(RedisModule_BlockClient(ctx.raw(), Some(reply::<W>), Some(timed_out::<W>), Some(free::<W>), 0));
            if client.is_null() {
                return None;
            }
            api!(RedisModule_SetDisconnectCallback(client, Some(left::<W>)));
            let client_id = api!(RedisModule_GetClientId(ctx.raw()));
            Some(Waiting { client, client_id, kind: PhantomData })
        }
    }

    pub fn key(&self) -> WaitKey {
        self.client as WaitKey
    }

    /// Sends the answer, and the client waits no more.
    pub fn answer(self, answer: W::Answer) {
        let parcel = Box::into_raw(Box::new(Parcel { answer, client_id: self.client_id, told: false }));
        // SAFETY: the client waits; it is unblocked once, since `self` is given up without its drop.
        unsafe { api!(RedisModule_UnblockClient(self.client, parcel.cast())) };
        std::mem::forget(self);
    }
}

impl<W: Wait> Drop for Waiting<W> {
    fn drop(&mut self) {
        // SAFETY: the client left and was not answered: unblocked once, here.
        unsafe { api!(RedisModule_UnblockClient(self.client, null_mut())) };
    }
}

fn guarded(ctx: &Ctx, act: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(act)).is_err() {
        ctx.log(Level::Warning, "dq: an answer to a waiting client failed; see the panic message above");
    }
}

extern "C" fn reply<W: Wait>(ctx: *mut raw::RedisModuleCtx, _: *mut *mut raw::RedisModuleString, _: c_int) -> c_int {
    // SAFETY: the context is live; its private data is the parcel that `answer` made, or null.
    let (ctx, parcel) = unsafe {
        let parcel = api!(RedisModule_GetBlockedClientPrivateData(ctx)).cast::<Parcel<W::Answer>>();
        (Ctx::lent(ctx), parcel.as_mut())
    };
    if let Some(parcel) = parcel {
        guarded(&ctx, || {
            if !W::must_arrive(&parcel.answer) || !ctx.is_closing(parcel.client_id) {
                W::reply(&ctx, &parcel.answer);
                parcel.told = true;
            }
        });
    }
    raw::REDISMODULE_OK as c_int
}

extern "C" fn timed_out<W: Wait>(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: the context is live and that of a client that waits.
    let (ctx, client) = unsafe { (Ctx::lent(ctx), api!(RedisModule_GetBlockedClientHandle(ctx))) };
    guarded(&ctx, || {
        W::reply_timed_out(&ctx);
        W::left(client as WaitKey);
    });
    raw::REDISMODULE_OK as c_int
}

extern "C" fn left<W: Wait>(ctx: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: the context is live while the callback runs.
    let ctx = unsafe { Ctx::lent(ctx) };
    guarded(&ctx, || W::left(client as WaitKey));
}

extern "C" fn free<W: Wait>(ctx: *mut raw::RedisModuleCtx, data: *mut c_void) {
    if data.is_null() {
        return;
    }
    // SAFETY: the context is live; the parcel was made by `answer` and is freed once, here.
    let (ctx, parcel) = unsafe { (Ctx::lent(ctx), Box::from_raw(data.cast::<Parcel<W::Answer>>())) };
    if !parcel.told {
        guarded(&ctx, || W::untold(parcel.answer));
    }
}

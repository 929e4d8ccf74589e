//! A client that waits for an answer which takes several turns.

use super::{api, Ctx};
use redis_module::raw;
use std::ffi::{c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The answer, written when the client is there to read it.
pub type BlockedReply = Box<dyn FnOnce(&Ctx)>;

/// A client that waits. It is answered exactly once, by `answer` or when this goes out of use; the server is told no
/// time-out, so neither its own nor CLIENT UNBLOCK can come in between.
pub struct Waiting(*mut raw::RedisModuleBlockedClient);

extern "C" fn reply(ctx: *mut raw::RedisModuleCtx, _: *mut *mut raw::RedisModuleString, _: c_int) -> c_int {
    // SAFETY: the context is live, and its private data is what `answer` made, or null.
    let (ctx, data) = unsafe {
        let data = api!(RedisModule_GetBlockedClientPrivateData(ctx)).cast::<Option<BlockedReply>>();
        (Ctx::lent(ctx), data.as_mut())
    };
    if let Some(write) = data.and_then(Option::take) {
        if catch_unwind(AssertUnwindSafe(|| write(&ctx))).is_err() {
            ctx.log(super::Level::Warning, "dq: an answer failed; see the panic message above");
        }
    }
    raw::REDISMODULE_OK as c_int
}

extern "C" fn free(_: *mut raw::RedisModuleCtx, data: *mut c_void) {
    if !data.is_null() {
        // SAFETY: made by `answer`, freed once, here.
        drop(unsafe { Box::from_raw(data.cast::<Option<BlockedReply>>()) });
    }
}

impl Waiting {
    /// Makes the client that called wait; `None` in MULTI and in a script, where none can.
    pub fn begin(ctx: &Ctx) -> Option<Waiting> {
        if ctx.denies_blocking() {
            return None;
        }
        // SAFETY: the context is live; the callbacks have the form that the server asks for.
        let client = unsafe { api!(RedisModule_BlockClient(ctx.raw(), Some(reply), None, Some(free), 0)) };
        (!client.is_null()).then_some(Waiting(client))
    }

    pub fn answer(self, write: BlockedReply) {
        let data = Box::into_raw(Box::new(Some(write)));
        // SAFETY: the client waits and is unblocked once: `self` is given up without its drop.
        unsafe { api!(RedisModule_UnblockClient(self.0, data.cast())) };
        std::mem::forget(self);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let sorry: BlockedReply = Box::new(|ctx| super::Reply::reply_error(ctx, "UNBLOCKED the server gave this up"));
        let data = Box::into_raw(Box::new(Some(sorry)));
        // SAFETY: as in `answer`, which forgets `self`.
        unsafe { api!(RedisModule_UnblockClient(self.0, data.cast())) };
    }
}

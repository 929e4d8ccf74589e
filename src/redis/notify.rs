//! Keyspace events of the module's own class (`d` in `notify-keyspace-events`).

use super::{api, Ctx, Text};
use redis_module::raw;
use std::ffi::CStr;

pub(super) fn keyspace_event(ctx: &Ctx, event: &CStr, key: &Text) {
    // SAFETY: context, event name and key are live for the call.
    unsafe {
        api!(RedisModule_NotifyKeyspaceEvent(ctx.raw(), raw::REDISMODULE_NOTIFY_MODULE, event.as_ptr(), key.raw()));
    }
}

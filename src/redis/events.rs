//! What happens to the server and its keys without a command of the module.

use super::ctx::slots_move_in_one_piece;
use super::text::bytes_of;
use super::{api, Ctx, Level};
use redis_module::raw;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicI32, Ordering};

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEvent {
    /// RESTORE, RENAME, COPY or MOVE made it.
    Came,
    /// DEL, RENAME, MOVE, expiry or eviction took it.
    Gone,
}

/// What the module does about it. A handler marks memory and arms timers; it never writes.
pub trait Events {
    fn role_changed(ctx: &Ctx, primary: bool);
    fn loading_started(ctx: &Ctx);
    fn loading_ended(ctx: &Ctx);
    /// All keys of one database are gone; of every one where `db` is `None`.
    fn flushed(ctx: &Ctx, db: Option<i32>);
    fn swapped(ctx: &Ctx, first: i32, second: i32);
    /// Slots of the cluster came to this node or left it, all their keys at once.
    fn slots_moved(ctx: &Ctx);
    /// A setting of the server has a new value.
    fn config_changed(ctx: &Ctx);
    /// Some ten times a second.
    fn tick(ctx: &Ctx);
    fn key(ctx: &Ctx, event: KeyEvent, db: i32, key: &[u8]);
}

fn guarded(ctx: &Ctx, handle: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(handle)).is_err() {
        ctx.log(Level::Warning, "dq: an event handler failed; see the panic message above");
    }
}

extern "C" fn on_role<E: Events>(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, sub: u64, _: *mut c_void) {
    // SAFETY: the context is live while the callback runs, here and below.
    let ctx = unsafe { Ctx::lent(ctx) };
    guarded(&ctx, || E::role_changed(&ctx, sub == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER));
}

extern "C" fn on_loading<E: Events>(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, sub: u64, _: *mut c_void) {
    // SAFETY: see `on_role`.
    let ctx = unsafe { Ctx::lent(ctx) };
    guarded(&ctx, || match sub {
        raw::REDISMODULE_SUBEVENT_LOADING_ENDED | raw::REDISMODULE_SUBEVENT_LOADING_FAILED => E::loading_ended(&ctx),
        _ => E::loading_started(&ctx),
    });
}

extern "C" fn on_flush<E: Events>(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    sub: u64,
    data: *mut c_void,
) {
    if sub != raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
        return;
    }
    // SAFETY: as above; the data of this event is a flush info of version 1.
    let (ctx, db) = unsafe { (Ctx::lent(ctx), (*data.cast::<raw::RedisModuleFlushInfoV1>()).dbnum) };
    guarded(&ctx, || E::flushed(&ctx, (db >= 0).then_some(db)));
}

extern "C" fn on_swap<E: Events>(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, _: u64, data: *mut c_void) {
    // SAFETY: as above; the data of this event is a swap info of version 1.
    let (ctx, info) = unsafe { (Ctx::lent(ctx), *data.cast::<raw::RedisModuleSwapDbInfoV1>()) };
    guarded(&ctx, || E::swapped(&ctx, info.dbnum_first, info.dbnum_second));
}

/// The event by which Valkey 9 tells of slots that move in one piece, and the first of its two parts that say that they
/// have: that they came, and that they left.
const SLOT_MIGRATION: u64 = 19;
const SLOTS_CAME: u64 = 4;

extern "C" fn on_slots<E: Events>(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, sub: u64, _: *mut c_void) {
    // SAFETY: see `on_role`.
    let ctx = unsafe { Ctx::lent(ctx) };
    if sub >= SLOTS_CAME {
        guarded(&ctx, || E::slots_moved(&ctx));
    }
}

extern "C" fn on_config<E: Events>(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, _: u64, _: *mut c_void) {
    // SAFETY: see `on_role`.
    let ctx = unsafe { Ctx::lent(ctx) };
    guarded(&ctx, || E::config_changed(&ctx));
}

extern "C" fn on_tick<E: Events>(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, _: u64, _: *mut c_void) {
    // SAFETY: see `on_role`.
    let ctx = unsafe { Ctx::lent(ctx) };
    guarded(&ctx, || E::tick(&ctx));
}

extern "C" fn on_key<E: Events>(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the event's name ends with NUL; name, key and context live while the callback runs.
    let (ctx, event, key) = unsafe { (Ctx::lent(ctx), CStr::from_ptr(event).to_bytes(), bytes_of(key)) };
    let what = match event {
        b"restore" | b"rename_to" | b"copy_to" | b"move_to" => KeyEvent::Came,
        b"del" | b"expired" | b"evicted" | b"rename_from" | b"move_from" => KeyEvent::Gone,
        _ => return raw::REDISMODULE_OK as c_int,
    };
    guarded(&ctx, || E::key(&ctx, what, ctx.db(), key));
    select_again(&ctx, event);
    raw::REDISMODULE_OK as c_int
}

/// After a MOVE, selects the database that it was called in.
///
/// Valkey 8.1 tells of a key through the client that runs the command, selects the database that the key is in, and
/// leaves the client there (valkey-io/valkey#4024). What the client writes next would go to the wrong database, and so
/// would the MOVE itself in the AOF and on replicas. Of a MOVE it tells in both databases, of a COPY only in the one
/// that the copy is in.
fn select_again(ctx: &Ctx, event: &[u8]) {
    const NONE: i32 = -1;
    static LEFT: AtomicI32 = AtomicI32::new(NONE);
    match event {
        b"move_from" => LEFT.store(ctx.db(), Ordering::Relaxed),
        b"move_to" => {
            let db = LEFT.swap(NONE, Ordering::Relaxed);
            if db != NONE {
                ctx.select_db(db);
            }
        }
        _ => {}
    }
}

/// Follows the events of the server, and those of keys that come or go other than by a write to them.
pub fn subscribe<E: Events>(ctx: &Ctx) -> Result<(), String> {
    let mut events: Vec<(u64, raw::RedisModuleEventCallback)> = vec![
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, Some(on_role::<E>)),
        (raw::REDISMODULE_EVENT_LOADING, Some(on_loading::<E>)),
        (raw::REDISMODULE_EVENT_FLUSHDB, Some(on_flush::<E>)),
        (raw::REDISMODULE_EVENT_SWAPDB, Some(on_swap::<E>)),
        (raw::REDISMODULE_EVENT_CONFIG, Some(on_config::<E>)),
        (raw::REDISMODULE_EVENT_CRON_LOOP, Some(on_tick::<E>)),
    ];
    if slots_move_in_one_piece() {
        events.push((SLOT_MIGRATION, Some(on_slots::<E>)));
    }
    for (id, callback) in events {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: the context is live; the callback has the form that this event asks for.
        if unsafe { api!(RedisModule_SubscribeToServerEvent(ctx.raw(), event, callback)) }
            != raw::REDISMODULE_OK as c_int
        {
            return Err(format!("the server has no event of number {id}"));
        }
    }
    let classes = raw::REDISMODULE_NOTIFY_GENERIC | raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;
    // SAFETY: as above.
    let done = unsafe { api!(RedisModule_SubscribeToKeyspaceEvents(ctx.raw(), classes, Some(on_key::<E>))) };
    if done == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err("the server refused to tell of keys that come and go".into())
    }
}

//! What a handler may ask of the server, and how it replies to its client.

use super::api;
use super::text::Text;
use redis_module::raw;
use std::ffi::{c_long, CStr, CString};
use std::ops::Range;
use std::ptr::NonNull;

/// The server as one command, timer or event sees it. Only lent, never kept.
pub struct Ctx(NonNull<raw::RedisModuleCtx>);

/// How loud a line of the log is.
#[derive(Clone, Copy)]
pub enum Level {
    Notice,
    Warning,
}

impl Ctx {
    /// # Safety
    /// `ptr` is the context that the server gave to the callback that runs, and `Ctx` does not outlive it.
    pub(super) unsafe fn lent(ptr: *mut raw::RedisModuleCtx) -> Ctx {
        Ctx(NonNull::new(ptr).expect("the server gave no context"))
    }

    pub(super) fn raw(&self) -> *mut raw::RedisModuleCtx {
        self.0.as_ptr()
    }

    fn flags(&self) -> u32 {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetContextFlags(self.raw())) as u32 }
    }

    pub fn is_primary(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_MASTER != 0
    }

    pub fn is_loading(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_LOADING != 0
    }

    pub fn is_cluster(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0
    }

    /// Whether the server only wants to know the keys of the command.
    pub(super) fn asks_for_keys(&self) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.raw())) != 0 }
    }

    /// Tells the places of the keys, each of which the command may change.
    pub(super) fn tell_keys(&self, places: Range<i32>) {
        let flags = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE;
        for place in places {
            // SAFETY: the context is one that asks for keys.
            unsafe { api!(RedisModule_KeyAtPosWithFlags(self.raw(), place, flags as i32)) };
        }
    }

    /// Whether the client cannot wait: in MULTI, in a script, or called by another module.
    pub fn denies_blocking(&self) -> bool {
        let no_waiting = raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING
            | raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_LUA;
        self.flags() & no_waiting != 0
    }

    /// Whether the server uses more memory than `maxmemory` allows now. The server counts its memory to say so.
    pub fn is_out_of_memory(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_OOM != 0
    }

    /// Whether the command runs within MULTI or a script, so that others may have run just before it.
    pub fn is_in_transaction(&self) -> bool {
        self.flags() & (raw::REDISMODULE_CTX_FLAGS_MULTI | raw::REDISMODULE_CTX_FLAGS_LUA) != 0
    }

    /// The number of the database that the client has selected.
    pub fn db(&self) -> i32 {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetSelectedDb(self.raw())) }
    }

    /// Selects a database; `false` where there is none of that number.
    pub fn select_db(&self, db: i32) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_SelectDb(self.raw(), db)) == raw::REDISMODULE_OK as i32 }
    }

    /// Writes a line to the server's log, byte for byte but for NULs, whatever `%` it holds.
    pub fn log(&self, level: Level, line: &str) {
        let level = match level {
            Level::Notice => c"notice",
            Level::Warning => c"warning",
        };
        let line = CString::new(line.replace('\0', "")).unwrap_or_default();
        // SAFETY: all strings end with NUL, and `%s` takes exactly the one that follows it.
        unsafe { api!(RedisModule_Log(self.raw(), level.as_ptr(), c"%s".as_ptr(), line.as_ptr())) }
    }

    /// Whether the server holds back everything that a replica or the AOF would have to be told (CLIENT PAUSE,
    /// FAILOVER, SHUTDOWN): a background write would end the server now.
    pub fn writes_are_paused(&self) -> bool {
        // SAFETY: takes nothing.
        unsafe { api!(RedisModule_AvoidReplicaTraffic()) != 0 }
    }

    /// Tells the server what the module takes upon itself. It says which keys it has changed: a key that is opened for
    /// writing and then left as it was disturbs nobody who watches it. And it asks who owns a slot before each step, so
    /// that slots may move in one piece, which a server that does so refuses beside a module that did not say this.
    pub(super) fn set_options(&self) {
        let migration = if slots_move_in_one_piece() { HANDLE_ATOMIC_SLOT_MIGRATION } else { 0 };
        let options = raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED as i32 | migration;
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_SetModuleOptions(self.raw(), options)) }
    }

    /// Tells those who watch the key, or have it in a cache, that it has changed.
    pub(super) fn signal_modified(&self, key: &Text) {
        // SAFETY: context and key are live.
        unsafe { api!(RedisModule_SignalModifiedKey(self.raw(), key.raw())) };
    }

    /// Tells subscribers of `__keyevent@<db>__:<event>` about `key`, in the class of events that modules have.
    pub fn notify(&self, event: &std::ffi::CStr, key: &Text) {
        keyspace_event(self, event, key);
    }
}

/// The option by which a module of Valkey 9 says that it can do with slots that move in one piece.
const HANDLE_ATOMIC_SLOT_MIGRATION: i32 = 1 << 5;

/// Whether the server is one that moves whole slots of a cluster from node to node in one step, as Valkey 9 does.
pub(super) fn slots_move_in_one_piece() -> bool {
    // SAFETY: takes nothing. The function is not there before Redis 7.2.
    unsafe { raw::RedisModule_GetModuleOptionsAll.is_some_and(|all| all() & HANDLE_ATOMIC_SLOT_MIGRATION != 0) }
}

/// Whether the server keeps an append-only file.
pub fn keeps_aof() -> bool {
    // SAFETY: without a context the server tells what holds for itself, and not for a client.
    unsafe { api!(RedisModule_GetContextFlags(std::ptr::null_mut())) as u32 & raw::REDISMODULE_CTX_FLAGS_AOF != 0 }
}

/// 8 random bytes from the server.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the server writes exactly as many bytes as it is told.
    unsafe { api!(RedisModule_GetRandomBytes(bytes.as_mut_ptr(), bytes.len())) };
    u64::from_ne_bytes(bytes)
}

/// What may be said to the client that called. An array or map is begun with its length and then filled.
pub trait Reply {
    fn reply_array(&self, len: usize);
    /// A map in RESP3, a flat array in RESP2.
    fn reply_map(&self, len: usize);
    fn reply_bytes(&self, bytes: &[u8]);
    fn reply_integer(&self, value: i64);
    fn reply_null(&self);
    fn reply_ok(&self);
    /// An error: its text begins with the code.
    fn reply_error(&self, text: &str);
}

fn length(len: usize) -> c_long {
    c_long::try_from(len).unwrap_or(c_long::MAX)
}

impl Reply for Ctx {
    fn reply_array(&self, len: usize) {
        // SAFETY: the context is live, here and below.
        unsafe { api!(RedisModule_ReplyWithArray(self.raw(), length(len))) };
    }

    fn reply_map(&self, len: usize) {
        // SAFETY: see `reply_array`.
        unsafe { api!(RedisModule_ReplyWithMap(self.raw(), length(len))) };
    }

    fn reply_bytes(&self, bytes: &[u8]) {
        // SAFETY: see `reply_array`; the server copies the bytes.
        unsafe { api!(RedisModule_ReplyWithStringBuffer(self.raw(), bytes.as_ptr().cast(), bytes.len())) };
    }

    fn reply_integer(&self, value: i64) {
        // SAFETY: see `reply_array`.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.raw(), value)) };
    }

    fn reply_null(&self) {
        // SAFETY: see `reply_array`.
        unsafe { api!(RedisModule_ReplyWithNull(self.raw())) };
    }

    fn reply_ok(&self) {
        // SAFETY: see `reply_array`; the text ends with NUL.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.raw(), c"OK".as_ptr())) };
    }

    fn reply_error(&self, text: &str) {
        let text = CString::new(text.replace('\0', "\\x00")).unwrap_or_default();
        // SAFETY: see `reply_array`; the text ends with NUL and is not taken as a format.
        unsafe { api!(RedisModule_ReplyWithError(self.raw(), text.as_ptr())) };
    }
}

pub(super) fn keyspace_event(ctx: &Ctx, event: &CStr, key: &Text) {
    // SAFETY: context, event name and key are live for the call.
    unsafe {
        api!(RedisModule_NotifyKeyspaceEvent(ctx.raw(), raw::REDISMODULE_NOTIFY_MODULE, event.as_ptr(), key.raw()));
    }
}

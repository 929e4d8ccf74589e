//! Walks over the keyspace and over one key, a bounded piece at a time.

use super::text::bytes_of;
use super::{api, Ctx};
use redis_module::raw;
use std::ffi::c_void;

/// A cursor of the server, freed when it goes out of use.
struct Cursor(*mut raw::RedisModuleScanCursor);

impl Cursor {
    fn new() -> Cursor {
        // SAFETY: takes nothing.
        Cursor(unsafe { api!(RedisModule_ScanCursorCreate()) })
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // SAFETY: freed once, here.
        unsafe { api!(RedisModule_ScanCursorDestroy(self.0)) }
    }
}

/// A walk over the names of all keys of the selected database.
pub struct KeyspaceScan(Cursor);

impl Default for KeyspaceScan {
    fn default() -> Self {
        KeyspaceScan(Cursor::new())
    }
}

impl KeyspaceScan {
    /// Visits the next few keys; `false` when the walk is over. `visit` must not call the server.
    pub fn step(&mut self, ctx: &Ctx, visit: &mut dyn FnMut(&[u8])) -> bool {
        extern "C" fn on_key(
            _: *mut raw::RedisModuleCtx,
            name: *mut raw::RedisModuleString,
            _: *mut raw::RedisModuleKey,
            data: *mut c_void,
        ) {
            // SAFETY: `data` is the visitor lent to the running `step`; the name lives while the callback runs.
            let (visit, name) = unsafe { (&mut *data.cast::<&mut dyn FnMut(&[u8])>(), bytes_of(name)) };
            visit(name);
        }
        let mut visit = visit;
        // SAFETY: context and cursor are live, and `visit` outlives the call.
        unsafe { api!(RedisModule_Scan(ctx.raw(), self.0 .0, Some(on_key), (&raw mut visit).cast())) != 0 }
    }
}

/// A walk over the entries of a HASH or ZSET, which may change between two steps: an entry that stays is visited at
/// least once.
pub struct EntryScan(Cursor);

impl Default for EntryScan {
    fn default() -> Self {
        EntryScan(Cursor::new())
    }
}

/// A key that `EntryScan` can walk over.
pub trait Scannable {
    /// The open key, of its right type; null where it is absent.
    #[doc(hidden)]
    fn open_key(&mut self) -> *mut raw::RedisModuleKey;
}

impl EntryScan {
    /// Visits the next few entries, each a field and its value or an id and its score as text; `false` when the walk is
    /// over. `visit` must not call the server.
    pub fn step(&mut self, key: &mut impl Scannable, visit: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        extern "C" fn on_entry(
            _: *mut raw::RedisModuleKey,
            field: *mut raw::RedisModuleString,
            value: *mut raw::RedisModuleString,
            data: *mut c_void,
        ) {
            // SAFETY: `data` is the visitor lent to the running `step`; field and value live while the callback runs.
            let (visit, field, value) =
                unsafe { (&mut *data.cast::<&mut dyn FnMut(&[u8], &[u8])>(), bytes_of(field), bytes_of(value)) };
            visit(field, value);
        }
        let key = key.open_key();
        if key.is_null() {
            return false;
        }
        let mut visit = visit;
        // SAFETY: the key is an open HASH or ZSET (checked), the cursor is live, and `visit` outlives the call.
        unsafe { api!(RedisModule_ScanKey(key, self.0 .0, Some(on_entry), (&raw mut visit).cast())) != 0 }
    }
}

//! Replies, in the client's own protocol version.

use super::{api, Ctx};
use std::ffi::{c_long, CString};

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

//! Strings of the server.

use super::{api, MainThread};
use lazy_static::lazy_static;
use redis_module::raw;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ptr::{null_mut, NonNull};

lazy_static! {
    static ref LAST_TIME: MainThread<RefCell<Option<(i64, Text)>>> = MainThread::new(RefCell::new(None));
}

/// Gives back what is kept from one call to the next.
pub(super) fn forget_texts() {
    LAST_TIME.take();
}

/// Up to so many bytes are joined on the stack.
const SHORT: usize = 512;

/// A string that the server made and counts; bytes of any value. Cloning it copies a reference, not the bytes.
#[repr(transparent)]
pub struct Text(NonNull<raw::RedisModuleString>);

impl Text {
    pub fn new(bytes: &[u8]) -> Text {
        // SAFETY: pointer and length are those of a live slice; the server copies the bytes and never returns null.
        unsafe { Text::owned(api!(RedisModule_CreateString(null_mut(), bytes.as_ptr().cast(), bytes.len()))) }
    }

    /// The parts, one behind the other. Short ones are joined on the stack; of a long one no copy is made but that into
    /// the string.
    pub fn of_parts(parts: [&[u8]; 3]) -> Text {
        if parts.iter().map(|part| part.len()).sum::<usize>() <= SHORT {
            let mut joined = SmallVec::<[u8; SHORT]>::new();
            parts.iter().for_each(|part| joined.extend_from_slice(part));
            return Text::new(&joined);
        }
        let text = Text::new(parts[0]);
        for part in &parts[1..] {
            // SAFETY: the string has this one reference; the server copies the bytes behind those that it has.
            unsafe { api!(RedisModule_StringAppendBuffer(null_mut(), text.raw(), part.as_ptr().cast(), part.len())) };
        }
        text
    }

    /// The number in decimal.
    pub fn of_integer(value: i64) -> Text {
        // SAFETY: no context is needed; the server never returns null.
        unsafe { Text::owned(api!(RedisModule_CreateStringFromLongLong(null_mut(), value))) }
    }

    /// As `of_integer`, for numbers of which many in a row are the same, as the times of jobs are.
    pub fn of_time(ms: i64) -> Text {
        let mut last = LAST_TIME.borrow_mut();
        match &*last {
            Some((same, text)) if *same == ms => text.clone(),
            _ => last.insert((ms, Text::of_integer(ms))).1.clone(),
        }
    }

    /// Takes over one reference.
    ///
    /// # Safety
    /// `ptr` is a live string of the server, and the caller gives one reference of it away.
    pub(super) unsafe fn owned(ptr: *mut raw::RedisModuleString) -> Text {
        Text(NonNull::new(ptr).expect("the server returned no string"))
    }

    /// Adds a reference to a string that somebody else owns.
    ///
    /// # Safety
    /// `ptr` is a live string of the server.
    pub(super) unsafe fn shared(ptr: *mut raw::RedisModuleString) -> Text {
        // SAFETY: the caller's promise.
        unsafe {
            api!(RedisModule_RetainString(null_mut(), ptr));
            Text::owned(ptr)
        }
    }

    pub(super) fn raw(&self) -> *mut raw::RedisModuleString {
        self.0.as_ptr()
    }

    /// Hands the string over to the server, with its reference.
    pub(super) fn into_raw(self) -> *mut raw::RedisModuleString {
        std::mem::ManuallyDrop::new(self).raw()
    }

    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the string lives as long as `self`.
        unsafe { bytes_of(self.raw()) }
    }
}

/// The bytes of a string of the server.
///
/// # Safety
/// `ptr` is a live string that outlives `'a` and is not changed meanwhile.
pub(super) unsafe fn bytes_of<'a>(ptr: *const raw::RedisModuleString) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: the caller's promise; the server returns a pointer to `len` bytes.
    unsafe {
        let start = api!(RedisModule_StringPtrLen(ptr, &mut len));
        std::slice::from_raw_parts(start.cast(), len)
    }
}

impl Clone for Text {
    fn clone(&self) -> Text {
        // SAFETY: `self` holds a reference, so the string is live.
        unsafe { Text::shared(self.raw()) }
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: gives back the one reference that `self` holds.
        unsafe { api!(RedisModule_FreeString(null_mut(), self.raw())) }
    }
}

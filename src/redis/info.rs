//! The module's section in INFO.

use super::{api, Ctx};
use redis_module::raw;
use std::ffi::{c_int, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The section while it is written.
pub struct InfoSection(*mut raw::RedisModuleInfoCtx);

impl InfoSection {
    /// Adds `dq_<name>:<value>`.
    pub fn integer(&self, name: &str, value: i64) {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the section is live while the callback runs; the name ends with NUL.
        unsafe { api!(RedisModule_InfoAddFieldLongLong(self.0, name.as_ptr(), value)) };
    }

    pub fn count(&self, name: &str, count: u64) {
        self.integer(name, i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn text(&self, name: &str, value: &str) {
        let (name, value) = (CString::new(name).unwrap_or_default(), CString::new(value).unwrap_or_default());
        // SAFETY: as in `integer`.
        unsafe { api!(RedisModule_InfoAddFieldCString(self.0, name.as_ptr(), value.as_ptr())) };
    }
}

/// What the module says of itself.
pub trait Info {
    fn write(section: &InfoSection);
}

extern "C" fn write<I: Info>(info: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    if for_crash_report != 0 {
        return;
    }
    // SAFETY: the info context is live while the callback runs; an empty name makes the section of the module.
    if unsafe { api!(RedisModule_InfoAddSection(info, c"".as_ptr())) } == raw::REDISMODULE_OK as c_int {
        let _ = catch_unwind(AssertUnwindSafe(|| I::write(&InfoSection(info))));
    }
}

/// Has INFO show the section.
pub fn report_info<I: Info>(ctx: &Ctx) -> Result<(), String> {
    // SAFETY: the context is live; the callback has the form that the server asks for.
    if unsafe { api!(RedisModule_RegisterInfoFunc(ctx.raw(), Some(write::<I>))) } == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err("the server refused a section in INFO".into())
    }
}

//! Where a panic is told: in the server's log, wherever that is.

use super::api;
use std::ffi::CString;
use std::panic::PanicHookInfo;
use std::ptr::null_mut;

/// Has every panic of the module written to the server's log.
pub fn log_panics() {
    std::panic::set_hook(Box::new(log));
}

/// Takes that back, before the module goes.
pub fn forget_panics() {
    drop(std::panic::take_hook());
}

fn log(info: &PanicHookInfo) {
    let line = format!("dq: {info}").replace(['\0', '\n'], " ");
    let line = CString::new(line).unwrap_or_default();
    // SAFETY: the server logs without a context; all strings end with NUL, and `%s` takes exactly the one after it.
    unsafe { api!(RedisModule_Log(null_mut(), c"warning".as_ptr(), c"%s".as_ptr(), line.as_ptr())) }
}

//! Where the server enters the module: loading and unloading it. A panic anywhere in the module is logged by the server.

use super::text::{bytes_of, forget_texts};
use super::{api, Ctx, Level};
use redis_module::raw;
use std::ffi::{c_int, CStr, CString};
use std::panic::{catch_unwind, PanicHookInfo};
use std::ptr::null_mut;

/// Starts the module with the arguments of MODULE LOAD, or says why it cannot.
pub type Load = fn(&Ctx, &[&[u8]]) -> Result<(), String>;
/// Leaves nothing behind, or says why the module must stay.
pub type Unload = fn(&Ctx) -> Result<(), String>;

/// Defines the two functions that the server looks for in the library, and the allocator that the module uses.
#[macro_export]
macro_rules! server_module {
    (name: $name:literal, version: $version:expr, load: $load:path, unload: $unload:path $(,)?) => {
        #[global_allocator]
        static ALLOCATOR: $crate::redis::ServerAlloc = $crate::redis::ServerAlloc;

        /// # Safety
        /// For the server alone, which calls it once when it has mapped the library.
        #[no_mangle]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn RedisModule_OnLoad(
            ctx: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::ffi::c_int,
        ) -> std::ffi::c_int {
            let (identity, load) = (($name, $version), $load);
            // SAFETY: the server calls with its own context and arguments.
            unsafe { $crate::redis::on_load(ctx, argv, argc, identity, load) }
        }

        /// # Safety
        /// For the server alone, which calls it before it unmaps the library.
        #[no_mangle]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn RedisModule_OnUnload(ctx: *mut redis_module::raw::RedisModuleCtx) -> std::ffi::c_int {
            let unload = $unload;
            // SAFETY: the server calls with its own context.
            unsafe { $crate::redis::on_unload(ctx, unload) }
        }
    };
}

/// # Safety
/// Only for `RedisModule_OnLoad`, with what the server called it with.
pub unsafe fn on_load(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    (name, version): (&'static CStr, c_int),
    load: Load,
) -> c_int {
    // SAFETY: the server's own context. Nothing is allocated before this call has filled the table of functions.
    let known =
        unsafe { raw::Export_RedisModule_Init(ctx, name.as_ptr(), version, raw::REDISMODULE_APIVER_1 as c_int) };
    if known != raw::REDISMODULE_OK as c_int {
        return raw::REDISMODULE_ERR as c_int;
    }
    log_panics();
    // SAFETY: the context and the `argc` arguments live while this runs; where there are none, `argv` may be null.
    let (ctx, args) = unsafe {
        let texts: &[_] = if argc == 0 { &[] } else { std::slice::from_raw_parts(argv, argc as usize) };
        (Ctx::lent(ctx), texts.iter().map(|text| bytes_of(*text)).collect::<Vec<_>>())
    };
    ctx.set_options();
    let status = said(&ctx, "not loaded", || load(&ctx, &args));
    if status != raw::REDISMODULE_OK as c_int {
        forget_panics();
    }
    status
}

/// # Safety
/// Only for `RedisModule_OnUnload`, with what the server called it with.
pub unsafe fn on_unload(ctx: *mut raw::RedisModuleCtx, unload: Unload) -> c_int {
    // SAFETY: the server's own context, live while this runs.
    let ctx = unsafe { Ctx::lent(ctx) };
    let status = said(&ctx, "not unloaded", || unload(&ctx));
    if status == raw::REDISMODULE_OK as c_int {
        forget_texts();
        forget_panics();
    }
    status
}

/// Runs `act` and tells the log what went wrong.
fn said(ctx: &Ctx, what: &str, act: impl FnOnce() -> Result<(), String>) -> c_int {
    let outcome = catch_unwind(std::panic::AssertUnwindSafe(act));
    match outcome.unwrap_or_else(|_| Err("it panicked; the line above says where".into())) {
        Ok(()) => raw::REDISMODULE_OK as c_int,
        Err(error) => {
            ctx.log(Level::Warning, &format!("dq: {what}: {error}"));
            raw::REDISMODULE_ERR as c_int
        }
    }
}

/// Has every panic of the module written to the server's log.
fn log_panics() {
    std::panic::set_hook(Box::new(log));
}

/// Takes that back, before the module goes.
fn forget_panics() {
    drop(std::panic::take_hook());
}

fn log(info: &PanicHookInfo) {
    let line = format!("dq: {info}").replace(['\0', '\n'], " ");
    let line = CString::new(line).unwrap_or_default();
    // SAFETY: the server logs without a context; all strings end with NUL, and `%s` takes exactly the one after it.
    unsafe { api!(RedisModule_Log(null_mut(), c"warning".as_ptr(), c"%s".as_ptr(), line.as_ptr())) }
}

//! Settings in CONFIG GET, CONFIG SET, redis.conf and CONFIG REWRITE.

use super::text::{bytes_of, Text};
use super::{api, Ctx, MainThread};
use redis_module::raw;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};

/// A setting as the server sees it: a text that is read and written under a name.
pub trait SettingText: Sync + 'static {
    /// The name without the module's.
    fn name(&self) -> &'static CStr;
    fn default_text(&self) -> String;
    fn text(&self) -> String;
    /// Takes a new value, or says what is wrong with it.
    fn set_text(&self, value: &[u8]) -> Result<(), String>;
    /// Called when the value of a CONFIG SET stands.
    fn applied(&self, ctx: &Ctx);
    /// Keeps the text that the server was shown last: the server borrows it.
    fn shown(&self) -> &MainThread<RefCell<Option<Text>>>;
}

extern "C" fn get<S: SettingText>(_: *const c_char, data: *mut c_void) -> *mut raw::RedisModuleString {
    // SAFETY: `data` is the `&'static S` that `register_setting` gave.
    let setting = unsafe { &*data.cast::<S>() };
    let text = Text::new(setting.text().as_bytes());
    let ptr = text.raw();
    *setting.shown().borrow_mut() = Some(text);
    ptr
}

extern "C" fn set<S: SettingText>(
    _: *const c_char,
    value: *mut raw::RedisModuleString,
    data: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: `data` as in `get`; the value lives while the callback runs.
    let (setting, value) = unsafe { (&*data.cast::<S>(), bytes_of(value)) };
    match setting.set_text(value) {
        Ok(()) => raw::REDISMODULE_OK as c_int,
        Err(text) => {
            let text = Text::new(text.replace('\0', "").as_bytes());
            // SAFETY: the server takes the reference that is given away here.
            unsafe { *error = text.raw() };
            std::mem::forget(text);
            raw::REDISMODULE_ERR as c_int
        }
    }
}

extern "C" fn apply<S: SettingText>(
    ctx: *mut raw::RedisModuleCtx,
    data: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: `data` as in `get`; the context is live while the callback runs.
    let (ctx, setting) = unsafe { (Ctx::lent(ctx), &*data.cast::<S>()) };
    setting.applied(&ctx);
    raw::REDISMODULE_OK as c_int
}

/// Registers a setting; its value comes with `load_configs`.
pub fn register_setting<S: SettingText>(ctx: &Ctx, setting: &'static S) -> Result<(), String> {
    let default = CString::new(setting.default_text()).unwrap_or_default();
    // SAFETY: all strings end with NUL and are copied; the private data lives as long as the module.
    let done = unsafe {
        api!(RedisModule_RegisterStringConfig(
            ctx.raw(),
            setting.name().as_ptr(),
            default.as_ptr(),
            raw::REDISMODULE_CONFIG_DEFAULT,
            Some(get::<S>),
            Some(set::<S>),
            Some(apply::<S>),
            std::ptr::from_ref(setting).cast_mut().cast()
        ))
    };
    if done == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err(format!("the server refused the setting dq.{}", setting.name().to_string_lossy()))
    }
}

/// Gives every setting its value from redis.conf or MODULE LOADEX, else its default.
pub fn load_configs(ctx: &Ctx) -> Result<(), String> {
    // SAFETY: the context is the one of the module's loading.
    if unsafe { api!(RedisModule_LoadConfigs(ctx.raw())) } == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err("a dq.* setting in redis.conf or MODULE LOADEX was refused; the line above names it".into())
    }
}

//! The only door to the server, and the only place with `unsafe` code.
//!
//! The rest of the module sees typed keys, strings with an owner, effects that cannot be forgotten, replies, timers
//! and events; it never sees a raw pointer.

#![allow(unsafe_code)]

mod alloc;
mod call;
mod command;
mod config;
mod ctx;
mod entry;
mod events;
mod info;
mod key;
mod main_thread;
mod native;
mod rights;
mod scan;
mod server;
mod text;
mod timer;
mod waiting;

pub use alloc::ServerAlloc;
pub use call::{marks_removed, Refusal};
pub use command::{handler, register, Access, Arg, ArgKind, Args, Command, KeyPlace};
pub use config::{load_configs, register_setting, SettingText};
pub use ctx::{keeps_aof, random, Ctx, Level, Reply};
pub use entry::{on_load, on_unload};
pub use events::{subscribe, Events, KeyEvent};
pub use info::{report_info, Info, InfoSection};
pub use key::{HashKey, Purpose, ZsetKey};
pub use main_thread::MainThread;
pub use native::{missing_command, refused_in_aof, NativeCommand};
pub use rights::User;
pub use scan::{EntryScan, KeyspaceScan, Position};
pub use server::NeededReplicas;
pub use text::Text;
pub use timer::{arm_now, boot_us, timer_figures, wall_us, TimerHandle, Waker};
pub use waiting::{Wait, WaitKey, Waiting};

/// Calls a function of the server's module API.
///
/// The server fills the table of functions before it calls `RedisModule_OnLoad`, and every function named through
/// this macro is there since Redis 7.0, so the `expect` cannot fire in a server that loads the module.
macro_rules! api {
    ($function:ident ( $($arg:expr),* $(,)? )) => {
        (redis_module::raw::$function.expect(stringify!($function)))($($arg),*)
    };
}
pub(crate) use api;

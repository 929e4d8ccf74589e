//! The one door to the server. Every `unsafe` line of the module is behind it.
//!
//! The rest of the module sees typed keys, strings with an owner, effects that cannot be forgotten, replies, timers
//! and events; it never sees a raw pointer.

mod alloc;
mod call;
mod clients;
mod clock;
mod command;
mod config;
mod cross_slot;
mod ctx;

mod effects;
mod entry;
mod events;
mod info;
mod key;
mod main_thread;
mod native;
mod notify;
mod panics;
mod rank;
mod replicas;
mod reply;
mod rights;
mod scan;
mod text;
mod timer;
mod waiting;
mod waker;

pub use alloc::ServerAlloc;
pub use call::Refusal;
pub use clock::{boot_us, wall_us};
pub use command::{call_handler, register, Access, Arg, ArgKind, Args, Command, KeyPlace};
pub use config::{load_configs, register_setting, SettingText};
pub use cross_slot::marks_removed;
pub use ctx::{keeps_aof, random, Ctx, Level};

pub use entry::{on_load, on_unload};
pub use events::{subscribe, Events, KeyEvent};
pub use info::{report_info, Info, InfoSection};
pub use key::{HashKey, Purpose, ZsetKey};
pub use main_thread::MainThread;
pub use native::{missing_command, refused_in_aof, NativeCommand};
use panics::{forget_panics, log_panics};
pub use rank::Position;
pub use replicas::NeededReplicas;
pub use reply::Reply;
pub use rights::User;
pub use scan::{EntryScan, KeyspaceScan};
pub use text::Text;
pub use timer::{timer_figures, TimerHandle};
pub use waiting::{Wait, WaitKey, Waiting};
pub use waker::{arm_now, Waker};

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

//! A fault of Valkey 9 in cluster mode that makes the server refuse calls of modules, and the way around it.
//!
//! The server runs each call of a module, and each command of a script, as one of a few internal clients. A command
//! that names keys of two slots leaves its mark (`READ_FLAGS_CROSSSLOT`) on the internal client that ran it, and nothing
//! takes the mark away: every later call by that client is refused as one for a key of another node, also a call that
//! names no key at all. The server lends the client that came back last, so it is the same one again and again (seen on
//! Valkey 9.1.2).
//!
//! That last case tells the fault from a slot that is not here. And the server forgets what it noted of a command when a
//! command filter replaces the command's name. So a filter that is there for this one call takes the mark away.

use super::call::CallReply;
use super::native::NativeCommand;
use super::{api, boot_us, Ctx, MainThread, Text};
use lazy_static::lazy_static;
use redis_module::raw;
use std::cell::Cell;

/// What the server answers to a call for a key that another node has, and to every call of a marked client.
const REFUSAL: &str = "Attempted to access a non local key in a cluster node";

lazy_static! {
    static ref MARKS: MainThread<Marks> = MainThread::new(Marks::default());
}

#[derive(Default)]
struct Marks {
    removed: Cell<u64>,
    last_us: Cell<u64>,
}

/// How often a call was refused for a mark, and when that was last, in µs of boot time.
#[derive(Clone, Copy)]
pub struct MarksRemoved {
    pub count: u64,
    pub last_us: u64,
}

pub fn marks_removed() -> MarksRemoved {
    MarksRemoved { count: MARKS.removed.get(), last_us: MARKS.last_us.get() }
}

impl Ctx {
    /// Runs a command of the server. If the server refuses it for a mark on the internal client, takes the mark away
    /// and runs it again.
    pub(super) fn ask(&self, call: impl Fn(*mut raw::RedisModuleCtx) -> *mut raw::RedisModuleCallReply) -> CallReply {
        let reply = CallReply::new(call(self.raw()));
        if !is_refused(&reply) || !is_refused(&self.echo()) {
            return reply;
        }
        MARKS.removed.set(MARKS.removed.get() + 1);
        MARKS.last_us.set(boot_us());
        self.remove_mark();
        CallReply::new(call(self.raw()))
    }

    /// A command without keys, which no slot can be the reason to refuse.
    fn echo(&self) -> CallReply {
        // SAFETY: two C strings.
        CallReply::new(unsafe {
            api!(RedisModule_Call(self.raw(), NativeCommand::Echo.as_ptr(), c"cE".as_ptr(), c"".as_ptr()))
        })
    }

    fn remove_mark(&self) {
        // SAFETY: the context is live and the module's own; the filter is taken away again before anything else runs.
        unsafe {
            let filter = api!(RedisModule_RegisterCommandFilter(self.raw(), Some(replace_name), 0));
            drop(self.echo());
            api!(RedisModule_UnregisterCommandFilter(self.raw(), filter));
        }
    }
}

fn is_refused(reply: &CallReply) -> bool {
    reply.error().is_some_and(|text| text.contains(REFUSAL))
}

/// Replaces the name of the command by itself.
extern "C" fn replace_name(filter: *mut raw::RedisModuleCommandFilterCtx) {
    let name = Text::new(b"ECHO");
    // SAFETY: the filter is live while the callback runs; the server frees the string with the command.
    unsafe { api!(RedisModule_CommandFilterArgReplace(filter, 0, name.into_raw())) };
}

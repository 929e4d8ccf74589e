//! Native commands that the module runs, for what the key API cannot do.
//!
//! Valkey 9 in cluster mode has a fault that makes the server refuse such calls. It runs each call of a module, and each
//! command of a script, as one of a few internal clients. A command that names keys of two slots leaves its mark
//! (`READ_FLAGS_CROSSSLOT`) on the internal client that ran it, and nothing takes the mark away. Every later call by that
//! client is refused as one for a key of another node, also a call that names no key at all. The server lends the client
//! that came back last, so it is the same one again and again (seen on Valkey 9.1.2).
//!
//! A refused call without keys tells the fault from a slot that is not here. The server forgets the mark when a command
//! filter replaces the command's name, so a filter that exists for one call removes it.

use super::native::NativeCommand;
use super::text::Text;
use super::{api, boot_us, Ctx, MainThread};
use lazy_static::lazy_static;
use redis_module::raw;
use std::cell::Cell;
use std::ffi::c_longlong;

/// Why the server would not run a command: its own error text.
#[derive(Debug)]
pub struct Refusal(pub String);

/// What the server answers to every write while it takes none.
const REFUSES_ALL: [&str; 3] = ["READONLY", "NOREPLICAS", "MISCONF"];
/// What it says while the cluster is down, on each of its versions with other words around it.
const CLUSTER_IS_DOWN: &str = "the cluster is down";

impl Refusal {
    /// Whether no write at all is taken now, whatever its key: by this node, or by the whole cluster.
    pub fn is_of_all_writes(&self) -> bool {
        REFUSES_ALL.iter().any(|code| self.0.starts_with(code)) || self.is_of_the_cluster()
    }

    /// Whether the key holds another type; a write to the slot would be taken.
    pub fn is_of_the_type(&self) -> bool {
        self.0.starts_with("WRONGTYPE")
    }

    /// Whether this node does not serve the slot now: it has left, is on its way, or the cluster is down.
    pub fn is_of_the_slot(&self) -> bool {
        self.is_of_the_cluster() || !self.is_of_all_writes() && !self.is_of_the_type()
    }

    /// Whether the cluster is down for this node, which may have been cut off from the others.
    pub fn is_of_the_cluster(&self) -> bool {
        self.0.contains(CLUSTER_IS_DOWN)
    }
}

/// A reply of the server that is freed when it goes out of use.
pub(super) struct CallReply(*mut raw::RedisModuleCallReply);

impl CallReply {
    /// Takes over a reply that nobody else frees, or null.
    pub(super) fn new(reply: *mut raw::RedisModuleCallReply) -> CallReply {
        CallReply(reply)
    }

    fn kind(&self) -> Option<i32> {
        // SAFETY: the reply is live until `self` drops, and is not asked for if it is null.
        (!self.0.is_null()).then(|| unsafe { api!(RedisModule_CallReplyType(self.0)) })
    }

    /// The text of an error.
    pub(super) fn error(&self) -> Option<String> {
        (self.kind() == Some(raw::REDISMODULE_REPLY_ERROR as i32)).then(|| self.text())
    }

    fn integer(&self) -> Result<Option<i64>, Refusal> {
        match self.kind() {
            None => Err(Refusal("the server gave no reply".into())),
            Some(kind) if kind == raw::REDISMODULE_REPLY_INTEGER as i32 => {
                // SAFETY: the reply is a live integer.
                Ok(Some(unsafe { api!(RedisModule_CallReplyInteger(self.0)) }))
            }
            Some(_) => self.error().map_or(Ok(None), |text| Err(Refusal(text))),
        }
    }

    fn text(&self) -> String {
        if self.0.is_null() {
            return String::new();
        }
        // SAFETY: the reply is live until `self` drops.
        unsafe { text_of(self.0) }
    }

    /// The string at `index` of an array, byte for byte; `None` where there is none.
    fn member(&self, index: usize) -> Option<Text> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: as in `element`; of a string the server makes one that becomes ours, of anything else null.
        unsafe {
            let element = api!(RedisModule_CallReplyArrayElement(self.0, index));
            if element.is_null() || api!(RedisModule_CallReplyType(element)) != raw::REDISMODULE_REPLY_STRING as i32 {
                return None;
            }
            Some(Text::owned(api!(RedisModule_CreateStringFromCallReply(element))))
        }
    }

    /// The text at `index` of an array; `None` where there is none.
    fn element(&self, index: usize) -> Option<String> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the reply is live; the server answers null where it is no array or is shorter.
        unsafe {
            let element = api!(RedisModule_CallReplyArrayElement(self.0, index));
            (!element.is_null()).then(|| text_of(element))
        }
    }
}

/// The text of a string or error reply; empty for others.
///
/// # Safety
/// `reply` is live.
unsafe fn text_of(reply: *mut raw::RedisModuleCallReply) -> String {
    let mut len = 0;
    // SAFETY: the server gives the text's start and length, live as long as the reply, or null.
    unsafe {
        let start = api!(RedisModule_CallReplyStringPtr(reply, &mut len));
        if start.is_null() {
            return String::new();
        }
        String::from_utf8_lossy(std::slice::from_raw_parts(start.cast(), len)).into_owned()
    }
}

/// Whether a line of CLIENT LIST is that of a client which waits in a command of this module and is to be closed.
fn is_closing(line: &str) -> bool {
    let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name));
    let waits_here = field("cmd=").is_some_and(|command| command.starts_with("dq."));
    waits_here && field("flags=").is_some_and(|flags| flags.contains('A'))
}

impl Drop for CallReply {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: freed once, here.
            unsafe { api!(RedisModule_FreeCallReply(self.0)) }
        }
    }
}

impl Ctx {
    /// Asks whether the server would take a write to the slot of `zset` now: `Err` holds READONLY, NOREPLICAS, MISCONF,
    /// the cluster's refusal of a slot that is not served here, or WRONGTYPE.
    ///
    /// The command that asks cannot change anything, whatever the key holds: ZREMRANGEBYRANK of ranks 1 to 0 removes
    /// nothing from any ZSET. No command that depends on the absence of a member would do: somebody may have added it.
    pub fn would_write(&self, zset: &Text) -> Result<(), Refusal> {
        // SAFETY: the format names one string and two integers; S: refuse as for a script, E: errors come back as
        // replies.
        let reply = self.ask(|ctx| unsafe {
            api!(RedisModule_Call(
                ctx,
                NativeCommand::Zremrangebyrank.as_ptr(),
                c"sllSE".as_ptr(),
                zset.raw(),
                1 as c_longlong,
                0 as c_longlong
            ))
        });
        reply.integer().map(|_| ())
    }

    /// EXISTS of all `keys` in one command: an error where their slot is on its way.
    pub fn exists(&self, keys: &[&Text]) -> Result<i64, Refusal> {
        let names: Vec<_> = keys.iter().map(|key| key.raw()).collect();
        // SAFETY: `v` takes a vector of live strings and its length.
        let reply = self.ask(|ctx| unsafe {
            api!(RedisModule_Call(ctx, NativeCommand::Exists.as_ptr(), c"vE".as_ptr(), names.as_ptr(), names.len()))
        });
        reply.integer().map(|count| count.unwrap_or(0))
    }

    /// The value of a setting of the server's own.
    pub fn server_setting(&self, name: &str) -> Option<String> {
        // SAFETY: one C string, one buffer with its length.
        let reply = self.ask(|ctx| unsafe {
            api!(RedisModule_Call(
                ctx,
                NativeCommand::Config.as_ptr(),
                c"cbE".as_ptr(),
                c"GET".as_ptr(),
                name.as_ptr(),
                name.len()
            ))
        });
        reply.element(1)
    }

    /// Whether the server has marked a client to be closed that waits in a command of this module: what is written to it
    /// goes nowhere. The flag `A` of CLIENT LIST is the only word the server has for that. A client that another module
    /// calls with is not in the list, or has the id of one that runs another command: its promise takes what is written.
    pub fn is_closing(&self, client_id: u64) -> bool {
        let id = i64::try_from(client_id).unwrap_or(i64::MAX);
        // SAFETY: two C strings and an integer.
        let reply = self.ask(|ctx| unsafe {
            api!(RedisModule_Call(
                ctx,
                NativeCommand::Client.as_ptr(),
                c"cclE".as_ptr(),
                c"LIST".as_ptr(),
                c"ID".as_ptr(),
                id
            ))
        });
        is_closing(&reply.text())
    }

    /// The text of one section of INFO.
    pub(super) fn info_text(&self, section: &std::ffi::CStr) -> String {
        // SAFETY: two C strings.
        let info = |ctx| unsafe {
            api!(RedisModule_Call(ctx, NativeCommand::Info.as_ptr(), c"cE".as_ptr(), section.as_ptr()))
        };
        self.ask(info).text()
    }

    /// The text of CLIENT LIST.
    pub(super) fn client_list(&self) -> String {
        // SAFETY: one C string.
        let list = |ctx| unsafe {
            api!(RedisModule_Call(ctx, NativeCommand::Client.as_ptr(), c"cE".as_ptr(), c"LIST".as_ptr()))
        };
        self.ask(list).text()
    }

    /// CLIENT KILL of one client.
    pub(super) fn kill_client(&self, id: &str) {
        // SAFETY: two C strings, one buffer with its length.
        drop(self.ask(|ctx| unsafe {
            api!(RedisModule_Call(
                ctx,
                NativeCommand::Client.as_ptr(),
                c"ccbE".as_ptr(),
                c"KILL".as_ptr(),
                c"ID".as_ptr(),
                id.as_ptr(),
                id.len()
            ))
        }));
    }

    /// ZCOUNT of the members whose score is over `above`.
    pub fn zcount_above(&self, zset: &Text, above: u64) -> i64 {
        self.zcount(zset, &format!("({above}"), "+inf")
    }

    /// ZCOUNT from `min` to `max`, as the server spells them.
    pub(super) fn zcount(&self, zset: &Text, min: &str, max: &str) -> i64 {
        // SAFETY: one string, two buffers with their lengths.
        let reply = self.ask(|ctx| unsafe {
            api!(RedisModule_Call(
                ctx,
                NativeCommand::Zcount.as_ptr(),
                c"sbbE".as_ptr(),
                zset.raw(),
                min.as_ptr(),
                min.len(),
                max.as_ptr(),
                max.len()
            ))
        });
        reply.integer().ok().flatten().unwrap_or(0)
    }

    /// ZRANGE from one rank to another, both included: members and scores.
    pub(super) fn zrange(&self, zset: &Text, from: i64, to: i64) -> Vec<(Text, f64)> {
        // SAFETY: one string, two integers, one C string.
        let reply = self.ask(|ctx| unsafe {
            api!(RedisModule_Call(
                ctx,
                NativeCommand::Zrange.as_ptr(),
                c"sllcE".as_ptr(),
                zset.raw(),
                from,
                to,
                c"WITHSCORES".as_ptr()
            ))
        });
        let pair = |index| Some((reply.member(index)?, reply.element(index + 1)?.parse().ok()?));
        (0..).step_by(2).map_while(pair).collect()
    }

    /// MEMORY USAGE of a key, in bytes; 0 where there is none.
    pub(super) fn memory_usage(&self, key: &Text) -> u64 {
        // SAFETY: one C string and one string.
        let reply = self.ask(|ctx| unsafe {
            api!(RedisModule_Call(ctx, NativeCommand::Memory.as_ptr(), c"csE".as_ptr(), c"USAGE".as_ptr(), key.raw()))
        });
        reply.integer().ok().flatten().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
    }

    /// Hands one native command to the replicas and the AOF: `name key arg …`. The shortest ones are told argument by
    /// argument, since the server makes its list longer for a vector.
    pub(super) fn replicate(&self, command: NativeCommand, key: &Text, args: &[Text]) {
        let (ctx, name, key) = (self.raw(), command.as_ptr(), key.raw());
        // SAFETY: each `s` takes a live string, `v` a vector of them and its length; a `Text` is just the pointer.
        unsafe {
            match args {
                [] => api!(RedisModule_Replicate(ctx, name, c"s".as_ptr(), key)),
                [one] => api!(RedisModule_Replicate(ctx, name, c"ss".as_ptr(), key, one.raw())),
                [one, two] => api!(RedisModule_Replicate(ctx, name, c"sss".as_ptr(), key, one.raw(), two.raw())),
                _ => api!(RedisModule_Replicate(ctx, name, c"sv".as_ptr(), key, args.as_ptr(), args.len())),
            };
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_closing_only_if_it_is_the_one_that_waits() {
        assert!(is_closing("id=3 addr=127.0.0.1:1 name= flags=Ab multi=-1 cmd=dq.claim user=default\n"));
        assert!(!is_closing("id=3 addr=127.0.0.1:1 name= flags=b multi=-1 cmd=dq.claim user=default\n"));
        assert!(!is_closing("id=3 addr=127.0.0.1:1 name= flags=Ab multi=-1 cmd=other.call user=default\n"));
        assert!(!is_closing(""));
    }
}

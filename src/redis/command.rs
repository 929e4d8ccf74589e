//! Commands: how one is told to the server, documented and called.

use super::text::bytes_of;
use super::{api, Ctx, Reply, Text};
use redis_module::raw;
use smallvec::{smallvec, SmallVec};
use std::ffi::{c_int, CStr, CString};
use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut};

/// The arguments of one call, the command's name left out.
pub struct Args<'a> {
    texts: &'a [*mut raw::RedisModuleString],
    bytes: SmallVec<[&'a [u8]; 8]>,
}

impl<'a> Args<'a> {
    pub fn bytes(&self) -> &[&'a [u8]] {
        &self.bytes
    }

    /// The argument at `index` as the string that the server made of it, without a copy.
    pub fn text(&self, index: usize) -> Text {
        // SAFETY: the server keeps the arguments live while the handler runs, and `shared` adds a reference.
        unsafe { Text::shared(self.texts[index]) }
    }
}

/// Answers one call: replies and returns, or returns the text of the error that the client gets, nothing changed.
pub trait Handler: Fn(&Ctx, &Args) -> Result<(), String> + Copy + 'static {}

impl<F: Fn(&Ctx, &Args) -> Result<(), String> + Copy + 'static> Handler for F {}

/// Whether a command changes the queue, and how COMMAND and ACL know it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// A write that makes data, refused by the server at `maxmemory`.
    WriteMore,
}

/// Where a command's key stands.
#[derive(Clone, Copy)]
pub enum KeyPlace {
    /// The queue is the first argument.
    First,
    /// The first argument is the number of queues, which follow.
    Numbered,
    /// It names none.
    None,
}

/// The type of an argument in COMMAND DOCS.
#[derive(Clone, Copy)]
pub enum ArgKind {
    Key,
    Text,
    Integer,
    Pattern,
    UnixTime,
    /// A word that stands for itself.
    Token,
    OneOf(&'static [Arg]),
    Block(&'static [Arg]),
}

/// One argument in COMMAND DOCS.
#[derive(Clone, Copy)]
pub struct Arg {
    name: &'static CStr,
    kind: ArgKind,
    token: Option<&'static CStr>,
    flags: u32,
}

impl Arg {
    pub const fn new(name: &'static CStr, kind: ArgKind) -> Arg {
        Arg { name, kind, token: None, flags: raw::REDISMODULE_CMD_ARG_NONE }
    }

    /// The word that comes before the value.
    pub const fn token(self, token: &'static CStr) -> Arg {
        Arg { token: Some(token), ..self }
    }

    pub const fn optional(self) -> Arg {
        Arg { flags: self.flags | raw::REDISMODULE_CMD_ARG_OPTIONAL, ..self }
    }

    pub const fn multiple(self) -> Arg {
        Arg { flags: self.flags | raw::REDISMODULE_CMD_ARG_MULTIPLE, ..self }
    }
}

/// All that the server and its users are told of a command.
pub struct Command {
    pub name: &'static CStr,
    pub summary: &'static CStr,
    pub complexity: &'static CStr,
    pub arity: c_int,
    pub access: Access,
    /// O(1) or O(log N) for the work it does, whatever the size of the queue.
    pub fast: bool,
    /// Whether it can make its client wait.
    pub waits: bool,
    pub key: KeyPlace,
    pub args: &'static [Arg],
    pub run: RawHandler,
}

/// The form in which the server calls.
pub type RawHandler = unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int;

impl Command {
    /// The command with these keys and nothing more, as far as its rights go.
    pub fn call_with(&self, keys: &[Text]) -> SmallVec<[Text; 4]> {
        let mut call: SmallVec<[Text; 4]> = smallvec![Text::new(self.name.to_bytes())];
        if matches!(self.key, KeyPlace::Numbered) {
            call.push(Text::of_integer(keys.len() as i64));
        }
        call.extend(keys.iter().cloned());
        call
    }

    /// The words of all options, in the order of the documentation.
    pub fn options(&self) -> Vec<&'static str> {
        fn add(args: &[Arg], words: &mut Vec<&'static str>) {
            for arg in args {
                match (arg.token, arg.kind) {
                    (Some(token), _) => words.push(token.to_str().unwrap_or_default()),
                    (None, ArgKind::OneOf(args) | ArgKind::Block(args)) => add(args, words),
                    (None, _) => {}
                }
            }
        }
        let mut words = Vec::new();
        add(self.args, &mut words);
        words
    }

    fn flags(&self) -> CString {
        let access = match self.access {
            Access::Read => "readonly",
            Access::Write => "write",
            Access::WriteMore => "write deny-oom",
        };
        let fast = if self.fast { " fast" } else { "" };
        let blocking = if self.waits { " blocking" } else { "" };
        // In a cluster the servers find keys by the place of the first one, or by asking, and not by the key spec.
        let asked = if matches!(self.key, KeyPlace::Numbered) { " getkeys-api" } else { "" };
        CString::new(format!("{access}{fast}{blocking}{asked}")).unwrap_or_default()
    }

    fn categories(&self) -> CString {
        let access = if self.access == Access::Read { "read" } else { "write" };
        let speed = if self.fast { "fast" } else { "slow" };
        let blocking = if self.waits { " blocking" } else { "" };
        CString::new(format!("{access} {speed}{blocking}")).unwrap_or_default()
    }

    fn key_flags(&self) -> u32 {
        match self.access {
            Access::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
            Access::Write | Access::WriteMore => {
                raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE
            }
        }
    }

    fn key_spec(&self) -> Option<raw::RedisModuleCommandKeySpec> {
        use raw::{
            RedisModuleCommandKeySpec__bindgen_ty_1 as Begin,
            RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 as Index,
            RedisModuleCommandKeySpec__bindgen_ty_2 as Find,
            RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 as Range,
            RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_2 as Numbered,
        };
        let (find_keys_type, fk) = match self.key {
            KeyPlace::First => (
                raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
                Find { range: Range { lastkey: 0, keystep: 1, limit: 0 } },
            ),
            KeyPlace::None => return None,
            KeyPlace::Numbered => (
                raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM,
                Find { keynum: Numbered { keynumidx: 0, firstkey: 1, keystep: 1 } },
            ),
        };
        Some(raw::RedisModuleCommandKeySpec {
            notes: null(),
            flags: u64::from(self.key_flags()),
            begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
            bs: Begin { index: Index { pos: 1 } },
            find_keys_type,
            fk,
        })
    }

    /// First key, last key and step, as commands without a key spec tell them.
    fn key_range(&self) -> (c_int, c_int, c_int) {
        match self.key {
            KeyPlace::First => (1, 1, 1),
            KeyPlace::Numbered | KeyPlace::None => (0, 0, 0),
        }
    }
}

/// Makes the function that the server calls for one handler.
///
/// A panic of the handler becomes an error reply. What it wrote before is replicated all the same, by the keys.
pub const fn handler<F: Handler>(_: F) -> RawHandler {
    const { assert!(size_of::<F>() == 0, "a handler captures nothing") };
    call::<F>
}

/// # Safety
/// For the server alone, which calls it with its own context and `argc` arguments.
unsafe extern "C" fn call<F: Handler>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: `argv` holds `argc` strings, all live while the command runs, as the context is.
    let (ctx, texts) = unsafe { (Ctx::lent(ctx), std::slice::from_raw_parts(argv, argc as usize)) };
    // SAFETY: `F` has no bytes, as `handler` has asserted, and a value of it was given there.
    let handle: F = unsafe { std::mem::zeroed() };
    let texts = &texts[1..];
    // SAFETY: the strings are live while the command runs.
    let bytes: SmallVec<[&[u8]; 8]> = texts.iter().map(|text| unsafe { bytes_of(*text) }).collect();
    answer(&ctx, Args { texts, bytes }, handle)
}

fn answer(ctx: &Ctx, args: Args, handle: impl Handler) -> c_int {
    if ctx.asks_for_keys() {
        ctx.tell_keys(numbered_keys(&args.bytes));
        return raw::REDISMODULE_OK as c_int;
    }
    match catch_unwind(AssertUnwindSafe(|| handle(ctx, &args))) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => ctx.reply_error(&error),
        Err(_) => ctx.reply_error("ERR internal error in DQ; the server's log has the details"),
    }
    raw::REDISMODULE_OK as c_int
}

/// The keys of a command whose first argument is their number: their places, the command's name being at 0. None where
/// the number is not true: the command is then refused wherever it is run.
fn numbered_keys(args: &[&[u8]]) -> Range<c_int> {
    let number = args.first().and_then(|number| std::str::from_utf8(number).ok()?.parse::<usize>().ok());
    match number {
        Some(number) if number < args.len() => 2..2 + number as c_int,
        _ => 0..0,
    }
}

/// Tells the server of a command: its flags, its key, its documentation.
pub fn register(ctx: &Ctx, command: &Command) -> Result<(), String> {
    let flags = command.flags();
    let (first_key, last_key, key_step) = command.key_range();
    // SAFETY: all strings end with NUL; the server copies what it keeps.
    unsafe {
        let made = api!(RedisModule_CreateCommand(
            ctx.raw(),
            command.name.as_ptr(),
            Some(command.run),
            flags.as_ptr(),
            first_key,
            last_key,
            key_step
        ));
        if made != raw::REDISMODULE_OK as c_int {
            return Err(format!("the server refused the command {}", command.name.to_string_lossy()));
        }
        let handle = api!(RedisModule_GetCommand(ctx.raw(), command.name.as_ptr()));
        document(handle, command)?;
        if let Some(set_categories) = raw::RedisModule_SetCommandACLCategories {
            set_categories(handle, command.categories().as_ptr());
        }
    }
    Ok(())
}

/// # Safety
/// `handle` is a command that the server has just made.
unsafe fn document(handle: *mut raw::RedisModuleCommand, command: &Command) -> Result<(), String> {
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    // SAFETY: all-zero ends a list of key specs.
    let end = || unsafe { std::mem::zeroed() };
    let mut key_specs = [command.key_spec().unwrap_or_else(end), end()];
    let mut args = ArgList::new(command.args);
    let info = raw::RedisModuleCommandInfo {
        version: &version,
        summary: command.summary.as_ptr(),
        complexity: command.complexity.as_ptr(),
        since: c"0.1.0".as_ptr(),
        history: null_mut(),
        tips: null(),
        arity: command.arity,
        key_specs: key_specs.as_mut_ptr(),
        args: args.as_mut_ptr(),
    };
    // SAFETY: every pointer in `info` is live for the call, and the server copies what it keeps.
    if unsafe { api!(RedisModule_SetCommandInfo(handle, &info)) } == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err(format!("the server refused the documentation of {}", command.name.to_string_lossy()))
    }
}

/// A list of arguments as the server reads it, with the lists below it.
struct ArgList {
    entries: Vec<raw::RedisModuleCommandArg>,
    /// Keeps what the entries point to.
    _below: Vec<ArgList>,
}

impl ArgList {
    fn new(args: &[Arg]) -> ArgList {
        let mut below = Vec::new();
        let mut entries: Vec<_> = args.iter().map(|arg| entry(arg, &mut below)).collect();
        // SAFETY: all-zero ends a list of arguments.
        entries.push(unsafe { std::mem::zeroed() });
        ArgList { entries, _below: below }
    }

    fn as_mut_ptr(&mut self) -> *mut raw::RedisModuleCommandArg {
        self.entries.as_mut_ptr()
    }
}

fn entry(arg: &Arg, below: &mut Vec<ArgList>) -> raw::RedisModuleCommandArg {
    let mut nested = |args: &[Arg]| {
        let mut list = ArgList::new(args);
        let ptr = list.as_mut_ptr();
        below.push(list);
        ptr
    };
    let (type_, subargs) = match arg.kind {
        ArgKind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, null_mut()),
        ArgKind::Text => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING, null_mut()),
        ArgKind::Integer => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER, null_mut()),
        ArgKind::UnixTime => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_UNIX_TIME, null_mut()),
        ArgKind::Pattern => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PATTERN, null_mut()),
        ArgKind::Token => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN, null_mut()),
        ArgKind::OneOf(args) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF, nested(args)),
        ArgKind::Block(args) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK, nested(args)),
    };
    let key_spec_index = if matches!(arg.kind, ArgKind::Key) { 0 } else { -1 };
    raw::RedisModuleCommandArg {
        name: arg.name.as_ptr(),
        type_,
        key_spec_index,
        token: arg.token.map_or(null(), CStr::as_ptr),
        summary: null(),
        since: null(),
        flags: arg.flags as c_int,
        deprecated_since: null(),
        subargs,
        display_text: null(),
    }
}

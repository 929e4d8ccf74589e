//! The two native types that a queue is made of.
//!
//! A change and its effect are one call: what is written here is handed to the replicas and the AOF as native commands, in
//! the order in which it happened, when the key goes out of use. That also happens if the handler fails midway. Clients
//! that watch the key or have it in a cache are told then, and only if it did change.

use super::scan::Scannable;
use super::text::Text;
use super::{api, Ctx, NativeCommand};
use redis_module::raw;
use smallvec::SmallVec;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::{null_mut, NonNull};

/// The key holds another type than the one it is used as.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongType;

const READ: c_int = raw::REDISMODULE_READ as c_int;
const READ_WRITE: c_int = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE) as c_int;
const OK: c_int = raw::REDISMODULE_OK as c_int;

/// The value by which the server is told to delete a field.
const DELETE: *mut raw::RedisModuleString = std::ptr::without_provenance_mut(1);

/// What a step means to do with the keys that it opens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To read. An absent key counts as a miss in the server's statistics.
    Look,
    /// To read and write. One opening serves both, and a look alone leaves no trace.
    Change,
}

impl Purpose {
    fn mode(self) -> c_int {
        match self {
            Purpose::Look => READ,
            Purpose::Change => READ_WRITE,
        }
    }
}

/// An open key. Null stands for a key that was opened for reading and is absent.
struct Handle(*mut raw::RedisModuleKey);

impl Handle {
    fn open(ctx: &Ctx, name: &Text, purpose: Purpose) -> Handle {
        // SAFETY: context and name are live.
        Handle(unsafe { api!(RedisModule_OpenKey(ctx.raw(), name.raw(), purpose.mode())) })
    }

    fn key_type(&self) -> c_int {
        // SAFETY: the handle is open; the server answers EMPTY for null.
        unsafe { api!(RedisModule_KeyType(self.0)) }
    }

    fn len(&self) -> usize {
        // SAFETY: the handle is open; the server answers 0 for null.
        unsafe { api!(RedisModule_ValueLength(self.0)) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: closed once, here; the server accepts null.
        unsafe { api!(RedisModule_CloseKey(self.0)) }
    }
}

/// A key of one type: opened when it is first needed.
struct Slot<'a> {
    ctx: &'a Ctx,
    name: &'a Text,
    wanted: c_int,
    purpose: Purpose,
    handle: Option<Handle>,
    /// Whether the key was found to be of its type, or absent.
    checked: bool,
}

impl<'a> Slot<'a> {
    fn check(&mut self) -> Result<(), WrongType> {
        let found = self.open().key_type();
        self.checked = found == self.wanted || found == raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
        self.checked.then_some(()).ok_or(WrongType)
    }

    fn open(&mut self) -> &Handle {
        let (ctx, name, purpose) = (self.ctx, self.name, self.purpose);
        self.handle.get_or_insert_with(|| Handle::open(ctx, name, purpose))
    }

    /// The open key where it exists and is of its type.
    fn present(&mut self) -> Option<NonNull<raw::RedisModuleKey>> {
        let wanted = self.wanted;
        let handle = self.open();
        NonNull::new(handle.0).filter(|_| handle.key_type() == wanted)
    }

    /// The open key for a write that puts something there.
    fn writable(&mut self) -> *mut raw::RedisModuleKey {
        debug_assert!(self.checked && self.purpose == Purpose::Change, "a key is checked before it is written to");
        self.open().0
    }
}

/// The arguments by which one put is told.
const ARGS_OF_PUT: usize = 2;

/// A native type of the server, and the commands by which a change of it is told.
pub trait Native {
    const TYPE: isize;
    const PUT: NativeCommand;
    const REMOVE: NativeCommand;
}

pub struct Zset;

impl Native for Zset {
    const TYPE: isize = raw::REDISMODULE_KEYTYPE_ZSET;
    const PUT: NativeCommand = NativeCommand::Zadd;
    const REMOVE: NativeCommand = NativeCommand::Zrem;
}

pub struct Hash;

impl Native for Hash {
    const TYPE: isize = raw::REDISMODULE_KEYTYPE_HASH;
    const PUT: NativeCommand = NativeCommand::Hset;
    const REMOVE: NativeCommand = NativeCommand::Hdel;
}

/// A key of one native type.
pub struct Key<'a, T: Native> {
    slot: Slot<'a>,
    effects: Effects,
    native: PhantomData<T>,
}

/// A ZSET of ids, scored with whole numbers of ms.
pub type ZsetKey<'a> = Key<'a, Zset>;
/// A HASH of ids and records, or of the header's fields.
pub type HashKey<'a> = Key<'a, Hash>;

impl<'a, T: Native> Key<'a, T> {
    pub fn new(ctx: &'a Ctx, name: &'a Text, purpose: Purpose) -> Self {
        let slot = Slot { ctx, name, wanted: T::TYPE as c_int, purpose, handle: None, checked: false };
        Key { slot, effects: Effects::default(), native: PhantomData }
    }

    /// Refuses a key of another type. What is put into a key takes the answer for granted; whatever else is asked of a
    /// key of another type is answered as for one that is absent.
    pub fn check(&mut self) -> Result<(), WrongType> {
        self.slot.check()
    }

    /// Makes room for what so many puts have to tell.
    pub fn expect_puts(&mut self, puts: usize) {
        self.effects.expect(puts * ARGS_OF_PUT);
    }

    /// Makes room for what so many removals have to tell.
    pub fn expect_removals(&mut self, removals: usize) {
        self.effects.expect(removals);
    }

    /// MEMORY USAGE, in bytes.
    pub fn usage(&self) -> u64 {
        self.slot.ctx.memory_usage(self.slot.name)
    }

    pub fn exists(&mut self) -> bool {
        self.slot.present().is_some()
    }

    pub fn len(&mut self) -> usize {
        self.slot.present().map_or(0, |_| self.slot.open().len())
    }

    /// UNLINK: the key goes at once, its memory in the background.
    pub fn unlink(&mut self) {
        if let Some(key) = self.slot.present() {
            // SAFETY: the key is open for writing.
            unsafe { api!(RedisModule_UnlinkKey(key.as_ptr())) };
            self.effects.add(Change::Unlink, []);
        }
    }

    /// Closes the key, so that a command of the server may look at it, and says what that needs.
    pub(super) fn close(&mut self) -> (&'a Ctx, &'a Text) {
        self.slot.handle = None;
        (self.slot.ctx, self.slot.name)
    }
}

impl<T: Native> Scannable for Key<'_, T> {
    fn open_key(&mut self) -> *mut raw::RedisModuleKey {
        self.slot.present().map_or(null_mut(), NonNull::as_ptr)
    }
}

impl<T: Native> Drop for Key<'_, T> {
    fn drop(&mut self) {
        if !self.effects.is_empty() {
            self.effects.replicate(self.slot.ctx, self.slot.name, T::PUT, T::REMOVE);
            self.slot.ctx.signal_modified(self.slot.name);
        }
    }
}

/// Entries of one score that are gone through one by one to find a place among them; more are looked up by rank. A walk
/// that takes away what it meets finds none before it.
const MAX_SKIPS: usize = 16;

impl Key<'_, Zset> {
    /// The score of `id` as it stands in the key, which another hand may have made a fraction.
    pub fn raw_score(&mut self, id: &Text) -> Option<f64> {
        let key = self.slot.present()?;
        let mut score = 0.0;
        // SAFETY: the key is an open ZSET (checked) and the id is live.
        let found = unsafe { api!(RedisModule_ZsetScore(key.as_ptr(), id.raw(), &mut score)) };
        (found == OK).then_some(score)
    }

    pub fn score(&mut self, id: &Text) -> Option<u64> {
        self.raw_score(id).map(whole_ms)
    }

    /// Up to `limit` ids with a score of at most `up_to`, in the order of score and then id.
    pub fn first(&mut self, up_to: u64, limit: usize) -> Vec<(Text, u64)> {
        self.range(0, up_to, limit)
    }

    /// Up to `limit` ids with a score from `from` to `up_to`, in the order of score and then id. A `from` of 0 takes
    /// negative scores in, which another hand may have written.
    pub fn range(&mut self, from: u64, up_to: u64, limit: usize) -> Vec<(Text, u64)> {
        let Some(key) = self.slot.present() else { return Vec::new() };
        let key = key.as_ptr();
        let min = if from == 0 { f64::NEG_INFINITY } else { from as f64 };
        let mut found = Vec::with_capacity(limit.min(self.slot.open().len()));
        // SAFETY: the key is an open ZSET (checked); the iterator is stopped before the key is changed or closed, and
        // each element comes with a reference that becomes ours.
        unsafe {
            if api!(RedisModule_ZsetFirstInScoreRange(key, min, up_to as f64, 0, 0)) != OK {
                return found;
            }
            while found.len() < limit && api!(RedisModule_ZsetRangeEndReached(key)) == 0 {
                let mut score = 0.0;
                let id = api!(RedisModule_ZsetRangeCurrentElement(key, &mut score));
                found.push((Text::owned(id), whole_ms(score)));
                api!(RedisModule_ZsetRangeNext(key));
            }
            api!(RedisModule_ZsetRangeStop(key));
        }
        found
    }

    /// Up to `limit` entries behind that of `score` and `id` (`None`: behind all of that score), in the order of score and
    /// then id; `None` where too many of that score stand before them.
    pub(super) fn beyond_near(&mut self, score: f64, id: Option<&[u8]>, limit: usize) -> Option<Vec<(Text, f64)>> {
        let Some(key) = self.slot.present() else { return Some(Vec::new()) };
        let key = key.as_ptr();
        let (mut found, mut skips) = (Vec::with_capacity(limit.min(self.slot.open().len())), 0);
        // SAFETY: as in `range`.
        unsafe {
            if api!(RedisModule_ZsetFirstInScoreRange(key, score, f64::INFINITY, c_int::from(id.is_none()), 0)) != OK {
                return Some(found);
            }
            while found.len() < limit && skips <= MAX_SKIPS && api!(RedisModule_ZsetRangeEndReached(key)) == 0 {
                let mut at = 0.0;
                let entry = Text::owned(api!(RedisModule_ZsetRangeCurrentElement(key, &mut at)));
                if at == score && id.is_some_and(|id| entry.as_bytes() <= id) {
                    skips += 1;
                } else {
                    found.push((entry, at));
                }
                api!(RedisModule_ZsetRangeNext(key));
            }
            api!(RedisModule_ZsetRangeStop(key));
        }
        (skips <= MAX_SKIPS).then_some(found)
    }

    /// The id with the highest score.
    pub fn last(&mut self) -> Option<(Text, u64)> {
        let key = self.slot.present()?.as_ptr();
        let mut score = 0.0;
        // SAFETY: as in `range`.
        unsafe {
            if api!(RedisModule_ZsetLastInScoreRange(key, f64::NEG_INFINITY, f64::INFINITY, 0, 0)) != OK {
                return None;
            }
            let id = (api!(RedisModule_ZsetRangeEndReached(key)) == 0)
                .then(|| Text::owned(api!(RedisModule_ZsetRangeCurrentElement(key, &mut score))));
            api!(RedisModule_ZsetRangeStop(key));
            id.map(|id| (id, whole_ms(score)))
        }
    }

    /// ZADD.
    pub fn put(&mut self, id: &Text, score: u64) {
        let key = self.slot.writable();
        // SAFETY: the key is open for writing and a ZSET or empty (checked); no flags are asked for.
        unsafe { api!(RedisModule_ZsetAdd(key, score as f64, id.raw(), null_mut())) };
        self.effects.add(Change::Put, [Text::of_time(score as i64), id.clone()]);
    }

    /// ZREM; `false` where the id was not there.
    pub fn remove(&mut self, id: &Text) -> bool {
        let Some(key) = self.slot.present() else { return false };
        let mut removed = 0;
        // SAFETY: the key is open for writing and a ZSET (checked).
        unsafe { api!(RedisModule_ZsetRem(key.as_ptr(), id.raw(), &mut removed)) };
        if removed != 0 {
            self.effects.add(Change::Remove, [id.clone()]);
        }
        removed != 0
    }
}

impl Key<'_, Hash> {
    pub fn get(&mut self, field: &Text) -> Option<Text> {
        let key = self.slot.present()?;
        let mut value: *mut raw::RedisModuleString = null_mut();
        // SAFETY: the key is an open HASH (checked); one pair of field and place for the value, ended by null; the
        // value comes with a reference that becomes ours.
        unsafe {
            api!(RedisModule_HashGet(
                key.as_ptr(),
                raw::REDISMODULE_HASH_NONE as c_int,
                field.raw(),
                &mut value,
                null_mut::<raw::RedisModuleString>()
            ));
            (!value.is_null()).then(|| Text::owned(value))
        }
    }

    pub fn has(&mut self, field: &Text) -> bool {
        let Some(key) = self.slot.present() else { return false };
        let mut found: c_int = 0;
        // SAFETY: as in `get`; with EXISTS the place is one for an int.
        unsafe {
            api!(RedisModule_HashGet(
                key.as_ptr(),
                raw::REDISMODULE_HASH_EXISTS as c_int,
                field.raw(),
                &mut found,
                null_mut::<raw::RedisModuleString>()
            ));
        }
        found != 0
    }

    /// HSET.
    pub fn put(&mut self, field: &Text, value: Text) {
        let key = self.slot.writable();
        // SAFETY: the key is open for writing and a HASH or empty (checked).
        unsafe { hash_set(key, raw::REDISMODULE_HASH_NONE, field, value.raw()) };
        self.effects.add(Change::Put, [field.clone(), value]);
    }

    /// HSET of a field that is not there yet; `false`, and nothing done, where it is.
    pub fn put_new(&mut self, field: &Text, value: Text) -> bool {
        let key = self.slot.writable();
        let flags = raw::REDISMODULE_HASH_NX | raw::REDISMODULE_HASH_COUNT_ALL;
        // SAFETY: as in `put`.
        let made = unsafe { hash_set(key, flags, field, value.raw()) } != 0;
        if made {
            self.effects.add(Change::Put, [field.clone(), value]);
        }
        made
    }

    /// HDEL; `false` where the field was not there.
    pub fn remove(&mut self, field: &Text) -> bool {
        let Some(key) = self.slot.present() else { return false };
        // SAFETY: as in `put`.
        let removed = unsafe { hash_set(key.as_ptr(), raw::REDISMODULE_HASH_NONE, field, DELETE) } != 0;
        if removed {
            self.effects.add(Change::Remove, [field.clone()]);
        }
        removed
    }
}

/// Sets one field; how many fields that counts as, by the flags.
///
/// # Safety
/// `key` is open for writing, and a HASH or empty; `value` is a live string or [`DELETE`].
unsafe fn hash_set(
    key: *mut raw::RedisModuleKey,
    flags: u32,
    field: &Text,
    value: *mut raw::RedisModuleString,
) -> c_int {
    let end = null_mut::<raw::RedisModuleString>();
    // SAFETY: the caller's promise; one pair of field and value, ended by null.
    unsafe { api!(RedisModule_HashSet(key, flags as c_int, field.raw(), value, end)) }
}

/// A score as the contract has it: whole ms, not negative. What another hand wrote is bent into that.
fn whole_ms(score: f64) -> u64 {
    score as u64
}

/// Runs of like changes, each one native command. One change needs no memory of its own.
#[derive(Default)]
pub(super) struct Effects {
    /// The arguments of all runs, one behind the other.
    args: SmallVec<[Text; 2]>,
    /// Each run's kind, and where its arguments end.
    runs: SmallVec<[(Change, usize); 2]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Put,
    Remove,
    /// The whole key went.
    Unlink,
}

impl Effects {
    /// Makes room for the arguments of what is about to change.
    pub fn expect(&mut self, args: usize) {
        self.args.reserve(args);
    }

    /// Adds the arguments of one change to the run that it goes on, or begins one.
    pub fn add<const N: usize>(&mut self, change: Change, args: [Text; N]) {
        self.args.extend(args);
        let end = self.args.len();
        match self.runs.last_mut() {
            Some((kind, run_end)) if *kind == change => *run_end = end,
            _ => self.runs.push((change, end)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Hands all to the server, as `put key arg …` and `remove key arg …`.
    pub fn replicate(&self, ctx: &Ctx, key: &Text, put: NativeCommand, remove: NativeCommand) {
        let mut start = 0;
        for &(change, end) in &self.runs {
            let command = match change {
                Change::Put => put,
                Change::Remove => remove,
                Change::Unlink => NativeCommand::Unlink,
            };
            ctx.replicate(command, key, &self.args[start..end]);
            start = end;
        }
    }
}

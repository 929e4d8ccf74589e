//! The two native types that a queue is made of. A change and its effect are one call: what is written here is handed
//! to the replicas and the AOF as a native command when the key goes out of use, also where the handler fails midway.

use super::effects::{Change, Effects};
use super::scan::Scannable;
use super::text::Text;
use super::{api, Ctx};
use redis_module::raw;
use std::ffi::{c_int, CStr};
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

/// An open key. Null stands for a key that was opened for reading and is absent.
struct Handle {
    ptr: *mut raw::RedisModuleKey,
    writable: bool,
}

impl Handle {
    fn open(ctx: &Ctx, name: &Text, mode: c_int) -> Handle {
        // SAFETY: context and name are live.
        let ptr = unsafe { api!(RedisModule_OpenKey(ctx.raw(), name.raw(), mode)) };
        Handle { ptr, writable: mode == READ_WRITE }
    }

    fn key_type(&self) -> c_int {
        // SAFETY: the handle is open; the server answers EMPTY for null.
        unsafe { api!(RedisModule_KeyType(self.ptr)) }
    }

    fn len(&self) -> usize {
        // SAFETY: the handle is open; the server answers 0 for null.
        unsafe { api!(RedisModule_ValueLength(self.ptr)) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: closed once, here; the server accepts null.
        unsafe { api!(RedisModule_CloseKey(self.ptr)) }
    }
}

/// A key of one type: opened when it is first needed, for writing when it is first changed.
struct Slot<'a> {
    ctx: &'a Ctx,
    name: &'a Text,
    wanted: c_int,
    handle: Option<Handle>,
}

impl<'a> Slot<'a> {
    fn new(ctx: &'a Ctx, name: &'a Text, wanted: isize) -> Self {
        Slot { ctx, name, wanted: wanted as c_int, handle: None }
    }

    fn check(&mut self) -> Result<(), WrongType> {
        let found = self.reading().key_type();
        if found == self.wanted || found == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
            Ok(())
        } else {
            Err(WrongType)
        }
    }

    fn reading(&mut self) -> &Handle {
        let (ctx, name) = (self.ctx, self.name);
        self.handle.get_or_insert_with(|| Handle::open(ctx, name, READ))
    }

    fn writing(&mut self) -> &Handle {
        if !self.handle.as_ref().is_some_and(|handle| handle.writable) {
            self.handle = None;
            self.handle = Some(Handle::open(self.ctx, self.name, READ_WRITE));
        }
        self.reading()
    }

    /// The open key where it exists.
    fn present(&mut self) -> Option<NonNull<raw::RedisModuleKey>> {
        let handle = self.reading();
        if handle.key_type() == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
            return None;
        }
        NonNull::new(handle.ptr)
    }
}

/// A native type of the server, and the commands by which a change of it is told.
pub trait Native {
    const TYPE: isize;
    const PUT: &'static CStr;
    const REMOVE: &'static CStr;
}

pub struct Zset;

impl Native for Zset {
    const TYPE: isize = raw::REDISMODULE_KEYTYPE_ZSET;
    const PUT: &'static CStr = c"ZADD";
    const REMOVE: &'static CStr = c"ZREM";
}

pub struct Hash;

impl Native for Hash {
    const TYPE: isize = raw::REDISMODULE_KEYTYPE_HASH;
    const PUT: &'static CStr = c"HSET";
    const REMOVE: &'static CStr = c"HDEL";
}

/// A key of one native type.
pub struct Key<'a, T: Native> {
    slot: Slot<'a>,
    effects: Effects,
    /// The last score that was put, and its text: many jobs get the same one in a row.
    score: Option<(u64, Text)>,
    native: PhantomData<T>,
}

/// A ZSET of ids, scored with whole numbers of ms.
pub type ZsetKey<'a> = Key<'a, Zset>;
/// A HASH of ids and records, or of the header's fields.
pub type HashKey<'a> = Key<'a, Hash>;

impl<'a, T: Native> Key<'a, T> {
    pub fn new(ctx: &'a Ctx, name: &'a Text) -> Self {
        Key { slot: Slot::new(ctx, name, T::TYPE), effects: Effects::default(), score: None, native: PhantomData }
    }

    /// Refuses a key of another type. Every other call takes the answer for granted.
    pub fn check(&mut self) -> Result<(), WrongType> {
        self.slot.check()
    }

    /// Opens the key for writing at once, where a write is certain.
    pub fn will_write(&mut self) {
        self.slot.writing();
    }

    pub fn exists(&mut self) -> bool {
        self.slot.present().is_some()
    }

    pub fn len(&mut self) -> usize {
        self.slot.reading().len()
    }
}

impl<T: Native> Scannable for Key<'_, T> {
    fn open_key(&mut self) -> *mut raw::RedisModuleKey {
        self.slot.present().map_or(null_mut(), NonNull::as_ptr)
    }
}

impl<T: Native> Drop for Key<'_, T> {
    fn drop(&mut self) {
        self.effects.replicate(self.slot.ctx, self.slot.name, T::PUT, T::REMOVE);
    }
}

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
        let mut found = Vec::new();
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
        let key = self.slot.writing().ptr;
        // SAFETY: the key is open for writing and a ZSET or empty (checked); no flags are asked for.
        unsafe { api!(RedisModule_ZsetAdd(key, score as f64, id.raw(), null_mut())) };
        let score = self.text_of(score);
        self.effects.add(Change::Put, [score, id.clone()]);
    }

    fn text_of(&mut self, score: u64) -> Text {
        match &self.score {
            Some((last, text)) if *last == score => text.clone(),
            _ => {
                let text = Text::of_integer(score as i64);
                self.score = Some((score, text.clone()));
                text
            }
        }
    }

    /// ZREM; `false` where the id was not there.
    pub fn remove(&mut self, id: &Text) -> bool {
        let key = self.slot.writing().ptr;
        let mut removed = 0;
        // SAFETY: the key is open for writing and a ZSET or empty (checked).
        unsafe { api!(RedisModule_ZsetRem(key, id.raw(), &mut removed)) };
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
        self.change(field, value.raw());
        self.effects.add(Change::Put, [field.clone(), value]);
    }

    /// HDEL; `false` where the field was not there.
    pub fn remove(&mut self, field: &Text) -> bool {
        let removed = self.change(field, DELETE) != 0;
        if removed {
            self.effects.add(Change::Remove, [field.clone()]);
        }
        removed
    }

    fn change(&mut self, field: &Text, value: *mut raw::RedisModuleString) -> c_int {
        let key = self.slot.writing().ptr;
        // SAFETY: the key is open for writing and a HASH or empty (checked); one pair of field and value, ended by null.
        unsafe {
            api!(RedisModule_HashSet(
                key,
                raw::REDISMODULE_HASH_NONE as c_int,
                field.raw(),
                value,
                null_mut::<raw::RedisModuleString>()
            ))
        }
    }
}

/// A score as the contract has it: whole ms, not negative. What another hand wrote is bent into that.
fn whole_ms(score: f64) -> u64 {
    score as u64
}

//! Walks over the keyspace and over one key, a bounded piece at a time.
//!
//! `KeyspaceScan` and `EntryScan` follow the server's own cursors, in no order. `Position` is for walks over a ZSET in the
//! order of score and then member, which can be left and taken up again, however many entries share a score.

use super::key::ZsetKey;
use super::text::bytes_of;
use super::{api, Ctx, Text};
use redis_module::raw;
use std::ffi::c_void;

/// A cursor of the server, freed when it goes out of use.
struct Cursor(*mut raw::RedisModuleScanCursor);

impl Cursor {
    fn new() -> Cursor {
        // SAFETY: takes nothing.
        Cursor(unsafe { api!(RedisModule_ScanCursorCreate()) })
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // SAFETY: freed once, here.
        unsafe { api!(RedisModule_ScanCursorDestroy(self.0)) }
    }
}

/// A walk over the names of all keys of the selected database.
pub struct KeyspaceScan(Cursor);

impl Default for KeyspaceScan {
    fn default() -> Self {
        KeyspaceScan(Cursor::new())
    }
}

impl KeyspaceScan {
    /// Visits the next few keys; `false` when the walk is over. `visit` must not call the server.
    pub fn step(&mut self, ctx: &Ctx, visit: &mut dyn FnMut(&[u8])) -> bool {
        extern "C" fn on_key(
            _: *mut raw::RedisModuleCtx,
            name: *mut raw::RedisModuleString,
            _: *mut raw::RedisModuleKey,
            data: *mut c_void,
        ) {
            // SAFETY: `data` is the visitor lent to the running `step`; the name lives while the callback runs.
            let (visit, name) = unsafe { (&mut *data.cast::<&mut dyn FnMut(&[u8])>(), bytes_of(name)) };
            visit(name);
        }
        let mut visit = visit;
        // SAFETY: context and cursor are live, and `visit` outlives the call.
        unsafe { api!(RedisModule_Scan(ctx.raw(), self.0 .0, Some(on_key), (&raw mut visit).cast())) != 0 }
    }
}

/// A walk over the entries of a HASH or ZSET, which may change between two steps: an entry that stays is visited at
/// least once.
pub struct EntryScan(Cursor);

impl Default for EntryScan {
    fn default() -> Self {
        EntryScan(Cursor::new())
    }
}

/// A key that `EntryScan` can walk over.
pub trait Scannable {
    /// The open key, of its right type; null where it is absent.
    #[doc(hidden)]
    fn open_key(&mut self) -> *mut raw::RedisModuleKey;
}

impl EntryScan {
    /// Visits the next few entries, each a field and its value or an id and its score as text; `false` when the walk is
    /// over. `visit` must not call the server.
    pub fn step(&mut self, key: &mut impl Scannable, visit: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        extern "C" fn on_entry(
            _: *mut raw::RedisModuleKey,
            field: *mut raw::RedisModuleString,
            value: *mut raw::RedisModuleString,
            data: *mut c_void,
        ) {
            // SAFETY: `data` is the visitor lent to the running `step`; field and value live while the callback runs.
            let (visit, field, value) =
                unsafe { (&mut *data.cast::<&mut dyn FnMut(&[u8], &[u8])>(), bytes_of(field), bytes_of(value)) };
            visit(field, value);
        }
        let key = key.open_key();
        if key.is_null() {
            return false;
        }
        let mut visit = visit;
        // SAFETY: the key is an open HASH or ZSET (checked), the cursor is live, and `visit` outlives the call.
        unsafe { api!(RedisModule_ScanKey(key, self.0 .0, Some(on_entry), (&raw mut visit).cast())) != 0 }
    }
}

/// Where a walk stands: behind the entry of this score and id, whether that one is still there or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    score: f64,
    /// `None`: behind every entry of the score.
    id: Option<Vec<u8>>,
}

impl Position {
    /// Before all entries.
    pub fn start() -> Position {
        Position { score: f64::NEG_INFINITY, id: Some(Vec::new()) }
    }

    pub fn behind(score: f64, id: &Text) -> Position {
        Position { score, id: Some(id.as_bytes().to_vec()) }
    }

    /// Behind every entry of a score up to `score`.
    pub fn above(score: u64) -> Position {
        Position { score: score as f64, id: None }
    }

    /// The later of the two, where `other` is one of `above`.
    pub fn or_above(self, score: u64) -> Position {
        if self.score > score as f64 {
            self
        } else {
            Position::above(score)
        }
    }

    /// A text from which `parse` makes the same position.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = format!("{}:", self.score).into_bytes();
        text.extend_from_slice(self.id.as_deref().unwrap_or_default());
        text
    }

    /// Reads a position behind an entry.
    pub fn parse(text: &[u8]) -> Option<Position> {
        let colon = text.iter().position(|byte| *byte == b':')?;
        let score: f64 = std::str::from_utf8(&text[..colon]).ok()?.parse().ok()?;
        (!score.is_nan()).then(|| Position { score, id: Some(text[colon + 1..].to_vec()) })
    }
}

impl ZsetKey<'_> {
    /// Up to `limit` entries behind `position`, in the order of score and then id. O(log² N + M), also where all N have
    /// one score.
    pub fn beyond(&mut self, position: &Position, limit: usize) -> Vec<(Text, f64)> {
        if limit == 0 || !self.exists() {
            return Vec::new();
        }
        if let Some(found) = self.beyond_near(position.score, position.id.as_deref(), limit) {
            return found;
        }
        let (ctx, key) = self.close();
        let from = rank_behind(ctx, key, position);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        ctx.zrange(key, from, from.saturating_add(limit - 1))
    }
}

/// The rank of the first entry behind `position`.
fn rank_behind(ctx: &Ctx, key: &Text, position: &Position) -> i64 {
    let score = position.score;
    let mut end = ctx.zcount(key, "-inf", &score.to_string());
    let Some(id) = &position.id else { return end };
    let mut begin = ctx.zcount(key, "-inf", &format!("({score}"));
    while begin < end {
        let middle = begin + (end - begin) / 2;
        let entry = ctx.zrange(key, middle, middle);
        if entry.first().is_some_and(|(found, _)| found.as_bytes() <= id.as_slice()) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        for (score, id) in [(0.0, "a"), (1.5, "a:b"), (-2.0, ""), (1_764_451_233_000.0, "8yShmAPrsrg"), (1e300, ":")] {
            let position = Position { score, id: Some(id.as_bytes().to_vec()) };
            assert_eq!(Position::parse(&position.to_text()), Some(position));
        }
        let end = Position { score: f64::INFINITY, id: Some(vec![0xff, 0]) };
        assert_eq!(Position::parse(&end.to_text()), Some(end));
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for text in ["", "0", "a", ":", ":a", "x:a", "NaN:a", "1,5:a", " 1:a"] {
            assert_eq!(Position::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Position::parse(b"\xff:a"), None);
    }

    #[test]
    fn the_later_of_two() {
        let behind = Position { score: 10.0, id: Some(b"a".to_vec()) };
        assert_eq!(behind.clone().or_above(9), behind);
        assert_eq!(behind.clone().or_above(10), Position::above(10));
        assert_eq!(Position::start().or_above(10), Position::above(10));
    }
}

//! Walks over a ZSET in its own order that are left and taken up again, however many entries share a score.

use super::key::ZsetKey;
use super::{Ctx, Text};

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

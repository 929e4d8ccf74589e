//! Whether what came is what the page shows: ids, receipts and times stand for the real ones.

use std::collections::HashMap;

/// Letters and digits of an id that the server makes, and of the birth in a receipt.
const ID: usize = 11;
/// Digits of the tenure in a receipt: `k3f` in `8yShmAPrsrg:1.k3f`.
const TENURE: usize = 3;
/// Digits of a time in ms.
const TIME: usize = 13;

/// What the page's ids, tenures and times stand for.
#[derive(Clone, Default)]
pub struct Names {
    real: HashMap<String, String>,
}

impl Names {
    /// What the reader of the page would type: its names replaced by the real ones.
    pub fn replaced(&self, text: &str) -> String {
        let (mut out, mut at) = (String::new(), 0);
        while let Some(first) = text[at..].chars().next() {
            match name_at(text, at).and_then(|name| Some((name, self.real.get(name)?))) {
                Some((name, real)) => {
                    out.push_str(real);
                    at += name.len();
                }
                None => {
                    out.push(first);
                    at += first.len_utf8();
                }
            }
        }
        out
    }

    /// Takes note that the page's `shown` is `real`, where that can be: two ids of the page are never one.
    fn bind(&mut self, shown: &str, real: &str) -> bool {
        if shown.len() == TIME {
            self.real.insert(shown.into(), real.into());
            return true;
        }
        match self.real.get(shown) {
            Some(known) => known == real,
            None if self.real.values().any(|other| other == real) => false,
            None => self.real.insert(shown.into(), real.into()).is_none(),
        }
    }

    /// Whether the real line is the page's, and if so, what its names stand for.
    pub fn line(&mut self, shown: &str, real: &str) -> bool {
        let mut names = self.clone();
        let is_same = names.try_line(shown, real);
        if is_same {
            *self = names;
        }
        is_same
    }

    fn try_line(&mut self, shown: &str, real: &str) -> bool {
        let (mut at, mut real_at) = (0, 0);
        loop {
            let (Some(s), Some(r)) = (shown[at..].chars().next(), real[real_at..].chars().next()) else {
                return shown.len() == at && real.len() == real_at;
            };
            let (length, real_length) = match name_at(shown, at) {
                Some(name) => match word_at(real, real_at).filter(|word| word.len() == name.len()) {
                    Some(word) if self.bind(name, word) => (name.len(), word.len()),
                    _ => return false,
                },
                None if s == r => (s.len_utf8(), r.len_utf8()),
                None => return false,
            };
            (at, real_at) = (at + length, real_at + real_length);
        }
    }

    /// The same of several lines. A line `...` of the page stands for any number of lines; `loosely` says of a line, with
    /// the one before it, whether it may be other than it is shown.
    pub fn lines(&mut self, before: &str, shown: &[&str], real: &[&str], loosely: Loosely) -> bool {
        match (shown, real) {
            ([], _) => real.is_empty(),
            (["..."], _) => true,
            (["...", shown @ ..], _) => {
                (0..=real.len()).any(|skipped| self.lines("", shown, &real[skipped..], loosely))
            }
            (_, []) => false,
            ([line, shown @ ..], [other, real @ ..]) => {
                let mut names = self.clone();
                let is_same = names.line(line, other) || loosely(before, line, other);
                if !is_same || !names.lines(line, shown, real, loosely) {
                    return false;
                }
                *self = names;
                true
            }
        }
    }
}

/// Of the line before, the line that is shown and the real one: whether it may be so.
pub type Loosely<'a> = &'a dyn Fn(&str, &str, &str) -> bool;

/// Whether both are the same when their numbers are left out.
pub fn but_for_numbers(shown: &str, real: &str) -> bool {
    let letters = |text: &str| text.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).count();
    let without = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    letters(shown) == letters(real) && without(shown) == without(real)
}

/// The name that begins at this place: an id, the tenure of a receipt, or a time.
fn name_at(text: &str, at: usize) -> Option<&str> {
    let word = word_at(text, at)?;
    let has = |test: fn(&u8) -> bool| word.bytes().any(|byte| test(&byte));
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    let is_id = word.len() == ID && (is_mixed || is_followed_by_claim(&text[at + ID..]));
    let is_time = word.len() == TIME && word.starts_with('1') && !has(u8::is_ascii_alphabetic);
    let is_tenure = word.len() == TENURE && comes_after_claim(&text[..at]);
    (is_id || is_time || is_tenure).then_some(word)
}

/// Whether a text goes on as a receipt does behind its id: `:1.k3f`.
fn is_followed_by_claim(text: &str) -> bool {
    let claim = text.strip_prefix(':').and_then(|rest| rest.split_once('.'));
    claim.is_some_and(|(claim, rest)| is_word(claim) && word_at(rest, 0).is_some_and(|word| word.len() == TENURE))
}

/// Whether a text ends as a receipt does before its tenure: with an id and `:1.`.
fn comes_after_claim(text: &str) -> bool {
    let claim = text.strip_suffix('.').and_then(|text| text.rsplit_once(':'));
    claim.is_some_and(|(id, claim)| {
        is_word(claim) && id.len() >= ID && id.is_char_boundary(id.len() - ID) && is_word(&id[id.len() - ID..])
    })
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The letters and digits that begin at this place, unless others stand before them.
fn word_at(text: &str, at: usize) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric();
    let (before, rest) = text.split_at(at);
    let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    (length > 0 && !before.ends_with(is_part)).then(|| &rest[..length])
}

#[test]
fn names_stand_for_one_another() {
    let mut names = Names::default();
    assert!(names.line("1) 1) \"8yShmAPrsrg:1.k3f\"", "1) 1) \"9aAAAAAAAAA:1.x9y\""));
    assert!(names.line("\"8yShmAPrsrg\"", "\"9aAAAAAAAAA\""));
    assert!(!names.line("\"8yShmAPrsrg\"", "\"9aAAAAAAAAB\""), "another id than before");
    assert!(!names.line("\"8yShmAPrsrX\"", "\"9aAAAAAAAAA\""), "two names for one id");
    assert!(!names.line("\"8yShmAPrsrg:2.k3f\"", "\"9aAAAAAAAAA:1.x9y\""), "another claim");
    assert!(!names.line("(integer) 1", "(integer) 2"));
    assert!(!names.line("OK", "OK, but"));
    assert!(names.line("at 1796000000000", "at 1801234567890"));
    assert_eq!(names.replaced("DQ.ACK mail 8yShmAPrsrg:1.k3f 'x'"), "DQ.ACK mail 9aAAAAAAAAA:1.x9y 'x'");
    assert_eq!(names.replaced("x8yShmAPrsrg"), "x8yShmAPrsrg");
    assert!(names.line("\"AbCdEfGhIjK:1.xyZ:order-1\"", "\"0000000000a:1.abc:order-1\""), "letters only");
    assert!(!names.line("ann@example.com", "ann@example.net"));
}

#[test]
fn three_dots_stand_for_any_lines() {
    let strictly = |_: &str, _: &str, _: &str| false;
    let same = |shown: &[&str], real: &[&str]| Names::default().lines("", shown, real, &strictly);
    assert!(same(&["a", "...", "d"], &["a", "b", "c", "d"]));
    assert!(same(&["a", "..."], &["a"]));
    assert!(!same(&["a", "...", "d"], &["a", "b"]));
    assert!(!same(&["a"], &["a", "b"]));
    assert!(!same(&["a", "b"], &["a"]));
}

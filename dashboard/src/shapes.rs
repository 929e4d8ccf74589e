//! The shape of an error: its text without what differs from job to job, so that errors of one kind are one group.
//!
//! Masked at once, as `#`: UUIDs, times, addresses, hex of 8 digits or more, quoted words, ids, and numbers of 1, 2 or
//! more than 5 digits. Numbers of 3 to 5 digits are mostly codes (HTTP, SQLSTATE, ORA, MySQL) and stay, and so do the
//! digits of a name (`sqlite3`, `EC2`). Whether one of these is a code or only a number shows when many errors are
//! compared: a position with more than [`VALUES`] values is masked, too.

use std::collections::{BTreeSet, HashMap};

/// Values that one position may show before it is masked.
const VALUES: usize = 20;
/// Skeletons whose values are compared; errors of further kinds keep their numbers.
const SKELETONS: usize = 2000;
/// Characters of a shape.
const LENGTH: usize = 240;
/// Characters of an error that are read for its shape.
pub const READ: usize = 1000;
/// A longer text between quotes is a sentence, and says what happened.
const QUOTED: usize = 100;
/// Stands in a skeleton for a value that was kept. No error has it: `visible` writes control characters as pictures.
const KEPT: char = '\u{1}';
const MASK: char = '#';

/// An error with its variable parts masked, and the values that may yet turn out to be variable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Masked {
    skeleton: String,
    kept: Vec<String>,
}

/// The skeletons that were met, with the values of each of their positions.
#[derive(Default)]
pub struct Shapes(HashMap<String, Vec<BTreeSet<String>>>);

impl Shapes {
    /// Notes the values of an error. Returns whether a position is masked from now on that was not before.
    pub fn learn(&mut self, error: &Masked) -> bool {
        if self.0.len() >= SKELETONS && !self.0.contains_key(&error.skeleton) {
            return false;
        }
        let positions = self.0.entry(error.skeleton.clone()).or_default();
        positions.resize(error.kept.len(), BTreeSet::new());
        let mut changed = false;
        for (values, value) in positions.iter_mut().zip(&error.kept) {
            if values.len() <= VALUES && values.insert(value.clone()) {
                changed |= values.len() > VALUES;
            }
        }
        changed
    }

    /// The shape of an error, by what was learned so far.
    pub fn shape(&self, error: &Masked) -> String {
        let positions = self.0.get(&error.skeleton);
        let varies = |at: usize| positions.is_some_and(|positions| positions[at].len() > VALUES);
        let mut kept = error.kept.iter().enumerate();
        let mut shape = String::new();
        for letter in error.skeleton.chars() {
            match (letter == KEPT).then(|| kept.next()).flatten() {
                Some((at, value)) if !varies(at) => shape.push_str(value),
                Some(_) => shape.push(MASK),
                None => shape.push(letter),
            }
        }
        shape
    }
}

impl Masked {
    /// Whether two errors differ at most in the values that were kept.
    pub fn is_like(&self, other: &Masked) -> bool {
        self.skeleton == other.skeleton
    }

    /// Whether this error has the shape, whichever positions the shape masks.
    pub fn has_shape(&self, shape: &str) -> bool {
        let (mut rest, mut kept) = (shape, self.kept.iter());
        for letter in self.skeleton.chars() {
            let value = (letter == KEPT).then(|| kept.next()).flatten();
            let next = match value {
                Some(value) => rest.strip_prefix(MASK).or_else(|| rest.strip_prefix(value.as_str())),
                None => rest.strip_prefix(letter),
            };
            let Some(next) = next else { return false };
            rest = next;
        }
        rest.is_empty()
    }
}

/// Masks what is known at once to be variable.
pub fn mask(error: &str) -> Masked {
    let text: Vec<char> = error.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(READ).collect();
    let (mut masked, mut at) = (Masked::default(), 0);
    let mut length = 0;
    while at < text.len() && length < LENGTH {
        let (part, taken) = part(&text, at);
        match part {
            Part::Text => masked.skeleton.extend(&text[at..at + taken.min(LENGTH - length)]),
            Part::Variable => masked.skeleton.push(MASK),
            Part::Quoted => masked.skeleton.extend([text[at], MASK, text[at + taken - 1]]),
            Part::Kept => {
                masked.skeleton.push(KEPT);
                masked.kept.push(text[at..at + taken].iter().collect());
            }
        }
        at += taken;
        length = masked.skeleton.chars().count();
    }
    masked
}

enum Part {
    Text,
    Variable,
    Quoted,
    Kept,
}

/// What begins at a place of the text, and how many characters it has.
fn part(text: &[char], at: usize) -> (Part, usize) {
    let rest = &text[at..];
    let before = at.checked_sub(1).map(|before| text[before]);
    if let Some(taken) = quoted(rest, before, &text[..at]) {
        return (Part::Quoted, taken);
    }
    if !rest[0].is_ascii_alphanumeric() {
        return (Part::Text, 1);
    }
    let continues = before.is_some_and(|before| before.is_ascii_alphanumeric());
    if !continues {
        if let Some(taken) = uuid(rest).or_else(|| time(rest)).or_else(|| address(rest)) {
            return (Part::Variable, taken);
        }
        let word = run(rest, |letter| letter.is_ascii_alphanumeric());
        if is_id(&rest[..word]) {
            return (Part::Variable, word);
        }
        if is_sqlstate(&rest[..word]) {
            return (Part::Kept, word);
        }
    }
    let digits = run(rest, |letter| letter.is_ascii_digit());
    if digits == 0 {
        return (Part::Text, run(rest, |letter| letter.is_ascii_alphabetic()));
    }
    // `sqlite3`: the digits of a name. They are masked only if the name turns out to have many numbers.
    let is_of_a_name = before.is_some_and(|before| before.is_ascii_alphabetic());
    let is_fraction = before == Some('.') && at >= 2 && text[at - 2].is_ascii_digit();
    match digits {
        _ if is_fraction => (Part::Variable, digits),
        1..=5 if is_of_a_name => (Part::Kept, digits),
        3..=5 => (Part::Kept, digits),
        _ => (Part::Variable, digits),
    }
}

/// How many characters from the start are of this kind.
fn run(text: &[char], is: impl Fn(char) -> bool) -> usize {
    text.iter().position(|letter| !is(*letter)).unwrap_or(text.len())
}

/// The length of a quoted word, with its quotes. An apostrophe opens none, and a key of a JSON object stays.
fn quoted(rest: &[char], before: Option<char>, all_before: &[char]) -> Option<usize> {
    let close = match rest[0] {
        '\'' | '"' | '`' => rest[0],
        '“' => '”',
        '‘' => '’',
        _ => return None,
    };
    if before.is_some_and(|before| before.is_alphanumeric()) {
        return None;
    }
    let ends = |end: usize| rest.get(end + 1).is_none_or(|after| !after.is_alphanumeric());
    let end = (1..rest.len().min(QUOTED + 2)).find(|end| rest[*end] == close && ends(*end))?;
    let follows = rest[end + 1..].iter().find(|letter| **letter != ' ');
    let opens = all_before.iter().rev().find(|letter| **letter != ' ');
    let is_key = close == '"' && follows == Some(&':') && matches!(opens, Some('{' | ','));
    (end > 1 && !is_key).then_some(end + 1)
}

fn uuid(rest: &[char]) -> Option<usize> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let mut at = 0;
    for (place, group) in GROUPS.into_iter().enumerate() {
        if place > 0 {
            at += (rest.get(at) == Some(&'-')).then_some(1)?;
        }
        let digits = rest.get(at..at + group)?;
        at += digits.iter().all(char::is_ascii_hexdigit).then_some(group)?;
    }
    rest.get(at).is_none_or(|after| !after.is_ascii_alphanumeric()).then_some(at)
}

/// `2026-11-30`, `2026-11-30T22:54:01.123Z`, `22:54:01`.
fn time(rest: &[char]) -> Option<usize> {
    let fits = |from: usize, pattern: &str| {
        let is = |(place, wanted): (usize, char)| {
            rest.get(from + place)
                .is_some_and(|found| if wanted == '0' { found.is_ascii_digit() } else { *found == wanted })
        };
        pattern.chars().enumerate().all(is).then(|| from + pattern.len())
    };
    let date = fits(0, "0000-00-00");
    let clock_at = match date {
        Some(end) if matches!(rest.get(end), Some('T' | ' ')) => end + 1,
        Some(end) => return (!rest.get(end).is_some_and(char::is_ascii_alphanumeric)).then_some(end),
        None => 0,
    };
    let Some(mut end) = fits(clock_at, "00:00:00") else { return date };
    if matches!(rest.get(end), Some('.' | ',')) {
        end += 1 + run(&rest[end + 1..], |letter| letter.is_ascii_digit());
    }
    end = ["+00:00", "-00:00", "+0000", "-0000", "Z"].into_iter().find_map(|zone| fits(end, zone)).unwrap_or(end);
    Some(end)
}

/// `10.0.0.17`: four numbers of up to three digits.
fn address(rest: &[char]) -> Option<usize> {
    let mut at = 0;
    for place in 0..4 {
        if place > 0 {
            at += (rest.get(at) == Some(&'.')).then_some(1)?;
        }
        let digits = run(&rest[at..], |letter| letter.is_ascii_digit());
        at += (1..=3).contains(&digits).then_some(digits)?;
    }
    let goes_on = rest.get(at).is_some_and(|after| after.is_ascii_alphanumeric());
    (!goes_on).then_some(at)
}

/// A word that was made by a machine: hex, or letters and digits in turn.
fn is_id(word: &[char]) -> bool {
    let digits = word.iter().filter(|letter| letter.is_ascii_digit()).count();
    let is_hex = |word: &[char]| word.iter().all(char::is_ascii_hexdigit);
    let runs = word.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    match word {
        ['0', 'x' | 'X', rest @ ..] if !rest.is_empty() && is_hex(rest) => true,
        _ if word.len() >= 8 && is_hex(word) => true,
        // `8yShmAPrsrg`; but `30seconds` is a number.
        [first, ..] if first.is_ascii_digit() => {
            word.len() >= 8 && digits < word.len() && (runs > 1 || has_both_cases(word))
        }
        _ => word.len() >= 10 && runs >= 5,
    }
}

fn has_both_cases(word: &[char]) -> bool {
    word.iter().any(char::is_ascii_uppercase) && word.iter().any(char::is_ascii_lowercase)
}

/// `42P01`, `0A000`: five capitals and digits.
fn is_sqlstate(word: &[char]) -> bool {
    let is_code = word.iter().all(|letter| letter.is_ascii_digit() || letter.is_ascii_uppercase());
    word.len() == 5 && is_code && word.iter().filter(|letter| letter.is_ascii_digit()).count() >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(error: &str) -> String {
        Shapes::default().shape(&mask(error))
    }

    #[test]
    fn what_differs_from_job_to_job_is_masked() {
        for (error, masked) in [
            ("no user 7c9e6679-7425-40de-944b-e07fc1f90ae7 here", "no user # here"),
            ("commit 3f2a9c1d4e of 0xff", "commit # of #"),
            ("unknown currency 'XBT' in \"order\" of `ann`", "unknown currency '#' in \"#\" of `#`"),
            ("take 1 of 12, then 123456 and 30s", "take # of #, then # and #s"),
            ("at 2026-11-30T22:54:01.123Z from 10.0.0.123:5432", "at # from #:5432"),
            ("took 0.123 s (8yShmAPrsrg)", "took #.# s (#)"),
            ("user_42 on web-7", "user_# on web-#"),
            ("two\n  lines", "two lines"),
        ] {
            assert_eq!(shape(error), masked, "{error}");
        }
    }

    #[test]
    fn what_says_what_happened_stays() {
        for error in [
            "psycopg2.OperationalError: server closed the connection",
            "sqlite3.OperationalError: database is locked",
            "S3 and EC2 are away",
            "HTTP 502 Bad Gateway",
            "ORA-00942: table or view does not exist",
            "ERROR 1045 (28000): access denied",
            "SQLSTATE[42P01] and 40001",
            "can't and doesn't, it's all the workers' fault",
            "OAuth2Error, UTF8DecodeError, X509Certificate",
            "{\"code\": busy, \"why\": none}",
            "",
        ] {
            assert_eq!(shape(error), error);
        }
        assert_eq!(shape("{\"code\":\"E7\"}"), "{\"code\":\"#\"}");
    }

    #[test]
    fn errors_of_one_kind_have_one_shape_and_others_have_another() {
        assert_eq!(shape("no such user 'ann'"), shape("no such user 'bob'"));
        assert_ne!(shape("psycopg2.OperationalError"), shape("sqlite3.OperationalError"));
        assert_ne!(shape("HTTP 502"), shape("HTTP 503"));
    }

    #[test]
    fn a_position_with_more_than_twenty_values_is_masked() {
        let mut shapes = Shapes::default();
        let order = |number: usize| mask(&format!("HTTP 502: order {number} of node{} is away", number % 3));
        for number in 1000..1020 {
            assert!(!shapes.learn(&order(number)), "{number}");
        }
        assert_eq!(shapes.shape(&order(1001)), "HTTP 502: order 1001 of node2 is away");
        assert!(shapes.learn(&order(1020)));
        assert!(!shapes.learn(&order(1021)));
        assert_eq!(shapes.shape(&order(1001)), "HTTP 502: order # of node2 is away");
        assert!(order(1001).is_like(&order(1002)) && !order(1001).is_like(&mask("HTTP 502")));
    }

    #[test]
    fn an_error_is_found_by_its_shape() {
        let error = mask("HTTP 502: order 1001 of ann");
        for shape in ["HTTP 502: order 1001 of ann", "HTTP 502: order # of ann", "HTTP #: order # of ann"] {
            assert!(error.has_shape(shape), "{shape}");
        }
        for shape in ["HTTP 503: order # of ann", "HTTP 502: order # of ann and", "HTTP 502: order # of", "", "#"] {
            assert!(!error.has_shape(shape), "{shape}");
        }
        assert!(mask("").has_shape(""));
    }

    #[test]
    fn a_shape_is_short_and_ends_at_the_same_place() {
        let long = |id: &str| mask(&format!("{id} {}", "word ".repeat(300)));
        assert_eq!(long("8yShmAPrsrg"), long("8yShmAPr1rh"));
        assert!(shape(&"x".repeat(5000)).chars().count() <= READ);
        assert_eq!(long("7").skeleton.chars().count(), LENGTH);
    }
}

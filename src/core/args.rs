//! Reading the arguments of a command, and the errors that name what is wrong with them.

use std::fmt;

/// How much of a foreign argument an error text repeats, in bytes.
const MAX_SHOWN: usize = 64;

/// Unix time below this many ms lies before March 1973: it was meant in seconds.
const LEAST_UNIX_MS: u64 = 100_000_000_000;

/// An error reply: its whole text, which begins with `ERR` or another code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgError(String);

impl ArgError {
    /// The error `ERR text`.
    pub fn new(text: impl fmt::Display) -> ArgError {
        ArgError::with_code("ERR", text)
    }

    /// The error `code text`, for codes that a program may branch on.
    pub fn with_code(code: &str, text: impl fmt::Display) -> ArgError {
        ArgError(format!("{code} {text}"))
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ArgError {}

impl From<ArgError> for String {
    fn from(error: ArgError) -> String {
        error.0
    }
}

impl From<super::names::NameError> for ArgError {
    fn from(error: super::names::NameError) -> ArgError {
        ArgError::new(error)
    }
}

/// Goes through the arguments of a command, first to last. As an iterator it gives one at a time.
#[derive(Clone, Debug)]
pub struct Cursor<'s, 'a> {
    rest: &'s [&'a [u8]],
}

impl<'s, 'a> Cursor<'s, 'a> {
    /// Begins at the first of `args`.
    pub const fn new(args: &'s [&'a [u8]]) -> Cursor<'s, 'a> {
        Cursor { rest: args }
    }

    /// The next argument, as the value of `option`.
    pub fn value(&mut self, option: &str) -> Result<&'a [u8], ArgError> {
        self.next().ok_or_else(|| missing_value(option))
    }

    /// The next argument, which stays the next.
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.rest.first().copied()
    }

    /// What is left, which stays.
    pub const fn rest(&self) -> &'s [&'a [u8]] {
        self.rest
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Cursor<'_, 'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len(), Some(self.rest.len()))
    }
}

impl ExactSizeIterator for Cursor<'_, '_> {}

/// The value of an option that may be given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Once<T> {
    value: Option<T>,
}

impl<T> Default for Once<T> {
    fn default() -> Once<T> {
        Once { value: None }
    }
}

impl<T> Once<T> {
    /// Keeps `value`; refuses a second one by the name of the option.
    pub fn set(&mut self, option: &str, value: T) -> Result<(), ArgError> {
        if self.value.is_some() {
            return Err(repeated_option(option));
        }
        self.value = Some(value);
        Ok(())
    }

    /// Whether the option was given.
    pub const fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// The value, where the option was given.
    pub fn get(self) -> Option<T> {
        self.value
    }
}

/// Whether `arg` is the word `name`, in any case of letters.
pub fn is(arg: &[u8], name: &str) -> bool {
    arg.eq_ignore_ascii_case(name.as_bytes())
}

/// A duration in ms: digits, which `ms`, `s`, `m`, `h` or `d` may follow in any case of letters.
/// `None` for a sign, a fraction, a blank, another unit, and what does not fit into 64 bits.
pub fn parse_duration(text: &[u8]) -> Option<u64> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    let (digits, unit) = text.split_at_checked(end.unwrap_or(text.len()))?;
    parse_digits(digits)?.checked_mul(unit_ms(unit)?)
}

/// A whole number as Redis reads one: digits, a minus before them where it is negative; no plus,
/// no blank, no leading zero.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let negative = text.starts_with(b"-");
    let digits = if negative { &text[1..] } else { text };
    if digits.starts_with(b"0") && text.len() > 1 {
        return None;
    }
    let size = parse_digits(digits)?;
    if negative {
        0_i64.checked_sub_unsigned(size)
    } else {
        i64::try_from(size).ok()
    }
}

/// Reads the value of `option` as a duration from `least` to `most` ms.
pub fn duration(option: &str, arg: &[u8], least: u64, most: u64) -> Result<u64, ArgError> {
    parse_duration(arg)
        .filter(|ms| (least..=most).contains(ms))
        .ok_or_else(|| ArgError::new(format_args!("{option} must be {}", duration_from_to(least, most))))
}

/// Reads the value of `option` as a lease of 1 to `most` ms.
pub fn lease(option: &str, arg: &[u8], most: u64) -> Result<u64, ArgError> {
    match parse_duration(arg) {
        Some(ms) if ms > most => Err(ArgError::new(over(option, ms, most, "dq.max-lease"))),
        _ => duration(option, arg, 1, most),
    }
}

/// Reads the value of `option` as a delay of at most `most` ms. A longer one is refused with the
/// code `DQDELAY`.
pub fn delay(option: &str, arg: &[u8], most: u64) -> Result<u64, ArgError> {
    match parse_duration(arg) {
        Some(ms) if ms > most => Err(too_long(option, ms, most)),
        _ => duration(option, arg, 0, most),
    }
}

/// Returns the error for a delay of `ms`, which is over `most`.
pub fn too_long(option: &str, ms: u64, most: u64) -> ArgError {
    ArgError::with_code("DQDELAY", over(option, ms, most, "max-delay"))
}

/// Returns the error for an AT more than `most` ms ahead.
pub fn too_far(most: u64) -> ArgError {
    ArgError::with_code("DQDELAY", format_args!("AT must be at most {} (max-delay) from now", format_duration(most)))
}

/// Returns the error for a DELAY and a SPREAD that are over `most` ms together.
pub fn too_long_together(ms: u64, most: u64) -> ArgError {
    too_long("DELAY and SPREAD together", ms, most)
}

/// What a duration from `least` to `most` ms has to be.
pub fn duration_from_to(least: u64, most: u64) -> String {
    let (least, most) = (format_duration(least), format_duration(most));
    format!("a duration from {least} to {most}: a whole number of ms, which ms, s, m, h or d may follow")
}

/// The shortest form of a duration: `30s` for 30,000 ms.
pub fn format_duration(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.iter().find(|(unit, _)| ms >= *unit && ms.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

/// The value of `option` as a whole number from `least` to `most`.
pub fn count(option: &str, arg: &[u8], least: u64, most: u64) -> Result<u64, ArgError> {
    parse_int(arg)
        .and_then(|number| u64::try_from(number).ok())
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| ArgError::new(format_args!("{option} must be a whole number from {least} to {most}")))
}

/// The value of `option` as Unix time in ms. A number that is plainly one of seconds is refused.
pub fn unix_ms(option: &str, arg: &[u8]) -> Result<u64, ArgError> {
    match parse_int(arg).and_then(|number| u64::try_from(number).ok()) {
        Some(ms) if ms >= LEAST_UNIX_MS => Ok(ms),
        Some(_) => Err(ArgError::new(format_args!(
            "{option} must be Unix time in ms, at least {LEAST_UNIX_MS}: this one looks like seconds"
        ))),
        None => Err(ArgError::new(format_args!(
            "{option} must be Unix time in ms: a whole number from {LEAST_UNIX_MS} to {}",
            i64::MAX
        ))),
    }
}

/// Returns the error for an argument that is no option of `command`, which takes `options`.
pub fn unknown_option(arg: &[u8], command: &str, options: &[&str]) -> ArgError {
    ArgError::new(format_args!("unknown option '{}'; {command} takes {}", printable(arg), options.join(", ")))
}

/// Returns the error for an option that the command needs and that was not given.
pub fn missing(option: &str) -> ArgError {
    ArgError::new(format_args!("{option} is missing"))
}

/// Returns the error for a value in a place where its option is missing before it.
pub fn missing_before(option: &str, arg: &[u8]) -> ArgError {
    ArgError::new(format_args!("{option} is missing before '{}'", printable(arg)))
}

/// The error for an option given twice.
pub fn repeated_option(option: &str) -> ArgError {
    ArgError::new(format_args!("{option} may be given only once"))
}

/// The error for an option at the end of the command that needs a value.
pub fn missing_value(option: &str) -> ArgError {
    ArgError::new(format_args!("{option} needs a value"))
}

/// `bytes` as visible ASCII: every other byte as `\xNN`, a backslash too, and what follows the
/// first 64 bytes as `...`.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes.iter().take(MAX_SHOWN) {
        if byte.is_ascii_graphic() && byte != b'\\' {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    if bytes.len() > MAX_SHOWN {
        text.push_str("...");
    }
    text
}

/// A duration of `ms` that is over the `most` of a setting.
fn over(option: &str, ms: u64, most: u64, setting: &str) -> String {
    format!("{option} must be at most {} ({setting}), not {}", format_duration(most), format_duration(ms))
}

/// The ms in a unit, or `None` where there is no such unit.
fn unit_ms(unit: &[u8]) -> Option<u64> {
    const UNITS: [(&str, u64); 6] =
        [("", 1), ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let (_, ms) = UNITS.into_iter().find(|(name, _)| is(unit, name))?;
    Some(ms)
}

/// Reads one or more decimal digits and nothing else; leading zeros are allowed. `None` if the number needs more than 64
/// bits. Every decimal number that DQ reads from a client is read here.
pub fn parse_digits(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::super::names::NameError;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_with_and_without_a_unit() {
        let cases: [(&[u8], u64); 14] = [
            (b"0", 0),
            (b"30000", 30_000),
            (b"007", 7),
            (b"5ms", 5),
            (b"5MS", 5),
            (b"5mS", 5),
            (b"30s", 30_000),
            (b"30S", 30_000),
            (b"2m", 120_000),
            (b"2h", 7_200_000),
            (b"7d", 604_800_000),
            (b"7D", 604_800_000),
            (b"18446744073709551615", u64::MAX),
            (b"213503982334d", 213_503_982_334 * 86_400_000),
        ];
        for (text, ms) in cases {
            assert_eq!(parse_duration(text), Some(ms), "{}", printable(text));
        }
    }

    #[test]
    fn what_is_no_duration() {
        for text in [
            &b""[..],
            b"s",
            b"-1",
            b"+1",
            b"1.5",
            b"1.5s",
            b"1e3",
            b" 1",
            b"1 ",
            b"1 s",
            b"1s ",
            b"1ss",
            b"1us",
            b"1w",
            b"0x10",
            b"1\0",
            b"18446744073709551616",
            b"18446744073709551615s",
            b"213503982335d",
            b"99999999999999999999999999",
            "１".as_bytes(),
        ] {
            assert_eq!(parse_duration(text), None, "{}", printable(text));
        }
    }

    #[test]
    fn whole_numbers() {
        let cases: [(&[u8], Option<i64>); 18] = [
            (b"0", Some(0)),
            (b"1", Some(1)),
            (b"-1", Some(-1)),
            (b"9223372036854775807", Some(i64::MAX)),
            (b"-9223372036854775808", Some(i64::MIN)),
            (b"9223372036854775808", None),
            (b"-9223372036854775809", None),
            (b"99999999999999999999", None),
            (b"", None),
            (b"-", None),
            (b"-0", None),
            (b"00", None),
            (b"-01", None),
            (b"+1", None),
            (b"1 ", None),
            (b"--1", None),
            (b"1.0", None),
            (b"0s", None),
        ];
        for (text, number) in cases {
            assert_eq!(parse_int(text), number, "{}", printable(text));
        }
    }

    fn text<T: fmt::Debug>(result: Result<T, ArgError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn ranges_are_kept_and_named() {
        assert_eq!(duration("LEASE", b"1s", 1, 1_000), Ok(1_000));
        let expected = "ERR LEASE must be a duration from 1ms to 1s: \
                        a whole number of ms, which ms, s, m, h or d may follow";
        for arg in [&b"0"[..], b"1001", b"2s", b"-5", b"x"] {
            assert_eq!(text(duration("LEASE", arg, 1, 1_000)), expected);
        }
        assert_eq!(lease("LEASE", b"1s", 1_000), Ok(1_000));
        assert_eq!(text(lease("LEASE", b"0", 1_000)), expected);
        assert_eq!(text(lease("LEASE", b"2s", 1_000)), "ERR LEASE must be at most 1s (dq.max-lease), not 2s");
        assert_eq!(count("COUNT", b"1000", 1, 1_000), Ok(1_000));
        for arg in [&b"0"[..], b"1001", b"-1", b"1.5", b""] {
            let expected = "ERR COUNT must be a whole number from 1 to 1000";
            assert_eq!(text(count("COUNT", arg, 1, 1_000)), expected);
        }
    }

    #[test]
    fn a_delay_that_is_too_long_has_its_own_code() {
        assert_eq!(delay("DELAY", b"7d", 604_800_000), Ok(604_800_000));
        let of = |arg| text(delay("DELAY", arg, 604_800_000));
        assert_eq!(of(b"8d"), "DQDELAY DELAY must be at most 7d (max-delay), not 8d");
        assert_eq!(of(b"604800001"), "DQDELAY DELAY must be at most 7d (max-delay), not 604800001ms");
        let expected = "ERR DELAY must be a duration from 0ms to 7d: \
                        a whole number of ms, which ms, s, m, h or d may follow";
        assert_eq!(of(b"-1"), expected);
        assert_eq!(too_far(86_400_000).as_str(), "DQDELAY AT must be at most 1d (max-delay) from now");
    }

    #[test]
    fn seconds_are_refused_as_unix_ms() {
        assert_eq!(unix_ms("AT", b"100000000000"), Ok(100_000_000_000));
        assert_eq!(unix_ms("AT", b"1800000000000"), Ok(1_800_000_000_000));
        assert!(text(unix_ms("AT", b"1800000000")).ends_with("looks like seconds"));
        for arg in [&b"-1"[..], b"1.8e12", b"1800000000000ms", b"9223372036854775808"] {
            assert!(text(unix_ms("AT", arg)).starts_with("ERR AT must be Unix time in ms: "));
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let unknown = |arg| unknown_option(arg, "DQ.PEEK", &["STATE", "AFTER"]).to_string();
        assert_eq!(unknown(b"XYZ"), "ERR unknown option 'XYZ'; DQ.PEEK takes STATE, AFTER");
        assert!(unknown(b"a b\r\n\\\xff").starts_with(r"ERR unknown option 'a\x20b\x0d\x0a\x5c\xff';"));
        assert!(unknown(&[b'x'; 65]).starts_with(&format!("ERR unknown option '{}...';", "x".repeat(64))));
        assert_eq!(missing("RECEIPTS").as_str(), "ERR RECEIPTS is missing");
        assert_eq!(missing_before("STATE", b"dead").as_str(), "ERR STATE is missing before 'dead'");
        let repeated = repeated_option("DELAY").to_string();
        assert_eq!(repeated, "ERR DELAY may be given only once");
        assert_eq!(missing_value("DELAY").to_string(), "ERR DELAY needs a value");
        let name = ArgError::from(NameError::Empty).to_string();
        assert_eq!(name, "ERR the queue name is empty");
        assert_eq!(ArgError::with_code("DQFULL", "no room").as_str(), "DQFULL no room");
    }

    #[test]
    fn a_cursor_gives_each_argument_once() {
        let args = [&b"delay"[..], b"5", b"NX"];
        let mut cursor = Cursor::new(&args);
        assert_eq!((cursor.len(), cursor.peek()), (3, Some(&b"delay"[..])));
        assert!(cursor.next().is_some_and(|arg| is(arg, "DELAY")));
        assert_eq!(cursor.value("DELAY"), Ok(&b"5"[..]));
        assert_eq!(cursor.rest(), &args[2..]);
        assert_eq!(cursor.next(), Some(&b"NX"[..]));
        assert!(cursor.is_empty());
        assert_eq!(cursor.next(), None);
        assert_eq!(cursor.value("KEEP"), Err(missing_value("KEEP")));
    }

    #[test]
    fn what_a_cursor_gives_outlives_its_list() {
        let owned = b"payload".to_vec();
        let first = {
            let args = vec![&owned[..]];
            Cursor::new(&args).next()
        };
        assert_eq!(first, Some(&owned[..]));
    }

    #[test]
    fn an_option_is_taken_once() {
        let mut slot = Once::default();
        assert!(!slot.is_set());
        assert_eq!(slot.set("LEASE", 1), Ok(()));
        assert_eq!(slot.set("LEASE", 2), Err(repeated_option("LEASE")));
        assert!(slot.is_set());
        assert_eq!(slot.get(), Some(1));
    }

    #[test]
    fn words_match_in_any_case_and_whole() {
        assert!(is(b"Delay", "DELAY"));
        assert!(!is(b"DELAYS", "DELAY"));
        assert!(!is(b"DELA", "DELAY"));
        assert!(!is(b"", "DELAY"));
    }

    proptest! {
        #[test]
        fn a_duration_is_its_number_times_its_unit(
            number: u64, zeros in 0..3_usize,
            unit in prop::sample::select(vec![
                ("", 1_u64), ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000),
                ("d", 86_400_000), ("M", 60_000), ("Ms", 1), ("H", 3_600_000),
            ]),
        ) {
            let text = format!("{}{number}{}", "0".repeat(zeros), unit.0);
            prop_assert_eq!(parse_duration(text.as_bytes()), number.checked_mul(unit.1));
        }

        #[test]
        fn every_i64_comes_back(number: i64) {
            prop_assert_eq!(parse_int(number.to_string().as_bytes()), Some(number));
        }

        #[test]
        fn only_the_plain_spelling_is_an_int(text in "[-+ 0-9.]{0,21}") {
            if let Some(number) = parse_int(text.as_bytes()) {
                prop_assert_eq!(number.to_string(), text);
            }
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse_int(&bytes);
            let _ = parse_duration(&bytes);
            let shown = printable(&bytes);
            prop_assert!(shown.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert!(shown.len() <= 4 * MAX_SHOWN + 3);
        }

        #[test]
        fn a_range_lets_in_what_lies_in_it(number: u32, least: u32, most: u32) {
            let [number, least, most] = [number, least, most].map(u64::from);
            let inside = (least..=most).contains(&number);
            let arg = number.to_string();
            prop_assert_eq!(count("N", arg.as_bytes(), least, most).ok(), inside.then_some(number));
            prop_assert_eq!(
                duration("N", arg.as_bytes(), least, most).ok(),
                inside.then_some(number)
            );
        }
    }
}

//! The arguments of commands: numbers, durations, times. The bytes are words, each on a line of its own.

use dq::core::args::*;

pub fn run(data: &[u8]) {
    let words: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let mut cursor = Cursor::new(&words);
    let mut once = Once::default();
    for word in cursor.by_ref() {
        assert_eq!(parse_int(word), reference_int(word));
        assert_eq!(parse_duration(word), reference_duration(word));
        ranges(word, data.len() as u64 * 1000);
        let shown = printable(word);
        assert!(shown.bytes().all(|byte| byte.is_ascii_graphic()) && shown.len() <= 4 * 64 + 3);
        let first = !once.is_set();
        assert_eq!(once.set("OPTION", word).is_ok(), first);
    }
    assert!(cursor.value("OPTION").is_err());
    assert_eq!(once.get(), words.first().copied());
}

/// Readers with a range let in what lies in it and name it in the error.
fn ranges(word: &[u8], most: u64) {
    let number = parse_int(word).and_then(|number| u64::try_from(number).ok()).filter(|n| (1..=most).contains(n));
    judge(count("COUNT", word, 1, most), number, "ERR COUNT ");
    let ms = parse_duration(word);
    judge(duration("LEASE", word, 1, most), ms.filter(|ms| (1..=most).contains(ms)), "ERR LEASE ");
    let code = if ms.is_some() { "DQDELAY" } else { "ERR" };
    judge(delay("DELAY", word, most), ms.filter(|ms| *ms <= most), &format!("{code} DELAY "));
    if let Ok(ms) = unix_ms("AT", word) {
        assert!(ms >= 100_000_000_000);
    }
}

fn judge(result: Result<u64, ArgError>, expected: Option<u64>, error: &str) {
    match result {
        Ok(value) => assert_eq!(Some(value), expected),
        Err(text) => assert!(expected.is_none() && text.as_str().starts_with(error) && text.as_str().is_ascii()),
    }
}

/// A number has the one spelling that it is written in.
fn reference_int(word: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == word).then_some(number)
}

fn reference_duration(word: &[u8]) -> Option<u64> {
    let lower = std::str::from_utf8(word).ok()?.to_ascii_lowercase();
    let digits = lower.trim_start_matches(|c: char| c.is_ascii_digit());
    let (number, unit) = lower.split_at(lower.len() - digits.len());
    let ms: u128 = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    // Leading zeros are nothing; what is longer than that is beyond 64 bits.
    let short = number.trim_start_matches('0');
    if number.is_empty() || short.len() > 20 {
        return None;
    }
    let number: u128 = if short.is_empty() { 0 } else { short.parse().ok()? };
    u64::try_from(number).ok()?;
    u64::try_from(number * ms).ok()
}

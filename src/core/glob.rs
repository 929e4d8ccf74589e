//! Patterns of names, as KEYS of the server takes them.

/// Whether all of `text` matches: `*` stands for any bytes, `?` for one, `[a-c]` for one of these, `[^a]` for one that is
/// none of these; a backslash takes what follows it as it is.
///
/// O(pattern · text) at worst: only the last `*` is ever tried again.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut at) = (pattern, 0);
    let mut again: Option<(&[u8], usize)> = None;
    while at < text.len() || !rest.is_empty() {
        if let [b'*', behind @ ..] = rest {
            again = Some((behind, at));
            rest = behind;
            continue;
        }
        match text.get(at).and_then(|byte| match_one(rest, *byte)) {
            Some(behind) => {
                rest = behind;
                at += 1;
            }
            None => match again {
                Some((behind, from)) if from < text.len() => {
                    again = Some((behind, from + 1));
                    rest = behind;
                    at = from + 1;
                }
                _ => return false,
            },
        }
    }
    true
}

/// The rest of `pattern` behind its first element, where `byte` matches that.
fn match_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => match_class(rest, byte),
        [b'\\', wanted, rest @ ..] | [wanted, rest @ ..] => (*wanted == byte).then_some(rest),
        [] => None,
    }
}

/// As `match_one`, behind a `[`. One that is not closed ends with the pattern.
fn match_class(class: &[u8], byte: u8) -> Option<&[u8]> {
    let negated = class.first() == Some(&b'^');
    let mut rest = &class[usize::from(negated)..];
    let mut found = false;
    loop {
        match rest {
            [] => break,
            [b']', behind @ ..] => {
                rest = behind;
                break;
            }
            [b'\\', wanted, behind @ ..] => {
                found |= *wanted == byte;
                rest = behind;
            }
            [from, b'-', to, behind @ ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest = behind;
            }
            [wanted, behind @ ..] => {
                found |= *wanted == byte;
                rest = behind;
            }
        }
    }
    (found != negated).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_keys_does() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "abc"], &[]),
            ("a*", &["a", "abc"], &["", "ba"]),
            ("*a", &["a", "ba", "aa"], &["", "ab"]),
            ("a*b*c", &["abc", "axbxc", "abbcc", "abcbc"], &["ab", "acb", "abcx"]),
            ("a?c", &["abc", "a?c"], &["ac", "abbc"]),
            ("[ab]x", &["ax", "bx"], &["cx", "x", "[x"]),
            ("[a-c]x", &["ax", "bx", "cx"], &["dx", "-x"]),
            ("[c-a]x", &["bx"], &["dx"]),
            ("[^a-c]x", &["dx", "-x"], &["ax", "x"]),
            ("[\\]]", &["]"], &["\\", "a"]),
            ("\\*", &["*"], &["a", ""]),
            ("\\", &["\\"], &["a"]),
            ("[ab", &["a", "b"], &["[", "ab"]),
            ("[", &[], &["[", "a", ""]),
            ("mail:*:[0-9]", &["mail:x:1", "mail:::9"], &["mail:x:", "mail:x:10"]),
        ] {
            for text in yes {
                assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
            }
            for text in no {
                assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
            }
        }
        assert!(matches(b"?\xff\0", b"\0\xff\0"));
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern: Vec<u8> = b"*a".repeat(2000);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &b"a".repeat(4096)));
    }
}

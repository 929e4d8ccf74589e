//! Foreign bytes as text that shows what it is: nothing invisible, nothing that turns the line around.

use std::fmt::Write;

/// The text as a person reads it: control characters as their pictures, what is invisible or changes the direction of
/// the text by its number, bytes that are no UTF-8 as `\xNN`. Line ends and tabs stay.
pub fn visible(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            push(&mut out, letter);
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// The same in one line of at most so many characters.
pub fn line(bytes: &[u8], most: usize) -> String {
    // No character has more than four bytes.
    let start = &bytes[..bytes.len().min(most * 4)];
    let whole = visible(start);
    let mut letters = whole.chars().map(|letter| if matches!(letter, '\n' | '\t' | '\r') { ' ' } else { letter });
    let mut short: String = letters.by_ref().take(most).collect();
    if letters.next().is_some() || start.len() < bytes.len() {
        short.push('…');
    }
    short
}

fn push(out: &mut String, letter: char) {
    match letter {
        '\n' | '\t' => out.push(letter),
        '\r' => out.push('␍'),
        '\0'..='\u{1f}' => out.push(char::from_u32(0x2400 + letter as u32).unwrap_or('\u{fffd}')),
        '\u{7f}' => out.push('␡'),
        _ if is_hidden(letter) => {
            let _ = write!(out, "⟨U+{:04X}⟩", letter as u32);
        }
        _ => out.push(letter),
    }
}

/// What has no shape of its own, or turns the direction of what stands around it.
fn is_hidden(letter: char) -> bool {
    matches!(letter,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(visible(b"a\0b\x1b[31m\r\n\tc"), "a␀b␛[31m␍\n\tc");
        assert_eq!(visible("invoice\u{202e}gnp.exe\u{200b}".as_bytes()), "invoice⟨U+202E⟩gnp.exe⟨U+200B⟩");
        assert_eq!(visible(b"caf\xc3\xa9 \xff\xfe"), "café \\xff\\xfe");
        assert_eq!(visible("größe 日本語 🦀".as_bytes()), "größe 日本語 🦀");
    }

    #[test]
    fn a_line_is_short_and_one() {
        assert_eq!(line(b"one\ntwo", 20), "one two");
        assert_eq!(line(&[b'x'; 100], 3), "xxx…");
        assert_eq!(line("ééé".as_bytes(), 3), "ééé");
        assert_eq!(line(b"", 3), "");
    }
}

//! A payload in the ways in which a person can read it.

use serde::Serialize;
use serde_json::Value as Json;

use crate::visible::visible;

/// What is shown of one payload; the whole of it can be downloaded.
const MOST: usize = 64 * 1024;
/// Bytes that are shown as hex, sixteen a line.
const HEX: usize = 8 * 1024;
/// Levels of lists within lists.
const DEPTH: usize = 64;

/// One payload.
#[derive(Serialize, Default)]
pub struct Views {
    pub bytes: usize,
    /// The view that fits best: `json`, `text`, `msgpack` or `hex`.
    pub best: &'static str,
    pub text: String,
    pub json: Option<String>,
    pub msgpack: Option<String>,
    pub hex: String,
    /// Whether a view shows only the beginning.
    pub cut: bool,
}

pub fn views(bytes: &[u8]) -> Views {
    let json = json(bytes).map(shorten);
    let msgpack = msgpack(bytes).map(shorten);
    Views {
        bytes: bytes.len(),
        best: best(bytes, json.is_some(), msgpack.is_some()),
        text: visible(&bytes[..bytes.len().min(MOST)]),
        json,
        msgpack,
        hex: hex(&bytes[..bytes.len().min(HEX)]),
        cut: bytes.len() > MOST,
    }
}

/// Text of a few letters can be MessagePack by chance: it counts only where the bytes are no text.
fn best(bytes: &[u8], is_json: bool, is_msgpack: bool) -> &'static str {
    let is_text =
        std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(|c: char| c.is_control() && !c.is_whitespace()));
    match () {
        () if is_json && matches!(bytes.trim_ascii().first(), Some(b'{' | b'[')) => "json",
        () if is_text => "text",
        () if is_msgpack => "msgpack",
        () if std::str::from_utf8(bytes).is_ok() => "text",
        () => "hex",
    }
}

/// JSON with a line for each element; numbers as they were written.
fn json(bytes: &[u8]) -> Option<String> {
    let value: Json = serde_json::from_slice(bytes).ok()?;
    let pretty = serde_json::to_string_pretty(&value).ok()?;
    Some(visible(pretty.as_bytes()))
}

fn msgpack(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    let value = rmpv::decode::read_value_with_max_depth(&mut rest, DEPTH).ok()?;
    if !rest.is_empty() || bytes.is_empty() {
        return None;
    }
    let mut out = String::new();
    write(&mut out, &value, 0);
    Some(out)
}

/// Writes a value in the manner of JSON, with bytes as hex and extensions by their number.
fn write(out: &mut String, value: &rmpv::Value, level: usize) {
    use rmpv::Value;
    if out.len() > MOST {
        return;
    }
    match value {
        Value::Nil => out.push_str("null"),
        Value::String(text) => out.push_str(&quoted(text.as_bytes())),
        Value::Binary(bytes) => out.push_str(&format!("bytes({})", joined(&bytes[..bytes.len().min(MOST)]))),
        Value::Ext(kind, bytes) => out.push_str(&format!("ext({kind}, {})", joined(&bytes[..bytes.len().min(MOST)]))),
        Value::Array(items) => list(out, ('[', ']'), level, items.len(), |out, at| write(out, &items[at], level + 1)),
        Value::Map(items) => list(out, ('{', '}'), level, items.len(), |out, at| {
            write(out, &items[at].0, level + 1);
            out.push_str(": ");
            write(out, &items[at].1, level + 1);
        }),
        other => out.push_str(&other.to_string()),
    }
}

fn list(
    out: &mut String,
    (open, close): (char, char),
    level: usize,
    count: usize,
    element: impl Fn(&mut String, usize),
) {
    out.push(open);
    for at in 0..count {
        if out.len() > MOST {
            break;
        }
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(level + 1));
        element(out, at);
    }
    if count > 0 {
        out.push('\n');
        out.push_str(&"  ".repeat(level));
    }
    out.push(close);
}

fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    visible(serde_json::to_string(&text).unwrap_or_default().as_bytes())
}

fn joined(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// The place, sixteen bytes, and what of them is ASCII, a line each.
fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).enumerate().map(|(number, chunk)| {
        let ascii: String =
            chunk.iter().map(|byte| if (b' '..=b'~').contains(byte) { *byte as char } else { '·' }).collect();
        format!("{:06x}  {:<47}  {ascii}", number * 16, joined(chunk))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn shorten(text: String) -> String {
    match text.char_indices().map(|(at, _)| at).find(|at| *at > MOST) {
        Some(end) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_known_by_its_bytes() {
        assert_eq!(views(b"{\"to\":\"ann\",\"n\":1.50}").best, "json");
        assert_eq!(
            views(b"{\"to\":\"ann\",\"n\":1.50}").json.as_deref(),
            Some("{\n  \"to\": \"ann\",\n  \"n\": 1.50\n}")
        );
        assert_eq!(views(b"hello").best, "text");
        assert_eq!(views(b"").best, "text");
        assert_eq!(views(b"\xff\xfe\x00").best, "hex");
        let packed = b"\x82\xa2to\xa3ann\xa1n\xc4\x02\x00\xff";
        assert_eq!(views(packed).best, "msgpack");
        let shown = "{\n  \"to\": \"ann\",\n  \"n\": bytes(00 ff)\n}";
        assert_eq!(views(packed).msgpack.as_deref(), Some(shown));
    }

    #[test]
    fn hex_has_sixteen_bytes_a_line() {
        let shown = views(&(0..20).collect::<Vec<u8>>()).hex;
        assert_eq!(shown.lines().count(), 2);
        assert!(shown.starts_with("000000  00 01 02 03"), "{shown}");
        assert!(shown.ends_with("10 11 12 13                                      ····"), "{shown:?}");
    }

    #[test]
    fn what_is_hostile_does_no_harm() {
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        assert_eq!(views(&deep).json, None);
        assert_eq!(views(&vec![0x91; 100_000]).msgpack, None);
        // An array that claims to have four billion elements.
        assert_eq!(views(b"\xdd\xff\xff\xff\xff").msgpack, None);
        let large = views(&vec![b'x'; 1 << 20]);
        assert!(large.cut && large.text.len() == MOST && large.bytes == 1 << 20);
        assert_eq!(views("\"\u{202e}\"".as_bytes()).json.as_deref(), Some("\"⟨U+202E⟩\""));
    }
}

//! What the server answered, read without trust: a reply of another shape than expected is a default, never a panic.

use redis::Value;

/// The bytes of a string; of anything else none.
pub fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.as_bytes(),
        Value::VerbatimString { text, .. } => text.as_bytes(),
        Value::Okay => b"OK",
        _ => b"",
    }
}

pub fn text(value: &Value) -> String {
    String::from_utf8_lossy(bytes(value)).into_owned()
}

pub fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        other => std::str::from_utf8(bytes(other)).ok().and_then(|text| text.parse().ok()).unwrap_or(0),
    }
}

pub fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => &[],
    }
}

/// The fields and values of a map, which RESP2 sends as a flat array.
pub fn pairs(value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (text(name), value)).collect(),
        other => list(other).chunks_exact(2).map(|pair| (text(&pair[0]), &pair[1])).collect(),
    }
}

/// One field of INFO.
pub fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

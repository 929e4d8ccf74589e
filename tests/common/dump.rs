//! The whole keyspace, read by plain commands, to be compared.

use std::collections::BTreeMap;
use std::fmt;

use redis::{Connection, Value};

use super::{bytes, text};

/// What one key holds.
#[derive(Clone, PartialEq)]
pub enum Content {
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Members with their scores as the server writes them.
    Zset(Vec<(Vec<u8>, String)>),
    Other(String, Vec<u8>),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Hash(map) => f.debug_map().entries(map.iter().map(|(k, v)| (show(k), show(v)))).finish(),
            Content::Zset(list) => f.debug_list().entries(list.iter().map(|(k, v)| (show(k), v))).finish(),
            Content::Other(kind, dump) => write!(f, "{kind} {}", show(dump)),
        }
    }
}

/// Bytes for a message: visible ASCII as it is, cut at 200.
pub fn show(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(200)];
    let dots = if cut.len() < bytes.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_ascii())
}

/// Every key of every database, with whether it expires.
#[derive(Clone, PartialEq, Default)]
pub struct Keyspace(pub BTreeMap<(i64, Vec<u8>), (Content, bool)>);

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((db, key), (content, expires)) in &self.0 {
            let expires = if *expires { " (expires)" } else { "" };
            writeln!(f, "\n{db} {}{expires}: {content:?}", show(key))?;
        }
        Ok(())
    }
}

/// Reads every key of every database; the connection is in database 0 afterwards.
pub fn dump(con: &mut Connection) -> Keyspace {
    let mut all = Keyspace::default();
    let info = text(&redis::cmd("INFO").arg("keyspace").query::<Value>(con).expect("INFO answers"));
    let dbs: Vec<i64> =
        info.lines().filter_map(|line| line.strip_prefix("db")?.split(':').next()?.parse().ok()).collect();
    for db in dbs {
        select(con, db);
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(con).expect("KEYS answers");
        for key in keys {
            // Read in one step, so that a timer cannot come between type and content.
            if let Some(found) = content(con, &key) {
                let expires: i64 = redis::cmd("PTTL").arg(&key).query(con).expect("PTTL answers");
                all.0.insert((db, key), (found, expires >= 0));
            }
        }
    }
    select(con, 0);
    all
}

fn select(con: &mut Connection, db: i64) {
    redis::cmd("SELECT").arg(db).exec(con).expect("SELECT answers");
}

/// What `key` holds, or None where it is gone.
pub fn content(con: &mut Connection, key: &[u8]) -> Option<Content> {
    let kind: String = redis::cmd("TYPE").arg(key).query(con).expect("TYPE answers");
    Some(match kind.as_str() {
        "none" => return None,
        "hash" => Content::Hash(redis::cmd("HGETALL").arg(key).query(con).ok()?),
        "zset" => Content::Zset(redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES").query(con).ok()?),
        _ => {
            let dump: Value = redis::cmd("DUMP").arg(key).query(con).expect("DUMP answers");
            Content::Other(kind, bytes(&dump))
        }
    })
}

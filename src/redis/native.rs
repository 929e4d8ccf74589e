//! The server's own commands that DQ depends on: those that it hands to the AOF and the replicas, and those that it calls.
//!
//! The server looks each up by its name. If `rename-command` in redis.conf has removed or renamed one, a call fails and
//! an effect is not written, without an error. So every name is listed here, and DQ asks for all of them when it loads.

use super::rights::{right_of, Right};
use super::text::Text;
use super::{random, Ctx};
use std::ffi::{c_char, CStr};

/// A command of the server's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeCommand {
    Client,
    Config,
    Echo,
    Exec,
    Exists,
    Hdel,
    Hset,
    Info,
    Memory,
    Multi,
    Select,
    Unlink,
    Zadd,
    Zcount,
    Zrange,
    Zrem,
    Zremrangebyrank,
}

use NativeCommand::*;

impl NativeCommand {
    const ALL: [NativeCommand; 17] = [
        Client,
        Config,
        Echo,
        Exec,
        Exists,
        Hdel,
        Hset,
        Info,
        Memory,
        Multi,
        Select,
        Unlink,
        Zadd,
        Zcount,
        Zrange,
        Zrem,
        Zremrangebyrank,
    ];

    /// The effects of DQ. The server writes each step of them as one transaction.
    const EFFECTS: [NativeCommand; 5] = [Hdel, Hset, Unlink, Zadd, Zrem];

    pub(super) const fn c_name(self) -> &'static CStr {
        match self {
            Client => c"CLIENT",
            Config => c"CONFIG",
            Echo => c"ECHO",
            Exec => c"EXEC",
            Exists => c"EXISTS",
            Hdel => c"HDEL",
            Hset => c"HSET",
            Info => c"INFO",
            Memory => c"MEMORY",
            Multi => c"MULTI",
            Select => c"SELECT",
            Unlink => c"UNLINK",
            Zadd => c"ZADD",
            Zcount => c"ZCOUNT",
            Zrange => c"ZRANGE",
            Zrem => c"ZREM",
            Zremrangebyrank => c"ZREMRANGEBYRANK",
        }
    }

    pub(super) fn as_ptr(self) -> *const c_char {
        self.c_name().as_ptr()
    }

    /// The name in upper case.
    pub fn name(self) -> &'static str {
        self.c_name().to_str().unwrap_or_default()
    }

    /// A complete call, as far as the command has a key with that key.
    fn example(self, key: &[u8]) -> Vec<&[u8]> {
        let name = self.c_name().to_bytes();
        match self {
            Exec | Info | Multi => vec![name],
            Client => vec![name, b"LIST"],
            Config => vec![name, b"GET", b"appendonly"],
            Memory => vec![name, b"USAGE", key],
            Echo => vec![name, b""],
            Select => vec![name, b"0"],
            Exists | Unlink => vec![name, key],
            Hdel | Zrem => vec![name, key, b"member"],
            Hset => vec![name, key, b"field", b"value"],
            Zadd => vec![name, key, b"0", b"member"],
            Zcount => vec![name, key, b"-inf", b"+inf"],
            Zrange => vec![name, key, b"0", b"0"],
            Zremrangebyrank => vec![name, key, b"1", b"0"],
        }
    }
}

/// The user that the server loads an AOF as.
fn default_user() -> Text {
    Text::new(b"default")
}

/// The first command that DQ depends on and the server does not have.
pub fn missing_command() -> Option<NativeCommand> {
    let user = default_user();
    let is_missing = |command: &NativeCommand| right_of(&user, &command.example(b"key")) == Right::NoSuchCommand;
    NativeCommand::ALL.into_iter().find(is_missing)
}

/// The first command of an AOF with queues in these databases that the server would refuse when it loads it: the
/// commands of a transaction are run as the user `default`. Asked for a queue of any name, so rights on some names only
/// are not enough.
pub fn refused_in_aof(databases: impl IntoIterator<Item = i32>) -> Option<NativeCommand> {
    let user = default_user();
    let may = |words: &[&[u8]]| right_of(&user, words) == Right::Granted;
    // No pattern that somebody wrote down names this queue, unless it names them all.
    let queue = format!("{:016x}", random());
    let companion = format!("dq:{{{queue}}}:due");
    let keys = [queue.as_bytes(), companion.as_bytes()];
    let refused = |command: &NativeCommand| keys.iter().any(|key| !may(&command.example(key)));
    // A transaction selects its database itself.
    let selects = |database: i32| may(&[Select.c_name().to_bytes(), database.to_string().as_bytes()]);
    if !databases.into_iter().all(selects) {
        return Some(Select);
    }
    NativeCommand::EFFECTS.into_iter().find(refused)
}

/// The first Valkey that is known to load an AOF whatever the rights of its default user are. Others do, too, from some
/// version on; of those that were not tried DQ assumes that they do not.
const LOADS_WITHOUT_RIGHTS: [u32; 3] = [9, 1, 2];

impl Ctx {
    /// Whether the server loads an AOF whatever the rights of its default user are.
    pub fn loads_aof_without_rights(&self) -> bool {
        loads_without_rights(&self.info_text(c"server"))
    }
}

fn loads_without_rights(info: &str) -> bool {
    let Some(version) = info.lines().find_map(|line| line.strip_prefix("valkey_version:")) else { return false };
    let parts: Vec<u32> = version.trim().split('.').map_while(|part| part.parse().ok()).collect();
    parts.len() == 3 && parts[..] >= LOADS_WITHOUT_RIGHTS[..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_command_is_in_the_list_of_all() {
        let mut names = NativeCommand::ALL.map(NativeCommand::name);
        names.sort_unstable();
        assert_eq!(names, NativeCommand::ALL.map(NativeCommand::name), "in order and once");
        // One more than the last is no command: `ALL` ends with it.
        assert_eq!(NativeCommand::ALL.len(), Zremrangebyrank as usize + 1);
        assert!(NativeCommand::EFFECTS.iter().all(|command| NativeCommand::ALL.contains(command)));
    }

    #[test]
    fn servers_that_load_an_aof_without_rights() {
        let valkey = |version| loads_without_rights(&format!("redis_version:7.2.4\r\nvalkey_version:{version}\r\n"));
        assert!(["9.1.2", "9.1.10", "9.2.0", "10.0.0"].into_iter().all(valkey));
        assert!(!["9.1.1", "9.0.12", "8.1.99", "9.1", "", "x"].into_iter().any(valkey));
        assert!(!loads_without_rights("redis_version:9.9.9\r\n"));
    }

    #[test]
    fn no_command_is_called_past_the_list() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/redis");
        // Joined here, so that this line is none of them.
        let call = ["RedisModule", "_Call("].concat();
        let mut calls = 0;
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            if path.ends_with("rights.rs") {
                // Its dry runs are of DQ's own commands.
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source");
            for call in text.split(&call).skip(1) {
                let name = call.split(',').nth(1).unwrap_or_default().trim();
                assert!(name.starts_with("NativeCommand::"), "{}: {name}", path.display());
                calls += 1;
            }
        }
        assert!(calls > 5, "{calls} calls");
    }
}

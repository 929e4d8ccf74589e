//! What INFO tells of a server.

use serde::Serialize;

use crate::reply::info_field;
use crate::sample::now_ms;

#[derive(Clone, Default, Serialize)]
pub struct Facts {
    pub address: String,
    /// "Redis 7.0.15".
    pub program: String,
    pub module: String,
    /// Queue time less the time of this machine, in ms: what due times are to be measured by.
    pub ahead_ms: i64,
    pub uptime_s: i64,
    pub primary: bool,
    /// What one should know of it, in plain words.
    pub notes: Vec<String>,
}

/// The sections that `Facts::of` reads.
pub const SECTIONS: [&str; 4] = ["server", "replication", "memory", "dq"];

impl Facts {
    pub fn of(address: &str, info: &str) -> Facts {
        let text = |name| info_field(info, name).unwrap_or_default().to_string();
        let number = |name| info_field(info, name).and_then(|text| text.parse::<i64>().ok());
        let program = match info_field(info, "valkey_version") {
            Some(version) => format!("Valkey {version}"),
            None => format!("Redis {}", text("redis_version")),
        };
        let server_ms = number("server_time_usec").map_or(now_ms() as i64, |us| us / 1000);
        Facts {
            address: address.to_string(),
            program,
            module: text("dq_version"),
            ahead_ms: server_ms - number("dq_clock_offset_ms").unwrap_or(0) - now_ms() as i64,
            uptime_s: number("uptime_in_seconds").unwrap_or(0),
            primary: info_field(info, "role") != Some("slave"),
            notes: notes(number, info_field(info, "role")),
        }
    }
}

fn notes(number: impl Fn(&'static str) -> Option<i64>, role: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(text);
    let is = |name, value| number(name) == Some(value);
    if role == Some("slave") {
        note("is a replica: it shows jobs, and changes nothing".to_string());
    } else if is("dq_acting", 0) {
        note("does not act: dq.enabled is no, or it is loading. No claim is served and no lease ends".to_string());
    } else if is("dq_takes_writes", 0) {
        note("takes no writes now: they are paused, or refused for want of replicas or disk".to_string());
    }
    if is("dq_aof_loadable", 0) {
        note(
            "the next restart can lose all jobs: the user default lacks the rights to load the append-only file"
                .to_string(),
        );
    }
    if let Some(full) = number("dq_queues_full").filter(|full| *full > 0) {
        note(format!("{full} queues are full: pushes are refused with DQFULL"));
    }
    if is("dq_clock_held", 1) {
        note("the system's clock is more than 10 minutes off queue time".to_string());
    }
    let (used, most) = (number("used_memory").unwrap_or(0), number("maxmemory").unwrap_or(0));
    if most > 0 && used * 10 > most * 9 {
        note(format!("memory is {} % full: at 100 % pushes are refused with OOM", used * 100 / most));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_tells_what_it_is_and_what_is_the_matter() {
        let info = "redis_version:7.0.15\r\nrole:master\r\ndq_version:0.1.0\r\ndq_acting:0\r\nused_memory:95\r\nmaxmemory:100\r\n";
        let facts = Facts::of("a:1", info);
        assert_eq!((facts.program.as_str(), facts.module.as_str(), facts.primary), ("Redis 7.0.15", "0.1.0", true));
        assert!(facts.notes[0].starts_with("does not act"), "{:?}", facts.notes);
        assert!(facts.notes[1].starts_with("memory is 95 %"), "{:?}", facts.notes);
        let shut = Facts::of("a:1", "role:master\r\ndq_acting:1\r\ndq_aof_loadable:0\r\n");
        assert!(shut.notes[0].starts_with("the next restart can lose all jobs"), "{:?}", shut.notes);
        let replica = Facts::of("a:1", "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\nrole:slave\r\ndq_acting:0\r\n");
        assert_eq!((replica.program.as_str(), replica.notes.len()), ("Valkey 9.1.2", 1));
    }
}

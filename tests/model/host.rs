//! The server that histories run on, its replica, and the clock that the test holds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::args;
use crate::clock::FrozenClock;
use crate::common::queue::companion_key;
use crate::common::{text, wait_for, Server};
use crate::look::reply_of;
use crate::ops::{Restart, Via};
use crate::reference::openings::Openings;
use crate::reference::{server_settings, Numbers};
use crate::settings;

pub type Reply = Result<Value, String>;

/// The settings that every history begins with: small enough that all of them matter within a few steps.
pub const SETTINGS: [(&str, u64); 15] = [
    ("lease", 1000),
    ("max-lease", 86_400_000),
    ("max-retries", 3),
    ("max-lapses", 3),
    ("backoff-base", 10),
    ("backoff-cap", 100),
    ("max-delay", 120_000),
    ("max-error", 10),
    ("stale-after", 1000),
    ("dead-max", 5),
    ("dead-max-age", 60_000),
    ("id-keep", 5000),
    ("purge-interval", 1709),
    ("takeover-grace", 0),
    ("idle-queue-ttl", 10_000),
];

/// A queue beside those of the histories: its lease ends when a turn has come.
const TICK: &[u8] = b"tick";

/// A server and what goes with it.
pub struct Host {
    pub server: Server,
    pub replica: Server,
    pub clock: FrozenClock,
    pub con: Connection,
    pub replica_con: Connection,
    tick: String,
    /// Queue time in µs.
    pub now_us: u64,
    pub openings: Openings,
    pub numbers: Numbers,
    /// How long what must come may take.
    pub patience: Duration,
    /// What the histories came to, as far as it is counted.
    pub met: BTreeMap<&'static str, u64>,
    /// How many histories it has seen.
    pub rounds: u64,
}

impl Host {
    pub fn start() -> Host {
        let clock = FrozenClock::new();
        // What was written survives kill -9 without fsync, too.
        let aof = Server::with_grace().line("appendonly yes").line("appendfsync no");
        let mut builder = clock.rules(aof);
        for (name, value) in SETTINGS {
            builder = builder.set(name, &settings::setting(name).show(value));
        }
        let server = builder.start();
        let replica = Server::builder().replica_of(&server).start();
        let (con, replica_con) = (server.conn(), replica.conn());
        let now_us = clock.wall_us();
        let mut host = Host {
            server,
            replica,
            clock,
            con,
            replica_con,
            tick: String::new(),
            now_us,
            openings: Openings::default(),
            numbers: Numbers::default(),
            patience: Duration::from_secs(20),
            met: BTreeMap::new(),
            rounds: 0,
        };
        host.await_first_turn();
        host.make_tick();
        host.replica.catch_up(&host.server);
        host
    }

    /// The settings by which the server was started.
    pub fn settings() -> BTreeMap<&'static str, u64> {
        server_settings(&SETTINGS)
    }

    fn make_tick(&mut self) {
        self.must(args!["DQ.CONFIG", TICK, "SET", "stale-policy", "keep", "max-lapses", 1_000_000, "max-leased", 0]);
        self.must(args!["DQ.PUSH", TICK, "x", "ID", "tick"]);
        let claimed = self.must(args!["DQ.CLAIM", TICK, "LEASE", 1]);
        match claimed {
            Value::Array(jobs) => match &jobs[0] {
                Value::Array(job) => self.tick = text(&job[0]),
                other => panic!("no job: {other:?}"),
            },
            other => panic!("no job: {other:?}"),
        }
    }

    /// Sends a command.
    pub fn call(&mut self, words: &[Vec<u8>]) -> Reply {
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| {
            command.arg(word);
        });
        reply_of(command.query(&mut self.con))
    }

    /// Sends a command alone, or within a transaction or a script.
    pub fn call_via(&mut self, words: &[Vec<u8>], via: Via) -> Reply {
        match via {
            Via::Plain => self.call(words),
            Via::Script => {
                let script = "#!lua flags=allow-oom\nreturn redis.call(unpack(ARGV))";
                self.call(&[args!["EVAL", script, 0], words.to_vec()].concat())
            }
            Via::Multi => {
                self.call(&args!["MULTI"])?;
                if let Err(error) = self.call(words) {
                    let _ = self.call(&args!["DISCARD"]);
                    return Err(error);
                }
                match self.call(&args!["EXEC"])? {
                    Value::Array(mut replies) if replies.len() == 1 => reply_of(Ok(replies.remove(0))),
                    other => panic!("EXEC answered {other:?}"),
                }
            }
        }
    }

    /// A command that must succeed.
    pub fn must(&mut self, words: Vec<Vec<u8>>) -> Value {
        let shown: Vec<String> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
        self.call(&words).unwrap_or_else(|e| panic!("{shown:?}: {e}"))
    }

    /// Sets settings of the server.
    pub fn set(&mut self, values: &BTreeMap<&'static str, u64>) {
        let mut words = args!["CONFIG", "SET"];
        // A queue alone has max-leased.
        for (name, value) in values.iter().filter(|(name, _)| **name != "max-leased") {
            words.extend(args![format!("dq.{name}"), settings::setting(name).show(*value)]);
        }
        self.must(words);
    }

    /// Lets time pass. `turns`: turns come, and do what is due; `max_lease` is the server's.
    pub fn pass(&mut self, us: u64, turns: bool, max_lease: u64) -> Result<(), String> {
        let ms = ((self.now_us + us) / 1000).saturating_sub(self.now_us.div_ceil(1000));
        if turns {
            let too_long = ms > max_lease;
            if too_long {
                self.set(&BTreeMap::from([("max-lease", ms)]));
            }
            self.must(args!["DQ.EXTEND", TICK, ms, &self.tick]);
            if too_long {
                self.set(&BTreeMap::from([("max-lease", max_lease)]));
            }
        }
        self.now_us += us;
        self.clock.pass(us);
        if turns {
            self.await_turn()?;
        }
        Ok(())
    }

    /// Waits for the turn in which the lease in the queue `tick` ends: what was due before that is done.
    fn await_turn(&mut self) -> Result<(), String> {
        let (end, key) = (Instant::now() + self.patience, companion_key(TICK, "leased"));
        while self.must(args!["EXISTS", &key]) != Value::Int(0) {
            if Instant::now() > end {
                return Err("no turn comes".into());
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        Ok(())
    }

    fn await_first_turn(&mut self) {
        wait_for("the first turn", || turns(&self.server) > 0);
    }

    /// Ends the server and starts it again, or has it load its data anew; `acts`: it takes turns then.
    pub fn restart(&mut self, how: Restart, acts: bool) {
        match how {
            Restart::Crash => self.server.crash_and_restart(),
            Restart::Shutdown => {
                let _ = self.call(&args!["PING"]);
                let _: redis::RedisResult<Value> = redis::cmd("SHUTDOWN").query(&mut self.con);
                self.server.ended();
                self.server.start_again();
            }
            Restart::Reload => {
                self.must(args!["DEBUG", "RELOAD"]);
            }
        }
        let port = self.server.port;
        self.replica.run(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
        self.con = self.server.conn();
        let before = if matches!(how, Restart::Reload) { turns(&self.server) } else { 0 };
        wait_for("a turn after the start", || !acts || turns(&self.server) > before);
        if !matches!(how, Restart::Reload) {
            self.now_us = self.clock.wall_us();
        }
        self.replica.catch_up(&self.server);
    }
}

/// How many turns the server has taken; those of the first ms are not told yet.
fn turns(server: &Server) -> u64 {
    let info = text(&server.run(&["INFO", "dq"]));
    let runs = info.lines().find_map(|line| line.strip_prefix("dq_timer_runs:"));
    runs.map_or(0, |runs| runs.trim().parse().expect("a number"))
}

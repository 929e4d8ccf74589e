//! A run: rounds of batches on several connections, and what is looked at between them.

use std::time::{Duration, Instant};

use redis::Connection;

use super::draw::{Draw, CLEAN, SPOILT};
use super::grammar::is_spoilt;
use super::tape::Tape;
use super::unit::Unit;
use super::wire::{encode, Broken, Reply, Wire, Words};
use crate::common::builds::least_growth;
use crate::common::dump::show;
use crate::common::server::Builder;
use crate::common::{bytes, list, text, wait_for, Server};

/// The databases that are used.
const DBS: [i64; 3] = [0, 3, 9];
/// Commands of one round.
const ROUND: u64 = 10_000;
/// What is sent before anything is read, at most.
const BATCH: u64 = 60;
/// More queues than one slice of DQ.QUEUES looks at.
const MANY: u64 = 1200;
/// How long no reply may come while the server is asked again and again to end the wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes by which the server may grow in any ten rounds: a fifth of a byte a command.
const SLACK: i64 = 20_000;

/// The settings at the begin of a round: leases and delays pass while it runs, letters reach their bound.
const SETTINGS: [(&str, &str); 23] = [
    ("lease", "200ms"),
    ("max-lease", "12h"),
    ("max-retries", "5"),
    ("max-lapses", "3"),
    ("backoff-base", "5ms"),
    ("backoff-cap", "50ms"),
    ("backoff-jitter", "20"),
    ("max-delay", "7d"),
    ("max-payload", "1048576"),
    ("max-length", "0"),
    ("max-error", "65536"),
    ("far-horizon", "1h"),
    ("far-alarm", "100"),
    ("purge-interval", "50ms"),
    ("stale-after", "1s"),
    ("stale-policy", "dead"),
    ("dead-max", "500"),
    ("dead-max-age", "90d"),
    ("id-keep", "100ms"),
    ("takeover-grace", "0"),
    ("idle-queue-ttl", "1s"),
    ("max-waiting-memory", "auto"),
    ("clock-step", "slew"),
];

/// Every command of the module.
const COMMANDS: [&str; 23] = [
    "PUSH",
    "MPUSH",
    "CLAIM",
    "MCLAIM",
    "ACK",
    "EXTEND",
    "RETRY",
    "RELEASE",
    "FAIL",
    "STATS",
    "GET",
    "PEEK",
    "CANCEL",
    "RESCHEDULE",
    "REPLAY",
    "PURGE",
    "DROP",
    "PAUSE",
    "RESUME",
    "CONFIG",
    "QUEUES",
    "CHECK",
    "REPAIR",
];

/// A connection and what is known of it.
struct Line {
    wire: Wire,
    db: i64,
    protocol: u8,
    client: i64,
}

pub struct Run {
    seed: u64,
    draw: Draw,
    builder: Builder,
    server: Server,
    replica: Server,
    control: Connection,
    lines: Vec<Line>,
    tape: Tape,
    commands: u64,
    /// Bytes in use after each round.
    memory: Vec<i64>,
}

impl Run {
    pub fn start(seed: u64) -> Run {
        let builder = SETTINGS.iter().fold(Server::builder(), |builder, (name, value)| builder.set(name, value));
        let builder = builder.line("appendonly yes").line("appendfsync no").line("notify-keyspace-events KEA");
        let server = builder.clone().start();
        let replica = Server::builder().replica_of(&server).start();
        replica.catch_up(&server);
        let control = server.conn();
        let (lines, memory) = (Vec::new(), Vec::new());
        let (draw, tape) = (Draw::new(seed), Tape::default());
        Run { seed, draw, builder, server, replica, control, lines, tape, commands: 0, memory }
    }

    /// The module's commands that were sent.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// The rounds that came to their end.
    pub fn rounds(&self) -> usize {
        self.memory.len()
    }

    /// Some thousand commands, then a look at everything, then everything goes.
    pub fn round(&mut self, is_over: impl Fn(u64) -> bool) {
        let end = self.commands + ROUND;
        self.batches(|commands| commands >= end || is_over(commands));
        self.settle();
        match self.draw.dice.between(0, 5) {
            0 => self.reload(),
            1 => drop(self.server.try_run(&["BGREWRITEAOF"])),
            _ => {}
        }
        self.drop_all();
    }

    /// A last round that ends with a start from the append only file. Gives what to tell of the run.
    pub fn finish(mut self) -> String {
        let end = self.commands + ROUND / 4;
        self.batches(|commands| commands >= end);
        self.settle();
        let before = digest(&self.server);
        self.server.signal(libc::SIGTERM);
        self.server.ended();
        self.server.start_again_as(self.builder.clone().set("enabled", "no"));
        assert_eq!(digest(&self.server), before, "after a start from the append only file");
        self.control = self.server.conn();
        self.check_queues();
        for server in [&self.server, &self.replica] {
            let log = server.log();
            let panics: Vec<&str> = log.lines().filter(|line| line.contains("panicked")).collect();
            assert!(panics.is_empty(), "{panics:?}");
        }
        self.assert_memory();
        self.assert_each_command();
        format!(
            "{} commands; bytes in use after each round: {:?}; of each command succeeded and were refused: {:?}",
            self.commands, self.memory, self.draw.answers
        )
    }

    /// Fails where a command hardly ever did anything, or was hardly ever refused: the words were not drawn well.
    fn assert_each_command(&self) {
        let answers = &self.draw.answers;
        for name in COMMANDS {
            let [done, refused] = answers.get(name).copied().unwrap_or_default();
            let enough = self.commands / 20_000;
            assert!(done > enough && refused > enough, "DQ.{name}: {done} succeeded and {refused} were refused");
        }
    }

    /// Batches on one connection after the other until it is enough.
    fn batches(&mut self, enough: impl Fn(u64) -> bool) {
        // The first round is a small one.
        match self.memory.len() {
            0 => {}
            round @ 1..=3 => self.push_to_many(DBS[round - 1]),
            _ if self.draw.one_in(6) => {
                let db = *self.draw.dice.pick(&DBS);
                self.push_to_many(db);
            }
            _ => {}
        }
        self.open_lines();
        let mut number = 0;
        while !enough(self.commands) {
            let place = self.draw.dice.between(0, self.lines.len() as u64 - 1) as usize;
            self.batch(place);
            number += 1;
            if number % 10 == 0 {
                self.set_all();
            }
            if number % 40 == 0 {
                self.check_queues();
            }
        }
        self.lines.clear();
    }

    /// A job into each of so many queues that DQ.QUEUES goes over them in slices.
    fn push_to_many(&mut self, db: i64) {
        self.select(db);
        let mut pipe = redis::pipe();
        for number in 0..MANY {
            pipe.cmd("DQ.PUSH").arg(format!("many-{number}")).arg("x").ignore();
        }
        pipe.exec(&mut self.control).expect("the pushes answer");
        self.commands += MANY;
    }

    fn open_lines(&mut self) {
        for (db, protocol) in DBS.iter().flat_map(|db| [2, 3].map(|protocol| (*db, protocol))) {
            let line = self.open(db, protocol);
            self.lines.push(line);
        }
    }

    fn open(&mut self, db: i64, protocol: u8) -> Line {
        let mut line = Line { wire: Wire::open(self.server.port), db, protocol, client: 0 };
        let word = |text: &str| text.as_bytes().to_vec();
        let hello = vec![word("HELLO"), word(&protocol.to_string())];
        let select = vec![word("SELECT"), word(&db.to_string())];
        let replies = [hello, select, vec![word("CLIENT"), word("ID")]].map(|words| {
            let mut out = Vec::new();
            encode(&words, &mut out);
            line.wire.send(&out).and_then(|()| line.wire.receive(&mut || Ok(()))).expect("a new connection answers")
        });
        match replies[2] {
            Reply::Int(id) => line.client = id,
            ref other => panic!("CLIENT ID answered {other:?}"),
        }
        line
    }

    /// Sends some units on one connection, reads the replies and judges them; now and then it leaves instead.
    fn batch(&mut self, place: usize) {
        self.draw.enter(self.lines[place].db);
        let number = self.draw.dice.between(1, BATCH);
        let units: Vec<Unit> = (0..number).map(|_| Unit::draw(&mut self.draw)).collect();
        let mut out = Vec::new();
        let commands: Vec<Vec<Words>> = units.iter().map(Unit::commands).collect();
        for words in commands.iter().flatten() {
            self.tape.note(self.lines[place].db, words);
            encode(words, &mut out);
        }
        self.commands += units.iter().map(Unit::count).sum::<u64>();
        let sent = self.lines[place].wire.send(&out);
        self.or_fail(sent);
        if self.draw.one_in(150) {
            let (db, protocol) = (self.lines[place].db, self.lines[place].protocol);
            self.lines[place] = self.open(db, protocol);
            return;
        }
        for (unit, commands) in units.iter().zip(&commands) {
            let replies: Vec<Reply> = commands.iter().map(|_| self.receive(place)).collect();
            if let Err(wrong) = unit.judge(&replies, &mut self.draw) {
                let shown: Vec<String> = commands.iter().map(shown).collect();
                panic!("{wrong}\nsent: {}", shown.join("\n      "));
            }
        }
    }

    /// The next reply on this connection. Where none comes, its wait is ended.
    fn receive(&mut self, place: usize) -> Reply {
        let (line, control, draw) = (&mut self.lines[place], &mut self.control, &mut self.draw);
        let begun = Instant::now();
        let mut idle = || {
            let how = if draw.one_in(2) { "TIMEOUT" } else { "ERROR" };
            let unblock = redis::cmd("CLIENT").arg("UNBLOCK").arg(line.client).arg(how).query::<i64>(control);
            match unblock {
                Err(e) => Err(format!("CLIENT UNBLOCK: {e}")),
                Ok(_) if begun.elapsed() > PATIENCE => Err("no reply".to_string()),
                Ok(_) => Ok(()),
            }
        };
        let reply = line.wire.receive(&mut idle);
        self.or_fail(reply)
    }

    fn or_fail<T>(&mut self, result: Result<T, Broken>) -> T {
        result.unwrap_or_else(|broken| {
            self.server.assert_alive();
            panic!("{broken}");
        })
    }

    fn set_all(&mut self) {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("dq.enabled").arg("yes");
        for (name, value) in SETTINGS {
            command.arg(format!("dq.{name}")).arg(value);
        }
        command.exec(&mut self.control).expect("the settings are as before");
    }

    /// DQ.CHECK of every queue whose keys nobody wrote to by hand.
    fn check_queues(&mut self) {
        for db in DBS {
            self.select(db);
            for name in self.queues().into_iter().filter(|name| !is_spoilt(name)) {
                let problems = list(&self.ask("DQ.CHECK", &[&name]));
                assert!(problems.is_empty(), "DQ.CHECK of {} in database {db}: {problems:?}", show(&name));
            }
        }
    }

    /// The queues of the selected database.
    fn queues(&mut self) -> Vec<Vec<u8>> {
        list(&self.ask("DQ.QUEUES", &[])).iter().map(|queue| bytes(&list(queue)[0])).collect()
    }

    fn select(&mut self, db: i64) {
        redis::cmd("SELECT").arg(db).exec(&mut self.control).expect("the database is there");
    }

    /// A command on the control connection, which must succeed.
    fn ask(&mut self, name: &str, args: &[&[u8]]) -> redis::Value {
        let mut command = redis::cmd(name);
        command.arg(args);
        let words: Vec<String> = args.iter().map(|arg| show(arg)).collect();
        command.query(&mut self.control).unwrap_or_else(|e| panic!("{name} {words:?}: {e}"))
    }

    /// Mends what was spoilt by hand, has nothing move any more, and looks at everything.
    fn settle(&mut self) {
        self.set_all();
        DBS.iter().for_each(|db| self.mend(*db));
        self.server.set("enabled", "no");
        self.check_queues();
        for db in DBS {
            CLEAN.iter().for_each(|name| self.server.queue_in(db, name).check_clean());
        }
        wait_for("keys that expire to be gone", || {
            text(&self.server.run(&["INFO", "keyspace"]))
                .lines()
                .all(|line| !line.contains("expires=") || line.contains("expires=0"))
        });
        self.replica.catch_up(&self.server);
        let here = digest(&self.server);
        if digest(&self.replica) != here {
            assert_eq!(self.server.dump(), self.replica.dump(), "left: the primary, right: the replica");
            panic!("the digests of primary and replica differ, and not what they hold");
        }
    }

    /// REPAIR of the spoilt queues: afterwards only what cannot be read is told of.
    fn mend(&mut self, db: i64) {
        self.select(db);
        for name in SPOILT {
            let repair = redis::cmd("DQ.REPAIR").arg(name).query::<redis::Value>(&mut self.control);
            if let Err(e) = repair {
                assert_eq!(e.code(), Some("WRONGTYPE"), "DQ.REPAIR {}: {e}", show(name));
                continue;
            }
            let problems = list(&self.ask("DQ.CHECK", &[name]));
            let kept: Vec<_> = problems.iter().map(|problem| text(&list(problem)[0])).collect();
            let unreadable = kept.iter().all(|problem| matches!(problem.as_str(), "bad-record" | "bad-letter"));
            assert!(unreadable, "after REPAIR of {}: {problems:?}", show(name));
        }
    }

    fn reload(&mut self) {
        let before = digest(&self.server);
        self.server.run(&["DEBUG", "RELOAD"]);
        assert_eq!(digest(&self.server), before, "after DEBUG RELOAD");
        self.check_queues();
    }

    /// Everything goes, in one of several ways, and with it the memory.
    fn drop_all(&mut self) {
        if self.draw.one_in(2) {
            for db in DBS {
                self.select(db);
                for name in self.queues() {
                    drop(redis::cmd("DQ.DROP").arg(name).arg("FORCE").query::<redis::Value>(&mut self.control));
                }
            }
        }
        self.server.run(&["FLUSHALL"]);
        self.server.set("enabled", "yes");
        wait_for("the queues to be forgotten", || self.server.info("dq", "dq_queues") == "0");
        wait_for("the memory to be freed", || self.server.info("memory", "lazyfree_pending_objects") == "0");
        wait_for("no rewrite to run", || self.server.info("persistence", "aof_rewrite_in_progress") == "0");
        wait_for("clients to be gone", || {
            text(&self.server.run(&["CLIENT", "LIST", "TYPE", "normal"])).lines().count() == 2
        });
        // What the server remembers of slow commands, and what it keeps for replicas that come back, is its own.
        self.server.run(&["SLOWLOG", "RESET"]);
        self.server.run(&["MEMORY", "PURGE"]);
        let bytes = |field: &str| self.server.info("memory", field).parse::<i64>().expect("bytes");
        self.memory.push(bytes("used_memory") - bytes("mem_total_replication_buffers") - bytes("mem_aof_buffer"));
    }

    /// Fails where each round leaves more behind. A table that grew once because there were more queues than ever before
    /// is no leak.
    fn assert_memory(&self) {
        if self.memory.len() > 10 {
            let grown = least_growth(&self.memory);
            assert!(grown < SLACK, "{grown} bytes in any ten rounds; bytes in use after each: {:?}", self.memory);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("DQ_TEST_SEED={}, {} commands; {}", self.seed, self.commands, self.tape.tell(self.seed));
        }
    }
}

/// One number for all that the server holds.
fn digest(server: &Server) -> String {
    text(&server.run(&["DEBUG", "DIGEST"]))
}

fn shown(words: &Words) -> String {
    words.iter().take(40).map(|word| format!("\"{}\"", show(word))).collect::<Vec<_>>().join(" ")
}

//! A queue as a client sees it, and its invariants as the keys show them.

use std::collections::{BTreeMap, BTreeSet};

use redis::{Connection, RedisResult, ToRedisArgs, Value};

use super::dump::{dump, show};
use super::msgpack::{id_in_member, Record};
use super::{bytes, int, list, text, wait_for, wait_until};

/// The arguments of a command, of whatever types.
#[macro_export]
macro_rules! args {
    ($($arg:expr),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut all: Vec<Vec<u8>> = Vec::new();
        $( all.extend(redis::ToRedisArgs::to_redis_args(&$arg)); )*
        all
    }};
}

/// A command of the module on a queue, without `DQ.` and the queue's name, which must succeed.
#[macro_export]
macro_rules! ok {
    ($queue:expr, $name:expr $(, $arg:expr)* $(,)?) => {
        $queue.ok($name, $crate::args![$($arg),*])
    };
}

/// The same where it must fail, changing nothing; gives the error's text.
#[macro_export]
macro_rules! err {
    ($queue:expr, $name:expr $(, $arg:expr)* $(,)?) => {
        $queue.err($name, $crate::args![$($arg),*])
    };
}

/// One job as DQ.CLAIM hands it out.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub receipt: String,
    pub payload: Vec<u8>,
    pub id: String,
    pub attempt: i64,
    pub lease_ms: i64,
    pub retries_left: i64,
}

impl Job {
    /// Reads one element of DQ.CLAIM's reply.
    pub fn of(value: &Value) -> Job {
        let items = list(value);
        assert!(items.len() >= 6, "a job of {} elements", items.len());
        Job {
            receipt: text(&items[0]),
            payload: bytes(&items[1]),
            id: text(&items[2]),
            attempt: int(&items[3]),
            lease_ms: int(&items[4]),
            retries_left: int(&items[5]),
        }
    }
}

/// The raw contents of a queue's keys at one moment.
#[derive(Debug, Default)]
pub struct Raw {
    pub jobs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub due: Vec<(Vec<u8>, String)>,
    pub leased: Vec<(Vec<u8>, String)>,
    pub dead: BTreeMap<Vec<u8>, Vec<u8>>,
    pub dead_at: Vec<(Vec<u8>, String)>,
    pub ids: Vec<(Vec<u8>, String)>,
    pub check: Vec<String>,
}

/// A connection that speaks to one queue. Unless told otherwise it looks at the queue's
/// invariants after each command that succeeded, and once more at the end.
pub struct Queue {
    pub con: Connection,
    pub name: Vec<u8>,
    watched: bool,
}

impl Queue {
    pub fn new(con: Connection, name: &[u8]) -> Queue {
        Queue { con, name: name.to_vec(), watched: true }
    }

    /// From here on the invariants are not looked at: the test breaks them, or the server goes.
    pub fn unwatched(&mut self) -> &mut Self {
        self.watched = false;
        self
    }

    /// From here on they are again.
    pub fn watched(&mut self) -> &mut Self {
        self.watched = true;
        self
    }

    /// A command of the module on this queue, not looked after.
    pub fn call(&mut self, name: &str, args: Vec<Vec<u8>>) -> RedisResult<Value> {
        let mut command = redis::cmd(&format!("DQ.{name}"));
        command.arg(&self.name);
        for arg in &args {
            command.arg(arg);
        }
        command.query(&mut self.con)
    }

    /// A command that must succeed and leave the invariants whole.
    pub fn ok(&mut self, name: &str, args: Vec<Vec<u8>>) -> Value {
        let words: Vec<String> = args.iter().map(|arg| show(arg)).collect();
        let value = self.call(name, args).unwrap_or_else(|e| panic!("DQ.{name} {} {words:?}: {e}", show(&self.name)));
        if self.watched {
            self.check_clean();
        }
        value
    }

    /// A command that must fail and change nothing in the whole keyspace; gives the error's text.
    pub fn err(&mut self, name: &str, args: Vec<Vec<u8>>) -> String {
        let words: Vec<String> = args.iter().map(|arg| show(arg)).collect();
        let before = self.dump();
        let error = match self.call(name, args) {
            Ok(value) => panic!("DQ.{name} {} {words:?} answered {value:?}", show(&self.name)),
            Err(error) => error_text(&error),
        };
        let after = self.dump();
        assert_eq!(before, after, "DQ.{name} {words:?} said {error} and wrote");
        assert!(error.bytes().all(|b| (b' '..=b'~').contains(&b)), "DQ.{name}'s error is not visible ASCII: {error:?}");
        error
    }

    /// Every key of every database; the connection stays in its own.
    fn dump(&mut self) -> super::dump::Keyspace {
        let db = self.db();
        let all = dump(&mut self.con);
        redis::cmd("SELECT").arg(db).exec(&mut self.con).expect("SELECT answers");
        all
    }

    fn db(&mut self) -> i64 {
        let info: String = redis::cmd("CLIENT").arg("INFO").query(&mut self.con).expect("CLIENT INFO answers");
        info.split(' ').find_map(|word| word.strip_prefix("db=")?.parse().ok()).expect("a client has a database")
    }

    /// A command of the server itself.
    pub fn raw<T: redis::FromRedisValue>(&mut self, args: Vec<Vec<u8>>) -> T {
        let words: Vec<String> = args.iter().map(|arg| show(arg)).collect();
        let mut command = redis::Cmd::new();
        for arg in &args {
            command.arg(arg);
        }
        command.query(&mut self.con).unwrap_or_else(|e| panic!("{words:?}: {e}"))
    }

    // The commands in their plainest form.

    /// Pushes a payload, due now; gives the id.
    pub fn push(&mut self, payload: impl ToRedisArgs) -> String {
        text(&ok!(self, "PUSH", payload))
    }

    /// Pushes `n` jobs with these options, ten thousand a command and not looked after; gives their ids in that order.
    pub fn push_many(&mut self, n: usize, options: &[Vec<u8>]) -> Vec<String> {
        let mut ids = Vec::new();
        for from in (0..n).step_by(10_000) {
            let mut words = options.to_vec();
            words.push(b"PAYLOADS".to_vec());
            words.extend((from..n.min(from + 10_000)).map(|i| i.to_string().into_bytes()));
            ids.extend(texts(&self.call("MPUSH", words).expect("the push answers")));
        }
        ids
    }

    /// Claims the one job that must be due.
    pub fn claim(&mut self) -> Job {
        let jobs = self.claim_with(vec![]);
        assert_eq!(jobs.len(), 1, "one job was to be claimed");
        jobs.into_iter().next().expect("there is one")
    }

    /// Claims with these options.
    pub fn claim_with(&mut self, args: Vec<Vec<u8>>) -> Vec<Job> {
        list(&self.ok("CLAIM", args)).iter().map(Job::of).collect()
    }

    /// Claims up to `n` jobs.
    pub fn claim_n(&mut self, n: usize) -> Vec<Job> {
        self.claim_with(args!["COUNT", n])
    }

    /// Pushes a job and claims it.
    pub fn push_and_claim(&mut self, payload: impl ToRedisArgs) -> Job {
        let id = self.push(payload);
        let job = self.claim();
        assert_eq!(job.id, id);
        job
    }

    /// Claims one job and lets its lease end; the receipt is late afterwards.
    pub fn claim_and_lapse(&mut self) -> Job {
        let jobs = self.claim_with(args!["LEASE", 1]);
        assert_eq!(jobs.len(), 1, "one job was to be claimed");
        self.wait_lapse(&jobs[0].id);
        jobs.into_iter().next().expect("there is one")
    }

    /// Waits until no lease holds the job, by the keys alone: no command of the module helps.
    pub fn wait_lapse(&mut self, id: &str) {
        let key = self.key("leased");
        wait_for("the lease to end", || self.raw::<Option<String>>(args!["ZSCORE", &key, id]).is_none());
        if self.watched {
            self.check_clean();
        }
    }

    pub fn ack(&mut self, receipt: &str) -> i64 {
        int(&ok!(self, "ACK", receipt))
    }

    /// RETRY without options: ms until the next run, or -1.
    pub fn retry(&mut self, receipt: &str) -> i64 {
        int(&ok!(self, "RETRY", receipt))
    }

    pub fn fail(&mut self, receipt: &str) {
        assert_eq!(text(&ok!(self, "FAIL", receipt)), "OK");
    }

    pub fn release(&mut self, receipt: &str) -> i64 {
        let reply = ints(&ok!(self, "RELEASE", "RECEIPTS", receipt));
        assert_eq!(reply.len(), 1);
        reply[0]
    }

    pub fn extend(&mut self, ms: i64, receipt: &str) -> i64 {
        let reply = ints(&ok!(self, "EXTEND", ms, receipt));
        assert_eq!(reply.len(), 1);
        reply[0]
    }

    /// DQ.STATS, in the order of the reply.
    pub fn stats_list(&mut self) -> Vec<(String, i64)> {
        let reply = self.ok("STATS", vec![]);
        pairs(&reply).into_iter().map(|(name, value)| (name, int(&value))).collect()
    }

    /// One figure of DQ.STATS.
    pub fn stat(&mut self, name: &str) -> i64 {
        self.stats_list()
            .into_iter()
            .find_map(|(field, value)| (field == name).then_some(value))
            .unwrap_or_else(|| panic!("DQ.STATS has no {name}"))
    }

    /// Several figures of DQ.STATS.
    pub fn stats<const N: usize>(&mut self, names: [&str; N]) -> [i64; N] {
        let all: BTreeMap<String, i64> = self.stats_list().into_iter().collect();
        names.map(|name| *all.get(name).unwrap_or_else(|| panic!("DQ.STATS has no {name}")))
    }

    /// DQ.GET as a map, or None where there is no such job.
    pub fn get(&mut self, id: &str) -> Option<BTreeMap<String, Value>> {
        match ok!(self, "GET", id) {
            Value::Nil => None,
            reply => Some(pairs(&reply).into_iter().collect()),
        }
    }

    /// One field of DQ.GET, as text.
    pub fn field(&mut self, id: &str, name: &str) -> String {
        let map = self.get(id).unwrap_or_else(|| panic!("no job and no letter {id}"));
        let value = map.get(name).unwrap_or_else(|| panic!("DQ.GET has no {name}: {map:?}"));
        match value {
            Value::Int(n) => n.to_string(),
            other => text(other),
        }
    }

    /// Where DQ.GET says the job is: ready, delayed, leased, dead or gone.
    pub fn state(&mut self, id: &str) -> String {
        match self.get(id) {
            None => "gone".to_string(),
            Some(map) => text(&map["state"]),
        }
    }

    /// The server's wall time in ms.
    pub fn now(&mut self) -> i64 {
        let (seconds, micros): (i64, i64) = self.raw(args!["TIME"]);
        seconds * 1000 + micros / 1000
    }

    // The keys.

    /// The key of one of the companions.
    pub fn key(&self, companion: &str) -> Vec<u8> {
        companion_key(&self.name, companion)
    }

    /// The member that stands for `id` in `due`: by the job's record, or the id itself if there is no record.
    pub fn due_member(&mut self, id: &str) -> Vec<u8> {
        let raw: Option<Vec<u8>> = self.raw(args!["HGET", self.key("jobs"), id]);
        let record = raw.and_then(|raw| Record::read(&raw).ok());
        record.map_or_else(|| id.as_bytes().to_vec(), |record| record.member(id.as_bytes()))
    }

    /// The ids in `due`, in its order.
    pub fn due_ids(&mut self) -> Vec<String> {
        let members: Vec<Vec<u8>> = self.raw(args!["ZRANGE", self.key("due"), 0, -1]);
        members.iter().map(|member| show(id_in_member(member))).collect()
    }

    /// The score of `id` in a companion.
    pub fn score(&mut self, companion: &str, id: &str) -> Option<i64> {
        let member = if companion == "due" { self.due_member(id) } else { id.as_bytes().to_vec() };
        let key = self.key(companion);
        self.raw::<Option<String>>(args!["ZSCORE", key, member])
            .map(|score| score.parse().unwrap_or_else(|_| panic!("the score {score} is not a whole number")))
    }

    /// The time at which a job may be claimed.
    pub fn due_at(&mut self, id: &str) -> i64 {
        self.score("due", id).unwrap_or_else(|| panic!("{id} is not due"))
    }

    /// Moves the due time of a job into the past, as an operator might with ZADD.
    pub fn make_due(&mut self, id: &str) {
        let (key, now, member) = (self.key("due"), self.now(), self.due_member(id));
        self.raw::<i64>(args!["ZADD", key, "XX", now - 1000, member]);
    }

    /// The record of a live job.
    pub fn record(&mut self, id: &str) -> Record {
        let key = self.key("jobs");
        let raw: Option<Vec<u8>> = self.raw(args!["HGET", key, id]);
        Record::read(&raw.unwrap_or_else(|| panic!("no record of {id}"))).expect("a record reads")
    }

    /// A dead letter: its reason and its record.
    pub fn letter(&mut self, id: &str) -> (String, Record) {
        let key = self.key("dead");
        let raw: Option<Vec<u8>> = self.raw(args!["HGET", key, id]);
        Record::read_letter(&raw.unwrap_or_else(|| panic!("no letter of {id}"))).expect("a letter reads")
    }

    /// All of the queue's keys at one moment, and DQ.CHECK.
    pub fn read_raw(&mut self) -> Raw {
        // A script, since MULTI is refused at maxmemory.
        const READ: &str = "#!lua flags=no-writes,allow-oom
            local function zset(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
            return {redis.call('HGETALL', KEYS[1]), zset(KEYS[2]), zset(KEYS[3]),
                    redis.call('HGETALL', KEYS[4]), zset(KEYS[5]), zset(KEYS[6])}";
        let mut words = args!["EVAL", READ, 6];
        words.extend(["jobs", "due", "leased", "dead", "dead:at", "ids"].map(|companion| self.key(companion)));
        type Map = BTreeMap<Vec<u8>, Vec<u8>>;
        type Zset = Vec<(Vec<u8>, String)>;
        let (jobs, due, leased, dead, dead_at, ids): (Map, Zset, Zset, Map, Zset, Zset) = self.raw(words);
        let check = self.call("CHECK", vec![]).unwrap_or_else(|e| panic!("DQ.CHECK {}: {e}", show(&self.name)));
        let words = |problem: &Value| -> Vec<String> { list(problem).iter().map(|w| show(&bytes(w))).collect() };
        let check = list(&check).iter().map(|problem| words(problem).join(" ")).collect();
        Raw { jobs, due, leased, dead, dead_at, ids, check }
    }

    /// Fails unless DQ.CHECK finds nothing and the keys themselves keep every invariant.
    pub fn check_clean(&mut self) {
        let name = show(&self.name);
        let raw = self.read_raw();
        assert!(raw.check.is_empty(), "DQ.CHECK {name}: {:?}", raw.check);
        let ids = |list: &[(Vec<u8>, String)]| -> BTreeSet<Vec<u8>> { list.iter().map(|(id, _)| id.clone()).collect() };
        let due: BTreeSet<Vec<u8>> = raw.due.iter().map(|(member, _)| id_in_member(member).to_vec()).collect();
        assert_eq!(due.len(), raw.due.len(), "{name}: a job is due twice: {raw:?}");
        let (members, leased) = (ids(&raw.due), ids(&raw.leased));
        assert!(due.is_disjoint(&leased), "{name}: due and leased: {raw:?}");
        let live: BTreeSet<Vec<u8>> = due.union(&leased).cloned().collect();
        let jobs: BTreeSet<Vec<u8>> = raw.jobs.keys().cloned().collect();
        assert_eq!(jobs, live, "{name}: jobs, and the indexes due and leased");
        let dead: BTreeSet<Vec<u8>> = raw.dead.keys().cloned().collect();
        assert_eq!(dead, ids(&raw.dead_at), "{name}: dead, and dead:at");
        for (id, score) in [&raw.due, &raw.leased, &raw.dead_at, &raw.ids].into_iter().flatten() {
            assert!(score.parse::<u64>().is_ok(), "{name}: the score of {} is {score}", show(id));
        }
        for (id, record) in &raw.jobs {
            let record = Record::read(record).unwrap_or_else(|e| panic!("{name}: the record of {}: {e}", show(id)));
            assert!(
                leased.contains(id) || members.contains(&record.member(id)),
                "{name}: {} is not in its place in due",
                show(id)
            );
        }
        for (id, letter) in &raw.dead {
            if let Err(e) = Record::read_letter(letter) {
                panic!("{name}: the letter of {}: {e}", show(id));
            }
        }
    }

    /// Waits until a figure of DQ.STATS is `value`.
    pub fn wait_stat(&mut self, name: &str, value: i64) {
        let mut last = None;
        let end = std::time::Instant::now() + super::DEADLINE;
        while std::time::Instant::now() < end {
            let now = self.stat(name);
            if now == value {
                return;
            }
            last = Some(now);
            std::thread::sleep(super::PAUSE);
        }
        panic!("{name} was to be {value} and is {last:?}");
    }

    /// Waits until a companion, or with "" the header, is there or gone.
    pub fn wait_key(&mut self, companion: &str, there: bool) {
        let key = if companion.is_empty() { self.name.clone() } else { self.key(companion) };
        wait_until(&format!("{companion} to be there: {there}"), || {
            let found: bool = self.raw(args!["EXISTS", &key]);
            (found == there).then_some(())
        });
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.watched && !std::thread::panicking() {
            self.check_clean();
        }
    }
}

/// The key of a queue's companion, by the rule for hash tags in the contract.
pub fn companion_key(name: &[u8], companion: &str) -> Vec<u8> {
    let tagged = name
        .iter()
        .position(|b| *b == b'{')
        .is_some_and(|open| name[open + 1..].iter().position(|b| *b == b'}').is_some_and(|length| length > 0));
    let (left, right): (&[u8], &[u8]) = if tagged { (b"dq:", b":") } else { (b"dq:{", b"}:") };
    [left, name, right, companion.as_bytes()].concat()
}

/// An array of integers.
pub fn ints(value: &Value) -> Vec<i64> {
    list(value).iter().map(int).collect()
}

/// An array of texts.
pub fn texts(value: &Value) -> Vec<String> {
    list(value).iter().map(text).collect()
}

/// A flat array or a map, as pairs.
pub fn pairs(value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Map(map) => map.iter().map(|(k, v)| (text(k), v.clone())).collect(),
        Value::Array(items) => {
            assert_eq!(items.len() % 2, 0, "a flat map of {items:?}");
            items.chunks(2).map(|pair| (text(&pair[0]), pair[1].clone())).collect()
        }
        other => panic!("not a map: {other:?}"),
    }
}

/// An error as the server sent it: its code and its text.
pub fn error_text(error: &redis::RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => panic!("not an error of the server: {error:?}"),
    }
}

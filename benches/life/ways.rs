//! The three ways to run a queue that are compared: native commands, the usual Lua scripts, and DQ. Each encodes its
//! pipelines beforehand. The first two choose ids, times and order at the client, so that they can send a claim without
//! having read anything: cheaper for the server than any real client of theirs.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::wire::{bulks, Batch, Wire};

/// What DQ's record adds to a payload: the native ways store it too.
const RECORD_HEAD: &[u8] = b"\x95\x01\xc4\x64\0\0\0";

const PUSH: &str =
    "redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1]) redis.call('HSET', KEYS[2], ARGV[1], ARGV[3]) return ARGV[1]";
const MPUSH: &str = "for i = 1, #ARGV, 3 do redis.call('ZADD', KEYS[1], ARGV[i + 1], ARGV[i]) \
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 2]) end return #ARGV / 3";
const CLAIM: &str = "local ids = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2]) \
    if #ids == 0 then return {} end local leases = {} \
    for _, id in ipairs(ids) do leases[#leases + 1] = ARGV[3] leases[#leases + 1] = id end \
    redis.call('ZREM', KEYS[1], unpack(ids)) redis.call('ZADD', KEYS[2], unpack(leases)) \
    return {ids, redis.call('HMGET', KEYS[3], unpack(ids))}";
const ACK: &str =
    "local n = redis.call('ZREM', KEYS[1], unpack(ARGV)) redis.call('HDEL', KEYS[2], unpack(ARGV)) return n";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Native,
    Lua,
    Dq,
}

pub const WAYS: [Way; 3] = [Way::Native, Way::Lua, Way::Dq];

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::Native => "native",
            Way::Lua => "lua",
            Way::Dq => "dq",
        }
    }
}

/// Random numbers, the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Texts of visible ASCII that no compressor makes smaller by much.
pub fn payloads(size: usize, count: usize) -> Vec<Vec<u8>> {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    (0..count).map(|_| (0..size).map(|_| b'!' + dice.below(94) as u8).collect()).collect()
}

pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(now.as_millis()).expect("it fits")
}

/// When jobs are due.
#[derive(Clone, Copy)]
pub enum Due {
    Now,
    /// Anywhere in the hours to come.
    Later,
}

/// A queue that is worked on in one way.
pub struct Line {
    pub way: Way,
    pub queue: String,
    keys: [Vec<u8>; 3],
    shas: [String; 4],
    next_id: u64,
    next_claim: u64,
    dice: Dice,
    payloads: Vec<Vec<u8>>,
}

fn id_text(number: u64) -> Vec<u8> {
    format!("{number:011}").into_bytes()
}

impl Line {
    pub fn new(wire: &mut Wire, way: Way, queue: &str, payload: usize) -> Line {
        let head = if way == Way::Dq { "dq" } else { way.name() };
        let key = |part: &str| format!("{head}:{{{queue}}}:{part}").into_bytes();
        let keys = [key("due"), key("leased"), key("jobs")];
        let shas = [PUSH, MPUSH, CLAIM, ACK].map(|script| wire.text(&["SCRIPT", "LOAD", script]));
        let pool = if payload > 100_000 { 4 } else { 500 };
        Line {
            way,
            queue: queue.into(),
            keys,
            shas,
            next_id: 1,
            next_claim: 1,
            dice: Dice(88_172_645_463_325_252),
            payloads: payloads(payload, pool),
        }
    }

    pub fn keys(&self) -> Vec<String> {
        self.keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }

    /// Jobs that are due or leased.
    pub fn jobs(&self, wire: &mut Wire) -> i64 {
        wire.count(&["HLEN", &self.keys()[2]])
    }

    fn job(&mut self, due: Due) -> (Vec<u8>, Vec<u8>, u64) {
        let number = self.next_id;
        self.next_id += 1;
        let mut record = Vec::new();
        if self.way != Way::Dq {
            record.extend_from_slice(RECORD_HEAD);
        }
        record.extend_from_slice(&self.payloads[number as usize % self.payloads.len()]);
        let delay = match due {
            Due::Now => 0,
            Due::Later => 3_600_000 + self.dice.below(500_000_000),
        };
        (id_text(number), record, delay)
    }

    /// Adds one push; the time of a job that is due now is a little in the past, in the order of the ids.
    pub fn add_push(&mut self, batch: &mut Batch, due: Due) {
        let (id, record, delay) = self.job(due);
        let [due_key, _, jobs_key] = &self.keys;
        let at = match due {
            Due::Now => now_ms().to_string(),
            Due::Later => (now_ms() + delay).to_string(),
        };
        match self.way {
            Way::Native => {
                batch.add(&[b"ZADD", due_key, at.as_bytes(), &id]);
                batch.add(&[b"HSET", jobs_key, &id, &record]);
            }
            Way::Lua => {
                batch.add(&[b"EVALSHA", self.shas[0].as_bytes(), b"2", due_key, jobs_key, &id, at.as_bytes(), &record])
            }
            Way::Dq => match due {
                Due::Now => batch.add(&[b"DQ.PUSH", self.queue.as_bytes(), &record]),
                Due::Later => {
                    batch.add(&[b"DQ.PUSH", self.queue.as_bytes(), &record, b"DELAY", delay.to_string().as_bytes()])
                }
            },
        }
    }

    /// `n` pushes, so many in a pipeline.
    pub fn pushes(&mut self, n: usize, depth: usize, due: Due) -> Vec<Batch> {
        let mut batches = Vec::new();
        for from in (0..n).step_by(depth) {
            let mut batch = Batch::default();
            (from..n.min(from + depth)).for_each(|_| self.add_push(&mut batch, due));
            batches.push(batch);
        }
        batches
    }

    /// `n` pushes of `size` jobs in one command, or in two native ones.
    pub fn mass_pushes(&mut self, n: usize, size: usize, depth: usize, due: Due) -> Vec<Batch> {
        let mut batches = Vec::new();
        for from in (0..n).step_by(size) {
            if (from / size).is_multiple_of(depth) {
                batches.push(Batch::default());
            }
            let jobs: Vec<_> = (from..n.min(from + size)).map(|_| self.job(due)).collect();
            let now = now_ms();
            let times: Vec<_> = jobs.iter().map(|(_, _, delay)| (now + delay).to_string()).collect();
            let delays: Vec<_> = jobs.iter().map(|(_, _, delay)| delay.to_string()).collect();
            let batch = batches.last_mut().expect("one was begun");
            let [due_key, _, jobs_key] = &self.keys;
            match self.way {
                Way::Native => {
                    let mut zadd: Vec<&[u8]> = vec![b"ZADD", due_key];
                    let mut hset: Vec<&[u8]> = vec![b"HSET", jobs_key];
                    for ((id, record, _), at) in jobs.iter().zip(&times) {
                        zadd.extend([at.as_bytes(), id]);
                        hset.extend([&id[..], record]);
                    }
                    batch.add(&zadd);
                    batch.add(&hset);
                }
                Way::Lua => {
                    let mut words: Vec<&[u8]> = vec![b"EVALSHA", self.shas[1].as_bytes(), b"2", due_key, jobs_key];
                    for ((id, record, _), at) in jobs.iter().zip(&times) {
                        words.extend([&id[..], at.as_bytes(), record]);
                    }
                    batch.add(&words);
                }
                Way::Dq => {
                    let mut words: Vec<&[u8]> = vec![b"DQ.MPUSH", self.queue.as_bytes()];
                    match due {
                        Due::Now => words.push(b"PAYLOADS"),
                        Due::Later => words.push(b"JOBS"),
                    }
                    for ((_, record, _), delay) in jobs.iter().zip(&delays) {
                        match due {
                            Due::Now => words.push(record),
                            Due::Later => words.extend([b"", delay.as_bytes(), record]),
                        }
                    }
                    batch.add(&words);
                }
            }
        }
        batches
    }

    /// Claims of all `n` jobs that are due, `count` at a time.
    pub fn claims(&mut self, n: usize, count: usize, depth: usize) -> Vec<Batch> {
        let mut batches = Vec::new();
        let (now, lease_end, limit) = (now_ms().to_string(), (now_ms() + 30_000).to_string(), count.to_string());
        let [due_key, leased_key, jobs_key] = &self.keys;
        for from in (0..n).step_by(count) {
            if (from / count).is_multiple_of(depth) {
                batches.push(Batch::default());
            }
            let batch = batches.last_mut().expect("one was begun");
            let ids: Vec<_> = (from..n.min(from + count)).map(|i| id_text(self.next_claim + i as u64)).collect();
            match self.way {
                Way::Native => {
                    let mut zrem: Vec<&[u8]> = vec![b"ZREM", due_key];
                    let mut zadd: Vec<&[u8]> = vec![b"ZADD", leased_key];
                    let mut hmget: Vec<&[u8]> = vec![b"HMGET", jobs_key];
                    for id in &ids {
                        zrem.push(id);
                        zadd.extend([lease_end.as_bytes(), id]);
                        hmget.push(id);
                    }
                    batch.add(&[
                        b"ZRANGE",
                        due_key,
                        b"-inf",
                        now.as_bytes(),
                        b"BYSCORE",
                        b"LIMIT",
                        b"0",
                        limit.as_bytes(),
                    ]);
                    batch.add(&zrem);
                    batch.add(&zadd);
                    batch.add(&hmget);
                }
                Way::Lua => batch.add(&[
                    b"EVALSHA",
                    self.shas[2].as_bytes(),
                    b"3",
                    due_key,
                    leased_key,
                    jobs_key,
                    now.as_bytes(),
                    limit.as_bytes(),
                    lease_end.as_bytes(),
                ]),
                Way::Dq => batch.add(&[b"DQ.CLAIM", self.queue.as_bytes(), b"COUNT", limit.as_bytes()]),
            }
        }
        batches
    }

    /// What names the `n` claimed jobs in an ack: receipts out of the replies of the claims, or their ids.
    pub fn held(&mut self, n: usize, replies: &[u8]) -> Vec<Vec<u8>> {
        let held: Vec<Vec<u8>> = match self.way {
            Way::Dq => bulks(replies).chunks_exact(3).map(|job| job[0].to_vec()).collect(),
            _ => (0..n as u64).map(|i| id_text(self.next_claim + i)).collect(),
        };
        self.next_claim += n as u64;
        assert_eq!(held.len(), n, "not every job was claimed");
        held
    }

    /// Passes over `n` ids that will not be claimed.
    pub fn skip_claims(&mut self, n: usize) {
        self.next_claim += n as u64;
    }

    /// Acks of `per` jobs each.
    pub fn acks(&self, held: &[Vec<u8>], per: usize, depth: usize) -> Vec<Batch> {
        let [_, leased_key, jobs_key] = &self.keys;
        let mut batches = Vec::new();
        for (i, names) in held.chunks(per).enumerate() {
            if i % depth == 0 {
                batches.push(Batch::default());
            }
            let batch = batches.last_mut().expect("one was begun");
            let with = |head: &[&[u8]]| -> Vec<Vec<u8>> {
                head.iter().map(|word| word.to_vec()).chain(names.iter().cloned()).collect()
            };
            let mut add = |words: Vec<Vec<u8>>| batch.add(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            match self.way {
                Way::Native => {
                    add(with(&[b"ZREM", leased_key]));
                    add(with(&[b"HDEL", jobs_key]));
                }
                Way::Lua => add(with(&[b"EVALSHA", self.shas[3].as_bytes(), b"2", leased_key, jobs_key])),
                Way::Dq => add(with(&[b"DQ.ACK", self.queue.as_bytes()])),
            }
        }
        batches
    }

    /// The claim of one job, whichever is due.
    pub fn claim_one(&self) -> Batch {
        let mut batch = Batch::default();
        let now = (now_ms() + 60_000).to_string();
        let lease_end = (now_ms() + 90_000).to_string();
        let [due_key, leased_key, jobs_key] = &self.keys;
        match self.way {
            Way::Native => panic!("native commands cannot claim one job of many at once"),
            Way::Lua => batch.add(&[
                b"EVALSHA",
                self.shas[2].as_bytes(),
                b"3",
                due_key,
                leased_key,
                jobs_key,
                now.as_bytes(),
                b"1",
                lease_end.as_bytes(),
            ]),
            Way::Dq => batch.add(&[b"DQ.CLAIM", self.queue.as_bytes()]),
        }
        batch
    }
}

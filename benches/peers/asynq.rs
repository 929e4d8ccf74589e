//! What asynq's client and server send, without Go: scripts of our own that change the keys as asynq's do, one EVALSHA at a
//! time on each of some connections, as its pool does. A task is a hash beside a list of the pending, a list of the active
//! and ZSETs of the scheduled and the leases; what it counts by day and in all is counted too. Left out, in its favour:
//! unique tasks, groups, heartbeats, the look at every queue's priority, and everything that runs at intervals.
//!
//! Its lateness is not measured, since that lies in asynq's own loops: the forwarder looks every 5 s by default, a server
//! that found nothing every 1 s.

use crate::peer::{Outcome, Peer};
use crate::swarm::Swarm;
use crate::ways::{now_ms, payloads, Dice};
use crate::wire::{bulks, Batch, Wire};
use crate::PAYLOAD;

/// A new task that is due later.
const SCHEDULE: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end \
    redis.call('HSET', KEYS[1], 'msg', ARGV[1], 'state', 'scheduled') \
    redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3]) return 1";

/// Up to 100 tasks that are due become pending.
const FORWARD: &str = "local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 100) \
    for _, id in ipairs(due) do local task = ARGV[2] .. id \
    if (redis.call('HGET', task, 'group') or '') == '' then redis.call('LPUSH', KEYS[2], id) \
    redis.call('ZREM', KEYS[1], id) redis.call('HSET', task, 'state', 'pending', 'pending_since', ARGV[3]) end end \
    return #due";

/// The oldest pending task becomes active, under a lease.
const DEQUEUE: &str = "if redis.call('EXISTS', KEYS[2]) == 1 then return nil end \
    local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[3]) if not id then return nil end local task = ARGV[2] .. id \
    redis.call('HSET', task, 'state', 'active') redis.call('HDEL', task, 'pending_since') \
    redis.call('ZADD', KEYS[4], ARGV[1], id) return redis.call('HGET', task, 'msg')";

/// An active task is finished and counted.
const DONE: &str = "if redis.call('LREM', KEYS[1], 0, ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end \
    redis.call('ZREM', KEYS[2], ARGV[1]) \
    if redis.call('DEL', KEYS[3]) == 0 then return redis.error_reply('NOT FOUND') end \
    if redis.call('INCR', KEYS[4]) == 1 then redis.call('EXPIREAT', KEYS[4], ARGV[2]) end \
    if redis.call('GET', KEYS[5]) == ARGV[3] then redis.call('SET', KEYS[5], 1) else redis.call('INCR', KEYS[5]) end \
    return redis.status_reply('OK')";

const TASK: &str = "asynq:{default}:t:";
const SCHEDULED: &[u8] = b"asynq:{default}:scheduled";
const PENDING: &[u8] = b"asynq:{default}:pending";
const PAUSED: &[u8] = b"asynq:{default}:paused";
const ACTIVE: &[u8] = b"asynq:{default}:active";
const LEASE: &[u8] = b"asynq:{default}:lease";
const PROCESSED_TODAY: &[u8] = b"asynq:{default}:processed:2025-01-01";
const PROCESSED: &[u8] = b"asynq:{default}:processed";
const LARGEST: &[u8] = b"9223372036854775807";

/// The name of the task's kind, which comes first in its message.
const KIND: &[u8] = b"mail:send";
const ID_LENGTH: usize = 36;
/// The id's place in a message: behind the kind, the payload and three heads of two bytes.
const ID_AT: usize = KIND.len() + PAYLOAD + 6;

/// A task as Protocol Buffers: kind, payload, id, queue, 25 retries, a time-out of half an hour.
fn message(id: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    for (number, text) in [(1, KIND), (2, payload), (3, id.as_bytes()), (4, b"default")] {
        message.extend([number << 3 | 2, text.len() as u8]);
        message.extend(text);
    }
    message.extend([5 << 3, 25, 8 << 3, 0x88, 0x0e]);
    message
}

fn id_of(message: &[u8]) -> &[u8] {
    &message[ID_AT..ID_AT + ID_LENGTH]
}

pub struct Asynq {
    wire: Wire,
    swarm: Swarm,
    shas: [String; 4],
    payloads: Vec<Vec<u8>>,
    dice: Dice,
}

impl Asynq {
    pub fn open(port: u16, connections: usize) -> Asynq {
        let mut wire = Wire::open(port);
        let shas = [SCHEDULE, FORWARD, DEQUEUE, DONE].map(|script| wire.text(&["SCRIPT", "LOAD", script]));
        let swarm = Swarm::open(port, connections);
        Asynq { wire, swarm, shas, payloads: payloads(PAYLOAD, 500), dice: Dice(0x2545_F491_4F6C_DD1D) }
    }

    /// In the form of a UUID.
    fn id(&mut self) -> String {
        let [a, b] = [self.dice.below(u64::MAX), self.dice.below(u64::MAX)];
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            a >> 32,
            a & 0xffff,
            a >> 16 & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    }

    fn schedule(&mut self, job: usize, at_s: &str) -> Vec<u8> {
        let id = self.id();
        let message = message(&id, &self.payloads[job % self.payloads.len()]);
        let task = format!("{TASK}{id}");
        let sha = self.shas[0].as_bytes();
        let words = [b"EVALSHA", sha, b"2", task.as_bytes(), SCHEDULED, &message, at_s.as_bytes(), id.as_bytes()];
        Batch::of(&words).bytes
    }

    fn forward_all(&mut self) {
        let (now, ns) = ((now_ms() / 1000).to_string(), format!("{}000000", now_ms()));
        let sha = self.shas[1].clone();
        let (scheduled, pending) = ("asynq:{default}:scheduled", "asynq:{default}:pending");
        while self.wire.count(&["EVALSHA", &sha, "2", scheduled, pending, &now, TASK, &ns]) > 0 {}
    }
}

impl Peer for Asynq {
    fn push(&mut self, jobs: usize, delay_ms: u64) -> Outcome {
        let at = ((now_ms() + delay_ms) / 1000).to_string();
        let commands: Vec<_> = (0..jobs).map(|job| self.schedule(job, &at)).collect();
        self.swarm.run_each(&commands);
        Ok(())
    }

    fn work(&mut self, jobs: usize) -> Outcome {
        self.forward_all();
        let lease_end = (now_ms() / 1000 + 30).to_string();
        let (dequeue, done) = (self.shas[2].as_bytes(), self.shas[3].as_bytes());
        let words = [b"EVALSHA", dequeue, b"4", PENDING, PAUSED, ACTIVE, LEASE, lease_end.as_bytes(), TASK.as_bytes()];
        let in_90_days = (now_ms() / 1000 + 90 * 86_400).to_string();
        let finish = |reply: &[u8]| {
            let message = bulks(reply)[0];
            let (id, expiry) = (id_of(message), in_90_days.as_bytes());
            let task = [TASK.as_bytes(), id].concat();
            let words = [b"EVALSHA", done, b"5", ACTIVE, LEASE, &task, PROCESSED_TODAY, PROCESSED, id, expiry, LARGEST];
            Batch::of(&words).bytes
        };
        self.swarm.run_pairs(jobs, &Batch::of(&words).bytes, &finish);
        Ok(())
    }
}

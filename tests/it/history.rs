//! Random histories of every command: the counters of STATS and the data stay one account, on the replica and after a
//! restart too. `DQ_TEST_SEED` repeats a run.

use crate::args;
use crate::common::dice::{seed, Dice};
use crate::common::*;

const STEPS: usize = 3000;
/// Own ids, few enough to meet again.
const OWN_IDS: [&str; 5] = ["a", "b", "c:1", "d'", "e"];

struct History {
    dice: Dice,
    /// Receipts of claims, spent or not.
    receipts: Vec<String>,
    ids: Vec<String>,
}

impl History {
    fn receipt(&mut self) -> String {
        let recent = self.receipts.len().saturating_sub(20);
        let some = &self.receipts[recent..];
        if some.is_empty() {
            return "00000000001:1".into();
        }
        self.dice.pick(some).clone()
    }

    fn id(&mut self) -> String {
        if self.ids.is_empty() || self.dice.one_in(4) {
            return (*self.dice.pick(&OWN_IDS)).into();
        }
        self.dice.pick(&self.ids).clone()
    }

    fn delay(&mut self) -> String {
        self.dice.between(0, 40).to_string()
    }

    /// One command, of which any may be refused: a stale receipt, a full queue.
    fn command(&mut self) -> (&'static str, Vec<Vec<u8>>) {
        let (delay, receipt, id) = (self.delay(), self.receipt(), self.id());
        match self.dice.between(0, 27) {
            0..=4 => ("PUSH", args!["x", "DELAY", delay]),
            5 => ("PUSH", args!["own", "ID", *self.dice.pick(&OWN_IDS), "KEEP", delay]),
            6 => ("PUSH", args!["own", "ID", *self.dice.pick(&OWN_IDS), "REPLACE", "DELAY", delay]),
            7 => ("MPUSH", args!["RETRIES", 1, "PAYLOADS", "x", "y", "z"]),
            8 => ("MPUSH", args!["JOBS", "", delay, "x", *self.dice.pick(&OWN_IDS), 0, vec![b'y'; 5000]]),
            9..=12 => ("CLAIM", args!["COUNT", self.dice.between(1, 4), "LEASE", self.dice.between(1, 60)]),
            13 | 14 => ("ACK", args![receipt]),
            15 => ("RETRY", args![receipt, "DELAY", delay, "ERROR", "e"]),
            16 => ("RELEASE", args!["DELAY", delay, "RECEIPTS", receipt]),
            17 => ("FAIL", args![receipt, "STACK", "s"]),
            18 => ("EXTEND", args![self.dice.between(1, 60), receipt]),
            19 => ("CANCEL", args![id]),
            20 => ("RESCHEDULE", args!["DELAY", delay, "IDS", id]),
            21 => ("REPLAY", args!["DELAY", delay, "IDS", id]),
            22 => ("REPLAY", args!["DELAY", delay, "SPREAD", 20, "ALL"]),
            23 if self.dice.one_in(8) => {
                ("PURGE", args!["STATE", *self.dice.pick(&["ready", "delayed", "leased", "dead"])])
            }
            23 => ("RESCHEDULE", args!["DELAY", delay, "ALL"]),
            24 => ("CONFIG", args!["SET", "max-leased", self.dice.between(0, 9)]),
            25 => ("CONFIG", args!["SET", "max-length", self.dice.between(20, 60)]),
            26 => ("REPAIR", args![]),
            _ if self.dice.one_in(2) => ("PAUSE", args![]),
            _ => ("RESUME", args![]),
        }
    }

    fn note(&mut self, name: &str, reply: &redis::Value) {
        match name {
            "CLAIM" => {
                for job in list(reply) {
                    let job = Job::of(&job);
                    self.receipts.push(job.receipt);
                    self.ids.push(job.id);
                }
            }
            "PUSH" => self.ids.push(text(reply)),
            _ => {}
        }
    }
}

/// What came into the queue, and where it is or went.
fn assert_account(q: &mut Queue) {
    let [pushed, acked, cancelled, purged, stale, evicted] =
        q.stats(["pushed", "acked", "cancelled", "purged", "stale-purged", "dead-evicted"]);
    let [ready, delayed, leased, dead] = q.stats(["ready", "delayed", "leased", "dead"]);
    let (live, gone) = (ready + delayed + leased, acked + cancelled + purged + evicted);
    assert_eq!(pushed, live + dead + gone, "live {live}, dead {dead}, gone {gone}, of these {evicted} evicted");
    assert_eq!(stale, 0, "stale-policy is keep");
    for (key, figure) in
        [("jobs", live), ("dead", dead), ("dead:at", dead), ("leased", leased), ("due", ready + delayed)]
    {
        let command = if matches!(key, "jobs" | "dead") { "HLEN" } else { "ZCARD" };
        assert_eq!(q.raw::<i64>(args![command, q.key(key)]), figure, "{key}");
    }
}

#[test]
fn the_figures_are_one_account_with_the_data() {
    let seed = seed();
    eprintln!("DQ_TEST_SEED={seed}");
    let builder =
        Server::builder().aof().set("stale-policy", "keep").set("purge-interval", "20").set("max-lapses", "2");
    let builder = builder.set("dead-max", "25").set("backoff-base", "1").set("backoff-cap", "20");
    // After the restart nothing moves by itself either.
    let mut server = builder.set("takeover-grace", "1h").start();
    server.set("takeover-grace", "0");
    let replica = Server::builder().replica_of(&server).start();
    let mut history = History { dice: Dice(seed), receipts: Vec::new(), ids: Vec::new() };
    {
        let mut q = server.queue("q");
        q.unwatched();
        for step in 0..STEPS {
            let (name, words) = history.command();
            if let Ok(reply) = q.call(name, words) {
                history.note(name, &reply);
            }
            if step % 500 == 0 {
                q.check_clean();
            }
        }
        // Nothing moves by itself any more.
        server.set("enabled", "no");
        q.check_clean();
        assert_account(&mut q);
    }
    let before = server.dump();
    wait_for("the replica to have the same", || replica.dump() == before);
    server.crash_and_restart();
    assert_eq!(server.dump(), before);
}

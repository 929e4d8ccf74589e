//! Bad input, keys of other types, and keys that another hand wrote into.

use redis::Value;

use crate::args;
use crate::common::queue::companion_key;
use crate::common::NOT_NUMBERS;
use crate::ops::{Harm, Via};
use crate::reference::job;
use crate::reference::queue::{Id, Live, Place};
use crate::refused::{ON_WRONG_TYPE, REFUSED};
use crate::run::{expect, refused, Check, Run};

/// A time in which a job that was harmed is leased, from now.
const LEASE: u64 = 500;
const COMPANIONS: [&str; 6] = ["due", "leased", "jobs", "ids", "dead", "dead:at"];

impl Run<'_> {
    pub fn refused(&mut self, q: usize, which: usize, number: usize) -> Check {
        let line = REFUSED[which % REFUSED.len()];
        let (code, line) = line.split_once(':').filter(|(code, _)| *code == "DQDELAY").unwrap_or(("ERR", line));
        let name = self.world.queues[q].name.clone();
        let receipt = self.recent_receipt(q);
        let words = words_of(line, &name, &receipt, NOT_NUMBERS[number % NOT_NUMBERS.len()]);
        let reply = self.send(words);
        refused(&reply, code)
    }

    pub fn wrong_type(&mut self, key: usize, command: usize) -> Check {
        if !self.world.is_enabled() {
            return Ok(());
        }
        let name = format!("w{}", self.host.rounds).into_bytes();
        let key_name = COMPANIONS.get(key).map_or_else(|| name.clone(), |companion| companion_key(&name, companion));
        // A HASH without the mark is no header, and a string is none of the keys.
        let make = if key > 6 { args!["HSET", &key_name, "f", "v"] } else { args!["SET", &key_name, "v"] };
        self.send_plain(make)?;
        let before = self.send_plain(args!["DUMP", &key_name])?;
        let line = ON_WRONG_TYPE[command % ON_WRONG_TYPE.len()];
        let reply = self.send_plain(words_of(line, &name, "", b""));
        refused(&reply, "WRONGTYPE")?;
        let after = self.send_plain(args!["DUMP", &key_name])?;
        let others = self.send_plain(args!["KEYS", format!("*w{}*", self.host.rounds)])?;
        self.send_plain(args!["DEL", &key_name])?;
        expect(&Ok(after), &before)?;
        expect(&Ok(others), &Value::Array(vec![Value::BulkString(key_name)]))
    }

    /// Harms the queue, has it looked over and repaired. Only where nothing else would meet the harm before.
    pub fn harm(&mut self, q: usize, harm: Harm, at: usize) -> Check {
        if !self.world.is_enabled() || self.world.waiter.is_some() {
            return Ok(());
        }
        match harm {
            Harm::HeaderGone => self.take_header(q),
            Harm::LetterGone | Harm::LetterTimeGone => self.harm_letter(q, harm, at),
            _ => self.harm_job(q, harm, at),
        }
    }

    fn key(&self, q: usize, companion: &str) -> Vec<u8> {
        companion_key(&self.world.queues[q].name, companion)
    }

    /// DQ.CHECK finds this problem alone, and REPAIR mends it or not.
    fn check_and_repair(&mut self, q: usize, problem: &str, id: &[u8], mended: bool) -> Check {
        let bulk = |text: &[u8]| Value::BulkString(text.to_vec());
        let name = self.world.queues[q].name.clone();
        let found = self.send_plain(args!["DQ.CHECK", &name]);
        let row = vec![bulk(problem.as_bytes()), bulk(id)];
        expect(&found, &Value::Array(vec![Value::Array(row.clone())]))?;
        let found = self.send_plain(args!["DQ.REPAIR", &name]);
        let row = [row, vec![Value::Int(i64::from(mended))]].concat();
        expect(&found, &Value::Array(vec![Value::Array(row)]))?;
        self.world.change(q, |_, _| ());
        Ok(())
    }

    /// A header that goes while there are jobs is made again as it was.
    fn take_header(&mut self, q: usize) -> Check {
        let queue = &mut self.world.queues[q];
        if queue.jobs.is_empty() || queue.header.is_none() {
            return Ok(());
        }
        queue.count("headers-remade", 1);
        let name = queue.name.clone();
        let reply = self.send_plain(args!["DEL", &name]);
        expect(&reply, &Value::Int(1))
    }

    fn harm_letter(&mut self, q: usize, harm: Harm, at: usize) -> Check {
        let letters = self.world.queues[q].letters();
        if letters.is_empty() {
            return Ok(());
        }
        let (id, now) = (letters[at % letters.len()].clone(), self.world.now());
        if matches!(harm, Harm::LetterGone) {
            self.send_plain(args!["HDEL", self.key(q, "dead"), &id])?;
            self.world.queues[q].dead.remove(&id);
            self.check_and_repair(q, "time-without-dead", &id, true)
        } else {
            self.send_plain(args!["ZREM", self.key(q, "dead:at"), &id])?;
            self.world.queues[q].dead.get_mut(&id).expect("it is there").at = now;
            self.check_and_repair(q, "dead-without-time", &id, true)
        }
    }

    fn harm_job(&mut self, q: usize, harm: Harm, at: usize) -> Check {
        let ids: Vec<Id> = self.world.queues[q].jobs.keys().cloned().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let id = ids[at % ids.len()].clone();
        let job: Live = self.world.queues[q].jobs[&id].clone();
        let (index, score) = match job.place {
            Place::Due { at, .. } => ("due", at),
            Place::Leased { ends } => ("leased", ends),
        };
        let (key, now) = (self.key(q, index), self.world.now());
        let member = if index == "due" { job.record.member(&id) } else { id.clone() };
        let put = |at: u64| if index == "due" { Place::Due { at, up_to: at } } else { Place::Leased { ends: at } };
        match harm {
            Harm::IndexEntryGone => {
                self.send_plain(args!["ZREM", key, &member])?;
                self.place(q, &id, Place::Due { at: now, up_to: now });
                job::lose(&mut self.world.queues[q].jobs.get_mut(&id).expect("it is there").record);
                self.world.queues[q].count("lapsed", 1);
                self.check_and_repair(q, "job-without-index", &id, true)
            }
            Harm::RecordGone => {
                self.send_plain(args!["HDEL", self.key(q, "jobs"), &id])?;
                self.world.change(q, |queue, scene| queue.remove_job(scene, &id));
                self.check_and_repair(q, &format!("{index}-without-job"), &id, true)
            }
            Harm::InBothIndexes if index == "due" => {
                self.send_plain(args!["ZADD", self.key(q, "leased"), now + LEASE, &id])?;
                self.place(q, &id, Place::Leased { ends: now + LEASE });
                self.check_and_repair(q, "due-and-leased", &id, true)
            }
            Harm::FractionalScore => {
                self.send_plain(args!["ZADD", key, format!("{score}.5"), &member])?;
                self.place(q, &id, put(score + 1));
                self.check_and_repair(q, "bad-score", &id, true)
            }
            Harm::EndlessScore => {
                self.send_plain(args!["ZADD", key, "inf", &member])?;
                self.place(q, &id, put(now));
                self.check_and_repair(q, "bad-score", &id, true)
            }
            Harm::OldEntry if member != id => {
                self.send_plain(args!["ZREM", &key, &member])?;
                self.send_plain(args!["ZADD", key, score, &id])?;
                self.check_and_repair(q, "due-out-of-place", &id, true)
            }
            Harm::SecondEntry if member != id => {
                self.send_plain(args!["ZADD", key, now + LEASE, &id])?;
                self.check_and_repair(q, "due-out-of-place", &id, true)
            }
            Harm::UnreadableRecord => {
                self.send_plain(args!["HSET", self.key(q, "jobs"), &id, b"\xc1".to_vec()])?;
                self.check_and_repair(q, "bad-record", &id, false)?;
                let reply = self.send_plain(args!["DQ.CANCEL", &self.world.queues[q].name, &id]);
                self.world.change(q, |queue, scene| {
                    queue.remove_job(scene, &id);
                    queue.count("cancelled", 1);
                });
                expect(&reply, &Value::Int(1))
            }
            Harm::EntryOfNothing => {
                self.send_plain(args!["ZADD", self.key(q, "due"), now + LEASE, "nothing"])?;
                self.check_and_repair(q, "due-without-job", b"nothing", true)
            }
            _ => Ok(()),
        }
    }

    fn place(&mut self, q: usize, id: &Id, place: Place) {
        self.world.queues[q].jobs.get_mut(id).expect("it is there").place = place;
    }

    /// As `send`, never within a transaction or a script.
    pub fn send_plain(&mut self, words: Vec<Vec<u8>>) -> crate::run::Reply {
        self.via = Via::Plain;
        self.send(words)
    }
}

/// The words of a line of the tables.
fn words_of(line: &str, queue: &[u8], receipt: &str, number: &[u8]) -> Vec<Vec<u8>> {
    let long = "i".repeat(129);
    let mut words: Vec<Vec<u8>> = line
        .split(' ')
        .map(|word| match word {
            "$Q" => queue.to_vec(),
            "$R" => receipt.as_bytes().to_vec(),
            "$N" => number.to_vec(),
            "$E" => Vec::new(),
            word => word.replace("$L", &long).into_bytes(),
        })
        .collect();
    words[0] = [b"DQ.", words[0].as_slice()].concat();
    words
}

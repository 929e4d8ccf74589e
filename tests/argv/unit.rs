//! What is sent as one: a command, a transaction, or a script around a command.

use super::draw::Draw;
use super::grammar;
use super::judge::{judge, judge_errors, learn};
use super::wire::{Reply, Words};

/// Scripts that give the command on to the server. Few, since the server keeps each.
const SCRIPTS: [&str; 5] = [
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "redis.setresp(3); return redis.pcall(unpack(ARGV))",
    "local a = redis.pcall(unpack(ARGV)); local b = redis.pcall(unpack(ARGV)); return {a, b}",
    "redis.call('DQ.PUSH', KEYS[1], 'x'); local a = redis.pcall(unpack(ARGV)); return {a, redis.call('DQ.CLAIM', KEYS[1])}",
];

pub enum Unit {
    Command(Words),
    Transaction(Vec<Words>),
    Script(Words),
    /// A command of the server.
    Foreign(Words),
}

impl Unit {
    pub fn draw(draw: &mut Draw) -> Unit {
        match draw.dice.between(0, 99) {
            0..=5 => Unit::Transaction((0..draw.dice.between(0, 6)).map(|_| inner(draw)).collect()),
            6..=9 => Unit::Script(script(draw)),
            10..=11 => Unit::Foreign(grammar::spoil(draw)),
            12 if draw.one_in(3) => Unit::Foreign(grammar::setting(draw)),
            12 if draw.one_in(2) => Unit::Foreign(get_keys(draw)),
            _ => Unit::Command(grammar::command(draw)),
        }
    }

    /// The commands in the order in which they are sent.
    pub fn commands(&self) -> Vec<Words> {
        match self {
            Unit::Command(words) | Unit::Script(words) | Unit::Foreign(words) => vec![words.clone()],
            Unit::Transaction(inner) => {
                let word = |text: &str| vec![text.as_bytes().to_vec()];
                let mut all = vec![word("MULTI")];
                all.extend(inner.iter().cloned());
                all.push(word("EXEC"));
                all
            }
        }
    }

    /// How many of the module's commands it holds.
    pub fn count(&self) -> u64 {
        match self {
            Unit::Command(_) | Unit::Script(_) => 1,
            Unit::Transaction(inner) => inner.len() as u64,
            Unit::Foreign(_) => 0,
        }
    }

    /// What is wrong with the replies, one for each of the commands.
    pub fn judge(&self, replies: &[Reply], draw: &mut Draw) -> Result<(), String> {
        match self {
            Unit::Command(words) => judge_and_learn(words, &replies[0], draw),
            Unit::Transaction(inner) => judge_transaction(inner, replies, draw),
            Unit::Script(_) => judge_errors(&replies[0]),
            Unit::Foreign(_) => Ok(()),
        }
    }
}

fn judge_and_learn(words: &Words, reply: &Reply, draw: &mut Draw) -> Result<(), String> {
    judge(words, reply)?;
    learn(draw, words, reply);
    Ok(())
}

fn judge_transaction(inner: &[Words], replies: &[Reply], draw: &mut Draw) -> Result<(), String> {
    let (Some(results), queued) = (replies.last(), &replies[1..replies.len() - 1]) else {
        return Err("no reply to EXEC".into());
    };
    queued.iter().try_for_each(judge_errors)?;
    let Reply::List(results) = results else { return judge_errors(results) };
    if results.len() != inner.len() {
        return Err(format!("EXEC of {} commands answered {} replies", inner.len(), results.len()));
    }
    inner.iter().zip(results).try_for_each(|(words, reply)| judge_and_learn(words, reply, draw))
}

/// A command for the middle of a transaction: also one that writes to a spoilt queue by hand.
fn inner(draw: &mut Draw) -> Words {
    if draw.one_in(10) {
        return grammar::spoil(draw);
    }
    grammar::command(draw)
}

fn script(draw: &mut Draw) -> Words {
    let name = if draw.one_in(8) { "EVAL_RO" } else { "EVAL" };
    let mut words = vec![name.as_bytes().to_vec(), draw.of(&SCRIPTS), b"1".to_vec(), draw.queue()];
    words.extend(grammar::command(draw));
    words
}

/// COMMAND GETKEYS, by which the server reads the module's key specs.
fn get_keys(draw: &mut Draw) -> Words {
    let mut words = vec![b"COMMAND".to_vec(), b"GETKEYS".to_vec()];
    words.extend(grammar::command(draw));
    words
}

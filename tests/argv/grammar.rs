//! Commands, drawn by their grammar and then, some of them, bent.

use super::draw::{Draw, FIELDS, SPOILT};
use super::wire::Words;

/// The module's commands, some more often than others.
const NAMES: [&str; 45] = [
    "PUSH",
    "PUSH",
    "PUSH",
    "PUSH",
    "PUSH",
    "PUSH",
    "MPUSH",
    "MPUSH",
    "CLAIM",
    "CLAIM",
    "CLAIM",
    "CLAIM",
    "CLAIM",
    "CLAIM",
    "MCLAIM",
    "MCLAIM",
    "ACK",
    "ACK",
    "ACK",
    "EXTEND",
    "EXTEND",
    "RETRY",
    "RETRY",
    "RELEASE",
    "RELEASE",
    "FAIL",
    "FAIL",
    "STATS",
    "GET",
    "GET",
    "PEEK",
    "PEEK",
    "CANCEL",
    "CANCEL",
    "RESCHEDULE",
    "RESCHEDULE",
    "REPLAY",
    "REPLAY",
    "CONFIG",
    "CONFIG",
    "QUEUES",
    "CHECK",
    "REPAIR",
    "RESUME",
    "RESUME",
];

/// Commands that take much away at once or stop what the others do, drawn seldom.
const RARE: [&str; 4] = ["PURGE", "DROP", "PAUSE", "PAUSE"];

/// One of the module's commands, a third of them bent.
pub fn command(draw: &mut Draw) -> Words {
    let name = if draw.one_in(75) { *draw.dice.pick(&RARE) } else { *draw.dice.pick(&NAMES) };
    let mut words = vec![draw.any_case(&format!("DQ.{name}"))];
    arguments(draw, name, &mut words);
    if draw.one_in(3) {
        bend(draw, &mut words);
    }
    words
}

fn arguments(draw: &mut Draw, name: &str, words: &mut Words) {
    match name {
        "MCLAIM" => {
            let number = draw.dice.between(1, 4);
            words.push(number.to_string().into_bytes());
            words.extend((0..number).map(|_| draw.queue()));
            claim_options(draw, words);
            option(draw, words, 3, |draw| vec![b"ORDER".to_vec(), draw.of(&["strict", "rotate", "ROTATE"])]);
            return;
        }
        "QUEUES" => {
            option(draw, words, 2, |draw| vec![b"MATCH".to_vec(), draw.of(&["*", "m*", "[a-m]*[^x]", "\\", "*\0*"])]);
            return;
        }
        _ => words.push(draw.queue()),
    }
    match name {
        "PUSH" => {
            words.push(draw.payload());
            job_options(draw, words);
            option(draw, words, 3, |draw| {
                let mut own = vec![b"ID".to_vec(), draw.own_id()];
                option(draw, &mut own, 2, |draw| vec![b"KEEP".to_vec(), draw.duration()]);
                option(draw, &mut own, 3, |_| vec![b"NX".to_vec()]);
                option(draw, &mut own, 3, |_| vec![b"REPLACE".to_vec()]);
                own
            });
        }
        "MPUSH" => mpush(draw, words),
        "CLAIM" => claim_options(draw, words),
        "ACK" => {
            list(draw, words, Draw::receipt);
            option(draw, words, 3, |draw| vec![draw.any_case("EACH")]);
        }
        "EXTEND" => {
            words.push(draw.duration());
            list(draw, words, Draw::receipt);
        }
        "RETRY" => {
            words.push(draw.receipt());
            option(draw, words, 2, |draw| vec![b"DELAY".to_vec(), draw.duration()]);
            note(draw, words);
        }
        "RELEASE" => {
            option(draw, words, 2, |draw| vec![b"DELAY".to_vec(), draw.duration()]);
            words.push(draw.any_case("RECEIPTS"));
            list(draw, words, Draw::receipt);
        }
        "FAIL" => {
            words.push(draw.receipt());
            note(draw, words);
        }
        "GET" => words.push(draw.id()),
        "PEEK" => {
            option(draw, words, 2, |draw| vec![b"STATE".to_vec(), state(draw)]);
            option(draw, words, 2, |draw| vec![b"COUNT".to_vec(), draw.count()]);
            option(draw, words, 2, |draw| vec![b"AFTER".to_vec(), draw.cursor()]);
        }
        "CANCEL" => {
            option(draw, words, 4, |draw| vec![b"STATE".to_vec(), state(draw)]);
            list(draw, words, Draw::id);
        }
        "RESCHEDULE" => {
            due(draw, words);
            which(draw, words);
        }
        "REPLAY" => {
            option(draw, words, 3, |draw| vec![b"REASON".to_vec(), reason(draw)]);
            option(draw, words, 3, |draw| vec![b"COUNT".to_vec(), draw.count()]);
            option(draw, words, 3, |draw| vec![b"DELAY".to_vec(), draw.duration()]);
            option(draw, words, 3, |draw| vec![b"SPREAD".to_vec(), draw.duration()]);
            which(draw, words);
        }
        "PURGE" => {
            words.push(draw.any_case("STATE"));
            list(draw, words, state);
        }
        "DROP" => option(draw, words, 2, |_| vec![b"FORCE".to_vec()]),
        "CONFIG" => config(draw, words),
        _ => {}
    }
}

/// Adds the option, one time in `n`.
fn option(draw: &mut Draw, words: &mut Words, n: u64, make: impl FnOnce(&mut Draw) -> Words) {
    if draw.one_in(n) {
        words.extend(make(draw));
    }
}

/// One or more, as a rule few.
fn list(draw: &mut Draw, words: &mut Words, mut one: impl FnMut(&mut Draw) -> Vec<u8>) {
    let most = if draw.one_in(50) { 200 } else { 4 };
    let number = draw.dice.between(1, most);
    words.extend((0..number).map(|_| one(draw)));
}

fn state(draw: &mut Draw) -> Vec<u8> {
    draw.of(&["ready", "delayed", "leased", "dead", "DEAD"])
}

fn reason(draw: &mut Draw) -> Vec<u8> {
    draw.of(&["failed", "stale", "lapses-exhausted", "retries-exhausted"])
}

fn due(draw: &mut Draw, words: &mut Words) {
    match draw.one_in(3) {
        true => words.extend([b"AT".to_vec(), draw.unix_ms()]),
        false => words.extend([draw.any_case("DELAY"), draw.duration()]),
    }
}

fn which(draw: &mut Draw, words: &mut Words) {
    if draw.one_in(3) {
        words.push(draw.any_case("ALL"));
    } else {
        words.push(b"IDS".to_vec());
        list(draw, words, Draw::id);
    }
}

fn note(draw: &mut Draw, words: &mut Words) {
    option(draw, words, 2, |draw| vec![b"ERROR".to_vec(), draw.payload()]);
    option(draw, words, 3, |draw| vec![b"STACK".to_vec(), draw.payload()]);
}

fn job_options(draw: &mut Draw, words: &mut Words) {
    if draw.one_in(2) {
        due(draw, words);
    }
    option(draw, words, 4, |draw| vec![b"RETRIES".to_vec(), draw.count()]);
    option(draw, words, 4, |draw| vec![b"LEASE".to_vec(), draw.duration()]);
    option(draw, words, 4, |draw| vec![b"BACKOFF".to_vec(), draw.duration(), draw.duration()]);
}

fn mpush(draw: &mut Draw, words: &mut Words) {
    let own = draw.one_in(2);
    if own {
        option(draw, words, 4, |draw| vec![b"KEEP".to_vec(), draw.duration()]);
        option(draw, words, 4, |_| vec![b"NX".to_vec()]);
        option(draw, words, 4, |_| vec![b"REPLACE".to_vec()]);
        words.push(draw.any_case("JOBS"));
        let most = if draw.one_in(50) { 60 } else { 4 };
        for _ in 0..draw.dice.between(1, most) {
            let id = if draw.one_in(2) { Vec::new() } else { draw.own_id() };
            words.extend([id, draw.duration(), draw.payload()]);
        }
    } else {
        job_options(draw, words);
        words.push(draw.any_case("PAYLOADS"));
        if draw.one_in(60) {
            // So many that work on all of them goes in slices.
            words.extend(vec![b"x".to_vec(); draw.dice.between(900, 3000) as usize]);
        } else {
            list(draw, words, Draw::payload);
        }
    }
}

fn claim_options(draw: &mut Draw, words: &mut Words) {
    option(draw, words, 2, |draw| vec![draw.any_case("COUNT"), draw.count()]);
    option(draw, words, 2, |draw| vec![b"LEASE".to_vec(), draw.duration()]);
    option(draw, words, 30, |draw| {
        let block = if draw.one_in(8) { draw.duration() } else { draw.dice.between(1, 6).to_string().into_bytes() };
        vec![b"BLOCK".to_vec(), block]
    });
}

fn config(draw: &mut Draw, words: &mut Words) {
    match draw.dice.between(0, 5) {
        0 => words.extend([b"GET".to_vec(), draw.of(&FIELDS)]),
        1 => {
            words.push(draw.any_case("SET"));
            let number = draw.dice.between(1, 3);
            (0..number).for_each(|_| {
                let value = match draw.dice.between(0, 3) {
                    0 => draw.of(&["dead", "drop", "keep", "1mb", "64KB", "0"]),
                    1 => draw.duration(),
                    _ => draw.count(),
                };
                words.extend([draw.of(&FIELDS), value]);
            });
        }
        2 => words.extend([draw.any_case("RESET"), draw.of(&FIELDS)]),
        3 | 4 => {
            words.push(draw.any_case("RESET"));
            words.extend(FIELDS.map(|field| field.as_bytes().to_vec()));
        }
        _ => words.push(b"GET".to_vec()),
    }
}

/// Words put in, taken out, doubled, exchanged: a command that may mean something else, or nothing.
fn bend(draw: &mut Draw, words: &mut Words) {
    for _ in 0..draw.dice.between(1, 3) {
        let place = draw.dice.between(0, words.len() as u64 - 1) as usize;
        match draw.dice.between(0, 6) {
            0 if place > 0 => words[place] = draw.any(),
            1 => words.insert(place + 1, draw.any()),
            2 if place > 0 => drop(words.remove(place)),
            3 if place > 0 => words.insert(place, words[place].clone()),
            4 if place > 1 => words.swap(place, 1),
            5 => words.truncate(place + 1),
            6 if draw.one_in(20) => {
                let number = draw.dice.between(0, 200);
                words.extend((0..number).map(|_| draw.any()));
            }
            _ => words.push(draw.any()),
        }
    }
}

/// A command of the server on a key of a queue that may be spoilt, or now and then on whole databases.
pub fn spoil(draw: &mut Draw) -> Words {
    let key = draw.spoilt_key();
    let word = |text: &str| text.as_bytes().to_vec();
    if draw.one_in(30) {
        return match draw.one_in(4) {
            true => vec![word("FLUSHDB")],
            false => vec![word("SWAPDB"), draw.of(&["0", "3", "9"]), draw.of(&["0", "3", "9"])],
        };
    }
    match draw.dice.between(0, 16) {
        0 => vec![word("SET"), key, draw.any()],
        1 => vec![word("RPUSH"), key, draw.any()],
        2 => vec![word("SADD"), key, draw.id()],
        3 => vec![word("XADD"), key, word("*"), draw.any(), draw.any()],
        4..=7 => vec![word("ZADD"), key, score(draw), draw.id()],
        8 | 9 => vec![word("HSET"), key, draw.id(), record(draw)],
        10 => vec![word("ZREM"), key, draw.id()],
        11 => vec![word("HDEL"), key, draw.id()],
        12 => vec![word("RENAME"), key, draw.spoilt_key()],
        13 => vec![word("COPY"), key, draw.spoilt_key(), word("REPLACE")],
        14 => vec![word("MOVE"), key, draw.of(&["0", "3", "9"])],
        15 => vec![word("PEXPIRE"), key, draw.dice.between(0, 50).to_string().into_bytes()],
        _ => vec![word("DEL"), key],
    }
}

fn score(draw: &mut Draw) -> Vec<u8> {
    draw.of(&["1", "inf", "-inf", "-1", "1.5", "1e300", "9007199254740993", "18446744073709551616", "-0.0", "5e-324"])
}

/// What may stand in a hash in place of a record.
fn record(draw: &mut Draw) -> Vec<u8> {
    match draw.dice.between(0, 5) {
        0 => draw.any(),
        1 => b"\x92\x01\xc4\x01p".to_vec(),
        2 => b"\x93\x01\xa5stale\x92\x01\xc4\x01p".to_vec(),
        3 => b"\x99\x01\xc4\x00\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xce\xff\xff\xff\xff\xce\xff\xff\xff\xff\xce\xff\xff\xff\xff\xce\xff\xff\xff\xff\xc3\xce\xff\xff\xff\xff".to_vec(),
        4 => b"\x9c\x01\xc4\x00\xc0\x01\x01\x01\x01\xc3\x00\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x00".to_vec(),
        _ => (0..draw.dice.between(0, 30)).map(|_| draw.dice.next() as u8).collect(),
    }
}

/// Whether the queue is one whose keys may be spoilt.
pub fn is_spoilt(name: &[u8]) -> bool {
    SPOILT.contains(&name)
}

/// A setting of the server, which holds until the end of the round.
pub fn setting(draw: &mut Draw) -> Words {
    let name = draw.of(&[
        "lease",
        "max-lease",
        "max-retries",
        "max-lapses",
        "backoff-base",
        "backoff-jitter",
        "max-delay",
        "max-payload",
        "max-length",
        "max-error",
        "far-horizon",
        "far-alarm",
        "purge-interval",
        "stale-after",
        "stale-policy",
        "dead-max",
        "dead-max-age",
        "id-keep",
        "takeover-grace",
        "idle-queue-ttl",
        "max-waiting-memory",
        "clock-step",
        "enabled",
    ]);
    let value = match draw.dice.between(0, 4) {
        0 => draw.any(),
        1 => draw.of(&["yes", "no", "dead", "drop", "keep", "slew", "follow"]),
        2 => draw.duration(),
        _ => draw.count(),
    };
    vec![b"CONFIG".to_vec(), b"SET".to_vec(), [b"dq.", &name[..]].concat(), value]
}

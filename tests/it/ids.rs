//! Ids of the server's: each is new, and they rise, over restarts and promotions, whatever the clocks say.

use crate::args;
use crate::common::wall::Wall;
use crate::common::*;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The ms of an id, and the bits that this run of the server drew.
fn parts(id: &str) -> (i64, u64) {
    let digit = |byte: &u8| DIGITS.iter().position(|digit| digit == byte).expect("a digit") as u64;
    let number = id.as_bytes().iter().fold(0, |number, byte| number * 62 + digit(byte));
    ((number >> 22) as i64, number >> 14 & 0xff)
}

/// The first id of a ms.
fn first_of(ms: i64, drawn: u64) -> String {
    let mut number = (ms as u64) << 22 | drawn << 14;
    let mut digits = vec![b'0'; 11];
    for place in digits.iter_mut().rev() {
        *place = DIGITS[(number % 62) as usize];
        number /= 62;
    }
    String::from_utf8(digits).expect("digits are ASCII")
}

#[test]
fn an_id_that_a_dead_letter_has_is_not_given_again() {
    // Letters from a time to come, as a server leaves them whose clock was days ahead.
    let server = Server::start();
    let mut other = server.queue("other");
    let failed = other.push_and_claim("x");
    other.fail(&failed.receipt);
    let letter: Vec<u8> = other.raw(args!["HGET", other.key("dead"), &failed.id]);
    let (_, drawn) = parts(&other.push("y"));
    let mut q = server.queue("q");
    q.unwatched();
    let begin = q.now() + 300;
    let taken: Vec<String> = (begin..begin + 700).chain([begin + 2 * DAY]).map(|ms| first_of(ms, drawn)).collect();
    assert_eq!(parts(&taken[3]), (begin + 3, drawn));
    let mut pipe = redis::pipe();
    pipe.atomic();
    for (died_at, id) in (1_000_000_000_000_i64..).zip(&taken) {
        pipe.cmd("HSET").arg(q.key("dead")).arg(id).arg(&letter);
        pipe.cmd("ZADD").arg(q.key("dead:at")).arg(died_at).arg(id);
    }
    pipe.exec(&mut q.con).expect("the letters are written");
    let mut within = 0;
    wait_for("the time of the letters to be over", || {
        let id = q.push("x");
        assert!(!taken.contains(&id), "{id} is a dead letter's");
        let (ms, _) = parts(&id);
        within += usize::from(ms >= begin);
        ms > begin + 750
    });
    assert!(within > 5, "only {within} ids were of the time of the letters");
}

/// Has `to` take over from `from`, which becomes its replica.
fn fail_over(from: &Server, to: &Server) {
    to.catch_up(from);
    to.run(&["REPLICAOF", "NO", "ONE"]);
    from.run(&["REPLICAOF", "127.0.0.1", &to.port.to_string()]);
    from.catch_up(to);
}

/// Promotes a replica and pushes twice in the same pass, before it does anything else; gives the ids.
fn promote_and_push(replica: &Server) -> [String; 2] {
    let mut pipe = redis::pipe();
    pipe.cmd("REPLICAOF").arg("NO").arg("ONE").ignore();
    for _ in 0..2 {
        pipe.cmd("DQ.PUSH").arg("q").arg("x");
    }
    let (first, second): (String, String) = pipe.query(&mut replica.conn()).expect("all answer");
    [first, second]
}

#[test]
fn ids_rise_over_promotions() {
    let wall = Wall::new();
    wall.set(HOUR);
    let ahead = wall.rules(Server::builder()).start();
    let other = Server::start();
    // One that meets the queue, and one that knew it when it was the primary before.
    for knows in [false, true] {
        if knows {
            other.queue("q").push("x");
            ahead.run(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
            fail_over(&other, &ahead);
        } else {
            other.run(&["REPLICAOF", "127.0.0.1", &ahead.port.to_string()]);
        }
        let before = [(); 2].map(|()| ahead.queue("q").push("x"));
        other.catch_up(&ahead);
        let after = promote_and_push(&other);
        let all = [before, after].concat();
        assert!(all.is_sorted() && all[1] != all[2] && all[2] != all[3], "knows: {knows}, {all:?}");
    }
}

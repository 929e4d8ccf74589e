//! kill -9 in the middle, by the dice, while the old poller, its producer and DQ's workers run: every job is worked on,
//! and each of them once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::{Commands, Connection};

use crate::common::dice::{seed, Dice};
use crate::common::{wait_at_most, Server};
use crate::program::{move_zset, start_move};

/// Members that are there when it begins; producers add as many again.
const JOBS: u64 = 3_000;
/// How often the mover is killed.
const KILLS: u64 = 12;
const PATIENCE: Duration = Duration::from_secs(120);

/// Who worked on what: a member is to stand here once.
#[derive(Default)]
struct Account {
    done: Mutex<BTreeMap<Vec<u8>, u32>>,
    by_poller: AtomicU64,
    by_worker: AtomicU64,
    added: AtomicU64,
    over: AtomicBool,
}

impl Account {
    fn count(&self, member: Vec<u8>, by: &AtomicU64) {
        *self.done.lock().unwrap().entry(member).or_default() += 1;
        by.fetch_add(1, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

fn member(i: u64) -> Vec<u8> {
    [format!("job {i:06} ").as_bytes(), &[i as u8, 0, 0xff]].concat()
}

fn now_ms(con: &mut Connection) -> i64 {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query(con).unwrap();
    seconds * 1000 + micros / 1000
}

/// The old worker: looks for what is due, and has what it takes away first.
fn poll(server: &Server, account: &Account) {
    let mut con = server.conn();
    while !account.is_over() {
        let now = now_ms(&mut con);
        let due: Vec<Vec<u8>> = con.zrangebyscore_limit("old", "-inf", now, 0, 3).unwrap();
        for member in due {
            if con.zrem::<_, _, i64>("old", &member).unwrap() == 1 {
                account.count(member, &account.by_poller);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A producer that nobody has changed yet.
fn produce(server: &Server, account: &Account, mut dice: Dice) {
    let mut con = server.conn();
    for i in JOBS..2 * JOBS {
        let score = now_ms(&mut con) + dice.between(0, 2000) as i64;
        let _: i64 = con.zadd("old", member(i), score).unwrap();
        account.added.fetch_add(1, Ordering::Relaxed);
        if dice.one_in(3) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn work(server: &Server, account: &Account) {
    let mut queue = server.queue("mail");
    queue.unwatched();
    while !account.is_over() {
        for job in queue.claim_with(crate::args!["COUNT", 10, "BLOCK", 50]) {
            assert_eq!(job.attempt, 1);
            assert_eq!(queue.ack(&job.receipt), 1);
            account.count(job.payload, &account.by_worker);
        }
    }
}

fn kill_in_the_middle(from: &Server, to: &Server, name: &str) {
    let seed = seed();
    println!("{name}: DQ_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let account = Account::default();
    let mut con = from.conn();
    let now = now_ms(&mut con);
    for i in 0..JOBS {
        let _: i64 = con.zadd("old", member(i), now - 500 + dice.between(0, 4000) as i64).unwrap();
    }
    std::thread::scope(|scope| {
        // Also if this panics: the scope waits for its threads.
        let _over = SetAtEnd(&account.over);
        let drawn = Dice(dice.next());
        scope.spawn(|| poll(from, &account));
        scope.spawn(|| work(to, &account));
        scope.spawn(|| produce(from, &account, drawn));
        for _ in 0..KILLS {
            let mut mover = start_move(from, to, &["--unit", "ms"]);
            // A start takes about 100 ms; what is drawn reaches from before it to long after it.
            std::thread::sleep(Duration::from_millis(dice.between(60, 500)));
            mover.kill().unwrap();
            mover.wait().unwrap();
        }
        wait_at_most(PATIENCE, "the producer", || (account.added.load(Ordering::Relaxed) == JOBS).then_some(()));
        move_zset(from, to, &["--unit", "ms"]).well();
        let end = Instant::now() + PATIENCE;
        while account.done.lock().unwrap().len() < 2 * JOBS as usize && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let done = account.done.into_inner().unwrap();
    let lost: Vec<u64> = (0..2 * JOBS).filter(|i| !done.contains_key(&member(*i))).collect();
    let doubled: Vec<_> = done.iter().filter(|(_, times)| **times > 1).collect();
    let (by_poller, by_worker) = (account.by_poller.into_inner(), account.by_worker.into_inner());
    println!("{name}: {by_poller} by the poller, {by_worker} by DQ's worker, {KILLS} kills");
    assert!(lost.is_empty(), "{} are lost: {lost:?}", lost.len());
    assert!(doubled.is_empty(), "{} are doubled: {doubled:?}", doubled.len());
    assert!(by_poller > 0 && by_worker > 0, "both were to work");
    for key in ["old", "{old}:moving"] {
        assert!(!con.exists::<_, bool>(key).unwrap(), "{key} is left");
    }
    to.queue("mail").check_clean();
}

struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
pub fn on_one_server() {
    let server = Server::start();
    kill_in_the_middle(&server, &server, "on one server");
}

#[test]
pub fn from_server_to_server() {
    let (old, new) = (Server::builder().without_module().start(), Server::start());
    kill_in_the_middle(&old, &new, "from server to server");
}

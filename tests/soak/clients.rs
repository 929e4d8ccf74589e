//! Clients that push, claim and end jobs, each some dozens at a time.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;

use redis::{Connection, Pipeline, Value};

use super::common::dice::Dice;
use super::common::queue::companion_key;
use super::common::{list, wait_until, Job, Server};
use crate::args;

/// Where the jobs are: databases and queues.
const QUEUES: [(i64, &str); 4] = [(0, "soak:a"), (0, "{soak}:b"), (0, "soak:c"), (5, "soak:d")];
/// Clients, each on a connection of its own.
const CLIENTS: u64 = 4;
/// Jobs that are there at a time, about.
const LIVE: i64 = 20_000;
/// Jobs that a client claims at once: fewer than it pushes while there are not enough, more where it pushes none.
const CLAIM: [u64; 2] = [20, 60];

/// What the clients and the one who looks share.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    pushed: AtomicU64,
    claimed: AtomicU64,
    /// Jobs that are there, as last looked.
    live: AtomicI64,
}

pub struct Crowd {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

impl Crowd {
    pub fn begin(server: &Server, seed: u64) -> Crowd {
        let shared = Arc::new(Shared::default());
        fill(server, &mut Dice(seed));
        let clients = (0..CLIENTS).map(|number| {
            let shared = shared.clone();
            let mut client = Client {
                number,
                dice: Dice(seed ^ (number << 32)),
                cons: [0, 5].map(|db| connect(server, db)),
                held: Vec::new(),
                pushes: 0,
            };
            std::thread::spawn(move || {
                while !shared.over.load(Relaxed) {
                    client.turn(&shared);
                }
            })
        });
        let clients = clients.collect();
        Crowd { shared, clients }
    }

    pub fn pushed(&self) -> u64 {
        self.shared.pushed.load(Relaxed)
    }

    /// Looks how many jobs there are, which the clients go by.
    pub fn look(&self, con: &mut Connection) -> i64 {
        let mut live = 0;
        for (db, name) in QUEUES {
            let mut pipe = redis::pipe();
            pipe.cmd("SELECT").arg(db).ignore().cmd("HLEN").arg(companion_key(name.as_bytes(), "jobs"));
            let (jobs,): (i64,) = pipe.query(con).expect("the server answers");
            live += jobs;
        }
        self.shared.live.store(live, Relaxed);
        live
    }

    /// Lets all of them finish their turn. Gives what to tell of them.
    pub fn end(self) -> String {
        self.shared.over.store(true, Relaxed);
        self.clients.into_iter().for_each(|client| client.join().expect("a client meets no error"));
        let (pushed, claimed) = (self.shared.pushed.load(Relaxed), self.shared.claimed.load(Relaxed));
        format!("{pushed} jobs pushed, {claimed} claims")
    }
}

/// Has one job go through each queue, after which the server knows it and keeps figures of it.
pub fn touch(server: &Server) {
    for (db, name) in QUEUES {
        let mut q = server.queue_in(db, name);
        let job = q.push_and_claim("x");
        assert_eq!(q.ack(&job.receipt), 1);
    }
}

/// Has as many jobs there from the begin on.
fn fill(server: &Server, dice: &mut Dice) {
    for (db, name) in QUEUES {
        let bodies: Vec<Vec<u8>> = (0..LIVE / QUEUES.len() as i64).map(|_| payload(dice)).collect();
        server.queue_in(db, name).ok("MPUSH", args!["PAYLOADS", bodies]);
    }
}

fn payload(dice: &mut Dice) -> Vec<u8> {
    vec![b'p'; dice.between(10, 300) as usize]
}

fn connect(server: &Server, db: i64) -> Connection {
    let mut con = server.conn();
    redis::cmd("SELECT").arg(db).exec(&mut con).expect("the database is there");
    con
}

struct Client {
    number: u64,
    dice: Dice,
    /// One for each database.
    cons: [Connection; 2],
    /// What it claimed in its last turn and means to end.
    held: Vec<(usize, Job)>,
    pushes: u64,
}

impl Client {
    /// Ends what it holds, pushes, and claims, all in one pipeline of one queue's database.
    fn turn(&mut self, shared: &Shared) {
        let place = self.dice.between(0, QUEUES.len() as u64 - 1) as usize;
        let (db, name) = QUEUES[place];
        let mut pipe = redis::pipe();
        let (here, elsewhere) = std::mem::take(&mut self.held).into_iter().partition(|(of, _)| *of == place);
        self.held = elsewhere;
        let ended: Vec<(usize, Job)> = here;
        ended.iter().for_each(|(_, job)| self.end_job(&mut pipe, name, job));
        let enough = shared.live.load(Relaxed) >= LIVE;
        if !enough {
            let pushed = self.push(&mut pipe, name);
            shared.pushed.fetch_add(pushed, Relaxed);
        }
        self.operate(&mut pipe, name);
        // Some leases are left to run out.
        let lapses = self.dice.one_in(40);
        let (count, lease) = if lapses { (5, 20) } else { (CLAIM[usize::from(enough)], 600_000) };
        pipe.cmd("DQ.CLAIM").arg(name).arg("COUNT").arg(count).arg("LEASE").arg(lease);
        let con = &mut self.cons[usize::from(db != 0)];
        let replies: Vec<Value> = pipe.query(con).unwrap_or_else(|e| panic!("{name}: {e}"));
        let jobs = list(replies.last().expect("CLAIM answers"));
        shared.claimed.fetch_add(jobs.len() as u64, Relaxed);
        if !lapses {
            self.held.extend(jobs.iter().map(|job| (place, Job::of(job))));
        }
    }

    fn end_job(&mut self, pipe: &mut Pipeline, name: &str, job: &Job) {
        let receipt = &job.receipt;
        match self.dice.between(0, 99) {
            0..=3 => pipe.cmd("DQ.RETRY").arg(name).arg(receipt).arg("ERROR").arg("it failed"),
            4 => pipe.cmd("DQ.RETRY").arg(name).arg(receipt).arg("DELAY").arg(5).arg("STACK").arg(&[b's'; 300][..]),
            5..=7 => pipe.cmd("DQ.RELEASE").arg(name).arg("DELAY").arg(3).arg("RECEIPTS").arg(receipt),
            8..=10 => pipe.cmd("DQ.FAIL").arg(name).arg(receipt).arg("ERROR").arg("for good"),
            11 => {
                pipe.cmd("DQ.EXTEND").arg(name).arg(600_000).arg(receipt);
                pipe.cmd("DQ.ACK").arg(name).arg(receipt)
            }
            12 => pipe.cmd("DQ.CANCEL").arg(name).arg(&job.id),
            _ => pipe.cmd("DQ.ACK").arg(name).arg(receipt),
        };
    }

    /// Some jobs, in each of the ways to push; how many.
    fn push(&mut self, pipe: &mut Pipeline, name: &str) -> u64 {
        let many = self.dice.between(10, 40);
        let bodies: Vec<Vec<u8>> = (0..many).map(|_| payload(&mut self.dice)).collect();
        pipe.cmd("DQ.MPUSH").arg(name).arg("PAYLOADS").arg(bodies);
        let (own, body, wait) = (self.own_id(), payload(&mut self.dice), self.dice.between(1, 300));
        pipe.cmd("DQ.PUSH").arg(name).arg(body).arg("ID").arg(own).arg("KEEP").arg(50).arg("RETRIES").arg(1);
        let body = payload(&mut self.dice);
        pipe.cmd("DQ.PUSH").arg(name).arg(body).arg("DELAY").arg(wait).arg("BACKOFF").arg(1).arg(20);
        let (own, body) = (self.own_id(), payload(&mut self.dice));
        pipe.cmd("DQ.MPUSH").arg(name).arg("JOBS").arg("").arg(wait).arg(&body[..]).arg(own).arg(0).arg(&body[..]);
        many + 4
    }

    /// An id that nobody has pushed before.
    fn own_id(&mut self) -> String {
        self.pushes += 1;
        format!("own-{}-{}", self.number, self.pushes)
    }

    /// What operators do now and then.
    fn operate(&mut self, pipe: &mut Pipeline, name: &str) {
        match self.dice.between(0, 199) {
            0 => pipe.cmd("DQ.REPLAY").arg(name).arg("COUNT").arg(50).arg("SPREAD").arg(20).arg("ALL"),
            1 => pipe.cmd("DQ.STATS").arg(name),
            2 => pipe.cmd("DQ.PEEK").arg(name).arg("COUNT").arg(50),
            3 => pipe.cmd("DQ.QUEUES"),
            4 => pipe.cmd("DQ.CONFIG").arg(name).arg("SET").arg("max-error").arg(100),
            5 => pipe.cmd("DQ.CONFIG").arg(name).arg("RESET").arg("max-error"),
            _ => return,
        };
    }
}

/// Fails unless every job that was pushed is in the queue or went a way that STATS counts.
pub fn assert_account(server: &Server) {
    for (db, name) in QUEUES {
        let mut q = server.queue_in(db, name);
        q.unwatched();
        let known = ["pushed", "acked", "cancelled", "dead-evicted", "ready", "delayed", "leased", "dead"];
        // Timers go on meanwhile, so both sides are of one reply.
        wait_until("one account", || {
            let [pushed, gone @ ..] = q.stats(known);
            (pushed == gone.iter().sum::<i64>()).then_some(())
        });
        q.watched();
    }
}

pub fn drop_all(server: &Server) {
    for (db, name) in QUEUES {
        server.queue_in(db, name).ok("DROP", args!["FORCE"]);
    }
}

//! Workers that claim, wait and finish, and look for the server again where it is gone; and a producer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use redis::{Client, Connection, RedisResult, Value};

use crate::blocked::said;
use crate::common::{list, text, wait_for, Job, Server};

/// What all of a crew see.
struct Shared {
    /// Where the server is that takes writes.
    port: AtomicU16,
    over: AtomicBool,
    pushed: AtomicUsize,
    diary: Mutex<Diary>,
}

/// What a crew has met.
#[derive(Clone, Debug, Default)]
pub struct Diary {
    /// Ids of the jobs whose push was answered, by payload.
    pub pushed: BTreeMap<String, String>,
    /// Claims of each payload, with their attempts.
    pub claims: BTreeMap<String, Vec<i64>>,
    /// ACKs that finished a job, by payload.
    pub acked: BTreeMap<String, usize>,
    /// Errors that were answered, by code, with how often.
    pub errors: BTreeMap<String, usize>,
}

/// Workers and a producer on one queue.
pub struct Crew {
    shared: Arc<Shared>,
    producer: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

/// How a crew works.
#[derive(Clone, Copy)]
pub struct Plan {
    pub queue: &'static str,
    pub workers: usize,
    /// Between two pushes.
    pub pause: Duration,
    /// Whether the producer waits for a replica to have each push.
    pub replicated: bool,
}

impl Crew {
    pub fn begin(server: &Server, plan: Plan) -> Crew {
        let shared = Arc::new(Shared {
            port: AtomicU16::new(server.port),
            over: AtomicBool::new(false),
            pushed: AtomicUsize::new(0),
            diary: Mutex::default(),
        });
        let spawn = |work: fn(&Shared, Plan)| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || work(&shared, plan))
        };
        let workers = (0..plan.workers).map(|_| spawn(work)).collect();
        Crew { producer: Some(spawn(produce)), workers, shared }
    }

    /// From here on the crew turns to this server when theirs refuses or is gone.
    pub fn turn_to(&self, server: &Server) {
        self.shared.port.store(server.port, SeqCst);
    }

    /// Waits until so many more pushes have been answered.
    pub fn wait_pushes(&self, more: usize) {
        let wanted = self.shared.pushed.load(SeqCst) + more;
        wait_for("pushes", || self.shared.pushed.load(SeqCst) >= wanted);
    }

    pub fn diary(&self) -> Diary {
        self.shared.diary.lock().expect("a diary").clone()
    }

    /// Stops pushing, waits until all that was pushed is finished, and gives the diary.
    pub fn end(mut self) -> Diary {
        self.stop_pushing();
        wait_for("all jobs to be finished", || {
            let diary = self.shared.diary.lock().expect("a diary");
            diary.pushed.keys().all(|payload| diary.acked.contains_key(payload))
        });
        self.shared.over.store(true, SeqCst);
        for worker in self.workers.drain(..) {
            worker.join().expect("a worker ends");
        }
        self.diary()
    }

    fn stop_pushing(&mut self) {
        self.shared.over.store(true, SeqCst);
        if let Some(producer) = self.producer.take() {
            producer.join().expect("the producer ends");
        }
        self.shared.over.store(false, SeqCst);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.over.store(true, SeqCst);
    }
}

impl Shared {
    fn connect(&self) -> Option<Connection> {
        let port = self.port.load(SeqCst);
        let con = Client::open(format!("redis://127.0.0.1:{port}")).and_then(|client| client.get_connection());
        let con = con.ok()?;
        con.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        Some(con)
    }

    /// Notes an error, and lets the server have a moment to come back.
    fn note(&self, what: &str, error: &redis::RedisError) {
        let words = said(error);
        let code = words.split(' ').next().unwrap_or_default();
        let code = if error.code().is_some() { code } else { "connection" };
        *self.diary.lock().expect("a diary").errors.entry(format!("{what} {code}")).or_default() += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn work(shared: &Shared, plan: Plan) {
    let mut con = None;
    while !shared.over.load(SeqCst) {
        let Some(open) = con.as_mut().or(None) else {
            con = shared.connect();
            if con.is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            continue;
        };
        if let Err((what, error)) = claim_and_finish(shared, plan, open) {
            shared.note(what, &error);
            con = None;
        }
    }
}

fn claim_and_finish(
    shared: &Shared,
    plan: Plan,
    con: &mut Connection,
) -> Result<(), (&'static str, redis::RedisError)> {
    let claimed: RedisResult<Value> = redis::cmd("DQ.CLAIM").arg(plan.queue).arg("BLOCK").arg(500).query(con);
    for job in list(&claimed.map_err(|e| ("claim", e))?).iter().map(Job::of) {
        let payload = String::from_utf8(job.payload).expect("a payload of the crew's own");
        shared.diary.lock().expect("a diary").claims.entry(payload.clone()).or_default().push(job.attempt);
        finish(shared, plan, con, &job.receipt, payload).map_err(|e| ("ack", e))?;
    }
    Ok(())
}

/// ACK, sent again on a new connection where the server refused or was gone: the job is done.
fn finish(shared: &Shared, plan: Plan, con: &mut Connection, receipt: &str, payload: String) -> RedisResult<()> {
    let ack = |con: &mut Connection| redis::cmd("DQ.ACK").arg(plan.queue).arg(receipt).query::<usize>(con);
    let mut outcome = ack(con);
    while let Err(error) = &outcome {
        if shared.over.load(SeqCst) {
            break;
        }
        shared.note("ack", error);
        if let Some(mut other) = shared.connect() {
            outcome = ack(&mut other);
        }
    }
    *shared.diary.lock().expect("a diary").acked.entry(payload).or_default() += outcome?;
    Ok(())
}

/// Pushes one job after the other, and each again under its id until it is answered.
fn produce(shared: &Shared, plan: Plan) {
    let mut con = None;
    let mut number = 0;
    while !shared.over.load(SeqCst) {
        let Some(open) = con.as_mut() else {
            con = shared.connect();
            if con.is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            continue;
        };
        let payload = format!("job-{number:06}");
        match push(plan, open, &payload) {
            Ok(Some(id)) => {
                shared.diary.lock().expect("a diary").pushed.insert(payload, id);
                shared.pushed.fetch_add(1, SeqCst);
                number += 1;
                std::thread::sleep(plan.pause);
            }
            // No replica has it: it may be lost, and is pushed again.
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => {
                shared.note("push", &error);
                con = None;
            }
        }
    }
}

fn push(plan: Plan, con: &mut Connection, payload: &str) -> RedisResult<Option<String>> {
    let id: Value = redis::cmd("DQ.PUSH").arg(plan.queue).arg(payload).arg("ID").arg(payload).query(con)?;
    if plan.replicated && redis::cmd("WAIT").arg(1).arg(500).query::<i64>(con)? == 0 {
        return Ok(None);
    }
    Ok(Some(text(&id)))
}

//! A worker for DQ: claims, keeps leases, tells what came of each job, stops cleanly. It can stay as it is.

use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{Arg, AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisResult, Value};
use tokio::sync::{oneshot, watch, Semaphore};
use tokio::time::{sleep, timeout, timeout_at, Instant};

/// How long a claim waits at the server; a stop waits for it.
const BLOCK: Duration = Duration::from_secs(2);
/// How long a job that this release does not know is left for another.
const UNKNOWN_KIND_MS: u64 = 30_000;
/// How long a worker that stops tries to give its jobs back.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The map of held jobs is changed in single steps, so no holder of its lock can leave it half changed.
const WHOLE: &str = "no holder panics";

/// Why a job is not done, and so what becomes of it.
pub struct Failure {
    end: End,
    text: String,
    stack: Backtrace,
}

enum End {
    Permanent,
    Temporary(Option<Duration>),
    UnknownKind,
}

impl Failure {
    /// It will never go well: the job becomes a dead letter.
    pub fn permanent(text: impl ToString) -> Failure {
        Failure { end: End::Permanent, text: text.to_string(), stack: Backtrace::force_capture() }
    }

    /// It may go well later: after the delay, or else after the queue's backoff.
    pub fn temporary(text: impl ToString, delay: Option<Duration>) -> Failure {
        Failure { end: End::Temporary(delay), text: text.to_string(), stack: Backtrace::force_capture() }
    }

    /// No handler is for this kind of job; another release of the worker may have one.
    pub fn unknown_kind(kind: &str) -> Failure {
        Failure { end: End::UnknownKind, text: kind.to_string(), stack: Backtrace::disabled() }
    }
}

/// A variable of the environment, or else a default; a value that does not parse ends the program.
pub fn env<T: std::str::FromStr>(name: &str, or: T) -> T {
    let Ok(text) = std::env::var(name) else { return or };
    text.parse().unwrap_or_else(|_| {
        eprintln!("{name}: {text:?} does not fit");
        std::process::exit(2)
    })
}

/// After a restart or a failover not all come at once.
pub fn backoff(tries: u32) -> Duration {
    let longest = Duration::from_millis(100 << tries.min(6)).min(Duration::from_secs(5));
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}

enum Source {
    Url(Box<Client>),
    Sentinels(Box<SentinelClient>),
}

/// One connection, made when it is needed, and again after it broke. It sends nothing twice.
pub struct Link {
    patience: Duration,
    source: tokio::sync::Mutex<(Source, Option<MultiplexedConnection>)>,
}

impl Link {
    /// A link by the environment, which closes a connection that does not answer for as long as `patience`.
    pub fn new(patience: Duration) -> RedisResult<Link> {
        let info = env("DQ_URL", "redis://127.0.0.1:6380".to_string()).into_connection_info()?;
        let sentinels: String = env("DQ_SENTINELS", String::new());
        let source = if sentinels.is_empty() {
            Source::Url(Box::new(Client::open(info)?))
        } else {
            let urls = sentinels.split(',').map(|address| format!("redis://{address}")).collect();
            let login = SentinelNodeConnectionInfo::default().set_redis_connection_info(info.redis_settings().clone());
            let master = env("DQ_MASTER", String::new());
            let client = SentinelClient::build(urls, master, Some(login), SentinelServerType::Master)?;
            Source::Sentinels(Box::new(client))
        };
        Ok(Link { patience, source: tokio::sync::Mutex::new((source, None)) })
    }

    /// Sends the command once.
    pub async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        let result = self.send(command).await;
        // A server that answers stays; one that is a primary no more is looked up anew. A connection that is given up is
        // closed with it: the library alone would leave the claim waiting at the server, which then hands it jobs.
        if result
            .as_ref()
            .is_err_and(|error| matches!(error.code(), None | Some("READONLY" | "MASTERDOWN" | "LOADING")))
        {
            self.source.lock().await.1 = None;
        }
        result
    }

    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(self.patience))
            .set_connection_timeout(Some(Duration::from_secs(5)));
        let mut connection = {
            let (source, open) = &mut *self.source.lock().await;
            if open.is_none() {
                *open = Some(match source {
                    Source::Url(client) => client.get_multiplexed_async_connection_with_config(&config).await?,
                    Source::Sentinels(client) => client.get_async_connection_with_config(&config).await?,
                });
            }
            open.clone().expect("it was just made")
        };
        command.query_async(&mut connection).await
    }
}

struct Job {
    receipt: String,
    payload: Vec<u8>,
    id: String,
}

/// Does jobs of one queue with `handle`, up to `hands` at once. The payload is bytes, as pushed by whomever.
pub struct Worker<H> {
    pub queue: String,
    pub handle: H,
    pub hands: usize,
    pub lease: Duration,
    pub grace: Duration,
    /// The claim waits at the server, and all that is sent behind it: so it has a link of its own, with more patience.
    claims: Link,
    rest: Link,
    /// By receipt. What is taken out breaks its handler off.
    held: Mutex<HashMap<String, oneshot::Sender<()>>>,
}

impl<H, F> Worker<H>
where
    H: Fn(Vec<u8>, String) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    pub fn new(queue: String, handle: H, hands: usize, lease: Duration, grace: Duration) -> RedisResult<Arc<Self>> {
        let (claims, rest) = (Link::new(BLOCK + Duration::from_secs(5))?, Link::new(Duration::from_secs(5))?);
        Ok(Arc::new(Worker { queue, handle, hands, lease, grace, claims, rest, held: Mutex::default() }))
    }

    /// Works until `stop` is ready. Then the hands have the grace to finish; what still runs is given back, and no
    /// failure is counted.
    pub async fn run(self: Arc<Self>, stop: impl Future<Output = ()>) {
        let hands = Arc::new(Semaphore::new(self.hands));
        let (tell_stop, stopping) = watch::channel(false);
        let mut keeper = tokio::spawn(Arc::clone(&self).keep_leases());
        let mut claimer = tokio::spawn(Arc::clone(&self).claim(Arc::clone(&hands), stopping));
        tokio::select! {
            _ = stop => {}
            ended = &mut claimer => broke("the claims", ended),
            ended = &mut keeper => broke("the leases", ended),
        }
        log::info!("stopping");
        let until = Instant::now() + self.grace;
        let _ = tell_stop.send(true);
        let _ = claimer.await; // A claim that still waited would take what is given back.
        if timeout_at(until, hands.acquire_many(self.hands as u32)).await.is_err() {
            let rest: Vec<String> = self.held.lock().expect(WHOLE).drain().map(|(receipt, _)| receipt).collect();
            self.give_back(&rest).await;
        }
        keeper.abort();
    }

    /// Claims as many jobs as there are free hands, never more.
    async fn claim(self: Arc<Self>, hands: Arc<Semaphore>, mut stopping: watch::Receiver<bool>) {
        let mut tries = 0;
        loop {
            let mut free = tokio::select! {
                one = Arc::clone(&hands).acquire_owned() => one.expect("it is never closed"),
                _ = stopping.wait_for(|yes| *yes) => return,
            };
            while let Ok(one) = Arc::clone(&hands).try_acquire_owned() {
                free.merge(one);
            }
            if *stopping.borrow() {
                return;
            }
            let mut jobs = Vec::new();
            match self.claim_once(free.num_permits()).await {
                Ok(claimed) => (jobs, tries) = (claimed, 0),
                Err(error) => {
                    log::warn!("no jobs: {error}");
                    let _ = timeout(backoff(tries), stopping.wait_for(|yes| *yes)).await;
                    tries += 1;
                }
            }
            if *stopping.borrow() {
                let late: Vec<String> = jobs.drain(..).map(|job| job.receipt).collect();
                self.give_back(&late).await;
            }
            for job in jobs {
                let hand = free.split(1).expect("no more jobs than were asked for");
                let worker = Arc::clone(&self);
                let (hold, lost) = oneshot::channel();
                self.held.lock().expect(WHOLE).insert(job.receipt.clone(), hold);
                tokio::spawn(async move {
                    worker.work(job, lost).await;
                    drop(hand);
                });
            }
        }
    }

    async fn claim_once(&self, count: usize) -> RedisResult<Vec<Job>> {
        let mut claim = self.command("DQ.CLAIM");
        claim.arg("COUNT").arg(count).arg("LEASE").arg(ms(self.lease)).arg("BLOCK").arg(ms(BLOCK));
        let jobs: Vec<Vec<Value>> = redis::from_redis_value(self.claims.ask(&claim).await?)?;
        let job = |fields: Vec<Value>| match &fields[..] {
            // Behind them are the attempt, the lease and the retries left; later versions append.
            [receipt, payload, id, ..] => Ok(Job {
                receipt: redis::from_redis_value_ref(receipt)?,
                payload: redis::from_redis_value_ref(payload)?,
                id: redis::from_redis_value_ref(id)?,
            }),
            _ => Err((redis::ErrorKind::Parse, "a job of fewer than three fields").into()),
        };
        jobs.into_iter().map(job).collect()
    }

    async fn work(self: Arc<Self>, job: Job, mut lost: oneshot::Receiver<()>) {
        let mut running = tokio::spawn((self.handle)(job.payload, job.id));
        let result = tokio::select! {
            result = &mut running => result,
            // It has nothing to tell: its job is somebody else's, or was given back.
            _ = &mut lost => return running.abort(),
        };
        if self.held.lock().expect(WHOLE).remove(&job.receipt).is_none() {
            return;
        }
        // A panic too: the next release may have mended it, and retries are bounded.
        let result = result.unwrap_or_else(|panic| Err(Failure::temporary(panic, None)));
        self.tell(None, &job.receipt, &self.end(&job.receipt, result)).await;
    }

    /// The command that tells what came of a job.
    fn end(&self, receipt: &str, result: Result<(), Failure>) -> Cmd {
        let Err(Failure { end, text, stack }) = result else {
            return self.command("DQ.ACK").arg(receipt).take();
        };
        let mut command = match end {
            End::UnknownKind => {
                log::warn!("{receipt} is of the unknown kind {text}");
                let mut release = self.command("DQ.RELEASE");
                return release.arg("DELAY").arg(UNKNOWN_KIND_MS).arg("RECEIPTS").arg(receipt).take();
            }
            End::Permanent => self.command("DQ.FAIL").arg(receipt).take(),
            End::Temporary(None) => self.command("DQ.RETRY").arg(receipt).take(),
            End::Temporary(Some(delay)) => self.command("DQ.RETRY").arg(receipt).arg("DELAY").arg(ms(delay)).take(),
        };
        command.arg("ERROR").arg(text).arg("STACK").arg(stack.to_string()).take()
    }

    async fn give_back(&self, receipts: &[String]) {
        if !receipts.is_empty() {
            let release = self.command("DQ.RELEASE").arg("RECEIPTS").arg(receipts).take();
            self.tell(Some(LAST_WORDS), &receipts.join(" "), &release).await;
        }
    }

    /// Tells the end of a job until there is an answer: a receipt acts once, so telling it again does no harm.
    async fn tell(&self, patience: Option<Duration>, receipt: &str, command: &Cmd) {
        let verb = match command.args_iter().next() {
            Some(Arg::Simple(verb)) => String::from_utf8_lossy(verb),
            _ => "".into(),
        };
        let start = Instant::now();
        for tries in 0.. {
            let error = match self.rest.ask(command).await {
                Ok(Value::Int(0)) => return stale(&verb, receipt, tries),
                Ok(Value::Array(left)) if left == [Value::Int(-1)] => return stale(&verb, receipt, tries),
                Ok(answer) => return log::info!("{verb} {receipt}: {answer:?}"),
                Err(error) if error.code() == Some("DQLOST") => return stale(&verb, receipt, tries),
                Err(error) => error,
            };
            log::warn!("{verb} {receipt} is not told: {error}");
            // A refusal that lasts for a lease is no failover. Without an answer nobody else has the job either.
            let patience = if error.code().is_some() { Some(self.lease) } else { patience };
            if patience.is_some_and(|patience| start.elapsed() > patience) {
                return log::error!("{verb} {receipt} is given up: the job comes back when its lease ends");
            }
            sleep(backoff(tries)).await;
        }
    }

    /// One command for all jobs at hand, three times a lease.
    async fn keep_leases(self: Arc<Self>) {
        loop {
            sleep(self.lease / 3).await;
            let receipts: Vec<String> = self.held.lock().expect(WHOLE).keys().cloned().collect();
            if receipts.is_empty() {
                continue;
            }
            let extend = self.command("DQ.EXTEND").arg(ms(self.lease)).arg(&receipts).take();
            let left: Vec<i64> = match self.rest.ask(&extend).await.and_then(|left| Ok(redis::from_redis_value(left)?))
            {
                Ok(left) => left,
                Err(error) => {
                    log::warn!("leases are not extended: {error}");
                    continue;
                }
            };
            for (receipt, _) in receipts.iter().zip(left).filter(|(_, ms)| *ms == -1) {
                if self.held.lock().expect(WHOLE).remove(receipt).is_some() {
                    log::warn!("{receipt}: stale: its lease is lost while it runs");
                }
            }
        }
    }

    fn command(&self, verb: &str) -> Cmd {
        redis::cmd(verb).arg(&self.queue).take()
    }
}

/// A task that the worker cannot live without has ended, by a panic: the process ends, and is started anew.
fn broke(task: &str, ended: Result<(), tokio::task::JoinError>) {
    log::error!("{task} broke, the process ends; its jobs come back when their leases end: {ended:?}");
    std::process::exit(1)
}

fn stale(verb: &str, receipt: &str, tries: u32) {
    if tries > 0 {
        log::info!("{verb} {receipt}: stale: an earlier try did it, or the lease ran out meanwhile");
    } else {
        log::warn!("{verb} {receipt}: stale: its lease ran out, and it is somebody else's");
    }
}

fn ms(time: Duration) -> u64 {
    time.as_millis() as u64
}

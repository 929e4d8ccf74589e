//! What every worker of `examples/` has to do, whatever its language.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::args;
use crate::common::sentinel::{Sentinel, MASTER};
use crate::common::{bytes, int, list, pairs, text, Queue, Server};
use crate::languages::Language;
use crate::program::{produce, Programs, Settings, Worker};
use crate::receiver::{Answer, Receiver};
use crate::wait_for;

/// Long enough that no worker loses it on a busy machine.
const LONG_LEASE_MS: u64 = 15_000;
/// Short enough to see it end.
const SHORT_LEASE_MS: u64 = 3000;
const SHORT: Duration = Duration::from_millis(600);

/// What a scene stands on. Each has its own queue.
struct Stage<'a> {
    language: &'a Language,
    programs: &'a Programs,
    server: &'a Server,
    receiver: &'a Receiver,
    name: &'a str,
}

type Scene = fn(&Stage);

/// Those that take longest begin first.
const SCENES: &[(&str, Scene)] = &[
    ("keeps-its-lease", keeps_its_lease),
    ("fails-over", fails_over),
    ("loses-its-lease", loses_its_lease),
    ("outlives-the-server", outlives_the_server),
    ("outcomes", outcomes),
    ("stops", stops),
    ("stops-with-little-grace", stops_with_little_grace),
    ("hands", hands),
    ("delivers", delivers),
    ("breaks", breaks),
];

/// Most of a scene's time is waiting, so some are played at once.
const AT_ONCE: usize = 4;

/// Plays all scenes.
pub fn run(language: &Language, programs: &Programs) {
    let start = Instant::now();
    let (server, receiver) = (server(), Receiver::start());
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, scene)) = SCENES.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let stage = Stage { language, programs, server: &server, receiver: &receiver, name };
                    if catch_unwind(AssertUnwindSafe(|| scene(&stage))).is_err() {
                        failed.lock().expect("no scene holds it").push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no scene holds it");
    assert!(failed.is_empty(), "{}: {failed:?}", language.name);
    crate::tell(&format!("examples: {} did it all in {:.1} s\n", language.name, start.elapsed().as_secs_f64()));
}

fn server() -> Server {
    Server::with_grace().aof().set("backoff-base", "50ms").set("takeover-grace", "2s").start()
}

impl Stage<'_> {
    /// The queue; its invariants are looked at when the scene ends.
    fn queue(&self) -> Queue {
        let mut queue = self.server.queue(self.name);
        queue.unwatched();
        queue
    }

    fn settings(&self) -> Settings {
        Settings::of(self.server.port, self.name).and("DQ_LEASE_MS", LONG_LEASE_MS).and("DQ_HTTP_TIMEOUT_S", 60)
    }

    fn short_lease(&self) -> Settings {
        self.settings().and("DQ_LEASE_MS", SHORT_LEASE_MS)
    }

    fn worker(&self, settings: &Settings) -> Worker {
        Worker::start(self.programs, settings)
    }

    fn path(&self, name: &str) -> String {
        format!("/{}/{name}", self.name)
    }

    /// A job for a path with these answers, and the path.
    fn webhook(&self, q: &mut Queue, name: &str, answers: &[Answer]) -> (String, String) {
        let path = self.path(name);
        let url = self.receiver.on(&path, answers);
        (push(q, payload(&url)), path)
    }
}

fn payload(url: &str) -> String {
    format!(r#"{{"kind":"webhook","url":"{url}","body":"Grüße"}}"#)
}

fn push(q: &mut Queue, payload: impl AsRef<[u8]>) -> String {
    text(&q.ok("PUSH", args![payload.as_ref()]))
}

/// A field of DQ.GET, where the job is there and has it.
fn field(q: &mut Queue, id: &str, name: &str) -> Option<redis::Value> {
    let job = q.ok("GET", args![id]);
    if job == redis::Value::Nil {
        return None;
    }
    pairs(&job).into_iter().find(|(field, _)| field == name).map(|(_, value)| value)
}

fn number(q: &mut Queue, id: &str, name: &str) -> i64 {
    field(q, id, name).map(|value| int(&value)).unwrap_or_else(|| panic!("{id} has no {name}"))
}

fn is_gone(q: &mut Queue, id: &str) -> bool {
    q.ok("GET", args![id]) == redis::Value::Nil
}

fn wait_gone(q: &mut Queue, id: &str) {
    wait_for(&format!("{id} to be finished"), || is_gone(q, id));
}

fn wait_state(q: &mut Queue, id: &str, state: &str) {
    wait_for(&format!("{id} to be {state}"), || field(q, id, "state").is_some_and(|value| text(&value) == state));
}

/// A worker that meets what it cannot live with ends, with an error, and does not stay up without its claims.
fn breaks(stage: &Stage) {
    // A command that replies with what is no job, whatever it is asked.
    let server = Server::builder().without_module().line("rename-command MGET DQ.CLAIM").start();
    // The worker in Rust takes that for a refusal, and goes on. More jobs than it has hands break it.
    let port = if stage.language.name == "rust" { of_too_many_jobs() } else { server.port };
    let mut worker = stage.worker(&Settings::of(port, stage.name).and("DQ_HANDS", 2));
    let ended = worker.ended();
    assert!(ended.code().is_some_and(|code| code != 0), "{ended:?}");
    assert!(worker.log().len() > 100, "it says nothing: {}", worker.log());
}

/// The port of what replies to every claim with three jobs, and to all else with OK.
fn of_too_many_jobs() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it has an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().expect("a socket has two ends")).lines();
                while let Some(Ok(head)) = lines.next() {
                    // A text of several lines may be cut in the middle; only the heads of commands count.
                    let Some(count) = head.strip_prefix('*').and_then(|count| count.parse::<usize>().ok()) else {
                        continue;
                    };
                    let words: Vec<String> = lines.by_ref().take(2 * count).map_while(Result::ok).collect();
                    let job = "*3\r\n$3\r\na:1\r\n$1\r\nx\r\n$1\r\na\r\n";
                    let is_claim = words.iter().any(|word| word == "DQ.CLAIM");
                    let reply = if is_claim { format!("*3\r\n{job}{job}{job}") } else { "+OK\r\n".to_string() };
                    // The worker may be gone.
                    let _ = stream.write_all(reply.as_bytes());
                }
            });
        }
    });
    port
}

/// What docs/users.md gives a worker and a producer.
const USERS: [(&str, &str); 2] = [
    ("worker", "+ping +wait +dq.claim +dq.mclaim +dq.ack +dq.extend +dq.retry +dq.release +dq.fail"),
    ("producer", "+ping +wait +dq.push +dq.mpush"),
];

/// The producer's job, with its delay and its own id, is delivered once, with the id as the key. Each of the two may do
/// its own part at the server and nothing else.
fn delivers(stage: &Stage) {
    let mut q = stage.queue();
    let [worker, producer] = USERS.map(|(name, may)| {
        let user = ["ACL", "SETUSER", name, "reset", "on", ">secret", "resetchannels", "~*"];
        stage.server.run(&user.into_iter().chain(may.split(' ')).collect::<Vec<_>>());
        stage.settings().and("DQ_URL", format!("redis://{name}:secret@127.0.0.1:{}", stage.server.port))
    });
    let path = stage.path("hook");
    let url = stage.receiver.on(&path, &[Answer::Status(204)]);
    let own = produce(stage.programs, &producer, &[&url, "Grüße \u{1f980}", "1s", "order-7"]);
    let again = produce(stage.programs, &producer, &[&url, "not this one", "0", "order-7"]);
    let made = produce(stage.programs, &producer, &[&url, "now"]);
    assert_eq!((own.as_str(), again.as_str()), ("order-7", "order-7"));
    assert_eq!(q.stats(["pushed", "deduplicated"]), [2, 1]);

    let mut worker = stage.worker(&worker);
    wait_gone(&mut q, &made);
    wait_gone(&mut q, &own);
    let hits = stage.receiver.hits(&path);
    let seen: BTreeSet<(&str, &str)> = hits.iter().map(|hit| (hit.key.as_str(), hit.body.as_str())).collect();
    assert_eq!(seen, BTreeSet::from([("order-7", "Grüße \u{1f980}"), (made.as_str(), "now")]));
    assert_eq!((hits.len(), q.stat("acked")), (2, 2));

    // With nothing to do it is gone as soon as its claim is answered.
    worker.signal(libc::SIGINT);
    assert_eq!(worker.ended().code(), Some(0));
}

/// ACK, RETRY, FAIL and RELEASE, each for what it is for.
fn outcomes(stage: &Stage) {
    let mut q = stage.queue();
    let (busy, busy_path) = stage.webhook(&mut q, "busy", &[503, 503, 200].map(Answer::Status));
    let (limited, limited_path) = stage.webhook(&mut q, "limited", &[Answer::Later("2"), Answer::Status(200)]);
    let (hung, hung_path) = stage.webhook(&mut q, "hung", &[Answer::HangUp, Answer::Status(200)]);
    let (slow, slow_path) = stage.webhook(&mut q, "slow", &[Answer::Held, Answer::Status(200)]);
    let (missing, missing_path) = stage.webhook(&mut q, "missing", &[Answer::Status(404)]);
    let (moved, moved_path) = stage.webhook(&mut q, "moved", &[Answer::Status(302)]);
    let refused = text(&q.ok("PUSH", args![payload("http://127.0.0.1:1/"), "RETRIES", 1]));
    let bad = [
        &b"\xff\xfe no text"[..],
        b"{\"kind\":\"webhook\"",
        b"",
        b"null",
        b"[1]",
        b"{\"url\":\"http://127.0.0.1:1/\",\"body\":\"x\"}",
        b"{\"kind\":\"webhook\",\"url\":\"http://127.0.0.1:1/\"}",
        b"{\"kind\":\"webhook\",\"url\":7,\"body\":\"x\"}",
        b"{\"kind\":\"webhook\",\"url\":\"file:///etc/hostname\",\"body\":\"x\"}",
        b"{\"kind\":\"webhook\",\"url\":\"http://a b/\",\"body\":\"x\"}",
    ]
    .map(|payload| push(&mut q, payload));
    let unknown = push(&mut q, "{\"kind\":\"fax\"}");
    let mut worker = stage.worker(&stage.settings().and("DQ_HTTP_TIMEOUT_S", 5));

    for (id, path, attempts) in [(&busy, &busy_path, 3), (&limited, &limited_path, 2), (&hung, &hung_path, 2)] {
        wait_gone(&mut q, id);
        assert_eq!(stage.receiver.hits(path).len(), attempts, "{path}");
    }
    let limited = stage.receiver.hits(&limited_path);
    assert!(limited[1].at - limited[0].at >= Duration::from_secs(2), "as the receiver asked");
    wait_gone(&mut q, &slow);
    let slow = stage.receiver.hits(&slow_path);
    assert_eq!((slow.len(), slow[0].left), (2, true), "the time-out of HTTP");

    for (id, path, status) in [(&missing, &missing_path, "404"), (&moved, &moved_path, "302")] {
        assert_dead(&mut q, id, "failed", status);
        assert_eq!(stage.receiver.hits(path).len(), 1, "{path}");
    }
    assert_dead(&mut q, &refused, "retries-exhausted", "");
    assert_eq!(number(&mut q, &refused, "failures"), 2);
    bad.iter().for_each(|id| assert_dead(&mut q, id, "failed", ""));

    wait_state(&mut q, &unknown, "delayed");
    assert_eq!(["releases", "failures", "attempt"].map(|name| number(&mut q, &unknown, name)), [1, 0, 1]);
    let wait = number(&mut q, &unknown, "due-at") - q.now();
    assert!((20_000..=30_000).contains(&wait), "{wait} ms");
    worker.assert_alive();
    q.check_clean();
}

/// The job is a dead letter that tells why, with a stack.
#[track_caller]
fn assert_dead(q: &mut Queue, id: &str, reason: &str, error: &str) {
    wait_state(q, id, "dead");
    let [found, told, stack] = ["reason", "error", "stack"].map(|name| {
        let value = field(q, id, name).unwrap_or_else(|| panic!("{id} has no {name}"));
        String::from_utf8_lossy(&bytes(&value)).into_owned()
    });
    assert_eq!(found, reason, "{id}: {told}");
    assert!(!told.is_empty() && told.contains(error), "{id}: {told}");
    assert!(stack.lines().count() > 1, "{id} has no stack: {stack}");
}

/// A request that takes longer than the lease is made once.
fn keeps_its_lease(stage: &Stage) {
    let mut q = stage.queue();
    let slow = Answer::Slow(Duration::from_millis(SHORT_LEASE_MS * 2));
    let (id, path) = stage.webhook(&mut q, "slow", &[slow]);
    let _workers = [1, 2].map(|_| stage.worker(&stage.short_lease()));
    stage.receiver.wait_hits(&path, 1);
    assert_eq!(number(&mut q, &id, "attempt"), 1);
    wait_gone(&mut q, &id);
    assert_eq!(stage.receiver.hits(&path).len(), 1);
    assert_eq!((q.stat("lapsed"), q.stat("claimed"), q.stat("acked")), (0, 1, 1));
}

/// As many at once as there are hands, and never one more in the worker's keeping.
fn hands(stage: &Stage) {
    const HANDS: usize = 3;
    const JOBS: usize = 8;
    let mut q = stage.queue();
    let path = stage.path("hook");
    let url = stage.receiver.on(&path, &[Answer::Slow(SHORT)]);
    for _ in 0..JOBS {
        push(&mut q, payload(&url));
    }
    let _worker = stage.worker(&stage.settings().and("DQ_HANDS", HANDS));
    wait_for("all jobs to be done", || {
        assert!(q.stat("leased") <= HANDS as i64, "leased");
        q.stat("acked") == JOBS as i64
    });
    let hits = stage.receiver.hits(&path);
    assert_eq!(hits.len(), JOBS);
    assert_eq!(hits.iter().map(|hit| hit.open).max(), Some(HANDS), "at once");
}

/// SIGTERM: no more claims, what ends in time ends, what does not is given back, and another worker has it.
fn stops(stage: &Stage) {
    let mut q = stage.queue();
    let (short, short_path) = stage.webhook(&mut q, "short", &[Answer::Held]);
    let (long, long_path) = stage.webhook(&mut q, "long", &[Answer::Held, Answer::Status(200)]);
    let mut worker = stage.worker(&stage.settings().and("DQ_GRACE_S", 3));
    for path in [&short_path, &long_path] {
        stage.receiver.wait_hits(path, 1);
    }
    worker.signal(libc::SIGTERM);
    worker.wait_says(&["stopping"]);
    stage.receiver.let_go(&short_path);
    wait_gone(&mut q, &short);
    // Its claim may still wait: what comes in that way goes back.
    let (late, late_path) = stage.webhook(&mut q, "late", &[Answer::Status(200)]);
    assert_eq!(worker.ended().code(), Some(0));
    assert_eq!(q.stat("leased"), 0);
    for id in [&long, &late] {
        assert_eq!(text(&field(&mut q, id, "state").expect("it is there")), "ready");
        assert_eq!(["failures", "lapses", "attempt"].map(|name| number(&mut q, id, name)), [0, 0, 1]);
    }
    assert_eq!(number(&mut q, &long, "releases"), 1);
    assert_eq!(stage.receiver.hits(&late_path).len(), 0);
    assert_eq!(stage.receiver.hits(&short_path).len(), 1);

    let _other = stage.worker(&stage.settings());
    for id in [&long, &late] {
        wait_gone(&mut q, id);
    }
    assert_eq!((stage.receiver.hits(&long_path).len(), stage.receiver.hits(&late_path).len()), (2, 1));
}

/// A grace that is shorter than a claim's wait: what is given back does not go to that claim.
fn stops_with_little_grace(stage: &Stage) {
    let mut q = stage.queue();
    let (id, path) = stage.webhook(&mut q, "hook", &[Answer::Held]);
    let mut worker = stage.worker(&stage.settings().and("DQ_GRACE_S", 1));
    stage.receiver.wait_hits(&path, 1);
    q.wait_stat("waiting", 1);
    worker.signal(libc::SIGTERM);
    assert_eq!(worker.ended().code(), Some(0));
    assert_eq!(q.stats(["leased", "ready", "claimed", "released"]), [0, 1, 1, 1]);
    assert_eq!(["failures", "lapses", "releases"].map(|name| number(&mut q, &id, name)), [0, 0, 1]);
}

/// A worker that stood still for longer than its lease harms nobody, and goes on.
fn loses_its_lease(stage: &Stage) {
    let mut q = stage.queue();
    let (id, path) = stage.webhook(&mut q, "hook", &[Answer::Held]);
    let one = stage.short_lease().and("DQ_HANDS", 1);
    let mut first = stage.worker(&one);
    stage.receiver.wait_hits(&path, 1);
    first.signal(libc::SIGSTOP);
    let mut second = stage.worker(&one);
    stage.receiver.wait_hits(&path, 2);
    assert_eq!(["lapses", "attempt"].map(|name| number(&mut q, &id, name)), [1, 2]);
    first.signal(libc::SIGCONT);
    first.wait_says(&["stale"]);
    assert_eq!(number(&mut q, &id, "claims"), 1, "the second still has it");
    if stage.language.cancels {
        wait_for("the first's request to be broken off", || stage.receiver.hits(&path)[0].left);
    }
    stage.receiver.let_go(&path);
    wait_gone(&mut q, &id);
    assert_eq!((q.stat("acked"), stage.receiver.hits(&path).len()), (1, 2));

    second.signal(libc::SIGTERM);
    assert_eq!(second.ended().code(), Some(0));
    let (next, _) = stage.webhook(&mut q, "next", &[Answer::Status(200)]);
    wait_gone(&mut q, &next);
    first.assert_alive();
}

/// kill -9 of the server, and a new start on its AOF: workers come back, nothing is lost or done twice.
fn outlives_the_server(stage: &Stage) {
    let mut own = server();
    let here = Stage { server: &own, ..*stage };
    let (receiver, settings) = (stage.receiver, here.settings());
    let mut q = here.queue();
    let (done, done_path) = here.webhook(&mut q, "done", &[Answer::Held]);
    let (running, running_path) = here.webhook(&mut q, "running", &[Answer::Held]);
    let mut worker = here.worker(&settings);
    for path in [&done_path, &running_path] {
        receiver.wait_hits(path, 1);
    }
    own.kill();
    // This one ends while there is nobody to tell.
    receiver.let_go(&done_path);
    worker.wait_says(&["ACK"]);
    let port = own.port;
    own.start_again();
    assert_eq!(own.port, port, "the worker knows no other");

    let mut q = own.queue(stage.name);
    q.unwatched();
    wait_gone(&mut q, &done);
    receiver.let_go(&running_path);
    wait_gone(&mut q, &running);
    let url = receiver.on(&stage.path("next"), &[Answer::Status(200)]);
    let next = produce(stage.programs, &settings, &[&url, "x"]);
    wait_gone(&mut q, &next);
    assert_eq!((receiver.hits(&done_path).len(), receiver.hits(&running_path).len()), (1, 1));
    assert_eq!((q.stat("acked"), q.stat("lapsed")), (3, 0));
    worker.assert_alive();
}

/// The primary dies, and Sentinel makes its replica the next: workers and producers find it by themselves.
fn fails_over(stage: &Stage) {
    let mut primary = Server::with_grace().start();
    let replica = Server::with_grace().replica_of(&primary).start();
    replica.catch_up(&primary);
    let sentinel = Sentinel::watch(&primary);
    let here = Stage { server: &primary, ..*stage };
    let sentinels = format!("127.0.0.1:{}", sentinel.port);
    let settings = here.settings().and("DQ_SENTINELS", sentinels).and("DQ_MASTER", MASTER);
    let receiver = stage.receiver;
    let mut q = here.queue();
    let (held, held_path) = here.webhook(&mut q, "held", &[Answer::Held]);
    let mut worker = here.worker(&settings);
    receiver.wait_hits(&held_path, 1);
    replica.catch_up(&primary);
    primary.kill();
    wait_for("the replica to be the primary", || role(replica.port).is_ok_and(|role| role == "master"));
    receiver.let_go(&held_path);

    let mut q = replica.queue(stage.name);
    q.unwatched();
    wait_gone(&mut q, &held);
    let url = receiver.on(&stage.path("next"), &[Answer::Status(200)]);
    let next = produce(stage.programs, &settings, &[&url, "x"]);
    wait_gone(&mut q, &next);
    assert_eq!((receiver.hits(&held_path).len(), receiver.hits(&stage.path("next")).len()), (1, 1));
    assert_eq!((q.stat("acked"), q.stat("lapsed")), (2, 0));
    worker.assert_alive();
}

/// A server that changes its role closes connections.
fn role(port: u16) -> redis::RedisResult<String> {
    let mut con = redis::Client::open(("127.0.0.1", port))?.get_connection()?;
    let role: redis::Value = redis::cmd("ROLE").query(&mut con)?;
    Ok(text(&list(&role)[0]))
}

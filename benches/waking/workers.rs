//! Many workers, for whom one thread speaks: on a busy machine a hundred threads would wait for each other, and not for
//! the server.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::thread::JoinHandle;

use redis::Value;

use crate::args;
use crate::client::pack;
use crate::common::*;
use crate::wall_us;

pub type Words = Vec<Vec<u8>>;

/// What a worker does with a job.
pub enum Step {
    /// It acknowledges it, and waits for the next.
    Finish,
    /// It gives the job back by this command, and waits for the next.
    GiveBack(Words),
    /// It goes without a word, and another worker comes in its place.
    Die,
}

/// What the workers of one measurement do.
pub trait Work: Send + 'static {
    /// A job came, at this time in µs.
    fn job(&mut self, job: &Job, at_us: i64) -> Step;
    /// When the job of this id is due again, or its lease ends, in ms.
    fn due(&mut self, id: &str, at_ms: i64);
}

/// An answer that a worker is to get.
enum Expected {
    Jobs,
    /// The time at which the job of this id is due.
    Due(String),
    /// The time at which its lease ends; then the worker dies.
    LeaseEnd(String),
    Anything,
}

struct Worker {
    socket: TcpStream,
    bytes: Vec<u8>,
    expected: VecDeque<Expected>,
}

impl Worker {
    /// A worker that waits for a job of the queue `q`.
    fn new(port: u16) -> Worker {
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        socket.set_nodelay(true).expect("the socket takes options");
        let mut worker = Worker { socket, bytes: Vec::new(), expected: VecDeque::new() };
        worker.send(vec![wait()]);
        worker
    }

    /// Sends commands in one write.
    fn send(&mut self, commands: Vec<(Words, Expected)>) {
        let packed: Vec<u8> = commands.iter().flat_map(|(words, _)| pack(words)).collect();
        self.socket.write_all(&packed).expect("the socket takes it");
        self.expected.extend(commands.into_iter().map(|(_, expected)| expected));
    }

    /// Reads what has come, and acts on it; `false` where the worker dies.
    fn act(&mut self, work: &mut impl Work) -> bool {
        let mut bytes = [0; 16 * 1024];
        let count = self.socket.read(&mut bytes).expect("the server speaks");
        assert!(count > 0, "the server closed the connection");
        let now_us = wall_us();
        self.bytes.extend_from_slice(&bytes[..count]);
        while let Some((reply, length)) = reply(&self.bytes) {
            self.bytes.drain(..length);
            match self.expected.pop_front().expect("an answer to a command") {
                Expected::Jobs => self.take(&Job::of(&list(&reply)[0]), now_us, work),
                Expected::Due(id) => work.due(&id, ms(&reply)),
                Expected::LeaseEnd(id) => {
                    work.due(&id, ms(&reply));
                    return false;
                }
                Expected::Anything => {}
            }
        }
        true
    }

    fn take(&mut self, job: &Job, now_us: i64, work: &mut impl Work) {
        let score = |companion| args!["ZSCORE", queue::companion_key(b"q", companion), &job.id];
        match work.job(job, now_us) {
            Step::Finish => self.send(vec![(args!["DQ.ACK", "q", &job.receipt], Expected::Anything), wait()]),
            Step::GiveBack(command) => {
                self.send(vec![(command, Expected::Anything), (score("due"), Expected::Due(job.id.clone())), wait()])
            }
            Step::Die => self.send(vec![(score("leased"), Expected::LeaseEnd(job.id.clone()))]),
        }
    }
}

fn wait() -> (Words, Expected) {
    (args!["DQ.CLAIM", "q", "BLOCK", 0], Expected::Jobs)
}

fn ms(score: &Value) -> i64 {
    text(score).parse().expect("a score is a whole number")
}

/// The first reply in `bytes`, of the kinds that the commands above have, and its length; `None` where it is not whole.
fn reply(bytes: &[u8]) -> Option<(Value, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, after) = (std::str::from_utf8(&bytes[1..end]).expect("text"), end + 2);
    let number = || line.parse::<i64>().expect("a number");
    match bytes[0] {
        b':' => Some((Value::Int(number()), after)),
        b'$' => {
            let length = usize::try_from(number()).expect("there is something");
            let whole = bytes.len() >= after + length + 2;
            whole.then(|| (Value::BulkString(bytes[after..after + length].to_vec()), after + length + 2))
        }
        b'*' => {
            let (mut items, mut at) = (Vec::new(), after);
            for _ in 0..number() {
                let (item, length) = reply(&bytes[at..])?;
                items.push(item);
                at += length;
            }
            Some((Value::Array(items), at))
        }
        _ => panic!("the server says {line}"),
    }
}

/// The workers and their thread.
pub struct Workers {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Workers {
    /// Lets so many workers wait.
    pub fn begin(server: &Server, count: usize, mut work: impl Work) -> Workers {
        let (port, over) = (server.port, Arc::new(AtomicBool::new(false)));
        let mut workers: Vec<Worker> = (0..count).map(|_| Worker::new(port)).collect();
        let seen = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let poll = Epoll::new();
            workers.iter().enumerate().for_each(|(place, worker)| poll.add(&worker.socket, place));
            while !seen.load(SeqCst) {
                for place in poll.ready() {
                    if !workers[place].act(&mut work) {
                        workers[place] = Worker::new(port);
                        poll.add(&workers[place].socket, place);
                    }
                }
            }
        });
        Workers { over, thread }
    }

    /// All of them go.
    pub fn end(self) {
        self.over.store(true, SeqCst);
        self.thread.join().expect("they end well");
    }
}

/// Sockets of which some have something to read.
struct Epoll(libc::c_int);

impl Epoll {
    fn new() -> Epoll {
        // SAFETY: takes no pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(epoll >= 0);
        Epoll(epoll)
    }

    /// Closing the socket takes it out again.
    fn add(&self, socket: &TcpStream, place: usize) {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: place as u64 };
        // SAFETY: the event is a live struct, and both descriptors are open.
        assert_eq!(unsafe { libc::epoll_ctl(self.0, libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &mut event) }, 0);
    }

    /// The places of those that are ready, within 20 ms.
    fn ready(&self) -> Vec<usize> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: the list is live and as long as it is said to be.
        let count = unsafe { libc::epoll_wait(self.0, events.as_mut_ptr(), events.len() as libc::c_int, 20) };
        events[..usize::try_from(count).unwrap_or(0)].iter().map(|event| event.u64 as usize).collect()
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open and closed once, here.
        unsafe { libc::close(self.0) };
    }
}

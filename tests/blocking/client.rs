//! One client on a socket of its own, which sends and reads when the test says so: it can wait for a job without a
//! thread, send several commands at once, and go away in every manner.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;

use redis::{Parser, Value};

use crate::args;
use crate::common::*;

pub struct Client {
    stream: BufReader<TcpStream>,
    parser: Parser,
    pub id: i64,
}

/// A job as DQ.MCLAIM hands it out, and its queue.
pub type QueuedJob = (String, Job);

impl Client {
    pub fn new(server: &Server) -> Client {
        Client::at(server.port)
    }

    /// A client of the server on this port.
    pub fn at(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_nodelay(true).expect("the socket takes options");
        stream.set_read_timeout(Some(DEADLINE)).expect("the socket takes options");
        let mut client = Client { stream: BufReader::new(stream), parser: Parser::new(), id: 0 };
        client.id = int(&client.call(args!["CLIENT", "ID"]));
        client
    }

    /// A client of that user, whose password is anything.
    pub fn new_as(server: &Server, user: &str) -> Client {
        let mut client = Client::new(server);
        client.call(args!["AUTH", user, "x"]);
        client
    }

    /// A client that speaks RESP3.
    pub fn resp3(server: &Server) -> Client {
        let mut client = Client::new(server);
        client.call(args!["HELLO", 3]);
        client
    }

    /// A client that waits for a job of `queue` with these options; it does wait when this comes back.
    pub fn waiting(server: &Server, queue: &str, options: &[&str]) -> Client {
        let mut client = Client::new(server);
        client.wait_for_job(server, args!["DQ.CLAIM", queue, options]);
        client
    }

    /// Sends a claim with BLOCK, and returns when it waits, or has waited: a short wait may be over before anybody looks.
    pub fn wait_for_job(&mut self, server: &Server, claim: Vec<Vec<u8>>) {
        self.send(claim);
        let id = self.id.to_string();
        // A blocked client has the flag b.
        wait_for("the client to be blocked", || {
            let line = text(&server.run(&["CLIENT", "LIST", "ID", &id]));
            let waits =
                line.split(' ').any(|word| word.strip_prefix("flags=").is_some_and(|flags| flags.contains('b')));
            waits || self.has_answer()
        });
    }

    /// Whether anything has come.
    pub fn has_answer(&mut self) -> bool {
        self.stream.get_ref().set_nonblocking(true).expect("the socket takes options");
        let come = self.stream.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
        self.stream.get_ref().set_nonblocking(false).expect("the socket takes options");
        come
    }

    /// Sends one command.
    pub fn send(&mut self, command: Vec<Vec<u8>>) {
        self.send_all(&[command]);
    }

    /// Sends several commands in one write.
    pub fn send_all(&mut self, commands: &[Vec<Vec<u8>>]) {
        assert!(self.try_send_all(commands), "the server closed the connection");
    }

    /// The same; whether the connection still took it.
    pub fn try_send_all(&mut self, commands: &[Vec<Vec<u8>>]) -> bool {
        let packed: Vec<u8> = commands.iter().flat_map(|command| pack(command)).collect();
        self.stream.get_mut().write_all(&packed).is_ok()
    }

    /// The next answer; an error of the server as its text.
    pub fn read(&mut self) -> Result<Value, String> {
        self.read_or_closed().expect("the server closed the connection")
    }

    /// The same, or None where the server closes the connection instead.
    pub fn read_or_closed(&mut self) -> Option<Result<Value, String>> {
        match self.parser.parse_value(&mut self.stream) {
            Ok(Value::ServerError(error)) => {
                Some(Err(format!("{} {}", error.code(), error.details().unwrap_or_default())))
            }
            Ok(value) => Some(Ok(value)),
            Err(error) if error.is_connection_dropped() => None,
            Err(error) => panic!("no answer came: {error}"),
        }
    }

    /// The one answer to a claim that waited, and no more than one: whether it was a job.
    #[track_caller]
    pub fn served(&mut self) -> bool {
        let served = match self.read() {
            Ok(reply) => list(&reply).len() == 1,
            Err(error) => {
                assert_error(&error, "UNBLOCKED", &[]);
                false
            }
        };
        assert_eq!(text(&self.call(args!["PING"])), "PONG", "one answer and no more");
        served
    }

    /// Sends a command and reads its answer, which must not be an error.
    pub fn call(&mut self, command: Vec<Vec<u8>>) -> Value {
        let words: Vec<String> = command.iter().map(|word| dump::show(word)).collect();
        self.send(command);
        self.read().unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Sends commands in one write, and reads an answer to each, none of which may be an error.
    pub fn call_all(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Value> {
        self.send_all(commands);
        let answer = |command: &Vec<Vec<u8>>| {
            self.read().unwrap_or_else(|error| panic!("{}: {error}", dump::show(&command.join(&b' '))))
        };
        commands.iter().map(answer).collect()
    }

    /// The jobs that a claim answers.
    pub fn jobs(&mut self) -> Vec<Job> {
        let reply = self.read().unwrap_or_else(|error| panic!("jobs were to come: {error}"));
        list(&reply).iter().map(Job::of).collect()
    }

    /// The one job that a claim answers.
    pub fn job(&mut self) -> Job {
        let jobs = self.jobs();
        assert_eq!(jobs.len(), 1, "one job was to come");
        jobs.into_iter().next().expect("there is one")
    }

    /// The jobs that DQ.MCLAIM answers, with their queues.
    pub fn queued_jobs(&mut self) -> Vec<QueuedJob> {
        let reply = self.read().unwrap_or_else(|error| panic!("jobs were to come: {error}"));
        queued_jobs(&reply)
    }

    /// The error that must come.
    pub fn error(&mut self) -> String {
        match self.read() {
            Err(error) => error,
            Ok(value) => panic!("an error was to come: {value:?}"),
        }
    }

    /// Fails where anything has come. What the server has written by now, it has sent by the PING's answer.
    #[track_caller]
    pub fn assert_silent(&mut self, server: &Server) {
        assert_eq!(text(&server.run(&["PING"])), "PONG");
        self.stream.get_ref().set_nonblocking(true).expect("the socket takes options");
        let come = self.stream.fill_buf().map(<[u8]>::to_vec);
        self.stream.get_ref().set_nonblocking(false).expect("the socket takes options");
        match come {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("the connection is broken: {error}"),
            Ok(bytes) if bytes.is_empty() => panic!("the server closed the connection"),
            Ok(bytes) => panic!("it was to wait, and got {}", dump::show(&bytes)),
        }
    }

    /// Waits until the server has closed the connection, and fails where it says anything before that.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        match self.stream.fill_buf() {
            Ok([]) => {}
            Ok(bytes) => panic!("it was to be closed, and got {}", dump::show(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it was to be closed: {error}"),
        }
    }

    /// Says that nothing more comes from here, and goes on listening.
    pub fn half_close(&mut self) {
        self.stream.get_ref().shutdown(Shutdown::Write).expect("the socket is open");
    }

    /// Drops the connection without a word: the server reads a reset.
    pub fn reset(self) {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: the socket is open, and the option is what SO_LINGER takes.
        let done = unsafe {
            libc::setsockopt(
                self.stream.get_ref().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                size_of::<libc::linger>() as libc::socklen_t,
            )
        };
        assert_eq!(done, 0);
    }
}

/// The jobs of a reply of DQ.MCLAIM, with their queues.
pub fn queued_jobs(reply: &Value) -> Vec<QueuedJob> {
    list(reply).iter().map(|job| (text(list(job).last().expect("a job has elements")), Job::of(job))).collect()
}

/// One command as it goes over the wire.
pub fn pack(command: &[Vec<u8>]) -> Vec<u8> {
    let mut packed = format!("*{}\r\n", command.len()).into_bytes();
    for arg in command {
        packed.extend(format!("${}\r\n", arg.len()).bytes());
        packed.extend_from_slice(arg);
        packed.extend(b"\r\n");
    }
    packed
}

/// Connections that only send: each one claim.
pub struct FewClients(Vec<TcpStream>);

impl FewClients {
    /// They are there when this comes back, and the server has what it keeps for each.
    pub fn new(server: &Server, count: usize) -> FewClients {
        let connect = |_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens");
            stream.write_all(b"PING\r\n").expect("the socket takes it");
            let mut pong = [0; 7];
            stream.read_exact(&mut pong).expect("the server answers");
            stream
        };
        FewClients((0..count).map(connect).collect())
    }

    /// Has each send the command of its place.
    pub fn send(&self, command: impl Fn(usize) -> Vec<Vec<u8>>) {
        for (place, mut stream) in self.0.iter().enumerate() {
            stream.write_all(&pack(&command(place))).expect("the socket takes it");
        }
    }
}

//! Who receives the webhooks: an HTTP server that answers by a script for each path, and writes down what came.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::wait_until;

/// What a path answers to one request.
#[derive(Clone)]
pub enum Answer {
    Status(u16),
    /// 429 with this header Retry-After.
    Later(&'static str),
    /// 200, after this time.
    Slow(Duration),
    /// 200, once `let_go` is called for the path.
    Held,
    /// The connection is closed without a word.
    HangUp,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Hit {
    pub key: String,
    pub body: String,
    pub at: Instant,
    /// Requests that were open with it, all paths that begin alike together.
    pub open: usize,
    /// The client went away before it was answered.
    pub left: bool,
}

#[derive(Default)]
struct Path {
    answers: Vec<Answer>,
    hits: Vec<Hit>,
    open: usize,
    let_go: bool,
}

type Paths = Arc<Mutex<HashMap<String, Path>>>;

pub struct Receiver {
    port: u16,
    paths: Paths,
}

impl Receiver {
    pub fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let paths = Paths::default();
        let shared = Arc::clone(&paths);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let paths = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &paths));
            }
        });
        Receiver { port, paths }
    }

    /// Scripts a path: one answer after the other, the last one again and again. Gives its URL.
    pub fn on(&self, path: &str, answers: &[Answer]) -> String {
        lock(&self.paths).entry(path.to_string()).or_default().answers = answers.to_vec();
        self.url(path)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn hits(&self, path: &str) -> Vec<Hit> {
        lock(&self.paths).get(path).map(|path| path.hits.clone()).unwrap_or_default()
    }

    /// Waits until so many requests have come to the path.
    pub fn wait_hits(&self, path: &str, count: usize) -> Vec<Hit> {
        wait_until(&format!("{count} requests for {path}"), || Some(self.hits(path)).filter(|hits| hits.len() >= count))
    }

    /// Answers the path's requests that are held, and those to come.
    pub fn let_go(&self, path: &str) {
        lock(&self.paths).entry(path.to_string()).or_default().let_go = true;
    }
}

fn lock(paths: &Paths) -> MutexGuard<'_, HashMap<String, Path>> {
    paths.lock().unwrap_or_else(|e| e.into_inner())
}

struct Request {
    path: String,
    key: String,
    body: String,
}

/// Reads one request; what is none is let go.
fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?, words.next()?.to_string());
    assert_eq!(method, "POST", "{line}");
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => key = value.to_string(),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { path, key, body: String::from_utf8(body).ok()? })
}

fn serve(mut stream: TcpStream, paths: &Paths) {
    let Some(request) = read(&stream) else { return };
    let (answer, place) = {
        let mut paths = lock(paths);
        let path = paths.entry(request.path.clone()).or_default();
        path.open += 1;
        let Request { key, body, .. } = request;
        path.hits.push(Hit { key, body, at: Instant::now(), open: path.open, left: false });
        let place = path.hits.len() - 1;
        (path.answers.get(place).or(path.answers.last()).cloned().unwrap_or(Answer::Status(404)), place)
    };
    let left = !wait(&stream, &answer, || lock(paths)[&request.path].let_go);
    {
        let mut paths = lock(paths);
        let path = paths.get_mut(&request.path).expect("it was asked for");
        path.open -= 1;
        path.hits[place].left = left;
    }
    let (status, header) = match answer {
        Answer::HangUp => return,
        Answer::Status(status) => (status, String::new()),
        Answer::Later(after) => (429, format!("Retry-After: {after}\r\n")),
        Answer::Slow(_) | Answer::Held => (200, String::new()),
    };
    let _ = write!(stream, "HTTP/1.1 {status} Said\r\n{header}Content-Length: 0\r\nConnection: close\r\n\r\n");
}

/// Waits as long as the answer takes; false where the client leaves meanwhile.
fn wait(mut stream: &TcpStream, answer: &Answer, let_go: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
    loop {
        let done = match answer {
            Answer::Slow(time) => start.elapsed() >= *time,
            Answer::Held => let_go(),
            _ => true,
        };
        if done {
            return true;
        }
        // Nothing more is sent on it: what ends the wait before its time is the client that closes.
        match stream.read(&mut [0]) {
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            _ => return false,
        }
    }
}

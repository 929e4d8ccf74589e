//! A connection on which commands are sent many at a time, and each reply is read byte by byte as the protocol has it.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The words of one command.
pub type Words = Vec<Vec<u8>>;

/// How long nothing may come before the one who reads is told.
const IDLE: Duration = Duration::from_millis(30);

/// A reply of either protocol; what RESP3 has in several types is one where they mean the same.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Status(Vec<u8>),
    Error(String),
    Int(i64),
    Bytes(Vec<u8>),
    Nil,
    List(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    /// A double, a boolean or a big number, which only other commands than the module's give.
    Other,
}

impl Reply {
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[Reply]> {
        match self {
            Reply::List(items) => Some(items),
            _ => None,
        }
    }
}

/// What was read instead of a reply.
#[derive(Debug)]
pub enum Broken {
    /// The connection is gone, or nothing came for too long.
    Gone(String),
    /// Bytes that are no reply.
    Malformed(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Gone(why) => write!(f, "the connection is gone: {why}"),
            Broken::Malformed(what) => write!(f, "this is no reply: {what}"),
        }
    }
}

/// Asked whenever nothing came for a while; says whether to wait on.
pub type WhenIdle<'a> = &'a mut dyn FnMut() -> Result<(), String>;

pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    at: usize,
}

/// The command as it goes over the wire.
pub fn encode(words: &Words, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

impl Wire {
    pub fn open(port: u16) -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(IDLE))).expect("the socket is set");
        Wire { stream, buffer: Vec::new(), at: 0 }
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.stream.write_all(bytes).map_err(|e| Broken::Gone(format!("while writing: {e}")))
    }

    /// The next reply, whole.
    pub fn receive(&mut self, idle: WhenIdle) -> Result<Reply, Broken> {
        let line = self.line(idle)?;
        let (kind, rest) = line.split_first().ok_or_else(|| Broken::Malformed("an empty line".into()))?;
        match kind {
            b'+' => Ok(Reply::Status(rest.to_vec())),
            b'-' => Ok(Reply::Error(error_text(rest)?)),
            b':' => number(rest).map(Reply::Int),
            b'$' => self.block(rest, idle),
            b'=' => self.block(rest, idle),
            b'!' => match self.block(rest, idle)? {
                Reply::Bytes(text) => Ok(Reply::Error(error_text(&text)?)),
                _ => Err(Broken::Malformed("an error without text".into())),
            },
            b'*' | b'~' => match number(rest)? {
                -1 => Ok(Reply::Nil),
                length => Ok(Reply::List(self.items(length, idle)?)),
            },
            b'%' => {
                let items = self.items(number(rest)? * 2, idle)?;
                Ok(Reply::Map(items.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()))
            }
            b'_' if rest.is_empty() => Ok(Reply::Nil),
            b'#' if matches!(rest, b"t" | b"f") => Ok(Reply::Other),
            b',' | b'(' => Ok(Reply::Other),
            _ => Err(Broken::Malformed(format!("the line {}", line.escape_ascii()))),
        }
    }

    fn items(&mut self, length: i64, idle: WhenIdle) -> Result<Vec<Reply>, Broken> {
        if !(0..=1 << 24).contains(&length) {
            return Err(Broken::Malformed(format!("a list of {length}")));
        }
        (0..length).map(|_| self.receive(idle)).collect()
    }

    fn block(&mut self, length: &[u8], idle: WhenIdle) -> Result<Reply, Broken> {
        let length = number(length)?;
        if length == -1 {
            return Ok(Reply::Nil);
        }
        let length = usize::try_from(length).map_err(|_| Broken::Malformed(format!("a text of {length}")))?;
        while self.buffer.len() < self.at + length + 2 {
            self.fill(idle)?;
        }
        let text = self.buffer[self.at..self.at + length].to_vec();
        let end = &self.buffer[self.at + length..self.at + length + 2];
        if end != b"\r\n" {
            return Err(Broken::Malformed(format!("a text of {length} is followed by {}", end.escape_ascii())));
        }
        self.at += length + 2;
        Ok(Reply::Bytes(text))
    }

    fn line(&mut self, idle: WhenIdle) -> Result<Vec<u8>, Broken> {
        let mut seen = self.at;
        loop {
            if let Some(length) = self.buffer[seen..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer[self.at..seen + length].to_vec();
                self.at = seen + length + 1;
                return match line.split_last() {
                    Some((b'\r', line)) => Ok(line.to_vec()),
                    _ => Err(Broken::Malformed(format!("the line {}", line.escape_ascii()))),
                };
            }
            let before = self.at;
            seen = self.buffer.len();
            self.fill(idle)?;
            // What was read before has gone from the buffer.
            seen -= before - self.at;
        }
    }

    /// Reads more, and lets go of what was read before.
    fn fill(&mut self, idle: WhenIdle) -> Result<(), Broken> {
        if self.at > 1 << 16 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        let length = self.buffer.len();
        self.buffer.resize(length + (1 << 16), 0);
        loop {
            let read = self.stream.read(&mut self.buffer[length..]);
            match read {
                Ok(0) => return Err(Broken::Gone("closed by the server".into())),
                Ok(read) => {
                    self.buffer.truncate(length + read);
                    return Ok(());
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    idle().map_err(Broken::Gone)?;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Broken::Gone(format!("while reading: {e}"))),
            }
        }
    }
}

fn number(text: &[u8]) -> Result<i64, Broken> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Broken::Malformed(format!("the number {}", text.escape_ascii())))
}

fn error_text(text: &[u8]) -> Result<String, Broken> {
    if text.contains(&b'\r') || text.contains(&b'\n') {
        return Err(Broken::Malformed(format!("the error {}", text.escape_ascii())));
    }
    Ok(String::from_utf8_lossy(text).into_owned())
}

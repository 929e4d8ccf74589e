//! How a client comes to the server that answers for a queue, and what it makes of an answer.

use std::time::Duration;

use redis::{Connection, ConnectionAddr, ConnectionInfo, ProtocolVersion, RedisConnectionInfo, Value};

use crate::common::error_text;

/// How long a client waits for an answer, on top of the time that it asked the server to block.
pub const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// What came back.
pub enum Answer {
    Reply(Value),
    /// An error of the server: the command did nothing.
    Refused(String),
    /// The connection broke, or no answer came in time: it may have been done or not.
    Nothing,
}

/// A way to the servers that all clients of a crew share.
pub trait Way: Send + Sync {
    /// A connection to the server that answers for the queue, where one is to be had now.
    fn link(&self, queue: &str) -> Option<Box<dyn Link>>;
}

/// One client's connection. After `Answer::Nothing` it is done with.
pub trait Link: Send {
    /// Sends a command, its queue as the first argument, and waits for the answer.
    fn ask(&mut self, words: &[Vec<u8>], patience: Duration) -> Answer;

    /// Sends a command and does not wait.
    fn send(&mut self, words: &[Vec<u8>]);

    /// The port of the server, where the way leads to several.
    fn node(&self) -> u16 {
        0
    }

    /// Whether a client has to look for another server before it asks again.
    fn is_over(&self) -> bool {
        false
    }

    /// Whether a replica has what this connection wrote.
    fn confirmed(&mut self, within: Duration) -> bool {
        let wait = [b"WAIT".to_vec(), b"1".to_vec(), within.as_millis().to_string().into_bytes()];
        matches!(self.ask(&wait, within), Answer::Reply(Value::Int(n)) if n >= 1)
    }
}

/// A connection to one server.
pub struct Direct(pub Connection);

impl Direct {
    pub fn to(port: u16) -> Option<Direct> {
        let info = ConnectionInfo {
            addr: ConnectionAddr::Tcp("127.0.0.1".to_string(), port),
            redis: RedisConnectionInfo { protocol: ProtocolVersion::RESP2, ..Default::default() },
        };
        let con = redis::Client::open(info).ok()?.get_connection_with_timeout(READ_TIMEOUT).ok()?;
        con.set_write_timeout(Some(READ_TIMEOUT)).ok()?;
        Some(Direct(con))
    }
}

impl Link for Direct {
    fn ask(&mut self, words: &[Vec<u8>], patience: Duration) -> Answer {
        if self.0.set_read_timeout(Some(READ_TIMEOUT + patience)).is_err() {
            return Answer::Nothing;
        }
        match command(words).query::<Value>(&mut self.0) {
            Ok(value) => Answer::Reply(value),
            Err(e) if e.code().is_some() => Answer::Refused(error_text(&e)),
            Err(_) => Answer::Nothing,
        }
    }

    fn send(&mut self, words: &[Vec<u8>]) {
        // Where it fails nobody waits for it either.
        let _ = self.0.send_packed_command(&command(words).get_packed_command());
    }
}

fn command(words: &[Vec<u8>]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(&word[..]);
    }
    command
}

/// One server that stays on its port.
pub struct OneServer(pub u16);

impl Way for OneServer {
    fn link(&self, _queue: &str) -> Option<Box<dyn Link>> {
        Some(Box::new(Direct::to(self.0)?))
    }
}

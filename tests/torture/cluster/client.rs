//! A client of a cluster: it goes where MOVED and ASK send it, and waits where it is told to try again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::way::{Answer, Direct, Link, Way, READ_TIMEOUT};

/// How long it waits before it tries again.
const PAUSE: Duration = Duration::from_millis(20);

/// Every error that a client of a cluster has to be ready for, and what a worker is told of a receipt that is over.
pub const EXPECTED: [&str; 9] =
    ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "UNBLOCKED", "LOADING", "READONLY", "DQLOST", LOST];
/// The connection broke, or could not be made.
pub const LOST: &str = "connection lost";

/// What all clients of one cluster know together.
pub struct ClusterWay {
    /// The port that serves a queue, as far as is known.
    homes: Mutex<BTreeMap<String, u16>>,
    ports: Vec<u16>,
    /// How often each error was met, and the texts of those that nobody should meet.
    met: Mutex<(BTreeMap<String, usize>, Vec<String>)>,
}

impl ClusterWay {
    pub fn to(ports: Vec<u16>) -> Arc<ClusterWay> {
        Arc::new(ClusterWay { homes: Mutex::default(), ports, met: Mutex::default() })
    }

    fn met(&self, error: &str) {
        let mut met = self.met.lock().unwrap_or_else(|e| e.into_inner());
        let code = if error == LOST { LOST } else { error.split(' ').next().unwrap_or_default() };
        *met.0.entry(code.to_string()).or_default() += 1;
        if !EXPECTED.contains(&code) {
            met.1.push(error.to_string());
        }
    }

    /// How often a client met this error.
    pub fn count(&self, code: &str) -> usize {
        self.met.lock().unwrap_or_else(|e| e.into_inner()).0.get(code).copied().unwrap_or(0)
    }

    /// Says which errors were met, and fails where one of them is none that a client has to expect.
    pub fn assert_expected(&self) {
        let met = self.met.lock().unwrap_or_else(|e| e.into_inner());
        eprintln!("errors that clients met: {:?}", met.0);
        assert!(met.1.is_empty(), "{} errors, such as {:?}", met.1.len(), &met.1[..met.1.len().min(5)]);
    }

    fn home(&self, queue: &str) -> Option<u16> {
        self.homes.lock().unwrap_or_else(|e| e.into_inner()).get(queue).copied()
    }

    fn set_home(&self, queue: &str, port: u16) {
        self.homes.lock().unwrap_or_else(|e| e.into_inner()).insert(queue.to_string(), port);
    }

    /// The node that is known no longer answers: the next one may know more.
    fn forget_home(&self, queue: &str, port: u16) {
        let place = self.ports.iter().position(|known| *known == port).unwrap_or(0);
        self.set_home(queue, self.ports[(place + 1) % self.ports.len()]);
    }
}

/// The way, as clients share it.
pub struct Shared(pub Arc<ClusterWay>);

impl Way for Shared {
    fn link(&self, queue: &str) -> Option<Box<dyn Link>> {
        Some(Box::new(ClusterLink { way: self.0.clone(), queue: queue.to_string(), con: None, port: 0 }))
    }
}

pub struct ClusterLink {
    way: Arc<ClusterWay>,
    queue: String,
    /// The connection that was used last, and its port.
    con: Option<(u16, Direct)>,
    /// The port of the node that was asked last.
    port: u16,
}

/// Where to send a command next.
enum Next {
    To(u16),
    Asking(u16),
    Again,
}

impl ClusterLink {
    fn connect(&mut self, port: u16) -> Option<&mut Direct> {
        self.port = port;
        if self.con.as_ref().is_none_or(|(to, _)| *to != port) {
            self.con = Direct::to(port).map(|con| (port, con));
        }
        self.con.as_mut().map(|(_, con)| con)
    }

    fn home(&self) -> u16 {
        self.way.home(&self.queue).unwrap_or(self.way.ports[0])
    }

    /// What to make of an error; `None` where it is the answer.
    fn follow(&self, error: &str) -> Option<Next> {
        let port = || error.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port is named");
        match error.split(' ').next().unwrap_or_default() {
            "MOVED" => {
                self.way.set_home(&self.queue, port());
                Some(Next::To(port()))
            }
            "ASK" => Some(Next::Asking(port())),
            "TRYAGAIN" | "CLUSTERDOWN" | "UNBLOCKED" | "LOADING" | "READONLY" => Some(Next::Again),
            _ => None,
        }
    }
}

impl Link for ClusterLink {
    fn ask(&mut self, words: &[Vec<u8>], patience: Duration) -> Answer {
        let end = Instant::now() + READ_TIMEOUT + patience;
        let mut next = Next::To(self.home());
        loop {
            let (port, asking) = match next {
                Next::To(port) => (port, false),
                Next::Asking(port) => (port, true),
                Next::Again => (self.home(), false),
            };
            let Some(con) = self.connect(port) else {
                // Nothing was sent.
                self.way.met(LOST);
                self.way.forget_home(&self.queue, port);
                if Instant::now() > end {
                    return Answer::Refused(LOST.to_string());
                }
                std::thread::sleep(PAUSE);
                next = Next::Again;
                continue;
            };
            if asking && !matches!(con.ask(&[b"ASKING".to_vec()], Duration::ZERO), Answer::Reply(_)) {
                next = Next::Again;
                self.con = None;
                continue;
            }
            let error = match con.ask(words, patience) {
                Answer::Refused(error) => error,
                Answer::Nothing => {
                    self.way.met(LOST);
                    self.way.forget_home(&self.queue, port);
                    self.con = None;
                    return Answer::Nothing;
                }
                reply => return reply,
            };
            self.way.met(&error);
            match self.follow(&error) {
                Some(step) if Instant::now() < end => next = step,
                _ => return Answer::Refused(error),
            }
            if let Next::Again = next {
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn send(&mut self, words: &[Vec<u8>]) {
        let home = self.home();
        if let Some(con) = self.connect(home) {
            con.send(words);
        }
    }

    fn node(&self) -> u16 {
        self.port
    }

    fn confirmed(&mut self, within: Duration) -> bool {
        self.con.as_mut().is_some_and(|(_, con)| con.confirmed(within))
    }
}

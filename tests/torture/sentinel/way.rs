//! A client that follows the Sentinels: it asks one of them for the primary, and the primary whether it is one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::topology::{role, Role, NAME};
use crate::args;
use crate::common::text;
use crate::way::{Answer, Direct, Link, Way};
use redis::Value;

/// After which answers a client asks the Sentinels again.
const LOOK_AGAIN: [&str; 5] = ["READONLY", "UNBLOCKED", "NOREPLICAS", "LOADING", "MASTERDOWN"];

pub struct Follow {
    sentinels: Vec<u16>,
    /// How many connections were made.
    links: AtomicUsize,
}

impl Follow {
    pub fn new(sentinels: Vec<u16>) -> Follow {
        Follow { sentinels, links: AtomicUsize::new(0) }
    }

    /// The port of the primary, by the first Sentinel that answers.
    fn primary(&self, first: usize) -> Option<u16> {
        let ports = (0..self.sentinels.len()).map(|step| self.sentinels[(first + step) % self.sentinels.len()]);
        let said = ports.filter_map(|port| {
            let words = args!["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
            match Direct::to(port)?.ask(&words, Duration::ZERO) {
                Answer::Reply(Value::Array(address)) => text(&address[1]).parse().ok(),
                _ => None,
            }
        });
        said.take(1).next()
    }
}

impl Way for Follow {
    fn link(&self, _queue: &str) -> Option<Box<dyn Link>> {
        let number = self.links.fetch_add(1, Ordering::Relaxed);
        let port = self.primary(number)?;
        let mut direct = Direct::to(port)?;
        let is_primary = matches!(role(&mut direct)?, Role::Primary);
        let confirms = number.is_multiple_of(2);
        is_primary.then(|| Box::new(Following { direct, port, confirms, is_over: false }) as Box<dyn Link>)
    }
}

/// A connection to the one that is the primary, as far as anybody knows.
struct Following {
    direct: Direct,
    port: u16,
    /// Every other client goes on without waiting for a replica.
    confirms: bool,
    is_over: bool,
}

impl Link for Following {
    fn ask(&mut self, words: &[Vec<u8>], patience: Duration) -> Answer {
        let answer = self.direct.ask(words, patience);
        if let Answer::Refused(error) = &answer {
            self.is_over = LOOK_AGAIN.iter().any(|code| error.starts_with(code));
        }
        answer
    }

    fn send(&mut self, words: &[Vec<u8>]) {
        self.direct.send(words);
    }

    fn confirmed(&mut self, within: Duration) -> bool {
        if !self.confirms {
            return false;
        }
        let confirmed = self.direct.confirmed(within);
        self.is_over = !confirmed;
        confirmed
    }

    fn node(&self) -> u16 {
        self.port
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

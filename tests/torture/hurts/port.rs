//! Where the server is that clients go to: on another port after a restart or a failover, or nowhere for a while.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::common::server::new_dir;
use crate::way::{Answer, Direct, Link, Way};

pub struct Port {
    number: AtomicU16,
    folder: PathBuf,
}

impl Port {
    pub fn new(number: u16) -> Arc<Port> {
        let port = Port { number: AtomicU16::new(0), folder: new_dir() };
        port.open(number);
        Arc::new(port)
    }

    pub fn open(&self, number: u16) {
        self.number.store(number, Ordering::SeqCst);
        let new = self.folder.join("new");
        fs::write(&new, number.to_string()).and_then(|()| fs::rename(&new, self.file())).expect("the port is written");
    }

    /// From now on nobody finds a server; another program may be given its port.
    pub fn close(&self) {
        self.open(0);
    }

    /// The file that tells other processes.
    pub fn file(&self) -> PathBuf {
        self.folder.join("port")
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The port that another process has written there, where there is one.
pub fn told_by(file: &Path) -> Option<u16> {
    fs::read_to_string(file).ok()?.parse().ok().filter(|port| *port != 0)
}

/// The way to wherever the server is.
pub struct ByPort(pub Arc<Port>);

impl Way for ByPort {
    fn link(&self, _queue: &str) -> Option<Box<dyn Link>> {
        let at = self.0.number.load(Ordering::SeqCst);
        let direct = Some(at).filter(|at| *at != 0).and_then(Direct::to)?;
        Some(Box::new(Following { port: self.0.clone(), at, direct }))
    }
}

/// A connection that is left as soon as the server is elsewhere.
struct Following {
    port: Arc<Port>,
    at: u16,
    direct: Direct,
}

impl Link for Following {
    fn ask(&mut self, words: &[Vec<u8>], patience: Duration) -> Answer {
        let now = self.port.number.load(Ordering::SeqCst);
        if now != 0 && now != self.at {
            match Direct::to(now) {
                Some(direct) => (self.at, self.direct) = (now, direct),
                None => return Answer::Nothing,
            }
        }
        self.direct.ask(words, patience)
    }

    fn send(&mut self, words: &[Vec<u8>]) {
        self.direct.send(words);
    }
}

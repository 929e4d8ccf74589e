//! Three servers and three Sentinels that watch them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use redis::Value;

use crate::args;
use crate::common::server::{free_port, mortal, new_dir, server_command, Builder};
use crate::common::{int, list, pairs, text, wait_for, Server};
use crate::ledger::now_us;
use crate::way::{Answer, Direct, Link};

/// The name under which the Sentinels know the primary.
pub const NAME: &str = "dq";

/// How long a primary may be silent before a Sentinel holds it for down, in ms.
pub const DOWN_AFTER_MS: u64 = 2000;

/// How long a failover may take before a test gives up; a vote that fails is held again after twice `failover-timeout`.
const PATIENCE: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(5);

/// One Sentinel. Dropping it kills it and removes its folder.
pub struct Sentinel {
    child: Child,
    pub port: u16,
    dir: PathBuf,
}

impl Sentinel {
    fn start(primary: u16) -> Sentinel {
        let (port, dir) = (free_port(), new_dir());
        let lines = [
            format!("port {port}"),
            "bind 127.0.0.1".to_string(),
            format!("dir {}", dir.display()),
            format!("sentinel monitor {NAME} 127.0.0.1 {primary} 2"),
            format!("sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}"),
            format!("sentinel failover-timeout {NAME} 3000"),
            format!("sentinel parallel-syncs {NAME} 2"),
        ];
        let conf = dir.join("sentinel.conf");
        fs::write(&conf, lines.join("\n") + "\n").expect("sentinel.conf is written");
        let log = File::create(dir.join("log")).expect("the log opens");
        let words = server_command();
        let mut command = mortal(&words[0]);
        command
            .args(&words[1..])
            .arg(&conf)
            .arg("--sentinel")
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("the log opens twice"))
            .stdout(log);
        let child = command.spawn().unwrap_or_else(|e| panic!("{} does not start: {e}", words[0]));
        let sentinel = Sentinel { child, port, dir };
        wait_for("the Sentinel to answer", || sentinel.ask(&args!["PING"]).is_some());
        sentinel.hurry();
        sentinel
    }

    /// Looks at the servers, and tells the others, more often than once in some seconds, so that a round is short; and
    /// never takes a busy machine for one whose clock jumps.
    fn hurry(&self) {
        let words = args!["SENTINEL", "DEBUG", "PUBLISH-PERIOD", 400, "INFO-PERIOD", 1000, "TILT-TRIGGER", 60_000];
        assert!(self.ask(&words).is_some(), "SENTINEL DEBUG is there");
    }

    fn ask(&self, words: &[Vec<u8>]) -> Option<Value> {
        match Direct::to(self.port)?.ask(words, Duration::ZERO) {
            Answer::Reply(reply) => Some(reply),
            Answer::Refused(_) | Answer::Nothing => None,
        }
    }

    /// Whether it holds the server on this port for the primary, in good health, with two replicas that are too, and
    /// knows the other Sentinels.
    fn is_content(&self, primary: u16) -> bool {
        let Some(master) = self.ask(&args!["SENTINEL", "MASTER", NAME]) else { return false };
        let Some(replicas) = self.ask(&args!["SENTINEL", "REPLICAS", NAME]) else { return false };
        let field = |of: &Value, name: &str| {
            let found = pairs(of).into_iter().find_map(|(field, value)| (field == name).then(|| text(&value)));
            found.unwrap_or_default()
        };
        let replicas = list(&replicas);
        let is_well = |replica: &Value| {
            field(replica, "flags") == "slave"
                && field(replica, "master-port") == primary.to_string()
                && field(replica, "master-link-status") == "ok"
        };
        field(&master, "port") == primary.to_string()
            && field(&master, "flags") == "master"
            && field(&master, "num-other-sentinels") == "2"
            && replicas.len() == 2
            && replicas.iter().all(is_well)
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.join("log")).unwrap_or_default()).into_owned()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!(
                "--- the log of the Sentinel on port {}\n{}\n---",
                self.port,
                lines[lines.len().saturating_sub(25)..].join("\n")
            );
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A replica that became the primary.
#[derive(Clone, Copy)]
pub struct Promotion {
    pub node: usize,
    /// When it was seen last as a replica.
    pub not_before: u64,
    /// When it was seen first as the primary.
    pub seen: u64,
}

pub struct Topology {
    pub nodes: Vec<Server>,
    pub sentinels: Vec<Sentinel>,
    pub primary: usize,
}

impl Topology {
    /// A primary, two replicas, three Sentinels that know each other.
    pub fn start(builder: Builder) -> Topology {
        let primary = builder.clone().start();
        let mut nodes = vec![primary];
        for _ in 0..2 {
            let replica = builder.clone().start();
            replica.run(&["REPLICAOF", "127.0.0.1", &nodes[0].port.to_string()]);
            replica.catch_up(&nodes[0]);
            nodes.push(replica);
        }
        let sentinels = (0..3).map(|_| Sentinel::start(nodes[0].port)).collect();
        let topology = Topology { nodes, sentinels, primary: 0 };
        topology.settle();
        topology
    }

    pub fn primary(&self) -> &Server {
        &self.nodes[self.primary]
    }

    pub fn replicas(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().enumerate().filter(|(at, _)| *at != self.primary).map(|(_, node)| node)
    }

    /// Waits until another node is the primary.
    pub fn promotion(&self) -> Promotion {
        let mut others: Vec<_> = (0..self.nodes.len())
            .filter(|at| *at != self.primary)
            .map(|at| (at, Direct::to(self.nodes[at].port).expect("a replica takes a connection"), now_us()))
            .collect();
        let end = Instant::now() + PATIENCE;
        loop {
            for (node, link, replica_at) in &mut others {
                let asked = now_us();
                match role(link) {
                    Some(Role::Primary) => {
                        return Promotion { node: *node, not_before: *replica_at, seen: now_us() };
                    }
                    Some(Role::Replica { .. }) => *replica_at = asked,
                    // Sentinel ends the connections of the one that it promotes.
                    None => *link = Direct::to(self.nodes[*node].port).expect("a replica takes a connection"),
                }
            }
            assert!(Instant::now() < end, "nobody was promoted");
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until a node follows that primary and has all of its data.
    pub fn follows(&self, node: usize, primary: usize) {
        let (port, end) = (self.nodes[primary].port, Instant::now() + PATIENCE);
        while !self.is_linked(node, port) {
            assert!(Instant::now() < end, "the node on {} does not follow {port}", self.nodes[node].port);
            std::thread::sleep(PAUSE);
        }
    }

    fn is_linked(&self, node: usize, primary: u16) -> bool {
        let role = Direct::to(self.nodes[node].port).and_then(|mut link| role(&mut link));
        matches!(role, Some(Role::Replica { of, linked }) if of == primary && linked)
    }

    /// Whether a node has this primary set, linked or not.
    pub fn is_told_of(&self, node: usize, primary: usize) -> bool {
        let role = Direct::to(self.nodes[node].port).and_then(|mut link| role(&mut link));
        matches!(role, Some(Role::Replica { of, .. }) if of == self.nodes[primary].port)
    }

    /// Waits until all is as at the start: everybody follows the primary, and every Sentinel knows it.
    pub fn settle(&self) {
        for node in (0..self.nodes.len()).filter(|node| *node != self.primary) {
            self.follows(node, self.primary);
        }
        let end = Instant::now() + PATIENCE;
        let port = self.primary().port;
        while !self.sentinels.iter().all(|sentinel| sentinel.is_content(port)) {
            if Instant::now() >= end {
                let logs: Vec<_> = self.sentinels.iter().map(Sentinel::log).collect();
                panic!("the Sentinels do not settle on {port}:\n{}", logs.join("\n---\n"));
            }
            std::thread::sleep(PAUSE * 10);
        }
    }
}

pub enum Role {
    Primary,
    Replica { of: u16, linked: bool },
}

/// What a server says that it is, where it answers.
pub fn role(link: &mut Direct) -> Option<Role> {
    let Answer::Reply(reply) = link.ask(&args!["ROLE"], Duration::ZERO) else { return None };
    let fields = list(&reply);
    match text(&fields[0]).as_str() {
        "master" => Some(Role::Primary),
        _ => Some(Role::Replica { of: int(&fields[2]) as u16, linked: text(&fields[3]) == "connected" }),
    }
}

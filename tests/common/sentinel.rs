//! One Sentinel that watches a primary, and makes its replica the next one as soon as the primary is gone.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use super::server::{free_port, mortal, new_dir, server_command};
use super::{wait_for, Server};

/// What Sentinel calls the primary.
pub const MASTER: &str = "queues";

pub struct Sentinel {
    child: Child,
    dir: PathBuf,
    pub port: u16,
}

impl Sentinel {
    /// Starts it, and waits until it knows the replica.
    pub fn watch(primary: &Server) -> Sentinel {
        let sentinel = Sentinel::start(primary.port, &[]);
        wait_for("Sentinel to know the replica", || sentinel.replicas().is_ok_and(|count| count == 1));
        sentinel
    }

    /// Starts it for the primary at `primary`, with more lines of sentinel.conf.
    pub fn start(primary: u16, more: &[String]) -> Sentinel {
        let (dir, port) = (new_dir(), free_port());
        let conf = dir.join("sentinel.conf");
        let lines = [
            format!("port {port}"),
            "bind 127.0.0.1".to_string(),
            format!("dir {}", dir.display()),
            format!("sentinel monitor {MASTER} 127.0.0.1 {primary} 1"),
            format!("sentinel down-after-milliseconds {MASTER} 1000"),
            format!("sentinel failover-timeout {MASTER} 5000"),
        ];
        fs::write(&conf, [more, &lines].concat().join("\n") + "\n").expect("sentinel.conf is written");
        let log = File::create(dir.join("log")).expect("the log opens");
        let words = server_command();
        let mut command = mortal(&words[0]);
        command.args(&words[1..]).arg(&conf).arg("--sentinel").stdin(Stdio::null()).stdout(log);
        let child = command.spawn().unwrap_or_else(|e| panic!("{} does not start: {e}", words[0]));
        Sentinel { child, dir, port }
    }

    fn replicas(&self) -> redis::RedisResult<usize> {
        let mut con = redis::Client::open(("127.0.0.1", self.port))?.get_connection()?;
        let replicas: Vec<redis::Value> = redis::cmd("SENTINEL").arg("REPLICAS").arg(MASTER).query(&mut con)?;
        Ok(replicas.len())
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            eprintln!("--- Sentinel's log\n{log}---");
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

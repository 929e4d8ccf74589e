//! The servers that are measured, and what a job takes of them.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::server::{free_port, mortal, Builder};
use crate::common::Server;
use crate::pin;
use crate::wire::Wire;

/// Which server a peer stands on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Redis with DQ.
    Module,
    /// The same Redis without it.
    Plain,
    Beanstalkd,
}

pub enum Host {
    Redis(Box<(Server, Wire)>),
    Beanstalkd(Beanstalkd),
}

impl Host {
    pub fn start(kind: Kind, aof: bool) -> Result<Host, String> {
        // All threads of a server take over where this one may run.
        pin(0);
        let host = match kind {
            Kind::Module => Ok(redis(Server::builder().set("stale-policy", "keep"), aof)),
            Kind::Plain => Ok(redis(Server::builder().without_module(), aof)),
            Kind::Beanstalkd => Beanstalkd::start().map(Host::Beanstalkd),
        };
        pin(1);
        host
    }

    pub fn port(&self) -> u16 {
        match self {
            Host::Redis(redis) => redis.0.port,
            Host::Beanstalkd(beanstalkd) => beanstalkd.port,
        }
    }

    fn pid(&self) -> i32 {
        match self {
            Host::Redis(redis) => redis.0.pid(),
            Host::Beanstalkd(beanstalkd) => beanstalkd.child.id() as i32,
        }
    }

    /// The processor time that all threads of the server have taken, in µs: what INFO's used_cpu says too, but of any
    /// server and without asking it.
    pub fn cpu_us(&self) -> f64 {
        let mut clock = 0;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // Safety: both pointers are to live variables.
        let failed = unsafe {
            libc::clock_getcpuclockid(self.pid(), &mut clock) != 0 || libc::clock_gettime(clock, &mut time) != 0
        };
        assert!(!failed, "the server's processor time is not told");
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    }

    /// The memory that the server's data take: Redis's own account, or what beanstalkd has of the machine's.
    pub fn memory(&mut self) -> f64 {
        match self {
            Host::Redis(redis) => redis.1.info("memory", "used_memory"),
            Host::Beanstalkd(_) => resident(self.pid()),
        }
    }

    /// How long the AOF is.
    pub fn written(&mut self) -> f64 {
        match self {
            Host::Redis(redis) => redis.1.info("persistence", "aof_current_size"),
            Host::Beanstalkd(_) => 0.0,
        }
    }

    pub fn wire(&mut self) -> &mut Wire {
        match self {
            Host::Redis(redis) => &mut redis.1,
            Host::Beanstalkd(_) => panic!("beanstalkd does not speak RESP"),
        }
    }
}

fn redis(builder: Builder, aof: bool) -> Host {
    let builder = if aof {
        builder.line("appendonly yes").line("appendfsync everysec").line("auto-aof-rewrite-percentage 0")
    } else {
        builder
    };
    let server = builder.start();
    let wire = Wire::open(server.port);
    Host::Redis(Box::new((server, wire)))
}

fn resident(pid: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).expect("the server runs");
    let pages: f64 =
        text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("statm is two numbers and more");
    // Safety: takes no pointers.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64
}

/// A beanstalkd without a log of its own, which is its default. Dropping it ends it.
pub struct Beanstalkd {
    child: Child,
    port: u16,
}

impl Beanstalkd {
    fn start() -> Result<Beanstalkd, String> {
        let port = free_port();
        let mut command = mortal("beanstalkd");
        command.args(["-l", "127.0.0.1", "-p", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().map_err(|e| format!("beanstalkd does not start: {e}"))?;
        let server = Beanstalkd { child, port };
        let end = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > end {
                return Err("beanstalkd does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }
}

impl Drop for Beanstalkd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program says about its version, on its first line.
pub fn version(program: &str, args: &[&str]) -> String {
    let child = Command::new(program).args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut text = String::new();
    if let Ok(mut child) = child {
        if let Some(out) = &mut child.stdout {
            let _ = out.read_to_string(&mut text);
        }
        let _ = child.wait();
    }
    text.lines().next().unwrap_or("absent").to_string()
}

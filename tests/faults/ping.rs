//! How long another client waits for its PONG, and for how much of that the server was at work: the rest is the
//! machine's, which may be busy with other things.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::Server;

/// A client that sends PING after PING.
pub struct Pinger {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Pings>,
}

/// What it met, each list in order of size.
#[derive(Default)]
pub struct Pings {
    /// From PING to PONG.
    waits: Vec<Duration>,
    /// Processor time that the server took meanwhile.
    works: Vec<Duration>,
}

impl Pinger {
    pub fn begin(server: &Server) -> Pinger {
        let (mut con, over) = (server.conn(), Arc::new(AtomicBool::new(false)));
        let (seen, processor) = (Arc::clone(&over), Processor::of(server.pid()));
        let thread = std::thread::spawn(move || {
            let mut pings = Pings::default();
            while !seen.load(Relaxed) {
                let (begin, work) = (Instant::now(), processor.used());
                redis::cmd("PING").exec(&mut con).expect("PONG");
                pings.waits.push(begin.elapsed());
                pings.works.push(processor.used().saturating_sub(work));
                // Without a rest the client would be what keeps the server busy.
                std::thread::sleep(Duration::from_micros(200));
            }
            pings.waits.sort_unstable();
            pings.works.sort_unstable();
            pings
        });
        Pinger { over, thread }
    }

    pub fn end(self) -> Pings {
        self.over.store(true, Relaxed);
        self.thread.join().expect("the client ends")
    }
}

impl Pings {
    /// The time within which so many per mille were answered.
    pub fn wait(&self, part: usize) -> Duration {
        per_mille(&self.waits, part)
    }

    /// The time for which the server was at work before it answered, for so many per mille.
    pub fn work(&self, part: usize) -> Duration {
        per_mille(&self.works, part)
    }
}

fn per_mille(sorted: &[Duration], part: usize) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((sorted.len() * part / 1000).min(last)).copied().unwrap_or_default()
}

impl fmt::Display for Pings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |sorted, part| per_mille(sorted, part).as_secs_f64() * 1000.0;
        let triple = |sorted| format!("{:.2} / {:.2} / {:.2}", ms(sorted, 500), ms(sorted, 990), ms(sorted, 1000));
        let count = self.waits.len();
        write!(f, "{count:6} pings, p50 / p99 / max ms: {}, at work {}", triple(&self.waits), triple(&self.works))
    }
}

/// The processor time of a process.
#[derive(Clone, Copy)]
struct Processor(libc::clockid_t);

impl Processor {
    fn of(pid: i32) -> Processor {
        let mut clock = 0;
        // Safety: fills the number that it is given.
        assert_eq!(unsafe { libc::clock_getcpuclockid(pid, &mut clock) }, 0, "the process has a clock");
        Processor(clock)
    }

    fn used(self) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // Safety: fills the struct that it is given; where the process is gone it stays as it is.
        unsafe { libc::clock_gettime(self.0, &mut time) };
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

//! The memory of a server over a run.

use std::fmt;
use std::time::Duration;

use super::clients::Crowd;
use super::common::builds::{resident, used_memory};
use super::common::Server;

/// Bytes in use, without what is on its way to a replica or to the append only file.
pub fn used(server: &Server) -> i64 {
    let on_its_way: i64 = server.info("memory", "mem_not_counted_for_evict").parse().expect("bytes");
    used_memory(server) - on_its_way
}

/// How often it is looked at in a run.
const SAMPLES: u64 = 100;
/// The part of the run that is not looked at, since the server still takes what it will keep: every tenth.
const WARM: usize = SAMPLES as usize / 10;

/// Resident bytes that an allocator may keep: less than 1 for each job of a long run.
const KEPT: i64 = 4_000_000;

/// The server at one moment.
struct Sample {
    pushed: u64,
    live: i64,
    used: i64,
    resident: i64,
}

#[derive(Default)]
pub struct Curve(Vec<Sample>);

impl Curve {
    /// Looks at the server until so many jobs were pushed.
    pub fn follow(&mut self, server: &Server, crowd: &Crowd, jobs: u64) {
        let mut con = server.conn();
        while crowd.pushed() < jobs {
            let live = crowd.look(&mut con);
            if crowd.pushed() >= self.0.len() as u64 * jobs / SAMPLES {
                self.0.push(Sample { pushed: crowd.pushed(), live, used: used(server), resident: resident(server) });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Fails unless the last tenth of the run needs no more than the second, within this share. Of resident memory an
    /// allocator also keeps some of what was needed for a moment, and a replica that lags needs much.
    pub fn assert_flat(&self, share: f64, resident_too: bool) {
        self.assert_flat_in("used_memory", |sample| sample.used, share, 0);
        if resident_too {
            self.assert_flat_in("resident", |sample| sample.resident, share, KEPT);
        }
    }

    fn assert_flat_in(&self, name: &str, of: fn(&Sample) -> i64, share: f64, kept: i64) {
        let tenth = (self.0.len() / 10).max(1);
        let warm = WARM.min(self.0.len() - tenth);
        let (early, late) = (median(&self.0[warm..warm + tenth], of), median(&self.0[self.0.len() - tenth..], of));
        let growth = 100.0 * (late as f64 / early as f64 - 1.0);
        eprintln!("{name}: {early} bytes after the first tenth, {late} at the end: {growth:+.1} %");
        let most = early + (early as f64 * share) as i64 + kept;
        assert!(late <= most, "{name} grew by {growth:.1} %\n{self}");
    }
}

fn median(samples: &[Sample], of: fn(&Sample) -> i64) -> i64 {
    let mut values: Vec<i64> = samples.iter().map(of).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "     pushed     live   used_memory      resident")?;
        let step = (self.0.len() / 20).max(1);
        for (number, sample) in self.0.iter().enumerate() {
            if number % step == 0 || number + 1 == self.0.len() {
                writeln!(f, "{:>11}{:>9}{:>14}{:>14}", sample.pushed, sample.live, sample.used, sample.resident)?;
            }
        }
        Ok(())
    }
}

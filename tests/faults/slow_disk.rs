//! `appendfsync everysec` on a disk whose syncs take longer than a second: what a killed process and a power failure take
//! is not more than docs/guarantees.md says, and what is left is a state that the queue was in.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::server::{new_dir, Builder};
use crate::common::{preload, text, wait_for, wait_until, Queue, Server};
use crate::{args, ok};

/// For so long the server puts off a write behind a sync. It counts in whole seconds, and flushes some ten times a second.
const PUT_OFF: Duration = Duration::from_millis(2200);

struct SlowDisk {
    folder: PathBuf,
}

impl SlowDisk {
    fn new() -> SlowDisk {
        let folder = new_dir();
        fs::write(folder.join("page"), [0; 24]).expect("the page is written");
        preload::build(&folder, "slow_sync", include_str!("slow_sync.c"));
        SlowDisk { folder }
    }

    fn serves(&self, builder: Builder) -> Builder {
        let page = self.folder.join("page");
        builder.preload(&self.folder.join("slow_sync.so")).env("DQ_SLOW_SYNC", &page.to_string_lossy())
    }

    fn page(&self) -> File {
        // Written in place: the server has it mapped.
        File::options().read(true).write(true).open(self.folder.join("page")).expect("the page opens")
    }

    /// How long each sync takes from now on.
    fn set_delay(&self, delay: Duration) {
        let ms = delay.as_millis() as i64;
        self.page().write_all_at(&ms.to_ne_bytes(), 0).expect("the delay is written");
    }

    fn number(&self, place: u64) -> u64 {
        let mut bytes = [0; 8];
        self.page().read_exact_at(&mut bytes, place * 8).expect("the page is read");
        u64::from_ne_bytes(bytes)
    }

    /// How long the append-only file was when the last completed sync began.
    fn synced_bytes(&self) -> u64 {
        self.number(1)
    }

    /// When that was: a number that grows with each sync.
    fn synced_at(&self) -> u64 {
        self.number(2)
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    Push,
    Claim,
    Ack,
}

/// What the server has answered, in this order.
#[derive(Default)]
struct History {
    steps: Vec<(Step, String, Instant)>,
    pushed: u64,
    /// The claim that is not acknowledged yet.
    held: Option<(String, String)>,
}

impl History {
    fn note(&mut self, step: Step, id: &str) {
        self.steps.push((step, id.to_string(), Instant::now()));
    }

    /// Two pushes, a claim and its acknowledgement: after each round one more job is left.
    fn go_on(&mut self, q: &mut Queue) {
        if let Some((id, receipt)) = self.held.take() {
            assert_eq!(q.ack(&receipt), 1);
            return self.note(Step::Ack, &id);
        }
        if self.pushed.is_multiple_of(2) && self.steps.last().is_some_and(|(step, ..)| *step == Step::Push) {
            let job = q.claim_with(args!["LEASE", "1h"]).remove(0);
            self.note(Step::Claim, &job.id);
            self.held = Some((job.id, job.receipt));
            return;
        }
        self.pushed += 1;
        let id = format!("job-{}", self.pushed);
        ok!(q, "PUSH", "x", "ID", &id, "KEEP", 0);
        self.note(Step::Push, &id);
    }

    /// In which state each job is after so many of the steps.
    fn states(&self, steps: usize) -> BTreeMap<String, &'static str> {
        let mut states = BTreeMap::new();
        for (step, id, _) in &self.steps[..steps] {
            match step {
                Step::Push => states.insert(id.clone(), "ready"),
                Step::Claim => states.insert(id.clone(), "leased"),
                Step::Ack => states.remove(id),
            };
        }
        states
    }

    /// How many of the steps the queue still has; fails if it is in a state that it never was in.
    fn kept(&self, q: &mut Queue) -> usize {
        let mut found = BTreeMap::new();
        for id in (1..=self.pushed).map(|number| format!("job-{number}")) {
            if let Some(job) = q.get(&id) {
                let state = if text(&job["state"]) == "leased" { "leased" } else { "ready" };
                found.insert(id, state);
            }
        }
        let kept = (0..=self.steps.len()).rev().find(|steps| self.states(*steps) == found);
        kept.unwrap_or_else(|| panic!("the queue was never in this state: {found:?}"))
    }
}

fn server(disk: &SlowDisk) -> Server {
    disk.serves(Server::builder().line("appendonly yes").line("appendfsync everysec")).start()
}

fn queue(server: &Server) -> Queue {
    let mut q = server.queue("q");
    // A look after each step would have the steps far apart.
    q.unwatched();
    q
}

/// Each job is in one place of the queue's keys.
fn assert_whole(q: &mut Queue) {
    q.check_clean();
    let [jobs, leased] = ["jobs", "leased"].map(|key| q.key(key));
    let mut ids: Vec<String> = q.raw(args!["HKEYS", jobs]);
    let mut placed = q.due_ids();
    placed.extend(q.raw::<Vec<String>>(args!["ZRANGE", leased, 0, -1]));
    ids.sort();
    placed.sort();
    assert_eq!(placed, ids);
}

#[test]
fn a_killed_process_loses_at_most_two_seconds_on_a_slow_disk() {
    // At several places between two writes of the log, and beyond the second.
    for after_write in [300, 1000, 1700, 2600].map(Duration::from_millis) {
        let disk = SlowDisk::new();
        let mut server = server(&disk);
        let mut q = queue(&server);
        let mut history = History::default();
        disk.set_delay(Duration::from_secs(60));
        let put_off = |server: &Server| server.info("persistence", "aof_delayed_fsync") != "0";
        // The server waits for the sync, and then writes all the same.
        wait_for("a write that was put off", || {
            history.go_on(&mut q);
            put_off(&server)
        });
        let written = Instant::now();
        wait_for("some more steps", || {
            history.go_on(&mut q);
            written.elapsed() >= after_write
        });
        drop(q);
        let killed = Instant::now();
        server.kill();
        disk.set_delay(Duration::ZERO);
        server.start_again();
        let mut q = queue(&server);
        assert_whole(&mut q);
        let kept = history.kept(&mut q);
        let lost = &history.steps[kept..];
        assert!(!lost.is_empty(), "nothing was lost: the disk was not slow");
        let oldest = killed.duration_since(lost[0].2);
        println!(
            "killed {after_write:?} after a write: {} of {} steps lost, the oldest {oldest:?} old",
            lost.len(),
            history.steps.len()
        );
        assert!(oldest <= PUT_OFF, "a step that was answered {oldest:?} before is lost");
    }
}

#[test]
fn a_power_failure_loses_what_no_completed_sync_has() {
    let disk = SlowDisk::new();
    let mut server = server(&disk);
    let mut q = queue(&server);
    let mut history = History::default();
    let delay = Duration::from_secs(3);
    disk.set_delay(delay);
    // From the end of one sync of a log in use almost to the end of the next.
    let mut seen = (disk.synced_at(), 0);
    let ended = wait_until("two syncs to end", || {
        history.go_on(&mut q);
        let at = disk.synced_at();
        if at != seen.0 {
            seen = (at, seen.1 + 1);
        }
        (seen.1 == 2).then(Instant::now)
    });
    wait_for("the next sync to be almost over", || {
        history.go_on(&mut q);
        ended.elapsed() >= delay * 9 / 10
    });
    drop(q);
    let killed = Instant::now();
    server.kill();
    let file = fs::read_dir(server.dir().join("appendonlydir"))
        .expect("the folder is read")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .expect("the log");
    let log = File::options().write(true).open(file).expect("the log opens");
    log.set_len(disk.synced_bytes()).expect("the log is cut");
    disk.set_delay(Duration::ZERO);
    server.start_again();
    let mut q = queue(&server);
    assert_whole(&mut q);
    let lost = &history.steps[history.kept(&mut q)..];
    let oldest = killed.duration_since(lost.first().expect("something is lost").2);
    println!("{} of {} steps lost, the oldest {oldest:?} old", lost.len(), history.steps.len());
    assert!(oldest > PUT_OFF, "{oldest:?}: then two seconds could be promised");
    assert!(oldest <= delay * 2 + Duration::from_secs(1) + PUT_OFF, "{oldest:?}");
}

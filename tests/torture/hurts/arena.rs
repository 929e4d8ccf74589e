//! Where a server is hurt: the server, its disk, its clock and its clients, and what each hurt may undo.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::disk::Disk;
use super::figures::Figures;
use super::gang::Gang;
use super::port::{ByPort, Port};
use crate::account::{Account, Left};
use crate::common::dice::{seed, Dice};
use crate::common::server::Builder;
use crate::common::wall::Wall;
use crate::common::{assert_replica_same, wait_for, Server};
use crate::crew::{Crew, Plan};
use crate::ledger::{now_us, Grace, Ledger, Rollback};
use crate::scene::{left_in, wait_until_done};

const LEASE_MS: u64 = 700;
/// The take-over grace of these servers.
const GRACE_MS: u64 = 900;
/// While the queue clock closes an offset it runs a tenth faster.
const HURRY: u64 = 11;
/// With `appendfsync everysec` and a slow disk the server keeps a write back for so long: a killed process loses it. On a
/// fast disk a power cut takes as much.
const EVERY_SECOND_US: u64 = 2_000_000;
/// How long a sync may wait for its thread.
const SYNC_DELAY_US: u64 = 200_000;

/// How the server keeps its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keeping {
    Always,
    EverySecond,
    Snapshots,
}

/// One way to hurt a server. What lasts goes on from `begin` to `end`, and others may come meanwhile.
pub struct Hurt {
    pub name: &'static str,
    pub begin: fn(&mut Arena),
    pub end: fn(&mut Arena),
}

/// For a hurt that is over as soon as it has begun.
pub fn over(_: &mut Arena) {}

pub struct Arena {
    pub server: Server,
    pub replica: Option<Server>,
    pub keeping: Keeping,
    pub plan: Plan,
    pub ledger: Arc<Ledger>,
    pub port: Arc<Port>,
    /// The server's, and the replica's.
    pub disk: Disk,
    pub other_disk: Disk,
    pub wall: Wall,
    pub dice: Dice,
    /// What was seen of the hurts, and how often.
    pub seen: BTreeMap<String, u64>,
    pub gang: Gang,
    /// Since when the disk has been full.
    pub full_since: Option<u64>,
    /// When the last snapshot began that is on the disk.
    pub saved: u64,
    pub next_large: u64,
    /// Since when the server takes no writes.
    pub refused_since: Option<u64>,
    clock_was_set: bool,
    /// How far the wall clock is off, in ms.
    offset: i64,
    crew: Crew,
    figures: Figures,
}

impl Arena {
    pub fn start(keeping: Keeping) -> Arena {
        Arena::with(keeping, &["a", "b"], seed())
    }

    pub fn with(keeping: Keeping, queues: &[&str], seed: u64) -> Arena {
        eprintln!("DQ_TEST_SEED={seed} {keeping:?}");
        let (disk, wall) = (Disk::new(), Wall::new());
        let server = disk.serves(wall.rules(builder(keeping))).start();
        let plan = Plan { lease_ms: LEASE_MS, ..Plan::of(queues) };
        let (ledger, port) = (Arc::new(Ledger::default()), Port::new(server.port));
        let crew = Crew::start(plan.clone(), Arc::new(ByPort(port.clone())), ledger.clone(), seed);
        let figures = Figures::read(&server, &plan.queues);
        Arena {
            server,
            replica: None,
            keeping,
            ledger,
            disk,
            other_disk: Disk::new(),
            wall,
            dice: Dice(seed),
            seen: BTreeMap::new(),
            gang: Gang::new(port.clone(), plan.clone()),
            plan,
            port,
            full_since: None,
            saved: 0,
            next_large: crate::crew::LARGE,
            refused_since: None,
            clock_was_set: false,
            offset: 0,
            crew,
            figures,
        }
    }

    /// Notes that this was seen.
    pub fn see(&mut self, what: &str) {
        self.see_many(what, 1);
    }

    pub fn see_many(&mut self, what: &str, count: u64) {
        *self.seen.entry(what.to_string()).or_default() += count;
    }

    /// Fails unless this was seen: else nothing was hurt, and nothing is proved.
    #[track_caller]
    pub fn assert_seen(&self, what: &str) {
        assert!(self.seen.contains_key(what), "{what} was not seen, only {:?}", self.seen);
    }

    /// Lets the clients do so much.
    pub fn load(&mut self, answers: usize) {
        let begun = self.ledger.answers();
        wait_for("the clients to get on", || self.ledger.answers() >= begun + answers);
    }

    /// One hurt in the middle of the load.
    pub fn live_through(&mut self, hurt: &Hurt) {
        self.load(150);
        (hurt.begin)(self);
        let ms = self.some_ms(50, 500);
        self.last(ms);
        (hurt.end)(self);
        self.check_figures();
    }

    /// Lets time go by.
    pub fn last(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    /// How many ms a hurt is to last this time.
    pub fn some_ms(&mut self, least: u64, most: u64) -> u64 {
        self.dice.between(least, most)
    }

    /// kill -9 and a new start.
    pub fn crash(&mut self) {
        self.port.close();
        let at = now_us();
        self.server.kill();
        self.may_undo("kill -9", self.safe_at(at));
        self.come_back(at);
    }

    /// A power cut and a new start: what was not synced is gone.
    pub fn crash_without_power(&mut self) {
        assert!(self.keeping != Keeping::Snapshots, "a snapshot is synced before it gets its name");
        self.port.close();
        let at = now_us();
        self.server.kill();
        let cut = self.disk.cut_power(self.server.dir(), &mut self.dice);
        let slow = cut.synced_at.map_or(at, |synced| synced.saturating_sub(SYNC_DELAY_US));
        self.may_undo("a power cut", self.safe_at(at).map(|safe| safe.min(slow)));
        if cut.lost > 0 {
            self.see_many("bytes lost in a power cut", cut.lost);
        }
        self.come_back(at);
    }

    /// SHUTDOWN and a new start; `safe_at` as `safe_at()` gives it. Gives false where the server refuses to end.
    pub fn shut_down(&mut self, how: &str, safe_at: Option<u64>) -> bool {
        self.port.close();
        let at = now_us();
        match self.server.try_run(&["SHUTDOWN", how]) {
            Err(e) if e.code().is_some() => {
                self.see("SHUTDOWN was refused");
                self.port.open(self.server.port);
                false
            }
            _ => {
                self.server.ended();
                let safe_at = safe_at.into_iter().chain(self.full_since).min();
                self.may_undo("SHUTDOWN", safe_at);
                self.come_back(at);
                true
            }
        }
    }

    /// From when on a server that ends now may have kept nothing; `None` where it has kept all.
    pub fn safe_at(&self, now: u64) -> Option<u64> {
        match self.keeping {
            Keeping::Always => None,
            Keeping::EverySecond => Some((now - EVERY_SECOND_US).min(self.full_since.unwrap_or(now))),
            Keeping::Snapshots => Some(self.saved),
        }
    }

    fn may_undo(&self, why: &'static str, safe_at: Option<u64>) {
        let Some(from) = safe_at else { return };
        self.ledger.rollback(Rollback { from, to: now_us(), why, spares_confirmed: false });
    }

    /// Starts the server, which went at `from`, again.
    pub fn come_back(&mut self, from: u64) {
        let begun = self.about_to_take_over();
        self.server.start_again_as(self.builder(&self.disk));
        self.took_over(from, begun);
        self.see("restarts");
    }

    /// A new server process, or a promoted one, reads the clock of the machine, which is right by then. Gives the time.
    pub fn about_to_take_over(&mut self) -> u64 {
        self.wall.set(0);
        self.offset = 0;
        now_us()
    }

    /// The server answers for the queues, not before `begun`; the one before it did so until `from`.
    pub fn took_over(&mut self, from: u64, begun: u64) {
        self.refused_since = None;
        let ends_all = std::mem::take(&mut self.clock_was_set);
        self.ledger.grace(Grace { from, to: grace_end(begun), ends_all });
        self.count_anew();
        if let Some(replica) = &self.replica {
            replica.run(&["REPLICAOF", "127.0.0.1", &self.server.port.to_string()]);
        }
        self.port.open(self.server.port);
    }

    /// The figures begin anew with the data.
    pub fn count_anew(&mut self) {
        self.figures = Figures::read(&self.server, &self.plan.queues);
    }

    /// A lease that ran at `from` could not end until the grace that began at `begun` was over.
    pub fn grace(&mut self, from: u64, begun: u64) {
        self.ledger.grace(Grace { from, to: grace_end(begun), ends_all: false });
    }

    /// Writes that were not taken are about to be.
    pub fn takes_writes_again(&mut self) {
        if let Some(from) = self.refused_since.take() {
            self.grace(from, now_us());
        }
    }

    /// Sets the wall clock to the real time and so many ms; gives by how many that was a step.
    pub fn set_clock(&mut self, ms: i64) -> i64 {
        self.clock_was_set = true;
        self.ledger.pages().hurry = HURRY;
        self.wall.set(ms);
        ms - std::mem::replace(&mut self.offset, ms)
    }

    /// What the servers of this arena are started with.
    pub fn builder(&self, disk: &Disk) -> Builder {
        disk.serves(self.wall.rules(builder(self.keeping)))
    }

    /// Fails where a figure is not what became of the jobs since the server came.
    pub fn check_figures(&mut self) {
        self.server.assert_alive();
        Figures::read(&self.server, &self.plan.queues).assert_follow(&self.figures);
    }

    /// All is finished, and each job accounted for. No hurt but a lack of memory lasts any longer.
    pub fn settle(mut self) -> Settled {
        self.gang.dismiss(&self.ledger);
        self.crew.stop_pushing();
        self.crew.drain();
        wait_until_done(&self.server, &self.plan.queues);
        self.crew.dismiss();
        Figures::read(&self.server, &self.plan.queues).assert_follow(&self.figures);
        self.server.assert_alive();
        if let Some(replica) = &self.replica {
            assert_replica_same(&self.server, replica);
        }
        let mut left = Left::new();
        left_in(&self.server, &self.plan.queues, &mut left);
        let pages = self.ledger.pages();
        let account = Account::of(&pages, &left);
        let refusals = pages.refusals.iter().map(|(code, count)| (format!("commands refused: {code}"), *count as u64));
        let seen: BTreeMap<String, u64> = self.seen.into_iter().chain(refusals).collect();
        let lines: String = seen.iter().map(|(what, count)| format!("{count:8} seen: {what}\n")).collect();
        eprint!("{}\n{lines}", std::thread::current().name().unwrap_or_default());
        account.settle();
        Settled { tally: account.tally, seen }
    }
}

/// An account that came out.
pub struct Settled {
    pub tally: BTreeMap<String, usize>,
    pub seen: BTreeMap<String, u64>,
}

impl Settled {
    /// How many cases the account has of what begins so.
    pub fn cases(&self, what: &str) -> usize {
        self.tally.iter().filter(|(name, _)| name.starts_with(what)).map(|(_, count)| count).sum()
    }
}

fn builder(keeping: Keeping) -> Builder {
    let builder = Server::with_grace()
        .set("takeover-grace", &GRACE_MS.to_string())
        .set("max-lapses", "1000000")
        // A save point, so that a save that failed stops writes, which is never reached.
        .line("save 3600 2000000000");
    match keeping {
        Keeping::Always => builder.line("appendonly yes").line("appendfsync always"),
        Keeping::EverySecond => builder.line("appendonly yes").line("appendfsync everysec"),
        Keeping::Snapshots => builder,
    }
}

fn grace_end(begun: u64) -> u64 {
    begun + GRACE_MS * 1000 * 100 / (100 + HURRY)
}

/// Hurts a server so, time and again, and gives the account.
pub fn alone(keeping: Keeping, hurt: &Hurt, times: usize) -> (Arena, usize) {
    let mut arena = Arena::start(keeping);
    for _ in 0..times {
        arena.live_through(hurt);
    }
    arena.load(150);
    (arena, times)
}

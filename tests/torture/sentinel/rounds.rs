//! One hurt, and what must come of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::topology::{Promotion, Topology};
use super::GRACE_MS;
use crate::blocked::Blocked;
use crate::common::dice::Dice;
use crate::common::{text, wait_for, wait_until, Queue, Server};
use crate::ledger::{now_us, Ledger, Pages, Rollback, Told};
use crate::{args, err, ok};

/// What of the time before a hurt may be undone with it: a replica that is so far behind is none that counts for
/// `min-replicas-max-lag 1`, which the server looks at once a second.
const TAIL_US: u64 = 3_000_000;

/// Within this time from the hurt on all workers have jobs again.
const BACK_AT_WORK: Duration = Duration::from_secs(30);

/// Clients that wait for a job which never comes.
const CROWD: usize = 3;

/// How long a primary that is cut off is watched.
const WATCH: Duration = Duration::from_millis(1200);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hurt {
    /// The primary is killed.
    Kill,
    /// The primary is frozen, and thawed when the others have left it.
    Freeze,
    /// The primary is frozen, and thawed as soon as another one is promoted, while the second replica still follows it.
    ThawEarly,
    /// The primary loses its replicas, goes on without them, and is killed.
    Sever,
    /// Both replicas are frozen, until the primary has noticed it.
    CutOff,
}

impl Hurt {
    pub const ALL: [Hurt; 5] = [Hurt::Kill, Hurt::Freeze, Hurt::ThawEarly, Hurt::Sever, Hurt::CutOff];

    fn name(self) -> &'static str {
        match self {
            Hurt::Kill => "the primary was killed",
            Hurt::Freeze => "the primary was frozen",
            Hurt::ThawEarly => "the primary was frozen, and thawed in the middle of the failover",
            Hurt::Sever => "the primary lost its replicas and was killed",
            Hurt::CutOff => "the replicas were frozen",
        }
    }
}

pub struct Scene {
    pub topology: Topology,
    pub ledger: Arc<Ledger>,
    pub dice: Dice,
    pub workers: usize,
}

/// What is laid out on the primary before it is hurt.
struct Trap {
    /// It waits for a job that is due after the hurt.
    waiter: Blocked,
    /// They wait for one that never comes.
    crowd: Vec<Blocked>,
    /// A job whose lease ends while nobody is the primary, or soon after.
    held: String,
    receipt: String,
}

impl Scene {
    pub fn round(&mut self, number: usize, hurt: Hurt) {
        let begun = Instant::now();
        let pushes = self.ledger.pushed() + self.dice.between(40, 160) as usize;
        wait_for("some pushes", || self.ledger.pushed() >= pushes);
        eprintln!("round {number}: {}", hurt.name());
        match hurt {
            Hurt::CutOff => self.cut_off(),
            _ => self.fail_over(hurt),
        }
        self.topology.settle();
        eprintln!("    {:?} in all", begun.elapsed());
    }

    fn fail_over(&mut self, hurt: Hurt) {
        let old = self.topology.primary;
        let mut trap = Trap::lay(self.topology.primary(), 3000, 1500);
        trap.crowd(self.topology.primary());
        let at = now_us();
        self.strike(hurt);
        let promotion = self.topology.promotion();
        eprintln!("    promoted after {} ms", (promotion.seen - at) / 1000);
        let thawed = self.thaw_early(hurt, &promotion);
        self.watch_grace(&trap, &promotion);
        serve_due_jobs(&self.topology.nodes[promotion.node]);
        let thawed = thawed.or_else(|| self.bring_back(hurt, &promotion));
        self.topology.follows(old, promotion.node);
        let to = now_us();
        trap.end(hurt, thawed, to);
        self.topology.primary = promotion.node;
        self.note(hurt, old, at, thawed, to);
        self.all_work(at, promotion.seen);
    }

    /// Hurts the primary.
    fn strike(&mut self, hurt: Hurt) {
        let primary = self.topology.primary;
        match hurt {
            Hurt::Freeze | Hurt::ThawEarly => self.topology.nodes[primary].signal(libc::SIGSTOP),
            Hurt::Sever => {
                self.sever();
                self.topology.nodes[primary].kill();
                self.topology.replicas().for_each(|replica| replica.signal(libc::SIGCONT));
            }
            Hurt::Kill | Hurt::CutOff => self.topology.nodes[primary].kill(),
        }
    }

    /// Leaves the primary without replicas, and lets it take writes.
    fn sever(&self) {
        let primary = self.topology.primary();
        primary.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        self.topology.replicas().for_each(|replica| replica.signal(libc::SIGSTOP));
        primary.run(&["CLIENT", "KILL", "TYPE", "replica"]);
        let severed = now_us();
        let alone = |pages: &Pages| {
            let after = pages.pushes.iter().rev().take_while(|push| push.span.answered > severed);
            after.filter(|push| push.told == Told::Done && push.span.asked > severed).count()
        };
        wait_for("pushes that no replica has", || alone(&self.ledger.pages()) >= 5);
    }

    /// Thaws the primary at once where the round says so; gives the moment.
    fn thaw_early(&self, hurt: Hurt, promotion: &Promotion) -> Option<u64> {
        let (old, new) = (self.topology.primary, promotion.node);
        (hurt == Hurt::ThawEarly).then(|| {
            let thawed = now_us();
            self.topology.nodes[old].signal(libc::SIGCONT);
            let other = (0..3).find(|node| ![old, new].contains(node)).expect("there are three");
            let follows = if self.topology.is_told_of(other, new) { "the new one" } else { "the old one" };
            eprintln!("    thawed while the other replica follows {follows}");
            thawed
        })
    }

    /// The lease that ended meanwhile lasts until the grace of the promoted node is over.
    fn watch_grace(&self, trap: &Trap, promotion: &Promotion) {
        let mut q = quiet(&self.topology.nodes[promotion.node], "held");
        wait_for("the lease to end", || q.score("leased", &trap.held).is_none());
        let held_ms = (now_us() - promotion.not_before) / 1000;
        assert!(held_ms >= GRACE_MS, "a lease ended {held_ms} ms after the promotion");
        eprintln!("    the first lease ended {held_ms} ms after the promotion");
        ok!(q, "ACK", &trap.receipt);
    }

    /// Lets the old primary live again; gives the moment at which it was thawed.
    fn bring_back(&mut self, hurt: Hurt, promotion: &Promotion) -> Option<u64> {
        let old = self.topology.primary;
        if hurt != Hurt::Freeze {
            self.topology.nodes[old].start_again();
            return None;
        }
        for node in (0..3).filter(|node| ![old, promotion.node].contains(node)) {
            self.topology.follows(node, promotion.node);
        }
        let thawed = now_us();
        self.topology.nodes[old].signal(libc::SIGCONT);
        Some(thawed)
    }

    /// Writes down what the old primary may have done that is gone.
    fn note(&self, hurt: Hurt, old: usize, at: u64, thawed: Option<u64>, to: u64) {
        let node = self.topology.nodes[old].port;
        let from = at - TAIL_US;
        self.ledger.deposed(node, at, Rollback { from, to, why: hurt.name(), spares_confirmed: true });
        if let (Hurt::ThawEarly, Some(thawed)) = (hurt, thawed) {
            // The replica that was not told yet of the new primary gives its word to the old one.
            let why = "confirmed to a thawed primary by a replica that was not told of the new one yet";
            self.ledger.deposed(node, thawed, Rollback { from: thawed, to, why, spares_confirmed: false });
        }
    }

    /// Waits until each worker has had a job since then.
    fn all_work(&self, hurt_at: u64, since: u64) {
        let node = self.topology.primary().port;
        let all = wait_until("every worker to go on", || {
            let pages = self.ledger.pages();
            let mut first = BTreeMap::new();
            let new = pages.claims.iter().rev().take_while(|claim| claim.span.answered >= hurt_at);
            for claim in new.filter(|claim| claim.span.node == node && claim.span.answered >= since) {
                first.insert(claim.worker, claim.span.answered);
            }
            (first.len() == self.workers).then(|| first.into_values().max())?
        });
        let took = Duration::from_micros(all - hurt_at);
        eprintln!("    all workers had jobs {took:?} after the hurt, {} ms after the promotion", (all - since) / 1000);
        assert!(took < BACK_AT_WORK, "workers were idle for {took:?}");
    }

    /// Without replicas that answer, nothing is handed out and nothing moves; with them all goes on.
    fn cut_off(&self) {
        let primary = self.topology.primary();
        let mut trap = Trap::lay(primary, 6000, 5000);
        let at = now_us();
        self.topology.replicas().for_each(|replica| replica.signal(libc::SIGSTOP));
        let mut due = quiet(primary, "due");
        wait_for("the primary to be cut off", || {
            primary.try_run(&["SET", "x", "y"]).is_err_and(|e| e.code() == Some("NOREPLICAS"))
        });
        let cut_ms = (now_us() - at) / 1000;
        assert_eq!(due.stat("waiting"), 1, "the job was due before the primary was cut off");
        let before = primary.dump();
        wait_for("the job to be due", || due.stat("ready") == 1);
        let end = Instant::now() + WATCH;
        while Instant::now() < end {
            assert!(trap.waiter.waits(), "a waiter was answered");
            assert!(err!(due, "CLAIM").starts_with("NOREPLICAS"));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(primary.dump(), before, "left: a primary that is cut off, right: before");
        self.topology.replicas().for_each(|replica| replica.signal(libc::SIGCONT));
        let back = now_us();
        eprintln!("    cut off after {cut_ms} ms, with its replicas again after {} ms", (back - at) / 1000);
        self.all_work(at, back);
        let jobs = trap.waiter.end().jobs();
        assert_eq!(jobs.len(), 1);
        ok!(due, "ACK", &jobs[0].receipt);
        quiet(primary, "held").wait_lapse(&trap.held);
        ok!(quiet(primary, "held"), "ACK", &trap.receipt);
    }
}

impl Trap {
    /// All of it is on both replicas.
    fn lay(server: &Server, due_ms: u64, lease_ms: u64) -> Trap {
        let waiter = Blocked::in_line(server, "due", args!["BLOCK", 0]);
        let mut q = quiet(server, "held");
        ok!(q, "PUSH", "x");
        let job = q.claim_with(args!["LEASE", lease_ms]).remove(0);
        ok!(quiet(server, "due"), "PUSH", "x", "DELAY", due_ms);
        wait_for("both replicas to have it", || {
            ok!(q, "EXTEND", lease_ms, &job.receipt);
            q.raw::<i64>(args!["WAIT", 2, 1000]) == 2
        });
        Trap { waiter, crowd: Vec::new(), held: job.id, receipt: job.receipt }
    }

    fn crowd(&mut self, server: &Server) {
        self.crowd.extend((0..CROWD).map(|_| Blocked::in_line(server, "empty", args!["BLOCK", 0])));
    }

    /// Everybody who waited at the old primary came free, and without a job.
    fn end(self, hurt: Hurt, thawed: Option<u64>, demoted: u64) {
        let begun = now_us();
        let given = self.waiter.end().outcome;
        // The replica that follows it still makes it a primary like any other.
        let may_give = hurt == Hurt::ThawEarly;
        assert!(given.is_err() || may_give, "the old primary gave {given:?}");
        for waiter in self.crowd {
            assert!(waiter.end().outcome.is_err(), "nothing was there to give");
        }
        let late_ms = (now_us() - begun) / 1000;
        assert!(late_ms < 1000, "waiters came free {late_ms} ms after the old primary had become a replica");
        if let Some(thawed) = thawed {
            eprintln!("    primary for {} ms after the thaw, gave {given:?}", (demoted - thawed) / 1000);
        }
    }
}

/// A queue that is not looked at after each call.
fn quiet(server: &Server, name: &str) -> Queue {
    let mut q = server.queue(name);
    q.unwatched();
    q
}

/// The new primary gives the job that was due after the hurt, once, and then another one to who waits for it.
fn serve_due_jobs(server: &Server) {
    let mut q = quiet(server, "due");
    let jobs = q.claim_with(args!["BLOCK", "10s", "LEASE", "1m"]);
    assert_eq!(jobs.len(), 1, "the job that was due after the hurt");
    ok!(q, "ACK", &jobs[0].receipt);
    let waiter = Blocked::in_line(server, "due", args!["BLOCK", "10s", "LEASE", "1m"]);
    let id = text(&ok!(q, "PUSH", "x", "DELAY", 200));
    let jobs = waiter.end().jobs();
    assert_eq!(jobs.iter().map(|job| &job.id).collect::<Vec<_>>(), [&id]);
    ok!(q, "ACK", &jobs[0].receipt);
    assert_eq!(q.stats(["ready", "delayed", "leased"]), [0, 0, 0]);
}

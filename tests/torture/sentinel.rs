//! Sentinel, real: the primary is killed, frozen and cut off again and again under load, with clients that follow the
//! Sentinels.
//!
//! A push that a replica has confirmed survives. What had no replica's word may be lost or done again, each case by name,
//! and only what the deposed primary did just before or after others took over. Workers come free and go on; a primary
//! without its replicas hands out nothing, nor does one that was frozen while others took over.

mod rounds;
mod topology;
mod way;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::account::{Account, Left};
use crate::common::dice::{seed, Dice};
use crate::common::{assert_replica_same, Server};
use crate::crew::{Crew, Plan};
use crate::ledger::{Ledger, Pages};
use crate::scene::{left_in, wait_until_done};
use rounds::{Hurt, Scene};
use topology::Topology;
use way::Follow;

/// `dq.takeover-grace` of all nodes, in ms.
pub const GRACE_MS: u64 = 2000;

/// The hurts of the short run; the last one kills.
const SHORT: [Hurt; 3] = [Hurt::Freeze, Hurt::CutOff, Hurt::Sever];

#[test]
fn what_replicas_confirmed_survives_and_everybody_goes_on() {
    let seed = seed();
    eprintln!("DQ_TEST_SEED={seed}");
    let builder = Server::with_grace()
        .set("takeover-grace", &GRACE_MS.to_string())
        .set("max-lapses", "1000")
        .line("min-replicas-to-write 1")
        .line("min-replicas-max-lag 1");
    let topology = Topology::start(builder);
    let ledger = Arc::new(Ledger::default());
    let plan = Plan { pace: Duration::from_millis(15), confirm: true, ..Plan::of(&["a", "b"]) };
    let way = Follow::new(topology.sentinels.iter().map(|sentinel| sentinel.port).collect());
    let mut crew = Crew::start(plan.clone(), Arc::new(way), ledger.clone(), seed);
    let mut scene = Scene { topology, ledger: ledger.clone(), dice: Dice(seed), workers: plan.workers };
    for (round, hurt) in hurts(seed).enumerate() {
        scene.round(round + 1, hurt);
    }
    crew.stop_pushing();
    crew.drain();
    wait_until_done(scene.topology.primary(), &plan.queues);
    crew.dismiss();
    let left = look_at_all(&scene.topology, &plan.queues);
    let pages = ledger.pages();
    let account = Account::of(&pages, &left);
    tell_tails(&account, &pages);
    account.settle();
    assert!(account.tally["finished"] > 100, "{}", account.text());
}

/// The hurts one after the other: a few, or as many as `DQ_TORTURE_MINUTES` allows.
fn hurts(seed: u64) -> Box<dyn Iterator<Item = Hurt>> {
    let Ok(minutes) = std::env::var("DQ_TORTURE_MINUTES") else { return Box::new(SHORT.into_iter()) };
    let minutes: f64 = minutes.parse().expect("DQ_TORTURE_MINUTES is a number");
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let mut dice = Dice(seed ^ 1);
    Box::new(std::iter::from_fn(move || (Instant::now() < end).then(|| *dice.pick(&Hurt::ALL))))
}

/// Every node is whole, and the replicas are as the primary; gives what is left of the jobs.
fn look_at_all(topology: &Topology, queues: &[String]) -> Left {
    for replica in topology.replicas() {
        assert_replica_same(topology.primary(), replica);
        left_in(replica, queues, &mut Left::new());
    }
    let mut left = Left::new();
    left_in(topology.primary(), queues, &mut left);
    left
}

/// Says of the pushes that a failover undid how long after the hurt the first was answered, and the last.
fn tell_tails(account: &Account, pages: &Pages) {
    for (case, jobs) in account.undone.iter().filter(|(case, _)| case.starts_with("push")) {
        let age = |job: &u64| {
            let span = pages.pushes.iter().find(|push| push.job == *job)?.span;
            let deposed = pages.deposed.iter().find(|deposed| {
                let rollback = &deposed.rollback;
                deposed.node == span.node && span.asked <= rollback.to && span.answered >= rollback.from
            })?;
            Some(span.answered as i64 / 1000 - deposed.since as i64 / 1000)
        };
        let ages: Vec<i64> = jobs.iter().filter_map(age).collect();
        let (first, last) = (ages.iter().min(), ages.iter().max());
        eprintln!("{case}: jobs {jobs:?}, answered {first:?} to {last:?} ms after the hurt");
    }
}

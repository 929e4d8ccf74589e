//! All hurts by the dice, in any order and several at a time.

use std::time::{Duration, Instant};

use super::arena::{Arena, Hurt, Keeping};
use super::{clock, connections, freeze, full_disk, kills, memory, refused, replica, saves, workers};
use crate::common::dice::{seed, Dice};

/// How long the run inside `cargo test` lasts.
const SHORT: Duration = Duration::from_secs(15);

/// What goes on while others come.
const LASTING: [&Hurt; 9] = [
    &full_disk::FULL_DISK,
    &memory::NO_MEMORY,
    &refused::NO_REPLICAS,
    &workers::FROZEN_WORKERS,
    &clock::HOUR_ON,
    &clock::HOUR_BACK,
    &clock::TEN_MINUTES_ON,
    &clock::TEN_MINUTES_BACK,
    &clock::A_LITTLE_BACK,
];

const STRIKES: [&Hurt; 18] = [
    &kills::KILL,
    &kills::KILL,
    &kills::SHUTDOWN,
    &kills::NOSAVE,
    &saves::SNAPSHOT,
    &saves::REWRITE,
    &saves::KILL_IN_SAVE,
    &saves::RELOAD,
    &freeze::FREEZE,
    &refused::PAUSED,
    &workers::DEAD_WORKER,
    &connections::HALF_COMMANDS,
    &connections::UNREAD_ANSWERS,
    &connections::HALF_ANSWERS,
    &connections::BUFFER_LIMIT,
    &connections::LEFT_WAITS,
    &connections::CLIENT_KILL,
    &kills::POWER_CUT,
];

/// What needs a server that takes writes.
const CHANGES: [&Hurt; 5] =
    [&replica::COMES, &replica::GOES, &replica::FULL_SYNC, &replica::FAILOVER, &replica::HAND_OVER];

/// What needs no client to get on, and may come in the middle of a pause.
const IN_A_PAUSE: [&Hurt; 5] =
    [&kills::KILL, &kills::SHUTDOWN, &saves::RELOAD, &freeze::FREEZE, &connections::CLIENT_KILL];

struct Mix {
    arena: Arena,
    dice: Dice,
    /// What goes on now.
    on: Vec<&'static Hurt>,
    told: Vec<&'static str>,
}

impl Mix {
    fn begin(&mut self, hurt: &'static Hurt) {
        let snapshots = self.arena.keeping == Keeping::Snapshots;
        if snapshots && matches!(hurt.name, "power cut" | "BGREWRITEAOF") {
            return;
        }
        eprintln!("  {}", hurt.name);
        self.told.push(hurt.name);
        (hurt.begin)(&mut self.arena);
    }

    fn end(&mut self, at: usize) {
        let hurt = self.on.swap_remove(at);
        eprintln!("  end of {}", hurt.name);
        (hurt.end)(&mut self.arena);
    }

    fn end_all(&mut self) {
        while !self.on.is_empty() {
            self.end(0);
        }
        self.arena.check_figures();
    }

    fn step(&mut self) {
        let ms = self.dice.between(0, 400);
        self.arena.last(ms);
        match self.dice.between(0, 9) {
            0..=1 if !self.on.is_empty() => {
                let at = self.dice.next() as usize % self.on.len();
                self.end(at);
            }
            0..=3 => self.begin_lasting(),
            4 => self.pause(),
            5 => {
                self.end_all();
                let change = *self.dice.pick(&CHANGES);
                self.begin(change);
            }
            _ => {
                let strike = *self.dice.pick(&STRIKES);
                self.begin(strike);
            }
        }
        if self.on.len() > 2 || self.dice.one_in(4) {
            self.end_all();
            self.arena.load(50);
        }
    }

    fn begin_lasting(&mut self) {
        let hurt = *self.dice.pick(&LASTING);
        if self.on.iter().any(|on| std::ptr::eq(*on, hurt)) {
            return;
        }
        if self.arena.keeping == Keeping::Always && std::ptr::eq(hurt, &full_disk::FULL_DISK) {
            // It ends the server as soon as it writes, and is over then.
            self.end_all();
            return self.begin(hurt);
        }
        self.begin(hurt);
        self.on.push(hurt);
    }

    fn pause(&mut self) {
        self.begin(&refused::PAUSED_WRITES);
        let hurt = *self.dice.pick(&IN_A_PAUSE);
        self.begin(hurt);
        (refused::PAUSED_WRITES.end)(&mut self.arena);
    }
}

fn mixed(keeping: Keeping, seed: u64, last: Duration) {
    let begun = Instant::now();
    let arena = Arena::with(keeping, &["a", "b"], seed);
    let mut mix = Mix { arena, dice: Dice(seed), on: Vec::new(), told: Vec::new() };
    mix.arena.gang.be(2);
    mix.arena.load(200);
    while begun.elapsed() < last {
        mix.step();
    }
    mix.end_all();
    eprintln!("{} hurts in {:?}: {:?}", mix.told.len(), begun.elapsed(), mix.told);
    mix.arena.settle();
}

#[test]
fn all_hurts_by_the_dice() {
    let seed = seed();
    let minutes: Option<u64> = std::env::var("DQ_TORTURE_MINUTES").ok().map(|n| n.parse().expect("a number"));
    let mut dice = Dice(seed);
    match minutes {
        None => mixed(*dice.pick(&[Keeping::Always, Keeping::EverySecond, Keeping::Snapshots]), seed, SHORT),
        Some(minutes) => {
            let each = Duration::from_secs(minutes * 60 / 3);
            for keeping in [Keeping::Always, Keeping::EverySecond, Keeping::Snapshots] {
                mixed(keeping, dice.next(), each);
            }
        }
    }
}

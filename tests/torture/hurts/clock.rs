//! The wall clock is set under load.

use super::arena::{Arena, Hurt, Keeping};
use crate::common::wait_for;

pub const HOUR_ON: Hurt = Hurt { name: "an hour on", begin: |arena| step(arena, 3_600_000), end: back };
pub const HOUR_BACK: Hurt = Hurt { name: "an hour back", begin: |arena| step(arena, -3_600_000), end: back };
pub const TEN_MINUTES_ON: Hurt = Hurt { name: "ten minutes on", begin: |arena| step(arena, 600_000), end: back };
pub const TEN_MINUTES_BACK: Hurt = Hurt { name: "ten minutes back", begin: |arena| step(arena, -600_000), end: back };
pub const A_LITTLE_ON: Hurt = Hurt { name: "2 s on", begin: |arena| step(arena, 2000), end: back };
pub const A_LITTLE_BACK: Hurt = Hurt { name: "2 s back", begin: |arena| step(arena, -2000), end: back };

impl Arena {
    fn steps(&self) -> u64 {
        self.server.info("dq", "dq_clock_steps").parse().expect("a number")
    }
}

fn step(arena: &mut Arena, ms: i64) {
    let before = arena.steps();
    if arena.set_clock(ms) != 0 {
        wait_for("the step to be seen", || arena.steps() > before);
        arena.see("steps");
    }
}

fn back(arena: &mut Arena) {
    step(arena, 0);
}

#[test]
fn an_hour_on_and_back() {
    let mut arena = Arena::start(Keeping::EverySecond);
    for hurt in [&HOUR_ON, &HOUR_BACK] {
        arena.live_through(hurt);
    }
    assert_eq!(arena.settle().seen["steps"], 4);
}

#[test]
fn ten_minutes_on_and_back() {
    let mut arena = Arena::start(Keeping::EverySecond);
    for hurt in [&TEN_MINUTES_ON, &TEN_MINUTES_BACK] {
        arena.live_through(hurt);
    }
    assert_eq!(arena.settle().seen["steps"], 4);
}

#[test]
fn two_seconds_on_and_back() {
    let mut arena = Arena::start(Keeping::EverySecond);
    for hurt in [&A_LITTLE_ON, &A_LITTLE_BACK] {
        arena.live_through(hurt);
    }
    assert_eq!(arena.settle().seen["steps"], 4);
}

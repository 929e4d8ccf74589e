//! The server stands still for longer than leases, and goes on.

use super::arena::{alone, over, Arena, Hurt, Keeping};

pub const FREEZE: Hurt = Hurt { name: "SIGSTOP of the server", begin: freeze, end: over };

fn freeze(arena: &mut Arena) {
    let ms = arena.plan.lease_ms + arena.some_ms(100, 800);
    arena.server.signal(libc::SIGSTOP);
    let answers = arena.ledger.answers();
    arena.last(ms);
    // What was answered before may be read only now.
    if arena.ledger.answers() <= answers + arena.plan.workers + arena.plan.producers {
        arena.see("freezes");
    }
    arena.server.signal(libc::SIGCONT);
}

#[test]
fn a_server_that_stands_still_for_longer_than_leases() {
    let (arena, times) = alone(Keeping::EverySecond, &FREEZE, 3);
    let settled = arena.settle();
    assert_eq!(settled.seen["freezes"], times as u64);
    assert!(settled.cases("claimed again after its lease ended") > 0, "{:?}", settled.tally);
}

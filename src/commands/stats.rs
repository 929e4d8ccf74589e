//! ```text
//! DQ.STATS queue
//! ```
//!
//! The figures of one queue, exactly and at once. It changes nothing. [Figures, events and the log](../figures.md) has those of
//! the whole server.
//!
//! # Reply
//!
//! A map of names and integers (an array of both in turn in RESP2); all 0 for a queue that is not there. Later versions may
//! add fields at the end.
//!
//! | field | |
//! | --- | --- |
//! | | *now:* |
//! | `ready`, `delayed`, `leased`, `dead` | jobs |
//! | `far`, `far-alarm` | jobs due later than `far-horizon` (1 h); 1 where they are `far-alarm` (100,000) or more |
//! | `oldest-ready-age-ms` | how long the first ready job has been due |
//! | `waiting`, `paused` | clients that wait; 1 while the queue is paused |
//! | `memory-bytes` | of the queue's keys, as MEMORY USAGE estimates them; from 10,000 jobs on by some of them |
//! | | *since the module was loaded on this server:* |
//! | `pushed`, `deduplicated` | jobs made; pushes that found their id taken |
//! | `claimed`, `acked`, `retried`, `released` | |
//! | `failed` | dead by FAIL or by used-up retries |
//! | `lapsed` | leases that ran out |
//! | `lease-lost` | receipts that came too late to act |
//! | `stale-purged`, `stale-held` | jobs that went by `stale-policy`; stale jobs that the last purge left, since the dead letters were full |
//! | `dead-evicted` | dead letters that went by `dead-max` or `dead-max-age`, or gave way to one of the same id |
//! | `replayed`, `cancelled` | dead letters that REPLAY made jobs again; jobs and letters that CANCEL took out |
//! | `lateness-p50-us`, `lateness-p99-us`, `lateness-max-us` | how long after its due time a job was claimed, in µs, to two digits |
//! | `dangling`, `headers-remade` | index entries without a readable job, or beside another one of their job; headers that somebody had deleted. Not 0: run [DQ.CHECK](check.md) |
//! | `rescheduled`, `purged` | jobs that RESCHEDULE moved, that PURGE removed |
//! | | *again of now:* |
//! | `rescheduling`, `purging`, `replaying` | jobs that a RESCHEDULE ALL, a PURGE or a REPLAY ALL has still to look at |
//! | `max-length` | due and leased jobs that the queue may have; 0: no limit |
//! | | *since the module was loaded on this server:* |
//! | `refused-full` | pushes refused with `DQFULL` because the queue was at its `max-length` |
//!
//! # Errors
//!
//! [Those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.MPUSH mail PAYLOADS 'one' 'two'
//! 1) "8yTJwavBLCC"
//! 2) "8yTJwavBLCD"
//! 127.0.0.1:6380> DQ.CLAIM mail
//! 1) 1) "8yTJwavBLCC:1.k3f"
//!    2) "one"
//!    3) "8yTJwavBLCC"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! 127.0.0.1:6380> DQ.ACK mail 8yTJwavBLCC:1.k3f
//! (integer) 1
//! 127.0.0.1:6380> DQ.STATS mail
//!  1) "ready"
//!  2) (integer) 1
//!  3) "delayed"
//!  4) (integer) 0
//!  5) "leased"
//!  6) (integer) 0
//!  7) "dead"
//!  8) (integer) 0
//!  9) "far"
//! 10) (integer) 0
//! 11) "far-alarm"
//! 12) (integer) 0
//! 13) "oldest-ready-age-ms"
//! 14) (integer) 3
//! 15) "waiting"
//! 16) (integer) 0
//! 17) "paused"
//! 18) (integer) 0
//! 19) "memory-bytes"
//! 20) (integer) 256
//! 21) "pushed"
//! 22) (integer) 2
//! 23) "deduplicated"
//! 24) (integer) 0
//! 25) "claimed"
//! 26) (integer) 1
//! 27) "acked"
//! 28) (integer) 1
//! 29) "retried"
//! 30) (integer) 0
//! 31) "released"
//! 32) (integer) 0
//! 33) "failed"
//! 34) (integer) 0
//! 35) "lapsed"
//! 36) (integer) 0
//! 37) "lease-lost"
//! 38) (integer) 0
//! 39) "stale-purged"
//! 40) (integer) 0
//! 41) "stale-held"
//! 42) (integer) 0
//! 43) "dead-evicted"
//! 44) (integer) 0
//! 45) "replayed"
//! 46) (integer) 0
//! 47) "cancelled"
//! 48) (integer) 0
//! 49) "lateness-p50-us"
//! 50) (integer) 2559
//! 51) "lateness-p99-us"
//! 52) (integer) 2559
//! 53) "lateness-max-us"
//! 54) (integer) 2559
//! 55) "dangling"
//! 56) (integer) 0
//! 57) "headers-remade"
//! 58) (integer) 0
//! 59) "rescheduled"
//! 60) (integer) 0
//! 61) "purged"
//! 62) (integer) 0
//! 63) "rescheduling"
//! 64) (integer) 0
//! 65) "purging"
//! 66) (integer) 0
//! 67) "replaying"
//! 68) (integer) 0
//! 69) "max-length"
//! 70) (integer) 0
//! 71) "refused-full"
//! 72) (integer) 0
//! ```
//!
//! # See also
//!
//! [DQ.QUEUES](queues.md), [DQ.PEEK](peek.md), [Figures, events and the log](../figures.md).

use super::options::only_queue;
use crate::engine;
use crate::queue::{Figures, State};
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::settings;

pub const COMMAND: Command = Command {
    name: c"dq.stats",
    summary: c"The figures of a queue.",
    complexity: c"O(log N) with N jobs in the queue.",
    arity: 2,
    access: Access::Read,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key)],
    run: handler(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let name = only_queue(args.bytes()).map_err(String::from)?;
    let waiting = engine::waiting(ctx, &name);
    let fields = engine::look(ctx, &name, |queue, state| {
        let rules = queue.rules();
        let figures = queue.figures(rules.get(&settings::FAR_HORIZON));
        let far_alarm = rules.limit(&settings::FAR_ALARM).is_some_and(|alarm| figures.far >= alarm);
        let max_length = rules.limit(&settings::MAX_LENGTH).unwrap_or(0);
        Ok(fields(figures, far_alarm, max_length, waiting, state))
    })?;
    ctx.reply_map(fields.len());
    for (field, value) in fields {
        ctx.reply_bytes(field.as_bytes());
        ctx.reply_integer(i64::try_from(value).unwrap_or(i64::MAX));
    }
    Ok(())
}

fn fields(now: Figures, far_alarm: bool, max_length: u64, waiting: usize, state: &State) -> [(&'static str, u64); 36] {
    let counted = &state.metrics;
    let under_way = state.under_way();
    [
        ("ready", now.counts.ready),
        ("delayed", now.counts.delayed),
        ("leased", now.counts.leased),
        ("dead", now.counts.dead),
        ("far", now.far),
        ("far-alarm", u64::from(far_alarm)),
        ("oldest-ready-age-ms", now.oldest_ready_age_ms),
        ("waiting", waiting as u64),
        ("paused", u64::from(now.paused)),
        ("memory-bytes", now.memory_bytes),
        ("pushed", counted.pushed.get()),
        ("deduplicated", counted.deduplicated.get()),
        ("claimed", counted.claimed.get()),
        ("acked", counted.acked.get()),
        ("retried", counted.retried.get()),
        ("released", counted.released.get()),
        ("failed", counted.failed.get()),
        ("lapsed", counted.lapsed.get()),
        ("lease-lost", counted.lease_lost.get()),
        ("stale-purged", counted.stale_purged.get()),
        ("stale-held", counted.stale_held.get()),
        ("dead-evicted", counted.dead_evicted.get()),
        ("replayed", counted.replayed.get()),
        ("cancelled", counted.cancelled.get()),
        ("lateness-p50-us", counted.lateness.at(0.5)),
        ("lateness-p99-us", counted.lateness.at(0.99)),
        ("lateness-max-us", counted.lateness.max()),
        ("dangling", counted.dangling.get()),
        ("headers-remade", counted.headers_remade.get()),
        ("rescheduled", counted.rescheduled.get()),
        ("purged", counted.purged.get()),
        ("rescheduling", under_way.rescheduling),
        ("purging", under_way.purging),
        ("replaying", under_way.replaying),
        ("max-length", max_length),
        ("refused-full", counted.refused_full.get()),
    ]
}

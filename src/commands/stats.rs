//! `DQ.STATS queue`
//!
//! A flat map of integers; all zero for a queue that is not there. Later versions only append.
//!
//! Now: `ready`, `delayed`, `leased` and `dead` jobs; `far`: due later than `far-horizon`; `far-alarm`: 1 where
//! those are `far-alarm` or more; `oldest-ready-age-ms`; `waiting` workers; `paused`; `memory-bytes` of the keys, as
//! MEMORY USAGE estimates them.
//!
//! Since the module was loaded on this node: `pushed`, `deduplicated`, `claimed`, `acked`, `retried`, `released`,
//! `failed` (dead by FAIL or by used-up retries), `lapsed`, `stale-receipts`, `stale-purged`, `stale-held` (that the
//! last purge had to leave because there was no room for dead letters), `dead-evicted`, `replayed`, `cancelled`; how
//! long after its due time a job was claimed, `lateness-p50-us`, `lateness-p99-us`, `lateness-max-us`, to two digits;
//! `dangling`: index entries that were met without a readable job; `headers-remade`;
//! `rescheduled`, `purged` (by PURGE).
//!
//! Then, again of now: `rescheduling`, `purging` and `replaying`, jobs that a RESCHEDULE ALL, a PURGE or a
//! REPLAY ALL has still to look at.
//!
//! Errors: `WRONGTYPE`.
//!
//! O(log N) with N jobs in the queue.

use super::options::only_queue;
use crate::engine;
use crate::queue::{Figures, State};
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::{settings, trampoline};

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
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let name = only_queue(args.bytes()).map_err(String::from)?;
    let waiting = engine::waiting(ctx, &name);
    let fields = engine::look(ctx, &name, |queue, state| {
        let rules = queue.rules();
        let figures = queue.figures(rules.get(&settings::FAR_HORIZON));
        let far_alarm = rules.limit(&settings::FAR_ALARM).is_some_and(|alarm| figures.far >= alarm);
        Ok(fields(figures, far_alarm, waiting, state))
    })?;
    ctx.reply_map(fields.len());
    for (field, value) in fields {
        ctx.reply_bytes(field.as_bytes());
        ctx.reply_integer(i64::try_from(value).unwrap_or(i64::MAX));
    }
    Ok(())
}

fn fields(now: Figures, far_alarm: bool, waiting: usize, state: &State) -> [(&'static str, u64); 34] {
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
        ("stale-receipts", counted.stale_receipts.get()),
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
    ]
}

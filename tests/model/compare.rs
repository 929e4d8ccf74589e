//! The reference and the server side by side.

use redis::Value;

use crate::common::dump::show;
use crate::common::msgpack::id_in_member;
use crate::look::{line_of, lines, Scores, Seen};
use crate::reference::queue::{Live, Place, Queue};
use crate::reference::World;
use crate::settings;

/// Compares one queue with what was seen of it, and takes over what only the server can know. What differs is the error.
pub fn compare(world: &mut World, q: usize, seen: &Seen) -> Result<(), String> {
    let adopted = adopt(world, q, seen);
    let mut births: Vec<(u64, u64)> = adopted
        .iter()
        .filter(|(id, job)| world.queues[q].jobs[*id].is_newborn && !job.is_newborn)
        .filter_map(|(_, job)| Some((job.life, job.record.birth?)))
        .collect();
    births.sort_unstable();
    let before = std::mem::replace(&mut world.queues[q].jobs, adopted);
    let difference = differences(world, q, seen);
    if let Err(difference) = difference {
        world.queues[q].jobs = before;
        return Err(difference);
    }
    if !births.is_sorted_by_key(|(_, birth)| *birth) {
        return Err(format!("the numbers {births:?} are not drawn in push order"));
    }
    births.into_iter().try_for_each(|(_, birth)| world.take_birth(birth))
}

/// The live jobs, with the births and the due times that the server has drawn, where those may be.
fn adopt(world: &World, q: usize, seen: &Seen) -> std::collections::BTreeMap<Vec<u8>, Live> {
    let mut jobs = world.queues[q].jobs.clone();
    for (id, job) in &mut jobs {
        if job.is_newborn {
            let record = seen.keys.jobs.get(id).and_then(|bytes| crate::common::msgpack::Record::read(bytes).ok());
            if let Some(birth) = record.and_then(|record| record.birth) {
                job.record.birth = Some(birth);
                job.is_newborn = false;
            }
        }
        if let Place::Due { at, up_to } = job.place {
            let score =
                seen.keys.due.iter().find(|(other, _)| id_in_member(other) == id).and_then(|(_, at)| at.parse().ok());
            if let Some(score) = score.filter(|score| up_to > at && (at..=up_to).contains(score)) {
                job.place = Place::Due { at: score, up_to: score };
            }
        }
    }
    jobs
}

fn differences(world: &World, q: usize, seen: &Seen) -> Result<(), String> {
    let expected = expected_lines(&world.queues[q]);
    let found = lines(&seen.keys);
    let mut all: Vec<String> = Vec::new();
    all.extend(expected.iter().filter(|line| !found.contains(line)).map(|line| format!("  expected: {line}")));
    all.extend(found.iter().filter(|line| !expected.contains(line)).map(|line| format!("  found:    {line}")));
    if all.is_empty() && expected.len() != found.len() {
        all.push("  a line is there twice".into());
    }
    if all.is_empty() && !orders_agree(&world.queues[q], seen) {
        all.push("  an index has another order".into());
    }
    all.extend(stats_differences(world, q, &seen.stats));
    if seen.check != Value::Array(Vec::new()) {
        all.push(format!("  DQ.CHECK: {:?}", seen.check));
    }
    if all.is_empty() {
        Ok(())
    } else {
        Err(format!("queue {}:\n{}", show(&world.queues[q].name), all.join("\n")))
    }
}

fn orders_agree(queue: &Queue, seen: &Seen) -> bool {
    let ids = |scores: &Scores| -> Vec<Vec<u8>> { scores.iter().map(|(id, _)| id.clone()).collect() };
    let due: Vec<Vec<u8>> = seen.keys.due.iter().map(|(member, _)| id_in_member(member).to_vec()).collect();
    due == queue.due_until(u64::MAX)
        && ids(&seen.keys.leased) == queue.leased().into_iter().map(|(_, id)| id).collect::<Vec<_>>()
        && ids(&seen.keys.dead_at) == queue.letters()
}

fn expected_lines(queue: &Queue) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(header) = &queue.header {
        all.push("header dq 1".into());
        all.push(format!("header made {}", header.made));
        all.extend(header.paused.map(|since| format!("header paused {since}")));
        all.extend(
            header.rules.iter().map(|(name, value)| format!("header {name} {}", settings::setting(name).show(*value))),
        );
    }
    for (id, job) in &queue.jobs {
        let member = show(&job.record.member(id));
        let id = show(id);
        all.push(match job.place {
            Place::Due { at, .. } => format!("due {member} {at}"),
            Place::Leased { ends } => format!("leased {id} {ends}"),
        });
        all.push(format!("jobs {id} {}", line_of(&job.record)));
    }
    all.extend(queue.ids.iter().map(|(id, until)| format!("ids {} {until}", show(id))));
    for (id, letter) in &queue.dead {
        all.push(format!("dead:at {} {}", show(id), letter.at));
        all.push(format!("dead {} {} {}", show(id), letter.reason, line_of(&letter.record)));
    }
    all
}

/// The figures that DQ.STATS has beside those of time and memory, in the order of docs/commands/stats.md.
const COUNTED: [&str; 19] = [
    "pushed",
    "deduplicated",
    "claimed",
    "acked",
    "retried",
    "released",
    "failed",
    "lapsed",
    "lease-lost",
    "stale-purged",
    "stale-held",
    "dead-evicted",
    "replayed",
    "cancelled",
    "dangling",
    "headers-remade",
    "rescheduled",
    "purged",
    "refused-full",
];

fn stats_differences(world: &World, q: usize, stats: &[(String, i64)]) -> Vec<String> {
    let (queue, now) = (&world.queues[q], world.now());
    let due: Vec<u64> = queue.jobs.values().filter_map(Live::due_at).collect();
    let ready = due.iter().filter(|at| **at <= now).count();
    let horizon = now + queue.rule(&world.scene, "far-horizon");
    let far = due.iter().filter(|at| **at > horizon).count() as u64;
    let alarm = queue.rule(&world.scene, "far-alarm");
    let oldest = due.iter().min().map_or(0, |at| now.saturating_sub(*at));
    let mut expected: Vec<(&str, u64)> = vec![
        ("ready", ready as u64),
        ("delayed", (due.len() - ready) as u64),
        ("leased", (queue.jobs.len() - due.len()) as u64),
        ("dead", queue.dead.len() as u64),
        ("far", far),
        ("far-alarm", u64::from(alarm > 0 && far >= alarm)),
        ("oldest-ready-age-ms", oldest),
        ("waiting", u64::from(world.waits_for(q))),
        ("paused", u64::from(queue.is_paused())),
        ("rescheduling", 0),
        ("purging", 0),
        ("replaying", 0),
        ("max-length", queue.rule(&world.scene, "max-length")),
    ];
    let counted = |name: &str| queue.known.as_ref().and_then(|known| known.counts.get(name).copied()).unwrap_or(0);
    expected.extend(COUNTED.iter().map(|name| (*name, counted(name))));
    let found = |name: &str| stats.iter().find(|(other, _)| other == name).map(|(_, value)| *value);
    let mut all: Vec<String> = expected
        .into_iter()
        .filter(|(name, value)| found(name) != Some(*value as i64))
        .map(|(name, value)| format!("  STATS {name} was to be {value} and is {:?}", found(name)))
        .collect();
    let memory = found("memory-bytes");
    if memory.is_none_or(|bytes| (bytes > 0) != queue.exists()) {
        all.push(format!("  STATS memory-bytes is {memory:?}, and the queue exists: {}", queue.exists()));
    }
    let mut late = queue.known.as_ref().map_or_else(Vec::new, |known| known.late_us.clone());
    late.sort_unstable();
    for (name, quantile) in [("lateness-p50-us", 0.5), ("lateness-p99-us", 0.99), ("lateness-max-us", 1.0)] {
        let rank = ((late.len() as f64 * quantile).ceil() as usize).max(1);
        let value = late.get(rank - 1).copied().unwrap_or(0) as i64;
        // The module keeps two digits.
        if found(name).is_none_or(|found| (found - value).abs() > value / 64 + 1) {
            all.push(format!("  STATS {name} was to be about {value} and is {:?}", found(name)));
        }
    }
    all
}

//! What becomes of one job, as the contract has it.

use crate::common::msgpack::Record;

/// The values that rule a job where it has none of its own.
pub struct Rules {
    pub max_retries: u64,
    pub max_lapses: u64,
    pub backoff_base: u64,
    pub backoff_cap: u64,
    pub backoff_jitter: u64,
}

/// What a receipt is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Worth {
    /// Its lease runs.
    Current,
    /// Its lease ended, and nobody has claimed the job since.
    Late,
}

/// Where a job goes.
pub enum Next {
    /// Due in so many ms: at least, and at most.
    In(u64, u64),
    Dead,
}

/// The wait after the `nth` failure, from 1: without jitter, and with the most of it.
pub fn backoff(record: &Record, rules: &Rules, nth: u64) -> (u64, u64) {
    let base = record.backoff_base.unwrap_or(rules.backoff_base);
    let cap = record.backoff_cap.unwrap_or(rules.backoff_cap);
    let mut wait = base;
    for _ in 1..nth {
        wait = wait.saturating_mul(2).min(cap);
    }
    let wait = wait.min(cap);
    (wait, wait + wait * rules.backoff_jitter / 100)
}

/// The claim that the receipt names is over; one that was late takes its lapse with it.
fn end_claim(record: &mut Record, worth: Worth) {
    match worth {
        Worth::Current => record.claims += 1,
        Worth::Late => record.lapses -= 1,
    }
    record.late = false;
}

pub fn retry(record: &mut Record, worth: Worth, delay: Option<u64>, rules: &Rules) -> Next {
    end_claim(record, worth);
    record.failures += 1;
    if record.failures > record.retries.unwrap_or(rules.max_retries) {
        return Next::Dead;
    }
    let (least, most) = delay.map_or_else(|| backoff(record, rules, record.failures), |delay| (delay, delay));
    Next::In(least, most)
}

pub fn release(record: &mut Record, worth: Worth) {
    end_claim(record, worth);
    record.releases += 1;
}

/// FAIL: a lapse stays counted.
pub fn fail(record: &mut Record, worth: Worth) {
    if worth == Worth::Current {
        record.claims += 1;
    }
    record.late = false;
}

/// EXTEND with a late receipt: as if the lease had not ended.
pub fn take_back(record: &mut Record) {
    record.claims -= 1;
    record.lapses -= 1;
    record.late = false;
}

/// The lease ended.
pub fn lapse(record: &mut Record, rules: &Rules) -> Next {
    lose(record);
    if record.lapses >= rules.max_lapses {
        return Next::Dead;
    }
    match record.lapses {
        1 => Next::In(0, 0),
        nth => {
            let (least, most) = backoff(record, rules, nth - 1);
            Next::In(least, most)
        }
    }
}

/// DQ.REPAIR found the job in no index.
pub fn lose(record: &mut Record) {
    record.claims += 1;
    record.lapses += 1;
    record.late = true;
}

/// REPLAY.
pub fn revive(record: &mut Record, reason: &str) {
    record.late = false;
    if reason != "stale" {
        (record.failures, record.lapses, record.releases) = (0, 0, 0);
    }
}

/// What a worker says of a failure takes the place of what was said before, cut at `max` bytes (0: not), and not within
/// a character.
pub fn note(record: &mut Record, error: Option<&[u8]>, stack: Option<&[u8]>, max: u64) {
    if error.is_some() || stack.is_some() {
        record.error = error.map(|text| cut(text, max));
        record.stack = stack.map(|text| cut(text, max));
    }
}

fn cut(text: &[u8], max: u64) -> Vec<u8> {
    let max = max as usize;
    if max == 0 || text.len() <= max {
        return text.to_vec();
    }
    let head = &text[..max];
    // Up to three bytes of a character that goes on behind the cut go too.
    let whole = (0..=3.min(max)).map(|less| &head[..max - less]).find(|part| std::str::from_utf8(part).is_ok());
    match (whole, std::str::from_utf8(head)) {
        (Some(whole), Err(e)) if e.error_len().is_none() => whole.to_vec(),
        _ => head.to_vec(),
    }
}

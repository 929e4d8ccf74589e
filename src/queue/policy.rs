//! The values that rule a job: its own, else the queue's, else the server's at the moment of use.

use super::Rules;
use crate::core::backoff::Backoff;
use crate::core::life::Policy;
use crate::core::record::Job;
use crate::settings;

/// What a job that carries no values of its own goes by.
fn defaults(rules: &Rules) -> Policy {
    Policy {
        retries: rules.count(&settings::MAX_RETRIES),
        max_lapses: rules.count(&settings::MAX_LAPSES),
        backoff: Backoff {
            base_ms: rules.get(&settings::BACKOFF_BASE),
            cap_ms: rules.get(&settings::BACKOFF_CAP),
            jitter_percent: rules.count(&settings::BACKOFF_JITTER),
        },
    }
}

/// Failures that `job` survives.
pub fn retries_of(job: &Job, rules: &Rules) -> u32 {
    job.retries.unwrap_or_else(|| rules.count(&settings::MAX_RETRIES))
}

pub fn policy_of(job: &Job, rules: &Rules) -> Policy {
    Policy::of(job, &defaults(rules))
}

/// How long a claim of `job` lasts, in ms.
pub fn lease_of(job: &Job, asked: Option<u64>, rules: &Rules) -> u64 {
    asked.or(job.lease).unwrap_or_else(|| rules.get(&settings::LEASE)).min(settings::MAX_LEASE.get())
}

//! The values that rule a job: its own, else the server's at the moment of use.

use crate::core::backoff::Backoff;
use crate::core::life::Policy;
use crate::core::record::Job;
use crate::settings;

/// What a job that carries no values of its own goes by.
fn defaults() -> Policy {
    Policy {
        retries: settings::MAX_RETRIES.count(),
        max_lapses: settings::MAX_LAPSES.count(),
        backoff: Backoff {
            base_ms: settings::BACKOFF_BASE.get(),
            cap_ms: settings::BACKOFF_CAP.get(),
            jitter_percent: settings::BACKOFF_JITTER.count(),
        },
    }
}

/// Failures that `job` survives.
pub fn retries_of(job: &Job) -> u32 {
    job.retries.unwrap_or_else(|| settings::MAX_RETRIES.count())
}

pub fn policy_of(job: &Job) -> Policy {
    Policy::of(job, &defaults())
}

/// How long a claim of `job` lasts, in ms.
pub fn lease_of(job: &Job, asked: Option<u64>) -> u64 {
    asked.or(job.lease).unwrap_or_else(|| settings::LEASE.get()).min(settings::MAX_LEASE.get())
}

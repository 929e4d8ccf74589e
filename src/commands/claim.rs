//! ```text
//! DQ.CLAIM queue [COUNT n] [LEASE ms] [BLOCK ms]
//! ```
//!
//! Takes jobs that are due, in the order of their due times and then of their pushes, and leases them to the caller. While
//! the lease runs nobody else has the job.
//!
//! # Options
//!
//! | option | range | default | |
//! | --- | --- | --- | --- |
//! | `COUNT n` | 1 to 1,000 | 1 | at most so many jobs |
//! | `LEASE ms` | 1 ms to `dq.max-lease` (12 h) | the job's own lease, else `lease` (30 s) | how long this claim holds its jobs |
//! | `BLOCK ms` | 0 to 24 h; 0 for ever | does not wait | how long to wait where no job is due |
//!
//! **BLOCK.** Those who wait are served first come, first served, and a claim that does not wait takes only what they leave.
//! A COUNT above 1 answers with what is due, not when COUNT is reached. A queue that is paused, or at its `max-leased`, keeps
//! its waiters waiting. In MULTI and in a script nothing waits. A job whose waiter is gone before it was told goes back with
//! its old due time, and nothing is counted. [Waiting, and your client library](../workers.md#waiting-and-your-client-library)
//! says what to set in yours.
//!
//! # Reply
//!
//! An array of jobs; empty where none is due, or the wait ran out. Each job is an array:
//!
//! | | |
//! | --- | --- |
//! | receipt | names this claim of this job, for ACK, RETRY, RELEASE, FAIL and EXTEND |
//! | payload | byte for byte |
//! | id | of the job |
//! | attempt | an integer: 1 + failures + leases that ran out |
//! | lease-ms | an integer: how long the lease runs |
//! | retries-left | an integer: how many more failures the job survives |
//!
//! Later versions may add fields at the end. One reply carries at most 8 MiB of payload; a single larger job passes alone.
//!
//! The **receipt** names this claim of this job, and no other one: not the next, and not the one that a new primary makes
//! after a failover lost this. It is at most 160 bytes of visible ASCII without quotes or backslash; do not look into it.
//! ACK, RETRY, RELEASE and FAIL use it up; EXTEND does not.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `DQDISABLED` | `dq.enabled` is no |
//! | `UNBLOCKED` | the wait is over: the server became a replica or loads its data, `dq.enabled` was set to no, the queue's slot went to another node, the cluster is down for this node, or somebody sent CLIENT UNBLOCK … ERROR. Ask again |
//! | `NOREPLICAS`, `MISCONF` | the server refuses writes: too few replicas, or a failed save |
//! | `OOM` | with BLOCK: clients that wait take all of [`dq.max-waiting-memory`](../operations.md#clients-that-wait), and no job is due. Claim without BLOCK, or later |
//! | `NOPERM` | with BLOCK also: the user's [rights changed](../users.md#rights-that-change) while the client waited |
//! | `ERR` | an option is unknown, given twice or out of its range |
//!
//! and [those of every command](README.md#errors). An error changed nothing: no job is leased.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH mail '{"to":"ann@example.com"}' DELAY 2s
//! "8yTJvrLpJiq"
//! 127.0.0.1:6380> DQ.CLAIM mail
//! (empty array)
//! 127.0.0.1:6380> DQ.CLAIM mail BLOCK 5000
//! 1) 1) "8yTJvrLpJiq:1.k3f"
//!    2) "{\"to\":\"ann@example.com\"}"
//!    3) "8yTJvrLpJiq"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//! (2.00s)
//! 127.0.0.1:6380> DQ.ACK mail 8yTJvrLpJiq:1.k3f
//! (integer) 1
//! ```
//!
//! Many at once, for a minute:
//!
//! ```console
//! 127.0.0.1:6380> DQ.MPUSH calls RETRIES 3 PAYLOADS 'one' 'two'
//! 1) "8yTJw0W6G80"
//! 2) "8yTJw0W6G81"
//! 127.0.0.1:6380> DQ.CLAIM calls COUNT 10 LEASE 1m
//! 1) 1) "8yTJw0W6G80:1.Zt4"
//!    2) "one"
//!    3) "8yTJw0W6G80"
//!    4) (integer) 1
//!    5) (integer) 60000
//!    6) (integer) 3
//! 2) 1) "8yTJw0W6G81:1.Zt4"
//!    2) "two"
//!    3) "8yTJw0W6G81"
//!    4) (integer) 1
//!    5) (integer) 60000
//!    6) (integer) 3
//! ```
//!
//! # See also
//!
//! [DQ.MCLAIM](mclaim.md) for several queues, [DQ.ACK](ack.md), [DQ.EXTEND](extend.md), [DQ.RETRY](retry.md),
//! [DQ.RELEASE](release.md), [DQ.FAIL](fail.md).

use super::options::{lease, queue, unknown_option, MAX_LIST};
use super::push::LEASE_ARG;
use crate::core::args::{count, duration, is, ArgError, Cursor, Once};
use crate::engine::{self, Claimed, Order, Wanted};
use crate::queue::Taken;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::settings::DAY;

pub const COMMAND: Command = Command {
    name: c"dq.claim",
    summary: c"Takes the due jobs of a queue that come first, each under a lease; waits for one where it is asked to.",
    complexity: c"O(M log N) for M jobs claimed from a queue of N.",
    arity: -2,
    access: Access::Write,
    fast: true,
    waits: true,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key), COUNT_ARG, LEASE_ARG, BLOCK_ARG],
    run: handler(run),
};

pub const COUNT_ARG: Arg = Arg::new(c"count", ArgKind::Integer).token(c"COUNT").optional();
pub const BLOCK_ARG: Arg = Arg::new(c"block", ArgKind::Integer).token(c"BLOCK").optional();

/// The longest wait, in ms.
const MAX_BLOCK: u64 = DAY;

/// The options that CLAIM and MCLAIM share.
#[derive(Default)]
pub struct ClaimOptions {
    count: Once<u64>,
    lease: Once<u64>,
    block: Once<u64>,
}

impl ClaimOptions {
    /// Reads the option `name` and its value; `false` where it is none of these.
    pub fn read(&mut self, name: &[u8], rest: &mut Cursor) -> Result<bool, ArgError> {
        if is(name, "COUNT") {
            self.count.set("COUNT", count("COUNT", rest.value("COUNT")?, 1, MAX_LIST as u64)?)?;
        } else if is(name, "LEASE") {
            self.lease.set("LEASE", lease("LEASE", rest.value("LEASE")?)?)?;
        } else if is(name, "BLOCK") {
            self.block.set("BLOCK", duration("BLOCK", rest.value("BLOCK")?, 0, MAX_BLOCK)?)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    pub fn wanted(&self, command: &'static Command, order: Order, reply: fn(&Ctx, &Claimed)) -> Wanted {
        let count = usize::try_from(self.count.get().unwrap_or(1)).unwrap_or(MAX_LIST);
        Wanted { count, lease: self.lease.get(), order, reply, command }
    }

    pub fn block(&self) -> Option<u64> {
        self.block.get()
    }
}

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let mut rest = Cursor::new(args.bytes());
    let name = queue(&mut rest).map_err(String::from)?;
    let mut options = ClaimOptions::default();
    while let Some(option) = rest.next() {
        if !options.read(option, &mut rest).map_err(String::from)? {
            return Err(unknown_option(&COMMAND, option).into());
        }
    }
    engine::claim(ctx, &[name], options.wanted(&COMMAND, Order::Strict, reply_jobs), options.block())
}

fn reply_jobs(ctx: &Ctx, claimed: &Claimed) {
    ctx.reply_array(claimed.jobs.len());
    for job in &claimed.jobs {
        ctx.reply_array(JOB_FIELDS);
        reply_job(ctx, job);
    }
}

/// What `reply_job` writes.
pub const JOB_FIELDS: usize = 6;

pub fn reply_job(ctx: &Ctx, job: &Taken) {
    ctx.reply_bytes(&job.receipt_text());
    ctx.reply_bytes(job.payload());
    ctx.reply_bytes(job.id.as_bytes());
    ctx.reply_integer(i64::from(job.attempt));
    ctx.reply_integer(i64::try_from(job.lease_ms).unwrap_or(i64::MAX));
    ctx.reply_integer(i64::from(job.retries_left));
}

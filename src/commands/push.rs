//! ```text
//! DQ.PUSH queue payload [ID id [KEEP ms] [NX] [REPLACE]] [DELAY ms | AT unix-ms]
//!         [RETRIES n] [LEASE ms] [BACKOFF base cap]
//! ```
//!
//! Puts one job into the queue and answers its id. Workers can claim it when its delay is over; without DELAY or AT, at
//! once. A queue that is not there is made. The payload is kept byte for byte.
//!
//! # Options
//!
//! | option | range | default | |
//! | --- | --- | --- | --- |
//! | `DELAY ms` | 0 to `max-delay` (7 d) | 0 | from now |
//! | `AT unix-ms` | from 100000000000 on, and at most `max-delay` from now | | by the server's clock; a time in the past means now; a number that looks like seconds is refused |
//! | `RETRIES n` | 0 to 1,000,000 | `max-retries` (300) | how many failures the job survives |
//! | `LEASE ms` | 1 ms to `dq.max-lease` (12 h) | `lease` (30 s) | how long a claim holds the job |
//! | `BACKOFF base cap` | 1 ms to 30 d each, the cap not below the base | `backoff-base` (1 s), `backoff-cap` (5 m) | the wait after the first failure, and the longest wait |
//! | `ID id` | 1 to 128 bytes of visible ASCII | the server's: 11 letters and digits | the caller's own id |
//! | `KEEP ms` | 0 to 30 d | `id-keep` (5 m) | how long the id stays taken after this push; needs ID |
//! | `NX` | | | a duplicate is answered with nil; needs ID |
//! | `REPLACE` | | | a duplicate takes the place of the job that is due; needs ID |
//!
//! Jobs with the same due time leave in the order of their pushes, whoever chose their ids.
//!
//! **With `ID`, pushing twice makes one job**, so a producer that got no answer can send the push again. The id is taken
//! while the job is due or leased, and for KEEP after the push if that is longer. While it is taken, a push of the same id
//! changes nothing and answers the id, or nil with NX. With REPLACE, a job that is still due takes the new payload, time and
//! options, counts from zero, and stands behind the jobs that were pushed before; a leased one stays as it is. A job that becomes a dead letter, or is cancelled or purged,
//! gives its id free at once.
//!
//! # Reply
//!
//! The id as a bulk string; nil for a duplicate where NX was given.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `DQDELAY` | the delay, or the time of AT, is more than `max-delay` from now |
//! | `DQSIZE` | the payload is over `max-payload` (1 MiB) |
//! | `DQFULL` | the queue holds `max-length` due and leased jobs already |
//! | `OOM` | the server is at `maxmemory` |
//! | `ERR` | an option is unknown, given twice or out of its range, both DELAY and AT are given, KEEP, NX or REPLACE without ID, or the queue's name is none; the text says which |
//!
//! and [those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH mail '{"to":"ann@example.com"}' DELAY 3s
//! "8yTJxEoxvM0"
//! 127.0.0.1:6380> DQ.CLAIM mail
//! (empty array)
//! ```
//!
//! An ID of one's own:
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH bills 'march' ID bill-7 DELAY 1h RETRIES 3
//! "bill-7"
//! 127.0.0.1:6380> DQ.PUSH bills 'march' ID bill-7
//! "bill-7"
//! 127.0.0.1:6380> DQ.PUSH bills 'march' ID bill-7 NX
//! (nil)
//! 127.0.0.1:6380> DQ.PUSH bills 'march, corrected' ID bill-7 REPLACE DELAY 30m
//! "bill-7"
//! ```
//!
//! What is refused:
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH bills 'april' DELAY 8d
//! (error) DQDELAY DELAY must be at most 7d (max-delay), not 8d
//! 127.0.0.1:6380> DQ.PUSH bills 'april' AT 1790000000
//! (error) ERR AT must be Unix time in ms, at least 100000000000: this one looks like seconds
//! 127.0.0.1:6380> DQ.PUSH bills 'april' KEEP 1h
//! (error) ERR KEEP needs ID
//! 127.0.0.1:6380> DQ.PUSH bills 'april' IN 1h
//! (error) ERR unknown option 'IN'; DQ.PUSH takes ID, KEEP, NX, REPLACE, DELAY, AT, RETRIES, LEASE, BACKOFF
//! ```
//!
//! # See also
//!
//! [DQ.MPUSH](mpush.md) for many jobs at once, [DQ.CLAIM](claim.md), [DQ.RESCHEDULE](reschedule.md), [DQ.CANCEL](cancel.md).

use super::options::{caller_id, queue, unknown_option, JobOptions};
use crate::core::args::{is, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::{NewJob, Pushed, Reach, Taking};
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use smallvec::SmallVec;

pub const COMMAND: Command = Command {
    name: c"dq.push",
    summary: c"Puts a job into a queue, to be claimed at once or later.",
    complexity: c"O(log N) with N jobs in the queue.",
    arity: -3,
    access: Access::WriteMore,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(c"payload", ArgKind::Text),
        Arg::new(
            c"own-id",
            ArgKind::Block(&[
                Arg::new(c"id", ArgKind::Text).token(c"ID"),
                Arg::new(c"keep", ArgKind::Integer).token(c"KEEP").optional(),
                Arg::new(c"nx", ArgKind::Token).token(c"NX").optional(),
                Arg::new(c"replace", ArgKind::Token).token(c"REPLACE").optional(),
            ]),
        )
        .optional(),
        DUE_ARG,
        RETRIES_ARG,
        LEASE_ARG,
        BACKOFF_ARG,
    ],
    run: handler(run),
};

pub const DUE_ARG: Arg = Arg::new(
    c"due",
    ArgKind::OneOf(&[
        Arg::new(c"delay", ArgKind::Integer).token(c"DELAY"),
        Arg::new(c"unix-time-milliseconds", ArgKind::UnixTime).token(c"AT"),
    ]),
)
.optional();
pub const RETRIES_ARG: Arg = Arg::new(c"retries", ArgKind::Integer).token(c"RETRIES").optional();
pub const LEASE_ARG: Arg = Arg::new(c"lease", ArgKind::Integer).token(c"LEASE").optional();
pub const BACKOFF_ARG: Arg =
    Arg::new(c"backoff", ArgKind::Block(&[Arg::new(c"base", ArgKind::Integer), Arg::new(c"cap", ArgKind::Integer)]))
        .token(c"BACKOFF")
        .optional();

/// Where the payload stands among the arguments.
const PAYLOAD: usize = 1;

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let mut rest = Cursor::new(args.bytes());
    let name = queue(&mut rest).map_err(String::from)?;
    rest.value("payload").map_err(String::from)?;
    let (mut options, mut id) = (JobOptions::default(), Once::default());
    while let Some(option) = rest.next() {
        if is(option, "ID") {
            let place = args.bytes().len() - rest.len();
            caller_id(rest.value("ID").map_err(String::from)?).map_err(String::from)?;
            id.set("ID", place).map_err(String::from)?;
        } else if !options.read(ctx, &name, option, &mut rest).map_err(String::from)? {
            return Err(unknown_option(&COMMAND, option).into());
        }
    }
    if !id.is_set() {
        options.refuse_id_options("ID").map_err(String::from)?;
    }
    let job = options.job(id.get().map(|place| args.text(place)), args.text(PAYLOAD));
    let pushed = push_all(ctx, &name, &[job], options.taking())?;
    pushed.iter().for_each(|pushed| reply_pushed(ctx, pushed, options.nil_for_duplicates()));
    Ok(())
}

pub fn push_all(ctx: &Ctx, name: &QueueName, jobs: &[NewJob], taking: Taking) -> Result<SmallVec<[Pushed; 1]>, String> {
    let reach = if jobs.iter().any(|job| job.id.is_some()) { Reach::PUSH_OWN } else { Reach::PUSH };
    engine::change(ctx, name, reach, |queue| queue.push(jobs, taking, &mut engine::next_id))
}

pub fn reply_pushed(ctx: &Ctx, pushed: &Pushed, nil_for_duplicates: bool) {
    match pushed {
        Pushed::Duplicate(_) if nil_for_duplicates => ctx.reply_null(),
        Pushed::Made(id) | Pushed::Replaced(id) | Pushed::Duplicate(id) => ctx.reply_bytes(id.as_bytes()),
    }
}

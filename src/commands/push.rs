//! `DQ.PUSH queue payload [ID id [KEEP ms] [NX] [REPLACE]] [DELAY ms | AT unix-ms] [RETRIES n] [LEASE ms]
//! [BACKOFF base cap]`
//!
//! Puts one job into the queue and answers its id. The job can be claimed when its delay is over, at once where none
//! is given.
//!
//! * `DELAY ms`: from now, 0 to `max-delay`. `AT unix-ms`: at that time of the server's clock; in the past means now.
//! * `RETRIES n`: failures that the job survives, 0 to 1,000,000; else `max-retries`.
//! * `LEASE ms`: how long a claim holds the job, 1 to `dq.max-lease`; else `lease`.
//! * `BACKOFF base cap`: the wait after the first failure and the longest one, 1 ms to 30 d each.
//! * `ID id`: the caller's own id, 1 to 128 bytes of visible ASCII. Pushing twice makes one job: the id is taken while
//!   the job is due or leased and for `KEEP` (0 to 30 d; `id-keep`) after the push. A duplicate changes nothing and
//!   answers the id, or nil with `NX`. With `REPLACE`, a job that is still due takes the new payload, time and options
//!   and counts from zero; a leased one does not.
//!
//! Errors: `DQDELAY`, `DQSIZE`, `DQFULL`, `OOM`, `READONLY`, `WRONGTYPE`.
//!
//! O(log N) with N jobs in the queue.

use super::options::{caller_id, queue, JobOptions};
use crate::core::args::{is, unknown_option, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::{NewJob, Pushed, Reach, Taking};
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;
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
    run: || trampoline!(run),
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
            return Err(unknown_option(option).into());
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

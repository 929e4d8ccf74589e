//! ```text
//! DQ.MPUSH queue [KEEP ms] [NX] [REPLACE] [DELAY ms | AT unix-ms]
//!          [RETRIES n] [LEASE ms] [BACKOFF base cap]
//!          PAYLOADS payload [payload ...] | JOBS id delay payload [id delay payload ...]
//! ```
//!
//! Puts 1 to 10,000 jobs into the queue, all or none, and answers their ids in the same order. It costs the server less
//! than one push for each.
//!
//! # Options
//!
//! | option | |
//! | --- | --- |
//! | `PAYLOADS payload …` | jobs that differ in their payload only |
//! | `JOBS id delay payload …` | each job with its own id, or an empty one (`''`) for the server's, and its own delay |
//!
//! One of the two comes last: all that follows it are jobs. The options before it are those of [DQ.PUSH](push.md) but ID,
//! with the same ranges and defaults, and hold for every job. With PAYLOADS, KEEP, NX and REPLACE are refused, since they act
//! on callers' ids. With JOBS, DELAY and AT are refused, since each job has its own delay.
//!
//! Jobs with the same due time leave in the order in which they stand here, whoever chose their ids.
//!
//! One call carries at most 8 MiB (8,388,608 bytes) of payload; a single larger job passes alone, up to `max-payload`.
//!
//! # Reply
//!
//! An array of the ids. A duplicate has its id there, or nil with NX.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `DQDELAY` | a delay is over `max-delay` |
//! | `DQSIZE` | a payload is over `max-payload`, or all together are over 8 MiB |
//! | `DQFULL` | with these jobs the queue would be over `max-length` |
//! | `OOM` | the server is at `maxmemory` |
//! | `ERR` | no jobs or more than 10,000, JOBS not in threes, an option that does not go with PAYLOADS or JOBS; the text says which |
//!
//! and [those of every command](README.md#errors). An error changed nothing: none of the jobs is in.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.MPUSH bills DELAY 1m PAYLOADS 'may' 'june'
//! 1) "8yTJwCajdOy"
//! 2) "8yTJwCajdOz"
//! 127.0.0.1:6380> DQ.MPUSH bills JOBS bill-8 1h 'july' '' 2h 'august'
//! 1) "bill-8"
//! 2) "8yTJwCb1EX3"
//! 127.0.0.1:6380> DQ.MPUSH bills NX JOBS bill-8 1h 'july' bill-9 1h 'september'
//! 1) (nil)
//! 2) "bill-9"
//! 127.0.0.1:6380> DQ.MPUSH bills JOBS bill-10 1h 'october' bill-11 8d 'november'
//! (error) DQDELAY DELAY must be at most 7d (max-delay), not 8d
//! 127.0.0.1:6380> DQ.GET bills bill-10
//! (nil)
//! ```
//!
//! # See also
//!
//! [DQ.PUSH](push.md).

use super::options::{caller_id, delay_of_job, queue, unknown_option, JobOptions, MAX_PUSH, MAX_PUSH_BYTES};
use super::push::{push_all, reply_pushed, BACKOFF_ARG, DUE_ARG, LEASE_ARG, RETRIES_ARG};
use crate::core::args::{is, missing, missing_value, ArgError, Cursor};
use crate::core::names::QueueName;
use crate::queue::NewJob;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};

pub const COMMAND: Command = Command {
    name: c"dq.mpush",
    summary: c"Puts many jobs into a queue, all or none.",
    complexity: c"O(M log N) for M jobs into a queue of N.",
    arity: -2,
    access: Access::WriteMore,
    fast: false,
    waits: false,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        Arg::new(c"keep", ArgKind::Integer).token(c"KEEP").optional(),
        Arg::new(c"nx", ArgKind::Token).token(c"NX").optional(),
        Arg::new(c"replace", ArgKind::Token).token(c"REPLACE").optional(),
        DUE_ARG,
        RETRIES_ARG,
        LEASE_ARG,
        BACKOFF_ARG,
        Arg::new(
            c"jobs",
            ArgKind::OneOf(&[
                Arg::new(c"payload", ArgKind::Text).token(c"PAYLOADS").multiple(),
                Arg::new(
                    c"job",
                    ArgKind::Block(&[
                        Arg::new(c"id", ArgKind::Text),
                        Arg::new(c"delay", ArgKind::Integer),
                        Arg::new(c"payload", ArgKind::Text),
                    ]),
                )
                .token(c"JOBS")
                .multiple(),
            ]),
        ),
    ],
    run: handler(run),
};

/// Arguments of one job after JOBS.
const JOB_ARGS: usize = 3;

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let mut rest = Cursor::new(args.bytes());
    let name = queue(&mut rest).map_err(String::from)?;
    let (options, jobs) = parse(ctx, &name, args, rest).map_err(String::from)?;
    let pushed = push_all(ctx, &name, &jobs, options.taking())?;
    ctx.reply_array(pushed.len());
    pushed.iter().for_each(|pushed| reply_pushed(ctx, pushed, options.nil_for_duplicates()));
    Ok(())
}

fn parse(ctx: &Ctx, name: &QueueName, args: &Args, mut rest: Cursor) -> Result<(JobOptions, Vec<NewJob>), ArgError> {
    let mut options = JobOptions::default();
    while let Some(option) = rest.next() {
        let first = args.bytes().len() - rest.len();
        if is(option, "PAYLOADS") {
            options.refuse_id_options("JOBS")?;
            let jobs = payloads(args, first, &options)?;
            return Ok((options, jobs));
        }
        if is(option, "JOBS") {
            let jobs = own_jobs(ctx, name, args, first, &options)?;
            return Ok((options, jobs));
        }
        if !options.read(ctx, name, option, &mut rest)? {
            return Err(unknown_option(&COMMAND, option));
        }
    }
    Err(missing("PAYLOADS or JOBS"))
}

fn payloads(args: &Args, first: usize, options: &JobOptions) -> Result<Vec<NewJob>, ArgError> {
    let list = &args.bytes()[first..];
    check_size("PAYLOADS", list.len(), list.iter().map(|body| body.len()))?;
    Ok((first..args.bytes().len()).map(|place| options.job(None, args.text(place))).collect())
}

fn own_jobs(
    ctx: &Ctx,
    name: &QueueName,
    args: &Args,
    first: usize,
    options: &JobOptions,
) -> Result<Vec<NewJob>, ArgError> {
    let list = &args.bytes()[first..];
    if options.sets_due() {
        return Err(ArgError::new("DELAY and AT cannot be given with JOBS, where each job has its own delay"));
    }
    if !list.len().is_multiple_of(JOB_ARGS) {
        return Err(ArgError::new("JOBS takes an id, a delay and a payload for each job"));
    }
    check_size("JOBS", list.len() / JOB_ARGS, list.chunks_exact(JOB_ARGS).map(|job| job[2].len()))?;
    let own_job = |(number, job): (usize, &[&[u8]])| {
        let (id, wait) = (job[0], job[1]);
        let place = first + number * JOB_ARGS;
        if !id.is_empty() {
            caller_id(id)?;
        }
        let id = (!id.is_empty()).then(|| args.text(place));
        Ok(NewJob { due: delay_of_job(ctx, name, "delay", wait)?, ..options.job(id, args.text(place + 2)) })
    };
    list.chunks_exact(JOB_ARGS).enumerate().map(own_job).collect()
}

fn check_size(option: &str, count: usize, sizes: impl Iterator<Item = usize>) -> Result<(), ArgError> {
    if count == 0 {
        return Err(missing_value(option));
    }
    if count > MAX_PUSH {
        return Err(ArgError::new(format_args!("{option} takes at most {MAX_PUSH} jobs, not {count}")));
    }
    let bytes: usize = sizes.sum();
    if count > 1 && bytes > MAX_PUSH_BYTES {
        return Err(ArgError::with_code(
            "DQSIZE",
            format_args!("one MPUSH carries at most {MAX_PUSH_BYTES} bytes of payload, not {bytes}"),
        ));
    }
    Ok(())
}

//! `DQ.MCLAIM numqueues queue [queue ...] [COUNT n] [LEASE ms] [BLOCK ms] [ORDER strict|rotate]`
//!
//! [DQ.CLAIM](super::claim) from the first of up to 1,000 queues that has due jobs. All jobs of one answer are of one
//! queue, whose name is appended to each: `[receipt, payload, id, attempt, lease-ms, retries-left, queue]`.
//!
//! * `ORDER strict` (the default): the queues are looked at in the order given, so the first is served before the
//!   others. `rotate`: beginning behind the one that gave jobs last to a call that named the same queue first, so that
//!   none starves.
//!
//! With `BLOCK` it waits in the line of every queue and is served from the first that has a job for it. In a cluster all
//! queues are of one slot.
//!
//! Errors: as for CLAIM; a `numqueues` that is not the number of queues; a queue that is named twice.
//!
//! O(K + M log N) for M jobs claimed from one of K queues, of N jobs.

use super::claim::{reply_job, ClaimOptions, BLOCK_ARG, COUNT_ARG, JOB_FIELDS};
use super::options::{queue, MAX_LIST};
use super::push::LEASE_ARG;
use crate::core::args::{self, is, unknown_option, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine::{self, Claimed, Order};
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;
use std::collections::HashSet;

pub const COMMAND: Command = Command {
    name: c"dq.mclaim",
    summary: c"Takes due jobs from the first of several queues that has some; waits for one where it is asked to.",
    complexity: c"O(K + M log N) for M jobs claimed from one of K queues, of N jobs.",
    arity: -3,
    access: Access::Write,
    fast: false,
    waits: true,
    key: KeyPlace::Numbered,
    args: &[
        Arg::new(c"numqueues", ArgKind::Integer),
        Arg::new(c"queue", ArgKind::Key).multiple(),
        COUNT_ARG,
        LEASE_ARG,
        BLOCK_ARG,
        Arg::new(
            c"order",
            ArgKind::OneOf(&[
                Arg::new(c"strict", ArgKind::Token).token(c"STRICT"),
                Arg::new(c"rotate", ArgKind::Token).token(c"ROTATE"),
            ]),
        )
        .token(c"ORDER")
        .optional(),
    ],
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let mut rest = Cursor::new(args.bytes());
    let queues = queues(&mut rest).map_err(String::from)?;
    let (mut options, mut order) = (ClaimOptions::default(), Once::default());
    while let Some(option) = rest.next() {
        if is(option, "ORDER") {
            let value = rest.value("ORDER").and_then(parse_order).map_err(String::from)?;
            order.set("ORDER", value).map_err(String::from)?;
        } else if !options.read(option, &mut rest).map_err(String::from)? {
            return Err(unknown_option(option).into());
        }
    }
    let wanted = options.wanted(order.get().unwrap_or_default(), reply_jobs);
    engine::claim(ctx, &queues, wanted, options.block())
}

fn queues<'a>(rest: &mut Cursor<'_, 'a>) -> Result<Vec<QueueName<'a>>, ArgError> {
    let number = args::count("numqueues", rest.value("numqueues")?, 1, MAX_LIST as u64)?;
    let number = usize::try_from(number).unwrap_or(MAX_LIST);
    if rest.len() < number {
        return Err(ArgError::new(format_args!("numqueues is {number}, but only {} queues follow", rest.len())));
    }
    let queues: Vec<_> = (0..number).map(|_| queue(rest)).collect::<Result<_, _>>()?;
    let names: HashSet<_> = queues.iter().map(QueueName::as_bytes).collect();
    if names.len() < number {
        return Err(ArgError::new("a queue is named twice"));
    }
    Ok(queues)
}

fn parse_order(arg: &[u8]) -> Result<Order, ArgError> {
    if is(arg, "strict") {
        Ok(Order::Strict)
    } else if is(arg, "rotate") {
        Ok(Order::Rotate)
    } else {
        Err(ArgError::new("ORDER must be strict or rotate"))
    }
}

fn reply_jobs(ctx: &Ctx, claimed: &Claimed) {
    ctx.reply_array(claimed.jobs.len());
    for job in &claimed.jobs {
        ctx.reply_array(JOB_FIELDS + 1);
        reply_job(ctx, job);
        ctx.reply_bytes(claimed.state.name());
    }
}

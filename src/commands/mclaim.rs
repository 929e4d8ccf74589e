//! ```text
//! DQ.MCLAIM numqueues queue [queue ...] [COUNT n] [LEASE ms] [BLOCK ms] [ORDER strict|rotate]
//! ```
//!
//! [DQ.CLAIM](claim.md) from the first of up to 1,000 queues that has due jobs. All jobs of one answer are of one queue.
//! With `ORDER strict` that makes priorities.
//!
//! # Options
//!
//! COUNT, LEASE and BLOCK are those of [DQ.CLAIM](claim.md), and
//!
//! | option | range | default | |
//! | --- | --- | --- | --- |
//! | `numqueues` | 1 to 1,000 | | how many queues follow |
//! | `ORDER` | `strict`, `rotate` | `strict` | `strict` looks at the queues in the order given, so that the first goes before the others. `rotate` begins with the queue that served a rotating claim longest ago, whichever queues that claim named, so that none starves. Queues that never did come first, in the order given. The server remembers this until it restarts |
//!
//! With BLOCK it waits in the line of every queue, and is served from the first that has a job for it. In a cluster all
//! queues must be in one slot: give them one hash tag.
//!
//! # Reply
//!
//! The array of DQ.CLAIM, with the name of the queue at the end of each job:
//! `[receipt, payload, id, attempt, lease-ms, retries-left, queue]`.
//!
//! # Errors
//!
//! | error | what was wrong |
//! | --- | --- |
//! | `ERR` | `numqueues` is not the number of queues, or a queue is named twice |
//! | `CROSSSLOT` | in a cluster: the queues are in more than one slot |
//!
//! and those of [DQ.CLAIM](claim.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH later 'can wait'
//! "8yTJw9l2gls"
//! 127.0.0.1:6380> DQ.MCLAIM 2 urgent later BLOCK 1500
//! 1) 1) "8yTJw9l2gls:1.k3f"
//!    2) "can wait"
//!    3) "8yTJw9l2gls"
//!    4) (integer) 1
//!    5) (integer) 30000
//!    6) (integer) 300
//!    7) "later"
//! 127.0.0.1:6380> DQ.MCLAIM 2 urgent
//! (error) ERR numqueues is 2, but only 1 queues follow
//! ```
//!
//! # See also
//!
//! [DQ.CLAIM](claim.md).

use super::claim::{reply_job, ClaimOptions, BLOCK_ARG, COUNT_ARG, JOB_FIELDS};
use super::options::{queue, unknown_option, MAX_LIST};
use super::push::LEASE_ARG;
use crate::core::args::{self, is, printable, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine::{self, Claimed, Order};
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
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
    run: handler(run),
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
            return Err(unknown_option(&COMMAND, option).into());
        }
    }
    let wanted = options.wanted(&COMMAND, order.get().unwrap_or_default(), reply_jobs);
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
        Err(ArgError::new(format_args!("ORDER must be strict or rotate, not '{}'", printable(arg))))
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

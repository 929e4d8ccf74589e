//! ```text
//! DQ.PEEK queue [STATE ready|delayed|leased|dead] [COUNT n] [AFTER cursor]
//! ```
//!
//! Shows a page of jobs. It changes nothing and claims nothing.
//!
//! # Options
//!
//! | option | range | default | |
//! | --- | --- | --- | --- |
//! | `STATE` | `ready`, `delayed`, `leased`, `dead` | the ready and then the delayed ones, as claims come to them | the jobs of one state, in the order in which they are due, their leases end, or they died; of one ms, due jobs in push order, others by their ids |
//! | `COUNT n` | 1 to 1,000 | 10 | at most so many |
//! | `AFTER cursor` | what the page before gave, which can hold a blank; 0 begins anew | 0 | goes on behind that page, whatever came or went meanwhile |
//!
//! A job that moves behind the cursor meanwhile comes again, one that moves before it does not come. One reply carries at
//! most 8 MiB of records; a single larger job passes alone. An entry without a job that can be read counts, and is left out:
//! [DQ.CHECK](check.md) tells of it.
//!
//! A page is written in one step: some 3 µs a job, so 4 ms for one of 1,000, in which the server serves nobody else. Where
//! other clients are in a hurry, ask for 200.
//!
//! # Reply
//!
//! An array of two: the cursor for the next page, `0` where there is none, and an array of jobs, each the map of
//! [DQ.GET](get.md).
//!
//! # Errors
//!
//! `ERR` where AFTER is no cursor that DQ.PEEK gave, or an option is unknown, given twice or out of its range; and
//! [those of every command](README.md#errors). An error changed nothing.
//!
//! # Examples
//!
//! ```console
//! 127.0.0.1:6380> DQ.MPUSH mail DELAY 1h PAYLOADS 'one' 'two'
//! 1) "8yTJwFU0HiK"
//! 2) "8yTJwFU0HiL"
//! 127.0.0.1:6380> DQ.PEEK mail STATE delayed COUNT 1
//! 1) "1796016049756:8yTJwFU0HiK"
//! 2) 1)  1) "id"
//!        2) "8yTJwFU0HiK"
//!        3) "state"
//!        4) "delayed"
//!        5) "payload"
//!        6) "one"
//!        7) "attempt"
//!        8) (integer) 1
//!        9) "failures"
//!       10) (integer) 0
//!       11) "lapses"
//!       12) (integer) 0
//!       13) "releases"
//!       14) (integer) 0
//!       15) "claims"
//!       16) (integer) 0
//!       17) "retries-left"
//!       18) (integer) 300
//!       19) "retries"
//!       20) (integer) 300
//!       21) "lease-ms"
//!       22) (integer) 30000
//!       23) "backoff-base-ms"
//!       24) (integer) 1000
//!       25) "backoff-cap-ms"
//!       26) (integer) 300000
//!       27) "pushed-at"
//!       28) (integer) 1796012449755
//!       29) "due-at"
//!       30) (integer) 1796016049756
//! 127.0.0.1:6380> DQ.PEEK mail STATE dead
//! 1) "0"
//! 2) (empty array)
//! ```
//!
//! # See also
//!
//! [DQ.GET](get.md), [DQ.CANCEL](cancel.md), [DQ.REPLAY](replay.md).

use super::claim::COUNT_ARG;
use super::get::reply_job;
use super::options::{queue, state, unknown_option, MAX_LIST};
use crate::core::args::{count, is, printable, ArgError, Cursor, Once};
use crate::core::names::QueueName;
use crate::engine;
use crate::queue::JobState;
use crate::redis::{handler, Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Position, Reply};

pub const COMMAND: Command = Command {
    name: c"dq.peek",
    summary: c"A page of jobs of one state, without claiming them.",
    complexity: c"O(log(N)^2 + M) for M jobs of a queue of N.",
    arity: -2,
    access: Access::Read,
    fast: false,
    waits: false,
    key: KeyPlace::First,
    args: &[
        Arg::new(c"queue", ArgKind::Key),
        STATE_ARG,
        COUNT_ARG,
        Arg::new(c"cursor", ArgKind::Text).token(c"AFTER").optional(),
    ],
    run: handler(run),
};

pub const STATE_ARG: Arg = Arg::new(c"state", STATES).token(c"STATE").optional();

/// The words that name a state.
pub const STATES: ArgKind = ArgKind::OneOf(&[
    Arg::new(c"ready", ArgKind::Token).token(c"READY"),
    Arg::new(c"delayed", ArgKind::Token).token(c"DELAYED"),
    Arg::new(c"leased", ArgKind::Token).token(c"LEASED"),
    Arg::new(c"dead", ArgKind::Token).token(c"DEAD"),
]);

/// Jobs of a page where COUNT does not say.
const DEFAULT_COUNT: u64 = 10;

/// The cursor before the first and after the last page.
const END: &[u8] = b"0";

/// What is asked for.
struct Request<'a> {
    queue: QueueName<'a>,
    state: Option<JobState>,
    count: usize,
    after: Position,
}

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let request = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    let (page, rules) = engine::look(ctx, &request.queue, |queue, _| {
        Ok((queue.peek(request.state, request.after.clone(), request.count), queue.rules()))
    })?;
    ctx.reply_array(2);
    ctx.reply_bytes(&page.next.map_or_else(|| END.to_vec(), |next| next.to_text()));
    ctx.reply_array(page.jobs.len());
    for (id, view) in &page.jobs {
        match view.job() {
            Some(job) => reply_job(ctx, id.as_bytes(), view.place, &job, &rules),
            None => ctx.reply_null(),
        }
    }
    Ok(())
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<Request<'a>, ArgError> {
    let queue = queue(&mut rest)?;
    let (mut of, mut most, mut after) = (Once::default(), Once::default(), Once::default());
    while let Some(option) = rest.next() {
        if is(option, "STATE") {
            of.set("STATE", state(rest.value("STATE")?)?)?;
        } else if is(option, "COUNT") {
            most.set("COUNT", count("COUNT", rest.value("COUNT")?, 1, MAX_LIST as u64)?)?;
        } else if is(option, "AFTER") {
            after.set("AFTER", rest.value("AFTER")?)?;
        } else {
            return Err(unknown_option(&COMMAND, option));
        }
    }
    let after = after.get().map_or(Ok(Position::start()), position)?;
    let count = usize::try_from(most.get().unwrap_or(DEFAULT_COUNT)).unwrap_or(MAX_LIST);
    Ok(Request { queue, state: of.get(), count, after })
}

fn position(cursor: &[u8]) -> Result<Position, ArgError> {
    if cursor == END {
        return Ok(Position::start());
    }
    Position::parse(cursor).ok_or_else(|| {
        ArgError::new(format_args!("AFTER must be a cursor that DQ.PEEK gave, not '{}'", printable(cursor)))
    })
}

//! `DQ.FAIL queue receipt [ERROR text] [STACK text]`
//!
//! Makes a job a dead letter at once, with the reason `failed`: for what no retry can mend. Answers OK. `ERROR` and
//! `STACK` are kept with it, byte for byte, each cut at `max-error`. The letters of a queue are bounded by
//! `dead-max` and `dead-max-age`; the oldest goes first, and is counted.
//!
//! A receipt whose lease ran out, but whose job nobody has claimed since, acts as in time; where the job has become a
//! dead letter by that lapse, the letter takes the reason, error and stack.
//!
//! Errors: `DQSTALE`, `READONLY`, `WRONGTYPE`; a text that is no receipt.
//!
//! O(log N) with N jobs and letters in the queue.

use super::options::{queue, receipt, NoteOptions};
use super::retry::{ERROR_ARG, STACK_ARG};
use crate::core::args::{unknown_option, ArgError, Cursor};
use crate::core::names::QueueName;
use crate::core::receipt::Receipt;
use crate::engine;
use crate::queue::{FailNote, Reach};
use crate::redis::{Access, Arg, ArgKind, Args, Command, Ctx, KeyPlace, Reply};
use crate::trampoline;

pub const COMMAND: Command = Command {
    name: c"dq.fail",
    summary: c"Makes a claimed job a dead letter.",
    complexity: c"O(log N) with N jobs and letters in the queue.",
    arity: -3,
    access: Access::Write,
    fast: true,
    waits: false,
    key: KeyPlace::First,
    args: &[Arg::new(c"queue", ArgKind::Key), Arg::new(c"receipt", ArgKind::Text), ERROR_ARG, STACK_ARG],
    run: || trampoline!(run),
};

fn run(ctx: &Ctx, args: &Args) -> Result<(), String> {
    let (name, receipt, note) = parse(Cursor::new(args.bytes())).map_err(String::from)?;
    engine::change(ctx, &name, Reach::ALL, |queue| queue.fail(&receipt, note))?;
    ctx.reply_ok();
    Ok(())
}

fn parse<'a>(mut rest: Cursor<'_, 'a>) -> Result<(QueueName<'a>, Receipt, FailNote<'a>), ArgError> {
    let name = queue(&mut rest)?;
    let receipt = receipt(rest.value("receipt")?)?;
    let mut note = NoteOptions::default();
    while let Some(option) = rest.next() {
        if !note.read(option, &mut rest)? {
            return Err(unknown_option(option));
        }
    }
    Ok((name, receipt, note.note()))
}

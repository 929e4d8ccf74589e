//! What several commands read alike.

use crate::core::args::{self, printable, ArgError, Cursor, Once};
use crate::core::ids::{valid_caller_id, MAX_CALLER_ID};
use crate::core::names::QueueName;
use crate::core::receipt::Receipt;
use crate::engine;
use crate::queue::{Due, JobState, NewJob, Taking};
use crate::redis::{Command, Ctx, Text};
use crate::settings::{self, DAY, MAX_DELAY};
use std::collections::HashSet;

/// The most receipts, ids or jobs that one command takes or gives.
pub const MAX_LIST: usize = 1000;
/// The most jobs that one MPUSH takes.
pub const MAX_PUSH: usize = 10_000;
/// The most payload that one MPUSH carries, in bytes; a single larger job passes alone.
pub const MAX_PUSH_BYTES: usize = 8 * 1024 * 1024;

/// The most for RETRIES.
const MAX_RETRIES: u64 = 1_000_000;
/// The longest backoff, and the longest KEEP, in ms.
const MAX_SPAN: u64 = 30 * DAY;

/// The first argument, which names the queue.
pub fn queue<'a>(args: &mut Cursor<'_, 'a>) -> Result<QueueName<'a>, ArgError> {
    Ok(QueueName::parse(args.value("queue")?)?)
}

/// The queue of a command that takes nothing else, as its arity says.
pub fn only_queue<'a>(list: &[&'a [u8]]) -> Result<QueueName<'a>, ArgError> {
    queue(&mut Cursor::new(list))
}

/// Returns the error for an argument that is no option of the command. It names those that are, by the documentation.
pub fn unknown_option(command: &Command, arg: &[u8]) -> ArgError {
    let name = command.name.to_string_lossy().to_uppercase();
    args::unknown_option(arg, &name, &command.options())
}

pub fn receipt(arg: &[u8]) -> Result<Receipt, ArgError> {
    Receipt::parse(arg).ok_or_else(|| ArgError::new(format_args!("invalid receipt '{}'", printable(arg))))
}

/// One receipt or more, up to the end.
pub fn receipts(list: &[&[u8]]) -> Result<Vec<Receipt>, ArgError> {
    if list.is_empty() || list.len() > MAX_LIST {
        return Err(ArgError::new(format_args!("the number of receipts must be from 1 to {MAX_LIST}")));
    }
    list.iter().map(|arg| receipt(arg)).collect()
}

/// One id or more, up to the end, each once.
pub fn ids(list: &[&[u8]]) -> Result<Vec<Text>, ArgError> {
    if list.is_empty() || list.len() > MAX_LIST {
        return Err(ArgError::new(format_args!("the number of ids must be from 1 to {MAX_LIST}")));
    }
    let mut met = HashSet::new();
    Ok(list.iter().filter(|id| met.insert(**id)).map(|id| Text::new(id)).collect())
}

pub fn lease(option: &str, arg: &[u8]) -> Result<u64, ArgError> {
    args::lease(option, arg, settings::MAX_LEASE.get())
}

/// The longest delay that the queue takes, in ms.
pub fn max_delay(ctx: &Ctx, queue: &QueueName) -> u64 {
    engine::rules(ctx, queue).get(&MAX_DELAY)
}

pub fn delay(ctx: &Ctx, queue: &QueueName, option: &str, arg: &[u8]) -> Result<u64, ArgError> {
    args::delay(option, arg, max_delay(ctx, queue))
}

/// The name of a state, in any case of letters.
pub fn state(arg: &[u8]) -> Result<JobState, ArgError> {
    JobState::ALL.into_iter().find(|state| args::is(arg, state.name())).ok_or_else(|| {
        ArgError::new(format_args!("STATE must be ready, delayed, leased or dead, not '{}'", printable(arg)))
    })
}

/// A delay of which the queue itself says whether it is too long.
pub fn delay_of_job(ctx: &Ctx, queue: &QueueName, option: &str, arg: &[u8]) -> Result<Due, ArgError> {
    // Only what is no duration needs the most here, for the error to name it.
    args::parse_duration(arg).map_or_else(|| delay(ctx, queue, option, arg), Ok).map(Due::In)
}

/// The queue time of a system time in ms.
fn at(ctx: &Ctx, arg: &[u8]) -> Result<Due, ArgError> {
    Ok(Due::At(engine::queue_time_of(ctx, args::unix_ms("AT", arg)?)))
}

/// The queue time of a system time in ms, not too far ahead.
pub fn due_at(ctx: &Ctx, queue: &QueueName, arg: &[u8]) -> Result<Due, ArgError> {
    let at = engine::queue_time_of(ctx, args::unix_ms("AT", arg)?);
    let most = max_delay(ctx, queue);
    if at.saturating_sub(engine::now(ctx)) > most {
        return Err(args::too_far(most));
    }
    Ok(Due::At(at))
}

pub fn caller_id(arg: &[u8]) -> Result<(), ArgError> {
    if valid_caller_id(arg) {
        return Ok(());
    }
    Err(ArgError::new(format_args!("ID must be 1 to {MAX_CALLER_ID} bytes of visible ASCII")))
}

/// The options that PUSH and MPUSH share.
#[derive(Default)]
pub struct JobOptions {
    due: Once<Due>,
    retries: Once<u32>,
    lease: Once<u64>,
    backoff: Once<(u64, u64)>,
    keep: Once<u64>,
    nx: Once<()>,
    replace: Once<()>,
}

impl JobOptions {
    /// Reads the option `name` and its values; `false` where it is none of these.
    pub fn read(&mut self, ctx: &Ctx, queue: &QueueName, name: &[u8], rest: &mut Cursor) -> Result<bool, ArgError> {
        match name.to_ascii_uppercase().as_slice() {
            b"DELAY" => self.set_due("DELAY", delay_of_job(ctx, queue, "DELAY", rest.value("DELAY")?)?)?,
            b"AT" => self.set_due("AT", at(ctx, rest.value("AT")?)?)?,
            b"RETRIES" => {
                let retries = args::count("RETRIES", rest.value("RETRIES")?, 0, MAX_RETRIES)?;
                self.retries.set("RETRIES", u32::try_from(retries).unwrap_or(u32::MAX))?;
            }
            b"LEASE" => self.lease.set("LEASE", lease("LEASE", rest.value("LEASE")?)?)?,
            b"BACKOFF" => {
                let base = args::duration("BACKOFF base", rest.value("BACKOFF base")?, 1, MAX_SPAN)?;
                let cap = args::duration("BACKOFF cap", rest.value("BACKOFF cap")?, base, MAX_SPAN)?;
                self.backoff.set("BACKOFF", (base, cap))?;
            }
            b"KEEP" => self.keep.set("KEEP", args::duration("KEEP", rest.value("KEEP")?, 0, MAX_SPAN)?)?,
            b"NX" => self.nx.set("NX", ())?,
            b"REPLACE" => self.replace.set("REPLACE", ())?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_due(&mut self, option: &str, due: Due) -> Result<(), ArgError> {
        if self.due.is_set() {
            return Err(ArgError::new(format_args!("{option}: DELAY or AT may be given once, and only one of them")));
        }
        self.due.set(option, due)
    }

    /// Whether DELAY or AT was given.
    pub fn sets_due(&self) -> bool {
        self.due.is_set()
    }

    /// Refuses what only means something for a caller's own id.
    pub fn refuse_id_options(&self, without: &str) -> Result<(), ArgError> {
        let given = [("KEEP", self.keep.is_set()), ("NX", self.nx.is_set()), ("REPLACE", self.replace.is_set())];
        match given.iter().find(|(_, set)| *set) {
            Some((option, _)) => Err(ArgError::new(format_args!("{option} needs {without}"))),
            None => Ok(()),
        }
    }

    pub fn job(&self, id: Option<Text>, payload: Text) -> NewJob {
        NewJob {
            id,
            payload,
            due: self.due.get().unwrap_or(Due::In(0)),
            retries: self.retries.get(),
            lease: self.lease.get(),
            backoff: self.backoff.get(),
        }
    }

    pub fn taking(&self) -> Taking {
        Taking { keep: self.keep.get(), replace: self.replace.is_set() }
    }

    /// Whether a duplicate is answered with nil.
    pub fn nil_for_duplicates(&self) -> bool {
        self.nx.is_set()
    }
}

/// ERROR and STACK.
#[derive(Default)]
pub struct NoteOptions<'a> {
    error: Once<&'a [u8]>,
    stack: Once<&'a [u8]>,
}

impl<'a> NoteOptions<'a> {
    /// Reads the option `name` and its value; `false` where it is neither.
    pub fn read(&mut self, name: &[u8], rest: &mut Cursor<'_, 'a>) -> Result<bool, ArgError> {
        if args::is(name, "ERROR") {
            self.error.set("ERROR", rest.value("ERROR")?)?;
        } else if args::is(name, "STACK") {
            self.stack.set("STACK", rest.value("STACK")?)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    pub fn note(&self) -> crate::queue::FailNote<'a> {
        crate::queue::FailNote { error: self.error.get(), stack: self.stack.get() }
    }
}

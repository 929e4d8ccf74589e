//! Why a queue refuses, in the words that the client reads.

use super::Due;
use crate::core::args;
use std::fmt;

#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// A key under one of the queue's names is of another type, or a HASH without the mark.
    WrongType,
    /// A key of the queue may be on its way to another node of the cluster.
    TryAgain,
    /// The queue would hold more than `max` due and leased jobs.
    Full { max: u64 },
    /// A payload is larger than `max`, in bytes.
    TooLarge { bytes: u64, max: u64 },
    /// A job would be due later than in `max` ms.
    TooLate { due: Due, max: u64 },
    /// The receipt names no claim that still stands.
    Stale,
    /// The record cannot be read.
    BadRecord,
    /// A long walk needs a client that can wait.
    CannotWait,
    /// DROP without FORCE of a queue whose jobs are in workers' hands.
    Leased { jobs: u64 },
    /// The queue would be new, and the server is over `maxmemory`.
    OutOfMemory,
    /// The server's own answer to a write.
    Refused(String),
    /// This node stopped acting, or the keys were replaced, before a long walk ended.
    GivenUp,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::WrongType => {
                f.write_str("WRONGTYPE a key under this queue's names holds something that DQ did not put there")
            }
            Fault::TryAgain => f.write_str("TRYAGAIN the queue's keys are on their way to another node"),
            Fault::Full { max } => write!(f, "DQFULL the queue is at its max-length of {max} due and leased jobs"),
            Fault::TooLarge { bytes, max } => {
                write!(f, "DQSIZE a payload of {bytes} bytes is over the {max} bytes of max-payload")
            }
            Fault::TooLate { due: Due::In(ms), max } => args::too_long("DELAY", *ms, *max).fmt(f),
            Fault::TooLate { due: Due::At(_), max } => args::too_far(*max).fmt(f),
            Fault::Stale => f.write_str("DQLOST the receipt is of a claim that has ended"),
            Fault::BadRecord => f.write_str("ERR the record of this job cannot be read; DQ.CHECK names all such"),
            Fault::Leased { jobs: 1 } => f.write_str("ERR 1 job of the queue is leased; FORCE drops it all the same"),
            Fault::Leased { jobs } => {
                write!(f, "ERR {jobs} jobs of the queue are leased; FORCE drops them all the same")
            }
            Fault::OutOfMemory => f.write_str("OOM the queue would be new, and used memory > 'maxmemory'"),
            Fault::Refused(answer) => f.write_str(answer),
            Fault::GivenUp => {
                f.write_str("UNBLOCKED the data, the role or dq.enabled changed before this was finished: ask again")
            }
            Fault::CannotWait => {
                f.write_str("ERR this takes more than one step, and inside MULTI or a script nobody can wait")
            }
        }
    }
}

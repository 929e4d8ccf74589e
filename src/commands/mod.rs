//! The commands, a file each: a handler parses, asks the queue, and replies. The comment on its file is its manual page, and
//! this one is what they have in common; `make docs` makes `docs/commands/` of them.
//!
//! A setting that a page names without `dq.` is one that a queue can have for itself, by [DQ.CONFIG](config.md); else the
//! [server's](../settings.md) counts. Options may come in any order after the positional arguments, in any case of letters,
//! each at most once. A duration is a whole number of ms, or one with `ms`, `s`, `m`, `h` or `d` behind it: `1500`, `30s`.
//! Payloads and texts are kept byte for byte. A reply that is a map is an array of names and values in turn under RESP2,
//! and a map under RESP3, which redis-py 8 speaks by default. Receipts and ids are lists of at most 1,000. `COMMAND DOCS dq.push` and so on
//! give the syntax too.
//!
//! # Errors
//!
//! A command that answers with an error has changed nothing. The first word tells a program what is wrong:
//!
//! | error | is answered by | means |
//! | --- | --- | --- |
//! | `DQLOST` | RETRY, FAIL | the receipt is of a claim that has ended |
//! | `DQDELAY` | PUSH, MPUSH, RETRY, RELEASE, RESCHEDULE, REPLAY | a delay over `max-delay` |
//! | `DQSIZE` | PUSH, MPUSH | a payload over `max-payload`, or an MPUSH over 8 MiB |
//! | `DQFULL` | PUSH, MPUSH | the queue would be over `max-length` |
//! | `DQDISABLED` | CLAIM, MCLAIM, RESCHEDULE ALL, REPLAY ALL, PURGE, REPAIR | `dq.enabled` is no |
//! | `UNBLOCKED` | CLAIM, MCLAIM, and long runs of QUEUES, CHECK, REPAIR and REPLAY ALL | the wait is over: the server became a replica or loads its data, `dq.enabled` was set to no, the queue's slot went to another node or is on its way, the cluster is down for this node, the data that a long run reads were replaced, or CLIENT UNBLOCK … ERROR. Ask again |
//! | `OOM` | PUSH, MPUSH, REPLAY; PAUSE and CONFIG SET, if the queue would be new | the server is at `maxmemory` |
//! | `OOM` | CLAIM, MCLAIM, with BLOCK | clients that wait take all of `dq.max-waiting-memory` |
//! | `READONLY` | all that change a queue | this is a replica |
//! | `NOREPLICAS`, `MISCONF` | all that change a queue | the server refuses writes: too few replicas, or a failed save |
//! | `NOPERM` | all | the user may not run the command, or not on this queue |
//! | `WRONGTYPE` | all | a key under one of the queue's names holds something else. A command looks at the keys that it needs before it changes anything; at all of them where it reads the whole queue, may make a dead letter, or meets the queue for the first time |
//! | `TRYAGAIN`, `MOVED`, `ASK` | all, in a cluster | the slot of the queue is on the move, or at another node: client libraries know them |
//! | `ERR` | all | a bad argument; the text names what is missing, the option and its range, or the options that there are |
//!
//! `READONLY` to `ERR` are not repeated on the pages below, but where there is more to say.
//!
//! # Late receipts
//!
//! A lease ends when the server moves the job, not when its ms have passed; until then every command acts as in time. From
//! then until the next claim the receipt is *late*. After that it is *stale*.
//!
//! | late receipt | if the job is due again | if it is a dead letter by that lapse (`lapses-exhausted`), or `stale` since |
//! | --- | --- | --- |
//! | ACK | finishes it | removes the letter |
//! | FAIL | makes it a dead letter | gives the letter its reason, error and stack |
//! | EXTEND | takes the lease back; the lapse is not counted | -1 |
//! | RETRY | sets due time and error; counts one failure and no lapse | DQLOST |
//! | RELEASE | sets the due time; the lapse is not counted | -1 |
//!
//! ```console
//! 127.0.0.1:6380> DQ.PUSH slow 'thumbnails'
//! "8yTJwBCEaIa"
//! 127.0.0.1:6380> DQ.CLAIM slow LEASE 1ms
//! 1) 1) "8yTJwBCEaIa:1.k3f"
//!    2) "thumbnails"
//!    3) "8yTJwBCEaIa"
//!    4) (integer) 1
//!    5) (integer) 1
//!    6) (integer) 300
//! 127.0.0.1:6380> DQ.EXTEND slow 30s 8yTJwBCEaIa:1.k3f
//! 1) (integer) 30000
//! 127.0.0.1:6380> DQ.ACK slow 8yTJwBCEaIa:1.k3f
//! (integer) 1
//! ```
//!
//! # Very many jobs
//!
//! RESCHEDULE ALL, REPLAY ALL and PURGE go over a queue of any length and hold nobody up: they answer, and go on in slices of
//! about 1 ms. They act on what was there when they were given: what comes to the queue, or comes back to it, meanwhile is
//! left alone. `rescheduling`, `replaying` and `purging` in [DQ.STATS](stats.md) say how many jobs are still to be looked at.
//! Asking again meanwhile does no harm: it begins anew with what is there then. A restart, a failover, `dq.enabled no`, and
//! keys that somebody renames or restores end it where it is; asking again goes on.

mod ack;
mod cancel;
mod check;
mod claim;
mod config;
mod drop;
mod extend;
mod fail;
mod get;
mod mclaim;
mod mpush;
mod options;
mod pause;
mod peek;
mod purge;
mod push;
mod queues;
mod release;
mod repair;
mod replay;
mod reschedule;
mod resume;
mod retry;
mod stats;

use crate::redis::Command;

/// Every command of the module.
pub const ALL: [&Command; 23] = [
    &push::COMMAND,
    &mpush::COMMAND,
    &claim::COMMAND,
    &mclaim::COMMAND,
    &ack::COMMAND,
    &extend::COMMAND,
    &retry::COMMAND,
    &release::COMMAND,
    &fail::COMMAND,
    &stats::COMMAND,
    &get::COMMAND,
    &peek::COMMAND,
    &cancel::COMMAND,
    &reschedule::COMMAND,
    &replay::COMMAND,
    &purge::COMMAND,
    &drop::COMMAND,
    &pause::COMMAND,
    &resume::COMMAND,
    &config::COMMAND,
    &queues::COMMAND,
    &check::COMMAND,
    &repair::COMMAND,
];

//! What a reply has to look like, whatever was sent.

use super::draw::Draw;
use super::wire::{Reply, Words};

/// The codes that an error may begin with here: no memory limit, no cluster, no ACL, a primary.
const CODES: [&str; 9] =
    ["ERR", "WRONGTYPE", "EXECABORT", "DQLOST", "DQFULL", "DQDELAY", "DQSIZE", "DQDISABLED", "UNBLOCKED"];

/// What is wrong with this reply to one of the module's commands, or to a command that carries one.
pub fn judge(words: &Words, reply: &Reply) -> Result<(), String> {
    match reply {
        Reply::Error(text) => judge_error(text),
        reply => judge_shape(words, reply),
    }
}

/// What is wrong with an error, or with one inside of this reply.
pub fn judge_errors(reply: &Reply) -> Result<(), String> {
    match reply {
        Reply::Error(text) => judge_error(text),
        Reply::List(items) => items.iter().try_for_each(judge_errors),
        Reply::Map(pairs) => {
            pairs.iter().try_for_each(|(name, value)| judge_errors(name).and_then(|()| judge_errors(value)))
        }
        _ => Ok(()),
    }
}

fn judge_error(text: &str) -> Result<(), String> {
    let code = text.split(' ').next().unwrap_or_default();
    // The words set dq.max-waiting-memory too, and no other OOM can come without a memory limit.
    let is_of_waiters = text.starts_with("OOM clients that wait");
    if !CODES.contains(&code) && !is_of_waiters {
        return Err(format!("an error with the code {code:?}: {text}"));
    }
    if text.contains("internal error") {
        return Err(format!("a panic: {text}"));
    }
    if text.len() > 1500 {
        return Err(format!("an error of {} bytes: {text}", text.len()));
    }
    Ok(())
}

/// The name of the module's command that these words call, in capitals and without `DQ.`.
pub fn name_of(words: &Words) -> Option<String> {
    let name = String::from_utf8(words.first()?.to_ascii_uppercase()).ok()?;
    name.strip_prefix("DQ.").map(String::from)
}

fn judge_shape(words: &Words, reply: &Reply) -> Result<(), String> {
    let Some(name) = name_of(words) else { return Ok(()) };
    let sound = match name.as_str() {
        "PUSH" => is_id(reply),
        "MPUSH" => is_list(reply, is_id),
        "CLAIM" => is_list(reply, |job| is_job(job, 6)),
        "MCLAIM" => is_list(reply, |job| is_job(job, 7)),
        "ACK" => is_int(reply) || is_list(reply, |item| matches!(item, Reply::Int(0 | 1))),
        "EXTEND" | "RELEASE" => is_list(reply, is_int),
        "RETRY" | "CANCEL" | "RESCHEDULE" | "REPLAY" | "PURGE" | "DROP" => is_int(reply),
        "FAIL" | "PAUSE" | "RESUME" => is_ok(reply),
        "STATS" => is_map(reply, |value| matches!(value, Reply::Int(0..))),
        "GET" => matches!(reply, Reply::Nil) || is_job_map(reply),
        "PEEK" => matches!(reply.list(), Some([Reply::Bytes(_), jobs]) if is_list(jobs, is_job_map)),
        "CONFIG" => is_ok(reply) || is_int(reply) || is_list(reply, |row| is_list(row, is_text)),
        "QUEUES" => is_list(
            reply,
            |queue| matches!(queue.list(), Some([Reply::Bytes(_), n @ ..]) if n.len() == 6 && n.iter().all(is_int)),
        ),
        "CHECK" | "REPAIR" => is_list(reply, |problem| {
            matches!(
                problem.list(),
                Some([Reply::Bytes(_), Reply::Bytes(_)] | [Reply::Bytes(_), Reply::Bytes(_), Reply::Int(0 | 1)])
            )
        }),
        _ => false,
    };
    if sound {
        Ok(())
    } else {
        Err(format!("DQ.{name} answered {reply:?}"))
    }
}

fn is_int(reply: &Reply) -> bool {
    matches!(reply, Reply::Int(-1..))
}

fn is_text(reply: &Reply) -> bool {
    matches!(reply, Reply::Bytes(_))
}

fn is_id(reply: &Reply) -> bool {
    matches!(reply, Reply::Bytes(_) | Reply::Nil)
}

fn is_ok(reply: &Reply) -> bool {
    matches!(reply, Reply::Status(text) if text == b"OK")
}

fn is_list(reply: &Reply, of: impl Fn(&Reply) -> bool) -> bool {
    reply.list().is_some_and(|items| items.iter().all(of))
}

/// A receipt, a payload and an id, three numbers, and for MCLAIM a queue.
fn is_job(reply: &Reply, length: usize) -> bool {
    let Some(fields) = reply.list() else { return false };
    fields.len() == length
        && fields[..3].iter().all(is_text)
        && fields[3..6].iter().all(is_int)
        && fields[6..].iter().all(is_text)
}

fn is_job_map(reply: &Reply) -> bool {
    is_map(reply, |value| matches!(value, Reply::Bytes(_) | Reply::Int(_) | Reply::Nil))
}

/// A map, in RESP2 a list of names and values in turn.
fn is_map(reply: &Reply, of: impl Fn(&Reply) -> bool) -> bool {
    match reply {
        Reply::Map(pairs) => pairs.iter().all(|(name, value)| is_text(name) && of(value)),
        Reply::List(items) => {
            items.len() % 2 == 0 && items.chunks_exact(2).all(|pair| is_text(&pair[0]) && of(&pair[1]))
        }
        _ => false,
    }
}

/// Counts the reply, and remembers its receipts, ids and cursors for commands to come.
pub fn learn(draw: &mut Draw, words: &Words, reply: &Reply) {
    let Some(name) = name_of(words) else { return };
    let refused = matches!(reply, Reply::Error(_));
    let queue = words.get(1).map_or(&b""[..], |queue| queue);
    match name.as_str() {
        "PUSH" => reply.bytes().into_iter().for_each(|id| draw.note_id(queue, id)),
        "CLAIM" | "MCLAIM" => {
            for fields in reply.list().into_iter().flatten().filter_map(Reply::list) {
                let queue = fields.get(6).and_then(Reply::bytes).unwrap_or(queue);
                fields[0].bytes().into_iter().for_each(|receipt| draw.note_receipt(queue, receipt));
                fields[2].bytes().into_iter().for_each(|id| draw.note_id(queue, id));
            }
        }
        "PEEK" => {
            let cursor = reply.list().and_then(|items| items[0].bytes());
            cursor.into_iter().for_each(|cursor| draw.note_cursor(queue, cursor));
        }
        _ => {}
    }
    draw.answers.entry(name).or_default()[usize::from(refused)] += 1;
}

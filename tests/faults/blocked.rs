//! One claim that waits, in a thread of its own.

use std::sync::mpsc::{channel, Receiver};
use std::time::Instant;

use redis::{Connection, RedisError, RedisResult, Value};

use crate::common::{list, wait_for, Job, Server};

/// What came of a claim that waited.
pub struct Answer {
    /// When it came.
    pub at: Instant,
    /// The jobs, or the error's text.
    pub outcome: Result<Vec<Job>, String>,
}

impl Answer {
    /// The jobs; there must be no error.
    #[track_caller]
    pub fn jobs(self) -> Vec<Job> {
        self.outcome.unwrap_or_else(|error| panic!("the claim answered {error}"))
    }

    /// The error's text; there must be one.
    #[track_caller]
    pub fn error(self) -> String {
        match self.outcome {
            Ok(jobs) => panic!("the claim answered {jobs:?}"),
            Err(error) => error,
        }
    }
}

/// A claim under way.
pub struct Blocked {
    told: Receiver<Answer>,
    answer: Option<Answer>,
}

impl Blocked {
    /// Sends `DQ.CLAIM queue words` on a connection of its own.
    pub fn begin(server: &Server, queue: &str, words: Vec<Vec<u8>>) -> Blocked {
        Blocked::begin_on(server.conn(), queue, words)
    }

    /// The same on a connection that is given.
    pub fn begin_on(mut con: Connection, queue: &str, words: Vec<Vec<u8>>) -> Blocked {
        con.set_read_timeout(None).expect("a timeout is set");
        let (tell, told) = channel();
        let mut command = redis::cmd("DQ.CLAIM");
        command.arg(queue).arg(words);
        std::thread::spawn(move || {
            let answer: RedisResult<Value> = command.query(&mut con);
            let at = Instant::now();
            let outcome = answer.map(|jobs| list(&jobs).iter().map(Job::of).collect()).map_err(|e| said(&e));
            // Nobody listens where the test is over.
            let _ = tell.send(Answer { at, outcome });
        });
        Blocked { told, answer: None }
    }

    /// As `begin`, and is in the line of the queue when it returns.
    pub fn in_line(server: &Server, queue: &str, words: Vec<Vec<u8>>) -> Blocked {
        let mut q = server.queue(queue);
        q.unwatched();
        let before = q.stat("waiting");
        let blocked = Blocked::begin(server, queue, words);
        wait_for("the claim to wait", || q.stat("waiting") > before);
        blocked
    }

    /// Whether no answer has come yet.
    pub fn waits(&mut self) -> bool {
        self.answer = self.answer.take().or_else(|| self.told.try_recv().ok());
        self.answer.is_none()
    }

    /// The answer, which must come.
    #[track_caller]
    pub fn end(self) -> Answer {
        match self.answer {
            Some(answer) => answer,
            None => self.told.recv_timeout(crate::common::DEADLINE).expect("the claim to be answered"),
        }
    }
}

/// How many clients wait at this server, by INFO.
pub fn waiting(server: &Server) -> usize {
    server.info("dq", "dq_waiting").parse().expect("a count")
}

/// An error's text, whoever made it.
pub fn said(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

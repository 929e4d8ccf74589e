//! A primary and its replica, and what must hold of both when a story is over.

use std::collections::BTreeSet;
use std::ops::Deref;

use redis::Value;

use crate::common::server::Builder;
use crate::common::*;

/// A primary with a replica. It is the primary for whoever looks.
pub struct Scene {
    pub primary: Server,
    pub replica: Server,
}

impl Deref for Scene {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.primary
    }
}

impl Scene {
    pub fn new() -> Scene {
        Scene::of(Server::builder())
    }

    pub fn of(builder: Builder) -> Scene {
        let primary = builder.clone().start();
        let replica = builder.replica_of(&primary).start();
        replica.catch_up(&primary);
        Scene { primary, replica }
    }

    /// The end: nobody waits, every queue of every database is whole, and the replica holds the same.
    #[track_caller]
    pub fn end(&self) {
        wait_for("nobody to wait", || self.primary.info("dq", "dq_waiting") == "0");
        assert_whole(&self.primary);
        assert_replica_same(&self.primary, &self.replica);
        assert_whole(&self.replica);
        for server in [&self.primary, &self.replica] {
            assert!(!server.log().contains("panicked"), "a handler panicked:\n{}", server.log());
        }
    }
}

/// Fails unless every queue of every database is whole.
pub fn assert_whole(server: &Server) {
    for (db, name) in queues(server) {
        server.queue_in(db, &name).check_clean();
    }
}

/// The queues that have any key, with their database.
pub fn queues(server: &Server) -> BTreeSet<(i64, Vec<u8>)> {
    let keys = server.dump().0.into_keys();
    keys.filter_map(|(db, key)| {
        let open = key.strip_prefix(b"dq:{".as_slice())?;
        let end = open.iter().position(|b| *b == b'}')?;
        Some((db, open[..end].to_vec()))
    })
    .collect()
}

/// How many clients INFO says are blocked.
pub fn blocked_clients(server: &Server) -> i64 {
    server.info("clients", "blocked_clients").parse().expect("a count")
}

/// Seconds of CPU that the server has used.
pub fn cpu(server: &Server) -> f64 {
    ["used_cpu_sys", "used_cpu_user"]
        .map(|field| server.info("cpu", field).parse::<f64>().expect("a number"))
        .iter()
        .sum()
}

/// Stops the process; whatever is sent meanwhile reaches the server in one pass of its event loop.
pub struct Stopped<'a>(&'a Server);

impl<'a> Stopped<'a> {
    pub fn new(server: &'a Server) -> Stopped<'a> {
        server.signal(libc::SIGSTOP);
        wait_for("the process to stop", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("it is there");
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        });
        Stopped(server)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.signal(libc::SIGCONT);
    }
}

/// Sends what `act` sends while the process is stopped, so that one pass of the event loop sees it all.
pub fn in_one_pass(server: &Server, act: impl FnOnce()) {
    let stopped = Stopped::new(server);
    act();
    drop(stopped);
    server.run(&["PING"]);
}

/// What became of one waiter and the one job that was pushed for it.
#[derive(Debug, Default, PartialEq)]
pub struct Account {
    pub served: i64,
    pub left_behind: i64,
}

/// Fails unless the queue of one job has it where the waiter's answer says, with nothing counted that did not happen.
pub fn account(server: &Server, name: &str, served: bool, total: &mut Account) {
    let mut q = server.queue(name);
    let figures = q.stats(["ready", "delayed", "leased", "claimed", "waiting", "dead", "lease-lost"]);
    if served {
        assert_eq!(figures, [0, 0, 1, 1, 0, 0, 0], "{name} was served");
        total.served += 1;
    } else {
        wait_for("the job to be ready", || q.stat("ready") == 1);
        assert_eq!(q.stats(["leased", "claimed", "waiting"]), [0, 0, 0], "{name} was not served");
        let job = q.claim();
        assert_eq!(job.attempt, 1, "nothing was counted");
        assert_eq!(q.ack(&job.receipt), 1);
        total.left_behind += 1;
    }
}

/// Whether a claim answered that there is nothing.
#[track_caller]
pub fn assert_nothing(reply: &Value) {
    assert_eq!(reply, &Value::Array(vec![]), "there was to be nothing");
}

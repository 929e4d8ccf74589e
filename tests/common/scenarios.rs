//! Small stories, each on a queue of its own, that together use every command and every timer.
//! After each of them a replica must hold what its primary does, and a restart must change nothing.

use super::*;
use crate::{args, err, ok};

pub type Scenario = (&'static str, fn(&mut Queue));

/// All of them. They want a server without take-over grace.
pub const ALL: &[Scenario] = &[
    ("push", |q| {
        for payload in odd_bytes() {
            q.push(&payload[..]);
        }
    }),
    ("push-delay", |q| {
        ok!(q, "PUSH", "a", "DELAY", "1h");
        let at = q.now() + 5_000_000;
        ok!(q, "PUSH", "b", "AT", at);
    }),
    ("push-options", |q| {
        ok!(q, "PUSH", "a", "RETRIES", 0, "LEASE", "9s", "BACKOFF", "2s", "1d");
        ok!(q, "PUSH", "b", "RETRIES", 1_000_000, "LEASE", "12h");
    }),
    ("push-id", |q| {
        ok!(q, "PUSH", "a", "ID", "mine");
        ok!(q, "PUSH", "b", "ID", "yours", "KEEP", "2h", "DELAY", "1h");
        ok!(q, "PUSH", "c", "ID", "mine");
        ok!(q, "PUSH", "c", "ID", "mine", "NX");
    }),
    ("push-replace", |q| {
        ok!(q, "PUSH", "a", "ID", "mine", "RETRIES", 5);
        ok!(q, "PUSH", "b", "ID", "mine", "REPLACE", "DELAY", "1h", "LEASE", "1m");
    }),
    ("push-again", |q| {
        ok!(q, "PUSH", "a", "ID", "mine");
        let job = q.claim();
        q.fail(&job.receipt);
        ok!(q, "PUSH", "b", "ID", "mine");
        let job = q.claim();
        q.ack(&job.receipt);
    }),
    ("mpush", |q| {
        ok!(q, "MPUSH", "PAYLOADS", "a", "b", "c");
        ok!(q, "MPUSH", "DELAY", "5m", "RETRIES", 2, "PAYLOADS", "a", "b");
        ok!(q, "MPUSH", "JOBS", "mine", 0, "a", "", "1h", "b", "mine", 0, "c");
    }),
    ("refused", |q| {
        q.push("x");
        err!(q, "PUSH", "x", "DELAY", "8d");
        err!(q, "MPUSH", "JOBS", "", 0, "a", "", -1, "b");
        err!(q, "CLAIM", "COUNT", 0);
        err!(q, "ACK", "nonsense");
    }),
    ("claim", |q| {
        for i in 0..20 {
            q.push(i);
        }
        q.claim();
        q.claim_n(5);
        q.claim_with(args!["LEASE", "1h", "COUNT", 3]);
    }),
    ("ack", |q| {
        for i in 0..6 {
            q.push(i);
        }
        let jobs = q.claim_n(5);
        q.ack(&jobs[0].receipt);
        ok!(q, "ACK", &jobs[1].receipt, &jobs[2].receipt, &jobs[0].receipt, "EACH");
    }),
    ("ack-last", |q| {
        let job = q.push_and_claim("x");
        q.ack(&job.receipt);
    }),
    ("retry", |q| {
        let job = q.push_and_claim("x");
        ok!(q, "RETRY", job.receipt, "ERROR", "e", "STACK", &b"\0\xff"[..]);
        q.make_due(&job.id);
        let job = q.claim();
        ok!(q, "RETRY", job.receipt, "DELAY", "1h");
    }),
    ("retry-used-up", |q| {
        ok!(q, "PUSH", "x", "RETRIES", 0, "ID", "mine");
        let job = q.claim();
        ok!(q, "RETRY", job.receipt, "ERROR", "e");
    }),
    ("release", |q| {
        for i in 0..4 {
            q.push(i);
        }
        let jobs = q.claim_n(3);
        q.release(&jobs[0].receipt);
        ok!(q, "RELEASE", "DELAY", "1h", "RECEIPTS", &jobs[1].receipt, &jobs[2].receipt);
    }),
    ("fail", |q| {
        let job = q.push_and_claim("x");
        ok!(q, "FAIL", job.receipt, "ERROR", "e", "STACK", "s");
    }),
    ("extend", |q| {
        for i in 0..3 {
            q.push(i);
        }
        let jobs = q.claim_n(2);
        ok!(q, "EXTEND", "1h", &jobs[0].receipt, &jobs[1].receipt);
    }),
    ("lapse", |q| {
        q.push("x");
        q.claim_and_lapse();
        ok!(q, "PUSH", "y", "DELAY", "1h");
    }),
    ("lapse-of-many", |q| {
        for i in 0..50 {
            q.push(i);
        }
        let jobs = q.claim_with(args!["COUNT", 40, "LEASE", 1]);
        q.wait_lapse(&jobs[39].id);
    }),
    ("lapse-to-death", |q| {
        let id = q.push("x");
        for _ in 0..5 {
            q.claim_and_lapse();
            if q.state(&id) != "dead" {
                q.make_due(&id);
            }
        }
    }),
    ("late-ack", |q| {
        q.push("x");
        let job = q.claim_and_lapse();
        q.ack(&job.receipt);
    }),
    ("late-fail", |q| {
        q.push("x");
        let job = q.claim_and_lapse();
        ok!(q, "FAIL", job.receipt, "ERROR", "late");
    }),
    ("late-extend", |q| {
        q.push("x");
        let job = q.claim_and_lapse();
        q.extend(3_600_000, &job.receipt);
    }),
    ("late-retry", |q| {
        q.push("x");
        let job = q.claim_and_lapse();
        q.retry(&job.receipt);
    }),
    ("late-release", |q| {
        q.push("x");
        let job = q.claim_and_lapse();
        q.release(&job.receipt);
    }),
    ("lease-lost", |q| {
        q.push("x");
        let job = q.claim_and_lapse();
        q.claim();
        q.ack(&job.receipt);
        q.extend(5, &job.receipt);
        q.release(&job.receipt);
        err!(q, "RETRY", &job.receipt);
        err!(q, "FAIL", &job.receipt);
    }),
    ("cancel", |q| {
        ok!(q, "PUSH", "x", "ID", "due", "DELAY", "1h");
        ok!(q, "PUSH", "x", "ID", "leased");
        q.claim();
        let job = q.push_and_claim("x");
        q.fail(&job.receipt);
        q.push("stays");
        assert_eq!(int(&ok!(q, "CANCEL", "due", "leased", job.id)), 3);
    }),
    ("reschedule", |q| {
        for delay in ["0", "1h", "2h"] {
            ok!(q, "PUSH", delay, "ID", delay, "DELAY", delay);
        }
        q.claim();
        q.push("x");
        assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", "3h", "IDS", "0", "1h")), 1);
        assert_eq!(int(&ok!(q, "RESCHEDULE", "DELAY", "4h", "ALL")), 3);
    }),
    ("purge", |q| {
        for state in ["dead", "leased"] {
            let job = q.push_and_claim(state);
            if state == "dead" {
                q.fail(&job.receipt);
            }
        }
        ok!(q, "PUSH", "x", "ID", "ready");
        ok!(q, "PUSH", "x", "DELAY", "1h");
        assert_eq!(int(&ok!(q, "PURGE", "STATE", "ready", "leased", "dead")), 3);
    }),
    ("replay", |q| {
        for id in ["a", "b", "c", "d"] {
            ok!(q, "PUSH", "x", "ID", id);
            let job = q.claim();
            ok!(q, "FAIL", job.receipt, "ERROR", "e");
        }
        assert_eq!(int(&ok!(q, "REPLAY", "IDS", "c", "a")), 2);
        assert_eq!(int(&ok!(q, "REPLAY", "DELAY", "1h", "SPREAD", "1h", "ALL")), 2);
    }),
    ("drop", |q| {
        q.push("x");
        q.claim();
        q.push("y");
        err!(q, "DROP");
        assert_eq!(int(&ok!(q, "DROP", "FORCE")), 2);
        ok!(q, "PUSH", "z", "ID", "new");
    }),
    ("pause", |q| {
        q.push("x");
        ok!(q, "PAUSE");
        assert!(q.claim_n(1).is_empty());
    }),
    ("resume", |q| {
        ok!(q, "PAUSE");
        ok!(q, "RESUME");
        q.push_and_claim("x");
    }),
    ("settings", |q| {
        ok!(q, "CONFIG", "SET", "lease", "7s", "max-leased", 1, "id-keep", "1h");
        ok!(q, "CONFIG", "RESET", "id-keep");
        ok!(q, "MPUSH", "PAYLOADS", "a", "b");
        assert_eq!(q.claim_n(2).len(), 1);
    }),
    ("repair", |q| {
        let job = q.push_and_claim("x");
        ok!(q, "PUSH", "y", "ID", "gone", "DELAY", "1h");
        let (jobs, leased) = (q.key("jobs"), q.key("leased"));
        q.raw::<i64>(args!["ZREM", leased, job.id]);
        q.raw::<i64>(args!["HDEL", jobs, "gone"]);
        assert_eq!(list(&ok!(q, "REPAIR")).len(), 2);
    }),
    ("ids-swept", |q| {
        q.raw::<()>(args!["CONFIG", "SET", "dq.purge-interval", 10]);
        for i in 0..10 {
            ok!(q, "PUSH", i, "ID", format!("id-{i}"), "KEEP", 1, "DELAY", "1h");
        }
        ok!(q, "PUSH", "x", "ID", "long", "KEEP", "1h");
        let key = q.key("ids");
        wait_for("the sweep of the ids", || q.raw::<i64>(args!["ZCARD", &key]) == 1);
    }),
    ("in-a-transaction", |q| {
        let name = q.name.clone();
        redis::pipe()
            .atomic()
            .cmd("DQ.PUSH")
            .arg(&name)
            .arg("a")
            .cmd("DQ.CLAIM")
            .arg(&name)
            .cmd("DQ.MPUSH")
            .arg(&name)
            .arg("PAYLOADS")
            .arg("b")
            .arg("c")
            .cmd("SET")
            .arg([b"{", &name[..], b"}beside"].concat())
            .arg("it")
            .exec(&mut q.con)
            .expect("the transaction runs");
    }),
    ("in-a-script", |q| {
        let name = q.name.clone();
        q.raw::<i64>(args![
            "EVAL",
            "redis.call('DQ.PUSH', KEYS[1], 'a') redis.call('DQ.PUSH', KEYS[1], 'b') \
             local job = redis.call('DQ.CLAIM', KEYS[1])[1] \
             return redis.call('DQ.ACK', KEYS[1], job[1])",
            1,
            name
        ]);
    }),
];

/// Runs all of them on one server, each on the queue of its name.
pub fn run_all(server: &Server) {
    for (name, scenario) in ALL {
        scenario(&mut server.queue(name));
    }
}

/// Fails unless every queue of the scenarios is whole.
pub fn check_all(server: &Server) {
    for (name, _) in ALL {
        server.queue(name).check_clean();
    }
}

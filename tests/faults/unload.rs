//! The module is taken out of a running server and put in again as another build, with jobs in every state and clients
//! that push, wait and finish.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::blocked::{waiting, Blocked};
use crate::common::builds::*;
use crate::common::server::module_path;
use crate::common::*;
use crate::crew::{Crew, Plan};
use crate::{args, ok};

/// Jobs in every state, whose receipts are good for hours.
struct States {
    held: Job,
    late: Job,
    delayed: String,
}

impl States {
    fn make(server: &Server) -> States {
        let mut q = server.queue("states");
        q.unwatched();
        for i in 0..40 {
            ok!(q, "PUSH", i, "DELAY", "1h");
        }
        let delayed = text(&ok!(q, "PUSH", "delayed", "DELAY", "2h", "RETRIES", 3));
        let dead = q.push_and_claim("dead");
        ok!(q, "FAIL", dead.receipt, "ERROR", "e");
        let retried = q.push_and_claim("retried");
        ok!(q, "RETRY", retried.receipt, "DELAY", "1h", "ERROR", "e", "STACK", "s");
        let released = q.push_and_claim("released");
        ok!(q, "RELEASE", "DELAY", "1h", "RECEIPTS", released.receipt);
        ok!(q, "PUSH", "mine", "ID", "mine", "KEEP", "1h", "DELAY", "1h");
        q.push("held");
        let held = q.claim_with(args!["LEASE", "1h"]).remove(0);
        q.push("late");
        let late = q.claim_and_lapse();
        q.push("ready");
        q.watched();
        States { held, late, delayed }
    }
}

#[test]
fn a_new_build_takes_over_jobs_in_every_state() {
    let mut server = Server::start();
    let builds = Builds::new(&server);
    let states = States::make(&server);
    let mut q = server.queue("states");
    // Leases end and ids become free by themselves: nothing of that falls into the test.
    let before = server.dump();
    for round in 0..6 {
        builds.change(&server, round);
        assert_eq!(server.dump(), before, "round {round}");
    }
    assert_eq!(q.stats(["ready", "delayed", "leased", "dead"]), [2, 44, 1, 1]);
    assert_eq!(q.ack(&states.late.receipt), 1, "late, still");
    assert_eq!(q.ack(&states.held.receipt), 1);
    assert_eq!(q.field(&states.delayed, "retries"), "3");
    assert_eq!(text(&ok!(q, "PUSH", "again", "ID", "mine")), "mine");
    assert_eq!(q.stat("deduplicated"), 1);
    let newer = q.push("newer");
    assert!(newer > states.delayed, "ids go on rising");
    server.assert_alive();
}

#[test]
fn what_works_while_disabled_and_what_does_not() {
    let mut server = Server::start();
    let mut q = server.queue("q");
    let held = q.push_and_claim("held");
    let lapsing = q.push_and_claim("to be retried");
    let blocked: Vec<Blocked> =
        (0..20).map(|i| Blocked::in_line(&server, &format!("w{i}"), args!["BLOCK", 0])).collect();
    server.set("enabled", "no");
    for blocked in blocked {
        assert_error(&blocked.end().error(), "UNBLOCKED", &[]);
    }
    assert_eq!(waiting(&server), 0);
    for words in [args![], args!["BLOCK", 0]] {
        assert_error(&q.err("CLAIM", words), "DQDISABLED", &[]);
    }
    let id = q.push("pushed while disabled");
    assert_eq!(q.ack(&held.receipt), 1);
    assert_eq!(q.extend(50, &lapsing.receipt), 50);
    let over = q.score("leased", &lapsing.id).expect("a lease") + 300;
    wait_for("the lease to be over", || q.now() > over);
    assert_eq!(q.state(&lapsing.id), "leased", "no timer acts");
    assert_eq!(q.extend(60_000, &lapsing.receipt), 60_000);
    assert_eq!(q.retry(&lapsing.receipt), 1000);
    server.set("enabled", "yes");
    assert_eq!(q.claim().id, id);
    server.assert_alive();
}

#[test]
fn twenty_new_builds_under_load() {
    let mut server = Server::builder().aof().line("appendfsync no").start();
    let builds = Builds::new(&server);
    let states = States::make(&server);
    let crew =
        Crew::begin(&server, Plan { queue: "stream", workers: 12, pause: Duration::from_millis(1), replicated: false });
    let mut tries = 0;
    for round in 0..20 {
        crew.wait_pushes(40);
        // A lease that ends, a long walk, and a job that is due, all around the change.
        let mut q = server.queue("around");
        q.unwatched();
        ok!(q, "PUSH", round, "DELAY", 10);
        let mut walk = server.conn();
        walk.send_packed_command(&redis::cmd("DQ.CHECK").arg("states").get_packed_command()).expect("it is sent");
        let blocked = Blocked::in_line(&server, "nothing", args!["BLOCK", 0]);
        server.set("enabled", "no");
        assert_error(&blocked.end().error(), "UNBLOCKED", &[]);
        tries += unload(&server);
        load(&server, builds.of(round));
    }
    crew.wait_pushes(40);
    let diary = crew.end();
    eprintln!("{} jobs, {:?}; tried again {tries} times", diary.pushed.len(), diary.errors);
    let twice: Vec<_> = diary.claims.iter().filter(|(_, attempts)| **attempts != [1]).collect();
    assert!(twice.is_empty(), "claimed other than once: {twice:?}");
    // An ACK that was answered to nobody is sent again, and finds nothing.
    let again = diary.errors.get("ack connection").copied().unwrap_or(0);
    let odd: Vec<_> = diary.acked.iter().filter(|(_, times)| **times != 1).collect();
    assert!(odd.len() <= again && odd.iter().all(|(_, times)| **times == 0), "finished other than once: {odd:?}");
    assert!(diary.errors.keys().any(|error| error.contains("UNBLOCKED")), "{:?}", diary.errors);
    let mut q = server.queue("stream");
    assert_eq!(q.stats(["ready", "delayed", "leased", "dead"]), [0, 0, 0, 0]);
    let mut around = server.queue("around");
    assert_eq!(around.claim_n(100).len(), 20);
    let mut q = server.queue("states");
    assert_eq!(q.ack(&states.held.receipt), 1);
    server.assert_alive();
}

#[test]
fn an_enabled_module_is_refused_or_goes_and_never_stands_still() {
    let mut server = Server::start();
    let builds = Builds::new(&server);
    let mut q = server.queue("q");
    q.unwatched();
    let (mut went, mut refused) = (0, 0);
    for round in 0..300_u64 {
        // A lease that ends about when the server is asked.
        q.push("x");
        assert_eq!(q.claim_with(args!["LEASE", 1 + round % 3]).len(), 1);
        std::thread::sleep(Duration::from_micros(700 + 37 * (round % 80)));
        match server.try_run(&["MODULE", "UNLOAD", "dq"]) {
            Ok(_) => {
                went += 1;
                load(&server, builds.of(usize::try_from(round).expect("small")));
                // A client that held a command of the module may have been sent away.
                q = server.queue("q");
                q.unwatched();
            }
            Err(_) => refused += 1,
        }
        // Refused or not: the lease ends, without a command of the module.
        let key = q.key("leased");
        wait_for("the lease to end", || q.raw::<i64>(args!["EXISTS", &key]) == 0);
        q.raw::<i64>(args!["DEL", q.key("due"), q.key("jobs")]);
    }
    eprintln!("went {went} times, refused {refused} times");
    server.assert_alive();
}

/// Every setting of the module, as CONFIG GET shows it, which knows no order.
fn settings(server: &Server) -> BTreeMap<String, String> {
    let reply = pairs(&server.run(&["CONFIG", "GET", "dq.*"]));
    reply.into_iter().map(|(name, value)| (name, text(&value))).collect()
}

#[test]
fn the_settings_are_handed_over_as_the_readme_says() {
    let server = Server::with_grace().set("lease", "1234").set("max-retries", "7").start();
    for (name, value) in [
        ("lease", "90s"),
        ("max-lease", "1d"),
        ("backoff-base", "1501ms"),
        ("backoff-jitter", "20"),
        ("max-payload", "2mb"),
        ("stale-policy", "drop"),
        ("clock-step", "follow"),
        ("takeover-grace", "0"),
        ("dead-max", "5"),
    ] {
        server.set(name, value);
    }
    let before = settings(&server);
    assert!(before.len() > 20, "{before:?}");
    let builds = Builds::new(&server);
    for round in 0..3 {
        server.set("enabled", "no");
        unload(&server);
        let path = builds.of(round).to_string_lossy().into_owned();
        let mut words = vec!["MODULE", "LOADEX", &path];
        before.iter().for_each(|(name, value)| words.extend(["CONFIG", name, value]));
        server.run(&words);
        assert_eq!(settings(&server), before);
    }
}

#[test]
fn an_unload_is_refused_while_a_wake_up_is_on_its_way() {
    let mut server = Server::start();
    let mut q = server.queue("q");
    q.unwatched();
    let mut refused = 0;
    for _ in 0..10 {
        q.push("x");
        q.claim_with(args!["LEASE", 50]);
        // The lease ends while the server sleeps, and the server is asked before it hears of it.
        let outcome: redis::RedisResult<(redis::Value, redis::Value)> =
            redis::pipe().cmd("DEBUG").arg("SLEEP").arg("0.2").cmd("MODULE").arg("UNLOAD").arg("dq").query(&mut q.con);
        refused += i32::from(outcome.is_err());
        if outcome.is_ok() {
            load(&server, &module_path());
        }
        let key = q.key("leased");
        wait_for("the lease to end", || q.raw::<i64>(args!["EXISTS", &key]) == 0);
        q.raw::<i64>(args!["DEL", q.key("due"), q.key("jobs")]);
    }
    assert!(refused > 0, "it was never asked at that moment");
    server.assert_alive();
}

#[test]
fn out_and_in_again_in_one_pipeline() {
    let mut server = Server::start();
    let states = States::make(&server);
    let builds = Builds::new(&server);
    server.set("enabled", "no");
    unload(&server);
    // The module that goes has not had a turn of its own yet.
    let mut pipe = redis::pipe();
    for round in 0..20 {
        pipe.cmd("MODULE").arg("LOAD").arg(builds.of(round).to_string_lossy().into_owned());
        pipe.cmd("MODULE").arg("UNLOAD").arg("dq");
    }
    pipe.cmd("MODULE").arg("LOAD").arg(builds.of(0).to_string_lossy().into_owned());
    pipe.exec(&mut server.conn()).expect("all of it works");
    let mut q = server.queue("states");
    assert_eq!(q.ack(&states.held.receipt), 1);
    assert_eq!(mapped(&server).len(), 1, "{:?}", mapped(&server));
    server.assert_alive();
}

#[test]
fn a_transaction_that_holds_a_command_of_the_module_when_it_goes() {
    let mut server = Server::start();
    let builds = Builds::new(&server);
    let mut con = server.conn();
    for word in ["MULTI", "DQ.PUSH q x", "PING"] {
        let mut words = word.split(' ');
        let mut command = redis::cmd(words.next().expect("a name"));
        command.arg(words.collect::<Vec<_>>());
        command.exec(&mut con).expect("it is queued");
    }
    server.set("enabled", "no");
    unload(&server);
    // Whatever it says, it does not end the server.
    let outcome: redis::RedisResult<redis::Value> = redis::cmd("EXEC").query(&mut con);
    server.assert_alive();
    assert!(outcome.is_err(), "{outcome:?}");
    load(&server, builds.of(0));
    server.queue("q").push("y");
}

#[test]
fn a_queue_that_came_while_disabled_is_found() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    q.claim_with(args!["LEASE", 300]);
    let mut other = server.queue_in(1, "other");
    other.push("x");
    other.claim_with(args!["LEASE", 300]);
    q.unwatched();
    other.unwatched();
    server.set("enabled", "no");
    // By RENAME, with and without the header, and by SWAPDB.
    for companion in ["", "jobs", "leased"] {
        let (from, to) = if companion.is_empty() {
            (b"q".to_vec(), b"r".to_vec())
        } else {
            (q.key(companion), queue::companion_key(b"r", companion))
        };
        let _ = q.raw::<String>(args!["RENAME", from, to]);
    }
    server.run(&["SWAPDB", "1", "2"]);
    server.set("enabled", "yes");
    let mut con = server.conn();
    let mut ended = |db: i64, key: Vec<u8>| {
        wait_for(&format!("the lease in database {db} to end"), || {
            redis::cmd("SELECT").arg(db).exec(&mut con).expect("a database");
            redis::cmd("EXISTS").arg(&key).query::<i64>(&mut con).expect("a count") == 0
        });
    };
    ended(0, queue::companion_key(b"r", "leased"));
    ended(2, queue::companion_key(b"other", "leased"));
}

#[test]
fn fifty_changes_leave_nothing_behind() {
    const WARM: usize = 15;
    const ROUNDS: usize = 50;
    let mut server = Server::start();
    let builds = Builds::new(&server);
    let mut measured = Vec::new();
    for round in 0..WARM + ROUNDS {
        for i in 0..10 {
            let mut q = server.queue(format!("q{i}"));
            q.unwatched();
            q.push("x");
            let job = q.claim();
            assert_eq!(q.ack(&job.receipt), 1);
            q.raw::<i64>(args!["DEL", &q.name]);
        }
        let blocked: Vec<Blocked> =
            (0..10).map(|i| Blocked::in_line(&server, &format!("w{i}"), args!["BLOCK", 0])).collect();
        builds.change(&server, round);
        for blocked in blocked {
            assert_error(&blocked.end().error(), "UNBLOCKED", &[]);
        }
        assert_eq!(mapped(&server).len(), 1, "the old build is still mapped: {:?}", mapped(&server));
        if round + 1 >= WARM {
            measured.push((used_memory(&server), resident(&server)));
        }
    }
    let used: Vec<i64> = measured.iter().map(|round| round.0).collect();
    let least = least_growth(&used);
    let (first, last) = (measured[0], measured[measured.len() - 1]);
    eprintln!("used_memory {} -> {}, RSS {} -> {}", first.0, last.0, first.1, last.1);
    assert!(least < 2000, "used_memory grew by {least} in each ten of {ROUNDS} rounds: {used:?}");
    assert!(last.1 - first.1 < 1 << 20, "RSS grew by {} in {ROUNDS} rounds: {measured:?}", last.1 - first.1);
    server.assert_alive();
}

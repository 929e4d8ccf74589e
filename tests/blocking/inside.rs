//! In MULTI, in scripts and in functions nothing waits, and nobody is served.

use redis::Value;

use crate::client::Client;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

/// Claims and pushes from Lua, as a library.
const LIBRARY: &str = "#!lua name=lib
    redis.register_function('claim', function(keys) return redis.call('DQ.CLAIM', keys[1], 'BLOCK', 0) end)
    redis.register_function('mclaim', function(keys) return redis.call('DQ.MCLAIM', 1, keys[1], 'BLOCK', 0) end)
    redis.register_function('push', function(keys, args)
        redis.call('DQ.PUSH', keys[1], args[1])
        return redis.call('ZCARD', keys[2]) .. '/' .. redis.call('ZCARD', keys[3])
    end)";

/// Every way to run a claim with BLOCK 0 on `q` where it cannot wait.
fn claims_inside(client: &mut Client) -> Vec<(&'static str, Value)> {
    let mut answers = Vec::new();
    let all = client.call_all(&[
        args!["MULTI"],
        args!["DQ.CLAIM", "q", "BLOCK", 0],
        args!["DQ.MCLAIM", 2, "q", "other", "BLOCK", "1h"],
        args!["EXEC"],
    ]);
    let both = list(&all[all.len() - 1]);
    answers.push(("CLAIM in MULTI", both[0].clone()));
    answers.push(("MCLAIM in MULTI", both[1].clone()));
    for (what, script) in [
        ("CLAIM in Lua", "return redis.call('DQ.CLAIM', KEYS[1], 'BLOCK', 0)"),
        ("pcall in Lua", "return redis.pcall('DQ.CLAIM', KEYS[1], 'BLOCK', 0)"),
        ("MCLAIM in Lua", "return redis.call('DQ.MCLAIM', 1, KEYS[1], 'BLOCK', 0)"),
    ] {
        answers.push((what, client.call(args!["EVAL", script, 1, "q"])));
    }
    client.call(args!["FUNCTION", "LOAD", "REPLACE", LIBRARY]);
    for name in ["claim", "mclaim"] {
        answers.push((name, client.call(args!["FCALL", name, 1, "q"])));
    }
    answers
}

#[test]
fn nothing_waits_inside() {
    let scene = Scene::new();
    let mut client = Client::new(&scene);
    for (what, answer) in claims_inside(&mut client) {
        assert_eq!(answer, Value::Array(vec![]), "{what}");
    }
    assert_eq!(blocked_clients(&scene), 0);
    assert_eq!(scene.dump(), Default::default());
    // Where jobs are due they are given.
    let mut q = scene.queue("q");
    for i in 0..20 {
        q.push(i);
    }
    for (what, answer) in claims_inside(&mut client) {
        assert_eq!(list(&answer).len(), 1, "{what}");
    }
    assert_eq!(q.stat("waiting"), 0);
    scene.end();
}

#[test]
fn nobody_is_served_inside() {
    let scene = Scene::new();
    let q = scene.queue("q");
    let (due, leased) = (q.key("due"), q.key("leased"));
    let mut client = Client::new(&scene);

    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let all = client.call_all(&[
        args!["MULTI"],
        args!["DQ.PUSH", "q", "multi"],
        args!["ZCARD", &due],
        args!["ZCARD", &leased],
        args!["EXEC"],
    ]);
    let answers = list(&all[all.len() - 1]);
    assert_eq!((int(&answers[1]), int(&answers[2])), (1, 0));
    assert_eq!(waiter.job().payload, b"multi");

    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let acked = int(&client.call(args!["DQ.ACK", "q", "00000000000:1"]));
    assert_eq!(acked, 0);
    let script = "redis.call('DQ.PUSH', KEYS[1], 'lua') \
                  return redis.call('ZCARD', KEYS[2]) .. '/' .. redis.call('ZCARD', KEYS[3])";
    let seen = client.call(args!["EVAL", script, 3, "q", &due, &leased]);
    assert_eq!(text(&seen), "1/1", "the one of before is leased");
    assert_eq!(waiter.job().payload, b"lua");

    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    client.call(args!["FUNCTION", "LOAD", LIBRARY]);
    let seen = client.call(args!["FCALL", "push", 3, "q", &due, &leased, "function"]);
    assert_eq!(text(&seen), "1/2");
    assert_eq!(waiter.job().payload, b"function");
    scene.end();
}

#[test]
fn what_a_transaction_takes_away_again_is_not_served() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut client = Client::new(&scene);
    let keys = ["jobs", "due", "ids"].map(|companion| q.key(companion));
    client.call_all(&[args!["MULTI"], args!["DQ.PUSH", "q", "gone"], args!["DEL", "q", keys.to_vec()], args!["EXEC"]]);
    waiter.assert_silent(&scene);
    client.call_all(&[
        args!["MULTI"],
        args!["DQ.PUSH", "q", "put off", "ID", "mine"],
        args!["DQ.PUSH", "q", "put off", "ID", "mine", "DELAY", "1h", "REPLACE"],
        args!["EXEC"],
    ]);
    waiter.assert_silent(&scene);
    q.push("this");
    assert_eq!(waiter.job().payload, b"this");
    assert_eq!(q.stat("dangling"), 0);
    scene.end();
}

#[test]
fn a_script_that_claims_and_acknowledges_leaves_its_waiter_the_rest() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let mut waiter = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let script = "redis.call('DQ.MPUSH', KEYS[1], 'PAYLOADS', 'a', 'b', 'c')
        local jobs = redis.call('DQ.CLAIM', KEYS[1], 'COUNT', 10)
        for _, job in ipairs(jobs) do redis.call('DQ.ACK', KEYS[1], job[1]) end
        return #jobs";
    let taken: i64 = q.raw(args!["EVAL", script, 1, "q"]);
    assert_eq!(taken, 2, "one is waited for");
    waiter.job();
    assert_eq!(q.stats(["acked", "leased", "ready"]), [2, 1, 0]);
    scene.end();
}

#[test]
fn a_job_that_falls_due_in_a_long_script_is_served_after_it() {
    let scene = Scene::of(Server::builder().line("lua-time-limit 10").aof());
    let mut q = scene.queue("q");
    let mut first = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let mut second = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    let gone = Client::waiting(&scene, "q", &["BLOCK", "0"]);
    ok!(q, "PUSH", "due", "DELAY", 60);
    let script = "redis.call('SET', '{q}a', 1)
        local begin = redis.call('TIME')
        repeat local now = redis.call('TIME')
        until (now[1] - begin[1]) * 1000000 + (now[2] - begin[2]) > 1000000
        redis.call('SET', '{q}b', redis.call('ZCARD', KEYS[2]))
        redis.call('DQ.PUSH', KEYS[1], 'pushed')
        return redis.call('ZCARD', KEYS[2])";
    let mut client = Client::new(&scene);
    client.send(args!["EVAL", script, 2, "q", q.key("due")]);
    // It is busy by now, and a waiter leaves meanwhile.
    wait_for("the script to be busy", || {
        scene.try_run(&["DQ.STATS", "q"]).is_err_and(|error| error.code() == Some("BUSY"))
    });
    drop(gone);
    assert_eq!(int(&client.read().expect("the script answers")), 2);
    assert_eq!(first.job().payload, b"due");
    assert_eq!(second.job().payload, b"pushed");
    assert_eq!(q.raw::<i64>(args!["GET", "{q}b"]), 1);
    scene.end();
}

#[test]
fn both_protocols_get_the_same() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let claim = args!["DQ.CLAIM", "q", "BLOCK", 0];
    let mclaim = args!["DQ.MCLAIM", 2, "q", "other", "BLOCK", 0];
    let mut replies = Vec::new();
    for mut client in [Client::new(&scene), Client::resp3(&scene)] {
        for claim in [&claim, &mclaim] {
            client.wait_for_job(&scene, claim.clone());
            q.push("x");
            let Value::Array(jobs) = client.read().expect("jobs") else { panic!("not an array") };
            let Value::Array(job) = &jobs[0] else { panic!("not an array: {jobs:?}") };
            assert!(matches!(job[3], Value::Int(1)));
            assert!(matches!(&job[1], Value::BulkString(payload) if payload == b"x"));
            replies.push(job.len());
        }
        client.send(args!["DQ.CLAIM", "q", "BLOCK", 1]);
        assert_nothing(&client.read().expect("an empty answer"));
        client.wait_for_job(&scene, claim.clone());
        scene.run(&["CLIENT", "UNBLOCK", &client.id.to_string(), "TIMEOUT"]);
        assert_nothing(&client.read().expect("an empty answer"));
        client.wait_for_job(&scene, claim.clone());
        scene.run(&["CLIENT", "UNBLOCK", &client.id.to_string(), "ERROR"]);
        assert_error(&client.error(), "UNBLOCKED", &[]);
    }
    assert_eq!(replies, [6, 7, 6, 7]);
    scene.end();
}

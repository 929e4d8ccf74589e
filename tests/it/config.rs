//! DQ.CONFIG: the settings of one queue, over the server's.

use crate::args;
use crate::common::*;
use crate::{err, ok};

/// Name, a good value as it is shown, and values that are refused.
const FIELDS: [(&str, &str, &[&str]); 18] = [
    ("lease", "10s", &["0", "31d", "5kb"]),
    ("max-retries", "5", &["1000001", "5s"]),
    ("max-lapses", "3", &["0", "1000001"]),
    ("backoff-base", "2s", &["0", "31d"]),
    ("backoff-cap", "10m", &["0", "31d"]),
    ("backoff-jitter", "20", &["1001", "5%"]),
    ("max-delay", "30d", &["3651d", "5kb"]),
    ("max-payload", "4096", &["513mb", "5s", "1gb"]),
    ("max-length", "1000", &["1000000000001", "1kb"]),
    ("max-leased", "3", &["1000000000001", "5s"]),
    ("max-error", "1000", &["513mb", "5s"]),
    ("far-horizon", "2h", &["3651d"]),
    ("far-alarm", "5", &["1000000000001"]),
    ("stale-after", "1h", &["0", "366d"]),
    ("stale-policy", "keep", &["delete", "2"]),
    ("dead-max", "10", &["1000000000001"]),
    ("dead-max-age", "1d", &["3651d"]),
    ("id-keep", "1h", &["31d"]),
];

/// What CONFIG GET shows: field, value, source.
fn rows(q: &mut Queue, words: Vec<Vec<u8>>) -> Vec<[String; 3]> {
    let reply = q.ok("CONFIG", [args!["GET"], words].concat());
    list(&reply).iter().map(|row| texts(row).try_into().expect("three texts")).collect()
}

/// Value and source of one field.
fn shown(q: &mut Queue, field: &str) -> [String; 2] {
    let [name, value, source] = rows(q, args![field]).remove(0);
    assert_eq!(name, field);
    [value, source]
}

fn header(q: &mut Queue) -> Vec<(String, String)> {
    let name = q.name.clone();
    let mut fields: Vec<(String, String)> = q.raw(args!["HGETALL", name]);
    fields.retain(|(field, _)| field != "made");
    fields.sort();
    fields
}

#[test]
fn every_setting_is_set_shown_and_reset() {
    let server = Server::start();
    let mut q = server.queue("q");
    let all = rows(&mut q, args![]);
    assert_eq!(all.iter().map(|[field, ..]| field.as_str()).collect::<Vec<_>>(), FIELDS.map(|(name, ..)| name));
    for [field, value, source] in all {
        let served = list(&server.run(&["CONFIG", "GET", &format!("dq.{field}")])).get(1).map_or("0".into(), text);
        assert_eq!((value, source.as_str()), (served, "server"), "{field}");
    }
    assert_eq!(server.dump(), Default::default(), "GET makes nothing");
    for (field, good, _) in FIELDS {
        assert_eq!(text(&ok!(q, "CONFIG", "SET", field.to_uppercase(), good)), "OK");
        assert_eq!(shown(&mut q, field), [good, "queue"]);
    }
    let mut expected = vec![("dq".to_string(), "1".to_string())];
    expected.extend(FIELDS.map(|(field, good, _)| (field.to_string(), good.to_string())));
    expected.sort();
    assert_eq!(header(&mut q), expected);
    let names: Vec<&str> = FIELDS.map(|(name, ..)| name).to_vec();
    assert_eq!(int(&ok!(q, "CONFIG", "RESET", &names[1..])), 17);
    assert_eq!(int(&ok!(q, "CONFIG", "RESET", &names)), 1);
    assert_eq!(header(&mut q), [("dq".to_string(), "1".to_string())]);
    assert!(rows(&mut q, args![]).iter().all(|[.., source]| source == "server"));
}

#[test]
fn bad_values_are_refused_and_change_nothing() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "CONFIG", "SET", "lease", "7s");
    for (field, good, bad) in FIELDS {
        let bad = bad.iter().map(|bad| bad.as_bytes()).chain(NOT_NUMBERS.iter().copied());
        for bad in bad.chain(BEYOND.iter().map(|bad| bad.as_bytes())) {
            let error = err!(q, "CONFIG", "SET", "id-keep", "1h", field, bad);
            assert_error(&error, "ERR", &[field, "must be"]);
        }
        assert_error(&err!(q, "CONFIG", "SET", field), "ERR", &[field, "needs a value"]);
        assert_error(&err!(q, "CONFIG", "SET", field, good, field, good), "ERR", &[field, "once"]);
        assert_error(&err!(q, "CONFIG", "RESET", field, field), "ERR", &[field, "once"]);
    }
    assert_eq!(header(&mut q), [("dq".into(), "1".into()), ("lease".into(), "7s".into())]);
}

#[test]
fn unknown_names_and_actions_are_refused() {
    let server = Server::start();
    let mut q = server.queue("q");
    let names: [&[u8]; 13] = [
        b"",
        b"leas",
        b"dq.lease",
        b"enabled",
        b"takeover-grace",
        b"max-lease",
        b"purge-interval",
        b"dq",
        b"made",
        b"paused",
        b"\0",
        b"%s%n",
        b"\xff",
    ];
    for name in names {
        for words in
            [args!["SET", name, 1], args!["SET", "lease", 1, name, 1], args!["GET", name], args!["RESET", name]]
        {
            assert_error(&q.err("CONFIG", words), "ERR", &["no setting", "max-length"]);
        }
    }
    for action in [&b""[..], b"GETT", b"\0", b"%s", b"-1"] {
        assert_error(&err!(q, "CONFIG", action), "ERR", &["GET, SET or RESET"]);
    }
    assert_error(&err!(q, "CONFIG", "GET", "lease", "lease"), "ERR", &["GET takes one field"]);
    assert_error(&err!(q, "CONFIG", "SET"), "ERR", &["SET needs a field"]);
    assert_error(&err!(q, "CONFIG", "RESET"), "ERR", &["RESET needs a field"]);
    assert_eq!(int(&ok!(q, "CONFIG", "RESET", "lease")), 0);
    assert_eq!(server.dump(), Default::default(), "RESET makes nothing");
}

#[test]
fn the_same_value_again_changes_nothing_and_stays_when_the_servers_changes() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "CONFIG", "SET", "lease", "30s");
    let before = server.dump();
    ok!(q, "CONFIG", "SET", "lease", "30000");
    assert_eq!(server.dump(), before);
    server.set("lease", "1m");
    q.push("x");
    assert_eq!(q.claim().lease_ms, 30_000);
    ok!(q, "CONFIG", "RESET", "lease");
    q.push("y");
    assert_eq!(q.claim().lease_ms, 60_000);
}

#[test]
fn the_limits_of_a_queue_hold_for_it_alone() {
    let server = Server::start();
    let (mut q, mut other) = (server.queue("q"), server.queue("other"));
    ok!(q, "CONFIG", "SET", "max-length", 2, "max-delay", "1m", "max-payload", 5);
    assert_error(&err!(q, "PUSH", "123456"), "DQSIZE", &["6", "5", "max-payload"]);
    assert_error(&err!(q, "MPUSH", "PAYLOADS", "1", "123456"), "DQSIZE", &["max-payload"]);
    assert_error(&err!(q, "MPUSH", "JOBS", "", 0, "1", "", 0, "123456"), "DQSIZE", &["max-payload"]);
    assert_error(&err!(q, "PUSH", "x", "DELAY", 60_001), "DQDELAY", &["DELAY", "1m", "max-delay"]);
    let at = q.now() + 90_000;
    assert_error(&err!(q, "PUSH", "x", "AT", at), "DQDELAY", &["AT", "1m", "max-delay"]);
    assert_error(&err!(q, "MPUSH", "JOBS", "", 60_001, "x"), "DQDELAY", &["1m", "max-delay"]);
    assert_error(&err!(q, "MPUSH", "PAYLOADS", 1, 2, 3), "DQFULL", &["2"]);
    let held = q.push_and_claim("12345");
    ok!(q, "PUSH", "x", "DELAY", "1m");
    assert_error(&err!(q, "PUSH", "x"), "DQFULL", &["2"]);
    assert_error(&err!(q, "RETRY", &held.receipt, "DELAY", "61s"), "DQDELAY", &["1m", "max-delay"]);
    assert_error(&err!(q, "RELEASE", "DELAY", "61s", "RECEIPTS", &held.receipt), "DQDELAY", &["1m", "max-delay"]);
    assert_error(&err!(q, "RESCHEDULE", "DELAY", "61s", "ALL"), "DQDELAY", &["1m", "max-delay"]);
    assert_error(&err!(q, "REPLAY", "DELAY", "31s", "SPREAD", "30s", "ALL"), "DQDELAY", &["1m", "max-delay"]);
    ok!(other, "PUSH", "123456", "DELAY", "1h");
    ok!(other, "MPUSH", "PAYLOADS", 1, 2, 3);
    assert_eq!(q.ack(&held.receipt), 1);
    q.push("x");
    // The queue's own can be wider than the server's, and 0 lifts a limit.
    server.set("max-delay", "1s");
    server.set("max-length", "1");
    ok!(q, "CONFIG", "SET", "max-length", 0, "max-payload", 0);
    ok!(q, "MPUSH", "DELAY", "1m", "PAYLOADS", "123456", "1234567");
    assert_error(&err!(other, "PUSH", "x", "DELAY", "2s"), "DQDELAY", &["1s", "max-delay"]);
    assert_error(&err!(other, "PUSH", "x"), "DQFULL", &["1"]);
}

#[test]
fn what_rules_a_job_is_the_queues_unless_the_job_brought_its_own() {
    let server = Server::start();
    let mut q = server.queue("q");
    let id = q.push("x");
    ok!(q, "CONFIG", "SET", "lease", "7s", "max-retries", 2, "backoff-base", "3s", "backoff-cap", "4s", "max-error", 4);
    let fields = ["lease-ms", "retries", "backoff-base-ms", "backoff-cap-ms"];
    assert_eq!(fields.map(|field| q.field(&id, field)), ["7000", "2", "3000", "4000"]);
    let job = q.claim();
    assert_eq!((job.lease_ms, job.retries_left), (7000, 2));
    assert_eq!(int(&ok!(q, "RETRY", &job.receipt, "ERROR", "123456")), 3000);
    assert_eq!(q.field(&id, "error"), "1234");
    let own = text(&ok!(q, "PUSH", "y", "RETRIES", 9, "LEASE", "1m", "BACKOFF", 5, 6));
    assert_eq!(fields.map(|field| q.field(&own, field)), ["60000", "9", "5", "6"]);
    ok!(q, "CONFIG", "SET", "max-lapses", 1);
    q.claim_and_lapse();
    assert_eq!(q.state(&own), "dead");
    ok!(q, "CONFIG", "SET", "id-keep", 1);
    ok!(q, "PUSH", "z", "ID", "mine", "DELAY", "1h");
    ok!(q, "CANCEL", "mine");
    ok!(q, "CONFIG", "SET", "far-horizon", "1m", "far-alarm", 1);
    ok!(q, "PUSH", "z", "DELAY", "2m");
    assert_eq!(q.stats(["far", "far-alarm"]), [1, 1]);
    ok!(q, "CONFIG", "SET", "far-alarm", 2);
    assert_eq!(q.stats(["far", "far-alarm"]), [1, 0]);
}

#[test]
fn dead_letters_and_stale_jobs_go_by_the_queues_settings() {
    let server = Server::builder().set("purge-interval", "10").start();
    let (mut q, mut kept) = (server.queue("q"), server.queue("kept"));
    ok!(q, "CONFIG", "SET", "dead-max", 2, "stale-after", 50, "stale-policy", "drop");
    ok!(kept, "CONFIG", "SET", "stale-policy", "keep");
    for i in 0..4 {
        let job = q.push_and_claim(i);
        q.fail(&job.receipt);
    }
    q.wait_stat("dead", 2);
    assert_eq!(q.stat("dead-evicted"), 2);
    ok!(kept, "CONFIG", "SET", "stale-after", 20);
    q.push("stale");
    kept.push("stale");
    q.wait_stat("stale-purged", 1);
    assert_eq!(q.stats(["ready", "dead"]), [0, 2]);
    ok!(q, "CONFIG", "SET", "dead-max-age", 20);
    q.wait_stat("dead", 0);
    assert_eq!(kept.stats(["ready", "stale-purged"]), [1, 0]);
}

#[test]
fn the_settings_move_with_the_header() {
    let server = Server::start();
    let (mut q, mut copy) = (server.queue("q"), server.queue("copy"));
    ok!(q, "CONFIG", "SET", "max-payload", 2);
    copy.push("first");
    q.raw::<i64>(args!["COPY", "q", "copy", "REPLACE"]);
    assert_error(&err!(copy, "PUSH", "123"), "DQSIZE", &[]);
    let dump: Vec<u8> = q.raw(args!["DUMP", "q"]);
    ok!(q, "CONFIG", "SET", "max-payload", 3);
    q.push("123");
    q.raw::<()>(args!["RESTORE", "q", 0, &dump, "REPLACE"]);
    assert_error(&err!(q, "PUSH", "123"), "DQSIZE", &[]);
    // Without any job left the renamed header is all that there was of the settings.
    ok!(q, "PURGE", "STATE", "READY");
    q.raw::<()>(args!["RENAME", "q", "renamed"]);
    q.push("123");
    assert_eq!(shown(&mut q, "max-payload"), ["1048576", "server"]);
    let mut renamed = server.queue("renamed");
    assert_error(&err!(renamed, "PUSH", "123", "DELAY", 1), "DQSIZE", &[]);
    ok!(renamed, "DROP");
    renamed.push("123");
    server.run(&["FLUSHALL"]);
    q.push("123456");
    copy.push("123456");
}

#[test]
fn a_header_that_is_deleted_is_made_again_with_its_settings() {
    let server = Server::start();
    let mut q = server.queue("q");
    ok!(q, "CONFIG", "SET", "max-payload", 2, "max-delay", "1m");
    q.push("x");
    let before = server.dump();
    for round in 1..=2 {
        q.raw::<i64>(args!["DEL", "q"]);
        assert_error(&q.call("PUSH", args!["123"]).map_err(|e| error_text(&e)).expect_err("too large"), "DQSIZE", &[]);
        let late = q.call("PUSH", args!["1", "DELAY", "2m"]).map_err(|e| error_text(&e)).expect_err("too late");
        assert_error(&late, "DQDELAY", &[]);
        wait_for("the header", || server.dump() == before);
        assert_eq!(q.stat("headers-remade"), round);
    }
    q.raw::<i64>(args!["DEL", "q"]);
    assert_eq!(int(&ok!(q, "CONFIG", "RESET", "max-payload")), 1);
    q.push("123");
    assert_error(&err!(q, "PUSH", "x", "DELAY", "2m"), "DQDELAY", &[]);
}

#[test]
fn nonsense_in_the_header_is_ignored_field_by_field() {
    let mut server = Server::builder().aof().start();
    let mut q = server.queue("q");
    ok!(q, "CONFIG", "SET", "lease", "7s", "max-length", 2, "max-payload", 4, "stale-policy", "keep");
    for (field, value) in [("max-length", "-1"), ("stale-policy", "%s"), ("max-delay", "5kb"), ("dead-max", "")] {
        q.raw::<i64>(args!["HSET", "q", field, value]);
        assert_eq!(shown(&mut q, field)[1], "invalid", "{field}");
    }
    q.raw::<i64>(args!["HSET", "q", "id-keep", "99999999999999999999d", "no-such", "x", "max-error", "2kb"]);
    assert_eq!(shown(&mut q, "max-error"), ["2048", "queue"]);
    assert_eq!(shown(&mut q, "max-length"), ["0", "invalid"]);
    for _ in 0..2 {
        ok!(q, "MPUSH", "PAYLOADS", 1, 2, 3);
        assert_error(&err!(q, "PUSH", "12345"), "DQSIZE", &[]);
        assert_eq!(q.claim().lease_ms, 7000);
        assert_eq!(shown(&mut q, "id-keep"), ["5m", "invalid"]);
        drop(q);
        server.crash_and_restart();
        q = server.queue("q");
    }
    assert_eq!(int(&ok!(q, "CONFIG", "RESET", "max-length", "id-keep")), 2);
    assert_eq!(shown(&mut q, "max-length"), ["0", "server"]);
}

#[test]
fn a_replica_follows_and_goes_by_them_when_it_is_promoted() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut q = primary.queue("q");
    let id = q.push("x");
    assert_replica_same(&primary, &replica);
    let mut r = replica.queue("q");
    assert_eq!(r.field(&id, "lease-ms"), "30000");
    ok!(q, "CONFIG", "SET", "lease", "7s", "max-payload", 2);
    assert_replica_same(&primary, &replica);
    assert_eq!(r.field(&id, "lease-ms"), "7000");
    ok!(q, "CONFIG", "SET", "lease", "8s");
    assert_replica_same(&primary, &replica);
    assert_eq!(r.field(&id, "lease-ms"), "8000");
    assert_error(&err!(r, "CONFIG", "GET"), "READONLY", &[]);
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    assert_error(&err!(r, "PUSH", "123"), "DQSIZE", &[]);
    assert_eq!(r.claim().lease_ms, 8000);
}

#[test]
fn an_empty_queue_with_settings_stays() {
    let server = Server::builder().set("purge-interval", "10").set("idle-queue-ttl", "1s").start();
    let (mut q, mut plain) = (server.queue("q"), server.queue("plain"));
    ok!(q, "CONFIG", "SET", "lease", "7s");
    ok!(plain, "CONFIG", "SET", "lease", "7s");
    ok!(plain, "CONFIG", "RESET", "lease");
    wait_for("the plain header to go", || plain.raw::<i64>(args!["EXISTS", "plain"]) == 0);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(shown(&mut q, "lease"), ["7s", "queue"]);
}

#[test]
fn it_works_at_maxmemory_and_in_multi() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    ok!(q, "CONFIG", "SET", "max-length", 1);
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("DQ.CONFIG").arg(&["q", "SET", "max-length", "2"]).cmd("DQ.PUSH").arg(&["q", "y"]);
    let (done, _): (String, String) = pipe.query(&mut q.con).expect("both answer");
    assert_eq!(done, "OK");
    assert_error(&err!(q, "PUSH", "z"), "DQFULL", &["2"]);
}

/// What another hand writes into the header counts at once for what follows in the same MULTI or script.
#[test]
fn a_header_written_in_multi_or_a_script_counts_for_what_follows() {
    let server = Server::start();
    let mut q = server.queue("q");
    q.push("x");
    assert_eq!(q.claim_with(args!["LEASE", "1ms"]).len(), 1);
    q.wait_stat("ready", 1);
    let in_multi = |q: &mut Queue, commands: &[Vec<Vec<u8>>]| {
        q.raw::<()>(args!["MULTI"]);
        commands.iter().for_each(|command| q.raw::<()>(command.clone()));
        q.raw::<Vec<redis::Value>>(args!["EXEC"])
    };
    let claimed = |replies: &[redis::Value]| list(replies.last().expect("the claim answers")).len();
    let pause = [args!["HSET", "q", "paused", 1], args!["DQ.CLAIM", "q"]];
    assert_eq!(claimed(&in_multi(&mut q, &pause)), 0);
    assert!(q.claim_with(args![]).is_empty(), "and it goes on to count");
    let lift = [args!["HDEL", "q", "paused"], args!["DQ.CLAIM", "q"]];
    assert_eq!(claimed(&in_multi(&mut q, &lift)), 1);
    // Between two commands of DQ, too.
    let between = [args!["DQ.PUSH", "q", "a"], args!["HSET", "q", "paused", 1], args!["DQ.CLAIM", "q"]];
    assert_eq!(claimed(&in_multi(&mut q, &between)), 0);
    in_multi(&mut q, &lift);
    const SCRIPT: &str = "redis.call('HSET', KEYS[1], 'max-payload', 3)
        return redis.pcall('DQ.PUSH', KEYS[1], '1234').err";
    let refusal: String = q.raw(args!["EVAL", SCRIPT, 1, "q"]);
    assert!(refusal.contains("DQSIZE"), "{refusal}");
}

/// Outside of them it counts when the queue is looked over next, and who waits is served then.
#[test]
fn a_header_written_by_hand_counts_within_the_purge_interval() {
    let server = Server::builder().set("purge-interval", "10").start();
    let mut q = server.queue("q");
    q.push("x");
    q.raw::<i64>(args!["HSET", "q", "paused", 1]);
    q.wait_stat("paused", 1);
    assert!(q.claim_with(args![]).is_empty());
    let mut con = server.conn();
    let waiting = std::thread::spawn(move || {
        redis::cmd("DQ.CLAIM").arg("q").arg("BLOCK").arg(0).query::<redis::Value>(&mut con).expect("it is served")
    });
    q.wait_stat("waiting", 1);
    q.raw::<i64>(args!["HDEL", "q", "paused"]);
    assert_eq!(Job::of(&list(&waiting.join().expect("the waiter ends well"))[0]).payload, b"x");
    q.raw::<i64>(args!["HSET", "q", "max-payload", 3]);
    wait_for("the setting to count", || {
        q.call("PUSH", args!["1234"]).is_err_and(|e| error_text(&e).starts_with("DQSIZE "))
    });
}

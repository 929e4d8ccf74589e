//! Settings: CONFIG GET and SET, lines of redis.conf, arguments of the load.

use std::collections::BTreeMap;
use std::fs;

use crate::common::server::module_path;
use crate::common::*;
use crate::{args, ok};

/// Name, default, a good value, and values that are refused.
const SETTINGS: [(&str, &str, &str, &[&str]); 24] = [
    ("lease", "30s", "10s", &["0", "-1", "1.5", "", "x"]),
    ("max-lease", "12h", "1h", &["0", "-1", "1w", ""]),
    ("max-retries", "300", "5", &["-1", "1.5", "5s", ""]),
    ("max-lapses", "5", "3", &["0", "-1", "x", ""]),
    ("backoff-base", "1s", "2s", &["0", "-1", ""]),
    ("backoff-cap", "5m", "10m", &["0", "-1", ""]),
    ("backoff-jitter", "0", "20", &["-1", "x", ""]),
    ("max-delay", "7d", "30d", &["-1", "x", ""]),
    ("max-payload", "1mb", "4096", &["-1", "x", ""]),
    ("max-length", "0", "1000", &["-1", "1.5", ""]),
    ("max-error", "64kb", "1000", &["-1", "x", ""]),
    ("far-horizon", "1h", "2h", &["-1", "x", ""]),
    ("far-alarm", "100000", "5", &["-1", "x", ""]),
    ("purge-interval", "5m", "1m", &["-1", "x", ""]),
    ("stale-after", "5m", "1h", &["-1", "x", ""]),
    ("stale-policy", "dead", "keep", &["", "delete", "no"]),
    ("dead-max", "100000", "10", &["-1", "x", ""]),
    ("dead-max-age", "90d", "1d", &["-1", "x", ""]),
    ("id-keep", "5m", "1h", &["-1", "x", ""]),
    ("takeover-grace", "5s", "0", &["-1", "x", ""]),
    ("idle-queue-ttl", "1d", "1h", &["-1", "x", ""]),
    ("max-waiting-memory", "auto", "10mb", &["0", "-1", "x", ""]),
    ("clock-step", "slew", "follow", &["", "jump", "yes"]),
    ("enabled", "yes", "no", &["", "maybe", "2"]),
];

/// A value in one spelling: durations in ms, sizes in bytes.
fn plain(value: &str) -> String {
    let value = value.to_ascii_lowercase();
    for (unit, factor) in
        [("kb", 1024), ("mb", 1 << 20), ("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)]
    {
        if let Some(Ok(n)) = value.strip_suffix(unit).map(str::parse::<u64>) {
            return (n * factor).to_string();
        }
    }
    value
}

fn all(server: &Server) -> BTreeMap<String, String> {
    let reply: BTreeMap<String, String> =
        redis::from_redis_value(&server.run(&["CONFIG", "GET", "dq.*"])).expect("pairs");
    reply.into_iter().map(|(name, value)| (name.replacen("dq.", "", 1), plain(&value))).collect()
}

#[test]
fn every_setting_is_there_with_its_default() {
    let server = Server::with_grace().start();
    let expected: BTreeMap<String, String> =
        SETTINGS.iter().map(|(name, default, ..)| (name.to_string(), plain(default))).collect();
    assert_eq!(all(&server), expected);
}

#[test]
fn config_set_takes_good_values_and_refuses_bad_ones() {
    let server = Server::start();
    for (name, default, good, bad) in SETTINGS {
        let full = format!("dq.{name}");
        server.run(&["CONFIG", "SET", &full, good]);
        assert_eq!(all(&server)[name], plain(good));
        for bad in bad.iter().copied().chain([
            "18446744073709551616",
            "9223372036854775808",
            "99999999999999999999999d",
            "%s%n",
            " 5",
            "5 ",
        ]) {
            let e = server.try_run(&["CONFIG", "SET", &full, bad]).expect_err(&format!("{full} took {bad:?}"));
            assert!(e.to_string().contains(&full), "{e}");
            assert_eq!(all(&server)[name], plain(good), "{bad:?} changed it");
        }
        server.run(&["CONFIG", "SET", &full, default]);
        assert_eq!(all(&server)[name], plain(default));
    }
    assert!(server.try_run(&["CONFIG", "SET", "dq.nonsense", "5"]).is_err());
}

#[test]
fn units_and_words_come_in_any_case() {
    let server = Server::start();
    for (name, value, shown) in [
        ("lease", "1500", "1500"),
        ("lease", "45S", "45000"),
        ("lease", "2M", "120000"),
        ("lease", "250ms", "250"),
        ("max-payload", "2MB", "2097152"),
        ("max-payload", "3kb", "3072"),
        ("max-waiting-memory", "64MB", "67108864"),
        ("max-waiting-memory", "AUTO", "auto"),
        ("stale-policy", "DROP", "drop"),
        ("clock-step", "Follow", "follow"),
        ("enabled", "YES", "yes"),
    ] {
        server.set(name, value);
        assert_eq!(all(&server)[name], shown);
    }
}

#[test]
fn several_in_one_config_set_are_taken_together_or_not_at_all() {
    let server = Server::start();
    server.run(&["CONFIG", "SET", "dq.lease", "9s", "dq.max-lapses", "7"]);
    let e = server.try_run(&["CONFIG", "SET", "dq.lease", "8s", "dq.max-lapses", "0"]);
    assert!(e.is_err());
    let now = all(&server);
    assert_eq!((&now["lease"][..], &now["max-lapses"][..]), ("9000", "7"));
}

#[test]
fn lines_of_redis_conf_are_taken() {
    let mut builder = Server::with_grace();
    for (name, _, good, _) in SETTINGS {
        builder = builder.set(name, good);
    }
    let server = builder.start();
    let expected: BTreeMap<String, String> =
        SETTINGS.iter().map(|(name, _, good, _)| (name.to_string(), plain(good))).collect();
    assert_eq!(all(&server), expected);
}

#[test]
fn arguments_of_the_load_are_taken() {
    let words: Vec<String> = SETTINGS.iter().map(|(name, _, good, _)| format!("{name} {good}")).collect();
    let server = Server::with_grace().load_args(&words.join(" ")).start();
    let expected: BTreeMap<String, String> =
        SETTINGS.iter().map(|(name, _, good, _)| (name.to_string(), plain(good))).collect();
    assert_eq!(all(&server), expected);
}

#[test]
fn the_settings_act() {
    let server = Server::with_grace().load_args("lease 9s max-retries 1").start();
    let mut q = server.queue("q");
    let job = q.push_and_claim("x");
    assert_eq!((job.lease_ms, job.retries_left), (9000, 1));
}

#[test]
fn a_bad_line_stops_the_start_with_a_message_that_names_it() {
    for (name, _, _, bad) in SETTINGS {
        let value = bad.iter().find(|bad| !bad.is_empty()).expect("a bad value");
        let log = match Server::with_grace().set(name, value).try_start() {
            Err(log) => log,
            Ok(_) => panic!("the server started with dq.{name} {value}"),
        };
        assert!(log.contains(&format!("dq.{name}")), "{log}");
    }
    let log = match Server::with_grace().set("nonsense", "5").try_start() {
        Err(log) => log,
        Ok(_) => panic!("the server started with dq.nonsense"),
    };
    // That no setting has the name is the server's to say: it does not show the name to a module.
    assert!(log.contains("onfiguration"), "{log}");
}

#[test]
fn bad_load_arguments_stop_the_start_with_a_message_that_names_them() {
    for (words, named) in [
        ("nonsense 5", "nonsense"),
        ("lease 0", "lease"),
        ("lease", "lease"),
        ("max-lapses -1", "max-lapses"),
        ("stale-policy burn", "stale-policy"),
        ("lease 5s nonsense", "nonsense"),
        ("%s%n 5", "%s%n"),
    ] {
        let log = match Server::with_grace().load_args(words).try_start() {
            Err(log) => log,
            Ok(_) => panic!("the server started with {words}"),
        };
        assert!(log.contains(named), "{words}: {log}");
    }
}

#[test]
fn module_load_takes_arguments_and_refuses_bad_ones() {
    let mut server = Server::builder().without_module().start();
    let path = module_path();
    let path = path.to_str().expect("a path in UTF-8");
    for bad in [&["nonsense", "5"][..], &["lease", "0"], &["lease"], &["lease", ""], &["%s", "%n"]] {
        let mut words = vec!["MODULE", "LOAD", path];
        words.extend(bad);
        assert!(server.try_run(&words).is_err(), "{bad:?}");
        server.assert_alive();
    }
    server.run(&["MODULE", "LOAD", path, "lease", "9s", "dead-max", "7"]);
    let now = all(&server);
    assert_eq!((&now["lease"][..], &now["dead-max"][..]), ("9000", "7"));
    assert_eq!(server.queue("q").push_and_claim("x").lease_ms, 9000);
}

#[test]
fn module_loadex_takes_settings() {
    let mut server = Server::builder().without_module().start();
    let path = module_path();
    let path = path.to_str().expect("a path in UTF-8");
    for (name, value) in [("dq.lease", "0"), ("dq.nonsense", "5")] {
        let words = ["MODULE", "LOADEX", path, "CONFIG", name, value];
        assert!(server.try_run(&words).is_err(), "{name} {value}");
        server.assert_alive();
    }
    server.run(&["MODULE", "LOADEX", path, "CONFIG", "dq.lease", "9s"]);
    assert_eq!(all(&server)["lease"], "9000");
}

#[test]
fn config_rewrite_keeps_what_was_set() {
    let mut server = Server::start();
    server.set("lease", "9s");
    server.set("stale-policy", "keep");
    server.run(&["CONFIG", "REWRITE"]);
    let conf = fs::read_to_string(server.dir().join("redis.conf")).expect("redis.conf is there");
    assert!(conf.contains("dq.lease"), "{conf}");
    assert!(conf.contains("dq.stale-policy"), "{conf}");
    server.assert_alive();
}

#[test]
fn the_module_goes_once_it_is_disabled_and_comes_back() {
    let mut server = Server::start();
    let mut q = server.queue("q");
    let held = q.push_and_claim("held");
    q.push("due");
    let before = server.dump();
    server.set("enabled", "no");
    wait_for("the module to go", || server.try_run(&["MODULE", "UNLOAD", "dq"]).is_ok());
    q.unwatched();
    // The connection went with the module: its last command was one of the module's.
    let mut q = server.queue("q");
    q.unwatched();
    assert!(q.call("STATS", args![]).is_err(), "the module is gone");
    assert_eq!(server.dump(), before, "and the data is there");
    server.assert_alive();
    let path = module_path();
    let path = path.to_str().expect("a path in UTF-8");
    server.run(&["MODULE", "LOAD", path, "takeover-grace", "0"]);
    q.watched();
    assert_eq!(q.ack(&held.receipt), 1);
    assert_eq!(q.claim().payload, b"due");
    // A stat counts since the module was loaded.
    assert_eq!(q.stats(["pushed", "claimed", "acked"]), [0, 1, 1]);
    ok!(q, "CHECK");
}

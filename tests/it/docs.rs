//! What the server tells about the commands: COMMAND DOCS, INFO, GETKEYS, arity, ACL. And what the page on guarantees
//! tells about the tests, and the one on troubleshooting about errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use redis::Value;

use crate::args;
use crate::common::*;

/// Name, arity (several are right where the contract leaves room), flags it must have, flags it
/// must not have, tokens of its arguments.
type Facts = (&'static str, &'static [i64], &'static [&'static str], &'static [&'static str], &'static [&'static str]);

const COMMANDS: &[Facts] = &[
    (
        "push",
        &[-3],
        &["write", "denyoom"],
        &["readonly"],
        &["ID", "KEEP", "NX", "REPLACE", "DELAY", "AT", "RETRIES", "LEASE", "BACKOFF"],
    ),
    (
        "mpush",
        &[-2],
        &["write", "denyoom"],
        &["readonly"],
        &["DELAY", "AT", "RETRIES", "LEASE", "BACKOFF", "KEEP", "NX", "REPLACE", "PAYLOADS", "JOBS"],
    ),
    ("claim", &[-2], &["write", "blocking"], &["denyoom", "readonly"], &["COUNT", "LEASE", "BLOCK"]),
    (
        "mclaim",
        &[-3],
        &["write", "blocking", "movablekeys"],
        &["denyoom", "readonly"],
        &["COUNT", "LEASE", "BLOCK", "ORDER", "STRICT", "ROTATE"],
    ),
    ("pause", &[2], &["write"], &["readonly"], &[]),
    ("resume", &[2], &["write"], &["readonly"], &[]),
    ("ack", &[-3], &["write"], &["denyoom", "readonly"], &["EACH"]),
    ("retry", &[-3], &["write"], &["denyoom", "readonly"], &["DELAY", "ERROR", "STACK"]),
    ("release", &[-2], &["write"], &["denyoom", "readonly"], &["DELAY", "RECEIPTS"]),
    ("fail", &[-3], &["write"], &["denyoom", "readonly"], &["ERROR", "STACK"]),
    ("extend", &[-4], &["write"], &["denyoom", "readonly"], &[]),
    ("stats", &[2], &["readonly"], &["write", "denyoom"], &[]),
    ("get", &[3], &["readonly"], &["write", "denyoom"], &[]),
    ("check", &[2], &["readonly", "blocking"], &["write", "denyoom"], &[]),
    ("repair", &[2], &["write", "blocking"], &["denyoom", "readonly"], &[]),
    (
        "peek",
        &[-2],
        &["readonly"],
        &["write", "denyoom"],
        &["STATE", "READY", "DELAYED", "LEASED", "DEAD", "COUNT", "AFTER"],
    ),
    ("cancel", &[-3], &["write"], &["denyoom", "readonly"], &["STATE", "READY", "DELAYED", "LEASED", "DEAD"]),
    ("reschedule", &[-2], &["write"], &["denyoom", "readonly"], &["DELAY", "AT", "ALL", "IDS"]),
    ("purge", &[-2], &["write"], &["denyoom", "readonly"], &["STATE", "READY", "DELAYED", "LEASED", "DEAD"]),
    (
        "replay",
        &[-2],
        &["write", "denyoom", "blocking"],
        &["readonly"],
        &["REASON", "COUNT", "DELAY", "SPREAD", "ALL", "IDS"],
    ),
    ("drop", &[-2], &["write"], &["denyoom", "readonly"], &["FORCE"]),
    ("config", &[-3], &["write"], &["denyoom", "readonly"], &["GET", "SET", "RESET"]),
    ("queues", &[-1], &["readonly", "blocking"], &["write", "denyoom"], &["MATCH"]),
];

/// Tokens that are values of an option.
const WORDS: &[&str] = &["STRICT", "ROTATE", "READY", "DELAYED", "LEASED", "DEAD"];

#[test]
fn the_module_has_exactly_these_commands() {
    let server = Server::start();
    let reply = server.run(&["COMMAND", "LIST", "FILTERBY", "MODULE", "dq"]);
    let found: BTreeSet<String> = list(&reply).iter().map(|v| text(v).to_lowercase()).collect();
    let expected: BTreeSet<String> = COMMANDS.iter().map(|(name, ..)| format!("dq.{name}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn command_info_says_arity_flags_and_key() {
    let server = Server::start();
    for &(name, arity, has, has_not, _) in COMMANDS {
        let reply = server.run(&["COMMAND", "INFO", &format!("dq.{name}")]);
        let info = list(&list(&reply)[0]);
        assert_eq!(text(&info[0]), format!("dq.{name}"));
        assert!(arity.contains(&int(&info[1])), "{name}: {:?}", info[1]);
        let flags: BTreeSet<String> = list(&info[2]).iter().map(text).collect();
        for flag in has {
            assert!(flags.contains(*flag), "{name}: {flags:?} without {flag}");
        }
        for flag in has_not {
            assert!(!flags.contains(*flag), "{name}: {flags:?} with {flag}");
        }
        assert!(flags.contains("module"), "{name}: {flags:?}");
        // Where the keys of MCLAIM are is told by its key specification only.
        let keys: Vec<i64> = info[3..6].iter().map(int).collect();
        let expected = if ["mclaim", "queues"].contains(&name) { [0, 0, 0] } else { [1, 1, 1] };
        assert_eq!(keys, expected, "{name}: first key, last key, step");
    }
}

#[test]
fn getkeys_finds_the_queue() {
    let server = Server::start();
    let receipt = server.queue("other").push_and_claim("x").receipt;
    let mut con = server.conn();
    for (name, words) in super::bad_input::all_commands(&receipt, "some") {
        for call in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let reply: Value = redis::cmd("COMMAND")
                .arg(call)
                .arg(format!("DQ.{name}"))
                .arg("the-queue")
                .arg(words.clone())
                .query(&mut con)
                .unwrap_or_else(|e| panic!("{call} of {name}: {e}"));
            let keys = list(&reply);
            assert_eq!(keys.len(), 1, "{name}");
            if call == "GETKEYS" {
                assert_eq!(text(&keys[0]), "the-queue", "{name}");
                continue;
            }
            let key = list(&keys[0]);
            assert_eq!(text(&key[0]), "the-queue", "{name}");
            let flags: Vec<String> = list(&key[1]).iter().map(text).collect();
            let reads = super::bad_input::READS.contains(&name);
            let access = if reads { "RO" } else { "RW" };
            assert!(flags.iter().any(|flag| flag == access), "{name}: {flags:?}");
        }
    }
}

#[test]
fn getkeys_finds_every_queue_of_mclaim() {
    let server = Server::start();
    let keys = server.run(&["COMMAND", "GETKEYS", "DQ.MCLAIM", "3", "a", "b", "c", "COUNT", "5"]);
    assert_eq!(texts(&keys), ["a", "b", "c"]);
    // With a number that is not true the keys cannot be known.
    for number in ["0", "-1", "4", "x"] {
        let mut words = vec!["DQ.MCLAIM", number, "a", "b", "c"];
        assert!(server.try_run(&words).is_err(), "{number}");
        words.splice(0..0, ["COMMAND", "GETKEYS"]);
        if let Ok(keys) = server.try_run(&words) {
            assert!(list(&keys).len() < 4, "{keys:?}");
        }
    }
}

#[test]
fn arity_is_enforced() {
    let server = Server::start();
    let mut q = server.queue("q");
    for &(name, arity, ..) in COMMANDS {
        let least = arity[0].unsigned_abs() as usize;
        for count in 1..least {
            let mut command = redis::cmd(&format!("DQ.{name}"));
            for _ in 1..count {
                command.arg("q");
            }
            let e = command.query::<Value>(&mut q.con).expect_err("too few");
            assert!(error_text(&e).contains("wrong number of arguments"), "{name} with {count}: {e}");
        }
    }
    for (name, extra) in [("STATS", args!["x"]), ("GET", args!["a", "b"])] {
        let e = q.err(name, extra);
        assert!(e.contains("wrong number of arguments"), "{name}: {e}");
    }
}

/// Every token among these arguments, however deep.
fn tokens(arguments: &Value, found: &mut BTreeSet<String>) {
    for argument in list(arguments) {
        let fields: BTreeMap<String, Value> = pairs(&argument).into_iter().collect();
        assert!(fields.contains_key("name"), "{fields:?}");
        assert!(fields.contains_key("type"), "{fields:?}");
        if let Some(token) = fields.get("token") {
            found.insert(text(token));
        }
        if let Some(inner) = fields.get("arguments") {
            tokens(inner, found);
        }
    }
}

#[test]
fn command_docs_tell_the_whole_syntax() {
    let server = Server::start();
    for &(name, .., expected) in COMMANDS {
        let full = format!("dq.{name}");
        let reply = server.run(&["COMMAND", "DOCS", &full]);
        let docs = pairs(&reply);
        assert_eq!(docs.len(), 1, "{name}");
        assert_eq!(docs[0].0, full);
        let docs: BTreeMap<String, Value> = pairs(&docs[0].1).into_iter().collect();
        let summary = text(&docs["summary"]);
        assert!(summary.len() > 10, "{name}: {summary}");
        assert!(!text(&docs["since"]).is_empty(), "{name}");
        assert!(text(&docs["complexity"]).contains('O'), "{name}");
        assert_eq!(text(&docs["group"]), "module");
        assert_eq!(text(&docs["module"]), "dq");
        let arguments = &docs["arguments"];
        let first: BTreeMap<String, Value> = pairs(&list(arguments)[0]).into_iter().collect();
        let kind = match name {
            "mclaim" => "integer",
            "queues" => "pattern",
            _ => "key",
        };
        assert_eq!(text(&first["type"]), kind, "{name}");
        let mut found = BTreeSet::new();
        tokens(arguments, &mut found);
        let expected: BTreeSet<String> = expected.iter().map(|t| t.to_string()).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn every_documented_token_is_understood() {
    let server = Server::start();
    let mut q = server.queue("q");
    for &(name, .., tokens) in COMMANDS {
        for token in tokens {
            if WORDS.contains(token) {
                continue;
            }
            // An option that is known is not reported as unknown, whatever else is wrong.
            let mut command = redis::cmd(&format!("DQ.{name}"));
            let first = match name {
                "mclaim" => args![1, "q"],
                "queues" => args![],
                _ => args!["q", "x"],
            };
            command.arg(first).arg(token).arg("y").arg("z");
            if let Err(e) = command.query::<Value>(&mut q.con) {
                let error = error_text(&e);
                assert!(!error.contains(&format!("unknown option '{token}'")), "{error}");
            }
        }
    }
}

#[test]
fn an_unknown_option_is_answered_with_those_that_there_are() {
    let server = Server::start();
    let mut q = server.queue("q");
    let receipt = q.push_and_claim("x").receipt;
    let mut met = BTreeSet::new();
    for (name, words) in [
        ("push", args!["q", "x"]),
        ("mpush", args!["q"]),
        ("claim", args!["q"]),
        ("mclaim", args![1, "q"]),
        ("retry", args!["q", &receipt]),
        ("release", args!["q"]),
        ("fail", args!["q", &receipt]),
        ("peek", args!["q"]),
        ("reschedule", args!["q"]),
        ("purge", args!["q"]),
        ("replay", args!["q"]),
        ("drop", args!["q"]),
        ("queues", args![]),
    ] {
        let mut command = redis::cmd(&format!("DQ.{name}"));
        let error = error_text(&command.arg(words).arg("nonsense").query::<Value>(&mut q.con).expect_err("no option"));
        let head = format!("ERR unknown option 'nonsense'; DQ.{} takes ", name.to_uppercase());
        let options = error.strip_prefix(&head).unwrap_or_else(|| panic!("{head}: {error}"));
        let (.., tokens) = COMMANDS.iter().find(|(of, ..)| *of == name).expect("it is documented");
        let known: BTreeSet<&str> = tokens.iter().copied().filter(|token| !WORDS.contains(token)).collect();
        assert_eq!(options.split(", ").collect::<BTreeSet<_>>(), known, "{name}");
        met.insert(name);
    }
    // What else has options takes them in one place only, and says there what it must be.
    let others: Vec<&str> = COMMANDS
        .iter()
        .filter(|(name, .., tokens)| !tokens.is_empty() && !met.contains(name))
        .map(|(name, ..)| *name)
        .collect();
    assert_eq!(others, ["ack", "cancel", "config"]);
}

#[test]
fn an_acl_pattern_on_the_queue_is_enough() {
    let server = Server::start();
    server.run(&["ACL", "SETUSER", "worker", "on", ">secret", "~mail", "+dq.push", "+dq.claim", "+dq.ack"]);
    let mut q = server.queue("mail");
    q.unwatched();
    redis::cmd("AUTH").arg("worker").arg("secret").exec(&mut q.con).expect("the user is there");
    let id = text(&q.ok("PUSH", args!["x"]));
    let jobs: Vec<Job> = list(&q.ok("CLAIM", args![])).iter().map(Job::of).collect();
    assert_eq!(jobs[0].id, id);
    assert_eq!(int(&q.ok("ACK", args![&jobs[0].receipt])), 1);
    let e = q.call("STATS", args![]).expect_err("not allowed");
    assert_error(&error_text(&e), "NOPERM", &[]);
    q.name = b"other".to_vec();
    let e = q.call("PUSH", args!["x"]).expect_err("not allowed");
    assert_error(&error_text(&e), "NOPERM", &[]);
    let e = redis::cmd("HGETALL").arg("dq:{mail}:jobs").query::<Value>(&mut q.con).expect_err("not allowed");
    assert_error(&error_text(&e), "NOPERM", &[]);
}

/// The tests that the page on guarantees names, as suite and path.
fn tests_on_the_page() -> BTreeSet<(String, String)> {
    let page = include_str!("../../docs/guarantees.md");
    let suites = fs::read_dir(tests_dir()).expect("there are tests");
    let suites: BTreeSet<String> = suites
        .map(|entry| entry.expect("an entry reads").path().file_stem().expect("it has a name").to_string_lossy().into())
        .collect();
    // Every second piece between backticks is code.
    let code = page.split('`').skip(1).step_by(2).filter_map(|code| code.split_once(' '));
    let named = code.filter(|(suite, path)| suites.contains(*suite) && !path.contains([' ', '-']));
    named.map(|(suite, path)| (suite.to_string(), path.to_string())).collect()
}

fn tests_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The source of a module of a suite, where every module on the way is declared by the one above.
fn source_of(suite: &str, modules: &[&str]) -> Option<String> {
    let file = |path: String| fs::read_to_string(tests_dir().join(path)).ok();
    let Some((last, above)) = modules.split_last() else {
        return file(format!("{suite}.rs")).or_else(|| file(format!("{suite}/main.rs")));
    };
    let declared =
        source_of(suite, above)?.lines().any(|line| line.trim_start_matches("pub ") == format!("mod {last};"));
    let path = format!("{suite}/{}", modules.join("/"));
    declared.then(|| file(format!("{path}.rs")).or_else(|| file(format!("{path}/mod.rs"))))?
}

/// Whether a source has a test of this name.
fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}()");
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_test =
        |at: usize| lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).any(|line| *line == "#[test]");
    (0..lines.len()).any(|at| lines[at].starts_with(&head) && is_test(at))
}

/// Every source of the module, without its unit tests.
fn sources(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("there is source").map(|entry| entry.expect("an entry reads").path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => {
                let text = fs::read_to_string(&path).expect("source is text");
                vec![text.split("#[cfg(test)]").next().unwrap_or_default().to_string()]
            }
        })
        .collect()
}

/// The words that the module's error replies begin with: texts that begin with a word in capitals which is no option.
fn error_codes() -> BTreeSet<String> {
    let options: BTreeSet<&str> = COMMANDS.iter().flat_map(|(.., tokens)| tokens.iter().copied()).collect();
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let texts =
        sources.iter().flat_map(|source| source.split([' ', '(', '\n']).filter_map(|word| word.strip_prefix('"')));
    let words = texts.map(|text| text.split('"').next().unwrap_or_default());
    let codes = words.filter(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()));
    codes.filter(|word| !options.contains(word)).map(String::from).collect()
}

#[test]
fn every_error_code_is_explained_on_the_page_on_troubleshooting() {
    let page = include_str!("../../docs/troubleshooting.md");
    let codes = error_codes();
    for known in ["ERR", "DQLOST", "DQFULL", "DQDELAY", "DQSIZE", "DQDISABLED", "UNBLOCKED", "NOPERM", "TRYAGAIN"] {
        assert!(codes.contains(known), "{known} was not found: errors are written otherwise now");
    }
    let missing: Vec<_> = codes.iter().filter(|code| !page.contains(&format!("\n| `{code}` | "))).collect();
    assert!(missing.is_empty(), "docs/troubleshooting.md does not explain {missing:?}");
}

#[test]
fn every_test_that_the_page_on_guarantees_names_exists() {
    let named = tests_on_the_page();
    let missing: Vec<_> = named
        .iter()
        .filter(|(suite, path)| {
            let mut modules: Vec<&str> = path.split("::").collect();
            let name = modules.pop().expect("a path has an end");
            !source_of(suite, &modules).is_some_and(|source| has_test(&source, name))
        })
        .collect();
    assert!(missing.is_empty(), "docs/guarantees.md names tests that are not there: {missing:?}");
    assert!(named.len() > 100, "only {} names were found: the page is written otherwise now", named.len());
    for case in 1..=17 {
        let class = format!("cases::case_{case:02}_");
        assert!(named.iter().any(|(_, path)| path.starts_with(&class)), "no test shows class {case}");
    }
    let readme = include_str!("../../README.md");
    assert!(readme.contains("](docs/guarantees.md)"), "the README does not lead to the page");
}

//! Every configuration that the documents show keeps its jobs over an orderly restart.

use std::fs;
use std::path::Path;

use crate::common::dump::Keyspace;
use crate::common::server::Builder;
use crate::common::*;
use crate::{args, ok};

/// What the tests' servers set themselves.
const OWN: [&str; 5] = ["bind", "port", "dir", "loadmodule", "enable-module-command"];

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn with_lines<'a>(builder: Builder, lines: impl IntoIterator<Item = &'a str>) -> Builder {
    lines
        .into_iter()
        .filter(|line| !OWN.contains(&line.split(' ').next().unwrap_or_default()))
        .fold(builder, Builder::line)
}

/// A server by redis.conf.example as it is.
fn example() -> Builder {
    let text = file("redis.conf.example");
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
    with_lines(Server::with_grace().with_admin(), lines)
}

/// The lines that redis.conf.example offers: those that are one as soon as the # is gone.
fn offered() -> Vec<String> {
    let text = file("redis.conf.example");
    let bare = |line: &str| line.strip_prefix("#   ").or_else(|| line.strip_prefix('#')).map(String::from);
    let is_line = |line: &String| line.starts_with("user ") || line.starts_with("notify-keyspace-events ");
    text.lines().filter_map(bare).filter(is_line).collect()
}

/// The lines in the fenced blocks of one language of a document.
fn blocks(name: &str, language: &str) -> Vec<String> {
    let (text, mut inside, mut lines) = (file(name), false, Vec::new());
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(rest) => inside = !inside && rest == language,
            None if inside => lines.push(line.to_string()),
            None => {}
        }
    }
    lines
}

/// Jobs in every state, in two databases, and steps of every kind in the log.
fn write(server: &Server) -> Keyspace {
    for (db, name) in [(0, "mail"), (0, "{t}:report"), (3, "mail")] {
        let mut q = server.queue_in(db, name);
        let done = q.push_and_claim("done");
        q.ack(&done.receipt);
        q.push_many(10, &[]);
        q.push_many(3, &args!["DELAY", "1h"]);
        ok!(q, "PUSH", "mine", "ID", "mine", "DELAY", "2h");
        let jobs = q.claim_n(4);
        q.ack(&jobs[0].receipt);
        q.fail(&jobs[1].receipt);
        ok!(q, "RETRY", &jobs[2].receipt, "DELAY", "1h");
        let mut gone = server.queue_in(db, "gone");
        gone.push_many(2, &[]);
        ok!(gone, "DROP");
    }
    server.dump()
}

fn restart(server: &mut Server) {
    server.signal(libc::SIGTERM);
    server.ended();
    server.start_again();
}

/// Writes, ends the server by SIGTERM, starts it again and counts.
#[track_caller]
fn keeps_its_jobs(what: &str, builder: Builder) {
    let mut server = builder.start();
    let before = write(&server);
    assert_eq!(server.info("dq", "dq_aof_loadable"), "1", "{what}");
    assert!(!server.log().contains("can lose all jobs"), "{what}");
    restart(&mut server);
    assert_eq!(server.dump(), before, "{what}");
    for (db, name) in [(0, "mail"), (0, "{t}:report"), (3, "mail")] {
        server.queue_in(db, name).check_clean();
    }
}

#[test]
fn redis_conf_example_keeps_its_jobs_whatever_of_it_is_switched_on() {
    let offered = offered();
    assert!(offered.len() >= 6 && offered.iter().any(|line| line.starts_with("user default off")), "{offered:?}");
    keeps_its_jobs("as it is", example());
    for line in &offered {
        keeps_its_jobs(line, example().line(line));
    }
    keeps_its_jobs("all lines", with_lines(example(), offered.iter().map(String::as_str)));
}

#[test]
fn the_users_of_the_documents_keep_the_jobs() {
    for page in ["docs/users.md", "docs/monitoring.md", "docs/troubleshooting.md"] {
        let text = file(page);
        let (_, users): (Vec<_>, Vec<_>) =
            text.lines().map(|line| line.split_once("ACL SETUSER ").unwrap_or_default()).unzip();
        let users: Vec<_> = users.into_iter().filter(|user| user.contains(" on ") || user.contains(" off")).collect();
        assert!(!users.is_empty(), "{page} has none");
        // In redis.conf, and by ACL SETUSER with CONFIG REWRITE.
        let lines: Vec<_> = users.iter().map(|user| format!("user {}", user.replace(['\'', '`'], ""))).collect();
        keeps_its_jobs(page, with_lines(example(), lines.iter().map(String::as_str)));
        if page == "docs/users.md" {
            let mut server = example().start();
            for user in users {
                let words: Vec<_> = ["ACL", "SETUSER"].into_iter().chain(user.split_whitespace()).collect();
                server.run(&words);
            }
            let before = write(&server);
            server.run(&["CONFIG", "REWRITE"]);
            let rewritten = fs::read_to_string(server.dir().join("redis.conf")).expect("redis.conf");
            let lines: Vec<_> = rewritten.lines().filter(|line| line.starts_with("user ")).collect();
            assert_eq!(lines.len(), 6, "{lines:?}");
            let builder =
                lines.into_iter().filter(|line| !line.starts_with("user test-admin")).fold(example(), Builder::line);
            server.signal(libc::SIGTERM);
            server.ended();
            server.start_again_as(builder);
            assert_eq!(server.dump(), before);
        }
    }
}

#[test]
fn the_lines_of_operations_keep_the_jobs() {
    let lines = blocks("docs/operations.md", "conf");
    assert!(lines.iter().any(|line| line.starts_with("min-replicas")), "{lines:?}");
    keeps_its_jobs("docs/operations.md", with_lines(example(), lines.iter().map(String::as_str)));
    // The table of what an orderly end loses: only the first row keeps nothing.
    let text = file("docs/operations.md");
    let rows = text.lines().skip_while(|line| !line.starts_with("| redis.conf |")).skip(2);
    let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 4, "{rows:?}");
    for row in rows {
        let cell = row.split('|').nth(1).expect("a cell");
        let lines: Vec<_> = cell.split('`').skip(1).step_by(2).collect();
        let builder = with_lines(Server::with_grace().with_admin(), lines.iter().copied());
        if lines.contains(&"appendonly no") {
            let mut server = builder.start();
            write(&server);
            restart(&mut server);
            assert_eq!(server.dump(), Keyspace::default(), "{row}");
        } else {
            keeps_its_jobs(row, builder);
        }
    }
}

#[test]
fn a_warning_tells_of_each_right_that_the_log_needs() {
    // With `+` the log can be loaded with these rules of the default user, with `?` it depends on the server, and without
    // it cannot.
    let cases = [
        "off",
        "+ on nopass ~* &* +@all",
        "+ off ~* &* +@all",
        "off ~* +@all -zadd",
        "off ~* +@all -zrem",
        "off ~* +@all -hset",
        "off ~* +@all -hdel",
        "off ~* +@all -unlink",
        "+ off ~* +@all -multi -exec -config -acl -keys",
        "+ off ~* -@all +select +zadd +zrem +hset +hdel +unlink",
        "off ~dq:* +@all",
        "off ~mail ~{t}:report +@all",
        "off %R~* +@all",
        "off &* +@all",
        "? off ~* +@all -select",
    ];
    let version = Server::start().version();
    // This one loads every log.
    let needs_no_rights = version.starts_with("valkey 9.1");
    for case in cases {
        let (rules, is_lost) = match case.strip_prefix("+ ") {
            Some(rules) => (rules, false),
            None => (case.trim_start_matches("? "), !needs_no_rights),
        };
        let warned = |server: &Server| server.log().matches("dq: the next restart can lose all jobs").count();
        let mut server = Server::with_grace().with_admin().aof().start();
        let before = write(&server);
        assert_eq!(warned(&server), 0);
        server.kill();
        // As redis.conf gives the user its rules: from none on.
        let as_user = |rules: &str| Server::with_grace().with_admin().aof().line(&format!("user default {rules}"));
        server.start_again_as(as_user(rules));
        assert!((server.dump() != before) == is_lost || case.starts_with('?') && is_lost, "{rules}");
        if is_lost {
            // Some queue is known again, and its database.
            server.queue_in(3, "known").unwatched().push("x");
            wait_for("the warning", || warned(&server) > 0);
        }
        assert_eq!(server.info("dq", "dq_aof_loadable"), if is_lost { "0" } else { "1" }, "{rules}");
        assert_eq!(warned(&server), usize::from(is_lost), "{rules}");
        server.kill();
        // The file still has all.
        server.start_again_as(as_user("off ~* &* +@all"));
        let mut after = server.queue("mail");
        assert_eq!(after.stats(["delayed", "leased", "dead"]), [5, 1, 1], "{rules}");
    }
}

#[test]
fn a_change_of_the_rights_in_a_running_server_is_noticed() {
    let server = Server::builder().with_admin().aof().start();
    if server.version().starts_with("valkey 9.1") {
        return skip("Valkey 9.1 loads every AOF, whatever the rights of the default user");
    }
    let warned = || server.log().matches("dq: the next restart can lose all jobs").count();
    let loadable = || server.info("dq", "dq_aof_loadable");
    assert_eq!(loadable(), "1");
    server.run(&["ACL", "SETUSER", "default", "-hset"]);
    assert_eq!(loadable(), "0");
    // The server does not tell of it: it is looked for.
    wait_for("the warning", || warned() == 1);
    assert!(server.log().contains("may not run HSET"));
    // A setting that is set has it looked at at once, and the same is not told twice.
    server.run(&["CONFIG", "SET", "hz", "20"]);
    assert_eq!(warned(), 1);
    server.run(&["CONFIG", "SET", "appendonly", "no"]);
    assert_eq!((loadable(), warned()), ("1".into(), 1));
    server.run(&["CONFIG", "SET", "appendonly", "yes"]);
    assert_eq!((loadable(), warned()), ("0".into(), 2));
    server.run(&["ACL", "SETUSER", "default", "+hset"]);
    assert_eq!(loadable(), "1");
}

//! A server that lacks a command which DQ writes or calls does not load the module: `rename-command` in redis.conf.

use crate::common::*;

/// Every command that DQ hands to the AOF and the replicas, or calls.
const NEEDED: [&str; 15] = [
    "CLIENT", "CONFIG", "EXEC", "EXISTS", "HDEL", "HSET", "INFO", "MEMORY", "MULTI", "SELECT", "UNLINK", "ZADD",
    "ZCOUNT", "ZRANGE", "ZREM",
];

/// What the server logs instead of starting.
fn refusal(line: &str) -> String {
    match Server::builder().line(line).try_start() {
        Ok(_) => panic!("the server starts with {line}"),
        Err(log) => log,
    }
}

#[test]
fn the_module_is_not_loaded_without_a_command_that_it_needs() {
    for command in NEEDED {
        for new_name in ["\"\"", "another-name"] {
            let log = refusal(&format!("rename-command {command} {new_name}"));
            let reason = format!("dq: not loaded: the server has no command {command}, which DQ needs");
            assert!(log.contains(&reason), "{command} as {new_name}:\n{log}");
        }
    }
}

#[test]
fn the_page_on_what_goes_wrong_names_them_all() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/troubleshooting.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (_, rest) = page.split_once("DQ needs CLIENT").expect("the list");
    let list = format!("CLIENT{}", rest.split(" |").next().unwrap_or_default());
    assert_eq!(list.replace(" and ", ", ").split(", ").collect::<Vec<_>>(), NEEDED);
}

#[test]
fn commands_that_it_does_not_need_may_be_renamed() {
    let others = ["FLUSHALL", "FLUSHDB", "KEYS", "SHUTDOWN", "SCRIPT", "SAVE", "DEL", "ACL"];
    let builder =
        others.iter().fold(Server::builder().aof(), |it, name| it.line(&format!("rename-command {name} \"\"")));
    let mut server = builder.start();
    let mut q = server.queue("q");
    q.push_many(3, &[]);
    let jobs = q.claim_n(2);
    q.ack(&jobs[0].receipt);
    q.fail(&jobs[1].receipt);
    q.ok("CONFIG", crate::args!["SET", "lease", "1m"]);
    drop(q);
    server.crash_and_restart();
    let mut q = server.queue("q");
    assert_eq!(q.stats(["ready", "leased", "dead"]), [1, 0, 1]);
    q.ok("DROP", crate::args!["FORCE"]);
}

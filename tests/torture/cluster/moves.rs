//! Slots that move: key by key with pauses between them, by the tool that comes with the server, and in one piece.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::dice::Dice;
use crate::common::{bytes, list, text, wait_until, Server};

use super::topology::Cluster;

/// How long one key may take to move, in ms.
const KEY_TIMEOUT_MS: &str = "10000";

/// Moves a slot key by key, as slowly that clients meet each state between.
pub fn step_by_step(cluster: &Cluster, slot: u16, to: usize, dice: &mut Dice) {
    let from = cluster.owner(slot);
    let (source, target) = (&cluster.nodes[from], &cluster.nodes[to]);
    let number = slot.to_string();
    target.server.run(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &source.id]);
    source.server.run(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &target.id]);
    pause(dice);
    loop {
        let keys = list(&source.server.run(&["CLUSTER", "GETKEYSINSLOT", &number, "100"]));
        if keys.is_empty() {
            break;
        }
        migrate(&source.server, target.server.port, &bytes(dice.pick(&keys)));
        pause(dice);
    }
    // The source refuses where a key of the slot has come back meanwhile.
    let others = cluster.primaries().into_iter().filter(|primary| ![from, to].contains(primary));
    for owner in [to, from].into_iter().chain(others) {
        cluster.nodes[owner].server.run(&["CLUSTER", "SETSLOT", &number, "NODE", &target.id]);
    }
    cluster.settle();
}

fn pause(dice: &mut Dice) {
    std::thread::sleep(Duration::from_millis(dice.between(20, 250)));
}

fn migrate(source: &Server, port: u16, key: &[u8]) {
    let done: String = redis::cmd("MIGRATE")
        .arg("127.0.0.1")
        .arg(port)
        .arg(key)
        .arg(0)
        .arg(KEY_TIMEOUT_MS)
        .query(&mut source.conn())
        .expect("the key moves");
    assert!(["OK", "NOKEY"].contains(&done.as_str()), "{done}");
}

/// The program that is the server's command line: `DQ_TEST_CLI`, split at blanks, or `redis-cli`; `None` where there is
/// none.
pub fn tool() -> Option<Vec<String>> {
    let line = std::env::var("DQ_TEST_CLI").unwrap_or_else(|_| "redis-cli".to_string());
    let words: Vec<String> = line.split_whitespace().map(String::from).collect();
    let output = command(&words).arg("--version").output().ok()?;
    output.status.success().then_some(words)
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    command
}

fn must_work(output: &Output) {
    let said = [&output.stdout[..], &output.stderr[..]].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success() && !said[0].contains("[ERR]"), "the tool failed: {}\n{}", said[0], said[1]);
}

/// `--cluster reshard`: the first so many slots of one node go to another, one key at a time.
pub fn reshard(tool: &[String], cluster: &Cluster, from: usize, to: usize, slots: u16) {
    let output = command(tool)
        .args(["--cluster", "reshard", &format!("127.0.0.1:{}", cluster.nodes[0].server.port)])
        .args(["--cluster-from", &cluster.nodes[from].id, "--cluster-to", &cluster.nodes[to].id])
        .args(["--cluster-slots", &slots.to_string(), "--cluster-pipeline", "1", "--cluster-yes"])
        .output()
        .expect("the tool runs");
    must_work(&output);
    cluster.settle();
}

/// `--cluster rebalance`: every primary gets as many slots as the others.
pub fn rebalance(tool: &[String], cluster: &Cluster) {
    let output = command(tool)
        .args(["--cluster", "rebalance", &format!("127.0.0.1:{}", cluster.nodes[0].server.port)])
        .args(["--cluster-threshold", "0.1", "--cluster-pipeline", "1"])
        .output()
        .expect("the tool runs");
    must_work(&output);
    cluster.settle();
}

/// Whether slots move in one piece here, as on Valkey 9.
pub fn in_one_piece_works(server: &Server) -> bool {
    list(&server.run(&["CLUSTER", "HELP"])).iter().any(|line| text(line).starts_with("MIGRATESLOTS"))
}

/// Has a slot move in one piece, and waits until it has.
pub fn in_one_piece(cluster: &Cluster, slot: u16, to: usize) {
    begin_in_one_piece(cluster, slot, to);
    wait_until_moved(cluster, slot, to);
}

pub fn begin_in_one_piece(cluster: &Cluster, slot: u16, to: usize) {
    let (source, number) = (&cluster.nodes[cluster.owner(slot)].server, slot.to_string());
    source.run(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &number, &number, "NODE", &cluster.nodes[to].id]);
}

pub fn wait_until_moved(cluster: &Cluster, slot: u16, to: usize) {
    wait_until("the slot to have moved", || {
        let seen = cluster.seen_by(&cluster.nodes[to]);
        let target = seen.iter().find(|seen| seen.id == cluster.nodes[to].id).expect("it knows itself");
        target.owns(slot).then_some(())
    });
    cluster.settle();
}

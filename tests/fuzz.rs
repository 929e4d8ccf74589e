//! What `make fuzz` does with foreign bytes, for a moment: the committed seeds, and bytes drawn from them.
//!
//! `DQ_TEST_SEED` draws the same again.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[path = "../fuzz/bodies/mod.rs"]
mod bodies;
#[allow(dead_code)]
#[path = "common/dice.rs"]
mod dice;

use dice::{seed, Dice};
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// How often bytes are drawn for each body.
const TIMES: u64 = 20_000;

/// Runs the body on every seed, then on bent ones and on noise.
fn fuzz(name: &str, body: fn(&[u8])) {
    let seeds = seeds(name);
    seeds.iter().for_each(|seed| body(seed));
    let seed = seed();
    eprintln!("DQ_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    for _ in 0..TIMES {
        let data = draw(&mut dice, &seeds);
        if catch_unwind(|| body(&data)).is_err() {
            panic!("{name}: broken by the bytes {}", data.escape_ascii());
        }
    }
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let files = fs::read_dir(&folder).expect("the seeds are there");
    let mut paths: Vec<_> = files.map(|file| file.expect("a seed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no seed in {}", folder.display());
    paths.iter().map(|path| fs::read(path).expect("a seed is read")).collect()
}

/// A seed with some bytes changed, put in, taken out or doubled; now and then bytes at random.
fn draw(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    if dice.one_in(8) {
        return (0..dice.between(0, 200)).map(|_| dice.next() as u8).collect();
    }
    let mut data = dice.pick(seeds).clone();
    for _ in 0..dice.between(1, 6) {
        let at = dice.between(0, data.len() as u64) as usize;
        match dice.between(0, 4) {
            0 if at < data.len() => data[at] = dice.next() as u8,
            1 if at < data.len() => data[at] ^= 1 << dice.between(0, 7),
            2 if at < data.len() => drop(data.remove(at)),
            3 => data.truncate(at),
            4 if at < data.len() => data.insert(at, data[at]),
            _ => data.insert(at, dice.next() as u8),
        }
    }
    data
}

#[test]
fn arguments() {
    fuzz("args", bodies::args::run);
}

#[test]
fn names_of_queues_and_keys() {
    fuzz("names", bodies::names::run);
}

#[test]
fn patterns() {
    fuzz("glob", bodies::glob::run);
}

#[test]
fn records_and_letters() {
    fuzz("record", bodies::record::run);
}

#[test]
fn receipts_and_ids() {
    fuzz("receipt", bodies::receipt::run);
}

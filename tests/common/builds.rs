//! The module taken out of a running server and put in again, and what that leaves behind.

use std::fs;
use std::path::{Path, PathBuf};

use super::server::{module_path, Server};
use super::wait_for;

/// Puts the module in from `path`, with the settings that the tests' servers have.
pub fn load(server: &Server, path: &Path) {
    server.run(&["MODULE", "LOADEX", &path.to_string_lossy(), "CONFIG", "dq.takeover-grace", "0"]);
}

/// MODULE UNLOAD of a disabled module, which may ask to be tried again for a moment; how often it did.
pub fn unload(server: &Server) -> usize {
    let mut tries = 0;
    wait_for("MODULE UNLOAD to work", || match server.try_run(&["MODULE", "UNLOAD", "dq"]) {
        Ok(_) => true,
        Err(_) => {
            tries += 1;
            false
        }
    });
    tries
}

/// The two ways into the module in turn, each a file of its own: another inode, as a new build is.
pub struct Builds {
    first: PathBuf,
    second: PathBuf,
}

impl Builds {
    pub fn new(server: &Server) -> Builds {
        let [first, second] = ["first.so", "second.so"].map(|name| {
            let path = server.dir().join(name);
            fs::copy(module_path(), &path).expect("the module is copied");
            path
        });
        Builds { first, second }
    }

    pub fn of(&self, round: usize) -> &Path {
        if round.is_multiple_of(2) {
            &self.first
        } else {
            &self.second
        }
    }

    /// Takes the module out and puts the other build in.
    pub fn change(&self, server: &Server, round: usize) {
        server.set("enabled", "no");
        unload(server);
        load(server, self.of(round));
    }
}

/// Bytes that the process has in memory.
pub fn resident(server: &Server) -> i64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("the process is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory is told");
    line.trim().trim_end_matches(" kB").trim().parse::<i64>().expect("a number") * 1024
}

/// Names of libraries of the module that the process has mapped.
pub fn mapped(server: &Server) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", server.pid())).expect("the process is there");
    let mut names: Vec<String> = maps
        .lines()
        .filter_map(|line| line.split('/').next_back())
        .filter(|name| name.contains(".so"))
        .map(String::from)
        .collect();
    names.retain(|name| ["first.so", "second.so", "libdq.so"].iter().any(|of| name.contains(of)));
    names.sort();
    names.dedup();
    names
}

/// Bytes that the server has in use, by its own count.
pub fn used_memory(server: &Server) -> i64 {
    server.info("memory", "used_memory").parse().expect("bytes")
}

/// The least by which what was measured in each of many rounds grew in ten of them. The server itself takes a block now
/// and then and keeps it; what each round leaves behind grows in any ten.
pub fn least_growth(rounds: &[i64]) -> i64 {
    rounds.windows(11).map(|ten| ten[10] - ten[0]).min().expect("rounds enough")
}

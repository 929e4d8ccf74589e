//! The module taken out and put in again, time after time, while clients come to wait and go.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::args;
use crate::client::Client;
use crate::common::builds::*;
use crate::common::*;
use crate::scene::*;

/// Threads in which one client after the other comes, waits for a job or for nothing, and goes.
struct Passers {
    threads: Vec<JoinHandle<()>>,
    over: Arc<AtomicBool>,
    /// How many have come and gone.
    passed: Arc<AtomicUsize>,
}

impl Passers {
    fn begin(server: &Server, threads: usize) -> Passers {
        let (over, passed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = (0..threads)
            .map(|place| {
                let (over, passed, address) = (over.clone(), passed.clone(), server.port);
                std::thread::spawn(move || {
                    let mut turn = place;
                    while !over.load(SeqCst) {
                        pass(Client::at(address), turn);
                        passed.fetch_add(1, SeqCst);
                        turn += 1;
                    }
                })
            })
            .collect();
        Passers { threads, over, passed }
    }

    /// Waits until so many more have come and gone.
    fn wait(&self, more: usize) {
        let wanted = self.passed.load(SeqCst) + more;
        wait_for("clients to come and go", || self.passed.load(SeqCst) >= wanted || self.has_failed());
        assert!(!self.has_failed(), "a client met what it should not");
    }

    fn has_failed(&self) -> bool {
        !self.over.load(SeqCst) && self.threads.iter().any(JoinHandle::is_finished)
    }

    fn end(mut self) {
        self.over.store(true, SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().expect("a client met what it should not"));
    }
}

impl Drop for Passers {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
    }
}

/// One client, from its coming to its going.
fn pass(mut client: Client, turn: usize) {
    let queue = format!("q{}", turn % 5);
    let block = [1, 3, 1, 20][turn % 4];
    let commands = match turn % 7 {
        0 => vec![args!["DQ.CLAIM", &queue, "BLOCK", 0]],
        1 => vec![args!["DQ.MCLAIM", 2, &queue, "none", "BLOCK", 0]],
        2 => vec![args!["MULTI"], args!["DQ.PUSH", &queue, "x"]],
        3 => vec![args!["DQ.PUSH", &queue, "x", "DELAY", turn % 3], args!["PING"]],
        4 => vec![args!["DQ.CLAIM", &queue, "BLOCK", block, "COUNT", 3], args!["PING"]],
        5 => vec![args!["DQ.CLAIM", &queue, "BLOCK", block], args!["DQ.STATS", &queue]],
        _ => vec![args!["DQ.MCLAIM", 1, &queue, "BLOCK", block], args!["GET", "x"]],
    };
    client.try_send_all(&commands);
    match turn % 7 {
        // Gone before it is answered, if it ever would be.
        0 | 2 => return,
        1 => return client.reset(),
        _ => {}
    }
    for _ in 0..2 {
        match client.read_or_closed() {
            // MODULE UNLOAD closes the connections of those whose last command was the module's.
            None => return,
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                let known = ["UNBLOCKED", "DQDISABLED", "ERR unknown command"];
                assert!(known.iter().any(|begin| error.starts_with(begin)), "{error}");
            }
        }
    }
}

#[test]
fn unloaded_and_loaded_among_clients_that_come_and_go() {
    const WARM: usize = 12;
    const ROUNDS: usize = 30;
    let mut server = Server::start();
    let builds = Builds::new(&server);
    let mut tries = 0;
    let (mut used, mut in_memory) = (Vec::new(), Vec::new());
    for round in 0..WARM + ROUNDS {
        let passers = Passers::begin(&server, 3);
        passers.wait(20);
        let mut waiters: Vec<Client> = (0..5).map(|_| Client::waiting(&server, "none", &["BLOCK", "0"])).collect();
        let gone = waiters.split_off(3);
        server.set("enabled", "no");
        drop(gone);
        for waiter in &mut waiters {
            assert_error(&waiter.error(), "UNBLOCKED", &[]);
        }
        tries += unload(&server);
        if round % 3 == 0 {
            // Some find no module at all.
            passers.wait(5);
        }
        load(&server, builds.of(round));
        passers.wait(20);
        passers.end();
        drop(waiters);
        wait_for("all to be gone", || {
            let clients = server.info("clients", "connected_clients");
            clients == "1" && server.info("dq", "dq_waiting") == "0" && blocked_clients(&server) == 0
        });
        assert_whole(&server);
        assert_eq!(mapped(&server).len(), 1, "the old build is still mapped: {:?}", mapped(&server));
        server.run(&["FLUSHALL"]);
        if round + 1 >= WARM {
            used.push(used_memory(&server));
            in_memory.push(resident(&server));
        }
    }
    let (first, last) = (in_memory[0], in_memory[in_memory.len() - 1]);
    eprintln!("unload was tried again {tries} times; used_memory {used:?}, RSS {first} -> {last}");
    assert!(least_growth(&used) < 4000, "used_memory grew in each ten of {ROUNDS} rounds: {used:?}");
    assert!(last - first < 4 << 20, "RSS grew by {} in {ROUNDS} rounds: {in_memory:?}", last - first);
    assert!(!server.log().contains("panicked"), "{}", server.log());
    server.assert_alive();
}

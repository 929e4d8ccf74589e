//! Very many waiters: what they cost while nothing is due, and what is left when they have gone.

use std::time::{Duration, Instant};

use crate::client::{pack, Client};
use crate::common::builds::used_memory;
use crate::common::*;
use crate::scene::*;
use crate::{args, ok};

/// As many file descriptors as the process may have.
fn raise_descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is a live struct, read and written by the calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Plain sockets that each sent one claim.
fn crowd(server: &Server, count: usize, claim: &[Vec<u8>]) -> Vec<std::net::TcpStream> {
    use std::io::Write;
    let claim = pack(claim);
    (0..count)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens");
            stream.write_all(&claim).expect("the socket takes it");
            stream
        })
        .collect()
}

#[test]
fn ten_thousand_waiters_that_all_leave() {
    // The server needs its share too, and the other tests of this program theirs.
    let count = raise_descriptors().saturating_sub(1000).min(10_000);
    eprintln!("{count} waiters");
    let server = Server::builder().line("maxclients 10100").set("max-waiting-memory", "512mb").start();
    let mut q = server.queue("q");
    q.unwatched();
    // Whatever is made once is made before the measure.
    drop(crowd(&server, 200, &args!["DQ.CLAIM", "q", "BLOCK", 0]));
    q.wait_stat("waiting", 0);
    let before = used_memory(&server);
    for how in ["close", "time-out", "kill", "unblocked"] {
        let block = if how == "time-out" { 4000 } else { 0 };
        let mut waiters = crowd(&server, count, &args!["DQ.CLAIM", "q", "BLOCK", block]);
        if how != "time-out" {
            q.wait_stat("waiting", count as i64);
        }
        let with = used_memory(&server) - before;
        match how {
            "close" => waiters.clear(),
            "kill" => {
                server.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
                q = server.queue("q");
                q.unwatched();
            }
            "unblocked" => {
                server.set("enabled", "no");
                server.set("enabled", "yes");
            }
            _ => {}
        }
        q.wait_stat("waiting", 0);
        wait_for("no client to be blocked", || blocked_clients(&server) == 0);
        drop(waiters);
        wait_for("the clients to be gone", || {
            server.info("clients", "connected_clients").parse::<i64>().expect("a count") < 10
        });
        eprintln!("{how}: {} bytes a waiter", with / count as i64);
        assert_eq!(server.info("dq", "dq_waiting"), "0");
        // Nobody of them gets the job.
        q.push("x");
        let job = q.claim();
        assert_eq!((job.attempt, q.ack(&job.receipt)), (1, 1));
    }
    // The server keeps what its clients of modules needed, and gives it back little by little.
    let end = Instant::now() + Duration::from_secs(300);
    let mut left = used_memory(&server) - before;
    while left > 2_000_000 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
        left = used_memory(&server) - before;
    }
    eprintln!("{left} bytes left");
    assert!(left <= 2_000_000, "{left} bytes left of 4 times {count} waiters");
    q.check_clean();
    server.run(&["PING"]);
}

#[test]
fn a_crowd_is_served_to_the_last() {
    let count = raise_descriptors().saturating_sub(1000).min(3000);
    let scene = Scene::of(Server::builder().line("maxclients 10100"));
    let mut q = scene.queue("q");
    q.unwatched();
    let mut waiters = crowd(&scene, count, &args!["DQ.CLAIM", "q", "BLOCK", 0]);
    q.wait_stat("waiting", count as i64);
    let payloads: Vec<usize> = (0..count).collect();
    ok!(q, "MPUSH", "PAYLOADS", payloads);
    for waiter in &mut waiters {
        use std::io::Read;
        waiter.set_read_timeout(Some(DEADLINE)).expect("the socket takes options");
        let mut begin = [0; 4];
        waiter.read_exact(&mut begin).expect("an answer comes");
        assert_eq!(&begin, b"*1\r\n");
    }
    assert_eq!(q.stats(["claimed", "leased", "waiting", "ready"]), [count as i64, count as i64, 0, 0]);
    q.watched();
    scene.end();
}

#[test]
fn a_thousand_that_wait_cost_nothing() {
    let scene = Scene::new();
    let mut q = scene.queue("q");
    let waiters = crowd(&scene, 1000, &args!["DQ.CLAIM", "q", "BLOCK", 0]);
    q.wait_stat("waiting", 1000);
    ok!(q, "PUSH", "far", "DELAY", "1h");
    let mut client = Client::new(&scene);
    let commands = |client: &mut Client| -> (i64, f64) {
        let all = text(&client.call(args!["INFO", "everything"]));
        let field = |name: &str| {
            all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("the field is there")
        };
        let cpu: f64 =
            ["used_cpu_sys", "used_cpu_user"].map(|name| field(name).parse::<f64>().expect("a number")).iter().sum();
        (field("total_commands_processed").parse().expect("a number"), cpu)
    };
    let (before, cpu_before) = commands(&mut client);
    let begin = Instant::now();
    std::thread::sleep(Duration::from_secs(5));
    let (after, cpu_after) = commands(&mut client);
    let seconds = begin.elapsed().as_secs_f64();
    // The replica's REPLCONF ACK comes once a second, and INFO itself is one.
    let acks = seconds.ceil() as i64 + 1;
    let count = after - before - 1;
    let share = (cpu_after - cpu_before) / seconds;
    eprintln!("{count} commands in {seconds:.1} s, {:.2} % of a core", share * 100.0);
    assert!(count <= acks, "{count} commands in {seconds:.1} s");
    assert!(share < 0.03, "{:.1} % of a core", share * 100.0);
    drop(waiters);
    scene.end();
}

//! The wall clock of a running server is set, while all that the queue clock rules is under way.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::Value;

use crate::blocked::{waiting, Blocked};
use crate::common::dice::Dice;
use crate::common::server::Builder;
use crate::common::wall::Wall;
use crate::common::*;
use crate::{args, ok};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const YEAR: i64 = 365 * 24 * HOUR;

/// The largest offset that is closed.
const BORDER: i64 = 10 * MINUTE;

/// How much later than it should something may come on a machine that is busy with other tests, and stands still now
/// and then. What stands still because of a step comes later by far.
const LATE: Duration = Duration::from_secs(3);

/// How much later the best of several may come.
const PUNCTUAL: Duration = Duration::from_millis(100);

fn ms(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}

/// One figure of `INFO dq` about the clock.
fn clock(server: &Server, field: &str) -> i64 {
    server.info("dq", &format!("dq_clock_{field}")).parse().expect("a number")
}

/// How often the log tells of a step.
fn told(server: &Server) -> usize {
    server.log().matches("the system's clock was set by").count()
}

/// Sets the wall clock, and waits until the module has seen it.
fn set_and_seen(server: &Server, wall: &Wall, at_ms: i64) {
    let before = clock(server, "steps");
    wall.set(at_ms);
    wait_for("the step to be seen", || clock(server, "steps") > before);
}

/// Fails unless what was to take `planned` ms on the queue clock took that on the monotonic one: to the point where
/// the queue clock runs evenly, and within a tenth where it closes an offset. Gives how late it was.
#[track_caller]
fn assert_took(what: &str, begun: Instant, ended: Instant, planned: i64, slewed: bool) -> Duration {
    let took = ended - begun;
    let (least, most) = if slewed { (planned * 10 / 11 - 2, planned * 10 / 9 + 2) } else { (planned - 1, planned) };
    assert!(took >= ms(least), "{what} of {planned} ms was over after {took:?}");
    assert!(took <= ms(most) + LATE, "{what} of {planned} ms was over after {took:?}");
    took.saturating_sub(ms(most))
}

/// Fails unless the best of these came to the point.
#[track_caller]
fn assert_punctual(what: &str, late: &[Duration]) {
    assert!(late.iter().min().is_some_and(|best| *best <= PUNCTUAL), "{what} came late by {late:?}");
}

/// A clock, a server that lives by it, and a queue that is not looked after.
fn with_wall() -> (Wall, Server, Queue) {
    let wall = Wall::new();
    let server = wall.rules(Server::builder()).start();
    let mut q = server.queue("q");
    q.unwatched();
    (wall, server, q)
}

/// A server that looks over its queues all the time.
fn looking(wall: &Wall) -> Builder {
    wall.rules(Server::builder().set("purge-interval", "20").set("stale-after", "4s"))
}

/// One step, in the middle of everything.
fn live_through(step: i64) {
    const SPAN: i64 = 2500;
    const STALE: i64 = 4000;
    let wall = Wall::new();
    let mut server = looking(&wall).start();
    let slewed = step.abs() <= BORDER;
    let queue = |name: &str| {
        let mut q = server.queue(name);
        q.unwatched();
        q
    };

    // What must not happen for a long while.
    let mut far = queue("far");
    far.push_many(500, &args!["DELAY", "2h"]);
    let mut flood = Blocked::in_line(&server, "far", args!["BLOCK", 0]);
    let mut held = queue("held");
    held.push("held");
    let held_job = held.claim_with(args!["LEASE", "2h"]).remove(0);
    let mut mine = queue("mine");
    ok!(mine, "PUSH", "mine", "ID", "mine", "KEEP", "2h");
    let job = mine.claim();
    assert_eq!(mine.ack(&job.receipt), 1);

    // What must happen in a while, each with its own begin.
    let mut stale = queue("stale");
    let stale_begun = Instant::now();
    let stale_id = stale.push("stale");
    let mut begun = Vec::new();
    let mut start = |name: &str, act: &mut dyn FnMut(&mut Queue)| {
        let mut q = queue(name);
        let at = Instant::now();
        act(&mut q);
        begun.push((name.to_string(), at, Blocked::in_line(&server, name, args!["BLOCK", 0])));
    };
    start("delayed", &mut |q| drop(ok!(q, "PUSH", "x", "DELAY", SPAN)));
    start("leased", &mut |q| {
        q.push("x");
        q.claim_with(args!["LEASE", SPAN]);
    });
    start("retried", &mut |q| {
        let job = q.push_and_claim("x");
        ok!(q, "RETRY", job.receipt, "DELAY", SPAN);
    });
    start("backoff", &mut |q| {
        ok!(q, "PUSH", "x", "BACKOFF", SPAN, SPAN);
        let job = q.claim();
        assert_eq!(q.retry(&job.receipt), SPAN);
    });
    start("released", &mut |q| {
        let job = q.push_and_claim("x");
        ok!(q, "RELEASE", "DELAY", SPAN, "RECEIPTS", job.receipt);
    });
    let deadline_begun = Instant::now();
    let deadline = Blocked::in_line(&server, "empty", args!["BLOCK", SPAN]);
    let patient = Blocked::in_line(&server, "patient", args!["BLOCK", 0]);

    let last_id = queue("ids").push("before");
    set_and_seen(&server, &wall, step);
    let offset = clock(&server, "offset_ms");
    if slewed {
        assert!(offset.signum() == step.signum() && offset.abs() >= step.abs() * 8 / 10, "{offset}");
    }
    assert!(offset.abs() <= step.abs() + 20, "{offset}");
    assert_eq!((clock(&server, "steps"), clock(&server, "held")), (1, i64::from(!slewed)));

    // Pushed after it: delivered at once to one who has been waiting since before it.
    let pushed = Instant::now();
    let id = queue("patient").push("now");
    let answer = patient.end();
    assert!(answer.at - pushed <= LATE, "{:?}", answer.at - pushed);
    assert_eq!(answer.jobs()[0].id, id);
    assert!(id > last_id, "ids go on rising: {last_id}, {id}");

    let answer = deadline.end();
    assert_took("the wait", deadline_begun, answer.at, SPAN, slewed);
    assert_eq!(answer.jobs(), []);
    let mut late = Vec::new();
    for (name, at, blocked) in begun {
        let answer = blocked.end();
        late.push(assert_took(&name, at, answer.at, SPAN, slewed));
        assert_eq!(answer.jobs().len(), 1, "{name}");
    }
    assert_punctual("the jobs", &late);
    let gone = wait_until("the purge", || (stale.state(&stale_id) == "dead").then(Instant::now));
    assert_took("being ready", stale_begun, gone, STALE, slewed);

    // AT goes by the clock as it now stands, to the point, whether an offset is being closed or not.
    let mut at = queue("at");
    let mut late = Vec::new();
    for _ in 0..5 {
        let blocked = Blocked::in_line(&server, "at", args!["BLOCK", 0]);
        let (begin, wanted) = (Instant::now(), at.now() + 500);
        ok!(at, "PUSH", "x", "AT", wanted);
        let answer = blocked.end();
        let shown = at.now();
        assert!(shown >= wanted, "the clock shows {shown}, {} ms too early", wanted - shown);
        late.push(ms(shown - wanted));
        // However long the way of the command was, the wait began after `begin`.
        assert!(answer.at - begin >= ms(499), "{:?}", answer.at - begin);
        assert_eq!(answer.jobs().len(), 1);
    }
    assert_punctual("the jobs with AT", &late);
    let blocked = Blocked::in_line(&server, "at", args!["BLOCK", 0]);
    let (begin, past) = (Instant::now(), at.now() - 1000);
    ok!(at, "PUSH", "x", "AT", past);
    assert!(blocked.end().at - begin <= LATE, "in the past means now");

    // Nothing else has moved.
    assert!(flood.waits(), "a job far off was handed out");
    assert_eq!(far.stats(["delayed", "ready", "far"]), [500, 0, 500]);
    assert_eq!(held.state(&held_job.id), "leased");
    assert_eq!(held.ack(&held_job.receipt), 1);
    assert_eq!(ok!(mine, "PUSH", "x", "ID", "mine", "NX"), Value::Nil);
    assert_eq!(waiting(&server), 1);
    let log = server.log();
    let line = log.lines().find(|line| line.contains("the system's clock was set by")).expect("the log tells");
    let said: i64 =
        line.split("set by ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number");
    assert!((said - step).abs() <= 20, "{line}");
    assert_eq!(told(&server), 1, "{log}");

    // And back again.
    set_and_seen(&server, &wall, 0);
    assert_eq!((clock(&server, "steps"), clock(&server, "held")), (2, 0));
    assert!(clock(&server, "offset_ms").abs() <= step.abs().min(3000), "{}", clock(&server, "offset_ms"));
    let job = queue("again").push_and_claim("x");
    assert!(job.id > id, "ids go on rising");
    server.assert_alive();
    for name in ["far", "held", "mine", "stale", "delayed", "leased", "retried", "backoff", "released", "at"] {
        server.queue(name).check_clean();
    }
}

#[test]
fn five_seconds_forward() {
    live_through(5 * SECOND);
}

#[test]
fn five_seconds_back() {
    live_through(-5 * SECOND);
}

#[test]
fn an_hour_forward() {
    live_through(HOUR);
}

#[test]
fn an_hour_back() {
    live_through(-HOUR);
}

#[test]
fn a_year_forward() {
    live_through(YEAR);
}

#[test]
fn a_year_back() {
    live_through(-YEAR);
}

/// Runs a check for each step, all of them at once.
fn at_once(steps: &[i64], check: impl Fn(i64) + Copy + Send) {
    std::thread::scope(|scope| {
        for step in steps.iter().copied() {
            scope.spawn(move || check(step));
        }
    });
}

/// Queue time in ms, by a job that is due now, and the moment at which it was asked for.
fn queue_time(q: &mut Queue) -> (f64, Instant) {
    let begin = Instant::now();
    let id = q.push("now");
    let at = begin + begin.elapsed() / 2;
    (q.due_at(&id) as f64, at)
}

/// How fast the queue clock goes, against the monotonic one.
fn pace(q: &mut Queue) -> f64 {
    let (before, begin) = queue_time(q);
    wait_for("some time to pass", || begin.elapsed() >= Duration::from_secs(4));
    let (after, end) = queue_time(q);
    (after - before) / (end - begin).as_secs_f64() / 1000.0
}

#[test]
fn up_to_ten_minutes_are_closed_by_a_tenth_and_more_is_not() {
    let check = |step: i64, expected: f64| {
        let (wall, server, mut q) = with_wall();
        q.push("x");
        set_and_seen(&server, &wall, step);
        let pace = pace(&mut q);
        eprintln!("after a step of {step} ms the queue clock runs at {pace:.4}");
        assert!((pace - expected).abs() < 0.02, "{step}: {pace}");
        assert_eq!(clock(&server, "held"), i64::from(step.abs() > BORDER), "{step}");
        assert_eq!(clock(&server, "steps"), 1, "{step}");
    };
    std::thread::scope(|scope| {
        for (step, expected) in [
            (2 * SECOND, 1.1),
            (-2 * SECOND, 0.9),
            (BORDER - SECOND, 1.1),
            (1000 - BORDER, 0.9),
            (BORDER + SECOND, 1.0),
            (-BORDER - SECOND, 1.0),
            (YEAR, 1.0),
        ] {
            scope.spawn(move || check(step, expected));
        }
    });
}

#[test]
fn an_offset_is_closed_to_the_end_and_no_further() {
    let check = |step: i64| {
        let (wall, server, mut q) = with_wall();
        q.push("x");
        set_and_seen(&server, &wall, step);
        let begin = Instant::now();
        wait_for("the offset to be closed", || clock(&server, "offset_ms") == 0);
        let took = begin.elapsed();
        assert!(took >= ms(step * 8) && took <= ms(step * 10) + Duration::from_secs(3), "{step}: {took:?}");
        let pace = pace(&mut q);
        assert!((pace - 1.0).abs() < 0.02, "{step}: {pace}");
        let (queue, _) = queue_time(&mut q);
        let shown = q.now();
        assert!((queue - shown as f64).abs() < 200.0, "queue time is {queue}, the wall shows {shown}");
    };
    at_once(&[1200, -1200], check);
}

#[test]
fn less_than_a_second_is_drift_and_is_followed() {
    let (wall, server, mut q) = with_wall();
    q.push("x");
    wall.set(900);
    wait_for("the offset to be seen", || clock(&server, "offset_ms") > 500);
    assert_eq!((clock(&server, "steps"), told(&server)), (0, 0));
    wait_for("the offset to be closed", || clock(&server, "offset_ms") == 0);
}

#[test]
fn a_step_is_seen_where_no_queue_is_known() {
    let wall = Wall::new();
    let server = wall.rules(Server::builder()).start();
    wait_for("the module to act", || server.info("dq", "dq_acting") == "1");
    set_and_seen(&server, &wall, HOUR);
    assert_eq!((clock(&server, "held"), told(&server)), (1, 1));
}

#[test]
fn follow_takes_a_step_forward_at_once() {
    let check = |step: i64| {
        const GRACE: i64 = 1500;
        let wall = Wall::new();
        let mut server = wall
            .rules(Server::with_grace())
            .set("takeover-grace", &GRACE.to_string())
            .set("clock-step", "follow")
            .set("purge-interval", "20")
            .set("stale-after", "3s")
            .start();
        let queue = |name: &str| {
            let mut q = server.queue(name);
            q.unwatched();
            q
        };
        // Only where a lease ends by itself is the first grace over.
        let mut first = queue("first");
        first.push("x");
        let job = first.claim_with(args!["LEASE", 1]).remove(0);
        first.wait_lapse(&job.id);
        let in_half = step / 2;
        let mut held = queue("held");
        held.push("held");
        held.push("lost");
        held.push("far");
        server.set("max-lease", "30d");
        let jobs = held.claim_with(args!["COUNT", 2, "LEASE", in_half.min(30 * 24 * HOUR)]);
        let far = held.claim_with(args!["LEASE", "12h"]).remove(0);
        let mut delayed = queue("delayed");
        server.set("max-delay", "3650d");
        let blocked = Blocked::in_line(&server, "delayed", args!["BLOCK", 0]);
        ok!(delayed, "PUSH", "x", "DELAY", in_half);
        ok!(delayed, "PUSH", "later", "DELAY", 2 * step);
        let mut stale = queue("stale");
        let id = stale.push("stale");
        let begun = Instant::now();
        set_and_seen(&server, &wall, step);
        let seen = Instant::now();

        let answer = blocked.end();
        assert!(answer.at - begun <= Duration::from_secs(1) + LATE, "due at once: {:?}", answer.at - begun);
        assert_eq!(answer.jobs()[0].payload, b"x");
        assert_eq!(delayed.stats(["delayed", "ready"]), [1, 0]);
        assert_eq!(clock(&server, "offset_ms").abs() / 20, 0);
        assert_eq!((clock(&server, "steps"), clock(&server, "held")), (1, 0));

        // Within the grace a worker can finish; then the leases end that ended in the gap.
        assert_eq!(held.ack(&jobs[0].receipt), 1, "a worker finishes in the grace");
        held.wait_lapse(&jobs[1].id);
        let took = begun.elapsed();
        assert!(took >= ms(GRACE - 5), "a lease ended in the grace: {took:?}");
        assert!(seen.elapsed() <= ms(GRACE) + LATE, "{:?} after the step", seen.elapsed());
        if step < 12 * HOUR {
            assert_eq!(held.state(&far.id), "leased");
        }

        // The gap does not make a job stale, and neither does the grace.
        let gone = wait_until("the purge", || (stale.state(&id) == "dead").then(Instant::now));
        assert!(gone - begun >= ms(GRACE + 1500), "purged for the gap: {:?}", gone - begun);
        assert_eq!(told(&server), 1);
        let log = server.log();
        assert!(log.contains("queue time follows at once"), "{log}");

        // A step back is not taken.
        let newest = queue("ids").push("x");
        set_and_seen(&server, &wall, 0);
        let newer = queue("ids").push("x");
        assert!(newer > newest);
        assert_eq!(clock(&server, "held"), i64::from(step > BORDER));
        server.assert_alive();
    };
    at_once(&[10 * SECOND, HOUR, YEAR], check);
}

#[test]
fn follow_takes_an_offset_that_was_held_as_soon_as_it_is_set() {
    let (wall, server, mut q) = with_wall();
    let blocked = Blocked::in_line(&server, "q", args!["BLOCK", 0]);
    ok!(q, "PUSH", "x", "DELAY", "30m");
    set_and_seen(&server, &wall, HOUR);
    assert_eq!(clock(&server, "held"), 1);
    let begun = Instant::now();
    server.set("clock-step", "follow");
    let answer = blocked.end();
    assert!(answer.at - begun <= Duration::from_secs(1) + LATE, "{:?}", answer.at - begun);
    assert_eq!((clock(&server, "held"), clock(&server, "offset_ms").abs() / 20), (0, 0));
}

#[test]
fn many_steps_in_a_row() {
    const JOBS: usize = 40;
    let wall = Wall::new();
    let mut server = wall.rules(Server::builder()).start();
    let mut dice = Dice(17);
    let mut under_way = Vec::new();
    let mut newest = String::new();
    for number in 0..JOBS {
        let name = format!("q{number}");
        let mut q = server.queue(&name);
        q.unwatched();
        let delay = 200 + dice.between(0, 2999) as i64;
        // A delay, a lease, or a wait that nothing ends.
        let begun = Instant::now();
        match number % 3 {
            0 => {
                let id = text(&ok!(q, "PUSH", "x", "DELAY", delay));
                assert!(id > newest, "{id} after {newest}");
                newest = id;
            }
            1 => {
                let id = q.push("x");
                assert!(id > newest, "{id} after {newest}");
                newest = id;
                assert_eq!(q.claim_with(args!["LEASE", delay]).len(), 1);
            }
            _ => {}
        }
        let block = if number % 3 == 2 { delay } else { 0 };
        let begun = if number % 3 == 2 { Instant::now() } else { begun };
        let blocked = Blocked::begin(&server, &name, args!["BLOCK", block]);
        under_way.push((name, delay, begun, blocked));
        if number % 2 == 0 {
            let size = *dice.pick(&[SECOND, 5 * SECOND, 9 * MINUTE, 11 * MINUTE, HOUR, YEAR]);
            wall.set(if dice.one_in(2) { size } else { -size });
        }
        std::thread::sleep(ms(dice.between(0, 149) as i64));
    }
    // A step is seen at the next look, once in a second.
    while under_way.iter_mut().any(|(.., blocked)| blocked.waits()) || clock(&server, "steps") < 3 {
        let size = *dice.pick(&[SECOND, 5 * SECOND, 9 * MINUTE, HOUR, YEAR]);
        wall.set(if dice.one_in(2) { size } else { -size });
        std::thread::sleep(ms(dice.between(0, 99) as i64));
        assert!(under_way[0].2.elapsed() < DEADLINE, "something stands still");
    }
    for (name, delay, begun, blocked) in under_way {
        let answer = blocked.end();
        assert_took(&name, begun, answer.at, delay, true);
        let number: usize = name[1..].parse().expect("a number");
        assert_eq!(answer.jobs().len(), usize::from(number % 3 != 2), "{name}");
        let mut q = server.queue(&name);
        assert_eq!(q.stat("lapsed"), i64::from(number % 3 == 1), "{name}");
    }
    let steps = clock(&server, "steps");
    eprintln!("{steps} steps were seen");
    wait_for("each to be told of once", || told(&server) as i64 == clock(&server, "steps"));
    server.assert_alive();
}

#[test]
fn a_sweep_goes_on_while_the_clock_is_set_back_again_and_again() {
    const N: usize = 20_000;
    let wall = Wall::new();
    let mut server = wall.rules(Server::with_grace().set("takeover-grace", "1h")).start();
    let mut q = server.queue("q");
    q.unwatched();
    q.push_many(N, &[]);
    for _ in 0..N / 1000 {
        q.claim_with(args!["COUNT", 1000, "LEASE", 1]);
    }
    server.set("takeover-grace", "0");
    // Each step may meet the timer of 0 ms between its arming and its firing.
    let key = q.key("leased");
    let (mut back, mut left, mut moved) = (0, N, Instant::now());
    while left > 0 {
        back -= HOUR;
        wall.set(back);
        let now: usize = q.raw(args!["ZCARD", &key]);
        if now < left {
            (left, moved) = (now, Instant::now());
        }
        assert!(moved.elapsed() < Duration::from_secs(2), "the sweep stands still with {left} leases left");
    }
    q.wait_stat("lapsed", N as i64);
    q.check_clean();
    server.assert_alive();
}

#[test]
fn ids_rise_over_a_restart_with_the_clock_set_back() {
    for step in [-5 * SECOND, -HOUR, -23 * HOUR] {
        let wall = Wall::new();
        let mut server = wall.rules(Server::builder().aof()).start();
        let mut q = server.queue("q");
        let mut ids: Vec<String> = (0..5).map(|i| q.push(i)).collect();
        wall.set(step);
        ids.extend((0..5).map(|i| q.push(i)));
        q.unwatched();
        server.crash_and_restart();
        // A walk finds the queue; whoever is faster than the walk finds it by its first command.
        let mut q = server.queue("q");
        ids.extend((0..5).map(|i| text(&ok!(q, "PUSH", i, "DELAY", "1h"))));
        let mut sorted = ids.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(ids, sorted, "step {step}");
    }
}

#[test]
fn at_is_never_early_though_the_module_is_held_up_between_its_two_clocks() {
    let (wall, server, mut q) = with_wall();
    let wall_us = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_micros();
    wall.hold_up(60);
    // An offset that a wrong look shows is closed in the longer ones, and not in the shorter.
    for (turn, wait) in [300, 900, 300, 900].into_iter().enumerate() {
        let name = format!("q-{turn}");
        q.name = name.clone().into_bytes();
        let blocked = Blocked::in_line(&server, &name, args!["BLOCK", 0]);
        let at = wall_us() / 1000 + wait;
        ok!(q, "PUSH", "x", "AT", at.to_string());
        blocked.end();
        let now = wall_us();
        assert!(now >= at * 1000, "{} us early", at * 1000 - now);
    }
}

#[test]
fn a_wait_with_a_deadline_is_not_cut_short_by_follow() {
    let wall = Wall::new();
    let server = wall.rules(Server::builder().set("clock-step", "follow")).start();
    let mut q = server.queue("other");
    q.push("x");
    let begun = Instant::now();
    let blocked = Blocked::in_line(&server, "q", args!["BLOCK", 3000]);
    set_and_seen(&server, &wall, HOUR);
    let answer = blocked.end();
    assert_took("the wait", begun, answer.at, 3000, false);
}

#[test]
fn a_walk_of_check_goes_on_through_a_step_back() {
    let (wall, server, mut q) = with_wall();
    q.push_many(100_000, &args!["DELAY", "1h"]);
    let mut con = server.conn();
    let begin = Instant::now();
    let walk = std::thread::spawn(move || {
        redis::cmd("DQ.CHECK").arg("q").query::<Value>(&mut con).map(|reply| list(&reply).len())
    });
    let mut look = server.conn();
    wait_for("the walk to begin", || {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut look).expect("a list");
        walk.is_finished() || clients.lines().any(|line| line.contains("cmd=dq.check") && line.contains("flags=b"))
    });
    assert!(!walk.is_finished(), "too short a walk");
    wall.set(-HOUR);
    while !walk.is_finished() && begin.elapsed() < DEADLINE {
        std::thread::sleep(PAUSE);
    }
    assert!(walk.is_finished(), "the walk stands still since the clock was set back");
    let problems = walk.join().expect("the client ends").expect("the walk answers");
    assert_eq!(problems, 0);
}

/// The data are loaded anew into a server that runs: queue time goes on as it was, whatever the wall clock shows.
#[test]
fn a_reload_does_not_read_the_wall_clock() {
    for step in [-5 * MINUTE, -HOUR, HOUR] {
        let (wall, server, mut q) = with_wall();
        let ready = q.push("ready");
        ok!(q, "PUSH", "far", "DELAY", "30m");
        set_and_seen(&server, &wall, step);
        server.run(&["DEBUG", "RELOAD"]);
        let due: Vec<String> = q.claim_n(10).into_iter().map(|job| job.id).collect();
        assert_eq!(due, [ready], "{step}");
        let offset = clock(&server, "offset_ms");
        assert!(offset.abs() >= step.abs() * 8 / 10, "{step}: {offset} ms off");
    }
}

//! One history, step by step: each command goes to the server and to the reference, and then both are compared.

use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::args;
use crate::compare::compare;
use crate::host::Host;
pub use crate::host::Reply;
use crate::look::{look, look_at_keys, reply_of, show_reply, Seen};
use crate::ops::{Step, Via};
use crate::reference::queue::Queue;
use crate::reference::{Told, World};

pub type Check<T = ()> = Result<T, String>;

/// Replicas are looked at after so many steps, and at the end.
const REPLICA_EVERY: usize = 12;

/// A history under way.
pub struct Run<'a> {
    pub host: &'a mut Host,
    pub world: World,
    /// The connection that waits, the lease that it asked for, and whether it named several queues.
    pub waiting: Option<(Connection, Option<u64>, bool)>,
    pub via: Via,
    pub turn: usize,
    /// What was sent and answered.
    pub trace: Vec<String>,
}

/// Runs a history on two fresh queues; the error tells of the first difference and how it came to it.
pub fn run(host: &mut Host, steps: &[Step]) -> Check {
    let mut run = Run::begin(host);
    let outcome = run.run(steps);
    let trace = std::mem::take(&mut run.trace);
    run.end();
    outcome.map_err(|error| format!("{}\n{error}", trace.join("\n")))
}

impl<'a> Run<'a> {
    fn begin(host: &'a mut Host) -> Run<'a> {
        host.rounds += 1;
        let settings = Host::settings();
        let (boot, wall) = (host.clock.boot_us(), host.clock.wall_us());
        let mut world = World::new(boot, wall, host.now_us, settings.clone());
        (world.openings, world.numbers) = (host.openings.clone(), host.numbers);
        // The reference takes the grace of the history before as the server does.
        host.set(&settings);
        world.take_turns();
        world.set("takeover-grace", settings["takeover-grace"]);
        let round = host.rounds;
        for name in [format!("q{round}"), format!("{{q{round}}}:b")] {
            world.queues.push(Queue { name: name.into_bytes(), ..Queue::default() });
        }
        Run { host, world, waiting: None, via: Via::Plain, turn: 0, trace: Vec::new() }
    }

    /// Leaves nothing to the next history.
    fn end(mut self) {
        self.waiting = None;
        for (figure, count) in self.world.queues.iter().filter_map(|queue| queue.known.as_ref()).flat_map(|k| &k.counts)
        {
            *self.host.met.entry(figure).or_default() += count;
        }
        (self.host.openings, self.host.numbers) = (self.world.openings.clone(), self.world.numbers);
        self.host.call(&args!["CONFIG", "SET", "dq.enabled", "yes"]).ok();
        for queue in &self.world.queues {
            let _ = self.host.call(&args!["DQ.DROP", &queue.name, "FORCE"]);
        }
    }

    fn run(&mut self, steps: &[Step]) -> Check {
        self.settle()?;
        for (number, step) in steps.iter().enumerate() {
            self.trace.push(format!("{number}: {step:?}"));
            self.via = step.via;
            self.turn = step.turn;
            self.take(&step.op)?;
            self.settle()?;
            if number % REPLICA_EVERY == REPLICA_EVERY - 1 {
                self.compare_replica()?;
            }
        }
        self.compare_replica()
    }

    /// What the server does by itself after a command, and then the comparison.
    pub fn settle(&mut self) -> Check {
        self.world.take_turns();
        let names: Vec<Vec<u8>> = self.world.queues.iter().map(|queue| queue.name.clone()).collect();
        let end = Instant::now() + self.host.patience;
        loop {
            let seen = look(&mut self.host.con, &names);
            match self.compare(&seen) {
                Ok(()) => break,
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        self.world.others.clear();
        self.hear()
    }

    /// Compares the world with what was seen, or with what the world may be instead, and is then.
    fn compare(&mut self, seen: &[Seen]) -> Check {
        let compare_all = |world: &mut World| (0..).zip(seen).try_for_each(|(q, seen)| compare(world, q, seen));
        let compared = compare_all(&mut self.world);
        if compared.is_err() {
            if let Some(place) = self.world.others.iter_mut().position(|other| compare_all(other).is_ok()) {
                self.world.become_other(place);
                return Ok(());
            }
        }
        compared
    }

    /// Reads what the waiter was told.
    pub fn hear(&mut self) -> Check {
        let Some(told) = self.world.told.take() else { return Ok(()) };
        let (mut con, lease, several) = self.waiting.take().ok_or("somebody was told who does not wait")?;
        con.set_read_timeout(Some(self.host.patience)).expect("it can be set");
        let reply = reply_of(con.recv_response());
        self.trace.push(format!("      the waiter reads {}", show_reply(&reply)));
        match told {
            Told::Nothing => expect(&reply, &Value::Array(Vec::new())),
            Told::Unblocked => refused(&reply, "UNBLOCKED"),
            Told::Jobs(q, jobs) => self.check_jobs(q, &jobs, lease, several, &reply),
        }
    }

    /// Sends a command of the module to a queue.
    pub fn call(&mut self, command: &str, q: usize, words: Vec<Vec<u8>>) -> Reply {
        let name = self.world.queues[q].name.clone();
        self.send([args![format!("DQ.{command}"), name], words].concat())
    }

    /// Sends words, in the way in which this step sends them.
    pub fn send(&mut self, words: Vec<Vec<u8>>) -> Reply {
        let reply = self.host.call_via(&words, self.via);
        let shown: Vec<String> = words.iter().map(|word| show_reply(&Ok(Value::BulkString(word.clone())))).collect();
        let now = self.world.scene.now_us;
        self.trace.push(format!("      {now}us {} -> {}", shown.join(" "), show_reply(&reply)));
        reply
    }

    /// The replica has what the primary has.
    fn compare_replica(&mut self) -> Check {
        let names: Vec<Vec<u8>> = self.world.queues.iter().map(|queue| queue.name.clone()).collect();
        let end = Instant::now() + self.host.patience;
        loop {
            let here = look_at_keys(&mut self.host.con, &names);
            let there = look_at_keys(&mut self.host.replica_con, &names);
            if here == there {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("the replica differs:\n  primary: {here:?}\n  replica: {there:?}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The reply must be this.
pub fn expect(reply: &Reply, expected: &Value) -> Check {
    match reply {
        Ok(value) if value == expected => Ok(()),
        _ => Err(format!("the reply was to be {}", show_reply(&Ok(expected.clone())))),
    }
}

/// The reply must be an error of this code, in visible ASCII.
pub fn refused(reply: &Reply, code: &str) -> Check {
    match reply {
        Err(error) if error.split(' ').next() == Some(code) && error.bytes().all(|b| (b' '..=b'~').contains(&b)) => {
            Ok(())
        }
        _ => Err(format!("the reply was to be an error {code}")),
    }
}

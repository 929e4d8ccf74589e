//! Queues with a life: each in a state that an operator meets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::args;
use crate::common::{Queue, Server};

/// Threads that push and work until they are dropped.
#[derive(Default)]
pub struct WorkerPool {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// Does this again and again, with the number of the round.
    pub fn run(&mut self, mut queue: Queue, work: impl Fn(&mut Queue, u64) + Send + 'static) {
        let over = self.over.clone();
        queue.unwatched();
        self.threads.push(std::thread::spawn(move || {
            let mut round = 0;
            while !over.load(Ordering::Relaxed) {
                round += 1;
                work(&mut queue, round);
            }
        }));
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Errors as handlers write them.
const ERRORS: [&str; 4] = [
    "ConnectionTimeout: gateway.example.com:443 did not answer to request ",
    "HTTP 502 from https://hooks.example.com/orders/",
    "ValueError: unknown currency 'XBT' in order ",
    "KeyError: 'customer_id' in order ",
];

const STACK: &str = "Traceback (most recent call last):\n  File \"/srv/worker/run.py\", line 41, in work\n    \
                     handle(payload)\n  File \"/srv/worker/webhooks.py\", line 88, in handle\n    \
                     response = session.post(url, json=body, timeout=30)\nConnectionTimeout: gateway did not answer";

/// Queues with a life: `mail` flows, `invoices` has no worker, `webhooks` fails, `payments` is retried again and again,
/// `reports` waits for its time, `thumbnails` is paused, `search-index` has idle workers.
pub fn start(server: &Server) -> WorkerPool {
    stock(server);
    let mut pool = WorkerPool::default();
    let mut run = |name: &str, work: fn(&mut Queue, u64)| pool.run(server.queue(name), work);
    run("mail", push_mail);
    run("mail", work_mail);
    run("webhooks", push_webhooks);
    run("webhooks", fail_webhooks);
    run("payments", retry_payments);
    run("reports", wait_for_work);
    run("search-index", wait_for_work);
    run("search-index", wait_for_work);
    pool
}

/// What stands in the queues from the beginning.
fn stock(server: &Server) {
    let mut invoices = server.queue("invoices");
    for number in 1..=240 {
        invoices.push(format!(
            "{{\"invoice\":{},\"customer\":\"c-{}\",\"total\":{}.50}}",
            10_000 + number,
            number % 37,
            number * 3
        ));
    }
    let mut reports = server.queue("reports");
    reports.unwatched();
    for (count, delay) in [(12, "8s"), (40, "45s"), (150, "4m"), (600, "40m"), (2100, "5h"), (900, "20h"), (350, "3d")]
    {
        let payloads = (0..count).map(|number| format!("{{\"report\":\"monthly\",\"customer\":{number}}}"));
        let mut words = args!["DELAY", delay, "PAYLOADS"];
        words.extend(payloads.map(String::into_bytes));
        reports.ok("MPUSH", words);
    }
    server.queue("search-index").push("{\"rebuild\":true}");
    let mut thumbnails = server.queue("thumbnails");
    thumbnails.push_many(35, &[]);
    thumbnails.ok("PAUSE", vec![]);
    let mut webhooks = server.queue("webhooks");
    webhooks.unwatched();
    for number in 0..160 {
        let payload = format!(
            "{{\"event\":\"order.paid\",\"order\":{},\"url\":\"https://hooks.example.com/orders/{number}\"}}",
            7000 + number
        );
        webhooks.push(payload);
        let job = webhooks.claim();
        let error = format!("{}{number}", ERRORS[number % 7 % 4]);
        webhooks.ok("FAIL", args![&job.receipt, "ERROR", error, "STACK", STACK]);
    }
}

pub fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn push_mail(queue: &mut Queue, round: u64) {
    let wave = 6.0 + 5.0 * (round as f64 / 40.0).sin();
    for number in 0..wave as u64 {
        let delay = if number == 0 { "20s" } else { "0ms" };
        let payload = format!("{{\"to\":\"user{}@example.com\",\"template\":\"welcome\"}}", round * 10 + number);
        let _ = queue.call("PUSH", args![payload, "DELAY", delay]);
    }
    pause(100);
}

fn work_mail(queue: &mut Queue, round: u64) {
    let Ok(reply) = queue.call("CLAIM", args!["COUNT", 10, "BLOCK", 200]) else { return pause(100) };
    for (place, job) in crate::common::list(&reply).iter().map(crate::common::Job::of).enumerate() {
        pause(8);
        let _ = match (round + place as u64).is_multiple_of(60) {
            true => queue.call("RETRY", args![job.receipt, "ERROR", "SMTPServerBusy: 421 try again later"]),
            false => queue.call("ACK", args![job.receipt]),
        };
    }
}

fn push_webhooks(queue: &mut Queue, round: u64) {
    let _ = queue.call("PUSH", args![format!("{{\"event\":\"order.shipped\",\"order\":{round}}}")]);
    pause(400);
}

fn fail_webhooks(queue: &mut Queue, round: u64) {
    let Ok(reply) = queue.call("CLAIM", args!["BLOCK", 200]) else { return pause(100) };
    for job in crate::common::list(&reply).iter().map(crate::common::Job::of) {
        pause(60);
        let _ = match round % 9 {
            0 => queue.call("FAIL", args![job.receipt, "ERROR", format!("{}{round}", ERRORS[1]), "STACK", STACK]),
            _ => queue.call("ACK", args![job.receipt]),
        };
    }
}

fn retry_payments(queue: &mut Queue, round: u64) {
    if round.is_multiple_of(5) {
        let _ = queue.call("PUSH", args![format!("{{\"payment\":{round}}}")]);
    }
    let Ok(reply) = queue.call("CLAIM", args!["BLOCK", 200]) else { return pause(100) };
    for job in crate::common::list(&reply).iter().map(crate::common::Job::of) {
        pause(20);
        let error = match round % 4 {
            0 => format!("psycopg2.OperationalError: connection to server at \"10.0.0.{}\" timed out", round % 250),
            _ => format!("HTTP 503 from https://pay.example.com: account 'a{round}' is locked"),
        };
        let _ = queue.call("RETRY", args![job.receipt, "DELAY", "2s", "ERROR", error, "STACK", STACK]);
    }
}

fn wait_for_work(queue: &mut Queue, _: u64) {
    let Ok(reply) = queue.call("CLAIM", args!["BLOCK", 300]) else { return pause(100) };
    for job in crate::common::list(&reply).iter().map(crate::common::Job::of) {
        let _ = queue.call("ACK", args![job.receipt]);
    }
}

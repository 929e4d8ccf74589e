//! Lateness with clients of our own: one that pushes, and a worker that waits in a thread.

use std::time::{Duration, Instant};

use crate::peer::Sends;
use crate::PAYLOAD;

/// Sends jobs whose payloads tell when they are due; how late each was in the worker's hands, in µs.
pub fn measure(
    sends: Sends,
    mut send: impl FnMut(&[u8], u64),
    mut receive: impl FnMut() -> Vec<u8> + Send,
) -> Vec<f64> {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || (0..sends.count).map(|_| lateness(&receive(), begin)).collect());
        // The worker is to wait first.
        std::thread::sleep(Duration::from_millis(200));
        for _ in 0..sends.count {
            let due = (begin.elapsed() + Duration::from_millis(sends.delay_ms)).as_nanos();
            send(format!("{due:>PAYLOAD$}").as_bytes(), sends.delay_ms);
            std::thread::sleep(Duration::from_millis(sends.gap_ms));
        }
        worker.join().expect("the worker ends well")
    })
}

fn lateness(payload: &[u8], begin: Instant) -> f64 {
    let now = begin.elapsed().as_nanos() as f64;
    let due: f64 = String::from_utf8_lossy(payload).trim().parse().expect("the payload is a time");
    (now - due) / 1e3
}

//! How often pages may ask the servers, all browsers together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::trouble::{Kind, Trouble};

/// Commands a second in the long run.
const RATE: f64 = 2.0;
/// Commands that may come at once after a time without any: a person who clicks does not wait.
const BURST: f64 = 12.0;
/// So many may wait for their turn; more are told to come again.
const LINE: usize = 40;

pub struct Budget {
    credit: Mutex<(f64, Instant)>,
    waiting: AtomicUsize,
}

impl Budget {
    pub fn new() -> Budget {
        Budget { credit: Mutex::new((BURST, Instant::now())), waiting: AtomicUsize::new(0) }
    }

    /// Waits until one more command may be sent: first come, first served.
    pub async fn take(&self) -> Result<(), Trouble> {
        if self.waiting.load(Ordering::Relaxed) >= LINE {
            return Err(Trouble::new(
                Kind::Busy,
                "Too many look at once",
                &["The server is asked only a few times a second, however many look. It is tried again."],
            ));
        }
        let _place = Place::of(&self.waiting);
        let mut credit = self.credit.lock().await;
        loop {
            let (before, at) = *credit;
            let now = (before + at.elapsed().as_secs_f64() * RATE).min(BURST);
            *credit = (now, Instant::now());
            if now >= 1.0 {
                credit.0 = now - 1.0;
                return Ok(());
            }
            sleep(Duration::from_secs_f64((1.0 - now) / RATE)).await;
        }
    }
}

/// One who waits, until it has its turn or goes away.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn of(count: &'a AtomicUsize) -> Place<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        Place(count)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_is_free_and_the_rest_has_to_wait() {
        let (budget, begin) = (Budget::new(), Instant::now());
        for _ in 0..BURST as usize + 2 {
            budget.take().await.expect("there is a place in the line");
        }
        let least = Duration::from_secs_f64(1.0 / RATE);
        assert!(begin.elapsed() >= least, "two over the burst took {:?}", begin.elapsed());
    }
}

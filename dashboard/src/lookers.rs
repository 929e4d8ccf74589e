//! Who looks, so that the server is asked often only while somebody does.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A browser asks each second; one that has not asked for so long is gone, or its page is not in view.
const GONE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Lookers {
    seen: Mutex<Seen>,
    came: Notify,
}

#[derive(Default)]
struct Seen {
    any: Option<Instant>,
    queues: HashMap<Vec<u8>, Instant>,
}

impl Lookers {
    /// Somebody looks at all queues, or at one.
    pub fn note(&self, queue: Option<&[u8]>) {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        let was_alone = !is_fresh(seen.any);
        seen.any = Some(now);
        if let Some(queue) = queue {
            seen.queues.insert(queue.to_vec(), now);
        }
        drop(seen);
        if was_alone {
            self.came.notify_one();
        }
    }

    pub fn anybody(&self) -> bool {
        is_fresh(self.seen.lock().unwrap_or_else(|e| e.into_inner()).any)
    }

    /// The queues whose own page is looked at.
    pub fn queues(&self) -> Vec<Vec<u8>> {
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        seen.queues.retain(|_, at| is_fresh(Some(*at)));
        seen.queues.keys().cloned().collect()
    }

    /// Something was done: whoever looks wants to see it.
    pub fn nudge(&self) {
        self.came.notify_one();
    }

    /// Waits until somebody comes after nobody was there, or something was done.
    pub async fn come(&self) {
        self.came.notified().await;
    }
}

fn is_fresh(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < GONE)
}

//! Browsers that show the dashboard, so that the server is asked often only while there are any.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A browser asks each second; one that has not asked for so long is gone, or its page is not in view.
const GONE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Viewers {
    seen: Mutex<Seen>,
    came: Notify,
}

#[derive(Default)]
struct Seen {
    any: Option<Instant>,
    queues: HashMap<Vec<u8>, Instant>,
}

impl Viewers {
    /// Notes that a browser shows all queues, or one.
    pub fn note(&self, queue: Option<&[u8]>) {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        let had_none = !is_fresh(seen.any);
        seen.any = Some(now);
        if let Some(queue) = queue {
            seen.queues.insert(queue.to_vec(), now);
        }
        drop(seen);
        if had_none {
            self.came.notify_one();
        }
    }

    pub fn any(&self) -> bool {
        is_fresh(self.seen.lock().unwrap_or_else(|e| e.into_inner()).any)
    }

    /// The queues whose own page is shown.
    pub fn queues(&self) -> Vec<Vec<u8>> {
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        seen.queues.retain(|_, at| is_fresh(Some(*at)));
        seen.queues.keys().cloned().collect()
    }

    /// Something was done: every viewer wants to see it.
    pub fn nudge(&self) {
        self.came.notify_one();
    }

    /// Waits until a viewer comes after there was none, or something was done.
    pub async fn come(&self) {
        self.came.notified().await;
    }
}

fn is_fresh(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < GONE)
}

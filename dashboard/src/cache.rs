//! What was read a moment ago, so that many who look at the same page ask the server once.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::trouble::Trouble;

/// An answer that many can share.
pub type Shared<T> = Arc<T>;

type Slot<T> = Arc<tokio::sync::Mutex<Option<(Instant, Shared<T>)>>>;

/// What is older than this is forgotten.
const KEEP: Duration = Duration::from_secs(20);

pub struct Cache<T> {
    slots: Mutex<HashMap<String, Slot<T>>>,
    fresh: Duration,
}

impl<T> Cache<T> {
    /// Answers are used again for so long.
    pub fn new(fresh: Duration) -> Cache<T> {
        Cache { slots: Mutex::default(), fresh }
    }

    /// The answer under this key; of those who ask at one time, one makes it and all have it.
    pub async fn get(&self, key: String, make: impl Future<Output = Result<T, Trouble>>) -> Result<Shared<T>, Trouble> {
        let slot = self.slot(key);
        let mut kept = slot.lock().await;
        if let Some((at, answer)) = kept.as_ref() {
            if at.elapsed() < self.fresh {
                return Ok(answer.clone());
            }
        }
        let answer = Arc::new(make.await?);
        *kept = Some((Instant::now(), answer.clone()));
        Ok(answer)
    }

    /// Forgets all: something was done that changes what is seen.
    pub fn clear(&self) {
        self.slots.lock().unwrap_or_else(|e| e.into_inner()).clear();
    }

    fn slot(&self, key: String) -> Slot<T> {
        let mut slots = self.slots.lock().unwrap_or_else(|e| e.into_inner());
        // Somebody who has a slot in hand is about to fill it, or waits for who does.
        let is_used = |slot: &Slot<T>| Arc::strong_count(slot) > 1;
        let is_fresh =
            |slot: &Slot<T>| slot.try_lock().is_ok_and(|kept| kept.as_ref().is_some_and(|(at, _)| at.elapsed() < KEEP));
        slots.retain(|_, slot| is_used(slot) || is_fresh(slot));
        slots.entry(key).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn many_who_ask_at_once_are_answered_by_one_look() {
        let (cache, made) = (Arc::new(Cache::new(Duration::from_secs(10))), Arc::new(AtomicUsize::new(0)));
        let asks: Vec<_> = (0..50)
            .map(|_| {
                let (cache, made) = (cache.clone(), made.clone());
                tokio::spawn(async move {
                    let make = async { Ok(made.fetch_add(1, Ordering::Relaxed)) };
                    cache.get("page".to_string(), make).await.map(|answer| *answer)
                })
            })
            .collect();
        for ask in asks {
            assert_eq!(ask.await.expect("it ran"), Ok(0));
        }
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}

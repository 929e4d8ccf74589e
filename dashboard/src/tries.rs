//! How often a password may be tried: by address, so that nobody's guesses keep others out.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::address::{Addresses, Rate};

/// Wrong passwords of one address.
const RATE: Rate = Rate { burst: 10.0, per_second: 10.0 };
/// How long a try waits for its turn: long enough for as many as there are connections by default.
const PATIENCE: Duration = Duration::from_secs(55);

#[derive(Debug, PartialEq)]
pub enum Verdict {
    Right,
    Wrong,
    /// Too many tries of the address wait: this one was not looked at.
    TooMany,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<oneshot::Sender<()>>,
    is_served: bool,
}

type Lines = Arc<Mutex<Addresses<Line>>>;

pub struct Tries(Lines);

impl Tries {
    pub fn new() -> Tries {
        Tries(Arc::new(Mutex::new(Addresses::new(RATE))))
    }

    /// Judges a password when its turn has come. A right one costs no credit.
    pub async fn judge(&self, address: IpAddr, is_right: impl FnOnce() -> bool) -> Verdict {
        if let Some(turn) = self.line_up(address) {
            if !matches!(timeout(PATIENCE, turn).await, Ok(Ok(()))) {
                return Verdict::TooMany;
            }
        }
        if is_right() {
            self.0.lock().unwrap_or_else(|e| e.into_inner()).entry(address).0.give_back();
            Verdict::Right
        } else {
            Verdict::Wrong
        }
    }

    /// Takes credit at once, or returns what tells that it is this one's turn.
    fn line_up(&self, address: IpAddr) -> Option<oneshot::Receiver<()>> {
        let mut lines = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let (bucket, line) = lines.entry(address);
        if line.waiting.is_empty() && bucket.take() {
            return None;
        }
        let (turn, told) = oneshot::channel();
        line.waiting.push_back(turn);
        if !line.is_served {
            line.is_served = true;
            tokio::spawn(serve(self.0.clone(), address));
        }
        Some(told)
    }
}

/// Gives turns to the tries of one address in FIFO order, so that a right password has its turn among many guesses.
async fn serve(lines: Lines, address: IpAddr) {
    while let Some(rest) = next_turn(&lines, address) {
        sleep(rest).await;
    }
}

/// Returns how long to wait before the next turn; none if nobody waits.
fn next_turn(lines: &Lines, address: IpAddr) -> Option<Duration> {
    let mut lines = lines.lock().unwrap_or_else(|e| e.into_inner());
    let (bucket, line) = lines.entry(address);
    line.waiting.retain(|turn| !turn.is_closed());
    while !line.waiting.is_empty() && bucket.take() {
        let told = line.waiting.pop_front().is_some_and(|turn| turn.send(()).is_ok());
        if !told {
            bucket.give_back();
        }
    }
    line.is_served = !line.waiting.is_empty();
    line.is_served.then(|| Duration::from_secs_f64(bucket.seconds_left()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[tokio::test]
    async fn guesses_are_slow_and_a_right_password_is_not() {
        let tries = Arc::new(Tries::new());
        let guess = |tries: Arc<Tries>| async move { while tries.judge(ip(1), || false).await == Verdict::Wrong {} };
        let guesses: Vec<_> = (0..100).map(|_| tokio::spawn(guess(tries.clone()))).collect();
        // The burst is spent: the other guesses wait.
        while tries.0.lock().expect("it is whole").entry(ip(1)).1.waiting.len() < 90 {
            tokio::task::yield_now().await;
        }
        let begin = Instant::now();
        assert_eq!(tries.judge(ip(2), || true).await, Verdict::Right);
        assert!(
            begin.elapsed() < Duration::from_millis(900),
            "another address waits for nobody: {:?}",
            begin.elapsed()
        );
        assert_eq!(tries.judge(ip(1), || true).await, Verdict::Right);
        let waited = begin.elapsed();
        assert!(waited > Duration::from_secs(5) && waited < Duration::from_secs(20), "100 guesses first: {waited:?}");
        guesses.iter().for_each(|guess| guess.abort());
    }

    #[tokio::test]
    async fn those_who_wait_have_their_turns_in_order() {
        let tries = Tries::new();
        while tries.line_up(ip(1)).is_none() {}
        let mut turns: Vec<_> = (0..5).filter_map(|_| tries.line_up(ip(1))).collect();
        assert_eq!(turns.len(), 5);
        while let Some(turn) = turns.pop() {
            turn.await.expect("it has its turn");
            // All who came before have had theirs.
            for earlier in &mut turns {
                assert!(earlier.try_recv().is_ok());
            }
            turns.clear();
        }
    }
}

//! Queue names and the keys of queues. The bytes are a name and, behind a line's end, a key.

use dq::core::names::{queue_of, Companion, QueueName};

pub fn run(data: &[u8]) {
    let (name, key) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, data),
    };
    if let Ok(queue) = QueueName::parse(name) {
        assert_eq!(queue.as_bytes(), name);
        let keys = Companion::ALL.map(|companion| queue.key(companion));
        for (companion, key) in Companion::ALL.into_iter().zip(&keys) {
            assert_eq!(queue_of(key), Some((queue, companion)));
            assert_eq!(tag(key), tag(name), "a cluster keeps them together");
            assert!(QueueName::parse(key).is_err(), "no queue is named like a key");
        }
        assert!(keys.iter().enumerate().all(|(at, key)| !keys[..at].contains(key)));
    }
    if let Some((queue, companion)) = queue_of(key) {
        assert_eq!(queue.key(companion), key);
        assert!(QueueName::parse(queue.as_bytes()).is_ok());
    }
}

/// What a cluster hashes of a key: between the first `{` and the next `}` where that is something, else all of it.
fn tag(key: &[u8]) -> &[u8] {
    let mut halves = key.splitn(2, |byte| *byte == b'{');
    let _before = halves.next();
    let Some(behind) = halves.next() else { return key };
    match behind.iter().position(|byte| *byte == b'}') {
        Some(end) if end > 0 => &behind[..end],
        _ => key,
    }
}

//! Queue names and the keys that belong to a queue.
//!
//! The queue's name is itself a key (the header). Its companions carry the name inside a hash
//! tag, so that a cluster keeps all of them in the slot of the name.

use std::fmt;

/// The longest queue name, in bytes.
pub const MAX_NAME: usize = 4096;

/// What every companion key begins with, and what no queue name may begin with.
const PREFIX: &[u8] = b"dq:";

/// A key of a queue beside its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Companion {
    /// ZSET: job id → time in ms at which it may be claimed.
    Due,
    /// ZSET: job id → time in ms at which its lease ends.
    Leased,
    /// HASH: job id → job record, for every job that is due or leased.
    Jobs,
    /// ZSET: caller's id → time in ms until which it stays taken.
    Ids,
    /// HASH: job id → dead letter.
    Dead,
    /// ZSET: job id → time in ms of death.
    DeadAt,
}

impl Companion {
    /// Every companion, in the order of declaration.
    pub const ALL: [Companion; 6] =
        [Companion::Due, Companion::Leased, Companion::Jobs, Companion::Ids, Companion::Dead, Companion::DeadAt];

    /// What follows the name in the key, without the colon between them.
    pub const fn suffix(self) -> &'static str {
        match self {
            Companion::Due => "due",
            Companion::Leased => "leased",
            Companion::Jobs => "jobs",
            Companion::Ids => "ids",
            Companion::Dead => "dead",
            Companion::DeadAt => "dead:at",
        }
    }
}

/// Why a name cannot name a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// No byte at all.
    Empty,
    /// More than [`MAX_NAME`] bytes.
    TooLong,
    /// Begins with `dq:`, as the companion keys do.
    Prefix,
    /// `{x}` and nothing more: its companions would be those of `x`.
    OnlyTag,
    /// A `}` in a name that has no valid hash tag: it would end the tag of the companions early.
    StrayBrace,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("the queue name is empty"),
            NameError::TooLong => write!(f, "the queue name is longer than {MAX_NAME} bytes"),
            NameError::Prefix => f.write_str("a queue name must not begin with 'dq:'"),
            NameError::OnlyTag => {
                f.write_str("a queue name must not be only a hash tag: {x} would share its keys with x")
            }
            NameError::StrayBrace => f.write_str("a queue name must not contain '}' without a valid hash tag"),
        }
    }
}

impl std::error::Error for NameError {}

/// A valid queue name: 1 to [`MAX_NAME`] bytes of any value, within the rules of [`NameError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueName<'a>(&'a [u8]);

impl<'a> QueueName<'a> {
    /// Takes `name` as it is, or says why it cannot name a queue.
    pub fn parse(name: &'a [u8]) -> Result<QueueName<'a>, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > MAX_NAME {
            return Err(NameError::TooLong);
        }
        if name.starts_with(PREFIX) {
            return Err(NameError::Prefix);
        }
        match hash_tag(name) {
            Some(tag) if tag.len() + 2 == name.len() => Err(NameError::OnlyTag),
            None if name.contains(&b'}') => Err(NameError::StrayBrace),
            _ => Ok(QueueName(name)),
        }
    }

    /// The name's bytes, which are also the key of the header.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The key of one companion: `dq:{name}:suffix`, or `dq:name:suffix` where the name brings
    /// its own hash tag.
    pub fn key(&self, companion: Companion) -> Vec<u8> {
        let suffix = companion.suffix().as_bytes();
        let mut key = Vec::with_capacity(PREFIX.len() + self.0.len() + suffix.len() + 3);
        key.extend_from_slice(PREFIX);
        if hash_tag(self.0).is_some() {
            key.extend_from_slice(self.0);
        } else {
            key.push(b'{');
            key.extend_from_slice(self.0);
            key.push(b'}');
        }
        key.push(b':');
        key.extend_from_slice(suffix);
        key
    }
}

/// The queue and the companion whose key `key` is: the reverse of [`QueueName::key`].
///
/// `None` for every key that [`QueueName::key`] does not make. Allocates nothing, and leaves
/// after three bytes where the key is not one of ours.
pub fn queue_of(key: &[u8]) -> Option<(QueueName<'_>, Companion)> {
    let rest = key.strip_prefix(PREFIX)?;
    let (middle, companion) = Companion::ALL.into_iter().find_map(|companion| {
        let middle = rest.strip_suffix(companion.suffix().as_bytes())?;
        Some((middle.strip_suffix(b":")?, companion))
    })?;
    let name = match hash_tag(middle)? {
        tag if tag.len() + 2 == middle.len() => QueueName::parse(tag),
        _ => QueueName::parse(middle),
    };
    Some((name.ok()?, companion))
}

/// The part of a key that a cluster hashes: what lies between the first `{` and the first `}`
/// after it, where that is not empty (Redis Cluster specification, "Hash tags").
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let inside = key.get(open + 1..)?;
    let close = inside.iter().position(|&byte| byte == b'}')?;
    inside.get(..close).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(name: &[u8], companion: Companion) -> Vec<u8> {
        QueueName::parse(name).unwrap().key(companion)
    }

    /// What the cluster hashes of a key.
    fn hashed(key: &[u8]) -> &[u8] {
        hash_tag(key).unwrap_or(key)
    }

    #[test]
    fn keys_are_spelled_as_documented() {
        assert_eq!(key(b"mail", Companion::Due), b"dq:{mail}:due");
        assert_eq!(key(b"mail", Companion::Leased), b"dq:{mail}:leased");
        assert_eq!(key(b"mail", Companion::Jobs), b"dq:{mail}:jobs");
        assert_eq!(key(b"mail", Companion::Ids), b"dq:{mail}:ids");
        assert_eq!(key(b"mail", Companion::Dead), b"dq:{mail}:dead");
        assert_eq!(key(b"mail", Companion::DeadAt), b"dq:{mail}:dead:at");
        assert_eq!(key(b"{tenant7}:mail", Companion::Due), b"dq:{tenant7}:mail:due");
        assert_eq!(key(b"a{b", Companion::Due), b"dq:{a{b}:due");
        assert_eq!(key(b"{x}}", Companion::Due), b"dq:{x}}:due");
    }

    #[test]
    fn forbidden_names_are_refused_by_their_reason() {
        let cases: [(&[u8], NameError); 12] = [
            (b"", NameError::Empty),
            (&[b'a'; MAX_NAME + 1], NameError::TooLong),
            (b"dq:", NameError::Prefix),
            (b"dq:{mail}:due", NameError::Prefix),
            (b"{x}", NameError::OnlyTag),
            (b"{a{b}", NameError::OnlyTag),
            (b"}", NameError::StrayBrace),
            (b"{}", NameError::StrayBrace),
            (b"a}b", NameError::StrayBrace),
            (b"}{", NameError::StrayBrace),
            (b"{}{a}", NameError::StrayBrace),
            (b"{}a}", NameError::StrayBrace),
        ];
        for (name, error) in cases {
            assert_eq!(QueueName::parse(name), Err(error), "{name:?}");
        }
    }

    #[test]
    fn odd_but_valid_names_are_taken() {
        for name in [&b"a"[..], b"dq", b"DQ:x", b"{", b"a{b", b"x{t}", b"a}b{t}c", b"\0\xff \r\n", &[b'a'; MAX_NAME]] {
            assert_eq!(QueueName::parse(name).unwrap().as_bytes(), name);
        }
    }

    #[test]
    fn foreign_keys_name_no_queue() {
        for key in [
            &b""[..],
            b"dq",
            b"dq:",
            b"mail",
            b"dq:mail:due",
            b"dq:{mail}due",
            b"dq:{mail}:at",
            b"dq:{mail}:",
            b"dq:{}:due",
            b"dq:{{x}}:due:",
            b"dq:{dq:x}:due",
            b"dq:dq:{x}y:due",
            b"dq::due",
            b"Dq:{mail}:due",
        ] {
            assert_eq!(queue_of(key), None, "{:?}", String::from_utf8_lossy(key));
        }
    }

    /// Names that are rich in what the rules are about.
    fn any_name() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "[{}:adq]{0,8}".prop_map(String::into_bytes),
            "(dq:)?[{}a]{0,5}(:dead|:at|:due){0,2}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..40),
        ]
    }

    fn any_companion() -> impl Strategy<Value = Companion> {
        prop::sample::select(&Companion::ALL[..])
    }

    proptest! {
        #[test]
        fn a_key_leads_back_to_its_queue(name in any_name(), companion in any_companion()) {
            if let Ok(queue) = QueueName::parse(&name) {
                let key = queue.key(companion);
                prop_assert_eq!(queue_of(&key), Some((queue, companion)));
            }
        }

        #[test]
        fn all_keys_of_a_queue_hash_alike(name in any_name(), companion in any_companion()) {
            if let Ok(queue) = QueueName::parse(&name) {
                let key = queue.key(companion);
                prop_assert_eq!(hashed(&key), hashed(&name));
            }
        }

        #[test]
        fn two_queues_share_no_key(
            one in any_name(), two in any_name(),
            of_one in any_companion(), of_two in any_companion(),
        ) {
            if let (Ok(first), Ok(second)) = (QueueName::parse(&one), QueueName::parse(&two)) {
                let same = first == second && of_one == of_two;
                prop_assert_eq!(first.key(of_one) == second.key(of_two), same);
                prop_assert_ne!(&first.key(of_one)[..], &two[..]);
            }
        }

        #[test]
        fn only_made_keys_are_recognised(
            name in any_name(), companion in any_companion(), wrap in any::<bool>(),
        ) {
            let mut key = b"dq:".to_vec();
            if wrap { key.push(b'{'); }
            key.extend_from_slice(&name);
            if wrap { key.push(b'}'); }
            key.push(b':');
            key.extend_from_slice(companion.suffix().as_bytes());
            if let Some((queue, companion)) = queue_of(&key) {
                prop_assert_eq!(queue.key(companion), key);
            }
        }
    }
}

//! Why nothing can be shown or done just now, in words that say what to do.

use redis::{ErrorKind, RedisError};
use serde::Serialize;

/// What stands in the way.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Trouble {
    pub kind: Kind,
    /// One sentence: what is wrong.
    pub what: String,
    /// What to do about it, a step a line.
    pub advice: Vec<String>,
    /// The answer of the server, word for word.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// No connection, or no answer.
    Unreachable,
    Password,
    Permission,
    NoModule,
    OldModule,
    Loading,
    Sentinel,
    Moved,
    /// The server refused what it was asked.
    Refused,
    /// What was to be acted on is not what it was when it was shown.
    Changed,
    /// Too many ask at once.
    Busy,
}

/// The least version of the module that has all that the pages need.
pub const LEAST_MODULE: (u64, u64, u64) = (0, 1, 0);

/// What docs/users.md gives to a user who only reads.
const VIEWER: &str = "ACL SETUSER viewer reset on >password resetchannels &__keyevent@* %R~* +ping +info +subscribe \
                      +psubscribe +unsubscribe +punsubscribe +dq.stats +dq.get +dq.peek +dq.queues +dq.check";

impl Trouble {
    pub fn new(kind: Kind, what: impl Into<String>, advice: &[&str]) -> Trouble {
        let advice = advice.iter().map(|line| line.to_string()).collect();
        Trouble { kind, what: what.into(), advice, detail: String::new() }
    }

    fn because(mut self, error: &RedisError) -> Trouble {
        self.detail = text_of(error);
        self
    }

    /// What an error of `server` to `command` means.
    pub fn of(error: &RedisError, server: &str, command: &str) -> Trouble {
        let detail = text_of(error);
        let code = detail.split(' ').next().unwrap_or_default();
        match code {
            "WRONGPASS" | "NOAUTH" => password(server, code),
            _ if error.kind() == ErrorKind::AuthenticationFailed => password(server, code),
            "NOPERM" => permission(server, command),
            "LOADING" => {
                Trouble::new(Kind::Loading, format!("{server} is loading its data"), &["It goes on by itself."])
            }
            "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" => {
                Trouble::new(Kind::Moved, "The queue's slot is on its way to another node", &["Try again."])
            }
            _ if detail.contains("unknown command") && command.to_ascii_uppercase().starts_with("DQ.") => {
                no_module(server)
            }
            _ if is_connection(error) => unreachable(server, advice_on_connection(&detail)),
            _ => Trouble::new(Kind::Refused, format!("{server} refused {command}"), &[]),
        }
        .because(error)
    }

    /// The module is there, but has not all that the pages need.
    pub fn old_module(server: &str, version: &str) -> Trouble {
        let (major, minor, patch) = LEAST_MODULE;
        let least = format!("This page needs DQ {major}.{minor}.{patch} or later: put the new libdq.so in its place.");
        Trouble::new(
            Kind::OldModule,
            format!("{server} has DQ {version}, which is too old for this page"),
            &[&least, "docs/installing.md, “A new version in a running server”, tells how to do it without a restart."],
        )
    }

    /// Whether the connection is of no more use.
    pub fn cuts(&self) -> bool {
        matches!(self.kind, Kind::Unreachable | Kind::Password | Kind::Loading | Kind::Sentinel)
    }
}

fn unreachable(server: &str, advice: &str) -> Trouble {
    Trouble::new(
        Kind::Unreachable,
        format!("No connection to {server}"),
        &["It is tried again each second, and goes on by itself.", advice],
    )
}

/// What to do about a connection that does not come about, by what TLS says of it.
fn advice_on_connection(detail: &str) -> &'static str {
    let says = |words| detail.contains(words);
    if says("invalid peer certificate") {
        "Its certificate does not prove who it is: --ca-file names who signs for it, and it must be made for this host."
    } else if says("received fatal alert") {
        "It wants to know who comes: --cert-file and --key-file name a certificate that it takes."
    } else {
        "Is the server running, and is the address right? One that speaks TLS needs rediss:// or --tls, others neither."
    }
}

fn password(server: &str, code: &str) -> Trouble {
    let what = match code {
        "NOAUTH" => format!("{server} asks for a user and a password"),
        _ => format!("{server} does not take this user and password"),
    };
    Trouble::new(
        Kind::Password,
        what,
        &[
            "Give the user by --user, and the password in DQ_REDIS_PASSWORD or by --redis-password-file.",
            "A user who only reads is enough to watch. This line makes one:",
            VIEWER,
        ],
    )
}

fn permission(server: &str, command: &str) -> Trouble {
    let lower = command.to_ascii_lowercase();
    let name = lower.split(' ').next().unwrap_or_default();
    let rule = format!("It needs the rule +{}", lower.replacen(' ', "|", 1));
    let change = match name {
        "dq.cancel" | "dq.reschedule" | "dq.replay" | "dq.purge" | "dq.pause" | "dq.resume" | "dq.config" => {
            "The user “operator” of docs/users.md may do it."
        }
        _ => "The user “viewer” of docs/users.md may do it.",
    };
    Trouble::new(Kind::Permission, format!("The user of this page may not run {command} on {server}"), &[&rule, change])
}

fn no_module(server: &str) -> Trouble {
    Trouble::new(
        Kind::NoModule,
        format!("{server} has not loaded DQ"),
        &[
            "Add this line to redis.conf, with the path of your libdq.so, and start the server again:",
            "loadmodule /usr/lib/redis/modules/libdq.so",
            "MODULE LIST shows what is loaded. Is this the right server?",
        ],
    )
}

fn is_connection(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_connection_dropped()
        || error.is_timeout()
        || error.is_connection_refusal()
        || error.is_unrecoverable_error()
}

/// The error as the server wrote it, else as the client says it.
fn text_of(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

/// The three numbers of a version.
pub fn version(text: &str) -> (u64, u64, u64) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

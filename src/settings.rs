//! Every setting of the server and of a queue: name, default, least, most and meaning. CONFIG GET and SET, redis.conf
//! lines, the arguments of MODULE LOAD and DQ.CONFIG all come through this table.

use crate::core::args::{duration_from_to, format_duration, parse_digits, parse_duration, printable};
use crate::redis::{Ctx, MainThread, SettingText, Text};
use std::cell::RefCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

pub const MS: u64 = 1;
pub const SECOND: u64 = 1000 * MS;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// The value of a size that DQ chooses.
const AUTO: &str = "auto";

/// How a value is written.
#[derive(Clone, Copy)]
enum Kind {
    /// Whole ms, or a number with `ms`, `s`, `m`, `h` or `d`.
    Duration,
    Count,
    /// Bytes, or a number with `kb` or `mb` (1,024 and 1,048,576).
    Bytes,
    /// As `Bytes`, or `auto`, whose value is 0.
    BytesOrAuto,
    Percent,
    /// One of these words; the value is its place.
    Word(&'static [&'static str]),
}

/// One setting and its value.
pub struct Setting {
    name: &'static CStr,
    kind: Kind,
    default: u64,
    least: u64,
    most: u64,
    value: AtomicU64,
    shown: MainThread<RefCell<Option<Text>>>,
}

impl Setting {
    const fn new(name: &'static CStr, kind: Kind, default: u64, least: u64, most: u64) -> Setting {
        Setting {
            name,
            kind,
            default,
            least,
            most,
            value: AtomicU64::new(default),
            shown: MainThread::new(RefCell::new(None)),
        }
    }

    const fn word(name: &'static CStr, words: &'static [&'static str]) -> Setting {
        Setting::new(name, Kind::Word(words), 0, 0, words.len() as u64 - 1)
    }

    /// Whether this is `other`.
    pub fn is(&self, other: &Setting) -> bool {
        std::ptr::eq(self, other)
    }

    pub fn get(&self) -> u64 {
        self.value.load(Relaxed)
    }

    /// The name without `dq.`.
    pub fn short_name(&self) -> &'static str {
        self.name.to_str().unwrap_or_default()
    }

    /// The value that the text stands for, where it is one.
    pub fn read(&self, text: &[u8]) -> Option<u64> {
        self.parse(text).filter(|value| (self.least..=self.most).contains(value))
    }

    fn parse(&self, text: &[u8]) -> Option<u64> {
        match self.kind {
            Kind::Duration => parse_duration(text),
            Kind::Bytes => parse_bytes(text),
            Kind::BytesOrAuto if text.eq_ignore_ascii_case(AUTO.as_bytes()) => Some(0),
            Kind::BytesOrAuto => parse_bytes(text).filter(|bytes| *bytes > 0),
            Kind::Count | Kind::Percent => parse_digits(text),
            Kind::Word(words) => {
                words.iter().position(|word| word.as_bytes().eq_ignore_ascii_case(text)).map(|place| place as u64)
            }
        }
    }

    /// The text that stands for the value.
    pub fn format(&self, value: u64) -> String {
        match self.kind {
            Kind::Duration => format_duration(value),
            Kind::Word(words) => words[usize::try_from(value).unwrap_or(0).min(words.len() - 1)].into(),
            Kind::BytesOrAuto if value == 0 => AUTO.into(),
            Kind::Count | Kind::Bytes | Kind::BytesOrAuto | Kind::Percent => value.to_string(),
        }
    }

    /// What a value has to be.
    pub fn expectation(&self) -> String {
        let (least, most) = (self.format(self.least), self.format(self.most));
        match self.kind {
            Kind::Duration => duration_from_to(self.least, self.most),
            Kind::Count => format!("a whole number from {least} to {most}"),
            Kind::Bytes => format!("a number of bytes from {least} to {most}, which kb or mb may follow"),
            Kind::BytesOrAuto => format!("auto, or a number of bytes from 1 to {most}, which kb or mb may follow"),
            Kind::Percent => format!("a whole number of percent from {least} to {most}"),
            Kind::Word(words) => format!("one of: {}", words.join(", ")),
        }
    }
}

impl SettingText for Setting {
    fn name(&self) -> &'static CStr {
        self.name
    }

    fn default_text(&self) -> String {
        self.format(self.default)
    }

    fn text(&self) -> String {
        self.format(self.get())
    }

    fn set_text(&self, text: &[u8]) -> Result<(), String> {
        match self.read(text) {
            Some(value) => {
                self.value.store(value, Relaxed);
                Ok(())
            }
            None => Err(format!("dq.{} must be {}", self.short_name(), self.expectation())),
        }
    }

    fn applied(&self, ctx: &Ctx) {
        if let Some(tell) = ON_CHANGE.get() {
            tell(ctx, self);
        }
    }

    fn shown(&self) -> &MainThread<RefCell<Option<Text>>> {
        &self.shown
    }
}

/// Who is told when a setting has a new value.
static ON_CHANGE: OnceLock<fn(&Ctx, &Setting)> = OnceLock::new();

/// Has `tell` called whenever a CONFIG SET stands.
pub fn on_change(tell: fn(&Ctx, &Setting)) {
    ON_CHANGE.get_or_init(|| tell);
}

/// Takes the arguments of MODULE LOAD: names, with or without `dq.`, each followed by its value.
pub fn take_arguments(args: &[&[u8]]) -> Result<(), String> {
    for pair in args.chunks(2) {
        let lower = pair[0].to_ascii_lowercase();
        let name = lower.strip_prefix(b"dq.").unwrap_or(&lower);
        let setting = ALL.iter().find(|setting| setting.name.to_bytes() == name);
        let setting = setting.ok_or_else(|| {
            let names = ALL.map(Setting::short_name).join(", ");
            format!("there is no setting '{}'; there are {names}", printable(pair[0]))
        })?;
        let value = pair.get(1).ok_or_else(|| format!("dq.{} needs a value", setting.short_name()))?;
        setting.set_text(value)?;
    }
    Ok(())
}

/// Gives back what the server was shown, before the module goes.
pub fn forget_shown() {
    ALL.iter().for_each(|setting| *setting.shown.borrow_mut() = None);
}

fn parse_bytes(text: &[u8]) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.as_slice() {
        [digits @ .., b'k', b'b'] => (digits, KIB),
        [digits @ .., b'm', b'b'] => (digits, MIB),
        digits => (digits, 1),
    };
    parse_digits(digits)?.checked_mul(unit)
}

/// What becomes of a job that was ready for `stale-after` while nobody worked on the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StalePolicy {
    /// It becomes a dead letter with the reason `stale`.
    Dead,
    Drop,
    Keep,
}

impl StalePolicy {
    /// The policy for which a value of `stale-policy` stands.
    pub fn of(value: u64) -> StalePolicy {
        match value {
            0 => StalePolicy::Dead,
            1 => StalePolicy::Drop,
            _ => StalePolicy::Keep,
        }
    }
}

/// Whether a forward step of the system's clock is taken at once.
pub fn follows_clock_steps() -> bool {
    CLOCK_STEP.get() == 1
}

pub fn is_enabled() -> bool {
    ENABLED.get() == 0
}

/// Bytes that all clients which wait may take together, on a server of that `maxmemory` (0 for no limit).
pub fn max_waiting_memory(maxmemory: u64) -> u64 {
    match (MAX_WAITING_MEMORY.get(), maxmemory) {
        (0, 0) => 256 * MIB,
        (0, maxmemory) => (maxmemory / 16).max(MIB),
        (bytes, _) => bytes,
    }
}

use Kind::{Bytes, BytesOrAuto, Count, Duration, Percent};

/// How long a claim holds a job where neither CLAIM nor the job says it.
pub static LEASE: Setting = Setting::new(c"lease", Duration, 30 * SECOND, MS, 30 * DAY);
/// The longest lease that LEASE and EXTEND may ask for.
pub static MAX_LEASE: Setting = Setting::new(c"max-lease", Duration, 12 * HOUR, MS, 30 * DAY);
/// Failures that a job survives.
pub static MAX_RETRIES: Setting = Setting::new(c"max-retries", Count, 300, 0, 1_000_000);
/// Lapses at which a job is dead.
pub static MAX_LAPSES: Setting = Setting::new(c"max-lapses", Count, 5, 1, 1_000_000);
/// The wait after the first failure.
pub static BACKOFF_BASE: Setting = Setting::new(c"backoff-base", Duration, SECOND, MS, 30 * DAY);
/// The longest wait after a failure.
pub static BACKOFF_CAP: Setting = Setting::new(c"backoff-cap", Duration, 5 * MINUTE, MS, 30 * DAY);
/// How much of a wait is added at random, at most.
pub static BACKOFF_JITTER: Setting = Setting::new(c"backoff-jitter", Percent, 0, 0, 1000);
/// The longest DELAY, and how far ahead AT may be.
pub static MAX_DELAY: Setting = Setting::new(c"max-delay", Duration, 7 * DAY, 0, 3650 * DAY);
/// The largest payload; 0 for no limit.
pub static MAX_PAYLOAD: Setting = Setting::new(c"max-payload", Bytes, MIB, 0, 512 * MIB);
/// The most due and leased jobs in a queue; 0 for no limit.
pub static MAX_LENGTH: Setting = Setting::new(c"max-length", Count, 0, 0, 1_000_000_000_000);
/// What is kept of ERROR and of STACK; 0 for all.
pub static MAX_ERROR: Setting = Setting::new(c"max-error", Bytes, 64 * KIB, 0, 512 * MIB);
/// A job due later than this is far.
pub static FAR_HORIZON: Setting = Setting::new(c"far-horizon", Duration, HOUR, 0, 3650 * DAY);
/// So many far jobs raise the alarm; 0 for never.
pub static FAR_ALARM: Setting = Setting::new(c"far-alarm", Count, 100_000, 0, 1_000_000_000_000);
/// How often a queue is looked over for what is stale, old or left over.
pub static PURGE_INTERVAL: Setting = Setting::new(c"purge-interval", Duration, 5 * MINUTE, 10 * MS, DAY);
/// How long a job is ready, and nobody claims or holds a job of the queue, before it is stale.
pub static STALE_AFTER: Setting = Setting::new(c"stale-after", Duration, 5 * MINUTE, MS, 365 * DAY);
/// What becomes of a stale job.
pub static STALE_POLICY: Setting = Setting::word(c"stale-policy", &["dead", "drop", "keep"]);
/// The most dead letters of a queue; 0 for no limit.
pub static DEAD_MAX: Setting = Setting::new(c"dead-max", Count, 100_000, 0, 1_000_000_000_000);
/// How long a dead letter is kept; 0 for ever.
pub static DEAD_MAX_AGE: Setting = Setting::new(c"dead-max-age", Duration, 90 * DAY, 0, 3650 * DAY);
/// How long a caller's id stays taken after its push, where KEEP does not say.
pub static ID_KEEP: Setting = Setting::new(c"id-keep", Duration, 5 * MINUTE, 0, 30 * DAY);
/// For how long no lease ends after load, promotion, or paused or refused writes.
pub static TAKEOVER_GRACE: Setting = Setting::new(c"takeover-grace", Duration, 5 * SECOND, 0, HOUR);
/// How long an empty queue without settings of its own is kept.
pub static IDLE_QUEUE_TTL: Setting = Setting::new(c"idle-queue-ttl", Duration, DAY, SECOND, 3650 * DAY);
/// The most memory that clients which wait take together.
pub static MAX_WAITING_MEMORY: Setting = Setting::new(c"max-waiting-memory", BytesOrAuto, 0, 0, 1024 * GIB);
/// What the queue clock does about a step of the system's clock.
pub static CLOCK_STEP: Setting = Setting::word(c"clock-step", &["slew", "follow"]);
/// Whether the module acts; `no` readies it for MODULE UNLOAD.
pub static ENABLED: Setting = Setting::word(c"enabled", &["yes", "no"]);

pub static ALL: [&Setting; 24] = [
    &LEASE,
    &MAX_LEASE,
    &MAX_RETRIES,
    &MAX_LAPSES,
    &BACKOFF_BASE,
    &BACKOFF_CAP,
    &BACKOFF_JITTER,
    &MAX_DELAY,
    &MAX_PAYLOAD,
    &MAX_LENGTH,
    &MAX_ERROR,
    &FAR_HORIZON,
    &FAR_ALARM,
    &PURGE_INTERVAL,
    &STALE_AFTER,
    &STALE_POLICY,
    &DEAD_MAX,
    &DEAD_MAX_AGE,
    &ID_KEEP,
    &TAKEOVER_GRACE,
    &IDLE_QUEUE_TTL,
    &MAX_WAITING_MEMORY,
    &CLOCK_STEP,
    &ENABLED,
];

/// The most jobs of a queue that are leased at once; 0 for no limit. Only a queue has it, so the server's is always 0.
pub static MAX_LEASED: Setting = Setting::new(c"max-leased", Count, 0, 0, 1_000_000_000_000);

/// What a queue may have for itself. The rest is the server's alone: it bounds all queues, or belongs to none.
pub static OF_QUEUES: [&Setting; 18] = [
    &LEASE,
    &MAX_RETRIES,
    &MAX_LAPSES,
    &BACKOFF_BASE,
    &BACKOFF_CAP,
    &BACKOFF_JITTER,
    &MAX_DELAY,
    &MAX_PAYLOAD,
    &MAX_LENGTH,
    &MAX_LEASED,
    &MAX_ERROR,
    &FAR_HORIZON,
    &FAR_ALARM,
    &STALE_AFTER,
    &STALE_POLICY,
    &DEAD_MAX,
    &DEAD_MAX_AGE,
    &ID_KEEP,
];

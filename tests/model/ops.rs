//! What a history is made of, and how histories are drawn. An operation names queues, receipts and ids by their places
//! among those that there are, so that it still means something when others before it are left out.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// A step of a history.
#[derive(Clone, Debug)]
pub struct Step {
    pub op: Op,
    pub via: Via,
    /// By how many places the options are turned; an odd one has them in small letters.
    pub turn: usize,
}

/// How a command is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Via {
    Plain,
    Multi,
    Script,
}

/// When a job is to be due.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    No,
    Delay(u64),
    /// So many ms from the time that the wall clock shows.
    At(i64),
}

/// Options of a job.
#[derive(Clone, Debug)]
pub struct JobOptions {
    pub retries: Option<u64>,
    pub lease: Option<u64>,
    pub backoff: Option<(u64, u64)>,
}

/// How a caller's id is taken.
#[derive(Clone, Debug)]
pub struct IdOptions {
    pub keep: Option<u64>,
    pub nx: bool,
    pub replace: bool,
}

/// One id of those that there are.
#[derive(Clone, Copy, Debug)]
pub enum IdRef {
    /// A caller's.
    Own(usize),
    /// That of a job or letter, by its place.
    Present(usize),
    /// That of a letter, by its place.
    Dead(usize),
}

#[derive(Clone, Debug)]
pub enum Which {
    All,
    Ids(Vec<IdRef>),
}

/// What another hand does to the keys.
#[derive(Clone, Copy, Debug)]
pub enum Harm {
    IndexEntryGone,
    RecordGone,
    InBothIndexes,
    FractionalScore,
    EndlessScore,
    OldEntry,
    SecondEntry,
    UnreadableRecord,
    LetterGone,
    LetterTimeGone,
    EntryOfNothing,
    HeaderGone,
}

#[derive(Clone, Copy, Debug)]
pub enum Restart {
    /// kill -9.
    Crash,
    /// SHUTDOWN.
    Shutdown,
    /// DEBUG RELOAD.
    Reload,
}

pub type Place = usize;

#[derive(Clone, Debug)]
pub enum Op {
    Push {
        q: Place,
        payload: usize,
        own: Option<(usize, IdOptions)>,
        wait: Wait,
        options: JobOptions,
    },
    MpushPayloads {
        q: Place,
        payloads: Vec<usize>,
        wait: Wait,
        options: JobOptions,
    },
    MpushJobs {
        q: Place,
        jobs: Vec<(Option<usize>, u64, usize)>,
        ids: IdOptions,
        options: JobOptions,
    },
    Claim {
        q: Place,
        count: Option<u64>,
        lease: Option<u64>,
    },
    Mclaim {
        first: Place,
        count: Option<u64>,
        lease: Option<u64>,
        rotate: Option<bool>,
    },
    /// A claim of another client, which waits.
    Block {
        q: Place,
        several: bool,
        count: u64,
        lease: Option<u64>,
        ms: u64,
        rotate: bool,
    },
    Ack {
        q: Place,
        receipts: Vec<usize>,
        each: bool,
    },
    Extend {
        q: Place,
        ms: u64,
        receipts: Vec<usize>,
    },
    Retry {
        q: Place,
        receipt: usize,
        delay: Option<u64>,
        error: Option<usize>,
        stack: Option<usize>,
    },
    Release {
        q: Place,
        delay: Option<u64>,
        receipts: Vec<usize>,
    },
    Fail {
        q: Place,
        receipt: usize,
        error: Option<usize>,
        stack: Option<usize>,
    },
    Get {
        q: Place,
        id: IdRef,
    },
    Peek {
        q: Place,
        state: Option<usize>,
        count: Option<u64>,
    },
    Cancel {
        q: Place,
        state: Option<usize>,
        ids: Vec<IdRef>,
    },
    Reschedule {
        q: Place,
        wait: Wait,
        which: Which,
    },
    Replay {
        q: Place,
        reason: Option<usize>,
        count: Option<u64>,
        delay: Option<u64>,
        spread: Option<u64>,
        which: Which,
    },
    Purge {
        q: Place,
        states: Vec<usize>,
    },
    Drop {
        q: Place,
        force: bool,
    },
    Pause {
        q: Place,
    },
    Resume {
        q: Place,
    },
    ConfigGet {
        q: Place,
        field: Option<usize>,
    },
    ConfigSet {
        q: Place,
        values: Vec<(&'static str, u64)>,
    },
    ConfigReset {
        q: Place,
        fields: Vec<usize>,
    },
    Queues {
        pattern: bool,
    },
    /// CONFIG SET of the server.
    Server {
        name: &'static str,
        value: u64,
    },
    Advance {
        us: u64,
    },
    /// To the next moment at which something is due, or a ms before or behind it, and so many µs more.
    AdvanceToNext {
        off: i64,
        us: u64,
    },
    /// The module is disabled and enabled again, with so long a grace.
    Outage {
        grace: u64,
    },
    /// The wall clock is set by so many hours from queue time.
    Wall {
        hours: i64,
    },
    Restart(Restart),
    /// Another hand writes into the keys; DQ.CHECK tells, and REPAIR mends it.
    Harm {
        q: Place,
        harm: Harm,
        at: usize,
    },
    /// Arguments that are refused.
    Refused {
        q: Place,
        which: usize,
        number: usize,
    },
    /// A command on a queue of which a key holds something else.
    WrongType {
        key: usize,
        command: usize,
    },
}

fn q() -> impl Strategy<Value = Place> {
    prop_oneof![5 => Just(0), 1 => Just(1)]
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![
        30 => select(vec![0, 1, 2, 5, 10, 40, 100, 999, 1000, 5000, 60_000]),
        1 => Just(130_000),
    ]
}

fn lease() -> impl Strategy<Value = u64> {
    select(vec![1, 2, 10, 50, 500, 3000, 3000, 60_000, 60_000])
}

fn wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        3 => Just(Wait::No),
        3 => delay().prop_map(Wait::Delay),
        1 => select(vec![-5000, -1, 0, 1, 20, 1500, 130_001]).prop_map(Wait::At),
    ]
}

fn job_options() -> impl Strategy<Value = JobOptions> {
    let backoff = select(vec![(1, 1), (5, 40), (10, 1000), (1000, 86_400_000)]);
    let rare = |p| proptest::option::Probability::new(p);
    (option::weighted(rare(0.2), 0..4u64), option::weighted(rare(0.2), lease()), option::weighted(rare(0.15), backoff))
        .prop_map(|(retries, lease, backoff)| JobOptions { retries, lease, backoff })
}

fn keep() -> impl Strategy<Value = u64> {
    select(vec![0, 1, 10, 1000, 20_000])
}

fn id_options() -> impl Strategy<Value = IdOptions> {
    (option::of(keep()), prop::bool::weighted(0.3), prop::bool::weighted(0.4))
        .prop_map(|(keep, nx, replace)| IdOptions { keep, nx, replace })
}

fn own() -> impl Strategy<Value = usize> {
    0..4usize
}

fn payload() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..3usize, 1 => 3..8usize]
}

fn id() -> impl Strategy<Value = IdRef> {
    prop_oneof![1 => own().prop_map(IdRef::Own), 4 => (0..12usize).prop_map(IdRef::Present)]
}

fn ids() -> impl Strategy<Value = Vec<IdRef>> {
    prop::collection::vec(id(), 1..4)
}

fn dead_ids() -> impl Strategy<Value = Vec<IdRef>> {
    prop::collection::vec(prop_oneof![5 => (0..6usize).prop_map(IdRef::Dead), 1 => id()], 1..5)
}

fn which_dead() -> impl Strategy<Value = Which> {
    prop_oneof![2 => Just(Which::All), 3 => dead_ids().prop_map(Which::Ids)]
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![2 => Just(Which::All), 3 => ids().prop_map(Which::Ids)]
}

fn receipt() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..3usize, 4 => 0..8usize, 1 => Just(usize::MAX)]
}

fn receipts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![3 => receipt().prop_map(|one| vec![one]), 1 => prop::collection::vec(receipt(), 1..4)]
}

fn text() -> impl Strategy<Value = Option<usize>> {
    option::of(0..7usize)
}

fn count() -> impl Strategy<Value = Option<u64>> {
    option::of(1..4u64)
}

/// A setting that a queue can have, and a value that makes a difference.
fn own_setting() -> impl Strategy<Value = (&'static str, u64)> {
    select(vec![
        ("lease", 20),
        ("lease", 5000),
        ("max-retries", 0),
        ("max-retries", 1),
        ("max-lapses", 1),
        ("max-lapses", 2),
        ("backoff-base", 3),
        ("backoff-cap", 7),
        ("backoff-jitter", 50),
        ("backoff-jitter", 1000),
        ("max-delay", 1000),
        ("max-payload", 3),
        ("max-length", 3),
        ("max-leased", 1),
        ("max-leased", 2),
        ("max-leased", 0),
        ("max-error", 4),
        ("far-horizon", 0),
        ("far-horizon", 50),
        ("far-alarm", 1),
        ("stale-after", 30),
        ("stale-policy", 1),
        ("stale-policy", 2),
        ("stale-policy", 0),
        ("dead-max", 1),
        ("dead-max", 2),
        ("dead-max-age", 500),
        ("id-keep", 0),
        ("id-keep", 100_000),
    ])
}

fn server_setting() -> impl Strategy<Value = (&'static str, u64)> {
    prop_oneof![
        6 => own_setting().prop_filter("a queue alone has max-leased", |(name, _)| *name != "max-leased"),
        4 => select(vec![
            ("max-lease", 30),
            ("max-lease", 86_400_000),
            ("purge-interval", 10),
            ("purge-interval", 500),
            ("takeover-grace", 0),
            ("takeover-grace", 700),
            ("idle-queue-ttl", 1000),
        ]),
        1 => Just(("enabled", 1)),
        3 => Just(("enabled", 0)),
    ]
}

fn producing() -> impl Strategy<Value = Op> {
    let rarely = |p| proptest::option::Probability::new(p);
    prop_oneof![
        8 => (q(), payload(), option::weighted(rarely(0.4), (own(), id_options())), wait(), job_options())
            .prop_map(|(q, payload, own, wait, options)| Op::Push { q, payload, own, wait, options }),
        2 => (q(), prop::collection::vec(payload(), 1..5), wait(), job_options())
            .prop_map(|(q, payloads, wait, options)| Op::MpushPayloads { q, payloads, wait, options }),
        2 => (q(), prop::collection::vec((option::of(own()), delay(), payload()), 1..5), id_options(), job_options())
            .prop_map(|(q, jobs, ids, options)| Op::MpushJobs { q, jobs, ids, options }),
    ]
}

fn working() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (q(), count(), option::of(lease())).prop_map(|(q, count, lease)| Op::Claim { q, count, lease }),
        2 => (q(), count(), option::of(lease()), option::of(any::<bool>()))
            .prop_map(|(first, count, lease, rotate)| Op::Mclaim { first, count, lease, rotate }),
        2 => (q(), any::<bool>(), 1..3u64, option::of(lease()), select(vec![0, 1, 30, 2000]), any::<bool>())
            .prop_map(|(q, several, count, lease, ms, rotate)| Op::Block { q, several, count, lease, ms, rotate }),
        6 => (q(), receipts(), any::<bool>()).prop_map(|(q, receipts, each)| Op::Ack { q, receipts, each }),
        5 => (q(), lease(), receipts()).prop_map(|(q, ms, receipts)| Op::Extend { q, ms, receipts }),
        7 => (q(), receipt(), option::of(delay()), text(), text())
            .prop_map(|(q, receipt, delay, error, stack)| Op::Retry { q, receipt, delay, error, stack }),
        4 => (q(), option::of(delay()), receipts())
            .prop_map(|(q, delay, receipts)| Op::Release { q, delay, receipts }),
        4 => (q(), receipt(), text(), text())
            .prop_map(|(q, receipt, error, stack)| Op::Fail { q, receipt, error, stack }),
    ]
}

fn operating() -> impl Strategy<Value = Op> {
    let state = || option::of(0..4usize);
    let spans = || option::of(select(vec![0u64, 1, 7, 100, 5000, 119_999]));
    prop_oneof![
        3 => (q(), id()).prop_map(|(q, id)| Op::Get { q, id }),
        3 => (q(), state(), option::of(1..4u64)).prop_map(|(q, state, count)| Op::Peek { q, state, count }),
        3 => (q(), state(), ids()).prop_map(|(q, state, ids)| Op::Cancel { q, state, ids }),
        3 => (q(), wait(), which()).prop_map(|(q, wait, which)| Op::Reschedule { q, wait, which }),
        5 => (q(), option::weighted(0.3, 0..4usize), option::weighted(0.3, 1..3u64), spans(), spans(), which_dead())
            .prop_map(|(q, reason, count, delay, spread, which)| Op::Replay { q, reason, count, delay, spread, which }),
        2 => (q(), Just(vec![0usize, 1, 2, 3]).prop_shuffle(), 1..3usize)
            .prop_map(|(q, states, len)| Op::Purge { q, states: states[..len].to_vec() }),
        1 => (q(), any::<bool>()).prop_map(|(q, force)| Op::Drop { q, force }),
        2 => q().prop_map(|q| Op::Pause { q }),
        3 => q().prop_map(|q| Op::Resume { q }),
        1 => (q(), option::of(0..18usize)).prop_map(|(q, field)| Op::ConfigGet { q, field }),
        4 => (q(), prop::collection::vec(own_setting(), 1..3))
            .prop_map(|(q, values)| Op::ConfigSet { q, values }),
        2 => (q(), prop::collection::vec(0..18usize, 1..6)).prop_map(|(q, fields)| Op::ConfigReset { q, fields }),
        1 => any::<bool>().prop_map(|pattern| Op::Queues { pattern }),
        2 => server_setting().prop_map(|(name, value)| Op::Server { name, value }),
    ]
}

fn harm() -> impl Strategy<Value = Harm> {
    select(vec![
        Harm::IndexEntryGone,
        Harm::RecordGone,
        Harm::InBothIndexes,
        Harm::FractionalScore,
        Harm::EndlessScore,
        Harm::OldEntry,
        Harm::SecondEntry,
        Harm::UnreadableRecord,
        Harm::LetterGone,
        Harm::LetterTimeGone,
        Harm::EntryOfNothing,
        Harm::HeaderGone,
    ])
}

fn time() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => select(vec![1_000u64, 2_000, 10_000, 50_000, 1_000_000, 1_400_000, 8_000_000])
            .prop_map(|us| Op::Advance { us }),
        1 => (1_000..40_000u64).prop_map(|us| Op::Advance { us }),
        1 => select(vec![60_000_000u64, 3_600_000_000, 86_400_000_000]).prop_map(|us| Op::Advance { us }),
        8 => (-1..=1i64, select(vec![0, 0, 0, 1, 999])).prop_map(|(off, us)| Op::AdvanceToNext { off, us }),
        1 => select(vec![0u64, 50, 700]).prop_map(|grace| Op::Outage { grace }),
        1 => select(vec![-2i64, 0, 0, 1, 24]).prop_map(|hours| Op::Wall { hours }),
    ]
}

fn op(restarts: bool) -> impl Strategy<Value = Op> {
    let restart = select(vec![Restart::Crash, Restart::Shutdown, Restart::Reload, Restart::Reload]);
    let restart = restart.prop_map(Op::Restart);
    let rest = prop_oneof![
        4 => (q(), harm(), 0..12usize).prop_map(|(q, harm, at)| Op::Harm { q, harm, at }),
        8 => (q(), 0..1000usize, 0..100usize).prop_map(|(q, which, number)| Op::Refused { q, which, number }),
        2 => (0..8usize, 0..100usize).prop_map(|(key, command)| Op::WrongType { key, command }),
    ];
    prop_oneof![
        24 => producing(),
        56 => working(),
        20 => operating(),
        18 => time(),
        8 => rest,
        u32::from(restarts) * 2 => restart,
    ]
}

fn step(restarts: bool) -> impl Strategy<Value = Step> {
    let via = prop_oneof![10 => Just(Via::Plain), 1 => Just(Via::Multi), 1 => Just(Via::Script)];
    (op(restarts), via, 0..6usize).prop_map(|(op, via, turn)| Step { op, via, turn })
}

/// Histories of up to so many steps.
pub fn history(longest: usize, restarts: bool) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(restarts), 1..longest)
}

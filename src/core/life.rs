//! The life of one job: what each command, and a lease that ends, does to its record.
//!
//! Nothing here knows keys or time. The caller looks where the job is, asks [`standing`] what a
//! receipt is worth, applies one of the functions below, and puts the job where [`Next`] says.

use super::backoff::Backoff;
use super::receipt::Receipt;
use super::record::{Job, Letter, Reason};

/// Which index holds the id of a live job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A worker holds the job.
    Leased,
    /// The job is ready or delayed.
    Due,
}

/// What a receipt is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It names the claim that runs.
    Current,
    /// It names the last claim, whose lease ended, and nobody has claimed the job since.
    Late,
    /// It names no claim on which it could still act.
    Stale,
}

/// Where a job goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Back among the due jobs.
    Due {
        /// The time from now until it may be claimed, in ms.
        in_ms: u64,
    },
    /// Among the dead letters.
    Dead(Reason),
}

/// The limits under which a job lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How many failures are allowed before the one that kills.
    pub retries: u32,
    /// The number of lapses that kills.
    pub max_lapses: u32,
    /// The wait after a failure, and after a lapse from the second on.
    pub backoff: Backoff,
}

impl Policy {
    /// `defaults`, with the job's own values in place of those that it carries.
    pub fn of(job: &Job, defaults: &Policy) -> Policy {
        let backoff = Backoff {
            base_ms: job.backoff_base.unwrap_or(defaults.backoff.base_ms),
            cap_ms: job.backoff_cap.unwrap_or(defaults.backoff.cap_ms),
            ..defaults.backoff
        };
        Policy { retries: job.retries.unwrap_or(defaults.retries), backoff, ..*defaults }
    }
}

/// Where the live job `job` has to be for `receipt`, of its id, to stand: leased, where the claim that it names runs
/// still; due, where that one was the last to end and ended with its lease. `None` where it is stale wherever the job is.
pub fn place_named(job: &Job, receipt: &Receipt) -> Option<Place> {
    if job.birth != receipt.birth {
        None
    } else if receipt.claim == current_claim(job) {
        Some(Place::Leased)
    } else if job.late && receipt.claim == job.claims {
        Some(Place::Due)
    } else {
        None
    }
}

/// What a receipt is worth whose job is in the place that it names.
pub fn standing_in(place: Place) -> Standing {
    match place {
        Place::Leased => Standing::Current,
        Place::Due => Standing::Late,
    }
}

/// What `receipt` is worth for the live job `job` of its id.
pub fn standing(job: &Job, place: Place, receipt: &Receipt) -> Standing {
    match place_named(job, receipt) {
        Some(named) if named == place => standing_in(place),
        _ => Standing::Stale,
    }
}

/// Returns what `receipt` is worth for the dead letter of its id: [`Standing::Late`] if it names the last claim, and the
/// job became a letter without another: by the end of that lease, or stale some time after it. Else [`Standing::Stale`].
pub fn letter_standing(letter: &Letter, receipt: &Receipt) -> Standing {
    match letter.reason {
        Reason::LapsesExhausted | Reason::Stale => standing(&letter.job, Place::Due, receipt),
        _ => Standing::Stale,
    }
}

/// The number of the claim that runs while the job is leased, and of the next one while it is
/// not.
pub fn current_claim(job: &Job) -> u32 {
    job.claims.saturating_add(1)
}

/// RETRY: counts a failure, once, in place of the lapse where the receipt is late.
///
/// The job waits `delay` ms where that is given, else by the policy's backoff with `random`
/// (uniform over all 64 bits). `standing` is not stale: a stale receipt changes nothing.
pub fn fail_again(job: &mut Job, standing: Standing, policy: &Policy, delay: Option<u64>, random: u64) -> Next {
    end_claim(job, standing);
    job.failures = job.failures.saturating_add(1);
    if job.failures > policy.retries {
        return Next::Dead(Reason::RetriesExhausted);
    }
    let in_ms = delay.unwrap_or_else(|| policy.backoff.delay(job.failures, random));
    Next::Due { in_ms }
}

/// RELEASE: gives the job back without a failure, and without the lapse where the receipt is
/// late. `standing` is not stale.
pub fn release(job: &mut Job, standing: Standing) {
    end_claim(job, standing);
    job.releases = job.releases.saturating_add(1);
}

/// FAIL: ends the claim of a job that goes to the dead letters. A lapse stays counted.
/// `standing` is not stale.
pub fn bury(job: &mut Job, standing: Standing) {
    if standing == Standing::Current {
        job.claims = current_claim(job);
    }
    job.late = false;
}

/// The lease ended: the claim is over, its receipt late. The job is due again, at once the first
/// time, after the policy's backoff from the second, until it has lapsed too often.
pub fn lapse(job: &mut Job, policy: &Policy, random: u64) -> Next {
    lose(job);
    if job.lapses >= policy.max_lapses {
        return Next::Dead(Reason::LapsesExhausted);
    }
    let in_ms = match job.lapses {
        1 => 0,
        nth => policy.backoff.delay(nth - 1, random),
    };
    Next::Due { in_ms }
}

/// The job was found in no index: a claim that may have run ends as if its lease had, but the job is due at once and never
/// dies of it.
pub fn lose(job: &mut Job) {
    job.claims = current_claim(job);
    job.lapses = job.lapses.saturating_add(1);
    job.late = true;
}

/// REPLAY: the job of a dead letter begins anew. A stale one never failed, and goes on as it was.
///
/// The claims go on counting, so that no receipt of its earlier life acts on it.
pub fn revive(letter: Letter) -> Job {
    let job = Job { late: false, ..letter.job };
    match letter.reason {
        Reason::Stale => job,
        _ => Job { failures: 0, lapses: 0, releases: 0, ..job },
    }
}

/// EXTEND with a late receipt: the claim runs again as if its lease had not ended.
pub fn take_back(job: &mut Job) {
    job.claims = job.claims.saturating_sub(1);
    job.lapses = job.lapses.saturating_sub(1);
    job.late = false;
}

/// The number of the attempt that runs while the job is leased, and of the next one while it is
/// not.
pub fn attempt(job: &Job) -> u32 {
    job.failures.saturating_add(job.lapses).saturating_add(1)
}

/// How many more failures are allowed before the one that kills.
pub fn retries_left(job: &Job, retries: u32) -> u32 {
    retries.saturating_sub(job.failures)
}

/// Lays what a worker said about a failure over what is known of the one before: both texts are
/// replaced, so that an error never stands beside the stack of another, unless neither is given.
///
/// Each is cut at `max` bytes (0: no limit), and at most 3 bytes before that where UTF-8 would be
/// cut within a character.
pub fn set_error<'a>(job: &mut Job<'a>, error: Option<&'a [u8]>, stack: Option<&'a [u8]>, max: usize) {
    if error.is_some() || stack.is_some() {
        job.error = error.map(|text| cut(text, max));
        job.stack = stack.map(|text| cut(text, max));
    }
}

/// Ends the claim that a receipt of this standing names: counted where it ran, its lapse taken
/// back where it had ended with its lease.
fn end_claim(job: &mut Job, standing: Standing) {
    match standing {
        Standing::Current => job.claims = current_claim(job),
        Standing::Late => job.lapses = job.lapses.saturating_sub(1),
        Standing::Stale => {}
    }
    job.late = false;
}

fn cut(text: &[u8], max: usize) -> &[u8] {
    if max == 0 {
        return text;
    }
    let Some((head, _)) = text.split_at_checked(max) else {
        return text;
    };
    match std::str::from_utf8(head) {
        Err(error) if error.error_len().is_none() => &head[..error.valid_up_to()],
        _ => head,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::IdBuf;
    use super::*;
    use proptest::prelude::*;

    const POLICY: Policy =
        Policy { retries: 2, max_lapses: 3, backoff: Backoff { base_ms: 1_000, cap_ms: 300_000, jitter_percent: 0 } };

    fn receipt(birth: Option<u64>, claim: u32) -> Receipt {
        let id = IdBuf::new(b"x").unwrap();
        Receipt { id, birth, claim, tenure: None }
    }

    fn job(claims: u32, late: bool) -> Job<'static> {
        Job { claims, late, ..Job::default() }
    }

    #[test]
    fn a_replayed_job_counts_from_zero_and_no_receipt_acts_on_it() {
        for reason in Reason::ALL {
            let dead = Job { failures: 3, lapses: 2, releases: 1, error: Some(b"e"), ..job(7, true) };
            let revived = revive(Letter::new(reason, dead.clone()));
            let counts = if reason == Reason::Stale { (3, 2, 1) } else { (0, 0, 0) };
            assert_eq!((revived.failures, revived.lapses, revived.releases), counts);
            assert_eq!((revived.claims, revived.error), (7, dead.error));
            for claim in 0..8 {
                for place in [Place::Due, Place::Leased] {
                    assert_eq!(standing(&revived, place, &receipt(None, claim)), Standing::Stale);
                }
            }
        }
    }

    #[test]
    fn the_receipt_of_a_job_that_was_lost_is_late() {
        let mut lost = job(7, false);
        lose(&mut lost);
        assert_eq!((lost.claims, lost.lapses), (8, 1));
        assert_eq!(standing(&lost, Place::Due, &receipt(None, 8)), Standing::Late);
        assert_eq!(standing(&lost, Place::Due, &receipt(None, 7)), Standing::Stale);
        take_back(&mut lost);
        assert_eq!(lost, job(7, false));
    }

    #[test]
    fn a_receipt_is_current_while_its_claim_runs() {
        let leased = |claims, claim| standing(&job(claims, false), Place::Leased, &receipt(None, claim));
        assert_eq!(leased(0, 1), Standing::Current);
        assert_eq!(leased(7, 8), Standing::Current);
        assert_eq!(leased(7, 7), Standing::Stale);
        assert_eq!(leased(7, 9), Standing::Stale);
    }

    #[test]
    fn a_receipt_is_late_until_the_next_claim() {
        let of = |late, place, claim| standing(&job(7, late), place, &receipt(None, claim));
        assert_eq!(of(true, Place::Due, 7), Standing::Late);
        assert_eq!(of(true, Place::Due, 6), Standing::Stale);
        assert_eq!(of(true, Place::Due, 8), Standing::Stale);
        assert_eq!(of(false, Place::Due, 7), Standing::Stale);
        assert_eq!(of(true, Place::Leased, 7), Standing::Stale);
        assert_eq!(of(true, Place::Leased, 8), Standing::Current);
    }

    #[test]
    fn a_receipt_of_another_birth_is_stale() {
        for (of_job, of_receipt) in [(None, Some(1)), (Some(1), None), (Some(1), Some(2))] {
            let job = Job { birth: of_job, claims: 3, late: true, ..Job::default() };
            for (place, claim) in [(Place::Leased, 4), (Place::Due, 3)] {
                let standing = standing(&job, place, &receipt(of_receipt, claim));
                assert_eq!(standing, Standing::Stale);
            }
        }
        let born = Job { birth: Some(9), ..Job::default() };
        let same = standing(&born, Place::Leased, &receipt(Some(9), 1));
        assert_eq!(same, Standing::Current);
    }

    #[test]
    fn a_letter_knows_only_the_late_receipt_of_its_last_lease() {
        for reason in Reason::ALL {
            for late in [true, false] {
                let letter = Letter::new(reason, job(5, late));
                let expected = match (reason, late) {
                    (Reason::LapsesExhausted | Reason::Stale, true) => Standing::Late,
                    _ => Standing::Stale,
                };
                assert_eq!(letter_standing(&letter, &receipt(None, 5)), expected);
                for claim in [4, 6] {
                    let other = letter_standing(&letter, &receipt(None, claim));
                    assert_eq!(other, Standing::Stale);
                }
            }
        }
    }

    #[test]
    fn a_job_goes_before_the_defaults() {
        assert_eq!(Policy::of(&Job::default(), &POLICY), POLICY);
        let own = Job { retries: Some(0), backoff_base: Some(5), backoff_cap: Some(50), ..Job::default() };
        let policy = Policy::of(&own, &POLICY);
        assert_eq!(policy.retries, 0);
        assert_eq!(policy.max_lapses, 3);
        assert_eq!((policy.backoff.base_ms, policy.backoff.cap_ms), (5, 50));
    }

    #[test]
    fn retries_back_off_and_end() {
        let mut job = Job::default();
        let mut fail = || fail_again(&mut job, Standing::Current, &POLICY, None, 0);
        assert_eq!(fail(), Next::Due { in_ms: 1_000 });
        assert_eq!(fail(), Next::Due { in_ms: 2_000 });
        assert_eq!(fail(), Next::Dead(Reason::RetriesExhausted));
        assert_eq!((job.failures, job.claims, job.late), (3, 3, false));
    }

    #[test]
    fn a_given_delay_goes_before_the_backoff_but_not_before_the_limit() {
        let mut job = Job::default();
        let mut fail = || fail_again(&mut job, Standing::Current, &POLICY, Some(7), 0);
        assert_eq!(fail(), Next::Due { in_ms: 7 });
        assert_eq!(fail(), Next::Due { in_ms: 7 });
        assert_eq!(fail(), Next::Dead(Reason::RetriesExhausted));
    }

    #[test]
    fn no_retries_means_one_attempt() {
        let policy = Policy { retries: 0, ..POLICY };
        let next = fail_again(&mut Job::default(), Standing::Current, &policy, None, 0);
        assert_eq!(next, Next::Dead(Reason::RetriesExhausted));
    }

    #[test]
    fn a_late_retry_counts_once() {
        let mut job = Job::default();
        lapse(&mut job, &POLICY, 0);
        let next = fail_again(&mut job, Standing::Late, &POLICY, None, 0);
        assert_eq!(next, Next::Due { in_ms: 1_000 });
        let expected = Job { failures: 1, claims: 1, ..Job::default() };
        assert_eq!(job, expected);
        assert_eq!(attempt(&job), 2);
    }

    #[test]
    fn a_release_counts_no_failure_and_no_lapse() {
        let mut current = Job::default();
        release(&mut current, Standing::Current);
        let mut late = Job::default();
        lapse(&mut late, &POLICY, 0);
        release(&mut late, Standing::Late);
        let expected = Job { releases: 1, claims: 1, ..Job::default() };
        assert_eq!(current, expected);
        assert_eq!(late, expected);
        assert_eq!(attempt(&late), 1);
    }

    #[test]
    fn a_burial_spends_the_receipt() {
        let mut current = Job::default();
        bury(&mut current, Standing::Current);
        assert_eq!(current, job(1, false));

        let mut late = Job::default();
        lapse(&mut late, &POLICY, 0);
        bury(&mut late, Standing::Late);
        assert_eq!((late.claims, late.lapses, late.late), (1, 1, false));
    }

    #[test]
    fn lapses_are_due_at_once_then_back_off_then_kill() {
        let policy = Policy { max_lapses: 5, ..POLICY };
        let mut job = Job::default();
        let nexts: Vec<Next> = (0..5).map(|_| lapse(&mut job, &policy, 0)).collect();
        let due = |in_ms| Next::Due { in_ms };
        let dead = Next::Dead(Reason::LapsesExhausted);
        assert_eq!(nexts, [due(0), due(1_000), due(2_000), due(4_000), dead]);
        assert_eq!((job.claims, job.lapses, job.late), (5, 5, true));
    }

    #[test]
    fn one_allowed_lapse_kills_at_once() {
        let policy = Policy { max_lapses: 1, ..POLICY };
        let next = lapse(&mut Job::default(), &policy, 0);
        assert_eq!(next, Next::Dead(Reason::LapsesExhausted));
    }

    #[test]
    fn a_lease_taken_back_never_ended() {
        let before = Job { failures: 1, lapses: 1, releases: 1, claims: 3, ..Job::default() };
        let mut job = before.clone();
        lapse(&mut job, &POLICY, 0);
        assert_eq!(standing(&job, Place::Due, &receipt(None, 4)), Standing::Late);
        take_back(&mut job);
        assert_eq!(job, before);
        assert_eq!(standing(&job, Place::Leased, &receipt(None, 4)), Standing::Current);
    }

    #[test]
    fn attempts_and_retries_left() {
        let job = Job { failures: 2, lapses: 3, releases: 9, ..Job::default() };
        assert_eq!(attempt(&job), 6);
        assert_eq!(retries_left(&job, 300), 298);
        assert_eq!(retries_left(&job, 1), 0);
    }

    #[test]
    fn counts_stop_at_their_limit() {
        let mut job =
            Job { failures: u32::MAX, lapses: u32::MAX, releases: u32::MAX, claims: u32::MAX, ..Job::default() };
        fail_again(&mut job, Standing::Current, &POLICY, None, 0);
        release(&mut job, Standing::Current);
        lapse(&mut job, &POLICY, 0);
        assert_eq!(attempt(&job), u32::MAX);
        assert_eq!(current_claim(&job), u32::MAX);
        let mut zero = Job::default();
        take_back(&mut zero);
        release(&mut zero, Standing::Late);
        assert_eq!(zero.lapses, 0);
    }

    #[test]
    fn texts_belong_to_one_failure() {
        let texts = |error, stack| {
            let mut job = Job { error: Some(b"old"), stack: Some(b"old stack"), ..Job::default() };
            set_error(&mut job, error, stack, 0);
            (job.error, job.stack)
        };
        let (new, trace) = (Some(&b"new"[..]), Some(&b"trace"[..]));
        assert_eq!(texts(None, None), (Some(&b"old"[..]), Some(&b"old stack"[..])));
        assert_eq!(texts(new, None), (new, None));
        assert_eq!(texts(None, trace), (None, trace));
        assert_eq!(texts(new, trace), (new, trace));
        assert_eq!(texts(Some(b""), None), (Some(&b""[..]), None));
    }

    #[test]
    fn texts_are_cut_but_not_within_a_character() {
        let cases: [(&[u8], usize, &[u8]); 9] = [
            (b"abc", 0, b"abc"),
            (b"abc", 3, b"abc"),
            (b"abc", 4, b"abc"),
            (b"abc", 2, b"ab"),
            ("aé".as_bytes(), 2, b"a"),
            ("é€".as_bytes(), 4, "é".as_bytes()),
            ("😀".as_bytes(), 3, b""),
            (b"\xFF\xC3\xA9", 2, b"\xFF\xC3"),
            (b"\x80\x80\x80", 2, b"\x80\x80"),
        ];
        for (text, max, expected) in cases {
            let mut job = Job::default();
            set_error(&mut job, Some(text), Some(text), max);
            assert_eq!(job.error, Some(expected));
            assert_eq!(job.stack, Some(expected));
        }
    }

    /// A live job as the server holds it: its record and its place.
    struct Live {
        job: Job<'static>,
        place: Place,
    }

    impl Live {
        fn claim(&mut self) -> Receipt {
            self.place = Place::Leased;
            receipt(self.job.birth, current_claim(&self.job))
        }

        fn standing(&self, receipt: &Receipt) -> Standing {
            standing(&self.job, self.place, receipt)
        }
    }

    /// What happens to a job next, with the receipt of the `usize`th claim, newest first.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Claim,
        Lapse,
        Retry(usize),
        Release(usize),
        Extend(usize),
    }

    fn any_act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => Just(Act::Claim),
            2 => Just(Act::Lapse),
            1 => (0..3_usize).prop_map(Act::Retry),
            1 => (0..3_usize).prop_map(Act::Release),
            1 => (0..3_usize).prop_map(Act::Extend),
        ]
    }

    proptest! {
        /// Walks a job through a random life, and checks before each step that no receipt but
        /// the newest is worth anything, and that one only until it is spent.
        #[test]
        fn only_the_newest_receipt_acts(acts in prop::collection::vec(any_act(), 1..60)) {
            let endless = Policy { retries: u32::MAX, max_lapses: u32::MAX, ..POLICY };
            let mut live = Live { job: Job::default(), place: Place::Due };
            let mut receipts: Vec<Receipt> = Vec::new();
            let mut spent = true;
            for act in acts {
                let worth = match (spent, live.place) {
                    (true, _) => Standing::Stale,
                    (false, Place::Leased) => Standing::Current,
                    (false, Place::Due) => Standing::Late,
                };
                for (age, receipt) in receipts.iter().rev().enumerate() {
                    let expected = if age == 0 { worth } else { Standing::Stale };
                    prop_assert_eq!(live.standing(receipt), expected);
                }
                let standing_of = |age: usize| {
                    let at = receipts.len().checked_sub(age + 1);
                    at.map_or(Standing::Stale, |at| live.standing(&receipts[at]))
                };
                match act {
                    Act::Claim if live.place == Place::Due => {
                        let receipt = live.claim();
                        prop_assert!(!receipts.contains(&receipt));
                        receipts.push(receipt);
                        spent = false;
                    }
                    Act::Lapse if live.place == Place::Leased => {
                        lapse(&mut live.job, &endless, 0);
                        live.place = Place::Due;
                    }
                    Act::Retry(age) | Act::Release(age) if standing_of(age) != Standing::Stale => {
                        let standing = standing_of(age);
                        match act {
                            Act::Retry(_) => {
                                fail_again(&mut live.job, standing, &endless, None, 0);
                            }
                            _ => release(&mut live.job, standing),
                        }
                        live.place = Place::Due;
                        spent = true;
                    }
                    Act::Extend(age) if standing_of(age) == Standing::Late => {
                        take_back(&mut live.job);
                        live.place = Place::Leased;
                    }
                    _ => {}
                }
                let ended = receipts.len() - usize::from(live.place == Place::Leased);
                prop_assert_eq!(live.job.claims as usize, ended);
                let counted = live.job.failures + live.job.lapses + live.job.releases;
                prop_assert_eq!(counted, live.job.claims, "each claim counts once");
            }
        }

        #[test]
        fn a_cut_text_is_a_start_and_stays_utf8(text in "[a-c é€😀]{0,40}", max in 1..80_usize) {
            let short = cut(text.as_bytes(), max);
            prop_assert!(short.len() <= max && text.as_bytes().starts_with(short));
            prop_assert!(std::str::from_utf8(short).is_ok());
            prop_assert!(short.len() + 3 >= max.min(text.len()));
        }
    }
}

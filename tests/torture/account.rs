//! The account: each job that was pushed is finished, there, or gone for a reason that has a name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::crew::own_id;
use crate::ledger::{Act, Claim, Deposed, Grace, Pages, Push, Rollback, Span, Told, Verb};

/// Where a job is when all is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Due or leased.
    Live,
    Dead,
}

/// All jobs that the servers hold at the end, by number; twice where a job is in two places.
pub type Left = BTreeMap<u64, Vec<Place>>;

/// A producer that sends again until it is answered may do so after the job died.
const PUSHED_AGAIN: &str = "pushed again: its death had freed the id";

/// What one job went through.
#[derive(Default)]
struct Story<'a> {
    push: Option<&'a Push>,
    /// In the order in which the server made them.
    claims: Vec<&'a Claim>,
    acts: Vec<&'a Act>,
}

impl Story<'_> {
    /// Its worker failed it while its producer, who chose the id, had not been told yet and sent again: death frees the
    /// id, so that made another job.
    fn pushed_again(&self) -> bool {
        self.push.is_some_and(|push| {
            push.id == Some(own_id(push.job))
                && self.acts.iter().any(|act| {
                    act.verb == Verb::Fail
                        && matches!(act.told, Told::Done | Told::Nothing)
                        && act.span.asked <= push.span.answered
                })
        })
    }

    /// The claim that an act was for. After a rollback another claim may have the receipt of one that was undone.
    fn own(&self, act: &Act) -> Option<usize> {
        let known = |claim: &Claim| match act.told {
            Told::Done => claim.span.asked,
            _ => claim.span.answered,
        };
        self.claims.iter().rposition(|claim| claim.receipt == act.receipt && known(claim) <= act.span.asked)
    }
}

pub struct Account<'a> {
    rollbacks: &'a [Rollback],
    deposed: &'a [Deposed],
    graces: &'a [Grace],
    hurry: u64,
    left: &'a Left,
    pub lost: Vec<String>,
    pub unexpected: Vec<String>,
    pub doubled: Vec<String>,
    /// How often what happened, each with its name.
    pub tally: BTreeMap<String, usize>,
    /// The jobs of which something was undone, each by the hurt's name.
    pub undone: BTreeMap<String, Vec<u64>>,
}

impl<'a> Account<'a> {
    pub fn of(pages: &'a Pages, left: &'a Left) -> Account<'a> {
        let mut account = Account {
            rollbacks: &pages.rollbacks,
            deposed: &pages.deposed,
            graces: &pages.graces,
            hurry: pages.hurry,
            left,
            lost: Vec::new(),
            unexpected: pages.faults.clone(),
            doubled: Vec::new(),
            tally: BTreeMap::new(),
            undone: BTreeMap::new(),
        };
        let stories = account.stories(pages);
        for (job, story) in &stories {
            account.look_at(*job, story);
        }
        for job in left.keys().filter(|job| !stories.contains_key(job)) {
            account.unexpected.push(format!("job {job} is there, and nobody pushed it"));
        }
        account
    }

    fn stories(&self, pages: &'a Pages) -> BTreeMap<u64, Story<'a>> {
        let mut stories: BTreeMap<u64, Story> = BTreeMap::new();
        for push in &pages.pushes {
            stories.entry(push.job).or_default().push = Some(push);
        }
        for claim in &pages.claims {
            stories.entry(claim.job).or_default().claims.push(claim);
        }
        for act in &pages.acts {
            stories.entry(act.job).or_default().acts.push(act);
        }
        for story in stories.values_mut() {
            story.claims.sort_by_key(|claim| self.order(claim));
        }
        stories
    }

    /// The order of the claims of one job, or of two that were pushed under one id. A worker that was held up reads an
    /// answer late, so the number of the claim counts, as long as no rollback lies between: what was asked before its end
    /// is of the time before it.
    fn order(&self, claim: &Claim) -> (usize, usize, String, usize, String) {
        let rollbacks = self.rollbacks.iter().filter(|rollback| rollback.to <= claim.span.asked).count();
        let mut parts = claim.receipt.split(':').map(String::from);
        let (birth, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        (self.reign(claim.span), rollbacks, birth, number.len(), number)
    }

    /// How many primaries were deposed before the one that answered took over. A deposed one does not know it until it
    /// is told; for all others its reign is over from the moment on at which they may have taken over.
    fn reign(&self, span: Span) -> usize {
        let is_over = |deposed: &&Deposed| match deposed.node == span.node {
            true => deposed.rollback.to <= span.asked,
            false => deposed.since <= span.asked,
        };
        self.deposed.iter().filter(is_over).count()
    }

    fn count(&mut self, what: impl Into<String>) {
        *self.tally.entry(what.into()).or_default() += 1;
    }

    /// Counts what a hurt undid.
    fn excuse(&mut self, job: u64, what: &str, why: &str) {
        let name = format!("{what}: {why}");
        self.undone.entry(name.clone()).or_default().push(job);
        self.count(name);
    }

    /// A hurt that may have undone what was done in this time.
    fn undone(&self, span: Span, confirmed: bool) -> Option<&'static str> {
        let over = |rollback: &&Rollback| {
            span.asked <= rollback.to
                && span.answered >= rollback.from
                && !(confirmed && rollback.spares_confirmed && span.answered < rollback.to)
        };
        let deposed = self.deposed.iter().filter(|deposed| deposed.node == span.node).map(|deposed| &deposed.rollback);
        self.rollbacks.iter().chain(deposed).find(over).map(|rollback| rollback.why)
    }

    fn look_at(&mut self, job: u64, story: &Story) {
        let Some(push) = story.push else {
            self.unexpected.push(format!("job {job} was claimed, and nobody pushed it: {:?}", story.claims));
            return;
        };
        self.ids(job, push, story);
        self.receipts(story);
        for second in 1..story.claims.len() {
            self.claimed_again(story, second);
        }
        for act in story.acts.iter().filter(|act| ends(act)) {
            self.came_back(story, act);
        }
        self.whereabouts(job, push, story);
    }

    /// A job is pushed once, under one id.
    fn ids(&mut self, job: u64, push: &Push, story: &Story) {
        let ids: BTreeSet<&str> =
            story.claims.iter().map(|claim| claim.id.as_str()).chain(push.id.as_deref()).collect();
        if ids.len() > 1 {
            self.doubled.push(format!("job {job} is under several ids: {ids:?}"));
        }
        if matches!(push.told, Told::Refused(_)) && !story.claims.is_empty() {
            self.unexpected.push(format!("job {job} came, and its push was refused: {push:?}"));
        }
    }

    /// A receipt names one claim, also where a hurt undid another.
    fn receipts(&mut self, story: &Story) {
        let mut seen = BTreeSet::new();
        for claim in story.claims.iter().filter(|claim| !seen.insert(&claim.receipt)) {
            self.doubled.push(format!("one receipt names two claims: {claim:?} of {:?}", story.claims));
        }
    }

    /// Between two claims of a job, its worker gave it back, its lease ended, or a claim was undone.
    fn claimed_again(&mut self, story: &Story, second: usize) {
        let (first, second, own) = (story.claims[second - 1], story.claims[second], Some(second - 1));
        let of_first = || story.acts.iter().filter(|act| story.own(act) == own);
        let given_back = of_first().find(|act| {
            matches!(act.verb, Verb::Retry | Verb::Release) && matches!(act.told, Told::Done | Told::Nothing)
        });
        let lease_end = of_first()
            .filter(|act| act.verb == Verb::Extend && act.told == Told::Done)
            .map(|act| self.lease_end(act.span.asked, act.ms))
            .fold(self.lease_end(first.span.asked, first.lease_ms), u64::max);
        let failed = of_first().any(|act| act.verb == Verb::Fail) && story.pushed_again();
        if failed {
            self.count(PUSHED_AGAIN);
        } else if let Some(act) = given_back {
            self.count(format!("claimed again after {:?}", act.verb));
        } else if second.span.answered >= lease_end {
            self.count("claimed again after its lease ended");
        } else if let Some(why) = self.undone_before(first.span, false, second.span) {
            self.excuse(first.job, "claimed again", why);
        } else {
            self.doubled.push(format!("two hold one job: {first:?} and {second:?}, acts {:?}", story.acts));
        }
    }

    /// The same before something else was done. A primary that others take over from does not forget what it has done
    /// itself.
    fn undone_before(&self, span: Span, confirmed: bool, later: Span) -> Option<&'static str> {
        let within_one_reign = !self.deposed.is_empty() && self.reign(span) == self.reign(later);
        if within_one_reign {
            return None;
        }
        self.undone(span, confirmed)
    }

    /// When a lease of so many ms that was given then may end at the earliest.
    fn lease_end(&self, given: u64, ms: u64) -> u64 {
        let end = given + ms * 1000 * 100 / (100 + self.hurry);
        self.graces.iter().fold(end, |end, grace| match end > grace.from {
            true if grace.ends_all && given < grace.to => grace.to,
            true => end.max(grace.to),
            false => end,
        })
    }

    /// What was finished or buried does not come back.
    fn came_back(&mut self, story: &Story, act: &Act) {
        let Some(own) = story.own(act) else {
            self.unexpected.push(format!("nobody claimed what was ended: {act:?}"));
            return;
        };
        let later = story.claims.get(own + 1);
        let place = self.left.get(&act.job).and_then(|places| places.first());
        let still_there = match act.verb {
            Verb::Fail => place == Some(&Place::Live),
            _ => place.is_some(),
        };
        if later.is_none() && !still_there {
            return;
        }
        let undone = match later {
            Some(later) => self.undone_before(act.span, act.confirmed, later.span),
            None => self.undone(act.span, act.confirmed),
        };
        match undone {
            _ if act.verb == Verb::Fail && story.pushed_again() => self.count(PUSHED_AGAIN),
            Some(why) => self.excuse(act.job, "ended again", why),
            None if later.is_some_and(|later| self.took_it_for(story.claims[own], later, act)) => {
                self.count("ended by the receipt of a claim that the first of two crashes undid");
            }
            None => self
                .doubled
                .push(format!("it was ended, and came back: {act:?}, claims {:?}, left {place:?}", story.claims)),
        }
    }

    /// A server that is started again does not know which of its lives gave a lease that it finds. Where one crash undid a
    /// claim, the job was claimed anew, and the next crash came before that was over, the first receipt acts on the second
    /// lease.
    fn took_it_for(&self, own: &Claim, later: &Claim, act: &Act) -> bool {
        let crashes = self.rollbacks.iter().filter(|crash| (own.span.asked..act.span.asked).contains(&crash.to));
        later.span.answered < act.span.asked && crashes.count() >= 2
    }

    /// A job whose push was answered is finished, or there.
    fn whereabouts(&mut self, job: u64, push: &Push, story: &Story) {
        let places = self.left.get(&job).map(Vec::as_slice).unwrap_or_default();
        if matches!(places, [Place::Live, Place::Dead]) && story.pushed_again() {
            self.count(PUSHED_AGAIN);
        } else if places.len() > 1 {
            self.doubled.push(format!("job {job} is in several places: {places:?}"));
        }
        let acts = || story.acts.iter().filter(|act| matches!(act.told, Told::Done | Told::Nothing));
        let finished = acts().any(|act| act.verb == Verb::Ack);
        let failed = acts().any(|act| act.verb == Verb::Fail);
        match (places.first(), &push.told) {
            (Some(_), Told::Refused(error)) => {
                self.unexpected.push(format!("job {job} is there, and its push was refused: {error}"));
            }
            (Some(Place::Dead), _) if !failed => self.unexpected.push(format!("job {job} died of nothing")),
            (Some(place), _) => self.count(format!("left {place:?}")),
            (None, _) if finished => self.count("finished"),
            (None, Told::Done) => match self.undone(push.span, push.confirmed) {
                Some(why) => self.excuse(job, "push undone", why),
                None => self.lost.push(format!("{push:?}, claims {:?}, acts {:?}", story.claims, story.acts)),
            },
            (None, Told::Refused(_)) => self.count("push refused"),
            (None, _) => self.count("push not answered, and not there"),
        }
    }

    /// What a person wants to see.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let counts = [("lost", &self.lost), ("unexpected", &self.unexpected), ("doubled", &self.doubled)];
        for (what, cases) in counts {
            let _ = writeln!(text, "{what} = {}", cases.len());
            for case in cases.iter().take(5) {
                let _ = writeln!(text, "    {case}");
            }
        }
        for (what, count) in &self.tally {
            let _ = writeln!(text, "{count:8} {what}");
        }
        text
    }

    /// Fails unless nothing was lost, nothing came unasked, and nothing was doubled without a reason.
    #[track_caller]
    pub fn settle(&self) {
        eprint!("{}", self.text());
        let problems = self.lost.len() + self.unexpected.len() + self.doubled.len();
        assert_eq!(problems, 0, "{}", self.text());
    }
}

/// It was told that the job is finished or dead.
fn ends(act: &Act) -> bool {
    matches!(act.verb, Verb::Ack | Verb::Fail) && act.told == Told::Done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use std::fmt::Display;

    const LEASE_MS: u64 = 1000;

    fn span(at: u64) -> Span {
        Span { asked: at * 1000, answered: at * 1000 + 1, node: 0 }
    }

    fn push(ledger: &Ledger, at: u64, told: Told) {
        let (queue, id) = ("q".to_string(), Some("i".to_string()));
        ledger.pages().pushes.push(Push { job: 1, queue, span: span(at), told, id, confirmed: false });
    }

    fn claim(ledger: &Ledger, at: u64, number: impl Display) {
        let (queue, id, receipt) = ("q".to_string(), "i".to_string(), format!("i:{number}"));
        let claim = Claim { job: 1, queue, id, receipt, attempt: 1, lease_ms: LEASE_MS, worker: 0, span: span(at) };
        ledger.pages().claims.push(claim);
    }

    fn act(ledger: &Ledger, at: u64, number: impl Display, verb: Verb, told: Told) {
        let receipt = format!("i:{number}");
        ledger.pages().acts.push(Act { job: 1, receipt, verb, ms: 0, span: span(at), told, confirmed: false });
    }

    fn crash(ledger: &Ledger, from: u64, to: u64) {
        let (from, to) = (from * 1000, to * 1000);
        ledger.rollback(Rollback { from, to, why: "a crash", spares_confirmed: false });
    }

    /// How many are lost, unexpected and doubled.
    fn problems(ledger: &Ledger, left: &[Place]) -> [usize; 3] {
        let pages = ledger.pages();
        let left = if left.is_empty() { Left::new() } else { Left::from([(1, left.to_vec())]) };
        let account = Account::of(&pages, &left);
        [account.lost.len(), account.unexpected.len(), account.doubled.len()]
    }

    #[test]
    fn what_was_answered_and_is_nowhere_is_lost() {
        let ledger = Ledger::default();
        push(&ledger, 10, Told::Done);
        assert_eq!(problems(&ledger, &[]), [1, 0, 0]);
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 0]);
        claim(&ledger, 20, 1);
        act(&ledger, 30, 1, Verb::Ack, Told::Stale);
        assert_eq!(problems(&ledger, &[]), [1, 0, 0]);
        act(&ledger, 40, 1, Verb::Ack, Told::Nothing);
        assert_eq!(problems(&ledger, &[]), [0, 0, 0]);
    }

    #[test]
    fn a_crash_explains_only_what_was_done_in_its_time() {
        let ledger = Ledger::default();
        push(&ledger, 10, Told::Done);
        crash(&ledger, 11, 20);
        assert_eq!(problems(&ledger, &[]), [1, 0, 0]);
        crash(&ledger, 10, 20);
        assert_eq!(problems(&ledger, &[]), [0, 0, 0]);
    }

    #[test]
    fn a_deposed_primary_explains_what_another_does_again_and_nothing_of_its_own() {
        let ledger = Ledger::default();
        push(&ledger, 10, Told::Done);
        claim(&ledger, 20, 1);
        claim(&ledger, 30, "1.b");
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 1]);
        let rollback = Rollback { from: 15_000, to: 100_000, why: "a failover", spares_confirmed: true };
        ledger.deposed(7, 25_000, rollback);
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 1], "another was deposed");
        ledger.pages().claims[0].span.node = 7;
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 0]);
        act(&ledger, 40, "1.b", Verb::Ack, Told::Done);
        assert_eq!(problems(&ledger, &[]), [0, 0, 0], "the second claim, of the same number, was acknowledged");
        ledger.pages().claims[1].span.node = 7;
        assert_eq!(problems(&ledger, &[]), [0, 0, 1], "one primary gave it twice");
    }

    #[test]
    fn two_holders_of_one_job_are_seen() {
        let ledger = Ledger::default();
        push(&ledger, 10, Told::Done);
        claim(&ledger, 20, 1);
        claim(&ledger, 20 + LEASE_MS - 10, 2);
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 1]);
        act(&ledger, 30, 1, Verb::Release, Told::Done);
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 0]);
        claim(&ledger, 20 + 2 * LEASE_MS, 3);
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 0], "the lease of the second ended");
    }

    #[test]
    fn a_claim_is_taken_for_another_only_across_two_crashes() {
        let ledger = Ledger::default();
        push(&ledger, 10, Told::Done);
        claim(&ledger, 20, "1.a");
        crash(&ledger, 15, 25);
        claim(&ledger, 30, "1.b");
        act(&ledger, 50, "1.a", Verb::Ack, Told::Done);
        assert_eq!(problems(&ledger, &[]), [0, 0, 1], "the server that gave the second lease knows it");
        crash(&ledger, 35, 40);
        assert_eq!(problems(&ledger, &[]), [0, 0, 0]);
        claim(&ledger, 60, "1.c");
        assert_eq!(problems(&ledger, &[]), [0, 0, 1], "it came back after it was ended");
    }

    #[test]
    fn what_a_node_did_in_an_earlier_reign_was_before_it_took_over_again() {
        let ledger = Ledger::default();
        push(&ledger, 10, Told::Done);
        claim(&ledger, 20, "1.a");
        act(&ledger, 21, "1.a", Verb::Retry, Told::Done);
        claim(&ledger, 22, "2.b");
        ledger.pages().claims[1].span.node = 7;
        act(&ledger, 24, "2.b", Verb::Ack, Told::Done);
        ledger.pages().acts[1].confirmed = true;
        let rollback = Rollback { from: 15_000, to: 100_000, why: "a failover", spares_confirmed: true };
        ledger.deposed(7, 25_000, rollback);
        assert_eq!(problems(&ledger, &[]), [0, 0, 0]);
    }

    #[test]
    fn no_lease_ends_in_a_grace() {
        let ledger = Ledger::default();
        push(&ledger, 10, Told::Done);
        claim(&ledger, 20, 1);
        claim(&ledger, 20 + LEASE_MS, 2);
        let grace = |from: u64, to: u64, ends_all| Grace { from: from * 1000, to: to * 1000, ends_all };
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 0]);
        ledger.grace(grace(21 + LEASE_MS, 2 * LEASE_MS, false));
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 0], "it was over before");
        ledger.grace(grace(500, 2 * LEASE_MS, false));
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 1]);
        ledger.pages().graces.clear();
        ledger.grace(grace(500, 900, true));
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 0]);
    }

    #[test]
    fn a_claim_that_was_undone_may_be_made_again() {
        let ledger = Ledger::default();
        push(&ledger, 10, Told::Done);
        claim(&ledger, 20, 1);
        act(&ledger, 30, 1, Verb::Ack, Told::Done);
        crash(&ledger, 15, 40);
        claim(&ledger, 50, "1.b");
        act(&ledger, 60, "1.b", Verb::Ack, Told::Done);
        assert_eq!(problems(&ledger, &[]), [0, 0, 0]);
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 1]);
        ledger.pages().claims[1].receipt = "i:1".to_string();
        assert_eq!(problems(&ledger, &[])[2], 1, "one receipt names two claims");
    }

    #[test]
    fn a_job_that_died_before_its_producer_was_told_may_be_pushed_again() {
        let ledger = Ledger::default();
        let (queue, id) = ("q".to_string(), Some(own_id(1)));
        let sending = Span { asked: 10_000, answered: 40_000, node: 0 };
        ledger.pages().pushes.push(Push { job: 1, queue, span: sending, told: Told::Done, id, confirmed: false });
        act(&ledger, 50, 1, Verb::Fail, Told::Done);
        let failed = |at: u64| {
            let (queue, id, receipt) = ("q".to_string(), own_id(1), "i:1".to_string());
            let claim = Claim { job: 1, queue, id, receipt, attempt: 1, lease_ms: LEASE_MS, worker: 0, span: span(at) };
            ledger.pages().claims.push(claim);
        };
        failed(20);
        assert_eq!(problems(&ledger, &[Place::Live, Place::Dead]), [0, 0, 2]);
        ledger.pages().acts[0].span = span(30);
        assert_eq!(problems(&ledger, &[Place::Live, Place::Dead]), [0, 0, 0]);
        assert_eq!(problems(&ledger, &[Place::Live, Place::Live]), [0, 0, 1]);
    }

    #[test]
    fn what_was_finished_and_comes_again_is_doubled() {
        let ledger = Ledger::default();
        push(&ledger, 10, Told::Done);
        claim(&ledger, 20, 1);
        act(&ledger, 30, 1, Verb::Ack, Told::Done);
        assert_eq!(problems(&ledger, &[]), [0, 0, 0]);
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 0, 1]);
        claim(&ledger, 20 + 2 * LEASE_MS, 2);
        assert_eq!(problems(&ledger, &[]), [0, 0, 1]);
    }

    #[test]
    fn what_nobody_pushed_or_buried_is_unexpected() {
        let ledger = Ledger::default();
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 1, 0]);
        push(&ledger, 10, Told::Refused("OOM".to_string()));
        assert_eq!(problems(&ledger, &[Place::Live]), [0, 1, 0]);
        assert_eq!(problems(&ledger, &[]), [0, 0, 0]);
        let ledger = Ledger::default();
        push(&ledger, 10, Told::Done);
        assert_eq!(problems(&ledger, &[Place::Dead]), [0, 1, 0]);
        assert_eq!(problems(&ledger, &[Place::Live, Place::Live]), [0, 0, 1]);
    }
}

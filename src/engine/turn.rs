//! One turn of the timer: whatever is due by then, as far as a slice goes, and the timer set for the next.

use super::alerts::Alert;
use super::index::{QueueNumber, Task};
use super::{Node, HEARTBEAT_MS, NODE};
use crate::core::args::printable;
use crate::queue::{LapseReport, Progress, PurgeReport, Queue, Reach, Scene, Slice, State};
use crate::redis::{boot_us, Ctx, Level};
use crate::settings;
use std::rc::Rc;

/// How long clients have the server to themselves between two turns of a long job, in µs.
const PAUSE_US: u64 = 1000;
/// How often a node that takes no writes looks whether it does again, in ms.
const CLOSED_LOOK_MS: u64 = 100;
/// When a queue is looked at again that could not be worked on, in ms.
const TROUBLE_PAUSE_MS: u64 = 1000;

/// Called by the timer.
pub fn take(ctx: &Ctx) {
    NODE.wake.fired();
    if NODE.is_acting() {
        NODE.take_turn(ctx);
    }
}

/// One queue during one task.
pub(super) struct Job<'a> {
    pub ctx: &'a Ctx,
    pub number: QueueNumber,
    pub state: &'a Rc<State>,
    pub now: u64,
    pub now_us: u64,
}

impl Node {
    fn take_turn(&self, ctx: &Ctx) {
        let now_us = self.now_us(ctx);
        let (now, mut slice) = (now_us / 1000, Slice::new());
        self.discover(ctx, now, &mut slice);
        let next = if !self.must_ask(now) {
            self.next_turn(now)
        } else if self.takes_writes(ctx) {
            self.availability.borrow_mut().open(now, settings::TAKEOVER_GRACE.get());
            self.work(ctx, now_us, &mut slice);
            self.next_turn(now)
        } else {
            self.availability.borrow_mut().close(now);
            if !ctx.writes_are_paused() {
                self.look_at_slots(ctx, now);
            }
            Some(now + CLOSED_LOOK_MS)
        };
        self.end_waits();
        let deadline = self.waiters.borrow().next_deadline();
        match next {
            // One that came at once would stand before the answers that the server has ready.
            Some(at) if slice.is_over() && at <= self.now(ctx) => self.wake_by_boot(boot_us() + PAUSE_US),
            Some(at) => self.wake_by(ctx, at.max(now + 1)),
            None if deadline.is_none() => self.sleep_on(ctx),
            None => {}
        }
        if let Some(at_us) = deadline {
            self.wake_by_boot(at_us.max(boot_us() + PAUSE_US));
        }
    }

    /// Has a turn come where it matters whether writes are taken. Called some ten times a second: refusals that begin and
    /// end between two turns would give no grace to the leases that ran meanwhile.
    pub(super) fn watch_for_refusals(&self, ctx: &Ctx) {
        if self.is_acting() && self.must_ask(self.now(ctx)) {
            self.turn_soon(ctx);
        }
    }

    /// Whether this turn has to know if writes are taken: it has something to do; leases run, which get a grace when
    /// writes are taken again; or there is a queue for which nobody waits, whose jobs grow stale only while they could be
    /// claimed.
    fn must_ask(&self, now: u64) -> bool {
        let index = self.index.borrow();
        let is_due = index.schedule.next_at().is_some_and(|at| at <= now) || !self.untold.borrow().is_empty();
        is_due
            || !self.availability.borrow().is_open()
            || index.len() > self.waiters.borrow().lines()
            || index.schedule.any(|task| matches!(task, Task::Leases(_)))
            || self.must_look_at_slots(now)
    }

    /// Whether somebody waits whose queue's slot may have left this node of the cluster since the last look.
    fn must_look_at_slots(&self, now: u64) -> bool {
        let is_time = now >= self.slots_looked_at.get().saturating_add(HEARTBEAT_MS);
        self.cluster.get() && is_time && self.waiters.borrow().lines() > 0
    }

    fn work(&self, ctx: &Ctx, now_us: u64, slice: &mut Slice) {
        let now = now_us / 1000;
        self.take_back_untold(ctx, now_us);
        while !slice.is_over() {
            let task = self.index.borrow_mut().schedule.pop(now);
            let Some(task) = task else { break };
            slice.spend(0);
            self.run(ctx, task, now_us, slice);
        }
        self.look_at_slots(ctx, now);
    }

    fn look_at_slots(&self, ctx: &Ctx, now: u64) {
        if self.must_look_at_slots(now) {
            self.slots_looked_at.set(now);
            self.release_waiters_of_lost_slots(ctx);
        }
    }

    /// When there is something to do next; never where nothing is known.
    fn next_turn(&self, now: u64) -> Option<u64> {
        let index = self.index.borrow();
        if !self.discovery.borrow().is_over() {
            return Some(now);
        }
        if index.is_empty() {
            return None;
        }
        Some(index.schedule.next_at().unwrap_or(u64::MAX).min(now + HEARTBEAT_MS))
    }

    /// After a command: a turn by the time of the first task.
    pub(super) fn wake_for_tasks(&self, ctx: &Ctx, now: u64) {
        let next = self.index.borrow().schedule.next_at();
        self.wake_by(ctx, next.unwrap_or(now + HEARTBEAT_MS));
    }

    /// Whether the server would take a write from a client now. A background write while writes are paused would end
    /// the server, and one while they are refused would hand out jobs on a primary that was cut off.
    fn takes_writes(&self, ctx: &Ctx) -> bool {
        if ctx.writes_are_paused() || self.doubts_replicas(ctx) {
            return false;
        }
        let known = self.index.borrow().any().map(|known| (known.db, known.state_or_fresh(self.now(ctx))));
        let Some((db, state)) = known else { return true };
        match ctx.select_db(db).then(|| ctx.would_write(&state.keys.due)) {
            Some(Err(refusal)) => !refusal.is_of_all_writes(),
            _ => true,
        }
    }

    fn run(&self, ctx: &Ctx, task: Task, now_us: u64, slice: &mut Slice) {
        let number = task.number();
        let (now, only_waited_for) = (now_us / 1000, self.index.borrow().is_only_waited_for(number));
        let known = self.index.borrow().get(number).map(|known| (known.db, known.state_or_fresh(now)));
        let Some((db, state)) = known else { return };
        if !ctx.select_db(db) {
            self.forget(number);
            return;
        }
        let job = Job { ctx, number, state: &state, now, now_us };
        let next = if only_waited_for { self.look_for_keys(&job, db, task) } else { self.carry_out(&job, task, slice) };
        let mut index = self.index.borrow_mut();
        if let (Some(at), true) = (next, index.get(number).is_some()) {
            index.schedule.set_by(task, at);
        }
    }

    /// Looks for keys of a queue that is only waited for, which somebody may have made by hand; says when to look again.
    /// The state is kept only if there are keys: names that were made up must not cost as much as queues do.
    fn look_for_keys(&self, job: &Job, db: i32, task: Task) -> Option<u64> {
        let Some(mut queue) = self.open(job.ctx, job.state, job.now_us, Reach::ALL) else {
            return self.shut_out(job);
        };
        if queue.exists() {
            let mut index = self.index.borrow_mut();
            index.adopt(db, job.state);
            index.meet(job.number, job.now);
            index.schedule.set_by(Task::Serve(job.number), job.now);
            return None;
        }
        matches!(task, Task::Upkeep(_)).then(|| job.now.saturating_add(settings::PURGE_INTERVAL.get()))
    }

    /// Does what is to be done; says when it is to be done again.
    fn carry_out(&self, job: &Job, task: Task, slice: &mut Slice) -> Option<u64> {
        if let Task::Serve(_) = task {
            return self.serve(job, slice);
        }
        let Some(mut queue) = self.open(job.ctx, job.state, job.now_us, Reach::ALL) else {
            return self.shut_out(job);
        };
        let begun_us = boot_us();
        let (next, figures) = match task {
            Task::Leases(_) => (self.end_leases(job, &mut queue, slice), Some(&self.figures.leases)),
            Task::Upkeep(_) => (self.look_over(job, &mut queue, slice), Some(&self.figures.upkeep)),
            Task::Bulk(_) => (self.go_on_with_bulk(job, &mut queue, slice), Some(&self.figures.bulk)),
            Task::Meet(_) | Task::Serve(_) => (self.meet(job, &mut queue), None),
        };
        if let Some(figures) = figures {
            figures.runs.add(1);
            figures.us.add(usize::try_from(boot_us().saturating_sub(begun_us)).unwrap_or(0));
        }
        self.set_by_step(job.number, &queue);
        next
    }

    /// The queue, where this node may write to it.
    pub(super) fn open<'a>(&self, ctx: &'a Ctx, state: &'a State, now_us: u64, reach: Reach) -> Option<Queue<'a>> {
        if self.cluster.get() && ctx.would_write(&state.keys.due).is_err() {
            return None;
        }
        Queue::open(self.scene(ctx, now_us), state, reach).ok()
    }

    /// After a queue could not be opened: when to try again. One that has no key here has left with its slot and is
    /// forgotten, so that nothing is left to do for it, and nothing known of it should it come back.
    pub(super) fn shut_out(&self, job: &Job) -> Option<u64> {
        let scene = Scene { cluster: false, ..self.scene(job.ctx, job.now_us) };
        if self.cluster.get() && Queue::look(scene, job.state).is_ok_and(|mut queue| !queue.exists()) {
            self.release_waiters_of(job.number);
            self.forget(job.number);
            return None;
        }
        Some(job.now + TROUBLE_PAUSE_MS)
    }

    /// The keys of a queue that clients wait for are gone: what this node remembers of it goes, too.
    pub(super) fn only_wait_for(&self, number: QueueNumber) {
        self.index.borrow_mut().only_wait_for(number);
        self.alerts.borrow_mut().forget(number);
        self.census.borrow_mut().forget(number);
    }

    pub(super) fn forget(&self, number: QueueNumber) {
        self.index.borrow_mut().forget(number);
        self.alerts.borrow_mut().forget(number);
        self.census.borrow_mut().forget(number);
    }

    /// The first look at a queue that was found, or whose header went.
    fn meet(&self, job: &Job, queue: &mut Queue) -> Option<u64> {
        self.observe_ids(queue, job.state, job.now);
        queue.learn_header();
        if queue.restore_header() {
            let name = printable(job.state.name());
            job.ctx
                .log(Level::Warning, &format!("dq: the header of queue {name} was gone while it has jobs: made again"));
        }
        None
    }

    fn end_leases(&self, job: &Job, queue: &mut Queue, slice: &mut Slice) -> Option<u64> {
        let grace_until = self.availability.borrow().grace_until();
        if job.now < grace_until {
            return Some(grace_until);
        }
        let mut report = LapseReport::default();
        if !queue.has_jobs() {
            return queue.next_lease_end().map(|at| at.max(job.now + TROUBLE_PAUSE_MS));
        }
        let progress = queue.end_leases(slice, &mut report);
        self.figures.lapsed.add(report.lapsed);
        if report.lapsed > 0 {
            self.alert(job.ctx, job.number, job.state, Alert::Lapsed, job.now);
        }
        if report.dead > 0 {
            self.alert(job.ctx, job.number, job.state, Alert::Dead, job.now);
        }
        match progress {
            Progress::More => Some(job.now),
            Progress::Done => queue.next_lease_end(),
        }
    }

    fn look_over(&self, job: &Job, queue: &mut Queue, slice: &mut Slice) -> Option<u64> {
        let grace_until = self.availability.borrow().grace_until();
        if job.now < grace_until {
            return Some(grace_until);
        }
        queue.look_at_header_again();
        let steps = [self.purge(job, queue, slice), queue.sweep_ids(slice), queue.trim_dead(slice)];
        if steps.contains(&Progress::More) {
            return Some(job.now);
        }
        let idle_since = job.state.last_change.get();
        let idle = job.now.saturating_sub(idle_since) >= settings::IDLE_QUEUE_TTL.get();
        if (idle && queue.remove_idle_header()) || !queue.exists() {
            if self.waiters.borrow().count(job.number) > 0 {
                self.only_wait_for(job.number);
                return Some(job.now.saturating_add(settings::PURGE_INTERVAL.get()));
            }
            self.forget(job.number);
            return None;
        }
        // What another hand wrote has set no timer: a lease, or what makes a job claimable that somebody waits for.
        let mut index = self.index.borrow_mut();
        index.schedule.set_by(Task::Leases(job.number), job.now);
        if self.waiters.borrow().count(job.number) > 0 {
            index.schedule.set_by(Task::Serve(job.number), job.now);
        }
        Some(job.now.saturating_add(settings::PURGE_INTERVAL.get()))
    }

    fn purge(&self, job: &Job, queue: &mut Queue, slice: &mut Slice) -> Progress {
        let stale_after = queue.rules().get(&settings::STALE_AFTER);
        let since = self.availability.borrow().open_since(job.now, stale_after);
        let Some(since) = since.filter(|since| queue.is_open_since(*since)) else { return Progress::Done };
        let worked_on = queue.is_worked_on_since(since) || self.waiters.borrow().count(job.number) > 0;
        let has_jobs = queue.has_jobs();
        self.tell_behind(job, worked_on && has_jobs && queue.has_ready_since(since));
        let mut report = PurgeReport::default();
        let is_left_alone = worked_on || !has_jobs;
        let progress = if is_left_alone { Progress::Done } else { queue.purge_stale(since, slice, &mut report) };
        queue.note_held(report.held);
        self.tell_purge(job, &report, progress);
        progress
    }

    fn tell_behind(&self, job: &Job, is_behind: bool) {
        let name = || printable(job.state.name());
        if is_behind {
            self.alert(job.ctx, job.number, job.state, Alert::Behind, job.now);
            let line =
                || format!("dq: queue {}: jobs are ready for dq.stale-after: its workers do not keep up", name());
            self.begin_trouble(job.ctx, job.number, Alert::Behind, line);
        } else {
            let line = || format!("dq: queue {}: it is not behind any more", name());
            self.end_trouble(job.ctx, job.number, Alert::Behind, line);
        }
    }

    fn tell_purge(&self, job: &Job, report: &PurgeReport, progress: Progress) {
        let name = || printable(job.state.name());
        self.figures.purged.add(report.purged);
        if report.purged > 0 {
            self.alert(job.ctx, job.number, job.state, Alert::Stale, job.now);
        }
        let (purged, logged) = (job.state.metrics.stale_purged.get(), &job.state.metrics.stale_logged);
        if progress == Progress::Done && purged > logged.get() {
            let count = purged - logged.replace(purged);
            job.ctx.log(Level::Warning, &format!("dq: queue {}: {count} stale jobs went by dq.stale-policy", name()));
        }
        if report.held > 0 {
            self.alert(job.ctx, job.number, job.state, Alert::DeadFull, job.now);
            let line =
                || format!("dq: queue {}: {} stale jobs stay, dead letters are at dq.dead-max", name(), report.held);
            self.begin_trouble(job.ctx, job.number, Alert::DeadFull, line);
        } else if progress == Progress::Done {
            let line = || format!("dq: queue {}: no stale job has to stay any more", name());
            self.end_trouble(job.ctx, job.number, Alert::DeadFull, line);
        }
    }
}

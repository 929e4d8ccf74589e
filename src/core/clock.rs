//! The queue clock: wall time at the start, then the boot clock's pace.
//!
//! Its time is the one by which jobs are due and leases end. It never goes back, and a step of the
//! system's wall clock neither fires everything nor stalls everything: the clock follows the wall
//! by running at most a tenth faster or slower, and stays where it is when the wall is further
//! away than [`MAX_CLOSED_MS`].

/// The largest offset from the wall clock that is closed, in ms (10 minutes).
pub const MAX_CLOSED_MS: u64 = 10 * 60 * 1000;

/// While an offset is closed, the clock gains or loses one part in this many of the time that
/// passes.
const CLOSING_PART: u64 = 10;

/// How much the wall clock may move against the boot clock between two looks without that being
/// a step, in µs (1 s).
const MAX_DRIFT_US: u64 = 1_000_000;

const US_PER_MS: u64 = 1_000;

/// How far apart the two clocks are read where nothing comes between, at the most, in µs.
const SAME_MOMENT_US: u64 = 20;

/// How often they are read again where something did: other programs take the processor for ms on a busy machine.
const TRIES: usize = 5;

/// One look at the system's clocks, both read at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// CLOCK_BOOTTIME in µs: the time since the machine started, suspended time included.
    pub boot_us: u64,
    /// CLOCK_REALTIME in µs since 1970.
    pub wall_us: u64,
}

impl Reading {
    /// Reads the wall clock between two looks at the boot clock, of some tries the one that was held up least: a delay of
    /// X ms would be taken for a clock that is X ms off, and be closed, by leases that are X ms short. The later look
    /// counts, so that what is left of the delay makes the time seem late, never early.
    pub fn take(boot_us: impl Fn() -> u64, wall_us: impl Fn() -> u64) -> Reading {
        let read = || {
            let (before, wall_us, boot_us) = (boot_us(), wall_us(), boot_us());
            (boot_us.saturating_sub(before), Reading { boot_us, wall_us })
        };
        let mut best = read();
        for _ in 1..TRIES {
            if best.0 <= SAME_MOMENT_US {
                break;
            }
            let again = read();
            best = if again.0 < best.0 { again } else { best };
        }
        best.1
    }
}

/// What becomes of a step of the wall clock (`dq.clock-step`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepPolicy {
    /// An offset of up to 10 minutes is closed slowly; a larger one stays.
    Slew,
    /// As `Slew`, but where the wall is ahead by more than 1 s, queue time jumps to it.
    Follow,
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How far the wall clock was set between two looks, in ms; negative is back.
    pub by_ms: i64,
    /// How far queue time jumped forward because of it, in ms.
    pub taken_ms: u64,
}

/// The queue clock. Kept in µs, so that its ms do not drift.
#[derive(Clone, Debug)]
pub struct QueueClock {
    boot_us: u64,
    queue_us: u64,
    /// The wall clock less queue time, as far as the last look and the boot clock tell.
    offset_us: i64,
    /// Time that passed while an offset was being closed and was too short to count, in µs.
    unclosed_us: u64,
}

impl QueueClock {
    /// A clock that starts at the wall time of `reading`.
    pub fn new(reading: Reading) -> QueueClock {
        QueueClock { boot_us: reading.boot_us, queue_us: reading.wall_us, offset_us: 0, unclosed_us: 0 }
    }

    /// Queue time in ms when the boot clock shows `boot_us`. Never less than before; where the
    /// boot clock itself goes back, no time passes and the clock goes on from there.
    pub fn now(&mut self, boot_us: u64) -> u64 {
        self.now_us(boot_us) / US_PER_MS
    }

    /// As [`QueueClock::now`], in µs.
    pub fn now_us(&mut self, boot_us: u64) -> u64 {
        self.advance(boot_us);
        self.queue_us
    }

    /// Compares the wall clock with the boot clock, so that [`QueueClock::now`] follows it.
    ///
    /// Answers with the step where the wall clock was set by more than 1 s since the last look,
    /// or queue time jumped.
    pub fn look(&mut self, reading: Reading, policy: StepPolicy) -> Option<Step> {
        self.advance(reading.boot_us);
        let expected_us = self.queue_us.saturating_add_signed(self.offset_us);
        let moved_us = difference(reading.wall_us, expected_us);
        self.offset_us = difference(reading.wall_us, self.queue_us);
        let taken_us = self.jump(policy);
        let stepped = moved_us.unsigned_abs() > MAX_DRIFT_US || taken_us > 0;
        stepped.then_some(Step { by_ms: moved_us / 1_000, taken_ms: taken_us / US_PER_MS })
    }

    /// How far the wall clock is ahead of queue time, in ms; negative where it is behind.
    pub fn offset_ms(&self) -> i64 {
        self.offset_us / 1_000
    }

    /// Whether the wall clock is too far away to be followed. Harmless, but worth an alarm.
    pub fn held(&self) -> bool {
        self.offset_us.unsigned_abs() > MAX_CLOSED_MS * US_PER_MS
    }

    /// The queue time at which the wall clock will show `at_wall_us`, as long as nobody sets it; `now_us` where that has
    /// passed. All in µs.
    ///
    /// `wall_now_us` and `now_us` are wall and queue time at this moment. What is left of an
    /// offset by then is counted, so that slow closing does not shift the time that was asked for.
    pub fn wall_to_queue(at_wall_us: u64, wall_now_us: u64, now_us: u64) -> u64 {
        let wait = at_wall_us.saturating_sub(wall_now_us);
        let due = now_us.saturating_add(wait);
        let offset = wall_now_us.abs_diff(now_us);
        if offset > MAX_CLOSED_MS * US_PER_MS {
            return due;
        }
        let closed = offset.min(wait / CLOSING_PART);
        if wall_now_us > now_us {
            due.saturating_add(closed)
        } else {
            due.saturating_sub(closed)
        }
    }

    /// The boot time in µs at which the clock will show `at_us`, as long as nobody sets the wall clock; `boot_us`, which
    /// is now, where it shows that already.
    pub fn boot_at(&mut self, boot_us: u64, at_us: u64) -> u64 {
        let wait = at_us.saturating_sub(self.now_us(boot_us));
        let offset = if self.held() { 0 } else { self.offset_us.unsigned_abs() };
        let boot_wait = if self.offset_us > 0 {
            wait - offset.min(wait / (CLOSING_PART + 1))
        } else {
            wait.saturating_add(offset.min(wait / (CLOSING_PART - 1)))
        };
        boot_us.saturating_add(boot_wait)
    }

    fn advance(&mut self, boot_us: u64) {
        let elapsed = boot_us.saturating_sub(self.boot_us);
        self.boot_us = boot_us;
        let closed = self.close(elapsed);
        self.offset_us -= closed;
        let passed = elapsed.saturating_add_signed(closed);
        self.queue_us = self.queue_us.saturating_add(passed);
    }

    /// How much of the offset `elapsed` µs close, in µs: at most a tenth of them.
    fn close(&mut self, elapsed: u64) -> i64 {
        let open = self.offset_us.unsigned_abs();
        if open == 0 || self.held() {
            self.unclosed_us = 0;
            return 0;
        }
        let time = elapsed.saturating_add(self.unclosed_us);
        self.unclosed_us = time % CLOSING_PART;
        let closed = i64::try_from(open.min(time / CLOSING_PART)).unwrap_or(i64::MAX);
        closed * self.offset_us.signum()
    }

    /// Takes the offset at once where the policy says so; how far queue time jumped, in µs.
    fn jump(&mut self, policy: StepPolicy) -> u64 {
        match u64::try_from(self.offset_us) {
            Ok(ahead) if policy == StepPolicy::Follow && ahead > MAX_DRIFT_US => {
                self.queue_us = self.queue_us.saturating_add(ahead);
                self.offset_us = 0;
                ahead
            }
            _ => 0,
        }
    }
}

/// `one - two`, held within the limits of `i64`.
fn difference(one: u64, two: u64) -> i64 {
    let size = i64::try_from(one.abs_diff(two)).unwrap_or(i64::MAX);
    if one < two {
        -size
    } else {
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::{Cell, RefCell};
    use StepPolicy::{Follow, Slew};

    const SECOND: u64 = 1_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const YEAR: u64 = 365 * 24 * HOUR;
    /// A wall time of our days in µs.
    const START: u64 = 1_800_000_000 * SECOND;

    /// A machine whose clocks a test moves.
    struct Machine {
        at: Reading,
        clock: QueueClock,
    }

    /// A reading by a thread that is held up for so long, in µs, before each of its looks at a clock, and then no more.
    fn reading_held_up(delays: &[u64]) -> Reading {
        let (elapsed, delays) = (Cell::new(0), RefCell::new(delays.iter()));
        let look = || {
            elapsed.set(elapsed.get() + delays.borrow_mut().next().unwrap_or(&1));
            elapsed.get()
        };
        Reading::take(look, || START + look())
    }

    fn seems_off_us(reading: Reading) -> i64 {
        difference(reading.wall_us - START, reading.boot_us)
    }

    #[test]
    fn a_reading_that_was_held_up_is_taken_again() {
        assert_eq!(seems_off_us(reading_held_up(&[])), -1);
        assert_eq!(seems_off_us(reading_held_up(&[0, 9_000, 1])), -1);
        assert_eq!(seems_off_us(reading_held_up(&[0, 1, 9_000])), -1);
    }

    #[test]
    fn of_readings_that_are_all_held_up_the_best_counts() {
        let delays = [9_000, 70, 30, 9_000, 10, 80, 9_000, 5_000, 5_000, 9_000, 50, 30, 9_000, 60, 40, 0, 1, 1];
        assert_eq!(seems_off_us(reading_held_up(&delays)), -30, "the fourth; a sixth is not taken");
    }

    impl Machine {
        fn new() -> Machine {
            let at = Reading { boot_us: 77 * HOUR, wall_us: START };
            let clock = QueueClock::new(at);
            Machine { at, clock }
        }

        fn pass(&mut self, us: u64) {
            self.at.boot_us += us;
            self.at.wall_us += us;
        }

        fn set_wall(&mut self, by_us: i64) {
            self.at.wall_us = self.at.wall_us.saturating_add_signed(by_us);
        }

        fn look(&mut self, policy: StepPolicy) -> Option<Step> {
            self.clock.look(self.at, policy)
        }

        /// Lets `us` pass with a look each second.
        fn run(&mut self, us: u64) {
            for _ in 0..us / SECOND {
                self.pass(SECOND);
                assert_eq!(self.look(Slew), None);
            }
        }

        /// Queue time since the start in ms.
        fn queue_ms(&mut self) -> u64 {
            self.clock.now(self.at.boot_us) - START / 1_000
        }
    }

    fn signed(us: u64) -> i64 {
        i64::try_from(us).unwrap()
    }

    #[test]
    fn without_a_step_queue_time_is_wall_time() {
        let mut machine = Machine::new();
        assert_eq!(machine.queue_ms(), 0);
        machine.pass(1_999);
        assert_eq!(machine.queue_ms(), 1);
        machine.run(HOUR);
        assert_eq!(machine.clock.now(machine.at.boot_us), machine.at.wall_us / 1_000);
        assert_eq!(machine.clock.offset_ms(), 0);
    }

    #[test]
    fn small_drift_is_followed() {
        let mut machine = Machine::new();
        for _ in 0..24 * 3_600 {
            machine.pass(SECOND);
            machine.set_wall(50);
            assert_eq!(machine.look(Slew), None);
        }
        assert!(machine.clock.offset_ms().abs() <= 1);
        let wall = machine.at.wall_us / 1_000;
        assert!(machine.clock.now(machine.at.boot_us).abs_diff(wall) <= 1);
    }

    #[test]
    fn a_step_of_seconds_is_closed_at_a_tenth() {
        for by in [signed(5 * SECOND), -signed(5 * SECOND)] {
            let mut machine = Machine::new();
            machine.set_wall(by);
            let expected = Step { by_ms: by / 1_000, taken_ms: 0 };
            assert_eq!(machine.look(Slew), Some(expected));
            assert_eq!(machine.queue_ms(), 0);
            machine.run(20 * SECOND);
            assert_eq!(machine.queue_ms(), 20_000_u64.saturating_add_signed(by.signum() * 2_000));
            assert_eq!(machine.clock.offset_ms(), by.signum() * 3_000);
            machine.run(40 * SECOND);
            assert_eq!(machine.queue_ms(), 60_000_u64.saturating_add_signed(by / 1_000));
            assert_eq!(machine.clock.offset_ms(), 0);
        }
    }

    #[test]
    fn a_large_step_is_held_and_harmless() {
        for size in [11 * MINUTE, HOUR, YEAR] {
            for by in [signed(size), -signed(size)] {
                let mut machine = Machine::new();
                machine.set_wall(by);
                assert_eq!(machine.look(Slew).map(|step| step.by_ms), Some(by / 1_000));
                machine.run(2 * HOUR);
                assert_eq!(machine.queue_ms(), 2 * HOUR / 1_000);
                assert_eq!(machine.clock.offset_ms(), by / 1_000);
                assert!(machine.clock.held());
            }
        }
    }

    #[test]
    fn a_held_offset_ends_when_the_wall_comes_back() {
        let mut machine = Machine::new();
        machine.set_wall(signed(HOUR));
        machine.look(Slew);
        machine.pass(MINUTE);
        machine.set_wall(-signed(55 * MINUTE));
        let step = machine.look(Slew).unwrap();
        assert_eq!(step.by_ms, -55 * 60 * 1_000);
        assert!(!machine.clock.held());
        machine.run(HOUR);
        assert_eq!(machine.clock.offset_ms(), 0);
    }

    #[test]
    fn ten_minutes_are_still_closed() {
        let mut machine = Machine::new();
        machine.set_wall(signed(10 * MINUTE));
        machine.look(Slew);
        assert!(!machine.clock.held());
        machine.run(101 * MINUTE);
        assert_eq!(machine.clock.offset_ms(), 0);
    }

    #[test]
    fn many_small_steps_add_up() {
        let mut machine = Machine::new();
        for _ in 0..700 {
            machine.set_wall(signed(SECOND));
            assert_eq!(machine.look(Slew), None);
        }
        assert!(machine.clock.held());
    }

    #[test]
    fn follow_takes_a_step_forward_and_none_back() {
        for size in [2 * SECOND, HOUR, YEAR] {
            let mut machine = Machine::new();
            machine.set_wall(signed(size));
            let expected = Step { by_ms: signed(size) / 1_000, taken_ms: size / 1_000 };
            assert_eq!(machine.look(Follow), Some(expected));
            assert_eq!(machine.queue_ms(), size / 1_000);
            assert_eq!(machine.clock.offset_ms(), 0);

            machine.set_wall(-signed(size));
            let step = machine.look(Follow).unwrap();
            assert_eq!(step.taken_ms, 0);
            assert_eq!(machine.queue_ms(), size / 1_000);
        }
    }

    #[test]
    fn follow_takes_an_offset_that_slew_held() {
        let mut machine = Machine::new();
        machine.set_wall(signed(HOUR));
        machine.look(Slew);
        let step = machine.look(Follow);
        let expected = Step { by_ms: 0, taken_ms: HOUR / 1_000 };
        assert_eq!(step, Some(expected));
        assert!(!machine.clock.held());
    }

    #[test]
    fn asking_often_closes_as_fast() {
        let mut machine = Machine::new();
        machine.set_wall(signed(2 * SECOND));
        machine.look(Slew);
        for _ in 0..SECOND / 7 {
            machine.pass(7);
            machine.clock.now(machine.at.boot_us);
        }
        assert!(machine.queue_ms().abs_diff(1_100) <= 1);
    }

    #[test]
    fn an_offset_is_closed_once_however_long_nobody_looks() {
        for by in [signed(2 * SECOND), -signed(2 * SECOND)] {
            let mut machine = Machine::new();
            machine.set_wall(by);
            machine.look(Slew);
            for _ in 0..60 {
                machine.pass(SECOND);
                machine.queue_ms();
            }
            assert_eq!(machine.queue_ms(), 60_000_u64.saturating_add_signed(by / 1_000));
        }
    }

    #[test]
    fn follow_does_not_jump_for_drift() {
        let mut machine = Machine::new();
        machine.set_wall(signed(SECOND));
        assert_eq!(machine.look(Follow), None);
        assert_eq!(machine.queue_ms(), 0);
    }

    #[test]
    fn a_boot_clock_that_goes_back_does_not_stop_the_queue() {
        let mut machine = Machine::new();
        machine.pass(SECOND);
        assert_eq!(machine.queue_ms(), 1_000);
        machine.at.boot_us -= 50 * HOUR;
        assert_eq!(machine.queue_ms(), 1_000);
        machine.pass(SECOND);
        assert_eq!(machine.queue_ms(), 2_000);
    }

    #[test]
    fn wall_time_is_turned_into_queue_time() {
        let turn = QueueClock::wall_to_queue;
        assert_eq!(turn(5_000, 1_000, 1_000), 5_000);
        assert_eq!(turn(500, 1_000, 1_000), 1_000);
        assert_eq!(turn(0, 1_000, 1_100), 1_100);
        assert_eq!(turn(u64::MAX, 1_000, 1_000), u64::MAX);
        let far = 2 * MAX_CLOSED_MS * US_PER_MS;
        assert_eq!(turn(far + 5_000, far, 0), 5_000);
        assert_eq!(turn(5_000, 0, far), far + 5_000);
    }

    proptest! {
        #[test]
        fn a_time_asked_for_is_met_though_an_offset_is_closed(
            offset in -600_000..600_000_i64, wait_ms in 1..200_000_u64,
        ) {
            let mut machine = Machine::new();
            machine.set_wall(offset * 1_000);
            machine.look(Slew);
            let wall_ms = machine.at.wall_us / 1_000;
            let now_ms = machine.clock.now(machine.at.boot_us);
            let due_us =
                QueueClock::wall_to_queue((wall_ms + wait_ms) * US_PER_MS, wall_ms * US_PER_MS, now_ms * US_PER_MS);
            let due_ms = due_us / US_PER_MS;
            machine.pass(wait_ms * 1_000);
            let then_ms = machine.clock.now(machine.at.boot_us);
            prop_assert!(due_ms.abs_diff(then_ms) <= 1, "{} {}", due_ms, then_ms);
        }

        #[test]
        fn queue_time_never_goes_back(
            looks in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 1..40),
            start_boot: u64, start_wall: u64,
        ) {
            let start = Reading { boot_us: start_boot, wall_us: start_wall };
            let mut clock = QueueClock::new(start);
            let mut newest = clock.now(start_boot);
            for (boot_us, wall_us, follow) in looks {
                let policy = if follow { Follow } else { Slew };
                clock.look(Reading { boot_us, wall_us }, policy);
                let now = clock.now(boot_us);
                prop_assert!(now >= newest);
                newest = now;
            }
        }

        #[test]
        fn the_pace_stays_within_a_tenth(
            turns in prop::collection::vec(
                (0..10 * SECOND, -signed(HOUR)..signed(HOUR), 0..5_u8), 1..60),
        ) {
            let mut machine = Machine::new();
            machine.clock.now(machine.at.boot_us);
            let (mut real, mut queue) = (0, 0);
            for (us, set, kind) in turns {
                machine.pass(us);
                match kind {
                    0 => machine.set_wall(set),
                    1 => machine.set_wall(set / 100_000),
                    _ => {}
                }
                machine.look(Slew);
                real += us;
                let now = machine.queue_ms();
                prop_assert!(now >= queue);
                queue = now;
            }
            let real_ms = real / 1_000;
            prop_assert!(queue <= real_ms + real_ms / 10 + 1);
            prop_assert!(queue + real_ms / 10 + 2 >= real_ms);
        }

        #[test]
        fn an_offset_only_shrinks_while_nobody_sets_the_wall(
            by in -signed(12 * MINUTE)..signed(12 * MINUTE),
            waits in prop::collection::vec(0..MINUTE, 1..60),
        ) {
            let mut machine = Machine::new();
            machine.set_wall(by);
            machine.look(Slew);
            let mut open = by.unsigned_abs();
            for us in waits {
                machine.pass(us);
                machine.look(Slew);
                let offset = difference(machine.at.wall_us, machine.clock.queue_us);
                prop_assert_eq!(offset, machine.clock.offset_us);
                prop_assert!(offset == 0 || offset.signum() == by.signum());
                prop_assert!(offset.unsigned_abs() <= open);
                open = offset.unsigned_abs();
            }
        }
    }
}

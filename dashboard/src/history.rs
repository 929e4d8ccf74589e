//! What the metrics were: every look of the last minutes, and a point a minute of the last day.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

/// Looks that are kept as they were: ten minutes at one a second.
const FINE: usize = 600;
/// Points of a minute: a day.
const COARSE: usize = 1440;
/// Queues that have a history. One whose page is shown takes the place of one whose page was not shown for longest.
const QUEUES: usize = 300;
/// Seconds after the time at which the next point was expected, from which on there is a gap.
const LATE: u32 = 5;

/// What a plot shows of one moment.
#[derive(Clone, Copy, Default)]
pub struct Point {
    /// Unix time in seconds.
    pub at: u32,
    /// Nothing is known of this moment: the server, or this program, was away.
    pub is_gap: bool,
    /// Jobs a second: pushed, acknowledged, and attempts that did not end well.
    pub pushed: f32,
    pub acked: f32,
    pub bad: f32,
    /// How long the first ready job has been due, in seconds.
    pub late: f32,
    pub ready: f32,
    pub delayed: f32,
    pub leased: f32,
    pub dead: f32,
}

/// The points of one queue, or of all together.
#[derive(Default)]
struct Track {
    fine: VecDeque<Point>,
    coarse: VecDeque<Point>,
    /// The points of the minute that is not over.
    minute: Vec<Point>,
    touched: u32,
    /// When the page of the queue was last shown; 0 for never.
    viewed: u32,
}

/// Points column by column, as plots want them; nothing in a gap.
#[derive(Serialize, Default)]
pub struct Columns {
    /// The time that was asked for, as Unix time in seconds.
    pub from: u32,
    pub to: u32,
    pub at: Vec<u32>,
    pub pushed: Vec<Option<f32>>,
    pub acked: Vec<Option<f32>>,
    pub bad: Vec<Option<f32>>,
    pub late: Vec<Option<f32>>,
    pub ready: Vec<Option<f32>>,
    pub delayed: Vec<Option<f32>>,
    pub leased: Vec<Option<f32>>,
    pub dead: Vec<Option<f32>>,
}

/// The tracks of the queues, and that of all of them together.
#[derive(Default)]
pub struct History {
    all: Track,
    queues: HashMap<Vec<u8>, Track>,
}

impl History {
    /// Adds a point of all queues together. `pause` is how many seconds lie between two looks at present: where more have
    /// passed, there is a gap.
    pub fn add_all(&mut self, point: Point, pause: u32) {
        self.all.add(point, pause);
    }

    /// Adds a point of a queue; `viewed` says whether its page is shown.
    pub fn add(&mut self, queue: &[u8], point: Point, pause: u32, viewed: bool) {
        if !self.queues.contains_key(queue) && self.queues.len() >= QUEUES && !(viewed && self.make_room()) {
            return;
        }
        let track = self.queues.entry(queue.to_vec()).or_default();
        if viewed {
            track.viewed = point.at;
        }
        track.add(point, pause);
    }

    fn make_room(&mut self) -> bool {
        let oldest = self.queues.iter().min_by_key(|(_, track)| track.viewed).map(|(queue, _)| queue.clone());
        oldest.is_some_and(|queue| self.queues.remove(&queue).is_some())
    }

    /// Nothing is known at this time.
    pub fn gap(&mut self, at: u32) {
        self.queues.values_mut().chain([&mut self.all]).for_each(|track| track.gap(at));
    }

    /// Forgets queues of which nothing was heard for an hour.
    pub fn tidy(&mut self, now: u32) {
        self.queues.retain(|_, track| track.touched + 3600 > now);
    }

    /// The points of a queue, or of all, of the last `seconds`; `fine` are those of the last minutes, else those of the
    /// last day.
    pub fn read(&self, queue: Option<&[u8]>, fine: bool, now: u32, seconds: u32) -> Columns {
        let from = now.saturating_sub(seconds);
        let mut columns = Columns { from, to: now, ..Columns::default() };
        let Some(track) = queue.map_or(Some(&self.all), |queue| self.queues.get(queue)) else { return columns };
        let points = if fine { &track.fine } else { &track.coarse };
        points.iter().filter(|point| point.at > from).for_each(|point| columns.push(point));
        columns
    }

    /// The backlog of the last looks, for a small line in a table.
    pub fn backlog(&self, queue: &[u8], most: usize) -> Vec<f32> {
        let Some(track) = self.queues.get(queue) else { return Vec::new() };
        let known = track.fine.iter().rev().filter(|point| !point.is_gap).take(most);
        let mut points: Vec<f32> = known.map(|point| point.ready + point.leased).collect();
        points.reverse();
        points
    }
}

impl Track {
    fn add(&mut self, point: Point, pause: u32) {
        if self.touched > 0 && point.at > self.touched + pause + LATE {
            self.gap(self.touched + pause);
        }
        self.touched = point.at;
        push(&mut self.fine, point, FINE);
        if self.minute.first().is_some_and(|first| first.at / 60 != point.at / 60) {
            self.end_minute();
        }
        let last = self.coarse.back().map(|last| last.at);
        if self.minute.is_empty() && last.is_some_and(|last| last + 60 < point.at / 60 * 60) {
            let at = last.unwrap_or(0) + 60;
            push(&mut self.coarse, Point { at, is_gap: true, ..Point::default() }, COARSE);
        }
        self.minute.push(point);
    }

    fn end_minute(&mut self) {
        push(&mut self.coarse, mean(&self.minute), COARSE);
        self.minute.clear();
    }

    fn gap(&mut self, at: u32) {
        if self.fine.back().is_some_and(|last| !last.is_gap) {
            push(&mut self.fine, Point { at, is_gap: true, ..Point::default() }, FINE);
        }
    }
}

fn push(points: &mut VecDeque<Point>, point: Point, most: usize) {
    if points.len() >= most {
        points.pop_front();
    }
    points.push_back(point);
}

/// The mean of the points; of the lateness the worst, which a mean would hide.
fn mean(points: &[Point]) -> Point {
    let mean = |of: fn(&Point) -> f32| points.iter().map(of).sum::<f32>() / points.len() as f32;
    Point {
        at: points[0].at / 60 * 60,
        is_gap: false,
        pushed: mean(|p| p.pushed),
        acked: mean(|p| p.acked),
        bad: mean(|p| p.bad),
        late: points.iter().map(|p| p.late).fold(0.0, f32::max),
        ready: mean(|p| p.ready),
        delayed: mean(|p| p.delayed),
        leased: mean(|p| p.leased),
        dead: mean(|p| p.dead),
    }
}

impl Columns {
    fn push(&mut self, point: &Point) {
        let known = |value: f32| (!point.is_gap).then_some(value);
        self.at.push(point.at);
        self.pushed.push(known(point.pushed));
        self.acked.push(known(point.acked));
        self.bad.push(known(point.bad));
        self.late.push(known(point.late));
        self.ready.push(known(point.ready));
        self.delayed.push(known(point.delayed));
        self.leased.push(known(point.leased));
        self.dead.push(known(point.dead));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: u32) -> Point {
        Point { at, pushed: 1.0, late: (at % 60) as f32, ..Default::default() }
    }

    #[test]
    fn a_day_is_kept_by_the_minute_and_ten_minutes_by_the_look() {
        let mut history = History::default();
        let end = (COARSE as u32 + 100) * 60;
        for at in 0..end {
            history.add(b"q", point(at), 1, false);
        }
        let fine = history.read(Some(b"q"), true, end, end);
        assert_eq!((fine.at.len(), fine.pushed[0]), (FINE, Some(1.0)));
        let coarse = history.read(Some(b"q"), false, end, end);
        assert_eq!((coarse.at.len(), coarse.pushed[7], coarse.late[7]), (COARSE, Some(1.0), Some(59.0)));
        let last = history.read(Some(b"q"), true, end, 6);
        assert_eq!((last.at.len(), last.from, last.to), (5, end - 6, end));
        assert!(history.read(Some(b"other"), true, end, end).at.is_empty());
    }

    #[test]
    fn a_gap_in_the_looks_is_a_gap_in_the_columns() {
        let mut history = History::default();
        (1000..1010).chain(1200..1210).for_each(|at| history.add_all(point(at), 1));
        let fine = history.read(None, true, 1210, 600);
        assert_eq!(fine.at.len(), 21);
        assert_eq!((fine.at[10], fine.pushed[10], fine.pushed[11]), (1010, None, Some(1.0)));
        // Looks that are ten seconds apart because nobody is there have none.
        let mut history = History::default();
        (0..20).for_each(|look| history.add_all(point(1000 + look * 10), 10));
        assert!(history.read(None, true, 1200, 600).pushed.iter().all(Option::is_some));
        // One that is known of when it begins.
        history.gap(1192);
        history.gap(1193);
        assert_eq!(history.read(None, true, 1200, 600).pushed.iter().filter(|value| value.is_none()).count(), 1);
        // The same by the minute.
        let mut history = History::default();
        (0..120).chain(600..720).for_each(|at| history.add_all(point(at), 1));
        history.add_all(point(720), 1);
        let coarse = history.read(None, false, 720, 720);
        assert_eq!(
            coarse.pushed,
            [Some(1.0), None, Some(1.0), Some(1.0)],
            "the first minute is at the edge: {:?}",
            coarse.at
        );
    }

    #[test]
    fn memory_is_bounded_and_the_total_does_not_count() {
        let mut history = History::default();
        for number in 0..QUEUES + 50 {
            history.add(number.to_string().as_bytes(), point(10), 1, false);
            history.add_all(point(10), 1);
        }
        assert_eq!((history.queues.len(), history.all.fine.len()), (QUEUES, QUEUES + 50));
        // One that is shown has a history all the same.
        history.add(b"shown", point(20), 1, true);
        assert_eq!((history.queues.len(), history.backlog(b"shown", 9).len()), (QUEUES, 1));
        history.tidy(4000);
        assert!(history.queues.is_empty());
    }
}

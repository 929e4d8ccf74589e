//! What the figures were: every look of the last minutes, and a point a minute of the last day.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

/// Looks that are kept as they were: ten minutes at one a second.
const FINE: usize = 600;
/// Points of a minute: a day.
const COARSE: usize = 1440;
/// Queues that have a history; those beyond have none until others are forgotten.
const QUEUES: usize = 300;

/// What a plot shows of one moment.
#[derive(Clone, Copy, Default)]
pub struct Point {
    /// Unix time in seconds.
    pub at: u32,
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
}

/// Points column by column, as plots want them.
#[derive(Serialize, Default)]
pub struct Columns {
    pub at: Vec<u32>,
    pub pushed: Vec<f32>,
    pub acked: Vec<f32>,
    pub bad: Vec<f32>,
    pub late: Vec<f32>,
    pub ready: Vec<f32>,
    pub delayed: Vec<f32>,
    pub leased: Vec<f32>,
    pub dead: Vec<f32>,
}

/// All tracks; that of all queues together has the empty name, which no queue can have.
#[derive(Default)]
pub struct History(HashMap<Vec<u8>, Track>);

impl History {
    pub fn add(&mut self, queue: &[u8], point: Point) {
        if !self.0.contains_key(queue) && self.0.len() >= QUEUES {
            return;
        }
        self.0.entry(queue.to_vec()).or_default().add(point);
    }

    /// Forgets queues of which nothing was heard for an hour.
    pub fn tidy(&mut self, now: u32) {
        self.0.retain(|_, track| track.touched + 3600 > now);
    }

    /// The points of a queue after a time; `fine` are those of the last minutes, else those of the last day.
    pub fn read(&self, queue: &[u8], fine: bool, after: u32) -> Columns {
        let mut columns = Columns::default();
        let Some(track) = self.0.get(queue) else { return columns };
        let points = if fine { &track.fine } else { &track.coarse };
        points.iter().filter(|point| point.at > after).for_each(|point| columns.push(point));
        columns
    }

    /// The backlog of the last looks, for a small line in a table.
    pub fn backlog(&self, queue: &[u8], most: usize) -> Vec<f32> {
        let Some(track) = self.0.get(queue) else { return Vec::new() };
        let skip = track.fine.len().saturating_sub(most);
        track.fine.iter().skip(skip).map(|point| point.ready + point.leased).collect()
    }
}

impl Track {
    fn add(&mut self, point: Point) {
        self.touched = point.at;
        push(&mut self.fine, point, FINE);
        if self.minute.first().is_some_and(|first| first.at / 60 != point.at / 60) {
            push(&mut self.coarse, mean(&self.minute), COARSE);
            self.minute.clear();
        }
        self.minute.push(point);
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
        self.at.push(point.at);
        self.pushed.push(point.pushed);
        self.acked.push(point.acked);
        self.bad.push(point.bad);
        self.late.push(point.late);
        self.ready.push(point.ready);
        self.delayed.push(point.delayed);
        self.leased.push(point.leased);
        self.dead.push(point.dead);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_kept_by_the_minute_and_ten_minutes_by_the_look() {
        let mut history = History::default();
        for at in 0..(COARSE as u32 + 100) * 60 {
            history.add(b"q", Point { at, pushed: 1.0, late: (at % 60) as f32, ..Default::default() });
        }
        let fine = history.read(b"q", true, 0);
        assert_eq!((fine.at.len(), fine.pushed[0]), (FINE, 1.0));
        let coarse = history.read(b"q", false, 0);
        assert_eq!((coarse.at.len(), coarse.pushed[7], coarse.late[7]), (COARSE, 1.0, 59.0));
        let last = *fine.at.last().expect("there are points");
        assert_eq!(history.read(b"q", true, last - 5).at.len(), 5);
        assert!(history.read(b"other", true, 0).at.is_empty());
    }

    #[test]
    fn memory_is_bounded_by_the_queues_that_have_a_history() {
        let mut history = History::default();
        for number in 0..QUEUES + 50 {
            history.add(number.to_string().as_bytes(), Point { at: 10, ..Default::default() });
        }
        assert_eq!(history.0.len(), QUEUES);
        history.tidy(4000);
        assert!(history.0.is_empty());
    }
}

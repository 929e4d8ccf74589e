//! Dead letters grouped by what they died of.
//!
//! The letters are read page by page in the order of their deaths, a little at each question of a browser, and what was
//! read is kept: a second look reads only what died since.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::jobs::{brief, cursor_at, page, peek, Brief, Page};
use crate::pages::Pages;
use crate::reply::list;
use crate::trouble::Trouble;

/// Letters of one command; it holds the server for about 2 ms.
const STEP: i64 = 500;
/// Letters that are grouped; beyond them the page says that it has not seen all.
const MOST: usize = 200_000;
/// Groups; letters of other kinds than these are one group.
const GROUPS: usize = 300;
/// Ids of a group that a replay of the group can name.
const IDS: usize = 20_000;
/// Queues whose groups are kept, and how long they are after the last look.
const QUEUES: usize = 8;
const KEEP: Duration = Duration::from_secs(300);
/// Letters of the newest page.
const NEWEST: usize = 100;

/// Letters that died of the same.
#[derive(Clone, Serialize)]
pub struct Group {
    /// What names it in an action.
    pub key: String,
    pub reason: String,
    /// The error without what differs from letter to letter.
    pub shape: String,
    pub example: String,
    pub example_id: String,
    pub count: usize,
    pub first_at: i64,
    pub last_at: i64,
    #[serde(skip)]
    pub ids: Vec<String>,
}

/// What is known of the letters of one queue.
#[derive(Default)]
struct Scan {
    groups: HashMap<(String, String), Group>,
    /// Time and id of the last letter that was read.
    last: Option<(i64, String)>,
    seen: usize,
    at_end: bool,
    touched: Option<Instant>,
}

/// What a page shows of it.
#[derive(Serialize)]
pub struct Seen {
    pub groups: Vec<Group>,
    pub seen: usize,
    /// Whether every letter was read.
    pub all: bool,
    /// Whether there are more than are ever read.
    pub bounded: bool,
}

#[derive(Default)]
pub struct Dead(Mutex<HashMap<Vec<u8>, Arc<tokio::sync::Mutex<Scan>>>>);

impl Dead {
    /// Reads on for a little, and shows the groups; `dead` is how many letters the last look counted.
    pub async fn groups(&self, pages: &Pages, queue: &[u8], dead: usize) -> Result<Seen, Trouble> {
        let scan = self.scan(queue);
        let mut scan = scan.lock().await;
        if dead < scan.seen && scan.at_end {
            *scan = Scan::default();
        }
        let rested = scan.touched.is_none_or(|at| at.elapsed() > Duration::from_millis(900));
        if rested && scan.seen < MOST && (!scan.at_end || dead > scan.seen) {
            scan.read(pages, queue).await?;
            scan.touched = Some(Instant::now());
        }
        Ok(scan.show())
    }

    /// The ids of a group's letters, as far as they were read.
    pub async fn ids(&self, queue: &[u8], key: &str) -> Vec<String> {
        let scan = self.scan(queue);
        let scan = scan.lock().await;
        scan.groups.values().find(|group| group.key == key).map(|group| group.ids.clone()).unwrap_or_default()
    }

    /// Something was done to the letters: what is known of them is out of date.
    pub fn forget(&self, queue: &[u8]) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).remove(queue);
    }

    fn scan(&self, queue: &[u8]) -> Arc<tokio::sync::Mutex<Scan>> {
        let mut scans = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let is_old = |scan: &Arc<tokio::sync::Mutex<Scan>>| {
            scan.try_lock().is_ok_and(|scan| scan.touched.is_none_or(|at| at.elapsed() > KEEP))
        };
        if scans.len() > QUEUES {
            scans.retain(|name, scan| name == queue || !is_old(scan));
        }
        scans.entry(queue.to_vec()).or_default().clone()
    }
}

impl Scan {
    async fn read(&mut self, pages: &Pages, queue: &[u8]) -> Result<(), Trouble> {
        let after = match &self.last {
            Some((at, id)) => format!("{at}:{id}").into_bytes(),
            None => Vec::new(),
        };
        let reply = pages.ask(queue, peek(queue, "dead", STEP, &after)).await?;
        let letters = list(&reply).get(1).map(list).unwrap_or_default();
        letters.iter().map(brief).filter(|letter| !letter.id.is_empty()).for_each(|letter| self.add(letter));
        self.at_end = page(&reply).next == "0";
        Ok(())
    }

    fn add(&mut self, letter: Brief) {
        self.seen += 1;
        self.last = Some((letter.at, letter.id.clone()));
        let mut name = (letter.reason.clone(), shape(&letter.error));
        if !self.groups.contains_key(&name) && self.groups.len() >= GROUPS {
            name = (String::new(), "other errors".to_string());
        }
        let number = self.groups.len();
        let group = self.groups.entry(name.clone()).or_insert_with(|| Group {
            key: number.to_string(),
            reason: name.0,
            shape: name.1,
            example: letter.error.clone(),
            example_id: letter.id.clone(),
            count: 0,
            first_at: letter.at,
            last_at: letter.at,
            ids: Vec::new(),
        });
        group.count += 1;
        group.last_at = letter.at;
        (group.example, group.example_id) = (letter.error, letter.id.clone());
        if group.ids.len() < IDS {
            group.ids.push(letter.id);
        }
    }

    fn show(&self) -> Seen {
        let mut groups: Vec<Group> =
            self.groups.values().map(|group| Group { ids: Vec::new(), ..group.clone() }).collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then(b.last_at.cmp(&a.last_at)));
        Seen { groups, seen: self.seen, all: self.at_end, bounded: self.seen >= MOST }
    }
}

/// A short number behind one of these words says what happened, and not to whom.
const CODES: [&str; 5] = ["http", "status", "code", "errno", "exit"];

/// The error without numbers, ids and quoted words, so that errors of one kind are one group.
pub fn shape(error: &str) -> String {
    let mut out = String::new();
    let mut before = String::new();
    let mut letters = error.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_ascii_alphanumeric() {
            let mut word = String::from(letter);
            while let Some(next) = letters.next_if(|next| next.is_ascii_alphanumeric() || *next == '-' || *next == '_')
            {
                word.push(next);
            }
            let is_number = word.contains(|c: char| c.is_ascii_digit());
            let differs = is_number && !(word.len() <= 5 && CODES.contains(&before.as_str()));
            out.push_str(if differs { "#" } else { &word });
            before = word.to_ascii_lowercase();
        } else {
            out.push(letter);
        }
    }
    out
}

/// The letters that died last, the last one first. PEEK goes from the oldest on, so the time from which on there are
/// about as many as wanted is looked for: ever longer ago, and then in between.
pub async fn newest(pages: &Pages, queue: &[u8], now: i64) -> Result<Page, Trouble> {
    let (mut too_few, mut found) = (now + 60_000, Page::default());
    for minutes in [1, 10, 60, 360, 1440, 10_080, i64::MAX] {
        let from = if minutes == i64::MAX { 0 } else { now - minutes * 60_000 };
        found = since(pages, queue, from).await?;
        if found.next != "0" {
            return narrow(pages, queue, (from, too_few), found).await;
        }
        if !found.jobs.is_empty() && found.jobs.len() >= NEWEST / 4 {
            break;
        }
        too_few = from;
    }
    found.jobs.reverse();
    Ok(found)
}

/// Halves the time between one from which on there are too many letters and one with few.
async fn narrow(pages: &Pages, queue: &[u8], (mut many, mut few): (i64, i64), page: Page) -> Result<Page, Trouble> {
    let (mut best, mut has_end) = (page, false);
    for _ in 0..24 {
        if few - many <= 1 {
            break;
        }
        let middle = many + (few - many) / 2;
        let found = since(pages, queue, middle).await?;
        if found.next != "0" {
            many = middle;
        } else {
            few = middle;
            let is_enough = found.jobs.len() >= NEWEST / 4;
            (best, has_end) = (found, true);
            if is_enough {
                break;
            }
        }
    }
    // Very many that died in one ms: some of them stand for all.
    if !has_end || best.jobs.is_empty() {
        best = since(pages, queue, many).await?;
    }
    best.jobs.reverse();
    Ok(best)
}

async fn since(pages: &Pages, queue: &[u8], ms: i64) -> Result<Page, Trouble> {
    let reply = pages.ask(queue, peek(queue, "dead", NEWEST as i64, &cursor_at(ms))).await?;
    Ok(page(&reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_kind_have_one_shape() {
        let one = shape("user 4711 not found at 0x7f3a: timeout after 30s (8yShmAPrsrg)");
        assert_eq!(one, shape("user 12 not found at 0x11ff: timeout after 5s (8yShmAPr1rh)"));
        assert_eq!(one, "user # not found at #: timeout after # (#)");
        assert_eq!(shape("HTTP 502 from host7, exit code 3"), "HTTP 502 from #, exit code 3");
        assert_ne!(shape("no such address"), shape("mail server is busy"));
    }

    #[test]
    fn groups_count_and_are_bounded() {
        let mut scan = Scan::default();
        for number in 0..1000 {
            let kind: String = std::iter::repeat_n('x', number % 400).collect();
            scan.add(Brief { id: number.to_string(), at: number as i64, error: kind, ..Brief::default() });
        }
        let seen = scan.show();
        assert_eq!((seen.seen, seen.groups.len()), (1000, GROUPS + 1));
        assert_eq!(seen.groups.iter().map(|group| group.count).sum::<usize>(), 1000);
    }
}

//! Dead letters grouped by their error.
//!
//! The letters are read page by page, a little at a time, and what was read is kept. Those that died lately are read
//! first: they say what is wrong now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::Value;
use serde::{Deserialize, Serialize};

use crate::jobs::{brief, cursor_at, page, peek, Brief, Page};
use crate::pages::Pages;
use crate::reply::{list, text};
use crate::sample::now_ms;
use crate::shapes::{mask, Masked, Shapes};
use crate::trouble::{Kind, Trouble};

/// Letters of one command; it holds the server for about 2 ms.
const STEP: i64 = 500;
/// Letters that are grouped; beyond them the page says that it has not read all.
const MOST: usize = 200_000;
/// Groups of one queue; letters of further kinds are one group.
const GROUPS: usize = 300;
/// Queues whose groups are kept, and how long they are after they were last read or shown.
const QUEUES: usize = 200;
const KEEP: Duration = Duration::from_secs(300);
/// A scan begins with the letters that died so long ago, goes on to the newest, and reads the older ones after that.
const FRESH_MS: i64 = 10 * 60_000;
/// Between two reads of one queue for the browsers that show it.
const REST: Duration = Duration::from_millis(900);
/// Letters of the newest page.
const NEWEST: usize = 100;

/// Letters that died of the same.
#[derive(Clone, Serialize)]
pub struct Group {
    /// Empty for the letters that are of more kinds than are told apart.
    pub reason: String,
    /// The error without what differs from letter to letter.
    pub shape: String,
    pub example: String,
    pub example_id: String,
    pub count: usize,
    pub first_at: i64,
    pub last_at: i64,
    #[serde(skip)]
    masked: Masked,
}

/// A group as a browser was shown it: what an action on the group names. Which letters these are is read again before
/// anything is done to them.
#[derive(Deserialize, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    pub reason: String,
    pub shape: String,
    pub count: usize,
    pub first_at: i64,
    pub last_at: i64,
}

/// What is known of the letters of one queue.
struct Scan {
    groups: HashMap<(String, String), Group>,
    shapes: Shapes,
    /// Letters that died before this time, in ms, are read last.
    boundary: i64,
    /// Where the next page of the lately died, and of the others, begins.
    fresh: Vec<u8>,
    old: Vec<u8>,
    fresh_is_read: bool,
    old_is_read: bool,
    seen: usize,
    /// Pages that were read.
    pages: u64,
    touched: Instant,
    read_at: Option<Instant>,
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

type Slot = Arc<tokio::sync::Mutex<Scan>>;

#[derive(Default)]
pub struct Dead(Mutex<HashMap<Vec<u8>, Slot>>);

impl Dead {
    /// Reads a page more and shows the groups. `dead` is how many letters the last look counted.
    pub async fn groups(&self, pages: &Pages, queue: &[u8], dead: usize) -> Result<Seen, Trouble> {
        let slot = self.slot(queue);
        let mut scan = slot.lock().await;
        let rested = scan.read_at.is_none_or(|at| at.elapsed() > REST);
        if rested && scan.wants(dead) {
            let reply = pages.ask(queue, scan.next(queue)).await?;
            scan.take(&reply);
        }
        Ok(scan.show())
    }

    /// The command that reads a page more of a queue's letters, if there is more to read, and the number of the page.
    pub async fn next(&self, queue: &[u8], dead: usize) -> Option<(redis::Cmd, u64)> {
        let slot = self.slot(queue);
        let mut scan = slot.lock().await;
        scan.wants(dead).then(|| (scan.next(queue), scan.pages))
    }

    /// Takes the page of this number, unless somebody else read it meanwhile, and shows the groups.
    pub async fn take(&self, queue: &[u8], number: u64, reply: &Value) -> Seen {
        let slot = self.slot(queue);
        let mut scan = slot.lock().await;
        if scan.pages == number {
            scan.take(reply);
        }
        scan.show()
    }

    /// The groups as far as the letters were read.
    pub async fn show(&self, queue: &[u8]) -> Seen {
        self.slot(queue).lock().await.show()
    }

    /// Something was done to the letters: what is known of them is out of date.
    pub fn forget(&self, queue: &[u8]) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).remove(queue);
    }

    fn slot(&self, queue: &[u8]) -> Slot {
        let mut scans = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if scans.len() > QUEUES {
            let is_old = |scan: &Slot| scan.try_lock().is_ok_and(|scan| scan.touched.elapsed() > KEEP);
            scans.retain(|name, scan| name == queue || !is_old(scan));
        }
        let begin = || Arc::new(tokio::sync::Mutex::new(Scan::new(now_ms() as i64 - FRESH_MS)));
        scans.entry(queue.to_vec()).or_insert_with(begin).clone()
    }
}

impl Scan {
    fn new(boundary: i64) -> Scan {
        Scan {
            groups: HashMap::new(),
            shapes: Shapes::default(),
            boundary,
            fresh: cursor_at(boundary),
            old: Vec::new(),
            fresh_is_read: false,
            old_is_read: false,
            seen: 0,
            pages: 0,
            touched: Instant::now(),
            read_at: None,
        }
    }

    /// Whether there is more to read of so many letters. Begins anew if many of those that were read are gone.
    fn wants(&mut self, dead: usize) -> bool {
        let gone = self.seen.saturating_sub(dead);
        // Where the oldest letters make room for new ones, some are always gone.
        if self.is_all() && gone > 0 && (dead < 1000 || gone > dead / 10) {
            *self = Scan { pages: self.pages + 1, ..Scan::new(now_ms() as i64 - FRESH_MS) };
        }
        self.touched = Instant::now();
        self.seen < MOST && (!self.is_all() || dead != self.seen)
    }

    fn is_all(&self) -> bool {
        self.fresh_is_read && self.old_is_read
    }

    fn next(&self, queue: &[u8]) -> redis::Cmd {
        let after = if self.fresh_is_read && !self.old_is_read { &self.old } else { &self.fresh };
        peek(queue, "dead", STEP, after)
    }

    fn take(&mut self, reply: &Value) {
        let is_old = self.fresh_is_read && !self.old_is_read;
        let next = list(reply).first().map(text).unwrap_or_default();
        let letters: Vec<Brief> = letters(reply).collect();
        let is_end = next == "0";
        let last = letters.last().map(|letter| format!("{}:{}", letter.at, letter.id).into_bytes());
        if is_old {
            let is_over = is_end || letters.last().is_some_and(|letter| letter.at >= self.boundary);
            self.old = last.unwrap_or_default();
            self.old_is_read = is_over;
            let boundary = self.boundary;
            letters.into_iter().filter(|letter| letter.at < boundary).for_each(|letter| self.add(letter));
        } else {
            self.fresh = last.unwrap_or_else(|| self.fresh.clone());
            self.fresh_is_read = is_end;
            letters.into_iter().for_each(|letter| self.add(letter));
        }
        self.pages += 1;
        self.read_at = Some(Instant::now());
    }

    fn add(&mut self, letter: Brief) {
        self.seen += 1;
        let masked = mask(&letter.error_head);
        if self.shapes.learn(&masked) {
            self.regroup(&masked);
        }
        let mut group = Group {
            reason: letter.reason,
            shape: self.shapes.shape(&masked),
            example: letter.error,
            example_id: letter.id,
            count: 1,
            first_at: letter.at,
            last_at: letter.at,
            masked,
        };
        let is_known = self.groups.contains_key(&(group.reason.clone(), group.shape.clone()));
        if !is_known && self.groups.len() >= GROUPS {
            (group.reason, group.shape) = (String::new(), "other errors".to_string());
        }
        self.put(group);
    }

    /// Groups that differed in a value that is masked from now on become one.
    fn regroup(&mut self, like: &Masked) {
        let (changed, rest) = self
            .groups
            .drain()
            .map(|(_, group)| group)
            .partition::<Vec<_>, _>(|group| group.masked.is_like(like) && !group.reason.is_empty());
        rest.into_iter().for_each(|group| self.put(group));
        for group in changed {
            self.put(Group { shape: self.shapes.shape(&group.masked), ..group });
        }
    }

    /// Adds a group to the one of the same name, if there is one.
    fn put(&mut self, group: Group) {
        match self.groups.entry((group.reason.clone(), group.shape.clone())) {
            std::collections::hash_map::Entry::Vacant(place) => drop(place.insert(group)),
            std::collections::hash_map::Entry::Occupied(mut place) => {
                let all = place.get_mut();
                all.count += group.count;
                all.first_at = all.first_at.min(group.first_at);
                if group.last_at >= all.last_at {
                    (all.last_at, all.example, all.example_id) = (group.last_at, group.example, group.example_id);
                }
            }
        }
    }

    fn show(&self) -> Seen {
        let mut groups: Vec<Group> = self.groups.values().cloned().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then(b.last_at.cmp(&a.last_at)).then(a.shape.cmp(&b.shape)));
        Seen { groups, seen: self.seen, all: self.is_all(), bounded: self.seen >= MOST }
    }
}

fn letters(reply: &Value) -> impl Iterator<Item = Brief> + '_ {
    let letters = list(reply).get(1).map(list).unwrap_or_default();
    letters.iter().map(brief).filter(|letter| !letter.id.is_empty())
}

/// The ids of the letters that a browser was shown as a group, read anew from the server. An error if they are not as
/// many as were shown: somebody acted on them meanwhile, and what was shown is not what would be done.
pub async fn ids(pages: &Pages, queue: &[u8], shown: &Shown) -> Result<Vec<String>, Trouble> {
    let (mut after, mut ids, mut read) = (cursor_at(shown.first_at), Vec::new(), 0);
    loop {
        let reply = pages.link.ask(queue, peek(queue, "dead", STEP, &after)).await?;
        let mut last = None;
        for letter in letters(&reply) {
            let is_shown = letter.at <= shown.last_at && letter.reason == shown.reason;
            if is_shown && mask(&letter.error_head).has_shape(&shown.shape) {
                ids.push(letter.id.clone());
            }
            read += 1;
            last = Some((letter.at, letter.id));
        }
        let Some((at, id)) = last.filter(|(at, _)| *at <= shown.last_at && read < MOST) else { break };
        if list(&reply).first().map(text).is_none_or(|next| next == "0") {
            break;
        }
        after = format!("{at}:{id}").into_bytes();
    }
    if ids.len() == shown.count {
        return Ok(ids);
    }
    let what =
        format!("The group has changed: it was shown with {} dead letters and has {} now", shown.count, ids.len());
    Err(Trouble::new(Kind::Changed, what, &["Nothing was done. Look at it again, and then decide."]))
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

    fn letter(number: i64, error: String) -> Brief {
        Brief {
            id: number.to_string(),
            at: number,
            reason: "failed".into(),
            error_head: error.clone(),
            error,
            ..Brief::default()
        }
    }

    #[test]
    fn more_kinds_than_are_told_apart_are_one_group() {
        let mut scan = Scan::new(0);
        for number in 0..1000 {
            let word: String = format!("{number:03}").bytes().map(|digit| (digit - b'0' + b'a') as char).collect();
            scan.add(letter(number, word));
        }
        let seen = scan.show();
        assert_eq!((seen.groups.len(), seen.groups[0].reason.as_str(), seen.groups[0].count), (GROUPS + 1, "", 700));
    }

    #[test]
    fn groups_become_one_once_a_number_says_nothing() {
        let mut scan = Scan::new(0);
        for number in 0..20 {
            scan.add(letter(number, format!("order {}", 1000 + number)));
        }
        assert_eq!(scan.show().groups.len(), 20);
        scan.add(letter(20, "order 1020".to_string()));
        let groups = scan.show().groups;
        assert_eq!((groups.len(), groups[0].shape.as_str(), groups[0].count), (1, "order #", 21));
        assert_eq!((groups[0].first_at, groups[0].last_at, groups[0].example.as_str()), (0, 20, "order 1020"));
    }
}

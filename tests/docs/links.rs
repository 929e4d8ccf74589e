//! Whether a reader finds the way: links and anchors lead somewhere, each page can be found and says what it is for.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::files;

/// A link of a document to another place of the checkout.
struct Link {
    line: usize,
    /// From the root of the checkout.
    path: String,
    anchor: Option<String>,
}

/// The lines of a document that are no code, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((number, line));
        }
    }
    lines
}

/// Without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn links(page: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, text) in prose(&files::text(page)) {
        for part in without_code(text).split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor.to_string())),
                None => (target, None),
            };
            let path = if path.is_empty() { page.to_string() } else { resolved(page, path) };
            links.push(Link { line, path, anchor });
        }
    }
    links
}

/// A path as a page writes it, from the root of the checkout.
fn resolved(page: &str, path: &str) -> String {
    let mut whole = PathBuf::new();
    for part in Path::new(page).parent().expect("a file is in a folder").join(path).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            part => whole.push(part),
        }
    }
    whole.to_string_lossy().into_owned()
}

/// The anchors that GitHub gives the headings of a document.
fn anchors(page: &str) -> BTreeSet<String> {
    let text = files::text(page);
    let headings = prose(&text).into_iter().filter(|(_, line)| line.starts_with('#'));
    let mut anchors = BTreeSet::new();
    for (_, heading) in headings {
        let slug = slug(heading.trim_start_matches('#').trim());
        let again = (1..).map(|n| format!("{slug}-{n}")).find(|name| !anchors.contains(name));
        let is_new = anchors.insert(slug);
        anchors.extend(again.filter(|_| !is_new));
    }
    anchors
}

fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    heading.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// All documents that link to others.
fn documents() -> Vec<String> {
    files::pages().into_iter().chain(["CHANGELOG.md".to_string()]).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in documents() {
        for link in links(&page) {
            let there = files::root().join(&link.path);
            let has_anchor = |anchor: &String| !link.path.ends_with(".md") || anchors(&link.path).contains(anchor);
            if !there.exists() || !link.anchor.as_ref().is_none_or(has_anchor) {
                broken.push(format!("{page}:{}: {}#{}", link.line, link.path, link.anchor.unwrap_or_default()));
            }
        }
    }
    assert!(broken.is_empty(), "these lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_page_can_be_found_from_the_readme() {
    let mut found = BTreeSet::from(["README.md".to_string()]);
    let mut new: Vec<String> = found.iter().cloned().collect();
    while let Some(page) = new.pop() {
        for Link { path, .. } in links(&page) {
            if path.ends_with(".md") && files::root().join(&path).exists() && found.insert(path.clone()) {
                new.push(path);
            }
        }
    }
    let lost: Vec<String> = files::pages().into_iter().filter(|page| !found.contains(page)).collect();
    assert!(lost.is_empty(), "no way leads from the README to these: {lost:?}");
}

/// A heading, and below it what the page is for, before anything else.
#[test]
fn every_page_begins_with_what_it_is_for() {
    for page in files::pages() {
        let text = files::text(&page);
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let heading = lines.next().unwrap_or_default();
        assert!(heading.starts_with("# "), "{page} begins with {heading:?}");
        let first = lines.find(|line| !line.starts_with('[')).unwrap_or_default();
        let is_prose = first.starts_with(|c: char| c.is_alphanumeric() || c == '*' || c == '`');
        assert!(is_prose && first.chars().count() >= 20, "{page} does not say at its top what it is for: {first:?}");
    }
}

#[test]
fn slugs_are_those_of_github() {
    assert_eq!(slug("What you can rely on, and how far"), "what-you-can-rely-on-and-how-far");
    assert_eq!(slug("DQ.PAUSE, DQ.RESUME"), "dqpause-dqresume");
    assert_eq!(slug("`make bench`: 10 µs"), "make-bench-10-µs");
    assert_eq!(slug("第一个任务"), "第一个任务");
}

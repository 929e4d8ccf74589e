//! The tables of the pages against a running server: settings with their ranges, the fields of INFO and of DQ.STATS.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{list, queue::pairs, text, Server};
use crate::files;

/// The cells of each row of the page's tables.
fn rows(page: &str) -> Vec<Vec<String>> {
    let text = files::text(page);
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix('|'));
    rows.map(|row| row.split('|').map(|cell| cell.trim().to_string()).collect()).collect()
}

/// What stands between backticks in the first cells.
fn first_names(page: &str) -> BTreeSet<String> {
    let cells = rows(page).into_iter().map(|row| row[0].clone());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(String::from).collect::<Vec<_>>()).collect()
}

/// A size as the server shows it.
fn in_bytes(text: &str) -> String {
    let number = |digits: &str, unit: u64| digits.parse::<u64>().ok().map(|n| (n * unit).to_string());
    let kb = text.strip_suffix("kb").and_then(|digits| number(digits, 1024));
    let mb = text.strip_suffix("mb").and_then(|digits| number(digits, 1024 * 1024));
    kb.or(mb).unwrap_or_else(|| text.to_string())
}

/// What the server says of a value that cannot be: it names the range.
fn refusal(server: &Server, name: &str) -> String {
    server.try_run(&["CONFIG", "SET", name, "no value"]).expect_err("it is none").to_string()
}

#[test]
fn the_settings_have_the_defaults_and_ranges_that_the_page_says() {
    let server = Server::with_grace().start();
    let there: BTreeMap<String, String> = pairs(&server.run(&["CONFIG", "GET", "dq.*"]))
        .into_iter()
        .map(|(name, value)| (name.replacen("dq.", "", 1), text(&value)))
        .collect();
    let shown: Vec<Vec<String>> = rows("docs/settings.md").into_iter().filter(|row| row[0].starts_with('`')).collect();
    let names: BTreeSet<String> = shown.iter().map(|row| row[0].trim_matches('`').to_string()).collect();
    assert_eq!(names, there.keys().cloned().collect());
    for row in shown {
        let name = row[0].trim_matches('`');
        assert_eq!(there[name], in_bytes(&row[1]), "the default of {name}");
        let refusal = refusal(&server, &format!("dq.{name}"));
        let range = match row[2].split_once(" to ") {
            Some((least, most)) => format!("from {} to {}", in_bytes(least), in_bytes(most)),
            None => format!("one of: {}", row[2]),
        };
        assert!(refusal.contains(&range), "{name}, {range}: {refusal}");
    }
}

#[test]
fn a_queue_has_the_settings_that_the_page_says() {
    let server = Server::start();
    let told = list(&server.run(&["DQ.CONFIG", "mail", "GET"]));
    let told: BTreeSet<String> = told.iter().map(|row| text(&list(row)[0])).collect();
    let shown: BTreeSet<String> = first_names("docs/commands/config.md");
    let shown: BTreeSet<String> = shown.into_iter().filter(|name| name.chars().all(|c| !c.is_uppercase())).collect();
    assert_eq!(shown, told);
    let rows = rows("docs/settings.md").into_iter().filter(|row| row[0].starts_with('`'));
    let of_queues = rows.filter(|row| !row[3].ends_with("*server only*"));
    let mut of_queues: BTreeSet<String> = of_queues.map(|row| row[0].trim_matches('`').to_string()).collect();
    // The one that the server has not.
    of_queues.insert("max-leased".to_string());
    assert_eq!(of_queues, told);
}

#[test]
fn info_has_the_fields_that_the_page_says() {
    let server = Server::start();
    let told = text(&server.run(&["INFO", "dq"]));
    let told: BTreeSet<String> =
        told.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_string()).collect();
    let shown: BTreeSet<String> =
        first_names("docs/figures.md").into_iter().filter(|name| name.starts_with("dq_")).collect();
    assert_eq!(shown, told);
}

#[test]
fn stats_has_the_fields_that_the_page_says() {
    let server = Server::start();
    let told = pairs(&server.run(&["DQ.STATS", "mail"]));
    let told: BTreeSet<String> = told.into_iter().map(|(name, _)| name).collect();
    assert_eq!(first_names("docs/commands/stats.md"), told);
}

//! The pages of the commands, docs/commands/. Their one source is the comment at the head of each file of src/commands/,
//! with what the server tells of the command. `make docs` writes them; the test fails where they are other than that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use redis::Value;

use crate::common::{list, queue::pairs, text, Server};
use crate::files;

/// The commands by those whom they are for, in the order in which one meets them.
const GROUPS: [(&str, &[&str]); 3] = [
    ("For producers", &["push", "mpush"]),
    ("For workers", &["claim", "mclaim", "ack", "extend", "retry", "fail", "release"]),
    (
        "For operators",
        &[
            "stats",
            "queues",
            "get",
            "peek",
            "config",
            "pause",
            "resume",
            "cancel",
            "reschedule",
            "replay",
            "purge",
            "drop",
            "check",
            "repair",
        ],
    ),
];

/// What the pages are when they are written now.
const WRITE: &str = "DQ_WRITE_DOCS";

/// What the server tells of a command.
struct Facts {
    summary: String,
    since: String,
    complexity: String,
    categories: Vec<String>,
    tokens: BTreeSet<String>,
}

impl Facts {
    fn of(server: &Server, name: &str) -> Facts {
        let name = format!("dq.{name}");
        let docs = pairs(&server.run(&["COMMAND", "DOCS", &name]));
        let docs: BTreeMap<String, Value> = pairs(&docs[0].1).into_iter().collect();
        let info = list(&list(&server.run(&["COMMAND", "INFO", &name]))[0]);
        let flags: BTreeSet<String> = list(&info[2]).iter().map(text).collect();
        let categories = categories(&flags);
        let told: BTreeSet<String> = list(&info[6]).iter().map(text).collect();
        // Redis 7.0 has the commands of a module in none.
        if !told.is_empty() {
            assert_eq!(told, categories.iter().cloned().collect(), "{name}");
        }
        let mut tokens = BTreeSet::new();
        gather_tokens(&docs["arguments"], &mut tokens);
        let field = |name: &str| text(&docs[name]);
        Facts { summary: field("summary"), since: field("since"), complexity: field("complexity"), categories, tokens }
    }
}

/// The categories in which the module puts a command with these flags.
fn categories(flags: &BTreeSet<String>) -> Vec<String> {
    let access = if flags.contains("readonly") { "@read" } else { "@write" };
    let speed = if flags.contains("fast") { "@fast" } else { "@slow" };
    let blocking = flags.contains("blocking").then_some("@blocking");
    [access, speed].into_iter().chain(blocking).map(String::from).collect()
}

fn gather_tokens(arguments: &Value, tokens: &mut BTreeSet<String>) {
    for argument in list(arguments) {
        let fields: BTreeMap<String, Value> = pairs(&argument).into_iter().collect();
        tokens.extend(fields.get("token").map(text));
        if let Some(inner) = fields.get("arguments") {
            gather_tokens(inner, tokens);
        }
    }
}

/// The manual at the head of a source, whose syntax is its first block, without that block.
struct Manual {
    syntax: String,
    text: String,
}

impl Manual {
    fn of(name: &str) -> Manual {
        let text = comment(name);
        let (syntax, text) = text
            .strip_prefix("```text\n")
            .and_then(|rest| rest.split_once("```\n\n"))
            .unwrap_or_else(|| panic!("src/commands/{name}.rs does not begin with its syntax"));
        Manual { syntax: syntax.to_string(), text: one_level_down(text) }
    }
}

/// The `//!` lines of a source.
fn comment(name: &str) -> String {
    let source = files::text(&format!("src/commands/{name}.rs"));
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

/// Below the title of a page, the headings of a comment are the second level.
fn one_level_down(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        is_code ^= line.starts_with("```");
        let is_heading = !is_code && line.starts_with('#');
        format!("{}{line}\n", if is_heading { "#" } else { "" })
    });
    lines.collect()
}

fn page(name: &str, facts: &Facts, manual: &Manual) -> String {
    let title = name.to_uppercase();
    let Facts { summary, since, complexity, categories, .. } = facts;
    let categories: Vec<String> = categories.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "# DQ.{title}\n\n{summary}\n\n```text\n{}```\n\n\
         | | |\n| --- | --- |\n| available since | {since} |\n| time complexity | {complexity} |\n\
         | ACL categories | {} |\n\n{}\n\
         <!-- `make docs` writes this page. Its text stands in src/commands/{name}.rs: change it there. -->\n",
        manual.syntax,
        categories.join(", "),
        manual.text,
    )
}

/// The page of all commands, and of what they have in common.
fn index(all: &BTreeMap<&str, Facts>) -> String {
    let comment = comment("mod");
    let (_, common) = comment.split_once("\n\n").expect("the first paragraph is of the sources");
    let mut table = String::new();
    for (title, names) in GROUPS {
        table += &format!("| **{title}** | |\n");
        for name in names {
            table += &format!("| [DQ.{}]({name}.md) | {} |\n", name.to_uppercase(), all[name].summary);
        }
    }
    format!(
        "# Commands\n\nAll {} commands, a page each, and what they have in common.\n\n\
         | | |\n| --- | --- |\n{table}\n{}\n\
         <!-- `make docs` writes this page. Its text stands in src/commands/mod.rs: change it there. -->\n",
        all.len(),
        one_level_down(common),
    )
}

/// Writes the page, or compares it with the one that is there.
fn settle(file: &str, text: &str) -> Result<(), String> {
    let path = files::root().join("docs/commands").join(file);
    if std::env::var_os(WRITE).is_some() {
        return fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()));
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    (there == text).then_some(()).ok_or_else(|| format!("docs/commands/{file} is not what its source says"))
}

#[test]
fn the_pages_are_what_the_sources_and_the_server_say() {
    let server = Server::start();
    let names: BTreeSet<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    let told = list(&server.run(&["COMMAND", "LIST", "FILTERBY", "MODULE", "dq"]));
    let told: BTreeSet<String> = told.iter().map(|name| text(name).replacen("dq.", "", 1)).collect();
    assert_eq!(told, names.iter().map(|name| name.to_string()).collect(), "GROUPS has every command once");
    let all: BTreeMap<&str, Facts> = names.iter().map(|name| (*name, Facts::of(&server, name))).collect();
    let mut wrong: Vec<String> = settle("README.md", &index(&all)).err().into_iter().collect();
    for (name, facts) in &all {
        let manual = Manual::of(name);
        let syntax = manual.syntax.to_lowercase();
        let missing = facts.tokens.iter().find(|token| !syntax.contains(&token.to_lowercase()));
        assert_eq!(missing, None, "the syntax of {name} is not all that COMMAND DOCS tells");
        wrong.extend(settle(&format!("{name}.md"), &page(name, facts, &manual)).err());
    }
    assert!(wrong.is_empty(), "run `make docs`:\n{}", wrong.join("\n"));
}

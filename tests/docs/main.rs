//! The documents as a reader meets them: every code block is run, every link leads somewhere, every page can be found.
//!
//! How a block is written and run stands in [`page`]. A page is a test, so that what fails is named by its page and line.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../examples/toolchain.rs"]
mod toolchain;

mod blocks;
mod commands;
mod compile;
mod console;
mod files;
mod javascript;
mod links;
mod page;
mod python;
mod same;
mod tables;
mod translation;

/// A test for each page; `each_page_is_run` says which are missing here.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path),*];

        $(#[test]
        fn $name() {
            page::run($path);
        })*
    };
}

pages! {
    readme: "README.md",
    readme_in_chinese: "README.zh-CN.md",
    architecture: "ARCHITECTURE.md",
    contributing: "CONTRIBUTING.md",
    docs: "docs/README.md",
    benchmarks: "docs/benchmarks.md",
    commands: "docs/commands/README.md",
    command_ack: "docs/commands/ack.md",
    command_cancel: "docs/commands/cancel.md",
    command_check: "docs/commands/check.md",
    command_claim: "docs/commands/claim.md",
    command_config: "docs/commands/config.md",
    command_drop: "docs/commands/drop.md",
    command_extend: "docs/commands/extend.md",
    command_fail: "docs/commands/fail.md",
    command_get: "docs/commands/get.md",
    command_mclaim: "docs/commands/mclaim.md",
    command_mpush: "docs/commands/mpush.md",
    command_pause: "docs/commands/pause.md",
    command_peek: "docs/commands/peek.md",
    command_purge: "docs/commands/purge.md",
    command_push: "docs/commands/push.md",
    command_queues: "docs/commands/queues.md",
    command_release: "docs/commands/release.md",
    command_repair: "docs/commands/repair.md",
    command_replay: "docs/commands/replay.md",
    command_reschedule: "docs/commands/reschedule.md",
    command_resume: "docs/commands/resume.md",
    command_retry: "docs/commands/retry.md",
    command_stats: "docs/commands/stats.md",
    concepts: "docs/concepts.md",
    figures: "docs/figures.md",
    keys: "docs/keys.md",
    guarantees: "docs/guarantees.md",
    installing: "docs/installing.md",
    migration: "docs/migration/README.md",
    migration_asynq: "docs/migration/asynq.md",
    migration_bullmq: "docs/migration/bullmq.md",
    migration_zset: "docs/migration/zset.md",
    monitoring: "docs/monitoring.md",
    operations: "docs/operations.md",
    recipes: "docs/recipes.md",
    testing: "docs/testing.md",
    troubleshooting: "docs/troubleshooting.md",
    servers: "docs/servers.md",
    settings: "docs/settings.md",
    users: "docs/users.md",
    workers: "docs/workers.md",
    dashboard: "dashboard/README.md",
    examples: "examples/README.md",
    examples_go: "examples/go/README.md",
    examples_java: "examples/java/README.md",
    examples_node: "examples/node/README.md",
    examples_python: "examples/python/README.md",
    examples_rust: "examples/rust/README.md",
}

/// A test for each page with Python in it.
macro_rules! python_pages {
    ($($name:ident: $path:literal,)*) => {
        const PYTHON_PAGES: &[&str] = &[$($path),*];

        mod newest_redis_py {
            $(#[test]
            fn $name() {
                crate::page::run_with_newest_redis_py($path);
            })*
        }
    };
}

python_pages! {
    readme: "README.md",
    readme_in_chinese: "README.zh-CN.md",
    figures: "docs/figures.md",
    keys: "docs/keys.md",
    migration_zset: "docs/migration/zset.md",
    recipes: "docs/recipes.md",
    testing: "docs/testing.md",
    troubleshooting: "docs/troubleshooting.md",
    workers: "docs/workers.md",
}

#[test]
fn each_page_with_python_is_run_with_the_newest_redis_py() {
    let has_python = |page: &&String| blocks::of(&files::text(page)).iter().any(|block| block.kind == "python");
    let there = files::pages();
    let found: Vec<&String> = there.iter().filter(has_python).collect();
    assert_eq!(found, PYTHON_PAGES, "put them into python_pages! of tests/docs/main.rs");
}

#[test]
fn each_page_is_run() {
    let there = files::pages();
    let missing: Vec<&String> = there.iter().filter(|page| !PAGES.contains(&page.as_str())).collect();
    assert!(missing.is_empty(), "no test runs these: add them to pages! in tests/docs/main.rs: {missing:?}");
    let gone: Vec<&&str> = PAGES.iter().filter(|page| !there.iter().any(|path| path == **page)).collect();
    assert!(gone.is_empty(), "these are in pages! of tests/docs/main.rs, and not there: {gone:?}");
}

/// Writes where `cargo test` shows it, whether the test fails or not: only the print macros are captured.
fn tell(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text.as_bytes());
}

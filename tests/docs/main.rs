//! The documents as a reader meets them: every code block is run, every link leads somewhere, every page can be found.
//!
//! How a block is written and run stands in [`page`]. A page is a test, so that what fails is named by its page and line.

#[allow(dead_code, unused_imports)]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../examples/toolchain.rs"]
mod toolchain;

mod blocks;
mod compile;
mod console;
mod files;
mod links;
mod page;
mod python;
mod same;

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
    benchmarks: "docs/benchmarks.md",
    guarantees: "docs/guarantees.md",
    installing: "docs/installing.md",
    examples: "examples/README.md",
    examples_go: "examples/go/README.md",
    examples_java: "examples/java/README.md",
    examples_node: "examples/node/README.md",
    examples_python: "examples/python/README.md",
    examples_rust: "examples/rust/README.md",
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

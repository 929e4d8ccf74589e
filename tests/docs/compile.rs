//! Blocks that are not run but must be right: programs that compile, files that parse.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use crate::blocks::Block;
use crate::page::{block_name, scratch};
use crate::tell;
use crate::toolchain::{self, run};

/// One build of a language at a time: they share folders.
static BUILDING: Mutex<()> = Mutex::new(());

/// Says what is wrong with the block, by the language's own tools. Where the machine has none, it says that.
pub fn check(kind: &str, page: &str, block: &Block) -> Result<(), String> {
    let check = match kind {
        "go" => go,
        "rust" => rust,
        "java" => java,
        "json" => json,
        "yaml" => yaml,
        "promql" => promql,
        other => return Err(format!("no kind of block is named '{other}'")),
    };
    let _only_one = BUILDING.lock().unwrap_or_else(|e| e.into_inner());
    match check(page, block) {
        Err(Trouble::Missing(why)) if toolchain::is_demanded(kind) => Err(why),
        Err(Trouble::Missing(why)) => {
            tell(&format!("docs: SKIPPED {page}:{}: {why}\n", block.line));
            Ok(())
        }
        Err(Trouble::Wrong(why)) => Err(why),
        Ok(()) => Ok(()),
    }
}

enum Trouble {
    /// The machine cannot tell.
    Missing(String),
    Wrong(String),
}

type Checked = Result<(), Trouble>;

fn write(path: &Path, text: &str) -> Checked {
    fs::create_dir_all(path.parent().expect("it is in a folder")).map_err(|e| Trouble::Missing(e.to_string()))?;
    fs::write(path, text).map_err(|e| Trouble::Missing(format!("{}: {e}", path.display())))
}

/// A whole file, or statements, for which the names that the page uses are declared.
fn go(page: &str, block: &Block) -> Checked {
    let go = toolchain::go().map_err(Trouble::Missing)?;
    let name = block_name(page, block);
    let text = if block.text.contains("package ") { block.text.clone() } else { go_file(&block.text) };
    let folder = go.own().join("src/docs");
    // Outside of a module, a GOPATH does not know of /v9.
    write(&folder.join("go.mod"), "module docs\n")?;
    write(&folder.join(&name).join("page.go"), &text)?;
    run(go.command().arg("vet").arg(format!("docs/{name}"))).map_err(Trouble::Wrong)
}

fn go_file(statements: &str) -> String {
    const PACKAGES: [(&str, &str); 8] = [
        ("context.", "context"),
        ("errors.", "errors"),
        ("fmt.", "fmt"),
        ("log.", "log"),
        ("strconv.", "strconv"),
        ("strings.", "strings"),
        ("time.", "time"),
        ("redis.", "github.com/redis/go-redis/v9"),
    ];
    let text = format!(
        "var ctx context.Context\nvar db *redis.Client\n\nfunc page() error {{\n{statements}\nreturn nil\n}}\n"
    );
    let used = PACKAGES.iter().filter(|(name, _)| text.contains(name));
    let imports: String = used.map(|(_, package)| format!("import {package:?}\n")).collect();
    format!("package page\n\n{imports}\n{text}")
}

/// A whole program, or statements of an async function, with the libraries of examples/rust.
fn rust(page: &str, block: &Block) -> Checked {
    let folder = scratch("rust").map_err(Trouble::Missing)?;
    toolchain::copy(&toolchain::source("rust"), &folder).map_err(Trouble::Missing)?;
    let name = block_name(page, block);
    let text = if block.text.contains("fn main()") { block.text.clone() } else { rust_file(&block.text) };
    let file = folder.join(format!("src/bin/{name}.rs"));
    write(&file, &text)?;
    let mut cargo = toolchain::cargo();
    cargo.args(["build", "--locked", "--no-default-features", "--bin", &name, "--manifest-path"]);
    cargo.arg(folder.join("Cargo.toml"));
    let target = toolchain::target("rust").map_err(Trouble::Missing)?;
    let built = run(cargo.env("CARGO_TARGET_DIR", target)).map_err(Trouble::Wrong);
    fs::remove_file(&file).map_err(|e| Trouble::Missing(e.to_string()))?;
    built
}

fn rust_file(statements: &str) -> String {
    format!("#[tokio::main]\nasync fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{statements}\nOk(())\n}}\n")
}

/// Its grammar, and what it uses of Java itself; the libraries are not here.
fn java(page: &str, block: &Block) -> Checked {
    const UNKNOWN: [&str; 2] = ["compiler.err.cant.resolve", "compiler.err.doesnt.exist"];
    let folder = scratch("java").map_err(Trouble::Missing)?.join(block_name(page, block));
    let file = folder.join("Page.java");
    let is_file = block.text.contains("class ");
    let text = format!("class Page {{ void page() throws Exception {{\n{}\n}} }}\n", block.text);
    write(&file, if is_file { &block.text } else { &text })?;
    let mut javac = Command::new("javac");
    javac.args(["-XDrawDiagnostics", "-proc:none", "-d"]).arg(&folder).arg(&file);
    let output = javac.output().map_err(|e| Trouble::Missing(format!("javac does not start: {e}")))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_wrong = |line: &&str| line.contains("compiler.err.") && !UNKNOWN.iter().any(|code| line.contains(code));
    match said.lines().find(is_wrong) {
        Some(_) => Err(Trouble::Wrong(said)),
        None => Ok(()),
    }
}

fn json(page: &str, block: &Block) -> Checked {
    by_python("import json, sys; json.load(open(sys.argv[1]))", page, block)
}

fn yaml(page: &str, block: &Block) -> Checked {
    let python = Command::new("/usr/bin/python3").args(["-c", "import yaml"]).output();
    if !python.is_ok_and(|output| output.status.success()) {
        return Err(Trouble::Missing("there is no python3-yaml".into()));
    }
    by_python("import sys, yaml; list(yaml.safe_load_all(open(sys.argv[1])))", page, block)
}

fn by_python(program: &str, page: &str, block: &Block) -> Checked {
    let file = scratch("files").map_err(Trouble::Missing)?.join(block_name(page, block));
    write(&file, &block.text)?;
    run(Command::new("/usr/bin/python3").args(["-c", program]).arg(&file)).map_err(Trouble::Wrong)
}

/// An expression a line, as the rules of a file.
fn promql(page: &str, block: &Block) -> Checked {
    if Command::new("promtool").arg("--version").output().is_err() {
        return Err(Trouble::Missing("there is no promtool".into()));
    }
    let lines = block.text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let rules = lines.map(|line| format!("  - record: page:expression\n    expr: {line:?}\n"));
    let file = scratch("files").map_err(Trouble::Missing)?.join(format!("{}.yml", block_name(page, block)));
    write(&file, &format!("groups:\n- name: page\n  rules:\n{}", rules.collect::<String>()))?;
    run(Command::new("promtool").args(["check", "rules"]).arg(&file)).map_err(Trouble::Wrong)
}

//! The languages of the examples: how each is made ready below the folder that cargo builds in, and started.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::Programs;
use crate::toolchain::{self, copy, run, source, target, PYTHON3};

/// Programs, or why there are none here.
type Made = Result<Programs, String>;

pub struct Language {
    pub name: &'static str,
    /// Whether its handlers are interrupted where the lease is lost.
    pub cancels: bool,
    pub make: fn() -> Made,
}

impl Language {
    /// Whether `DQ_TEST_LANGUAGES` names it.
    pub fn is_demanded(&self) -> bool {
        self.name.split(',').next().is_some_and(toolchain::is_demanded)
    }
}

pub const PYTHON: Language = Language { name: "python", cancels: false, make: python };
pub const NEW_PYTHON: Language = Language { name: "python,newest", cancels: false, make: newest_python };

fn python() -> Made {
    run(Command::new(PYTHON3).args(["-c", "import redis"]))?;
    Ok(python_programs(PYTHON3))
}

fn newest_python() -> Made {
    Ok(python_programs(&toolchain::newest_python()?))
}

fn python_programs(python: &str) -> Programs {
    let start = |file: &str| [python.to_string(), source("python").join(file).display().to_string()].to_vec();
    let env = [("PYTHONDONTWRITEBYTECODE".to_string(), "1".to_string())].to_vec();
    Programs { worker: start("worker.py"), producer: start("producer.py"), env }
}

pub const NODE: Language = Language { name: "node", cancels: true, make: node };

/// Node looks for libraries beside the program: it runs on a copy, and the source stays as it is.
fn node() -> Made {
    toolchain::node()?;
    let folder = target("node")?;
    let installed = folder.join("installed");
    copy(&source("node"), &folder)?;
    let wanted = read(&folder.join("package.json"))?;
    if read(&installed).ok().as_ref() != Some(&wanted) {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]);
        run(npm.current_dir(&folder))?;
        fs::write(&installed, wanted).map_err(|e| e.to_string())?;
    }
    let start = |file: &str| ["node".to_string(), folder.join(file).display().to_string()].to_vec();
    Ok(Programs { worker: start("worker.js"), producer: start("producer.js"), env: Vec::new() })
}

pub const GO: Language = Language { name: "go", cancels: true, make: go };

fn go() -> Made {
    let go = toolchain::go()?;
    copy(&source("go"), &go.own().join("src/webhooks"))?;
    let programs = target("go/bin")?;
    run(go.command().args(["build", "-o"]).arg(&programs).args(["webhooks/worker", "webhooks/producer"]))?;
    let start = |name: &str| [programs.join(name).display().to_string()].to_vec();
    Ok(Programs { worker: start("worker"), producer: start("producer"), env: Vec::new() })
}

pub const RUST: Language = Language { name: "rust", cancels: true, make: rust };

/// Without TLS, which takes longer to build than all the rest.
fn rust() -> Made {
    let folder = target("rust")?;
    let mut cargo = toolchain::cargo();
    cargo
        .args(["build", "--locked", "--no-default-features", "--manifest-path"])
        .arg(source("rust").join("Cargo.toml"));
    run(cargo.env("CARGO_TARGET_DIR", &folder))?;
    let start = |name: &str| [folder.join("debug").join(name).display().to_string()].to_vec();
    Ok(Programs { worker: start("worker"), producer: start("producer"), env: Vec::new() })
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

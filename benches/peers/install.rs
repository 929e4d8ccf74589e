//! Brings the peers' libraries, in fixed versions, into folders below the one that cargo builds in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::peer::Outcome;
use crate::report::target;
use crate::script::Program;

/// ioredis is BullMQ's client; 5 runs on every Node that BullMQ runs on.
pub const NODE: &[&str] = &["bullmq@6.7.0", "ioredis@5.9.3"];
/// redis is redis-py in the newest version that all the others go with; packaging is what Celery forgets to ask for.
pub const PYTHON: &[&str] =
    &["rq==3.0.0", "celery==5.7.0", "chasquimq==1.3.0", "redis==6.4.0", "hiredis==3.5.0", "packaging==26.4"];
/// The one that the tests run too: Debian's packages belong to it.
const DEBIANS_PYTHON: &str = "/usr/bin/python3";

pub fn node() -> Outcome<Program> {
    let folder = folder("node")?;
    if !is_done(&folder, NODE) {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix"]).arg(&folder);
        run(npm.args(NODE))?;
        mark(&folder, NODE)?;
    }
    Ok(Program { runner: "node".into(), file: "node.js", installed: folder })
}

pub fn python() -> Outcome<Program> {
    let folder = folder("python")?;
    let runner = folder.join("bin/python");
    if !is_done(&folder, PYTHON) {
        let python = if Path::new(DEBIANS_PYTHON).exists() { DEBIANS_PYTHON } else { "python3" };
        run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
        run(Command::new(&runner).args(["-m", "pip", "install", "-q", "--disable-pip-version-check"]).args(PYTHON))?;
        mark(&folder, PYTHON)?;
    }
    Ok(Program { runner, file: "python.py", installed: folder })
}

fn folder(name: &str) -> Outcome<PathBuf> {
    let folder = target().join("peers").join(name);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

/// Where it is written down what a folder holds.
fn note(folder: &Path) -> PathBuf {
    folder.join("dq-installed")
}

fn is_done(folder: &Path, packages: &[&str]) -> bool {
    fs::read_to_string(note(folder)).is_ok_and(|text| text == packages.join(" "))
}

fn mark(folder: &Path, packages: &[&str]) -> Outcome {
    fs::write(note(folder), packages.join(" ")).map_err(|e| e.to_string())
}

fn run(command: &mut Command) -> Outcome {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot be installed: {program} does not start: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    eprintln!("{errors}");
    Err(format!("cannot be installed: {program} failed, see above"))
}

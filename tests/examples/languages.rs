//! The languages of the examples: how each is made ready below the folder that cargo builds in, and started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::Programs;

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
        let all = std::env::var("DQ_TEST_LANGUAGES").unwrap_or_default();
        let family = self.name.split(',').next();
        all.split(' ').any(|name| Some(name) == family)
    }
}

pub const PYTHON: Language = Language { name: "python", cancels: false, make: python };
pub const NEW_PYTHON: Language = Language { name: "python,newest", cancels: false, make: newest_python };

/// Debian's: python3-redis belongs to it.
const PYTHON3: &str = "/usr/bin/python3";

fn python() -> Made {
    run(Command::new(PYTHON3).args(["-c", "import redis"]))?;
    Ok(python_programs(PYTHON3))
}

/// The release that PyPI has when it is first installed here.
fn newest_python() -> Made {
    let folder = target("python")?;
    let python = folder.join("bin/python").display().to_string();
    if run(Command::new(&python).args(["-c", "import redis"])).is_err() {
        run(Command::new(PYTHON3).args(["-m", "venv", "--clear"]).arg(&folder))?;
        run(Command::new(&python).args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "redis"]))?;
    }
    Ok(python_programs(&python))
}

fn python_programs(python: &str) -> Programs {
    let start = |file: &str| [python.to_string(), source("python").join(file).display().to_string()].to_vec();
    let env = [("PYTHONDONTWRITEBYTECODE".to_string(), "1".to_string())].to_vec();
    Programs { worker: start("worker.py"), producer: start("producer.py"), env }
}

pub const NODE: Language = Language { name: "node", cancels: true, make: node };

/// Node looks for libraries beside the program: it runs on a copy, and the source stays as it is.
fn node() -> Made {
    const NEW_ENOUGH: &str = "process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)";
    run(Command::new("node").args(["-e", NEW_ENOUGH])).map_err(|e| format!("Node 20 or later is needed: {e}"))?;
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

/// Go without its module proxy: what Debian packages is a GOPATH.
fn go() -> Made {
    let folder = target("go")?;
    let (root, libraries) = (folder.join("root/usr/lib/go-1.23"), folder.join("root/usr/share/gocode"));
    let fetched = folder.join("fetched");
    if !fetched.exists() {
        run(Command::new(script("fetch-go.sh")).arg(&folder))?;
        fs::write(&fetched, "").map_err(|e| e.to_string())?;
    }
    let own = folder.join("own");
    copy(&source("go"), &own.join("src/webhooks"))?;
    let mut go = Command::new(root.join("bin/go"));
    go.env("GOROOT", &root).env("GOPATH", format!("{}:{}", own.display(), libraries.display()));
    go.env("GOCACHE", folder.join("cache")).env("GO111MODULE", "off").env("GOENV", "off").env("GOTOOLCHAIN", "local");
    let programs = target("go/bin")?;
    run(go.args(["build", "-o"]).arg(&programs).args(["webhooks/worker", "webhooks/producer"]))?;
    let start = |name: &str| [programs.join(name).display().to_string()].to_vec();
    Ok(Programs { worker: start("worker"), producer: start("producer"), env: Vec::new() })
}

pub const RUST: Language = Language { name: "rust", cancels: true, make: rust };

/// Without TLS, which takes longer to build than all the rest.
fn rust() -> Made {
    let folder = target("rust")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    // What cargo tells a test about the module's own package is nothing to this one.
    std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG")).for_each(|(name, _)| {
        cargo.env_remove(name);
    });
    cargo
        .args(["build", "--locked", "--no-default-features", "--manifest-path"])
        .arg(source("rust").join("Cargo.toml"));
    run(cargo.env("CARGO_TARGET_DIR", &folder))?;
    let start = |name: &str| [folder.join("debug").join(name).display().to_string()].to_vec();
    Ok(Programs { worker: start("worker"), producer: start("producer"), env: Vec::new() })
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name)
}

fn source(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(language)
}

/// Where a language's programs are built and its libraries are kept.
fn target(language: &str) -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let target = program.ancestors().nth(3).ok_or("no folder to build in")?;
    let folder = target.join("examples").join(language);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

/// Copies the files of a folder, and of those in it.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let (path, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).map_err(failed)?;
        if path.is_dir() {
            copy(&path, &to)?;
        } else {
            fs::copy(&path, &to).map_err(failed)?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{program} does not start: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr)))
}

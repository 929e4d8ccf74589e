//! What other languages' programs are made with, below the folder that cargo builds in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Debian's Python: python3-redis belongs to it.
pub const PYTHON3: &str = "/usr/bin/python3";
/// The newest redis-py, and what else the blocks of the documents need. Versions are fixed, so that a run can be repeated.
const PYTHON_LIBRARIES: [&str; 2] = ["redis==8.1.0", "msgpack==1.2.4"];
/// The newest client libraries for Node.
const NODE_LIBRARIES: [&str; 2] = ["ioredis@6.0.0", "redis@6.3.1"];

/// Whether `DQ_TEST_LANGUAGES` names the language: then it must be here.
pub fn is_demanded(language: &str) -> bool {
    let all = std::env::var("DQ_TEST_LANGUAGES").unwrap_or_default();
    all.split(' ').any(|name| name == language)
}

/// Says where there is no Node, or one that is too old.
pub fn node() -> Result<(), String> {
    const NEW_ENOUGH: &str = "process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)";
    run(Command::new("node").args(["-e", NEW_ENOUGH])).map_err(|e| format!("Node 20 or later is needed: {e}"))
}

/// A Python that has the newest redis-py, installed if it is not here yet.
pub fn newest_python() -> Result<String, String> {
    static PYTHON: OnceLock<Result<String, String>> = OnceLock::new();
    PYTHON
        .get_or_init(|| {
            let folder = target("python")?;
            let python = folder.join("bin/python").display().to_string();
            install(&folder, &PYTHON_LIBRARIES, || {
                run(Command::new(PYTHON3).args(["-m", "venv", "--clear"]).arg(&folder))?;
                let words = ["-m", "pip", "install", "-q", "--disable-pip-version-check"];
                run(Command::new(&python).args(words).args(PYTHON_LIBRARIES))
            })?;
            Ok(python)
        })
        .clone()
}

/// A folder in which programs of Node find ioredis and node-redis, installed if they are not here yet.
pub fn node_libraries() -> Result<PathBuf, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = || {
        node()?;
        let folder = target("node-libraries")?;
        npm_install(&folder, &NODE_LIBRARIES)?;
        Ok(folder)
    };
    FOLDER.get_or_init(make).clone()
}

/// Installs packages of npm into a folder, unless these are in it.
pub fn npm_install(folder: &Path, packages: &[&str]) -> Result<(), String> {
    install(folder, packages, || {
        fs::write(folder.join("package.json"), "{\"private\": true}").map_err(|e| e.to_string())?;
        let words = ["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"];
        run(Command::new("npm").args(words).args(packages).current_dir(folder))
    })
}

/// Calls `fetch` unless it has brought these packages into the folder before.
fn install(folder: &Path, packages: &[&str], fetch: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let (note, wanted) = (folder.join("installed"), packages.join(" "));
    if fs::read_to_string(&note).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    fetch()?;
    fs::write(note, wanted).map_err(|e| e.to_string())
}

/// Go without its module proxy: what Debian packages is a GOPATH.
pub struct Go {
    folder: PathBuf,
}

/// Go and go-redis, fetched where they are not here yet.
pub fn go() -> Result<Go, String> {
    let folder = target("go")?;
    let fetched = folder.join("fetched");
    if !fetched.exists() {
        run(Command::new(script("fetch-go.sh")).arg(&folder))?;
        fs::write(&fetched, "").map_err(|e| e.to_string())?;
    }
    Ok(Go { folder })
}

impl Go {
    /// The GOPATH of what is not Debian's.
    pub fn own(&self) -> PathBuf {
        self.folder.join("own")
    }

    pub fn command(&self) -> Command {
        let (root, libraries) = (self.folder.join("root/usr/lib/go-1.23"), self.folder.join("root/usr/share/gocode"));
        let mut go = Command::new(root.join("bin/go"));
        go.env("GOROOT", &root).env("GOPATH", format!("{}:{}", self.own().display(), libraries.display()));
        go.env("GOCACHE", self.folder.join("cache")).env("GO111MODULE", "off").env("GOENV", "off");
        go.env("GOTOOLCHAIN", "local");
        go
    }
}

/// Cargo for another package: what it tells a test about the module's own is nothing to that one.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG")).for_each(|(name, _)| {
        cargo.env_remove(name);
    });
    cargo
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name)
}

/// The folder of a language in examples/.
pub fn source(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(language)
}

/// Where a language's programs are built and its libraries are kept.
pub fn target(language: &str) -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let target = program.ancestors().nth(3).ok_or("no folder to build in")?;
    let folder = target.join("examples").join(language);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

/// Copies the files of a folder, and of those in it.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
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

/// Runs it to its end; what it said where that was not a good one.
pub fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{program} does not start: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr)))
}

//! One page: a server of its own, begun empty by redis.conf.example, an empty folder, and the blocks in order.
//!
//! | the word behind the fence | what is done |
//! | --- | --- |
//! | `console` | a session of redis-cli on port 6380: what it prints must be what the page shows. An id, a tenure (`k3f`) and a time in ms stand for the real ones; `...` on a line of its own stands for any lines |
//! | `sh` | run by bash, which ends at the first error, in the page's folder; `$DQ_ROOT` is the checkout |
//! | `python` | all of a page in one process, in order; once with Debian's redis-py, once with the newest |
//! | `js` | each a program of its own, run by Node |
//! | `go`, `rust`, `java` | must compile |
//! | `conf` | a server must start with these lines |
//! | `yaml`, `json` | must parse |
//! | `text` | shown only |
//!
//! A comment on the line before the fence says more: [`Note`](crate::blocks::Note). The port 6380, the place of the installed
//! module and that of the built one stand for those of the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::blocks::{Block, Note};
use crate::common::server::{module_path, mortal, new_dir};
use crate::common::{self, Server};
use crate::console::Session;
use crate::javascript::Program;
use crate::python::{Python, Way};
use crate::same::Names;
use crate::{blocks, compile, files, javascript, tell, toolchain};

/// What stands in the documents for the module where it is installed.
const INSTALLED: &str = "/usr/lib/redis/modules/libdq.so";
/// The same where `make build` puts it.
const BUILT: &str = "target/release/libdq.so";
/// Lines of redis.conf that a server of the tests has already, or that it cannot have beside others.
const OWN_LINES: [&str; 6] = ["port", "bind", "dir", "loadmodule", "enable-module-command", "save"];
/// By itself redis-cli ends well, also where the server answers with an error.
const STRICT_CLI: &str = "redis-cli() { command redis-cli -e \"$@\"; }\n";

/// Runs every block of the page. A failure names its line.
pub fn run(path: &str) {
    run_with(path, toolchain::PYTHON3, &|_| true);
}

/// Runs the blocks of a page that has Python in it once more, with the newest redis-py.
pub fn run_with_newest_redis_py(path: &str) {
    match toolchain::newest_python() {
        Ok(python) => run_with(path, &python, &|kind| ["python", "js", "console", "sh", "text"].contains(&kind)),
        Err(why) if toolchain::is_demanded("python") => panic!("python is demanded: {why}"),
        Err(why) => tell(&format!("docs: SKIPPED {path} with the newest redis-py: {why}\n")),
    }
}

fn run_with(path: &str, python: &str, is_meant: &dyn Fn(&str) -> bool) {
    let text = files::text(path);
    let mut page = Page {
        interpreter: python,
        path,
        folder: new_dir(),
        server: None,
        session: None,
        python: None,
        names: Names::default(),
        programs: Vec::new(),
        printed: Printed::Nothing,
    };
    for block in blocks::of(&text).into_iter().filter(|block| is_meant(&block.kind)) {
        page.run(&block).unwrap_or_else(|why| panic!("\n{path}:{}: {why}", block.line));
    }
    for program in &mut page.programs {
        program.check().unwrap_or_else(|why| panic!("\n{path}: {why}"));
    }
    if let Some(python) = &mut page.python {
        python.end().unwrap_or_else(|why| panic!("\n{path}: {why}"));
    }
}

struct Page<'a> {
    path: &'a str,
    /// What runs the Python blocks.
    interpreter: &'a str,
    folder: PathBuf,
    /// Begun by the first block that needs it.
    server: Option<Server>,
    session: Option<Session>,
    python: Option<Python>,
    names: Names,
    /// The blocks of JavaScript that run in the background.
    programs: Vec<Program>,
    printed: Printed,
}

/// What the last program printed.
enum Printed {
    Nothing,
    Text(String),
    /// Python's, which may still run.
    Python,
    /// That of the last of `programs`, which may still run.
    Program,
    /// This machine cannot run it.
    Skipped,
}

impl Page<'_> {
    fn run(&mut self, block: &Block) -> Result<(), String> {
        match (&block.note, block.kind.as_str()) {
            (Note::NotRun(reason), _) => {
                tell(&format!("docs: NOT RUN {}:{}: {reason}\n", self.path, block.line));
                Ok(())
            }
            (Note::Prints, "text") => self.compare_printed(&block.text),
            (_, "text") => Ok(()),
            (_, "console") => self.type_in(block),
            (note, "python") => self.run_python(block, note),
            (note, "js") => self.run_javascript(block, note),
            (_, "sh") => self.run_shell(&block.text),
            (_, "conf") => self.start_with(&block.text),
            (_, kind) => compile::check(kind, self.path, block),
        }
    }

    fn server(&mut self) -> &mut Server {
        self.server.get_or_insert_with(|| {
            let example = files::text("redis.conf.example");
            let lines = conf_lines(&example);
            lines.iter().fold(Server::with_grace(), |builder, line| builder.line(line)).start()
        })
    }

    /// The text with the test's port and files in the place of the reader's.
    fn here(&mut self, text: &str) -> String {
        let port = self.server().port.to_string();
        let installed = self.folder.join("libdq.so");
        if text.contains(INSTALLED) && !installed.exists() {
            fs::copy(module_path(), &installed).expect("the module can be copied");
        }
        let text = text.replace("6380", &port).replace(INSTALLED, &installed.to_string_lossy());
        text.replace(BUILT, &module_path().to_string_lossy())
    }

    fn type_in(&mut self, block: &Block) -> Result<(), String> {
        let port = self.server().port;
        let session = self.session.get_or_insert_with(|| Session::new(port));
        session.run_block(block, &mut self.names)
    }

    fn run_python(&mut self, block: &Block, note: &Note) -> Result<(), String> {
        let way = match note {
            Note::Thread => Way::Thread,
            Note::Process => Way::Process,
            _ => Way::Now,
        };
        let text = self.here(&block.text);
        self.printed = Printed::Python;
        let (interpreter, folder) = (self.interpreter, &self.folder);
        self.python.get_or_insert_with(|| Python::new(interpreter, folder)).run(self.path, block.line, &text, way)
    }

    fn run_shell(&mut self, script: &str) -> Result<(), String> {
        let script = self.here(script);
        let script = format!("{STRICT_CLI}{}", self.names.replaced(&script));
        let mut bash = mortal("bash");
        bash.args(["-euo", "pipefail", "-c", &script]).current_dir(&self.folder).env("DQ_ROOT", files::root());
        let output = bash.stdin(Stdio::null()).output().map_err(|e| format!("bash does not start: {e}"))?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}; it printed:\n{printed}{errors}", output.status));
        }
        self.printed = Printed::Text(printed);
        Ok(())
    }

    fn run_javascript(&mut self, block: &Block, note: &Note) -> Result<(), String> {
        let text = self.here(&block.text);
        let mut program = match javascript::start(&self.folder, &format!("line-{}", block.line), &text) {
            Ok(program) => program,
            Err(why) if toolchain::is_demanded("node") => return Err(why),
            Err(why) => {
                tell(&format!("docs: SKIPPED {}:{}: {why}\n", self.path, block.line));
                self.printed = Printed::Skipped;
                return Ok(());
            }
        };
        if matches!(note, Note::Thread | Note::Process) {
            self.programs.push(program);
            self.printed = Printed::Program;
        } else {
            self.printed = Printed::Text(program.finish()?);
        }
        Ok(())
    }

    /// Compares what the last program printed, and waits for it where that one still runs.
    fn compare_printed(&mut self, shown: &str) -> Result<(), String> {
        let shown: Vec<&str> = shown.lines().collect();
        let Page { printed, python, programs, names, .. } = self;
        let mut is_same =
            |printed: &str| names.lines("", &shown, &printed.lines().collect::<Vec<_>>(), &|_, _, _| false);
        let mut look: Box<dyn FnMut() -> Result<String, String>> = match (printed, python, programs.last_mut()) {
            (Printed::Skipped, ..) => return Ok(()),
            (Printed::Text(printed), ..) => {
                return is_same(printed).then_some(()).ok_or_else(|| format!("it printed:\n{printed}"));
            }
            (Printed::Python, Some(python), _) => Box::new(|| python.printed()),
            (Printed::Program, _, Some(program)) => Box::new(|| program.check().map(|()| program.printed())),
            _ => return Err("nothing before it prints".into()),
        };
        let mut last = String::new();
        let end = std::time::Instant::now() + common::DEADLINE;
        while std::time::Instant::now() < end {
            last = look()?;
            if is_same(&last) {
                return Ok(());
            }
            std::thread::sleep(common::PAUSE);
        }
        Err(format!("it printed:\n{last}"))
    }

    fn start_with(&mut self, text: &str) -> Result<(), String> {
        let text = self.here(text);
        let lines = conf_lines(&text);
        let builder = lines.iter().fold(Server::with_grace(), |builder, line| builder.line(line));
        builder.try_start().map(|_| ()).map_err(|log| format!("the server does not start with it:\n{log}"))
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        self.python = None;
        self.programs.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The lines of a redis.conf that are settings, less those of the test's own.
fn conf_lines(conf: &str) -> Vec<&str> {
    let is_own = |line: &str| OWN_LINES.iter().any(|name| line.split(' ').next() == Some(name));
    conf.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#') && !is_own(line)).collect()
}

/// Where a page's blocks of one language are put.
pub fn scratch(name: &str) -> Result<PathBuf, String> {
    let folder = crate::toolchain::target("docs")?.join(name);
    fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    Ok(folder)
}

/// A name for files and packages of this block.
pub fn block_name(page: &str, block: &Block) -> String {
    let stem = Path::new(page).with_extension("").to_string_lossy().to_lowercase();
    format!("{}_{}", stem.replace(|c: char| !c.is_ascii_alphanumeric(), "_"), block.line)
}

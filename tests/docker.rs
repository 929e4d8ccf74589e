//! The image that the Dockerfile makes, as far as it can be tried without Docker: what goes into it and when, which user
//! runs the server, what the server loads, and what the health check says. The entrypoints of the two images that it can
//! be built on are modeled in `tests/docker`.

// The harness calls libc: signals, process groups, user ids.
#![allow(unsafe_code)]

#[path = "common/mod.rs"]
#[allow(dead_code, unused_imports)]
mod common;

use std::fs;
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use common::server::{free_port, module_path, mortal, new_dir, server_command};
use common::{wait_for, Server};

/// The user of the server in both images.
const USER: u32 = 999;
const CONFIGURATION: &str = "/etc/dq/server.conf";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The instructions of each stage, the word and the rest.
fn stages() -> Vec<Vec<(String, String)>> {
    let mut stages = Vec::new();
    for line in read("Dockerfile").replace("\\\n", " ").lines().filter(|line| !line.trim_start().starts_with('#')) {
        let Some((word, rest)) = line.split_once(' ') else { continue };
        match word {
            "ARG" if stages.is_empty() => continue,
            "FROM" => stages.push(Vec::new()),
            _ => {}
        }
        stages.last_mut().expect("FROM is first").push((word.to_string(), rest.trim().to_string()));
    }
    stages
}

fn last_stage() -> Vec<(String, String)> {
    stages().pop().expect("a stage")
}

/// What follows the word of the only such instruction.
fn only(stage: &[(String, String)], word: &str) -> String {
    let found: Vec<_> = stage.iter().filter(|(name, _)| name == word).map(|(_, rest)| rest.clone()).collect();
    assert_eq!(found.len(), 1, "{word}: {found:?}");
    found[0].clone()
}

/// The words of CMD, which is a list.
fn command() -> Vec<String> {
    let words = only(&last_stage(), "CMD");
    let words = words.trim_matches(['[', ']']).split(',').map(|word| word.trim().trim_matches('"').to_string());
    words.collect()
}

/// A folder that stands for the image's root, after the last stage has run in it.
struct Image {
    root: PathBuf,
}

impl Image {
    fn build() -> Image {
        let image = Image { root: new_dir() };
        // The user 999 must be able to come here.
        fs::set_permissions(&image.root, fs::Permissions::from_mode(0o755)).expect("the folder is opened");
        for folder in ["etc", "data", "bin", "usr/share/doc/redis-dq", "usr/local/lib/redis/modules"] {
            fs::create_dir_all(image.path(folder)).expect("a folder");
        }
        for module in ["redisbloom.so", "rejson.so"] {
            image.write_program(&format!("usr/local/lib/redis/modules/{module}"), "not a module");
        }
        let conf = fs::read(root().join("redis.conf.example")).expect("redis.conf.example");
        fs::write(image.path("usr/share/doc/redis-dq/redis.conf.example"), conf).expect("it is copied");
        // Not every machine lets a test give files away.
        image.write_program("bin/chown", "echo \"$@\" >>\"$ROOT/given-away\"");
        for (word, script) in last_stage() {
            if word == "RUN" {
                image.run(&image.placed(&script));
            }
        }
        image
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The script with the image's folders in it.
    fn placed(&self, script: &str) -> String {
        ["/etc/dq", "/usr/"].iter().fold(script.to_string(), |script, folder| {
            script
                .replace(&format!(" {folder}"), &format!(" {}{folder}", self.root.display()))
                .replace(&format!(">{folder}"), &format!(">{}{folder}", self.root.display()))
        })
    }

    fn write_program(&self, path: &str, script: &str) {
        let path = self.path(path);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is made a program");
    }

    /// Runs a script with the programs in the image's `bin` before all others.
    fn run(&self, script: &str) -> String {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").expect("a PATH"));
        let output = Command::new("sh")
            .args(["-euc", script])
            .env("PATH", path)
            .env("ROOT", &self.root)
            .current_dir(self.path("data"))
            .output()
            .expect("sh is there");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success(), "{script}: {text}");
        text
    }

    /// What the entrypoint starts, and as whom, when a container is started as root.
    fn starts(&self, entrypoint: &str, server: &str) -> String {
        self.write_program("bin/id", "echo \"${TEST_UID:-0}\"");
        // It takes the user from its options, and runs what follows them.
        self.write_program(
            "bin/setpriv",
            "export TEST_UID=999\nuser=\nwhile [ \"$1\" != -- ]; do\n\
             case $1 in --reuid=*) user=${1#*=} ;; --reuid) user=$2 ;; esac\nshift\ndone\n\
             shift\nexport TEST_USER=$user\nexec \"$@\"",
        );
        for name in ["redis-server", "valkey-server"] {
            self.write_program(&format!("bin/{name}"), "echo \"${TEST_USER:-root} runs ${0##*/} $*\"");
        }
        assert!(["redis-server", "valkey-server"].contains(&server));
        let script = root().join("tests/docker").join(entrypoint);
        let words: Vec<_> = command().iter().map(|word| format!("'{word}'")).collect();
        self.run(&format!("'{}' {}", script.display(), words.join(" "))).trim().to_string()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[test]
fn either_entrypoint_runs_its_own_server_as_its_own_user_with_our_module_only() {
    let image = Image::build();
    assert_eq!(image.starts("redis.sh", "redis-server"), format!("redis runs redis-server {CONFIGURATION}"));
    assert_eq!(image.starts("valkey.sh", "valkey-server"), format!("valkey runs valkey-server {CONFIGURATION}"));
    // Nothing in the file goes round the entrypoint.
    let words: Vec<_> = last_stage().into_iter().map(|(word, _)| word).collect();
    assert!(!words.iter().any(|word| word == "ENTRYPOINT" || word == "USER"), "{words:?}");
}

#[test]
fn the_configuration_fits_a_container_and_belongs_to_the_servers_user() {
    let image = Image::build();
    let conf = fs::read_to_string(image.path(CONFIGURATION)).expect("the configuration");
    for line in ["bind * -::*", "port 6380", "dir /data", "protected-mode no", "appendonly yes"] {
        assert!(conf.lines().any(|it| it == line), "{line}");
    }
    let module = conf.lines().find_map(|line| line.strip_prefix("loadmodule ")).expect("the module is loaded");
    let copies: Vec<_> = last_stage().into_iter().filter(|(word, _)| word == "COPY").map(|(_, rest)| rest).collect();
    assert!(copies.iter().any(|copy| copy.ends_with(module) && copy.contains("--chmod=755")), "{copies:?}");
    let folder = image.path("etc/dq");
    let given = fs::read_to_string(image.path("given-away")).expect("something is given away");
    assert_eq!(given.trim(), format!("-R {USER}:{USER} {}", folder.display()));
    // Redis's entrypoint leaves a folder with other files alone.
    assert_eq!(fs::read_dir(folder).expect("the folder").count(), 1);
}

/// A process that does not outlive the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server by the image's configuration, run as the image's user, below a folder that is that user's.
fn serve(image: &Image, port: u16) -> Process {
    let conf = image.path(CONFIGURATION);
    let words = server_command();
    let mut command = mortal("setpriv");
    command
        .args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "--pdeathsig", "KILL", "--"])
        .args(&words)
        .arg(&conf)
        .current_dir(image.path("data"))
        .stdout(fs::File::create(image.path("data/log")).expect("the log opens"));
    let child = Process(command.spawn().expect("setpriv is there"));
    wait_for("the server", || redis_cli(port, &["PING"]).is_some_and(|text| text == "PONG"));
    child
}

fn redis_cli(port: u16, words: &[&str]) -> Option<String> {
    let info = format!("redis://127.0.0.1:{port}");
    let mut con = redis::Client::open(info).ok()?.get_connection().ok()?;
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(word);
    });
    command.query(&mut con).ok()
}

#[test]
fn config_rewrite_works_and_the_server_starts_again_by_what_it_wrote() {
    // SAFETY: takes nothing.
    if unsafe { libc::getuid() } != 0 {
        return common::skip("only root can become another user");
    }
    let image = Image::build();
    let (conf, module, port) = (image.path(CONFIGURATION), image.path("libdq.so"), free_port());
    fs::copy(module_path(), &module).expect("the module is copied");
    let text = fs::read_to_string(&conf).expect("the configuration");
    let text = text
        .replace("loadmodule /usr/lib/redis/modules/libdq.so", &format!("loadmodule {}", module.display()))
        .replace("port 6380", &format!("port {port}"))
        .replace("dir /data", &format!("dir {}", image.path("data").display()));
    fs::write(&conf, text).expect("it is written");
    for path in ["data", "etc/dq", "etc/dq/server.conf"] {
        chown(image.path(path), Some(USER), Some(USER)).expect("root gives it away");
    }
    for round in 1..=2 {
        let mut server = serve(&image, port);
        let lease = format!("{round}m");
        assert_eq!(redis_cli(port, &["CONFIG", "SET", "dq.lease", &lease]).as_deref(), Some("OK"));
        assert_eq!(redis_cli(port, &["CONFIG", "REWRITE"]).as_deref(), Some("OK"));
        assert_eq!(fs::metadata(&conf).expect("the configuration").uid(), USER);
        let text = fs::read_to_string(&conf).expect("the configuration");
        assert_eq!(text.matches("\nloadmodule ").count(), 1, "{text}");
        assert!(text.contains(&format!("\ndq.lease \"{lease}\"")), "{text}");
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(server.0.id() as i32, libc::SIGTERM) };
        assert!(server.0.wait().expect("it ends").success());
    }
}

/// How the health check ends on a server.
fn health(port: u16) -> ExitStatus {
    let (_, check) = {
        let line = only(&last_stage(), "HEALTHCHECK");
        let (options, check) = line.split_once("CMD ").expect("a command");
        (options.to_string(), check.to_string())
    };
    assert!(check.contains("-p 6380"), "{check}");
    let check = check.replace("-p 6380", &format!("-p {port}"));
    Command::new("sh").args(["-c", &check]).status().expect("sh is there")
}

#[test]
fn the_health_check_fails_without_a_server_without_the_module_and_for_a_client_without_rights() {
    let server = Server::start();
    server.queue("mail").push("x");
    assert!(health(server.port).success());
    server.run(&["ACL", "SETUSER", "default", "-dq.queues"]);
    assert!(!health(server.port).success(), "an error");
    assert!(!health(Server::builder().without_module().start().port).success(), "no module");
    assert!(!health(free_port()).success(), "no server");
}

#[test]
fn the_health_check_of_the_page_works_where_the_default_user_is_off() {
    let page = read("docs/installing.md");
    let check = page.split("`test: [").nth(1).and_then(|rest| rest.split("]`").next()).expect("the check");
    let words: Vec<_> = check.split(", ").map(|word| word.trim_matches('"')).collect();
    assert_eq!(words[..4], ["CMD", "redis-cli", "-e", "-p"]);
    let rules = read("docs/users.md");
    let viewer = rules.lines().find(|line| line.starts_with("ACL SETUSER viewer ")).expect("the viewer");
    let server = Server::start();
    server.run(&viewer.split(' ').collect::<Vec<_>>());
    let status = Command::new(words[1])
        .args(words[2..].iter().map(|word| if *word == "6380" { server.port.to_string() } else { word.to_string() }))
        .status()
        .expect("redis-cli is there");
    assert!(status.success());
}

/// The files below a folder.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_path_buf()];
    }
    fs::read_dir(path).expect("a folder").flat_map(|entry| files(&entry.expect("an entry").path())).collect()
}

/// What the build stage copies before it builds, as names below the checkout.
fn copied() -> Vec<String> {
    let build = stages().remove(0);
    let at = build.iter().position(|(word, rest)| word == "RUN" && rest.contains("cargo build")).expect("it builds");
    let sources = build[..at].iter().filter(|(word, _)| word == "COPY").flat_map(|(_, rest)| {
        let words: Vec<_> = rest.split_whitespace().map(String::from).collect();
        words[..words.len() - 1].to_vec()
    });
    sources.collect()
}

#[test]
fn a_change_of_a_text_or_a_test_builds_nothing_again() {
    let copied = copied();
    assert!(copied.contains(&"src".to_string()), "{copied:?}");
    for name in &copied {
        assert!(!["tests", "docs", "."].contains(&name.as_str()), "{name}");
        for file in files(&root().join(name)) {
            assert!(file.extension().is_none_or(|ending| ending != "md" && ending != "conf"), "{}", file.display());
        }
    }
    // What is copied is in the context, and nothing else is.
    let mut offered: Vec<_> =
        read(".dockerignore").lines().filter_map(|line| line.strip_prefix('!')).map(String::from).collect();
    let mut all: Vec<_> = copied.into_iter().chain(["redis.conf.example".to_string()]).collect();
    offered.sort();
    all.sort();
    assert_eq!(offered, all);
    // Of the last stage, the module is the last that is copied: it changes most often.
    let copies: Vec<_> = last_stage().into_iter().filter(|(word, _)| word == "COPY").collect();
    assert!(copies.last().expect("a copy").1.contains("--from=build"), "{copies:?}");
}

#[test]
fn what_is_copied_is_a_whole_workspace() {
    let image = new_dir();
    for name in copied() {
        for file in files(&root().join(&name)) {
            let to = image.join(file.strip_prefix(root()).expect("below the checkout"));
            fs::create_dir_all(to.parent().expect("a folder")).expect("the folder is made");
            fs::copy(&file, to).expect("it is copied");
        }
    }
    let build = stages().remove(0);
    let stub = build.iter().find(|(word, rest)| word == "RUN" && rest.contains("main.rs")).expect("the stub");
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).current_dir(&image).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("sh", &["-euc", &stub.1]);
    // Cargo reads every manifest and the lock file, and looks for the files of all targets.
    run("cargo", &["metadata", "--locked", "--offline", "--no-deps", "--format-version=1"]);
    // No source of the module reads a file from elsewhere.
    for file in files(&root().join("src")) {
        let text = fs::read_to_string(&file).expect("a source");
        assert!(!text.contains("include_"), "{}", file.display());
    }
    fs::remove_dir_all(image).expect("the folder goes");
}

#[test]
fn compose_yaml_keeps_the_data_and_publishes_to_this_machine_only() {
    let text = read("compose.yaml");
    for line in ["- \"127.0.0.1:6380:6380\"", "- dq-data:/data", "build: .", "restart: unless-stopped"] {
        assert!(text.lines().any(|it| it.trim() == line), "{line}");
    }
    assert!(!text.contains("entrypoint:") && !text.contains("user:"), "the image's own entrypoint chooses the user");
}

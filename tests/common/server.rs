//! Real servers: each in a folder of its own, on a free port, ended by its own process id.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::{Connection, ConnectionAddr, ConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use super::dump::{dump, Keyspace};
use super::queue::Queue;
use super::{list, text, wait_for, wait_until};

/// How long a server may take to start or to end before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server is started with.
#[derive(Clone)]
pub struct Builder {
    module: bool,
    module_args: String,
    lines: Vec<String>,
    env: Vec<(String, String)>,
    admin: bool,
}

/// The user of `Builder::with_admin`, and its password.
const ADMIN: &str = "test-admin";

impl Builder {
    /// Every connection of the test logs in as a user of its own, so that the default user can be off.
    pub fn with_admin(mut self) -> Self {
        self.admin = true;
        self.line(&format!("user {ADMIN} on >{ADMIN} ~* &* +@all"))
    }

    /// A line of redis.conf.
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_string());
        self
    }

    /// A setting of the module, as a line of redis.conf.
    pub fn set(self, name: &str, value: &str) -> Self {
        self.line(&format!("dq.{name} {value}"))
    }

    /// What follows the module's path in the line that loads it.
    pub fn load_args(mut self, args: &str) -> Self {
        self.module_args = args.to_string();
        self
    }

    /// A server that does not have the module.
    pub fn without_module(mut self) -> Self {
        self.module = false;
        self
    }

    /// An append only file that holds every write that was answered.
    pub fn aof(self) -> Self {
        self.line("appendonly yes").line("appendfsync always")
    }

    /// A replica of `primary`.
    pub fn replica_of(self, primary: &Server) -> Self {
        self.line(&format!("replicaof 127.0.0.1 {}", primary.port))
    }

    /// A node of a cluster. Its bus has a free port of its own: the server's would be the client's and 10,000, which there
    /// may not be.
    pub fn cluster_node(self) -> Self {
        self.line("cluster-enabled yes").line(&format!("cluster-port {}", free_port()))
    }

    /// A variable of the server's environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_string(), value.to_string()));
        self
    }

    /// A library that is loaded before all others.
    pub fn preload(mut self, library: &Path) -> Self {
        let library = library.to_string_lossy();
        match self.env.iter_mut().find(|(name, _)| name == "LD_PRELOAD") {
            Some((_, all)) => *all = format!("{all}:{library}"),
            None => self.env.push(("LD_PRELOAD".to_string(), library.into_owned())),
        }
        self
    }

    /// Starts the server, and fails the test where it does not come up.
    pub fn start(self) -> Server {
        self.try_start().unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// Starts the server; where it ends instead of coming up, what it logged.
    pub fn try_start(self) -> Result<Server, String> {
        if self.module {
            module_path();
        }
        let dir = new_dir();
        loop {
            match Server::launch(&self, &dir, free_port()) {
                Err(log) if log.contains("Address already in use") => continue,
                Err(log) => {
                    let _ = fs::remove_dir_all(&dir);
                    return Err(log);
                }
                Ok(server) => return Ok(server),
            }
        }
    }
}

/// A running server. Dropping it kills it and removes its folder.
pub struct Server {
    child: Child,
    pub port: u16,
    dir: PathBuf,
    builder: Builder,
}

impl Server {
    /// A server with the module, without persistence, that ends leases from its first moment on.
    pub fn builder() -> Builder {
        Server::with_grace().set("takeover-grace", "0")
    }

    /// The same with the take-over grace as it is by default.
    pub fn with_grace() -> Builder {
        Builder { module: true, module_args: String::new(), lines: Vec::new(), env: Vec::new(), admin: false }
    }

    /// The server that most tests want.
    pub fn start() -> Server {
        Server::builder().start()
    }

    fn launch(builder: &Builder, dir: &Path, port: u16) -> Result<Server, String> {
        let conf = dir.join("redis.conf");
        let mut lines = vec![
            format!("port {port}"),
            "bind 127.0.0.1".to_string(),
            format!("dir {}", dir.display()),
            "daemonize no".to_string(),
            "save \"\"".to_string(),
            "enable-debug-command yes".to_string(),
            "enable-module-command yes".to_string(),
            "repl-diskless-sync-delay 0".to_string(),
            // A ping counts as something written: none comes between two looks at a primary and its replica.
            "repl-ping-replica-period 3600".to_string(),
            "repl-timeout 7200".to_string(),
        ];
        if builder.module {
            let module = module_path();
            lines.push(format!("loadmodule {} {}", module.display(), builder.module_args));
        }
        lines.extend(builder.lines.iter().filter(|line| builder.module || !line.starts_with("dq.")).cloned());
        fs::write(&conf, lines.join("\n") + "\n").expect("redis.conf is written");

        let log = File::options().create(true).append(true).open(dir.join("log")).expect("the log opens");
        let words = server_command();
        let mut command = mortal(&words[0]);
        command
            .args(&words[1..])
            .arg(&conf)
            .current_dir(dir)
            .envs(builder.env.iter().cloned())
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("the log opens twice"))
            .stdout(log);
        let child = command.spawn().unwrap_or_else(|e| panic!("{} does not start: {e}", words[0]));
        let mut server = Server { child, port, dir: dir.to_path_buf(), builder: builder.clone() };
        server.come_up()?;
        Ok(server)
    }

    /// Waits until the server answers and has loaded its data.
    fn come_up(&mut self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be asked") {
                let log = self.log();
                // The folder stays with the caller: a start on another port goes on with it.
                self.dir = PathBuf::new();
                return Err(format!("{log}\n{status}"));
            }
            if self.answers() {
                return Ok(());
            }
            if Instant::now() > end {
                panic!("the server does not answer:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// Whether the server on the port is this one, and ready.
    fn answers(&self) -> bool {
        let Ok(mut con) = self.try_conn() else {
            return false;
        };
        let dir: redis::RedisResult<(String, String)> = redis::cmd("CONFIG").arg("GET").arg("dir").query(&mut con);
        let ready = redis::cmd("DBSIZE").query::<i64>(&mut con).is_ok();
        ready && dir.is_ok_and(|(_, dir)| dir == self.dir.to_string_lossy())
    }

    fn try_conn(&self) -> redis::RedisResult<Connection> {
        self.try_conn_as(ProtocolVersion::RESP2)
    }

    fn try_conn_as(&self, protocol: ProtocolVersion) -> redis::RedisResult<Connection> {
        let name = || self.builder.admin.then(|| ADMIN.to_string());
        let info = ConnectionInfo {
            addr: ConnectionAddr::Tcp("127.0.0.1".to_string(), self.port),
            redis: RedisConnectionInfo { protocol, username: name(), password: name(), ..Default::default() },
        };
        let con = redis::Client::open(info)?.get_connection()?;
        con.set_read_timeout(Some(PATIENCE))?;
        Ok(con)
    }

    /// A new connection.
    pub fn conn(&self) -> Connection {
        self.try_conn().unwrap_or_else(|e| panic!("no connection: {e}\n{}", self.log()))
    }

    /// A new connection that speaks RESP3.
    pub fn conn3(&self) -> Connection {
        self.try_conn_as(ProtocolVersion::RESP3).unwrap_or_else(|e| panic!("no connection: {e}\n{}", self.log()))
    }

    /// A handle on the queue `name`, which checks the queue's invariants after each call.
    pub fn queue(&self, name: impl AsRef<[u8]>) -> Queue {
        Queue::new(self.conn(), name.as_ref())
    }

    /// The same in another database.
    pub fn queue_in(&self, db: i64, name: impl AsRef<[u8]>) -> Queue {
        let mut con = self.conn();
        redis::cmd("SELECT").arg(db).exec(&mut con).expect("the database is there");
        Queue::new(con, name.as_ref())
    }

    /// Every key of every database.
    pub fn dump(&self) -> Keyspace {
        dump(&mut self.conn())
    }

    /// Runs a command on a connection of its own.
    pub fn run(&self, words: &[&str]) -> redis::Value {
        self.try_run(words).unwrap_or_else(|e| panic!("{words:?}: {e}"))
    }

    /// The same, where it may fail.
    pub fn try_run(&self, words: &[&str]) -> redis::RedisResult<redis::Value> {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        command.query(&mut self.conn())
    }

    /// Changes a setting of the module in the running server.
    pub fn set(&self, name: &str, value: &str) {
        self.run(&["CONFIG", "SET", &format!("dq.{name}"), value]);
    }

    /// One field of INFO.
    pub fn info(&self, section: &str, field: &str) -> String {
        let all = text(&self.run(&["INFO", section]));
        all.lines()
            .find_map(|line| line.strip_prefix(field).and_then(|rest| rest.strip_prefix(':')))
            .unwrap_or_else(|| panic!("INFO {section} has no {field}:\n{all}"))
            .trim()
            .to_string()
    }

    /// The port at which the other nodes of its cluster find it.
    pub fn bus_port(&self) -> String {
        let reply = self.run(&["CONFIG", "GET", "cluster-port"]);
        text(&list(&reply)[1])
    }

    /// What the server is: "redis 7.0.15", "valkey 9.1.2".
    pub fn version(&self) -> String {
        let all = text(&self.run(&["INFO", "server"]));
        let field = |name: &str| all.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        match (field("valkey_version:"), field("redis_version:")) {
            (Some(version), _) => format!("valkey {version}"),
            (None, Some(version)) => format!("redis {version}"),
            (None, None) => panic!("INFO server tells no version:\n{all}"),
        }
    }

    /// What the server has logged since its first start.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.join("log")).unwrap_or_default()).into_owned()
    }

    /// The folder that the server works in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The server's process.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: libc::c_int) {
        // Safety: the child has not been waited for, so the id is still its own.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server is there to be killed");
        self.child.wait().expect("the server ends");
    }

    /// Waits for the server to end by itself.
    pub fn ended(&mut self) -> ExitStatus {
        wait_until("the server to end", || self.child.try_wait().expect("the child can be asked"))
    }

    /// Fails the test where the server is no longer running.
    pub fn assert_alive(&mut self) {
        if let Some(status) = self.child.try_wait().expect("the child can be asked") {
            panic!("the server died ({status}):\n{}", self.log());
        }
        assert_eq!(text(&self.run(&["ECHO", "alive"])), "alive");
    }

    /// Starts the ended server again, on its data and with its settings.
    pub fn start_again(&mut self) {
        let builder = self.builder.clone();
        self.start_again_as(builder);
    }

    /// The same with other settings.
    pub fn start_again_as(&mut self, builder: Builder) {
        let dir = std::mem::take(&mut self.dir);
        let mut port = self.port;
        let next = loop {
            match Server::launch(&builder, &dir, port) {
                Err(log) if log.contains("Address already in use") => port = free_port(),
                Err(log) => panic!("the server did not start again:\n{log}"),
                Ok(server) => break server,
            }
        };
        *self = next;
    }

    /// kill -9 and a new start.
    pub fn crash_and_restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Has the server end by itself, in its own time, so that a tool that looks at its memory comes to the end.
    fn ask_to_end(&mut self) {
        let end = Instant::now() + PATIENCE;
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < end {
            // SAFETY: the child has not ended, and its id is its own until it was waited for.
            unsafe {
                libc::kill(self.pid(), libc::SIGCONT);
                libc::kill(self.pid(), libc::SIGTERM);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until this replica is linked to its primary and has all that the primary had written.
    pub fn catch_up(&self, primary: &Server) {
        wait_for("the replica to be linked", || self.info("replication", "master_link_status") == "up");
        let offset: u64 = primary.info("replication", "master_repl_offset").parse().expect("an offset is a number");
        wait_for("the replica to catch up", || {
            let at = self.info("replication", "slave_repl_offset");
            at.parse::<u64>().expect("an offset is a number") >= offset
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::env::var_os("DQ_TEST_GENTLY").is_some() {
            self.ask_to_end();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.dir.as_os_str().is_empty() {
            return;
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(60)..].join("\n");
            eprintln!("--- the log of the server on port {}\n{tail}\n---", self.port);
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Fails unless `replica` holds exactly what `primary` does.
pub fn assert_replica_same(primary: &Server, replica: &Server) {
    let offset = || primary.info("replication", "master_repl_offset");
    wait_until("a moment in which the primary writes nothing", || {
        let before = offset();
        replica.catch_up(primary);
        let (here, there) = (primary.dump(), replica.dump());
        if offset() != before {
            return None;
        }
        assert_eq!(here, there, "left: the primary, right: the replica");
        Some(())
    });
}

/// A command that does not outlive the thread that starts it.
pub fn mortal(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    // Safety: prctl is safe to call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    command
}

/// The command that starts a server: `DQ_TEST_SERVER`, split at blanks, or `redis-server`.
pub fn server_command() -> Vec<String> {
    let line = std::env::var("DQ_TEST_SERVER").unwrap_or_default();
    let words: Vec<String> = line.split_whitespace().map(String::from).collect();
    if words.is_empty() {
        vec!["redis-server".to_string()]
    } else {
        words
    }
}

/// The module under test: `DQ_MODULE`, or the library that cargo built with the test's program.
pub fn module_path() -> PathBuf {
    let path = match std::env::var_os("DQ_MODULE") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe().expect("the program knows its path").with_file_name("libdq.so"),
    };
    path.canonicalize().unwrap_or_else(|e| panic!("the module {}: {e}", path.display()))
}

/// A port that nothing listens on, and that this program was not given before.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(|e| e.into_inner());
    let given = given.get_or_insert_with(HashSet::new);
    loop {
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free").port();
        if given.insert(port) {
            return port;
        }
    }
}

/// A new, empty folder.
pub fn new_dir() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let dir =
        std::env::temp_dir().join(format!("dq-it-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir_all(&dir).expect("the folder is made");
    dir.canonicalize().expect("the folder is there")
}

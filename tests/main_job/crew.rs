//! The Python programs: one producer, and workers that are killed and replaced.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

pub const WORKERS: usize = 4;

/// What a program tells, or that it ended.
enum News {
    /// The producer's pushes so far.
    Pushed(u32),
    AllPushed,
    /// This worker is in the middle of a job in which it is to die.
    Crash(usize),
    Ended(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Producer,
    Worker(usize),
}

struct Program {
    name: Name,
    child: Child,
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Running,
    KilledInJob,
    KilledAtRandom,
}

/// All of them, in a folder. Dropping it kills whoever is left.
pub struct Crew {
    folder: PathBuf,
    running: Vec<Program>,
    /// By the worker's number.
    pub fates: Vec<Fate>,
    /// The producer's pushes so far.
    pub pushed: u32,
    /// The producer has nothing left to push.
    pub all_pushed: bool,
    tell: Sender<News>,
    news: Receiver<News>,
}

impl Crew {
    pub fn new(folder: &Path) -> Crew {
        let (tell, news) = channel();
        let mut crew = Crew {
            folder: folder.to_path_buf(),
            running: Vec::new(),
            fates: Vec::new(),
            pushed: 0,
            all_pushed: false,
            tell,
            news,
        };
        (0..WORKERS).for_each(|_| crew.hire());
        crew.start(Name::Producer);
        crew
    }

    /// The port of the server, now and after it has been started again.
    pub fn write_port(folder: &Path, port: u16) {
        let new = folder.join("port.new");
        std::fs::write(&new, port.to_string()).expect("the port is written");
        std::fs::rename(new, folder.join("port")).expect("the port is written");
    }

    fn hire(&mut self) {
        let number = self.fates.len();
        self.fates.push(Fate::Running);
        self.start(Name::Worker(number));
    }

    fn start(&mut self, name: Name) {
        let script = match name {
            Name::Producer => "producer.py",
            Name::Worker(_) => "worker.py",
        };
        let mut command = Command::new(super::python());
        command.arg("-B").arg(super::script(script)).arg(&self.folder);
        if let Name::Worker(number) = name {
            command.arg(number.to_string());
        }
        // A program whose standard input closes ends: none outlives the test.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python starts");
        let out = BufReader::new(child.stdout.take().expect("its output is piped"));
        let tell = self.tell.clone();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let news = match (line.split_once(' '), name) {
                    (Some(("pushed", count)), _) => News::Pushed(count.parse().expect("a count")),
                    (Some(("crash", _)), Name::Worker(number)) => News::Crash(number),
                    _ if line == "done" => News::AllPushed,
                    _ => continue,
                };
                let _ = tell.send(news);
            }
            let _ = tell.send(News::Ended(name));
        });
        self.running.push(Program { name, child });
    }

    /// Sees to what has happened, and waits a little for more.
    pub fn attend(&mut self) {
        let mut patience = Duration::from_millis(20);
        while let Ok(news) = self.news.recv_timeout(patience) {
            patience = Duration::ZERO;
            match news {
                News::Pushed(count) => self.pushed = count,
                News::AllPushed => self.all_pushed = true,
                News::Crash(number) => self.kill(number, Fate::KilledInJob),
                News::Ended(name) => self.judge_end(name),
            }
        }
    }

    /// Fails the test where a program ended that was to go on.
    fn judge_end(&mut self, name: Name) {
        let Some(program) = self.running.iter_mut().find(|program| program.name == name) else { return };
        let status = program.child.wait().expect("the child can be waited for");
        assert!(name == Name::Producer && status.success(), "{name:?} ended: {status}");
    }

    /// Kills a worker with SIGKILL and puts another in its place; nothing where it is gone already.
    pub fn kill(&mut self, number: usize, fate: Fate) {
        if let Some(at) = self.running.iter().position(|program| program.name == Name::Worker(number)) {
            let mut program = self.running.swap_remove(at);
            program.child.kill().expect("the worker is there to be killed");
            program.child.wait().expect("the worker ends");
            self.fates[number] = fate;
            self.hire();
        }
    }

    /// One of the workers that run.
    pub fn some_worker(&self, number: u64) -> usize {
        let workers: Vec<usize> = self
            .running
            .iter()
            .filter_map(|program| match program.name {
                Name::Worker(number) => Some(number),
                Name::Producer => None,
            })
            .collect();
        workers[(number % workers.len() as u64) as usize]
    }

    /// Lets everyone go home, and waits until they have.
    pub fn dismiss(&mut self) {
        for program in &mut self.running {
            program.child.stdin = None;
        }
        for mut program in self.running.drain(..) {
            let status = program.child.wait().expect("the child can be waited for");
            assert!(status.success(), "{:?} ended: {status}", program.name);
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for program in &mut self.running {
            let _ = program.child.kill();
            let _ = program.child.wait();
        }
    }
}

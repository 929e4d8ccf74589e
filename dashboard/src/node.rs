//! One server: two connections to it, so that what a page asks never waits behind what the sampler asks.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Value};
use tokio::task::JoinSet;

use crate::reply::{info_field, text};
use crate::trouble::{version, Kind, Trouble, LEAST_MODULE};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(3);

/// How long the sampler waits for an answer before it takes the server for gone.
const SAMPLE: Duration = Duration::from_secs(4);

/// How long a page or an action waits: REPLAY ALL counts a million letters before it answers.
const PAGE: Duration = Duration::from_secs(20);

/// A server that is connected and has the module.
pub struct Node {
    pub address: String,
    /// How it is connected to.
    pub info: ConnectionInfo,
    sample: MultiplexedConnection,
    page: MultiplexedConnection,
}

impl Node {
    /// Connects and looks whether the module is there.
    pub async fn connect(info: &ConnectionInfo) -> Result<Node, Trouble> {
        let address = info.addr.to_string();
        let sample = open(info, SAMPLE).await.map_err(|e| Trouble::of(&e, &address, "HELLO"))?;
        let page = open(info, PAGE).await.map_err(|e| Trouble::of(&e, &address, "HELLO"))?;
        let node = Node { address, info: info.clone(), sample, page };
        node.has_module().await?;
        Ok(node)
    }

    async fn has_module(&self) -> Result<(), Trouble> {
        let info = self.ask_info(&["dq"]).await?;
        match info_field(&info, "dq_version") {
            Some(found) if version(found) < LEAST_MODULE => Err(Trouble::old_module(&self.address, found)),
            Some(_) => Ok(()),
            // The server says it in the words of an unknown command.
            None => self.ask(redis::cmd("DQ.QUEUES")).await.map(drop),
        }
    }

    /// Some sections of INFO.
    pub async fn ask_info(&self, sections: &[&str]) -> Result<String, Trouble> {
        let words: Vec<&[u8]> = sections.iter().map(|section| section.as_bytes()).collect();
        self.ask(command("INFO", &words)).await.map(|reply| text(&reply))
    }

    /// A command of the sampler.
    pub async fn ask(&self, command: Cmd) -> Result<Value, Trouble> {
        answer(self.sample.clone(), command, &self.address).await
    }

    /// A command of a page or of an action.
    pub async fn ask_for_page(&self, command: Cmd) -> Result<Value, Trouble> {
        answer(self.page.clone(), command, &self.address).await
    }

    /// Several commands of the sampler in one go; the answers in their order.
    pub async fn ask_all(&self, commands: Vec<Cmd>) -> Vec<Result<Value, Trouble>> {
        let mut under_way = JoinSet::new();
        let count = commands.len();
        for (place, command) in commands.into_iter().enumerate() {
            let (connection, address) = (self.sample.clone(), self.address.clone());
            under_way.spawn(async move { (place, answer(connection, command, &address).await) });
        }
        let lost = || Err(Trouble::new(Kind::Unreachable, format!("No answer of {}", self.address), &[]));
        let mut answers: Vec<_> = (0..count).map(|_| lost()).collect();
        while let Some(Ok((place, answer))) = under_way.join_next().await {
            answers[place] = answer;
        }
        answers
    }
}

/// A command with its words.
pub fn command(name: &str, words: &[&[u8]]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(words);
    command
}

async fn open(info: &ConnectionInfo, patience: Duration) -> redis::RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(CONNECT).set_response_timeout(patience);
    Client::open(info.clone())?.get_multiplexed_async_connection_with_config(&config).await
}

async fn answer(mut connection: MultiplexedConnection, command: Cmd, address: &str) -> Result<Value, Trouble> {
    match connection.send_packed_command(&command).await.and_then(Value::extract_error) {
        Ok(value) => Ok(value),
        Err(error) => Err(Trouble::of(&error, address, &name(&command))),
    }
}

/// What the command is called in a sentence; the word behind CLUSTER and SENTINEL belongs to it.
fn name(command: &Cmd) -> String {
    let words = command.args_iter().filter_map(|arg| match arg {
        redis::Arg::Simple(word) => Some(String::from_utf8_lossy(word).into_owned()),
        redis::Arg::Cursor => None,
    });
    let mut words = words.take(2);
    let first = words.next().unwrap_or_default();
    match words.next() {
        Some(second) if matches!(first.as_str(), "CLUSTER" | "SENTINEL") => format!("{first} {second}"),
        _ => first,
    }
}

//! The way to the servers: which are connected, and which of them has a queue.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use redis::{Cmd, ConnectionInfo, Value};

use crate::discovery;
use crate::node::Node;
use crate::target::Target;
use crate::trouble::{Kind, Trouble};

/// Shared by the sampler, which connects, and by the pages.
pub struct Link {
    pub target: Target,
    nodes: RwLock<Result<Arc<Vec<Node>>, Trouble>>,
    /// The place among the nodes of the one that a queue was seen at.
    homes: RwLock<HashMap<Vec<u8>, usize>>,
    /// Nodes of the cluster that were there before: one of them answers where those that were named are gone.
    known: RwLock<Vec<ConnectionInfo>>,
}

impl Link {
    pub fn new(target: Target) -> Link {
        let begin = Trouble::new(Kind::Unreachable, format!("Connecting to {}", target.name), &[]);
        Link { target, nodes: RwLock::new(Err(begin)), homes: RwLock::default(), known: RwLock::default() }
    }

    /// The servers that are connected.
    pub fn nodes(&self) -> Result<Arc<Vec<Node>>, Trouble> {
        self.nodes.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Connects anew; what stood in the way is what every page is told until it works.
    pub async fn connect(&self) -> Result<Arc<Vec<Node>>, Trouble> {
        let known = self.known.read().unwrap_or_else(|e| e.into_inner()).clone();
        let found = discovery::find(&self.target, &known).await.map(Arc::new);
        if let Some(nodes) = found.as_ref().ok().filter(|nodes| nodes.len() > 1) {
            let all = nodes.iter().map(|node| node.info.clone()).collect();
            *self.known.write().unwrap_or_else(|e| e.into_inner()) = all;
        }
        *self.nodes.write().unwrap_or_else(|e| e.into_inner()) = found.clone();
        found
    }

    /// The connections are of no more use.
    pub fn cut(&self, why: Trouble) {
        *self.nodes.write().unwrap_or_else(|e| e.into_inner()) = Err(why);
    }

    /// Remembers where the queues are.
    pub fn settle(&self, homes: HashMap<Vec<u8>, usize>) {
        *self.homes.write().unwrap_or_else(|e| e.into_inner()) = homes;
    }

    /// Runs a command of a page at the node of the queue.
    pub async fn ask(&self, queue: &[u8], command: Cmd) -> Result<Value, Trouble> {
        let nodes = self.nodes()?;
        let home = self.homes.read().unwrap_or_else(|e| e.into_inner()).get(queue).copied().unwrap_or(0);
        let node = nodes.get(home).unwrap_or(&nodes[0]);
        match node.ask_for_page(command.clone()).await {
            Err(trouble) if trouble.kind == Kind::Moved => match moved_to(&trouble.detail, &nodes) {
                Some(node) => node.ask_for_page(command).await,
                None => Err(trouble),
            },
            answer => answer,
        }
    }
}

/// The node that `MOVED slot host:port` names.
fn moved_to<'a>(detail: &str, nodes: &'a [Node]) -> Option<&'a Node> {
    let mut words = detail.split_whitespace();
    let is_moved = words.next() == Some("MOVED");
    let address = words.nth(1)?;
    nodes.iter().find(|node| is_moved && node.address == address)
}

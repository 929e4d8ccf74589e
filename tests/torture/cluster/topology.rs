//! A cluster of primaries, with a replica each where failovers are wanted, and what its nodes say of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::server::Builder;
use crate::common::{bytes, int, text, wait_for, wait_until, Server};

pub const SLOTS: u16 = 16384;
const PRIMARIES: u16 = 3;

/// A node and its id, which it keeps through restarts.
pub struct Node {
    pub server: Server,
    pub id: String,
}

pub struct Cluster {
    pub nodes: Vec<Node>,
}

/// What a node says of another.
pub struct Seen {
    pub id: String,
    pub primary: bool,
    /// The primary that it follows.
    pub of: String,
    pub failed: bool,
    pub slots: Vec<(u16, u16)>,
}

impl Seen {
    /// One line of CLUSTER NODES.
    fn of(line: &str) -> Seen {
        let words: Vec<&str> = line.split(' ').collect();
        let has = |flag: &str| words[2].split(',').any(|word| word == flag);
        let slots = words[8..].iter().filter(|word| !word.starts_with('[')).map(|word| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let number = |word: &str| word.parse().expect("a slot is a number");
            (number(first), number(last))
        });
        Seen {
            id: words[0].to_string(),
            primary: has("master"),
            of: words[3].to_string(),
            failed: has("fail") || has("fail?") || has("handshake"),
            slots: slots.collect(),
        }
    }

    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// A node that does not rest while others fail, and whose slots stay with it.
fn builder(node_timeout_ms: u32) -> Builder {
    Server::builder()
        .set("max-lapses", "1000")
        .line("appendonly yes")
        .cluster_node()
        .line(&format!("cluster-node-timeout {node_timeout_ms}"))
        .line("cluster-allow-replica-migration no")
}

impl Cluster {
    /// Starts three primaries, each with so many replicas.
    pub fn start(replicas: usize, node_timeout_ms: u32) -> Cluster {
        let count = usize::from(PRIMARIES) * (1 + replicas);
        let servers = (0..count).map(|_| builder(node_timeout_ms).start());
        let nodes = servers.map(|server| Node { id: text(&server.run(&["CLUSTER", "MYID"])), server }).collect();
        let cluster = Cluster { nodes };
        cluster.meet();
        for (number, node) in cluster.nodes[..usize::from(PRIMARIES)].iter().enumerate() {
            let border = |number: usize| (number * usize::from(SLOTS) / usize::from(PRIMARIES)).to_string();
            let last = border(number + 1).parse::<usize>().expect("a number") - 1;
            node.server.run(&["CLUSTER", "ADDSLOTSRANGE", &border(number), &last.to_string()]);
        }
        for (number, node) in cluster.nodes.iter().enumerate().skip(usize::from(PRIMARIES)) {
            let primary = &cluster.nodes[number % usize::from(PRIMARIES)];
            node.server.run(&["CLUSTER", "REPLICATE", &primary.id]);
        }
        cluster.settle();
        cluster
    }

    fn meet(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            node.server.run(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
        }
        let first = &self.nodes[0].server;
        for node in &self.nodes[1..] {
            first.run(&["CLUSTER", "MEET", "127.0.0.1", &node.server.port.to_string(), &node.server.bus_port()]);
        }
        wait_for("all nodes to know each other", || {
            self.nodes.iter().all(|node| {
                let seen = self.seen_by(node);
                seen.len() == self.nodes.len() && seen.iter().all(|seen| !seen.failed)
            })
        });
    }

    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.server.port).collect()
    }

    pub fn seen_by(&self, node: &Node) -> Vec<Seen> {
        text(&node.server.run(&["CLUSTER", "NODES"])).lines().map(Seen::of).collect()
    }

    /// The number of the node that owns a slot; all nodes agree on it.
    pub fn owner(&self, slot: u16) -> usize {
        let seen = self.seen_by(&self.nodes[0]);
        let owner = seen.iter().find(|seen| seen.owns(slot)).expect("somebody owns each slot");
        self.number_of(&owner.id)
    }

    pub fn number_of(&self, id: &str) -> usize {
        self.nodes.iter().position(|node| node.id == id).expect("the node is one of ours")
    }

    /// The numbers of the primaries.
    pub fn primaries(&self) -> Vec<usize> {
        let seen = self.seen_by(&self.nodes[0]);
        seen.iter().filter(|seen| seen.primary).map(|seen| self.number_of(&seen.id)).collect()
    }

    /// The number of a replica of a primary.
    pub fn replica_of(&self, primary: usize) -> usize {
        let seen = self.seen_by(&self.nodes[0]);
        let replica = seen.iter().find(|seen| seen.of == self.nodes[primary].id).expect("each primary has a replica");
        self.number_of(&replica.id)
    }

    pub fn is_primary(&self, number: usize) -> bool {
        self.nodes[number].server.info("replication", "role") == "master"
    }

    /// Waits until the cluster is up, all nodes agree who owns what, and each replica has its primary.
    pub fn settle(&self) {
        wait_for("the cluster to be whole and of one mind", || {
            let whole = |node: &Node| {
                let up = text(&node.server.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok");
                let follows = node.server.info("replication", "role") == "master"
                    || node.server.info("replication", "master_link_status") == "up";
                let seen = self.seen_by(node);
                let owned: BTreeMap<_, _> = seen.iter().map(|seen| (seen.id.clone(), seen.slots.clone())).collect();
                let roles: BTreeMap<_, _> = seen.iter().map(|seen| (seen.id.clone(), seen.of.clone())).collect();
                (up && follows && seen.iter().all(|seen| !seen.failed)).then_some((owned, roles))
            };
            let views: BTreeSet<_> = self.nodes.iter().map(whole).collect();
            views.len() == 1 && !views.contains(&None)
        });
    }

    pub fn slot_of(&self, key: &str) -> u16 {
        u16::try_from(int(&self.nodes[0].server.run(&["CLUSTER", "KEYSLOT", key]))).expect("a slot")
    }

    /// A name for a queue whose slot is one of the first so many of a node.
    pub fn name_near_the_start_of(&self, number: usize, within: u16, not: &[String]) -> String {
        let seen = self.seen_by(&self.nodes[0]);
        let first = seen.iter().find(|seen| seen.id == self.nodes[number].id).expect("it is there").slots[0].0;
        let mut con = self.nodes[0].server.conn();
        let mut is_near = |name: &String| {
            let slot: u16 = redis::cmd("CLUSTER").arg("KEYSLOT").arg(name).query(&mut con).expect("KEYSLOT answers");
            (first..first + within).contains(&slot) && !not.contains(name)
        };
        (0..).map(|n| format!("queue-{n}")).find(|name| is_near(name)).expect("there are many names")
    }

    /// Fails where a node holds a key of a slot that is not its own, or its primary's; by a walk over its keys, and by
    /// its own count of each slot.
    pub fn assert_no_foreign_keys(&self) {
        let seen = self.seen_by(&self.nodes[0]);
        for node in &self.nodes {
            let own = seen.iter().find(|seen| seen.id == node.id).expect("it is there");
            let owner = if own.primary { &node.id } else { &own.of };
            let owner = seen.iter().find(|seen| seen.id == *owner).expect("its primary is there");
            let mut con = node.server.conn();
            let mut held: BTreeMap<u16, usize> = BTreeMap::new();
            let (mut cursor, mut names) = (0u64, BTreeSet::new());
            loop {
                let (next, keys): (u64, Vec<Vec<u8>>) =
                    redis::cmd("SCAN").arg(cursor).arg("COUNT").arg(1000).query(&mut con).expect("SCAN answers");
                names.extend(keys);
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
            for key in names {
                let slot: u16 = redis::cmd("CLUSTER").arg("KEYSLOT").arg(&key).query(&mut con).expect("it answers");
                let name = String::from_utf8_lossy(&key).into_owned();
                assert!(owner.owns(slot), "the node on port {} holds {name} of slot {slot}", node.server.port);
                *held.entry(slot).or_default() += 1;
            }
            let mut pipe = redis::pipe();
            for slot in 0..SLOTS {
                pipe.cmd("CLUSTER").arg("COUNTKEYSINSLOT").arg(slot);
            }
            let counts: Vec<usize> = pipe.query(&mut con).expect("the counts are told");
            for (slot, count) in (0u16..).zip(counts) {
                assert_eq!(count, held.get(&slot).copied().unwrap_or(0), "keys of slot {slot} on {}", node.server.port);
            }
        }
    }

    /// Fails unless each replica holds what its primary does.
    pub fn assert_replicas_same(&self) {
        for primary in self.primaries() {
            let (primary, replica) = (&self.nodes[primary].server, &self.nodes[self.replica_of(primary)].server);
            wait_until("the replica to hold what its primary does", || {
                let digests = [primary, replica].map(|server| bytes(&server.run(&["DEBUG", "DIGEST"])));
                (digests[0] == digests[1]).then_some(())
            });
        }
    }
}

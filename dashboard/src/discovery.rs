//! Finds the primaries: the server itself, the one that Sentinels name, or each of a cluster.

use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, Value};

use crate::node::{command, Node};
use crate::reply::{info_field, int, list, text};
use crate::target::Target;
use crate::trouble::{Kind, Trouble};

/// Connects to every primary of the target; `known` are nodes of the cluster as it was.
pub async fn find(target: &Target, known: &[ConnectionInfo]) -> Result<Vec<Node>, Trouble> {
    if target.sentinels.is_empty() {
        by_seeds(target, known).await
    } else {
        by_sentinel(target).await.map(|node| vec![node])
    }
}

/// The first seed that answers; where it is a node of a cluster, all primaries that it knows.
async fn by_seeds(target: &Target, known: &[ConnectionInfo]) -> Result<Vec<Node>, Trouble> {
    let mut first = Trouble::new(Kind::Unreachable, "No server was named", &[]);
    for (place, seed) in target.seeds.iter().chain(known).enumerate() {
        match at_seed(target, seed).await {
            Ok(nodes) => return Ok(nodes),
            Err(trouble) if place == 0 => first = trouble,
            Err(_) => {}
        }
    }
    Err(first)
}

async fn at_seed(target: &Target, seed: &ConnectionInfo) -> Result<Vec<Node>, Trouble> {
    let node = Node::connect(seed).await?;
    let info = node.ask_info(&["cluster"]).await?;
    if info_field(&info, "cluster_enabled") != Some("1") {
        return Ok(vec![node]);
    }
    let slots = node.ask(command("CLUSTER", &[b"SLOTS"])).await?;
    let mut nodes = Vec::new();
    for (host, port) in primaries(&slots, &host_of(seed)) {
        nodes.push(Node::connect(&target.server(&host, port)).await?);
    }
    if nodes.is_empty() {
        return Err(Trouble::new(Kind::Moved, "The cluster has no slots yet", &["CLUSTER INFO tells how it stands."]));
    }
    Ok(nodes)
}

/// Host and port of each primary in the reply of CLUSTER SLOTS; a node that does not know its own host has the seed's.
fn primaries(slots: &Value, seed_host: &str) -> Vec<(String, u16)> {
    let mut found = Vec::new();
    for range in list(slots) {
        let Some(primary) = list(range).get(2).map(list) else { continue };
        let (Some(host), Some(port)) = (primary.first().map(text), primary.get(1).map(int)) else { continue };
        let host = if host.is_empty() || host == "?" { seed_host.to_string() } else { host };
        let address = (host, u16::try_from(port).unwrap_or(0));
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

fn host_of(info: &ConnectionInfo) -> String {
    match &info.addr {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        ConnectionAddr::Unix(_) => "127.0.0.1".to_string(),
    }
}

/// Asks one Sentinel after the other for the primary, and makes sure that it is one.
async fn by_sentinel(target: &Target) -> Result<Node, Trouble> {
    let mut last = sentinel_trouble(target, "none of the Sentinels answers");
    for sentinel in &target.sentinels {
        match ask_sentinel(target, sentinel).await {
            Ok((host, port)) => {
                let node = Node::connect(&target.server(&host, port)).await?;
                let info = node.ask_info(&["replication"]).await?;
                if info_field(&info, "role") == Some("master") {
                    return Ok(node);
                }
                last = sentinel_trouble(target, &format!("{} is not a primary yet", node.address));
            }
            Err(trouble) => last = trouble,
        }
    }
    Err(last)
}

async fn ask_sentinel(target: &Target, sentinel: &ConnectionInfo) -> Result<(String, u16), Trouble> {
    let address = sentinel.addr.to_string();
    let patience = Duration::from_secs(2);
    let config = AsyncConnectionConfig::new().set_connection_timeout(patience).set_response_timeout(patience);
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(&target.master);
    let reply = async {
        let client = Client::open(sentinel.clone())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        command.query_async::<Value>(&mut connection).await
    };
    let reply = reply.await.map_err(|error| {
        let mut trouble = Trouble::of(&error, &format!("the Sentinel {address}"), "SENTINEL GET-MASTER-ADDR-BY-NAME");
        trouble.kind = Kind::Sentinel;
        trouble
    })?;
    match list(&reply) {
        [host, port] => Ok((text(host), u16::try_from(int(port)).unwrap_or(0))),
        _ => Err(sentinel_trouble(target, &format!("{address} knows no primary of this name"))),
    }
}

fn sentinel_trouble(target: &Target, why: &str) -> Trouble {
    Trouble::new(
        Kind::Sentinel,
        format!("Sentinel names no primary for “{}”: {why}", target.master),
        &[
            "It is asked again each second.",
            "--sentinel says where Sentinels are, --master what they call the primary.",
        ],
    )
}

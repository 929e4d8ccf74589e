//! What the server knows of its replicas and clients.
//!
//! Clients matter when the module is unloaded: a server does not tell its clients that a command is gone. Redis 8 runs the
//! command of a client's last call again without looking it up, and EXEC runs what was queued by its address, in every
//! server. Both end the server.

use super::Ctx;

/// How many replicas a write needs, and how long they may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededReplicas {
    /// `min-replicas-to-write`.
    pub count: usize,
    /// `min-replicas-max-lag` in ms.
    pub max_lag_ms: u64,
}

impl Ctx {
    /// The replicas without which the server refuses writes; `None` where it asks for none.
    pub fn needed_replicas(&self) -> Option<NeededReplicas> {
        let number = |name| self.server_setting(name)?.parse::<u64>().ok().filter(|number| *number > 0);
        let (count, max_lag) = (number("min-replicas-to-write")?, number("min-replicas-max-lag")?);
        Some(NeededReplicas { count: usize::try_from(count).ok()?, max_lag_ms: max_lag.saturating_mul(1000) })
    }

    /// For how many seconds each replica that is online has been silent, as the server counts them.
    pub fn replica_lags(&self) -> Vec<u64> {
        lags(&self.info_text(c"replication")).collect()
    }
}

/// The lags in the text of INFO REPLICATION: `slave0:ip=…,port=…,state=online,offset=…,lag=1`.
fn lags(info: &str) -> impl Iterator<Item = u64> + '_ {
    info.lines().filter(|line| line.starts_with("slave")).filter_map(|line| {
        let (_, fields) = line.split_once(':')?;
        let field = |name: &str| fields.split(',').find_map(|field| field.strip_prefix(name));
        (field("state=")? == "online").then(|| field("lag=")?.trim().parse().ok())?
    })
}

impl Ctx {
    /// Ends the connections of those clients, before the module goes: they connect again and go on.
    pub fn end_clients_that_hold(&self, prefix: &str) {
        for id in holders(&self.client_list(), prefix) {
            self.kill_client(id);
        }
    }
}

/// The ids, in the text of CLIENT LIST, of clients whose last command begins with `prefix`, or who have commands queued
/// in MULTI. A client that is at its EXEC is the one that unloads.
fn holders<'a>(list: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    list.lines().filter_map(move |line| {
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
        let command = field("cmd=")?;
        let queues = command != "exec" && field("multi=")?.parse::<i64>().is_ok_and(|queued| queued > 0);
        (command.starts_with(prefix) || queues).then_some(field("id=")?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lags_of_replicas_that_are_online() {
        let info = "# Replication\r\nrole:master\r\nconnected_slaves:3\r\nslave_read_only:1\r\n\
                    slave0:ip=127.0.0.1,port=1,state=online,offset=14,lag=1\r\n\
                    slave1:ip=127.0.0.1,port=2,state=wait_bgsave,offset=0,lag=0\r\n\
                    slave2:ip=127.0.0.1,port=3,state=online,offset=14,lag=12,type=replica\r\n\
                    master_failover_state:no-failover\r\n";
        assert_eq!(lags(info).collect::<Vec<_>>(), [1, 12]);
        assert_eq!(lags("").count(), 0);
    }

    #[test]
    fn those_who_used_the_module_last_or_have_commands_queued() {
        let list = "id=3 addr=127.0.0.1:1 name=cmd=dq. flags=N multi=-1 cmd=dq.claim user=default\n\
                    id=4 addr=127.0.0.1:2 name= flags=x multi=2 cmd=get user=default\n\
                    id=5 addr=127.0.0.1:3 name= flags=N multi=-1 cmd=module|unload user=default\n\
                    id=6 addr=127.0.0.1:4 name= flags=x multi=3 cmd=exec user=default\n\
                    id=7 addr=127.0.0.1:5 name= flags=x multi=0 cmd=multi user=default\n\
                    id=8 addr=127.0.0.1:6 name= flags=N multi=-1 cmd=NULL user=default\n";
        assert_eq!(holders(list, "dq.").collect::<Vec<_>>(), ["3", "4"]);
        assert_eq!(holders("", "dq.").count(), 0);
    }
}

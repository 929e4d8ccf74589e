//! What the server knows of its replicas.

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
}

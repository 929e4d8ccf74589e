//! The server that is watched: one, the primary that Sentinels name, or a cluster.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use crate::options::Options;
use crate::tls::Tls;

/// Where to look for the primaries.
pub struct Target {
    /// Servers that were named; of a cluster some of its nodes. Empty with Sentinel.
    pub seeds: Vec<ConnectionInfo>,
    pub sentinels: Vec<ConnectionInfo>,
    pub master: String,
    /// How to connect to a server, of whatever host and port: by TLS or not, as whom, and to which database.
    way: ConnectionInfo,
    /// What people call it.
    pub name: String,
}

impl Target {
    pub fn of(options: &Options) -> Result<Target, String> {
        let tls = Tls::of(options)?;
        if options.sentinel.is_empty() {
            Target::named(options, &tls)
        } else {
            Target::by_sentinel(options, &tls)
        }
    }

    fn named(options: &Options, tls: &Tls) -> Result<Target, String> {
        let password = options.redis_password()?;
        let mut seeds = Vec::new();
        for url in &options.redis {
            seeds.push(tls.secure(seed(url, options.user.as_ref(), password.as_ref())?)?);
        }
        let way = seeds[0].clone();
        let name = seeds.iter().map(|seed| seed.addr.to_string()).collect::<Vec<_>>().join(", ");
        Ok(Target { seeds, sentinels: Vec::new(), master: String::new(), way, name })
    }

    fn by_sentinel(options: &Options, tls: &Tls) -> Result<Target, String> {
        let redis = RedisConnectionInfo {
            db: options.database,
            username: options.user.clone(),
            password: options.redis_password()?,
            protocol: ProtocolVersion::RESP2,
        };
        let way = tls.secure(ConnectionInfo { addr: ConnectionAddr::Tcp(String::new(), 0), redis })?;
        let password = options.sentinel_password()?;
        let mut sentinels = Vec::new();
        for address in &options.sentinel {
            if address.contains("://") {
                return Err(
                    "--sentinel: it is HOST:PORT without redis:// or rediss://; --tls speaks TLS with it".into()
                );
            }
            let url = format!("redis://{}", with_port(address, 26379));
            sentinels.push(tls.secure(seed(&url, options.sentinel_user.as_ref(), password.as_ref())?)?);
        }
        let name = format!("{} (Sentinel)", options.master);
        Ok(Target { seeds: Vec::new(), sentinels, master: options.master.clone(), way, name })
    }

    /// How to connect to a server that Sentinel or the cluster told of.
    pub fn server(&self, host: &str, port: u16) -> ConnectionInfo {
        let mut info = self.way.clone();
        match &mut info.addr {
            ConnectionAddr::Tcp(to, at) | ConnectionAddr::TcpTls { host: to, port: at, .. } => {
                (*to, *at) = (host.to_string(), port);
            }
            ConnectionAddr::Unix(_) => info.addr = ConnectionAddr::Tcp(host.to_string(), port),
        }
        info
    }
}

fn with_port(address: &str, port: u16) -> String {
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(host, port)| port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')));
    if has_port {
        address.to_string()
    } else {
        format!("{address}:{port}")
    }
}

fn seed(url: &str, user: Option<&String>, password: Option<&String>) -> Result<ConnectionInfo, String> {
    let url = if url.contains("://") { url.to_string() } else { format!("redis://{}", with_port(url, 6379)) };
    // The text of an URL can hold a password: it is not told.
    let mut info = url.as_str().into_connection_info().map_err(|e| format!("the URL of the server: {e}"))?;
    info.redis.username = info.redis.username.or_else(|| user.cloned());
    info.redis.password = info.redis.password.or_else(|| password.cloned());
    info.redis.protocol = ProtocolVersion::RESP2;
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_a_port_where_it_has_none() {
        for (given, whole) in [
            ("redis", "redis:1"),
            ("redis:7000", "redis:7000"),
            ("10.0.0.1", "10.0.0.1:1"),
            ("[::1]", "[::1]:1"),
            ("[::1]:5", "[::1]:5"),
        ] {
            assert_eq!(with_port(given, 1), whole);
        }
    }

    #[test]
    fn the_password_of_the_url_counts_over_that_of_the_file() {
        let given = |url| seed(url, Some(&"viewer".to_string()), Some(&"file".to_string())).expect("an URL");
        let info = given("redis://ann:secret@host:7000/3");
        assert_eq!((info.redis.username.as_deref(), info.redis.password.as_deref()), (Some("ann"), Some("secret")));
        assert_eq!((info.addr.to_string().as_str(), info.redis.db), ("host:7000", 3));
        let info = given("host");
        assert_eq!((info.redis.username.as_deref(), info.redis.password.as_deref()), (Some("viewer"), Some("file")));
        assert_eq!(info.addr.to_string(), "host:6379");
    }
}

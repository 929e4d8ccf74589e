//! What it is started with.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use axum::http::HeaderName;
use clap::{value_parser, Parser};
use ipnet::IpNet;

use crate::client::Forwarding;

/// A page in the browser that shows the queues of DQ, and what can be done about them.
#[derive(Parser)]
#[command(version, about)]
pub struct Options {
    /// The server: `redis://host:port/database`, by TLS `rediss://`; of a cluster any of its nodes, or several
    #[arg(value_name = "URL", default_value = "redis://127.0.0.1:6380", conflicts_with = "sentinel")]
    pub redis: Vec<String>,

    /// Sentinels that know where the primary is; several are parted by commas
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub sentinel: Vec<String>,

    /// What the Sentinels call the primary
    #[arg(long, value_name = "NAME", default_value = "mymaster")]
    pub master: String,

    /// The database number, with Sentinel
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub database: i64,

    /// The user of the server; its password is in DQ_REDIS_PASSWORD or in --redis-password-file
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// A file with the password of the server's user
    #[arg(long, value_name = "FILE")]
    pub redis_password_file: Option<PathBuf>,

    /// Speak TLS with the server and with the Sentinels, as `rediss://` in a URL says
    #[arg(long)]
    pub tls: bool,

    /// Who signs for the servers, in PEM; else those count whom the system trusts
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// The certificate that servers with `tls-auth-clients yes` ask for, in PEM
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,

    /// The key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    pub key_file: Option<PathBuf>,

    /// The user of the Sentinels; its password is in DQ_SENTINEL_PASSWORD
    #[arg(long, value_name = "NAME")]
    pub sentinel_user: Option<String>,

    /// Where browsers find the page; other addresses than this machine's own ask for a password
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8380")]
    pub listen: SocketAddr,

    /// A file with the password of the page; DQ_DASHBOARD_PASSWORD has it too
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,

    /// A name under which browsers find the page, behind a proxy for example; may be given again
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,

    /// Let the page pause, resume, replay, cancel, reschedule and purge
    #[arg(long)]
    pub allow_actions: bool,

    /// A proxy whose word about the client's address is taken, by address or network; may be given again
    #[arg(long, value_name = "ADDRESS[/BITS]", value_parser = network)]
    pub trusted_proxy: Vec<IpNet>,

    /// The headers in which the trusted proxies name the client; others are ignored
    #[arg(long, value_name = "KIND", value_enum, default_value = "x-forwarded")]
    pub forwarding: Forwarding,

    /// The header in which the trusted proxies name the user, for the log
    #[arg(long, value_name = "HEADER", requires = "trusted_proxy")]
    pub user_header: Option<HeaderName>,

    /// Send the cookie by TLS only; a trusted proxy that was asked by TLS does the same
    #[arg(long)]
    pub secure_cookies: bool,

    /// Browsers' connections that are open at one time, 8 to 65535; beyond, the slowest are closed
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = value_parser!(u32).range(8..=65535))]
    pub max_connections: u32,

    /// How long a client may take for the head of a request, for its body, and to read more of a reply: 1 to 600 seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = value_parser!(u64).range(1..=600))]
    pub client_timeout: u64,

    /// How long a request may take: 1 to 600 seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u64).range(1..=600))]
    pub request_timeout: u64,
}

/// Reads a network; an address is a network of one.
fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
    address
        .or_else(|_| text.parse())
        .map_err(|_| "not an address such as 10.0.0.5 or a network such as 10.0.0.0/8".into())
}

impl Options {
    /// The password of the page, if it has one.
    pub fn page_password(&self) -> Result<Option<String>, String> {
        secret(self.password_file.as_deref(), "DQ_DASHBOARD_PASSWORD")
    }

    /// The password of the server's user, where the URL has none.
    pub fn redis_password(&self) -> Result<Option<String>, String> {
        secret(self.redis_password_file.as_deref(), "DQ_REDIS_PASSWORD")
    }

    pub fn sentinel_password(&self) -> Result<Option<String>, String> {
        secret(None, "DQ_SENTINEL_PASSWORD")
    }
}

/// The first line of the file, else the variable; an empty one is refused, as it protects nothing.
fn secret(file: Option<&Path>, variable: &str) -> Result<Option<String>, String> {
    let (text, from) = match (file, std::env::var(variable)) {
        (Some(path), _) => {
            let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
            (text.lines().next().unwrap_or_default().to_string(), path.display().to_string())
        }
        (None, Ok(text)) => (text, variable.to_string()),
        (None, Err(_)) => return Ok(None),
    };
    if text.is_empty() {
        return Err(format!("the password in {from} is empty"));
    }
    Ok(Some(text))
}

//! What it is started with.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;

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

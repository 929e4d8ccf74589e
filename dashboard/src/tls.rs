//! TLS with the servers: who they must be, and who this program is.

use std::fs;
use std::path::Path;

use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, TlsCertificates};

use crate::options::Options;

/// What the command line says of it.
pub struct Tls {
    /// Servers are spoken to by TLS, whatever their URL says.
    always: bool,
    /// Where none are named, those count that the system trusts.
    certificates: Option<TlsCertificates>,
}

impl Tls {
    pub fn of(options: &Options) -> Result<Tls, String> {
        // Fails where one is there already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let read = |path: &Option<_>, what| path.as_deref().map(|path| read_pem(path, what)).transpose();
        let root_cert = read(&options.ca_file, "CERTIFICATE")?;
        let (cert, key) = (read(&options.cert_file, "CERTIFICATE")?, read(&options.key_file, "PRIVATE KEY")?);
        let client_tls = cert.zip(key).map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        let is_named = root_cert.is_some() || client_tls.is_some();
        Ok(Tls { always: options.tls, certificates: is_named.then_some(TlsCertificates { client_tls, root_cert }) })
    }

    /// The way to a server, with what TLS needs where it is asked for.
    pub fn secure(&self, mut info: ConnectionInfo) -> Result<ConnectionInfo, String> {
        if let (true, ConnectionAddr::Tcp(host, port)) = (self.always, &info.addr) {
            info.addr = ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None };
        }
        match (&info.addr, &self.certificates) {
            (ConnectionAddr::TcpTls { insecure: true, .. }, _) => {
                Err("#insecure: a server whose certificate counts for nothing can be anybody; give --ca-file".into())
            }
            (ConnectionAddr::TcpTls { .. }, Some(certificates)) => Client::build_with_tls(info, certificates.clone())
                .map(|client| client.get_connection_info().clone())
                .map_err(|e| format!("--ca-file, --cert-file, --key-file: {e}")),
            (_, None) => Ok(info),
            (_, Some(_)) => Err("--ca-file and --cert-file are for TLS: give --tls, or a URL with rediss://".into()),
        }
    }
}

/// A file with at least one block of this kind.
fn read_pem(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let has_one = text.lines().any(|line| line.starts_with("-----BEGIN ") && line.ends_with(&format!("{what}-----")));
    if has_one {
        Ok(text.into_bytes())
    } else {
        Err(format!("{}: it has no “-----BEGIN … {what}-----”", path.display()))
    }
}

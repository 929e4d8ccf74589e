//! Servers that speak TLS, and what stands in the way there.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::browser::Page;
use crate::common::sentinel::{Sentinel, MASTER};
use crate::common::server::{free_port, new_dir, Builder};
use crate::common::{wait_for, Server};
use crate::dashboard::{refused, Dashboard};

/// Certificates of one authority, in a folder.
struct Signed {
    dir: PathBuf,
}

impl Signed {
    fn new() -> Signed {
        let dir = new_dir();
        let key = KeyPair::generate().expect("a key");
        let mut params = named(&dir.display().to_string());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        fs::write(dir.join("ca.crt"), params.self_signed(&key).expect("it signs itself").pem()).expect("it is written");
        let authority = Issuer::new(params, key);
        for name in ["server", "client"] {
            let key = KeyPair::generate().expect("a key");
            let cert = named(name).signed_by(&key, &authority).expect("it is signed");
            fs::write(dir.join(format!("{name}.crt")), cert.pem()).expect("it is written");
            fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).expect("it is written");
        }
        Signed { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().expect("a path").to_string()
    }

    /// Lines of redis.conf.
    fn lines(&self, port: u16) -> Vec<String> {
        vec![
            format!("tls-port {port}"),
            format!("tls-cert-file {}", self.path("server.crt")),
            format!("tls-key-file {}", self.path("server.key")),
            format!("tls-ca-cert-file {}", self.path("ca.crt")),
        ]
    }

    /// A server that speaks TLS at this port, and asks who comes. `None` where it was built without.
    fn server(&self, port: u16, builder: Builder) -> Option<Server> {
        match self.lines(port).iter().fold(builder, |builder, line| builder.line(line)).try_start() {
            Ok(server) => Some(server),
            Err(log) if log.contains("Failed finding TLS support") => {
                crate::common::skip("the server is built without TLS");
                None
            }
            Err(log) => panic!("{log}"),
        }
    }

    /// Who the dashboard is, and whom it trusts.
    fn options(&self) -> Vec<String> {
        let [ca, cert, key] = ["ca.crt", "client.crt", "client.key"].map(|name| self.path(name));
        ["--ca-file", &ca, "--cert-file", &cert, "--key-file", &key].map(String::from).to_vec()
    }
}

/// A certificate for this machine, of this common name.
fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_string()]).expect("an address");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Drop for Signed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn dashboard(words: &[&str], options: &[String]) -> Dashboard {
    let all: Vec<&str> = words.iter().copied().chain(options.iter().map(String::as_str)).collect();
    Dashboard::start(&all)
}

#[test]
fn a_server_that_speaks_tls_is_watched_and_acted_on() {
    let (signed, port) = (Signed::new(), free_port());
    let Some(server) = signed.server(port, Server::builder()) else { return };
    let mut q = server.queue("mail");
    q.push("x");
    for words in [vec![format!("rediss://127.0.0.1:{port}")], vec![format!("127.0.0.1:{port}"), "--tls".to_string()]] {
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--allow-actions"]).collect();
        let dashboard = dashboard(&words, &signed.options());
        let mut page = Page::open(&dashboard.base);
        page.sees("tr[data-queue='mail']", "1");
        let answer = crate::http::act(dashboard.port, "mail", "{\"do\":\"pause\"}");
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        wait_for("the pause", || q.unwatched().stat("paused") == 1);
        q.ok("RESUME", Vec::new());
    }
}

#[test]
fn a_primary_that_sentinels_name_is_reached_by_tls() {
    let (signed, port) = (Signed::new(), free_port());
    let Some(server) = signed.server(port, Server::builder().line("tls-replication yes")) else { return };
    server.queue("mail").push("x");
    let sentinel_port = free_port();
    let lines = [signed.lines(sentinel_port), vec!["tls-replication yes".to_string()]].concat();
    let _sentinel = Sentinel::start(port, &lines);
    let at = format!("127.0.0.1:{sentinel_port}");
    let dashboard = dashboard(&["--sentinel", &at, "--master", MASTER, "--tls"], &signed.options());
    let mut page = Page::open(&dashboard.base);
    page.sees("tr[data-queue='mail']", "1");
    page.sees("#foot", &format!("127.0.0.1:{port}"));
}

#[test]
fn a_cluster_is_reached_by_tls_at_every_node() {
    let (signed, ports) = (Signed::new(), [free_port(), free_port()]);
    let node = |port| signed.server(port, Server::builder().cluster_node().line("tls-cluster yes"));
    let [Some(one), Some(two)] = ports.map(node) else { return };
    one.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
    two.run(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
    one.run(&["CLUSTER", "MEET", "127.0.0.1", &ports[1].to_string(), &two.bus_port()]);
    // Their slots are 3300 and 15495.
    for (server, queue) in [(&one, "b"), (&two, "a")] {
        wait_for("the cluster to be up", || server.try_run(&["DQ.PUSH", queue, "x"]).is_ok());
    }
    let dashboard = dashboard(&[&format!("rediss://127.0.0.1:{}", ports[0])], &signed.options());
    let mut page = Page::open(&dashboard.base);
    page.sees("#foot", "2 primaries");
    for queue in ["a", "b"] {
        page.sees(&format!("tr[data-queue='{queue}']"), "1");
    }
}

#[test]
fn what_stands_in_the_way_of_tls_is_told() {
    let (signed, strangers, port) = (Signed::new(), Signed::new(), free_port());
    let Some(server) = signed.server(port, Server::builder()) else { return };
    let (by_tls, plain) = (format!("rediss://127.0.0.1:{port}"), format!("redis://127.0.0.1:{port}"));
    let (ca, strange) = (signed.path("ca.crt"), strangers.path("ca.crt"));
    let tells = |words: &[&str], what: &str| {
        let dashboard = Dashboard::start(words);
        Page::open(&dashboard.base).sees("#main", what);
    };
    tells(&[&by_tls, "--ca-file", &strange], "--ca-file names who signs for it");
    tells(&[&by_tls, "--ca-file", &ca], "--cert-file and --key-file");
    for url in [format!("rediss://127.0.0.1:{}", server.port), plain] {
        tells(&[&url], "One that speaks TLS needs rediss:// or --tls, others neither.");
    }
}

#[test]
fn a_wrong_word_about_tls_is_refused_and_says_why() {
    let signed = Signed::new();
    let (ca, cert, key) = (signed.path("ca.crt"), signed.path("client.crt"), signed.path("client.key"));
    let nothing = signed.path("nothing.crt");
    fs::write(Path::new(&nothing), "no certificate\n").expect("it is written");
    let url = "rediss://127.0.0.1:1";
    for (words, why) in [
        (vec!["redis://127.0.0.1:1", "--ca-file", &ca], "give --tls"),
        (vec!["rediss://127.0.0.1:1/#insecure"], "can be anybody"),
        (vec!["--sentinel", "rediss://127.0.0.1:1"], "--tls speaks TLS with it"),
        (vec![url, "--ca-file", "/nowhere.crt"], "/nowhere.crt: No such file"),
        (vec![url, "--ca-file", &nothing], "it has no “-----BEGIN … CERTIFICATE-----”"),
        (vec![url, "--cert-file", &cert, "--key-file", &ca], "it has no “-----BEGIN … PRIVATE KEY-----”"),
        (vec![url, "--cert-file", &cert], "--key-file"),
        (vec![url, "--key-file", &key], "--cert-file"),
    ] {
        let output = refused(&words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(why), "{words:?}: {told}");
    }
}

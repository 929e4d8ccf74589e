//! Who sent a request: the address, directly or from a trusted proxy, and the user.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{header, HeaderMap, HeaderName};
use base64::prelude::{Engine, BASE64_STANDARD};
use clap::ValueEnum;
use ipnet::IpNet;

use crate::visible::line;

/// The headers in which the trusted proxies say who asked them.
#[derive(Clone, Copy, ValueEnum)]
pub enum Forwarding {
    /// `X-Forwarded-For` and `X-Forwarded-Proto`
    XForwarded,
    /// `Forwarded`, RFC 7239
    Forwarded,
}

/// Characters of a user's name in the log.
const USER: usize = 80;

pub struct Proxies {
    pub trusted: Vec<IpNet>,
    pub forwarding: Forwarding,
    pub user_header: Option<HeaderName>,
    warned: AtomicBool,
}

#[derive(Clone)]
pub struct Client {
    /// Where the request comes from. It is the proxy's word if `proxy` is set.
    pub address: IpAddr,
    /// The trusted proxy.
    pub proxy: Option<IpAddr>,
    /// Whether the trusted proxy was asked by TLS.
    pub https: bool,
    pub user: Option<String>,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "address={}", self.address)?;
        if let Some(proxy) = self.proxy {
            write!(f, " proxy={proxy}")?;
        }
        write!(f, " user={:?}", self.user.as_deref().unwrap_or("-"))
    }
}

impl Proxies {
    pub fn new(trusted: Vec<IpNet>, forwarding: Forwarding, user_header: Option<HeaderName>) -> Proxies {
        Proxies { trusted, forwarding, user_header, warned: AtomicBool::new(false) }
    }

    pub fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> Client {
        let peer = peer.ip().to_canonical();
        let basic_user = basic(headers).map(|(user, _)| user).filter(|user| !user.is_empty());
        let shown = |user: &str| line(user.as_bytes(), USER);
        if !self.is_trusted(peer) {
            self.warn_once(peer, headers);
            return Client { address: peer, proxy: None, https: false, user: basic_user.as_deref().map(shown) };
        }
        let hops = match self.forwarding {
            Forwarding::XForwarded => x_forwarded(headers),
            Forwarding::Forwarded => forwarded(headers),
        };
        // The client can write what it likes into the header, and each proxy appends: only what trusted ones wrote counts.
        let mut client = Hop { address: Some(peer), https: false };
        for hop in hops.into_iter().rev() {
            let Some(address) = hop.address else { break };
            client = hop;
            if !self.is_trusted(address) {
                break;
            }
        }
        let given = self.user_header.as_ref().and_then(|name| headers.get(name));
        let user = given.map(|user| line(user.as_bytes(), USER)).filter(|user| !user.is_empty());
        Client {
            address: client.address.unwrap_or(peer),
            proxy: Some(peer),
            https: client.https,
            user: user.or_else(|| basic_user.as_deref().map(shown)),
        }
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }

    fn warn_once(&self, peer: IpAddr, headers: &HeaderMap) {
        let is_forwarded = headers.contains_key("x-forwarded-for") || headers.contains_key(header::FORWARDED);
        if is_forwarded && !self.warned.swap(true, Ordering::Relaxed) {
            eprintln!(
                "dq-dashboard: {peer} forwards requests but is not trusted, so all its users share one login limit: give \
                 --trusted-proxy {peer} if it is your proxy"
            );
        }
    }
}

/// The user and the password of HTTP Basic.
pub fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let line = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = line.split_once(' ')?;
    let bytes = BASE64_STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let text = String::from_utf8(bytes).ok()?;
    text.split_once(':').map(|(user, password)| (user.to_string(), password.to_string()))
}

/// One line of a header of forwarding; no address if it is none.
struct Hop {
    address: Option<IpAddr>,
    https: bool,
}

fn values<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default())
}

fn x_forwarded(headers: &HeaderMap) -> Vec<Hop> {
    // A chain of proxies appends: the first is what the browser used.
    let scheme = values(headers, "x-forwarded-proto").flat_map(|line| line.split(',')).next();
    let https = scheme.is_some_and(|scheme| scheme.trim().eq_ignore_ascii_case("https"));
    let addresses = values(headers, "x-forwarded-for").flat_map(|line| line.split(','));
    addresses.map(|text| Hop { address: address(text.trim()), https }).collect()
}

fn forwarded(headers: &HeaderMap) -> Vec<Hop> {
    let elements = values(headers, "forwarded").flat_map(|line| split(line, ','));
    let hop = |element: &str| {
        let mut hop = Hop { address: None, https: false };
        for (name, value) in split(element, ';').iter().filter_map(|pair| pair.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "for" => hop.address = address(value),
                "proto" => hop.https = value.eq_ignore_ascii_case("https"),
                _ => {}
            }
        }
        hop
    };
    elements.map(hop).collect()
}

/// Splits the text, but not within quotation marks.
fn split(text: &str, at: char) -> Vec<&str> {
    let mut quoted = false;
    let is_end = |letter: char| {
        quoted ^= letter == '"';
        letter == at && !quoted
    };
    text.split(is_end).collect()
}

/// Reads `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` and `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(forwarding: Forwarding, peer: &str, pairs: &[(&'static str, &str)]) -> Client {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("a network")).to_vec();
        let proxies = Proxies::new(trusted, forwarding, Some(HeaderName::from_static("x-user")));
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().expect("a value"));
        }
        proxies.client(format!("{peer}:5000").parse().expect("an address"), &headers)
    }

    fn told(forwarding: Forwarding, peer: &str, pairs: &[(&'static str, &str)]) -> (String, bool) {
        let client = client(forwarding, peer, pairs);
        (client.address.to_string(), client.https)
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        use Forwarding::XForwarded;
        let of = |peer, lines: &[(&'static str, &str)]| told(XForwarded, peer, lines);
        let xff = |text| ("x-forwarded-for", text);
        let plain = |address: &str| (address.to_string(), false);
        assert_eq!(of("192.0.2.9", &[xff("203.0.113.7"), ("x-forwarded-proto", "https")]), plain("192.0.2.9"));
        assert_eq!(of("10.0.0.1", &[xff("203.0.113.7")]), plain("203.0.113.7"));
        assert_eq!(of("10.0.0.1", &[]), plain("10.0.0.1"));
        // What the client wrote itself is to the left of what the proxy appended.
        assert_eq!(of("10.0.0.1", &[xff("1.2.3.4, 203.0.113.7")]), plain("203.0.113.7"));
        assert_eq!(of("10.0.0.1", &[xff("1.2.3.4"), xff("203.0.113.7")]), plain("203.0.113.7"));
        // Two proxies in a row.
        assert_eq!(of("10.0.0.1", &[xff("1.2.3.4, 203.0.113.7, 10.0.0.2")]), plain("203.0.113.7"));
        assert_eq!(of("10.0.0.1", &[xff("10.0.0.3, 10.0.0.2")]), plain("10.0.0.3"));
        assert_eq!(of("10.0.0.1", &[xff("203.0.113.7, nonsense, 10.0.0.2")]), plain("10.0.0.2"));
        assert_eq!(of("[fd00::1]", &[xff("[2001:db8::1]:99")]), plain("2001:db8::1"));
        assert_eq!(of("[::ffff:10.0.0.1]", &[xff("203.0.113.7:99")]), plain("203.0.113.7"));
        let https = of("10.0.0.1", &[xff("203.0.113.7"), ("x-forwarded-proto", "https, http")]);
        assert_eq!(https, ("203.0.113.7".to_string(), true));
        // The other header is the client's.
        assert_eq!(of("10.0.0.1", &[("forwarded", "for=1.2.3.4;proto=https")]), plain("10.0.0.1"));
    }

    #[test]
    fn the_header_of_the_rfc_is_read() {
        let of = |line| told(Forwarding::Forwarded, "10.0.0.1", &[("forwarded", line), ("x-forwarded-for", "1.2.3.4")]);
        assert_eq!(of("for=203.0.113.7;proto=https;by=10.0.0.1"), ("203.0.113.7".to_string(), true));
        assert_eq!(
            of("For=\"[2001:db8::1]:47011\";Proto=http, for=10.0.0.2;proto=https"),
            ("2001:db8::1".to_string(), false)
        );
        assert_eq!(of("host=\"a, for=1.2.3.4\";for=203.0.113.7"), ("203.0.113.7".to_string(), false));
        assert_eq!(of("for=_hidden"), ("10.0.0.1".to_string(), false));
    }

    #[test]
    fn a_user_is_the_proxys_or_the_one_of_basic() {
        let of = |peer, lines: &[(&'static str, &str)]| client(Forwarding::XForwarded, peer, lines).to_string();
        let basic = ("authorization", "Basic YW5uOnNlY3JldA==");
        assert_eq!(of("192.0.2.9", &[basic, ("x-user", "root")]), "address=192.0.2.9 user=\"ann\"");
        let lines = [basic, ("x-user", "bob"), ("x-forwarded-for", "203.0.113.7")];
        assert_eq!(of("10.0.0.1", &lines), "address=203.0.113.7 proxy=10.0.0.1 user=\"bob\"");
        assert_eq!(of("192.0.2.9", &[]), "address=192.0.2.9 user=\"-\"");
    }
}

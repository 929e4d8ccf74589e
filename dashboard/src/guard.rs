//! Who may see the page, and which requests are those of the page itself.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::http::{header, HeaderMap};
use base64::prelude::{Engine, BASE64_URL_SAFE_NO_PAD};

use crate::client::{basic, Client};
use crate::tries::{Tries, Verdict};

/// The header that the page's own script sends with what changes something: no other site can have a browser add it.
pub const OWN_HEADER: &str = "x-dq-dashboard";
/// Sessions that are open at one time; the oldest ends for a new one.
const SESSIONS: usize = 200;
const SESSION_LASTS: Duration = Duration::from_secs(7 * 24 * 3600);

/// Whether somebody may see the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Known {
    Yes,
    /// No session and no password were given.
    No,
    WrongPassword,
    TooMany,
}

pub struct Guard {
    password: Option<String>,
    /// The name of the cookie; a browser does not tell ports apart, and two dashboards on one machine must not share it.
    cookie: String,
    /// Names under which the page may be asked for.
    names: Vec<String>,
    sessions: Mutex<Vec<(String, Instant)>>,
    tries: Tries,
    /// Cookies are `Secure` even if no proxy says that it was asked by TLS.
    secure: bool,
}

impl Guard {
    pub fn new(password: Option<String>, names: &[String], port: u16) -> Guard {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Guard {
            password,
            cookie: format!("dq_session_{port}"),
            names,
            sessions: Mutex::default(),
            tries: Tries::new(),
            secure: false,
        }
    }

    /// Makes all cookies `Secure`.
    pub fn secure(self, secure: bool) -> Guard {
        Guard { secure, ..self }
    }

    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Whether the request names a host that is this one. A name that an attacker let point to this machine is not.
    pub fn is_host(&self, headers: &HeaderMap) -> bool {
        let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
        let name = without_port(host).to_ascii_lowercase();
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok() || name == "localhost" || self.names.contains(&name)
    }

    /// Whether the page's own script sent it, and no other site's.
    pub fn is_own(&self, headers: &HeaderMap) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let site = text("sec-fetch-site").is_none_or(|site| site == "same-origin");
        let origin = text("origin")
            .is_none_or(|origin| origin.split_once("://").is_some_and(|(_, host)| Some(host) == text("host")));
        site && origin && headers.contains_key(OWN_HEADER)
    }

    /// Whether the request comes with the cookie of a session, or with the password itself.
    pub async fn knows(&self, client: &Client, headers: &HeaderMap) -> Known {
        if self.password.is_none() || self.has_session(headers) {
            return Known::Yes;
        }
        match basic(headers) {
            Some((_, password)) => self.judge(client, &password).await,
            None => Known::No,
        }
    }

    /// Opens a session for the right password; gives the cookie.
    pub async fn log_in(&self, client: &Client, password: &str) -> (Known, Option<String>) {
        let known = self.judge(client, password).await;
        let cookie = if known == Known::Yes { self.open_session(client) } else { None };
        (known, cookie)
    }

    fn open_session(&self, client: &Client) -> Option<String> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).ok()?;
        let token = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let mut sessions = self.sessions.lock().unwrap_or_else(|e| e.into_inner());
        sessions.retain(|(_, since)| since.elapsed() < SESSION_LASTS);
        if sessions.len() >= SESSIONS {
            sessions.remove(0);
        }
        sessions.push((token.clone(), Instant::now()));
        Some(self.cookie(client, &token, SESSION_LASTS.as_secs()))
    }

    /// Ends the session; gives the cookie that makes the browser forget it.
    pub fn log_out(&self, client: &Client, headers: &HeaderMap) -> String {
        let tokens = self.tokens(headers);
        let mut sessions = self.sessions.lock().unwrap_or_else(|e| e.into_inner());
        sessions.retain(|(open, _)| !tokens.iter().any(|token| same(token, open)));
        self.cookie(client, "", 0)
    }

    fn has_session(&self, headers: &HeaderMap) -> bool {
        let tokens = self.tokens(headers);
        let sessions = self.sessions.lock().unwrap_or_else(|e| e.into_inner());
        sessions
            .iter()
            .any(|(open, since)| since.elapsed() < SESSION_LASTS && tokens.iter().any(|token| same(token, open)))
    }

    fn cookie(&self, client: &Client, token: &str, seconds: u64) -> String {
        let secure = if self.secure || client.https { "; Secure" } else { "" };
        format!("{}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}", self.cookie)
    }

    fn tokens(&self, headers: &HeaderMap) -> Vec<String> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, token)| *name == self.cookie && !token.is_empty())
            .map(|(_, token)| token.to_string())
            .collect()
    }

    async fn judge(&self, client: &Client, given: &str) -> Known {
        let Some(password) = &self.password else { return Known::Yes };
        match self.tries.judge(client.address, || same(password, given)).await {
            Verdict::Right => Known::Yes,
            Verdict::Wrong => Known::WrongPassword,
            Verdict::TooMany => Known::TooMany,
        }
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn same(one: &str, two: &str) -> bool {
    let differ = one.bytes().zip(two.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == two.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value"))).collect()
    }

    #[test]
    fn a_foreign_name_that_points_here_is_refused() {
        let guard = Guard::new(None, &["Queues.example.com".to_string()], 8380);
        for host in [
            "127.0.0.1:8380",
            "localhost:8380",
            "[::1]:8380",
            "10.0.0.5",
            "queues.example.com",
            "queues.example.com:443",
        ] {
            assert!(guard.is_host(&headers(&[("host", host)])), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:8380", "localhost.evil.example", ""] {
            assert!(!guard.is_host(&headers(&[("host", host)])), "{host}");
        }
        assert!(!guard.is_host(&headers(&[])));
    }

    #[test]
    fn only_the_page_itself_may_change_something() {
        let guard = Guard::new(None, &[], 8380);
        let own = ("x-dq-dashboard", "1");
        let host = ("host", "127.0.0.1:8380");
        assert!(guard.is_own(&headers(&[
            host,
            own,
            ("origin", "http://127.0.0.1:8380"),
            ("sec-fetch-site", "same-origin")
        ])));
        assert!(guard.is_own(&headers(&[host, own])));
        assert!(!guard.is_own(&headers(&[host])));
        assert!(!guard.is_own(&headers(&[host, own, ("origin", "http://evil.example")])));
        assert!(!guard.is_own(&headers(&[host, own, ("origin", "null")])));
        for site in ["cross-site", "same-site", "none"] {
            assert!(!guard.is_own(&headers(&[host, own, ("sec-fetch-site", site)])), "{site}");
        }
    }

    #[tokio::test]
    async fn a_session_begins_with_the_password_and_ends_when_it_is_told() {
        let guard = Guard::new(Some("secret".to_string()), &[], 8380);
        let client = Client { address: IpAddr::from([10, 0, 0, 1]), proxy: None, https: false, user: None };
        let knows = async |pairs: &[(&'static str, &str)]| guard.knows(&client, &headers(pairs)).await;
        assert_eq!(knows(&[]).await, Known::No);
        assert_eq!(guard.log_in(&client, "Secret").await, (Known::WrongPassword, None));
        let cookie = guard.log_in(&client, "secret").await.1.expect("it is the password");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("Secure"));
        let cookie = cookie.split(';').next().expect("a pair");
        assert_eq!(knows(&[("cookie", cookie)]).await, Known::Yes);
        guard.log_out(&client, &headers(&[("cookie", cookie)]));
        assert_eq!(knows(&[("cookie", cookie)]).await, Known::No);
        assert_eq!(knows(&[("authorization", "Basic eDpzZWNyZXQ=")]).await, Known::Yes);
        assert_eq!(knows(&[("authorization", "Basic eDp4")]).await, Known::WrongPassword);
        assert_eq!(knows(&[("cookie", "dq_session_8380=")]).await, Known::No);
    }
}

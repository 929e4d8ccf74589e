//! Requests as no browser would send them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let found = self
            .head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().to_string())
    }
}

/// One request, with these header lines over the usual ones.
pub fn request(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("the time-out is set");
    let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "host") {
        text.push_str(&format!("host: 127.0.0.1:{port}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{text}\r\n{body}").as_bytes()).expect("it is sent");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("it answers");
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head ends");
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    assert!(!chunked, "answers have a length");
    Answer { status, head, body: all[end + 4..].to_vec() }
}

pub fn get(port: u16, path: &str) -> Answer {
    request(port, "GET", path, &[], "")
}

/// What the page's own script sends.
pub fn act(port: u16, queue: &str, body: &str) -> Answer {
    let headers = [("x-dq-dashboard", "1"), ("content-type", "application/json")];
    request(port, "POST", &format!("/api/act?queue={queue}"), &headers, body)
}

//! A client that costs little: pipelines encoded beforehand, raw sockets, replies that are stepped over.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Appends one command in RESP.
pub fn encode(to: &mut Vec<u8>, words: &[&[u8]]) {
    write!(to, "*{}\r\n", words.len()).expect("a vector takes all");
    for word in words {
        write!(to, "${}\r\n", word.len()).expect("a vector takes all");
        to.extend_from_slice(word);
        to.extend_from_slice(b"\r\n");
    }
}

/// Commands that are sent in one write.
#[derive(Default)]
pub struct Batch {
    pub bytes: Vec<u8>,
    pub replies: usize,
}

impl Batch {
    pub fn add(&mut self, words: &[&[u8]]) {
        encode(&mut self.bytes, words);
        self.replies += 1;
    }

    pub fn of(words: &[&[u8]]) -> Batch {
        let mut batch = Batch::default();
        batch.add(words);
        batch
    }
}

/// The line that begins at `at`, without its end, and where the next one begins; `None` where it is not all there.
fn line(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let end = at + bytes.get(at..)?.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[at..end - 1], end + 1))
}

fn number(text: &[u8]) -> i64 {
    let (sign, digits) = text.strip_prefix(b"-").map_or((1, text), |digits| (-1, digits));
    sign * digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
}

/// Where the reply that begins at `at` ends; `None` where it is not all there.
pub fn skip(bytes: &[u8], at: usize) -> Option<usize> {
    let (head, mut next) = line(bytes, at)?;
    match head[0] {
        b'+' | b':' => Some(next),
        b'$' => {
            let len = usize::try_from(number(&head[1..])).ok();
            let end = len.map_or(next, |len| next + len + 2);
            (end <= bytes.len()).then_some(end)
        }
        b'*' => {
            for _ in 0..number(&head[1..]) {
                next = skip(bytes, next)?;
            }
            Some(next)
        }
        _ => panic!("the server said {}", String::from_utf8_lossy(head)),
    }
}

/// Every bulk string of replies, at any depth.
pub fn bulks(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some((head, next)) = line(bytes, at) {
        at = next;
        if head[0] == b'$' {
            if let Ok(len) = usize::try_from(number(&head[1..])) {
                found.push(&bytes[at..at + len]);
                at += len + 2;
            }
        }
    }
    found
}

pub struct Wire {
    pub stream: TcpStream,
    input: Vec<u8>,
}

impl Wire {
    pub fn open(port: u16) -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_nodelay(true).expect("the socket takes options");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("the socket takes options");
        Wire { stream, input: vec![0; 1 << 20] }
    }

    /// Sends a batch and steps over its replies, which are added to `kept` where that is asked for.
    pub fn run(&mut self, batch: &Batch, mut kept: Option<&mut Vec<u8>>) {
        self.stream.write_all(&batch.bytes).expect("the server reads");
        let (mut left, mut begun, mut filled) = (batch.replies, 0, 0);
        while left > 0 {
            if filled == self.input.len() {
                self.input.resize(filled * 2, 0);
            }
            let got = self.stream.read(&mut self.input[filled..]).expect("the server answers");
            assert!(got > 0, "the server closed the connection");
            filled += got;
            while left > 0 {
                let Some(end) = skip(&self.input[..filled], begun) else { break };
                (begun, left) = (end, left - 1);
            }
        }
        assert_eq!(begun, filled, "a reply too many");
        if let Some(kept) = &mut kept {
            kept.extend_from_slice(&self.input[..filled]);
        }
    }

    pub fn run_all(&mut self, batches: &[Batch]) {
        batches.iter().for_each(|batch| self.run(batch, None));
    }

    /// One command and its raw reply.
    pub fn ask(&mut self, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut kept = Vec::new();
        self.run(&Batch::of(&words), Some(&mut kept));
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// A reply of one integer; 0 where there is none.
    pub fn count(&mut self, words: &[&str]) -> i64 {
        self.ask(words).trim_end().strip_prefix(':').map_or(0, |count| number(count.as_bytes()))
    }

    /// A reply of one text.
    pub fn text(&mut self, words: &[&str]) -> String {
        let reply = self.ask(words);
        bulks(reply.as_bytes()).first().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    }

    /// A number of INFO.
    pub fn info(&mut self, section: &str, field: &str) -> f64 {
        let all = self.text(&["INFO", section]);
        let value = all.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("INFO has no {field}"))
    }

    /// The processor time that the server has taken, in µs.
    pub fn cpu_us(&mut self) -> f64 {
        let all = self.text(&["INFO", "cpu"]);
        let field = |name: &str| {
            let value = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse::<f64>().ok()).expect("INFO tells the processor time")
        };
        (field("used_cpu_user") + field("used_cpu_sys")) * 1e6
    }

    /// The server's processor time for `act`, in µs.
    pub fn cost(&mut self, act: impl FnOnce(&mut Wire)) -> f64 {
        let before = self.cpu_us();
        act(self);
        self.cpu_us() - before
    }
}

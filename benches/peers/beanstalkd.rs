//! beanstalkd through a bare socket. Its clients can only put, reserve and delete one job by one command, but many
//! commands can be under way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::late;
use crate::peer::{Outcome, Peer, Sends};
use crate::ways::payloads;
use crate::PAYLOAD;

struct Line {
    orders: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Line {
    fn open(port: u16) -> Line {
        let orders = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        orders.set_nodelay(true).expect("the socket takes options");
        let answers = BufReader::with_capacity(1 << 16, orders.try_clone().expect("the socket is doubled"));
        Line { orders, answers }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.orders.write_all(bytes).expect("the server reads");
    }

    /// The words of the next answer behind its first, which is `word`.
    fn expect(&mut self, word: &str) -> Vec<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the server answers");
        let mut words = line.split_whitespace().map(String::from);
        assert_eq!(words.next().as_deref(), Some(word), "beanstalkd said {line}");
        words.collect()
    }

    /// A job that was reserved: its id and its payload.
    fn reserved(&mut self) -> (String, Vec<u8>) {
        let words = self.expect("RESERVED");
        let length: usize = words[1].parse().expect("the second word is a length");
        let mut payload = vec![0; length + 2];
        self.answers.read_exact(&mut payload).expect("the server answers");
        payload.truncate(length);
        (words[0].clone(), payload)
    }
}

fn add_put(bytes: &mut Vec<u8>, payload: &[u8], delay_ms: u64) {
    write!(bytes, "put 0 {} 3600 {}\r\n", delay_ms / 1000, payload.len()).expect("a vector takes all");
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(b"\r\n");
}

pub struct Pipeline {
    port: u16,
    line: Line,
    depth: usize,
    payloads: Vec<Vec<u8>>,
}

impl Pipeline {
    pub fn open(port: u16, depth: usize) -> Pipeline {
        Pipeline { port, line: Line::open(port), depth, payloads: payloads(PAYLOAD, 500) }
    }

    fn batches(&self, jobs: usize) -> impl Iterator<Item = (usize, usize)> {
        let depth = self.depth;
        (0..jobs).step_by(depth).map(move |from| (from, jobs.min(from + depth)))
    }
}

impl Peer for Pipeline {
    fn push(&mut self, jobs: usize, delay_ms: u64) -> Outcome {
        for (from, to) in self.batches(jobs) {
            let mut bytes = Vec::new();
            (from..to).for_each(|i| add_put(&mut bytes, &self.payloads[i % self.payloads.len()], delay_ms));
            self.line.send(&bytes);
            (from..to).for_each(|_| drop(self.line.expect("INSERTED")));
        }
        Ok(())
    }

    fn work(&mut self, jobs: usize) -> Outcome {
        for (from, to) in self.batches(jobs) {
            self.line.send(&b"reserve-with-timeout 5\r\n".repeat(to - from));
            let ids: Vec<String> = (from..to).map(|_| self.line.reserved().0).collect();
            let deletes: String = ids.iter().map(|id| format!("delete {id}\r\n")).collect();
            self.line.send(deletes.as_bytes());
            ids.iter().for_each(|_| drop(self.line.expect("DELETED")));
        }
        Ok(())
    }

    fn late(&mut self, sends: Sends) -> Outcome<Option<Vec<f64>>> {
        let mut worker = Line::open(self.port);
        let send = |payload: &[u8], delay_ms: u64| {
            let mut bytes = Vec::new();
            add_put(&mut bytes, payload, delay_ms);
            self.line.send(&bytes);
            self.line.expect("INSERTED");
        };
        let mut held: Option<String> = None;
        let receive = move || {
            if let Some(id) = held.take() {
                worker.send(format!("delete {id}\r\n").as_bytes());
                worker.expect("DELETED");
            }
            worker.send(b"reserve\r\n");
            let (id, payload) = worker.reserved();
            held = Some(id);
            payload
        };
        Ok(Some(late::measure(sends, send, receive)))
    }
}

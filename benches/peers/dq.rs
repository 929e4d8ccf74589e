//! DQ through bare sockets, beside those peers whose client is one too.

use crate::late;
use crate::peer::{Outcome, Peer, Sends};
use crate::swarm::Swarm;
use crate::ways::payloads;
use crate::wire::{bulks, Batch, Wire};
use crate::PAYLOAD;

const QUEUE: &[u8] = b"peers";

fn push_of(batch: &mut Batch, payload: &[u8], delay_ms: u64) {
    batch.add(&[b"DQ.PUSH", QUEUE, payload, b"DELAY", delay_ms.to_string().as_bytes()]);
}

fn ack_of(batch: &mut Batch, receipts: &[&[u8]]) {
    let words: Vec<&[u8]> = [b"DQ.ACK", QUEUE].into_iter().chain(receipts.iter().copied()).collect();
    batch.add(&words);
}

/// Several connections, each with one command under way.
pub struct Crowd {
    swarm: Swarm,
    payloads: Vec<Vec<u8>>,
}

impl Crowd {
    pub fn open(port: u16, connections: usize) -> Crowd {
        Crowd { swarm: Swarm::open(port, connections), payloads: payloads(PAYLOAD, 500) }
    }
}

impl Peer for Crowd {
    fn push(&mut self, jobs: usize, delay_ms: u64) -> Outcome {
        let push = |i: usize| {
            let mut batch = Batch::default();
            push_of(&mut batch, &self.payloads[i % self.payloads.len()], delay_ms);
            batch.bytes
        };
        self.swarm.run_each(&(0..jobs).map(push).collect::<Vec<_>>());
        Ok(())
    }

    fn work(&mut self, jobs: usize) -> Outcome {
        let ack = |reply: &[u8]| {
            let mut batch = Batch::default();
            ack_of(&mut batch, &[bulks(reply)[0]]);
            batch.bytes
        };
        self.swarm.run_pairs(jobs, &Batch::of(&[b"DQ.CLAIM", QUEUE]).bytes, &ack);
        Ok(())
    }
}

/// What a life costs that is nothing but three commands of no work: what the server has to do for its sockets.
pub struct Pings(Swarm);

impl Pings {
    pub fn open(port: u16, connections: usize) -> Pings {
        Pings(Swarm::open(port, connections))
    }
}

impl Peer for Pings {
    fn push(&mut self, jobs: usize, _delay_ms: u64) -> Outcome {
        self.0.run_each(&vec![Batch::of(&[b"PING"]).bytes; jobs]);
        Ok(())
    }

    fn work(&mut self, jobs: usize) -> Outcome {
        self.0.run_pairs(jobs, &Batch::of(&[b"PING"]).bytes, &|_| Batch::of(&[b"PING"]).bytes);
        Ok(())
    }

    fn has_jobs(&self) -> bool {
        false
    }
}

/// One connection, with pipelines of single commands or with one command for many jobs.
pub struct Pipeline {
    port: u16,
    wire: Wire,
    depth: usize,
    /// Jobs of an MPUSH, of a claim and of an ack; 1: single commands.
    count: usize,
    payloads: Vec<Vec<u8>>,
}

impl Pipeline {
    pub fn open(port: u16, depth: usize, count: usize) -> Pipeline {
        Pipeline { port, wire: Wire::open(port), depth, count, payloads: payloads(PAYLOAD, 500) }
    }

    /// So many claims in one pipeline; the receipts.
    fn claim(&mut self, claims: usize) -> Vec<Vec<u8>> {
        let (mut batch, mut kept, count) = (Batch::default(), Vec::new(), self.count.to_string());
        (0..claims).for_each(|_| batch.add(&[b"DQ.CLAIM", QUEUE, b"COUNT", count.as_bytes()]));
        self.wire.run(&batch, Some(&mut kept));
        // Receipt, payload and id of each job.
        bulks(&kept).chunks_exact(3).map(|job| job[0].to_vec()).collect()
    }

    fn push_in_pipeline(&mut self, jobs: usize, delay_ms: u64) {
        for from in (0..jobs).step_by(self.depth) {
            let mut batch = Batch::default();
            for i in from..jobs.min(from + self.depth) {
                push_of(&mut batch, &self.payloads[i % self.payloads.len()], delay_ms);
            }
            self.wire.run(&batch, None);
        }
    }

    fn push_in_bulk(&mut self, jobs: usize, delay_ms: u64) {
        let delay = delay_ms.to_string();
        for from in (0..jobs).step_by(self.count) {
            let mut words: Vec<&[u8]> = vec![b"DQ.MPUSH", QUEUE, b"DELAY", delay.as_bytes(), b"PAYLOADS"];
            let some = from..jobs.min(from + self.count);
            words.extend(some.map(|i| self.payloads[i % self.payloads.len()].as_slice()));
            self.wire.run(&Batch::of(&words), None);
        }
    }
}

impl Peer for Pipeline {
    fn push(&mut self, jobs: usize, delay_ms: u64) -> Outcome {
        if self.count == 1 {
            self.push_in_pipeline(jobs, delay_ms);
        } else {
            self.push_in_bulk(jobs, delay_ms);
        }
        Ok(())
    }

    fn work(&mut self, jobs: usize) -> Outcome {
        // As many jobs in a pipeline as pushes, give or take one claim.
        let claims = self.depth.div_ceil(self.count);
        let mut left = jobs;
        while left > 0 {
            let receipts = self.claim(claims);
            if receipts.is_empty() {
                return Err(format!("{left} jobs are not due"));
            }
            left -= receipts.len();
            let mut acks = Batch::default();
            let receipts: Vec<&[u8]> = receipts.iter().map(Vec::as_slice).collect();
            receipts.chunks(self.count).for_each(|some| ack_of(&mut acks, some));
            self.wire.run(&acks, None);
        }
        Ok(())
    }

    fn late(&mut self, sends: Sends) -> Outcome<Option<Vec<f64>>> {
        let mut worker = Wire::open(self.port);
        let claim = Batch::of(&[b"DQ.CLAIM", QUEUE, b"BLOCK", b"20000"]);
        let send = |payload: &[u8], delay_ms: u64| {
            let mut batch = Batch::default();
            push_of(&mut batch, payload, delay_ms);
            self.wire.run(&batch, None);
        };
        let mut receipt: Option<Vec<u8>> = None;
        let receive = move || {
            if let Some(receipt) = &receipt {
                let mut ack = Batch::default();
                ack_of(&mut ack, &[receipt]);
                worker.run(&ack, None);
            }
            let mut kept = Vec::new();
            worker.run(&claim, Some(&mut kept));
            let job = bulks(&kept);
            receipt = Some(job[0].to_vec());
            job[1].to_vec()
        };
        Ok(Some(late::measure(sends, send, receive)))
    }
}

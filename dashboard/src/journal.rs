//! What was done and what was refused, a line each in the error output.

use std::fmt;
use std::io::Write;
use std::sync::Mutex;

use crate::address::{Addresses, Rate};
use crate::client::Client;

/// Lines about refusals of one address: a stranger must not fill the disk.
const RATE: Rate = Rate { burst: 20.0, per_second: 2.0 };

pub struct Journal {
    /// How many lines were left out since the last one of the address.
    left_out: Mutex<Addresses<u64>>,
}

impl Journal {
    pub fn new() -> Journal {
        Journal { left_out: Mutex::new(Addresses::new(RATE)) }
    }

    /// A request by somebody who may make it.
    pub fn done(&self, event: &str, client: &Client, rest: &str) {
        let line = format!("{event}: {client} {rest}");
        write(format_args!("{}", line.trim_end()));
    }

    /// A request that was refused, perhaps a stranger's.
    pub fn refused(&self, event: &str, client: &Client, rest: &str) {
        let mut addresses = self.left_out.lock().unwrap_or_else(|e| e.into_inner());
        let (bucket, left_out) = addresses.entry(client.address);
        if !bucket.take() {
            *left_out += 1;
            return;
        }
        let left_out = std::mem::take(left_out);
        drop(addresses);
        match left_out {
            0 => write(format_args!("{event}: {client} {rest}")),
            _ => write(format_args!("{event}: {client} {rest} not-logged={left_out}")),
        }
    }
}

/// Writes a line; a closed error output must not end the request.
fn write(line: fmt::Arguments) {
    let _ = writeln!(std::io::stderr(), "dq-dashboard: {line}");
}

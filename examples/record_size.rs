//! Prints how large a stored job is, beside the same job in JSON: the table in the README.
//!
//! `cargo run --example record_size`
//!
//! The JSON is as small as JSON gets: no blanks, and a value that is the default is left out.

use dq::core::record::{Job, Letter, Reason};

/// Bytes of payload in every case.
const PAYLOAD: usize = 100;

/// A job in JSON, built up field by field.
struct Json(String);

impl Json {
    fn of(job: &Job) -> Json {
        let mut json = Json("{\"version\":1".into());
        json.text("payload", Some(job.payload));
        json.number("birth", job.birth);
        json.number("failures", counted(job.failures));
        json.number("lapses", counted(job.lapses));
        json.number("releases", counted(job.releases));
        json.number("claims", counted(job.claims));
        json.0.push_str(if job.late { ",\"late\":true" } else { "" });
        json.number("retries", job.retries.map(u64::from));
        json.number("lease_ms", job.lease);
        json.number("backoff_base_ms", job.backoff_base);
        json.number("backoff_cap_ms", job.backoff_cap);
        json.text("error", job.error);
        json.text("stack", job.stack);
        json.0.push('}');
        json
    }

    fn letter(letter: &Letter) -> Json {
        let job = Json::of(&letter.job).0;
        Json(format!("{{\"version\":1,\"reason\":\"{}\",\"job\":{job}}}", letter.reason.as_str()))
    }

    fn number(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.0.push_str(&format!(",\"{name}\":{value}"));
        }
    }

    fn text(&mut self, name: &str, value: Option<&[u8]>) {
        let Some(value) = value else { return };
        let text = match std::str::from_utf8(value) {
            Ok(text) => text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"),
            Err(_) => base64(value),
        };
        self.0.push_str(&format!(",\"{name}\":\"{text}\""));
    }
}

fn counted(count: u32) -> Option<u64> {
    Some(u64::from(count)).filter(|count| *count > 0)
}

/// What JSON needs for bytes that are no text; only its length counts here.
fn base64(bytes: &[u8]) -> String {
    "A".repeat(bytes.len().div_ceil(3) * 4)
}

fn main() {
    let (text, binary) = ([b'x'; PAYLOAD], [0xFF; PAYLOAD]);
    let line = "  File \"/srv/app/mailer.py\", line 118, in send\n    raise SendError(reply)\n";
    let stack = line.repeat(14);
    let error = b"SendError: 451 try again later";

    let fresh = Job { payload: &text, ..Job::default() };
    let own_id = Job { birth: Some(0x6880_8BFE_D00D_0042), ..fresh.clone() };
    let own_values = Job {
        retries: Some(20),
        lease: Some(120_000),
        backoff_base: Some(5_000),
        backoff_cap: Some(600_000),
        ..fresh.clone()
    };
    let failed = Job { failures: 3, claims: 3, error: Some(error), ..fresh.clone() };
    let with_stack = Job { stack: Some(stack.as_bytes()), ..failed.clone() };
    let letter = Letter::new(Reason::RetriesExhausted, Job { retries: Some(3), ..with_stack.clone() });

    println!(
        "| a payload of {PAYLOAD} bytes, and | record | JSON | all but the payload | all but payload, error, stack |"
    );
    println!("| --- | --: | --: | --: | --: |");
    row("nothing else", &fresh);
    row("nothing else; bytes that are no text", &Job { payload: &binary, ..fresh.clone() });
    row("an ID of the producer's", &own_id);
    row("RETRIES, LEASE and BACKOFF of its own", &own_values);
    row("three failures, with an error of 30 bytes", &failed);
    row(&format!("the same, with a stack of {} bytes", stack.len()), &with_stack);
    print("the same as a dead letter", letter.encode().to_vec().len(), Json::letter(&letter).0.len(), &letter.job);
}

fn row(name: &str, job: &Job) {
    print(name, job.encode().to_vec().len(), Json::of(job).0.len(), job);
}

fn print(name: &str, record: usize, json: usize, job: &Job) {
    let texts = job.error.map_or(0, <[u8]>::len) + job.stack.map_or(0, <[u8]>::len);
    let saved = |shared: usize| {
        let (record, json) = (record - shared, json - shared);
        format!("{record} against {json}: {} % less", 100 * (json - record) / json)
    };
    println!("| {name} | {record} | {json} | {} | {} |", saved(PAYLOAD), saved(PAYLOAD + texts));
}

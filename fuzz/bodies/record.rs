//! Job records and dead letters: read from any bytes, and made of them.

use dq::core::record::{bury_record, Job, Letter, Reason, Version};

pub fn run(data: &[u8]) {
    read(data);
    let mut bytes = Bytes(data);
    let reason = Reason::ALL[usize::from(bytes.byte()) % Reason::ALL.len()];
    made(&job(&mut bytes), reason);
}

/// What can be read is written in one way, and that is read as the same.
fn read(data: &[u8]) {
    if let Ok(job) = Job::decode(data) {
        let record = job.encode().to_vec();
        assert_eq!(Job::decode(&record), Ok(job.clone()));
        assert_eq!(job.encode().parts().concat(), record);
        assert!(record.len() <= data.len() + 3, "a text becomes bytes, whose head is up to three longer");
    }
    if let Ok(letter) = Letter::decode(data) {
        let again = letter.encode().to_vec();
        assert_eq!(Letter::decode(&again), Ok(letter));
    }
}

/// What is written is read as the same, in a letter too.
fn made(job: &Job, reason: Reason) {
    let record = job.encode().to_vec();
    assert_eq!(Job::decode(&record).as_ref(), Ok(job));
    let letter = Letter::new(reason, job.clone());
    let written = letter.encode().to_vec();
    assert_eq!(Letter::decode(&written), Ok(letter));
    assert_eq!(bury_record(reason, &record).to_vec(), written);
    for end in [record.len() / 2, record.len() - 1] {
        assert!(Job::decode(&record[..end]).is_err(), "a record that was cut");
    }
    assert!(Job::decode(&[&record[..], b"\0"].concat()).is_err(), "a record with more behind it");
}

/// Values that are taken from the bytes one after the other, zeros when they are used up.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// A number of up to so many bytes, as long as the first of them says.
    fn number(&mut self, most: usize) -> u64 {
        let length = usize::from(self.byte()) % (most + 1);
        self.take(length).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn count(&mut self) -> u32 {
        u32::try_from(self.number(4)).unwrap_or(u32::MAX)
    }

    fn text(&mut self) -> &'a [u8] {
        let length = self.number(2) as usize;
        self.take(length)
    }

    fn option<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() % 2 == 1).then(|| value(self))
    }
}

fn job<'a>(bytes: &mut Bytes<'a>) -> Job<'a> {
    Job {
        version: Version,
        payload: bytes.text(),
        birth: bytes.option(|bytes| bytes.number(8)).filter(|birth| *birth != 0),
        failures: bytes.count(),
        lapses: bytes.count(),
        releases: bytes.count(),
        claims: bytes.count(),
        late: bytes.byte() % 2 == 1,
        retries: bytes.option(Bytes::count),
        lease: bytes.option(|bytes| bytes.number(8)),
        backoff_base: bytes.option(|bytes| bytes.number(8)),
        backoff_cap: bytes.option(|bytes| bytes.number(8)),
        error: bytes.option(Bytes::text),
        stack: bytes.option(Bytes::text),
    }
}

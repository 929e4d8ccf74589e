//! Receipts and ids. The bytes are a receipt or an id as they are, and the fields of one.

use dq::core::ids::{self, IdBuf, IdMaker};
use dq::core::receipt::{write, Receipt, Tenure, MAX_RECEIPT};

pub fn run(data: &[u8]) {
    read(data);
    let (numbers, id) = data.split_at(data.len().min(12));
    let number = |from: usize, to: usize| {
        let bytes = numbers.get(from..to.min(numbers.len())).unwrap_or_default();
        bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    made(id, number(0, 8), number(8, 12) as u32);
    grows(data);
}

/// What is read is spelled in one way.
fn read(data: &[u8]) {
    if let Some(receipt) = Receipt::parse(data) {
        assert_eq!(&write(&receipt.id, receipt.birth, receipt.claim, receipt.tenure)[..], data);
        assert!(data.len() <= MAX_RECEIPT && receipt.claim > 0 && ids::valid_caller_id(&receipt.id));
    }
    if let Some(number) = ids::decode(data) {
        assert_eq!(&ids::encode(number)[..], data);
    }
    assert_eq!(
        ids::valid_caller_id(data),
        (1..=128).contains(&data.len()) && data.iter().all(|b| (0x21..0x7f).contains(b))
    );
}

/// What is written is read as the same, is safe to quote, and names nothing else.
fn made(id: &[u8], number: u64, claim: u32) {
    let own = ids::encode(number);
    let birth = Some(number).filter(|birth| *birth != 0);
    let tenure = (!number.is_multiple_of(5)).then(|| Tenure::new(number as u32));
    for (id, birth) in [(id, birth), (id, None), (&own[..], birth), (&own[..], None)] {
        let text = write(id, birth, claim, tenure);
        let expected = IdBuf::new(id).filter(|id| claim > 0 && ids::valid_caller_id(id));
        assert_eq!(Receipt::parse(&text), expected.clone().map(|id| Receipt { id, birth, claim, tenure }));
        if expected.is_some() {
            assert!(text.len() <= MAX_RECEIPT && text.iter().all(|b| b.is_ascii_graphic() && !b"\"'\\".contains(b)));
        }
    }
}

/// Each id is greater than the one before, whatever the clock does and whatever ids are seen.
fn grows(data: &[u8]) {
    let mut maker = IdMaker::new(data.first().copied().unwrap_or(0));
    let (mut now, mut newest) = (1_700_000_000_000_u64, 0);
    for step in data.chunks(3).take(200) {
        match *step {
            [0..=99, by, _] => now = now.saturating_sub(u64::from(by)),
            [100..=199, by, many] => now += u64::from(by) * u64::from(many),
            [drawn, ahead, _] => {
                let seen = IdMaker::new(drawn).next(now + u64::from(ahead));
                maker.observe(seen, now);
                newest = newest.max(seen);
            }
            _ => {}
        }
        let next = maker.next(now);
        assert!(next > newest && ids::ms_of(next) >= now);
        newest = next;
    }
}

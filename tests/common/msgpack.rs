//! A MessagePack reader of the tests' own, so that the records are not read by the code that wrote them.

/// One MessagePack value, as far as the job record uses the format.
#[derive(Clone, Debug, PartialEq)]
pub enum Pack {
    Nil,
    Bool(bool),
    Int(i128),
    Bin(Vec<u8>),
    Str(String),
    Array(Vec<Pack>),
}

impl Pack {
    /// Reads `bytes` as exactly one value.
    pub fn read(bytes: &[u8]) -> Result<Pack, String> {
        let mut rest = bytes;
        let value = value(&mut rest)?;
        if rest.is_empty() {
            Ok(value)
        } else {
            Err(format!("{} bytes after the value", rest.len()))
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Result<&'a [u8], String> {
    if rest.len() < n {
        return Err(format!("{n} bytes wanted, {} there", rest.len()));
    }
    let (head, tail) = rest.split_at(n);
    *rest = tail;
    Ok(head)
}

fn uint(rest: &mut &[u8], n: usize) -> Result<u64, String> {
    Ok(take(rest, n)?.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

fn int(rest: &mut &[u8], n: usize) -> Result<i128, String> {
    let shift = 64 - 8 * n as u32;
    let raw = uint(rest, n)?;
    Ok(i128::from(((raw << shift) as i64) >> shift))
}

fn array(rest: &mut &[u8], n: usize) -> Result<Pack, String> {
    let mut items = Vec::new();
    for _ in 0..n {
        items.push(value(rest)?);
    }
    Ok(Pack::Array(items))
}

fn text(rest: &mut &[u8], n: usize) -> Result<Pack, String> {
    String::from_utf8(take(rest, n)?.to_vec()).map(Pack::Str).map_err(|e| e.to_string())
}

fn value(rest: &mut &[u8]) -> Result<Pack, String> {
    let tag = take(rest, 1)?[0];
    Ok(match tag {
        0x00..=0x7f => Pack::Int(i128::from(tag)),
        0x90..=0x9f => array(rest, usize::from(tag & 0x0f))?,
        0xa0..=0xbf => text(rest, usize::from(tag & 0x1f))?,
        0xc0 => Pack::Nil,
        0xc2 => Pack::Bool(false),
        0xc3 => Pack::Bool(true),
        0xc4..=0xc6 => {
            let n = uint(rest, 1 << (tag - 0xc4))? as usize;
            Pack::Bin(take(rest, n)?.to_vec())
        }
        0xcc..=0xcf => Pack::Int(i128::from(uint(rest, 1 << (tag - 0xcc))?)),
        0xd0..=0xd3 => Pack::Int(int(rest, 1 << (tag - 0xd0))?),
        0xd9..=0xdb => {
            let n = uint(rest, 1 << (tag - 0xd9))? as usize;
            text(rest, n)?
        }
        0xdc | 0xdd => {
            let n = uint(rest, 2 << (tag - 0xdc))? as usize;
            array(rest, n)?
        }
        0xe0..=0xff => Pack::Int(i128::from(tag as i8)),
        _ => return Err(format!("tag {tag:#04x} has no place in a record")),
    })
}

/// The digits of base 62, in ASCII order.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A number in the 11 digits of an id that the server makes.
pub fn number_text(number: u64) -> Vec<u8> {
    (0..11).rev().map(|place| DIGITS[(number / 62u64.pow(place) % 62) as usize]).collect()
}

/// The id in a member of `due`.
pub fn id_in_member(member: &[u8]) -> &[u8] {
    let has_birth = member.len() > 11 && member[11] == b' ' && member[..11].iter().all(u8::is_ascii_alphanumeric);
    if has_birth {
        &member[12..]
    } else {
        member
    }
}

/// A job record, laid out as docs/keys.md documents it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Record {
    pub payload: Vec<u8>,
    pub birth: Option<u64>,
    pub failures: u64,
    pub lapses: u64,
    pub releases: u64,
    pub claims: u64,
    pub late: bool,
    pub retries: Option<u64>,
    pub lease: Option<u64>,
    pub backoff_base: Option<u64>,
    pub backoff_cap: Option<u64>,
    pub error: Option<Vec<u8>>,
    pub stack: Option<Vec<u8>>,
}

impl Record {
    /// Reads a value of the hash `jobs`.
    pub fn read(bytes: &[u8]) -> Result<Record, String> {
        Record::of(&Pack::read(bytes)?)
    }

    /// Reads a value of the hash `dead`: the reason and the job as it was at death.
    pub fn read_letter(bytes: &[u8]) -> Result<(String, Record), String> {
        let whole = Pack::read(bytes)?;
        match &whole {
            Pack::Array(items) => match items.as_slice() {
                [Pack::Int(1), Pack::Str(reason), job] => Ok((reason.clone(), Record::of(job)?)),
                _ => Err(format!("not a letter: {whole:?}")),
            },
            _ => Err(format!("not an array: {whole:?}")),
        }
    }

    /// The member of `due` for the job of this id: an id of the caller's stands behind the job's birth.
    pub fn member(&self, id: &[u8]) -> Vec<u8> {
        let birth = |birth| [&number_text(birth)[..], b" ", id].concat();
        self.birth.map_or_else(|| id.to_vec(), birth)
    }

    fn of(value: &Pack) -> Result<Record, String> {
        let Pack::Array(items) = value else {
            return Err(format!("not an array: {value:?}"));
        };
        if items.len() < 2 || items.len() > 14 || items[0] != Pack::Int(1) {
            return Err(format!("not a record of version 1: {items:?}"));
        }
        let at = |i: usize| items.get(i).unwrap_or(&Pack::Nil);
        let number = |i: usize| match at(i) {
            Pack::Nil => Ok(None),
            Pack::Int(n) => u64::try_from(*n).map(Some).map_err(|e| e.to_string()),
            other => Err(format!("element {i}: {other:?}")),
        };
        let bytes = |i: usize| match at(i) {
            Pack::Nil => Ok(None),
            Pack::Bin(b) => Ok(Some(b.clone())),
            other => Err(format!("element {i}: {other:?}")),
        };
        Ok(Record {
            payload: bytes(1)?.ok_or("no payload")?,
            birth: number(2)?,
            failures: number(3)?.unwrap_or(0),
            lapses: number(4)?.unwrap_or(0),
            releases: number(5)?.unwrap_or(0),
            claims: number(6)?.unwrap_or(0),
            late: match at(7) {
                Pack::Nil | Pack::Bool(false) => false,
                Pack::Bool(true) => true,
                other => return Err(format!("element 7: {other:?}")),
            },
            retries: number(8)?,
            lease: number(9)?,
            backoff_base: number(10)?,
            backoff_cap: number(11)?,
            error: bytes(12)?,
            stack: bytes(13)?,
        })
    }
}

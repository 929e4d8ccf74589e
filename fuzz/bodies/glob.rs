//! Patterns of names. The bytes are a pattern and, behind a line's end, a text.

use dq::core::glob::matches;

/// How much of each is looked at: the reference takes all pairs of places.
const LONGEST: usize = 64;

/// One place of a pattern.
enum Element {
    Any,
    /// The bytes that it stands for.
    Of(Box<[bool; 256]>),
}

pub fn run(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let (pattern, text) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (pattern, text) = (&pattern[..pattern.len().min(LONGEST)], &text[..text.len().min(LONGEST)]);
    assert_eq!(matches(pattern, text), reference(&elements(pattern), text));
}

/// Which beginnings of the text the elements up to each one match, from the first element to the last.
fn reference(elements: &[Element], text: &[u8]) -> bool {
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for element in elements {
        let before = reached.clone();
        reached = (0..=text.len())
            .map(|end| match element {
                Element::Any => before[..=end].contains(&true),
                Element::Of(bytes) => end > 0 && before[end - 1] && bytes[usize::from(text[end - 1])],
            })
            .collect();
    }
    reached[text.len()]
}

fn elements(pattern: &[u8]) -> Vec<Element> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < pattern.len() {
        let mut bytes = Box::new([false; 256]);
        match pattern[at] {
            b'*' => {
                all.push(Element::Any);
                at += 1;
                continue;
            }
            b'?' => bytes.fill(true),
            b'[' => at = class(pattern, at + 1, &mut bytes),
            b'\\' if at + 1 < pattern.len() => {
                at += 1;
                bytes[usize::from(pattern[at])] = true;
            }
            byte => bytes[usize::from(byte)] = true,
        }
        all.push(Element::Of(bytes));
        at += 1;
    }
    all
}

/// Fills in what a class stands for, from behind its bracket on; gives the place of its end.
fn class(pattern: &[u8], begin: usize, bytes: &mut [bool; 256]) -> usize {
    let negated = pattern.get(begin) == Some(&b'^');
    let mut at = begin + usize::from(negated);
    while let Some(byte) = pattern.get(at).copied().filter(|byte| *byte != b']') {
        let (from, to, length) = match pattern[at..] {
            [b'\\', escaped, ..] => (escaped, escaped, 2),
            [from, b'-', to, ..] => (from.min(to), from.max(to), 3),
            _ => (byte, byte, 1),
        };
        bytes[usize::from(from)..=usize::from(to)].fill(true);
        at += length;
    }
    if negated {
        bytes.iter_mut().for_each(|inside| *inside = !*inside);
    }
    at
}

//! The version of the module as numbers.

/// The three numbers of a version such as `1.2.3`; what a pre-release appends is left out. Each must be below 100, so
/// that the number that MODULE LIST shows grows with the version.
pub const fn parts(version: &str) -> [i32; 3] {
    let bytes = version.as_bytes();
    let (mut parts, mut part, mut at) = ([0; 3], 0, 0);
    while at < bytes.len() && part < 3 {
        match bytes[at] {
            b'.' => part += 1,
            digit @ b'0'..=b'9' => parts[part] = parts[part] * 10 + (digit - b'0') as i32,
            _ => break,
        }
        at += 1;
    }
    assert!(parts[0] < 100 && parts[1] < 100 && parts[2] < 100);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers() {
        assert_eq!(parts("0.1.0"), [0, 1, 0]);
        assert_eq!(parts("12.34.56"), [12, 34, 56]);
        assert_eq!(parts("1.2.3-rc.4"), [1, 2, 3]);
    }
}

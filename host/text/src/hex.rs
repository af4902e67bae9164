//! Bytes as text.

use std::fmt::Write as _;

/// The lower-case hexadecimal digits of these bytes.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(super::hex(&[0, 10, 255]), "000aff");
        assert_eq!(super::hex(&[]), "");
    }
}

//! Finds the end of a JSON object or list in bytes that arrive in pieces, without parsing it.

/// How far a text is.
#[derive(Default)]
pub struct JsonEnd {
    /// How many objects and lists are open.
    depth: usize,
    in_string: bool,
    /// Whether the last byte was a backslash in a string.
    is_escaped: bool,
    is_reached: bool,
}

impl JsonEnd {
    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.is_reached {
                return;
            }
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.is_reached = self.depth == 0;
                }
                _ => {}
            }
        }
    }

    /// Whether the first object or list is closed.
    pub fn is_reached(&self) -> bool {
        self.is_reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_the_last_bracket() {
        for text in [
            "{}",
            "[]",
            " \n{\"a\": [1, {}, \"}\"], \"b\": \"\\\"}\\\\\"}",
            r#"[{"x": "\\"}, "]"]"#,
        ] {
            let mut end = JsonEnd::default();
            for (at, byte) in text.bytes().enumerate() {
                assert!(!end.is_reached(), "{text} at {at}");
                end.feed(&[byte]);
            }
            assert!(end.is_reached(), "{text}");
        }
    }
}

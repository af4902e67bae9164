//! Finds the elements of a long array in a JSON text without parsing them. So a trajectory of
//! hundreds of megabytes opens at once, and only the steps that are shown are parsed.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2};

/// A JSON text with the current position.
pub(crate) struct JsonScan<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> JsonScan<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self::at(bytes, 0)
    }

    /// A scan that begins at this offset.
    pub(crate) fn at(bytes: &'b [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Where the next value begins.
    pub(crate) fn begin(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// Where what was read last has ended.
    pub(crate) fn end(&self) -> usize {
        self.at
    }

    fn peek(&mut self) -> Option<u8> {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Reads a string, with its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        self.skip(b'"')?;
        let begin = self.at - 1;
        loop {
            let next = memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            self.at += next + 1;
            if self.bytes[self.at - 1] == b'"' {
                return Some(begin..self.at);
            }
            self.at += 1;
        }
    }

    /// Reads a value.
    pub(crate) fn value(&mut self) -> Option<Range<usize>> {
        let begin = match self.peek()? {
            b'"' => return self.string(),
            b'{' | b'[' => self.at,
            _ => {
                let begin = self.at;
                let is_end =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                let rest = &self.bytes[begin..];
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
                return (self.at > begin).then_some(begin..self.at);
            }
        };
        let mut depth = 0_usize;
        loop {
            match *self.bytes.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(begin..self.at);
            }
        }
    }

    /// Reads the members of an object: the key, as it is meant, and the value. Stops at a
    /// syntax error, or when `take` says so; `take` may read the value itself.
    pub(crate) fn members(
        &mut self,
        mut take: impl FnMut(&[u8], &mut Self) -> Option<()>,
    ) -> Option<()> {
        self.skip(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.skip(b':')?;
            take(&unescaped(&self.bytes[key]), self)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// The elements of an array: `take` reads each of them.
    pub(crate) fn elements(&mut self, mut take: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.skip(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            take(self)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Whether an object comes next.
    pub(crate) fn is_object(&mut self) -> bool {
        self.peek() == Some(b'{')
    }

    /// Whether an array comes next.
    pub(crate) fn is_array(&mut self) -> bool {
        self.peek() == Some(b'[')
    }
}

/// The text of a string with its quotes, as a parser reads it. Of a string that a parser refuses, and of another
/// value, the text stays as it is.
pub(crate) fn unescaped(string: &[u8]) -> Cow<'_, [u8]> {
    let inside = string
        .strip_prefix(b"\"")
        .and_then(|it| it.strip_suffix(b"\""));
    let Some(inside) = inside else {
        return Cow::Borrowed(string);
    };
    match memchr(b'\\', inside).map(|_| serde_json::from_slice::<String>(string)) {
        Some(Ok(text)) => Cow::Owned(text.into_bytes()),
        _ => Cow::Borrowed(inside),
    }
}

/// The number of the line that has the byte at this offset.
pub(crate) fn line_of(bytes: &[u8], at: usize) -> usize {
    memchr_iter(b'\n', &bytes[..at.min(bytes.len())]).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        for (text, expected) in [
            (
                r#" [1, "a,]\"" , {"b": [2, "}"]}, null,true ] "#,
                Some(vec![
                    "1",
                    r#""a,]\"""#,
                    r#"{"b": [2, "}"]}"#,
                    "null",
                    "true",
                ]),
            ),
            ("[]", Some(vec![])),
            ("[ ]", Some(vec![])),
            (r#"["\\", "\\\""]"#, Some(vec![r#""\\""#, r#""\\\"""#])),
            ("[1 2]", None),
            ("[1,", None),
            (r#"["a"#, None),
            (r#"["a\"#, None),
            ("[{]", None),
            ("[,]", None),
            ("x", None),
        ] {
            let mut found = Vec::new();
            let read = JsonScan::new(text.as_bytes()).elements(|scan| {
                found.push(&text[scan.value()?]);
                Some(())
            });
            assert_eq!(read.map(|()| found), expected, "{text}");
        }
        for (string, expected) in [
            (r#""messages""#, "messages"),
            (r#""\u006dess\u0061ges""#, "messages"),
            (r#""\ud800""#, r"\ud800"),
            ("7", "7"),
        ] {
            assert_eq!(&*unescaped(string.as_bytes()), expected.as_bytes());
        }
        let text = r#"{"a": {"x": [1]}, "b\"": "c" , "d":1}"#;
        let mut members = Vec::new();
        let read = JsonScan::new(text.as_bytes()).members(|key, scan| {
            let value = scan.value()?;
            members.push((String::from_utf8_lossy(key).into_owned(), &text[value]));
            Some(())
        });
        assert!(read.is_some());
        let expected = [("a", r#"{"x": [1]}"#), ("b\"", r#""c""#), ("d", "1")];
        assert_eq!(
            members,
            expected.map(|(key, value)| (key.to_owned(), value))
        );
        assert_eq!(line_of(b"a\nb\nc", 4), 3);
    }
}

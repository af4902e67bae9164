//! The output of a program that was not taken yet, decoded and bounded.

/// Text of which only the end is kept. Positions count all bytes of the text since its beginning.
#[derive(Debug)]
pub(super) struct Transcript {
    text: String,
    /// The position of the kept text.
    begin: u64,
    /// The position up to which the text was taken.
    taken: u64,
    /// The bytes of an incomplete character at the end.
    rest: Vec<u8>,
    limit: usize,
    /// Whether bytes that are not UTF-8 become `\xHH`, and not a replacement character.
    escapes: bool,
}

impl Transcript {
    /// Keeps `limit` bytes at least, and twice as many at most.
    pub(super) fn new(limit: usize, escapes: bool) -> Self {
        Self {
            text: String::new(),
            begin: 0,
            taken: 0,
            rest: Vec::new(),
            limit: limit.max(4),
            escapes,
        }
    }

    /// Adds bytes that are no character.
    fn push_invalid(&mut self, bytes: &[u8]) {
        match self.escapes {
            true => self.text.push_str(&escaped(bytes)),
            false => self.text.push(char::REPLACEMENT_CHARACTER),
        }
    }

    /// Adds output.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let mut rest = std::mem::take(&mut self.rest);
        let mut chunks = rest.utf8_chunks().peekable();
        let mut left = 0;
        while let Some(chunk) = chunks.next() {
            self.text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && may_go_on(invalid) {
                left = invalid.len();
            } else if !invalid.is_empty() {
                self.push_invalid(invalid);
            }
        }
        rest.drain(..rest.len() - left);
        self.rest = rest;
        if self.text.len() > 2 * self.limit {
            self.drop_to(self.end() - self.limit as u64);
        }
    }

    /// Adds the bytes of the incomplete character, because nothing follows.
    pub(super) fn finish(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.push_invalid(&rest);
        }
    }

    /// The position after the text.
    pub(super) fn end(&self) -> u64 {
        self.begin + self.text.len() as u64
    }

    /// The kept text, beginning at about `position`, and the position of its beginning.
    pub(super) fn since(&self, position: u64) -> (&str, u64) {
        let at = self.index(position);
        (&self.text[at..], self.begin + at as u64)
    }

    /// Takes the text up to `position`; returns how many bytes before it were dropped.
    pub(super) fn take(&mut self, position: u64) -> (String, u64) {
        let dropped = self.begin.saturating_sub(self.taken);
        let at = self.index(position);
        let text = self.text[..at].to_owned();
        self.drop_to(position);
        self.taken = self.begin;
        (text, dropped)
    }

    fn drop_to(&mut self, position: u64) {
        let at = self.index(position);
        self.text.drain(..at);
        self.begin += at as u64;
    }

    /// The index of the first whole character at or after `position`.
    fn index(&self, position: u64) -> usize {
        let at = usize::try_from(position.saturating_sub(self.begin)).unwrap_or(usize::MAX);
        self.text.ceil_char_boundary(at)
    }
}

/// Formats bytes that are no character, as Python's `backslashreplace` does.
fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// Decodes an output; bytes that are not UTF-8 become `\xHH`.
pub fn decoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(&escaped(chunk.invalid()));
    }
    text
}

/// Whether these bytes may be the beginning of a character.
fn may_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(transcript: &mut Transcript) -> (String, u64) {
        transcript.take(u64::MAX)
    }

    #[test]
    fn characters_may_come_in_pieces() {
        for (pieces, wanted) in [
            (&[&b"a\xc3"[..], b"\xa9b"][..], "a\u{e9}b"),
            (&[b"\xf0\x9f", b"\x98", b"\x80"], "\u{1f600}"),
            (&[b"\xc3", b"x"], "\u{fffd}x"),
            (&[b"\xffa\xc3\xc3", b"\xa9"], "\u{fffd}a\u{fffd}\u{e9}"),
            (&[b"", b"", b"a"], "a"),
        ] {
            let mut transcript = Transcript::new(100, false);
            pieces.iter().for_each(|piece| transcript.push(piece));
            assert_eq!(all(&mut transcript), (wanted.to_owned(), 0), "{pieces:?}");
        }
        let mut transcript = Transcript::new(100, true);
        transcript.push(b"a\xff\xc3(\xe2\x82");
        transcript.finish();
        assert_eq!(all(&mut transcript).0, r"a\xff\xc3(\xe2\x82");
        let mut transcript = Transcript::new(100, false);
        transcript.push(b"a\xc3");
        assert_eq!(all(&mut transcript).0, "a");
        transcript.finish();
        assert_eq!(all(&mut transcript).0, "\u{fffd}");
    }

    #[test]
    fn what_nobody_takes_is_dropped_and_counted() {
        let mut transcript = Transcript::new(10, false);
        let mut written = String::new();
        for number in 0..1000 {
            let piece = format!("{number}\u{e9},");
            transcript.push(piece.as_bytes());
            written.push_str(&piece);
            assert!(transcript.text.len() <= 20 + piece.len());
        }
        assert_eq!(transcript.end(), written.len() as u64);
        let (text, dropped) = all(&mut transcript);
        assert!(written.ends_with(&text) && text.len() >= 9, "{text}");
        assert_eq!(dropped as usize + text.len(), written.len());
        // The count begins anew.
        transcript.push(b"x");
        assert_eq!(all(&mut transcript), ("x".to_owned(), 0));
    }

    #[test]
    fn a_part_is_taken() {
        let mut transcript = Transcript::new(100, false);
        transcript.push("ab\u{e9}cd".as_bytes());
        assert_eq!(transcript.since(2), ("\u{e9}cd", 2));
        // Never the middle of a character.
        assert_eq!(transcript.since(3), ("cd", 4));
        assert_eq!(transcript.take(4), ("ab\u{e9}".to_owned(), 0));
        assert_eq!(transcript.take(4), (String::new(), 0));
        assert_eq!(transcript.since(0), ("cd", 4));
        assert_eq!(transcript.since(99), ("", 6));
        assert_eq!(all(&mut transcript), ("cd".to_owned(), 0));
    }
}

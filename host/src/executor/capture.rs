//! Keeps the head and the tail of a command's output, and counts what it drops between them.

use rustix::fd::AsFd;

/// How much one read takes at most: what a pipe holds.
const READ: usize = 64 * 1024;

/// A bounded buffer: the first bytes, the last bytes, and how many there were.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    /// A ring once it is full; `start` is the place of its oldest byte.
    tail: Vec<u8>,
    tail_limit: usize,
    start: usize,
    total: u64,
    scratch: Vec<u8>,
}

/// What was captured, decoded.
#[derive(Debug, PartialEq)]
pub(super) struct Captured {
    pub(super) text: String,
    /// Bytes that are missing from the middle.
    pub(super) elided: u64,
}

impl Capture {
    /// Keeps `limit` bytes at most, half of them from each end.
    pub(super) fn new(limit: usize) -> Self {
        let tail_limit = limit / 2;
        Self {
            head: Vec::new(),
            head_limit: limit - tail_limit,
            tail: Vec::new(),
            tail_limit,
            start: 0,
            total: 0,
            scratch: Vec::new(),
        }
    }

    /// Reads once; 0 means that the pipe has ended.
    pub(super) fn read(&mut self, fd: impl AsFd) -> rustix::io::Result<usize> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.reserve(READ);
        let result = rustix::io::read(fd, rustix::buffer::spare_capacity(&mut scratch));
        if result.is_ok() {
            self.push(&scratch);
        }
        self.scratch = scratch;
        result
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let (grow, mut rest) = rest.split_at(rest.len().min(self.tail_limit - self.tail.len()));
        self.tail.extend_from_slice(grow);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.tail_limit - self.start));
            self.tail[self.start..self.start + now.len()].copy_from_slice(now);
            self.start = (self.start + now.len()) % self.tail_limit;
            rest = later;
        }
    }

    /// Decodes what was kept, with a line that names the gap if there is one.
    pub(super) fn finish(mut self) -> Captured {
        self.tail.rotate_left(self.start);
        let kept = (self.head.len() + self.tail.len()) as u64;
        if kept == self.total {
            self.head.append(&mut self.tail);
            return Captured {
                text: decode(self.head),
                elided: 0,
            };
        }
        let head_end = complete(&self.head);
        let tail_start = self
            .tail
            .iter()
            .take(3)
            .take_while(|byte| is_continuation(**byte))
            .count();
        self.head.truncate(head_end);
        self.tail.drain(..tail_start);
        let elided = self.total - (self.head.len() + self.tail.len()) as u64;
        let mut text = decode(self.head);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[... {elided} bytes of output elided ...]\n"));
        text.push_str(&decode(self.tail));
        Captured { text, elided }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Where `bytes` end without a UTF-8 sequence that the cut left unfinished.
fn complete(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let needs = match bytes[at] {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            byte if is_continuation(byte) => continue,
            _ => 1,
        };
        return if needs > back { at } else { bytes.len() };
    }
    bytes.len()
}

/// UTF-8 with replacement, then one kind of line end: what Python's text mode gives.
fn decode(bytes: Vec<u8>) -> String {
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if !text.contains('\r') {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split('\r');
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        out.push('\n');
        out.push_str(piece.strip_prefix('\n').unwrap_or(piece));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: usize, pieces: &[&[u8]]) -> (String, u64) {
        let mut capture = Capture::new(limit);
        for piece in pieces {
            capture.push(piece);
        }
        let Captured { text, elided } = capture.finish();
        (text, elided)
    }

    #[test]
    fn keeps_both_ends() {
        let gap = |n: u64| format!("[... {n} bytes of output elided ...]\n");
        let vectors: &[(usize, &[&[u8]], String, u64)] = &[
            (8, &[], String::new(), 0),
            (8, &[b"12345678"], "12345678".into(), 0),
            (8, &[b"1234", b"5", b"678"], "12345678".into(), 0),
            (8, &[b"123456789"], format!("1234\n{}6789", gap(1)), 1),
            (
                8,
                &[b"123", b"456", b"7890abc"],
                format!("1234\n{}0abc", gap(5)),
                5,
            ),
            (
                8,
                &[b"123\n", b"x", b"y", b"z", b"abcdefgh"],
                format!("123\n{}efgh", gap(7)),
                7,
            ),
            (9, &[b"0123456789"], format!("01234\n{}6789", gap(1)), 1),
            (0, &[b"abc"], gap(3), 3),
            (1, &[b"abc"], format!("a\n{}", gap(2)), 2),
            // Both cuts fall into a character; what is left of it counts as elided.
            (
                8,
                &["abcé____éxyz".as_bytes()],
                format!("abc\n{}xyz", gap(8)),
                8,
            ),
            (
                8,
                &["a\u{1f600}____\u{1f600}z".as_bytes()],
                format!("a\n{}z", gap(12)),
                12,
            ),
            // Bytes that are no UTF-8 at all are kept.
            (
                8,
                &[b"\xff\xff\xff\xff___\xff\xff\xff\xff"],
                format!("{0}\n{1}{0}", "\u{fffd}".repeat(4), gap(3)),
                3,
            ),
        ];
        for (limit, pieces, text, elided) in vectors {
            assert_eq!(
                captured(*limit, pieces),
                (text.clone(), *elided),
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn the_ring_agrees_with_a_plain_buffer() {
        for chunk in 1..23 {
            for len in 0..90_u8 {
                let bytes: Vec<u8> = (0..len).map(|i| b'0' + i % 70).collect();
                let mut capture = Capture::new(20);
                bytes.chunks(chunk).for_each(|piece| capture.push(piece));
                capture.tail.rotate_left(capture.start);
                let tail = &bytes[bytes.len().min(10).max(bytes.len().saturating_sub(10))..];
                assert_eq!(capture.tail, tail, "{chunk} {len}");
            }
        }
    }

    #[test]
    fn decodes_as_python_does() {
        let vectors: &[(&[u8], &str)] = &[
            (b"a\xff\0b\r\nc\rd", "a\u{fffd}\0b\nc\nd"),
            (b"\r", "\n"),
            (b"\r\r\n\n", "\n\n\n"),
            (b"\xef\xbb\xbfx", "\u{feff}x"),
            (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xe2\x82", "\u{fffd}"),
        ];
        for (bytes, text) in vectors {
            assert_eq!(decode(bytes.to_vec()), *text);
        }
    }
}

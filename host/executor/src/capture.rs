//! Keeps the head and the tail of a command's output, and counts what it drops between them.
//!
//! Two kinds of output are kept whole and with their own line ends, because they are data: one that
//! the caller asks for whole, and one that begins with the marker of a submission. A patch with a
//! gap, or with other line ends, does not apply.

use mswea_core::{Command, Output};
use rustix::fd::AsFd;
use serde_json::Value;

use crate::shell::with_notes;

/// The most bytes of one read: the capacity of a pipe.
const READ: usize = 64 * 1024;

/// The most bytes of an output that is kept whole.
const WHOLE: usize = 64 * 1024 * 1024;

/// The marker must come within so many bytes.
const LOOK: usize = 4096;

/// A bounded buffer: the first bytes, the last bytes, and the number of all bytes.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    /// A ring when it is full; `start` is the index of its oldest byte.
    tail: Vec<u8>,
    tail_limit: usize,
    start: usize,
    total: u64,
    scratch: Vec<u8>,
    mode: Mode,
}

/// Which part of the output is kept.
#[derive(Debug, Clone, PartialEq)]
enum Mode {
    /// Head and tail.
    Bounded,
    /// All so far: the first line may still become this marker.
    Looking(String),
    /// All, because the marker has come.
    Marked,
    /// All, because the caller asks for it.
    Whole,
}

/// The captured output, decoded.
#[derive(Debug, PartialEq)]
pub(super) struct Captured {
    pub(super) text: String,
    /// How many bytes are missing from the middle.
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
            mode: Mode::Bounded,
        }
    }

    /// For the output of a command, of which `limit` bytes are kept, unless the whole output was
    /// asked for or it begins with `marker`.
    pub(super) fn of(command: &Command<'_>, limit: usize, marker: Option<&str>) -> Self {
        let capture = Self::new(limit);
        match marker {
            _ if command.whole => capture.whole(),
            Some(marker) => capture.whole_after(marker),
            None => capture,
        }
    }

    /// Keeps everything, up to [`WHOLE`] bytes; a longer output is kept as without this call.
    pub(super) fn whole(mut self) -> Self {
        self.mode = Mode::Whole;
        self
    }

    /// Keeps everything, as [`Self::whole`], once the first line that is not blank is `marker`.
    pub(super) fn whole_after(mut self, marker: &str) -> Self {
        self.mode = Mode::Looking(marker.to_owned());
        self
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

    /// Adds bytes that were read elsewhere.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.mode == Mode::Bounded {
            return self.keep(bytes);
        }
        if self.head.len() + bytes.len() > WHOLE {
            self.bound();
            return self.keep(bytes);
        }
        self.head.extend_from_slice(bytes);
        if let Mode::Looking(marker) = &self.mode {
            match begins_with_line(&self.head, marker) {
                Some(true) => self.mode = Mode::Marked,
                None if self.head.len() < LOOK => {}
                _ => self.bound(),
            }
        }
    }

    /// Reduces the buffer to head and tail.
    fn bound(&mut self) {
        self.mode = Mode::Bounded;
        let all = std::mem::take(&mut self.head);
        self.keep(&all);
    }

    fn keep(&mut self, bytes: &[u8]) {
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

    /// The captured bytes: all, or the head and the tail, and the number of missing bytes between
    /// them.
    pub(super) fn raw(mut self) -> (Vec<u8>, Vec<u8>, u64) {
        self.tail.rotate_left(self.start);
        let kept = (self.head.len() + self.tail.len()) as u64;
        (self.head, self.tail, self.total - kept)
    }

    /// As [`Self::finish`], with a line for each note at the end; nothing is added to a submission, which
    /// may be a patch.
    pub(super) fn finish_with(
        self,
        succeeded: bool,
        notes: impl IntoIterator<Item = String>,
    ) -> Captured {
        let mode = self.mode.clone();
        let captured = self.finish(succeeded);
        let is_submission = match &mode {
            Mode::Marked => true,
            Mode::Looking(marker) => captured.text.trim_start().starts_with(marker.as_str()),
            Mode::Bounded | Mode::Whole => false,
        };
        match succeeded && is_submission {
            true => captured,
            false => Captured {
                text: with_notes(captured.text, notes),
                ..captured
            },
        }
    }

    /// Decodes the kept bytes, with a line in place of the gap if there is one. The marker counts
    /// only if the command has `succeeded`.
    pub(super) fn finish(mut self, succeeded: bool) -> Captured {
        match self.mode {
            Mode::Whole => {}
            Mode::Marked if succeeded => {}
            Mode::Bounded => {}
            Mode::Marked | Mode::Looking(_) => self.bound(),
        }
        if self.mode != Mode::Bounded {
            return Captured {
                text: text(self.head),
                elided: 0,
            };
        }
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
        text.push_str(&gap(elided));
        text.push_str(&decode(self.tail));
        Captured { text, elided }
    }
}

/// The line in place of missing bytes.
pub(super) fn gap(bytes: u64) -> String {
    format!("[... {bytes} bytes of output elided ...]\n")
}

/// Records in an action's output how many bytes are missing.
pub(super) fn note_elided(output: &mut Output, elided: u64) {
    if elided > 0 {
        let elided = Value::from(elided);
        output.extra.insert("elided_bytes".to_owned(), elided);
    }
}

/// Whether the first line that is not blank is `marker`; none while that is undecided. Blanks and
/// line ends are Python's, as for the submission itself.
fn begins_with_line(bytes: &[u8], marker: &str) -> Option<bool> {
    let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    let text = String::from_utf8_lossy(&bytes[..complete(bytes)]);
    let text = text.trim_start_matches(is_space);
    let Some(rest) = text.strip_prefix(marker) else {
        return if marker.starts_with(text) {
            None
        } else {
            Some(false)
        };
    };
    for c in rest.chars() {
        match c {
            '\n'
            | '\r'
            | '\u{b}'
            | '\u{c}'
            | '\u{1c}'..='\u{1e}'
            | '\u{85}'
            | '\u{2028}'
            | '\u{2029}' => return Some(true),
            _ if is_space(c) => {}
            _ => return Some(false),
        }
    }
    None
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// The length of `bytes` without an incomplete UTF-8 sequence at the end, which has three bytes at most.
fn complete(bytes: &[u8]) -> usize {
    let last = bytes[bytes.len().saturating_sub(3)..].utf8_chunks().last();
    let rest = last.map_or(&[][..], |chunk| chunk.invalid());
    let is_begun = std::str::from_utf8(rest).is_err_and(|error| error.error_len().is_none());
    bytes.len() - if is_begun { rest.len() } else { 0 }
}

/// UTF-8 with replacement.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// UTF-8 with replacement, and with ` ` as the only line end, as in Python's text mode.
fn decode(bytes: Vec<u8>) -> String {
    let text = text(bytes);
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
        let Captured { text, elided } = capture.finish(true);
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
            // Both cuts are inside a character; its remaining bytes count as elided.
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
            // Bytes that are not UTF-8 are kept.
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
    fn an_output_with_the_marker_is_whole_if_the_command_succeeded() {
        let long = "x".repeat(5000);
        let lines = format!("MARK\r\n{long}\r\n");
        let gap = |head: &str, n: usize, tail: &str| {
            format!("{head}\n[... {n} bytes of output elided ...]\n{tail}")
        };
        let vectors: &[(&[&str], bool, String)] = &[
            (&[&lines], true, lines.clone()),
            (
                &["\n ", "\u{3000}MA", "RK", " \t", "\r", "\na\rb"],
                true,
                "\n \u{3000}MARK \t\r\na\rb".into(),
            ),
            (
                &["MARK\u{2028}", &long],
                true,
                format!("MARK\u{2028}{long}"),
            ),
            // Not if the command failed, nor if other text precedes or follows the marker.
            (&[&lines], false, gap("MARK", lines.len() - 8, "xx\n")),
            (&["MARK", "x\r\n", &long], true, gap("MARK", 4999, "xxxx")),
            (&["x\nMARK\n", &long], true, gap("x\nMA", 4999, "xxxx")),
            (
                &[&"\n".repeat(5000), "MARK\n"],
                true,
                gap("", 0, "").replacen("\n[... 0", "\n\n\n\n[... 4997", 1) + "ARK\n",
            ),
            (&["MARK"], true, "MARK".into()),
            (&["M", "A"], true, "MA".into()),
        ];
        for (pieces, succeeded, wanted) in vectors {
            let mut capture = Capture::new(8).whole_after("MARK");
            pieces
                .iter()
                .for_each(|piece| capture.push(piece.as_bytes()));
            assert_eq!(capture.finish(*succeeded).text, *wanted, "{pieces:?}");
        }
    }

    #[test]
    fn a_whole_output_has_a_limit_too() {
        let piece = vec![b'x'; 1 << 20];
        for (mut capture, succeeded) in [
            (Capture::new(8).whole(), false),
            (Capture::new(8).whole_after("MARK"), true),
        ] {
            capture.push(b"MARK\r\n");
            for _ in 0..63 {
                capture.push(&piece);
            }
            assert!(capture.head.len() > 63 << 20);
            capture.push(&piece);
            capture.push(b"yz");
            assert!(capture.head.capacity() < 1000);
            let Captured { text, elided } = capture.finish(succeeded);
            assert_eq!(
                text,
                format!("MARK\n[... {elided} bytes of output elided ...]\nxxyz")
            );
            assert_eq!(elided, (64 << 20) + 6 + 2 - 8);
        }
        let mut whole = Capture::new(8).whole();
        whole.push(b"a\r\nb\rc\n0123456789\n");
        assert_eq!(whole.finish(false).text, "a\r\nb\rc\n0123456789\n");
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

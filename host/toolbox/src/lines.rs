//! The lines of a text, in a file or in memory: counts them, and reads some of them without holding
//! the others in memory.
//!
//! A line ends at a line feed; a carriage return before that is part of the line end. A last line without
//! a line end counts.

use std::io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom};

/// The number of bytes that are read at once.
const BLOCK: usize = 256 * 1024;

/// The longest line that is shown whole.
const LONGEST: usize = 100_000;

/// The positions of the lines of a text.
pub struct LineIndex {
    total: usize,
    /// For each block that was read: the number of line ends before it, and its offset.
    blocks: Vec<(usize, u64)>,
}

impl LineIndex {
    /// Reads the whole text once.
    pub fn of(source: &mut impl Read) -> io::Result<Self> {
        let mut blocks = Vec::new();
        let mut block = vec![0; BLOCK];
        let (mut ends, mut offset) = (0, 0);
        let mut open = false;
        loop {
            let length = match source.read(&mut block) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            blocks.push((ends, offset));
            ends += memchr::memchr_iter(b'\n', &block[..length]).count();
            open = block[length - 1] != b'\n';
            offset += length as u64;
        }
        Ok(Self {
            total: ends + usize::from(open),
            blocks,
        })
    }

    /// The number of lines.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Reads `count` lines from the line `first` on, which is counted from 0, without their line ends.
    pub fn read(
        &self,
        source: &mut (impl Read + Seek),
        first: usize,
        count: usize,
    ) -> io::Result<Vec<Vec<u8>>> {
        let count = count.min(self.total.saturating_sub(first));
        if count == 0 {
            return Ok(Vec::new());
        }
        // The line begins after `first` line ends: in the last block with fewer line ends before
        // it.
        let block = self.blocks.partition_point(|(ends, _)| *ends < first);
        let (ends, place) = self.blocks[block.saturating_sub(1)];
        source.seek(SeekFrom::Start(place))?;
        let mut source = BufReader::with_capacity(BLOCK, source);
        for _ in ends..first {
            source.skip_until(b'\n')?;
        }
        (0..count).map(|_| line(&mut source)).collect()
    }
}

/// Reads a line; only the beginning of a line that is too long.
fn line(source: &mut BufReader<impl Read>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut left_out = 0;
    loop {
        let read = source.fill_buf()?;
        if read.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', read);
        let part = &read[..end.unwrap_or(read.len())];
        let kept = part.len().min(LONGEST - line.len());
        line.extend_from_slice(&part[..kept]);
        left_out += part.len() - kept;
        let used = part.len() + usize::from(end.is_some());
        source.consume(used);
        if end.is_some() {
            break;
        }
    }
    if left_out > 0 {
        line.extend_from_slice(format!(" ... ({left_out} more bytes in this line)").as_bytes());
    } else if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

/// A text in memory, divided into lines for an edit.
pub struct LineText<'a> {
    /// The lines without their line feeds; carriage returns are kept.
    pub lines: Vec<&'a [u8]>,
    /// Whether the last line has a line end. True for an empty text.
    pub ended: bool,
    /// Whether new lines get a carriage return.
    pub returns: bool,
}

impl<'a> LineText<'a> {
    /// Divides a text into lines.
    pub fn of(text: &'a [u8]) -> Self {
        let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let ended = lines.last().is_none_or(|last| last.is_empty());
        if ended {
            lines.pop();
        }
        Self {
            returns: has_returns(text),
            lines,
            ended,
        }
    }

    /// Replaces the lines `start..end`, counted from 0; returns the new text.
    pub fn replaced(&self, start: usize, end: usize, new: &[&[u8]]) -> Vec<u8> {
        let start = start.min(self.lines.len());
        let end = end.clamp(start, self.lines.len());
        let size: usize = self
            .lines
            .iter()
            .chain(new)
            .map(|line| line.len() + 2)
            .sum();
        let mut text = Vec::with_capacity(size);
        let mut last_is_new = false;
        for line in &self.lines[..start] {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        // The old last line gets a line end if lines follow it.
        for line in new {
            text.extend_from_slice(line);
            if self.returns && line.last() != Some(&b'\r') {
                text.push(b'\r');
            }
            text.push(b'\n');
            last_is_new = true;
        }
        for line in &self.lines[end..] {
            text.extend_from_slice(line);
            text.push(b'\n');
            last_is_new = false;
        }
        if !self.ended {
            text.pop();
            if last_is_new && self.returns {
                text.pop();
            }
        }
        text
    }
}

/// Whether the lines of a text end with a carriage return and a line feed. The first line decides.
pub fn has_returns(text: &[u8]) -> bool {
    memchr::memchr(b'\n', text).is_some_and(|end| end > 0 && text[end - 1] == b'\r')
}

/// `part`, written by a model, with the line ends of `text`.
pub fn as_in(text: &[u8], part: &[u8]) -> Vec<u8> {
    if !has_returns(text) {
        return part.to_owned();
    }
    let mut form = Vec::with_capacity(part.len() + 16);
    for (index, byte) in part.iter().enumerate() {
        if *byte == b'\n' && (index == 0 || part[index - 1] != b'\r') {
            form.push(b'\r');
        }
        form.push(*byte);
    }
    form
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::{LineIndex, LineText, as_in};

    #[test]
    fn lines_are_counted_and_read() {
        for (text, lines) in [
            ("", vec![]),
            ("\n", vec![""]),
            ("a", vec!["a"]),
            ("a\r\nb\n\nc", vec!["a", "b", "", "c"]),
        ] {
            let mut source = Cursor::new(text);
            let index = LineIndex::of(&mut source).unwrap();
            assert_eq!(index.total(), lines.len(), "{text:?}");
            let read = index.read(&mut source, 0, 9).unwrap();
            assert_eq!(
                read,
                lines.iter().map(|line| line.as_bytes()).collect::<Vec<_>>()
            );
        }
        let text: String = (0..200_000).map(|line| format!("{line}\n")).collect();
        let mut source = Cursor::new(&text);
        let index = LineIndex::of(&mut source).unwrap();
        // Also around the end of the first block.
        let near = text[..super::BLOCK].matches('\n').count();
        for first in [0, 1, near - 1, near, near + 1, near + 2, 100_000, 199_999] {
            let read = index.read(&mut source, first, 1).unwrap();
            assert_eq!(read, [first.to_string().into_bytes()]);
        }
        assert!(index.read(&mut source, 200_000, 5).unwrap().is_empty());
    }

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        let text = vec![b'x'; 300_000];
        let mut source = Cursor::new(&text);
        let index = LineIndex::of(&mut source).unwrap();
        let read = index.read(&mut source, 0, 1).unwrap();
        assert!(read[0].ends_with(b"x ... (200000 more bytes in this line)"));
    }

    #[test]
    fn replacing_keeps_line_ends() {
        for (text, start, end, new, result) in [
            ("a\nb\nc\n", 1, 2, vec!["x", "y"], "a\nx\ny\nc\n"),
            ("a\nb\nc", 1, 2, vec![], "a\nc"),
            ("a\nb\nc", 2, 3, vec!["x"], "a\nb\nx"),
            ("a\nb\nc", 3, 3, vec!["x"], "a\nb\nc\nx"),
            ("a\nb\nc\n", 0, 9, vec!["x"], "x\n"),
            ("a\r\nb\r\n", 1, 2, vec!["x"], "a\r\nx\r\n"),
            ("a\r\nb", 1, 2, vec!["x"], "a\r\nx"),
            ("", 0, 1, vec!["x"], "x\n"),
            ("a\n", 0, 1, vec![], ""),
        ] {
            let new: Vec<&[u8]> = new.into_iter().map(str::as_bytes).collect();
            let made = LineText::of(text.as_bytes()).replaced(start, end, &new);
            assert_eq!(String::from_utf8(made).unwrap(), result, "{text:?}");
        }
        assert_eq!(as_in(b"a\r\nb", b"x\ny\r\nz"), b"x\r\ny\r\nz");
        assert_eq!(as_in(b"a\nb", b"x\ny"), b"x\ny");
    }
}

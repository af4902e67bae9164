//! Reads a journal while its run continues: each time, only the events that were added.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};

use super::read::{LONGEST_LINE, ParsedLine, parsed, shortened, too_long};
use super::{JournalError, Record};

/// How far a journal was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalFollower {
    /// The number of bytes that were read.
    len: u64,
    /// The number of the last event.
    last_seq: u64,
}

impl JournalFollower {
    /// The number of bytes that were read.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no byte was read yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Calls `take` with each event that was added, and with the position at which its line begins.
    /// A last line without its newline is still being written, and is left for the next call;
    /// events of a later version are left out.
    ///
    /// # Errors
    /// [`JournalError`] if the file can't be read, or a line is damaged. The events before that
    /// line have been passed on.
    pub fn read(
        &mut self,
        file: &File,
        name: &str,
        take: impl FnMut(u64, Record),
    ) -> Result<(), JournalError> {
        self.read_lines(file, name, LONGEST_LINE, take)
    }

    fn read_lines(
        &mut self,
        file: &File,
        name: &str,
        longest: u64,
        mut take: impl FnMut(u64, Record),
    ) -> Result<(), JournalError> {
        let io = |source| JournalError::Io {
            path: name.to_owned(),
            source,
        };
        let mut input = BufReader::with_capacity(1 << 18, file);
        input.seek(SeekFrom::Start(self.len)).map_err(io)?;
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            let mut bounded = input.by_ref().take(longest);
            let bytes = bounded.read_until(b'\n', &mut buffer).map_err(io)?;
            let expected = self.last_seq + 1;
            let line = usize::try_from(expected).unwrap_or(usize::MAX);
            let Some(text) = buffer.strip_suffix(b"\n") else {
                if (bytes as u64) < longest {
                    return Ok(());
                }
                return Err(too_long(line, longest));
            };
            match parsed(text, expected, line)? {
                ParsedLine::Event(record) => take(self.len, record),
                ParsedLine::Unknown(_) => {}
                ParsedLine::NoJson(error) => {
                    return Err(JournalError::Line {
                        line,
                        reason: shortened(&error),
                    });
                }
            }
            self.last_seq = expected;
            self.len += bytes as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_was_added_is_handed_out_once() {
        let mut file = tempfile::tempfile().unwrap();
        let mut follower = JournalFollower::default();
        let line = |seq| format!("{{\"seq\":{seq},\"t\":1.0,\"event\":\"allowed\",\"index\":0}}\n");
        let future = "{\"seq\":2,\"t\":1.0,\"event\":\"of_the_future\"}\n";
        let third = (line(1).len() + future.len()) as u64;
        let fourth = third + line(3).len() as u64;
        // The written text, and the positions of the new events.
        for (text, expected) in [
            (line(1), vec![0]),
            (String::new(), vec![]),
            (future.to_owned() + &line(3)[..20], vec![]),
            (line(3)[20..].to_owned() + &line(4), vec![third, fourth]),
        ] {
            file.write_all(text.as_bytes()).unwrap();
            let mut found = Vec::new();
            follower
                .read(&file, "x", |at, record| found.push((at, record.seq)))
                .unwrap();
            let places: Vec<u64> = found.iter().map(|(at, _)| *at).collect();
            assert_eq!(places, expected, "{text}");
        }
        file.write_all(b"no JSON\n").unwrap();
        let error = follower.read(&file, "x", |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("line 5"), "{error}");
    }

    #[test]
    fn a_hole_is_not_read_whole() {
        let mut file = tempfile::tempfile().unwrap();
        let line = "{\"seq\":1,\"t\":1.0,\"event\":\"allowed\",\"index\":0}\n";
        file.write_all(line.as_bytes()).unwrap();
        file.set_len(1 << 40).unwrap();
        let mut follower = JournalFollower::default();
        let mut found = 0;
        let read = follower.read_lines(&file, "x", 1 << 20, |_, _| found += 1);
        let error = read.unwrap_err().to_string();
        assert!(
            error.contains("line 2") && error.contains("longer than 1 MiB"),
            "{error}"
        );
        assert_eq!((found, follower.len()), (1, line.len() as u64));
    }
}

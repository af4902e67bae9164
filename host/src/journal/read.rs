//! Reads a journal back, whatever state a killed host or a full disk left it in.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use super::Event;
use crate::regular_file;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// When, in Unix seconds.
    pub t: f64,
    /// What happened.
    pub event: Event,
}

/// What a journal file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The events, in order.
    pub records: Vec<Record>,
    /// The end of the file, if it is not a whole line: what was being written when the host
    /// was killed. It had not taken effect.
    pub torn: Option<TornLine>,
    /// Events of kinds that this version does not know.
    pub unknown: Vec<UnknownEvent>,
    /// How many bytes of the file are whole lines.
    pub len: u64,
    /// The last line is whole but for its newline.
    pub lacks_newline: bool,
    /// Number of the last event, unknown ones included; 0 in an empty journal.
    pub last_seq: u64,
}

/// A last line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornLine {
    /// Which line, from 1.
    pub line: usize,
    /// How many bytes of it there are.
    pub bytes: usize,
}

/// An event that a later version wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEvent {
    /// Its number.
    pub seq: u64,
    /// Its kind.
    pub kind: String,
}

/// A journal that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file can't be read at all.
    #[error("can't read the journal `{path}`: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A line in the middle is damaged.
    #[error("line {line} of the journal is damaged: {reason}; only what is before it can be used")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A line is missing, repeated, or from elsewhere.
    #[error(
        "line {line} of the journal has number {found} where {expected} was due; was the file edited, or written by two runs?"
    )]
    Gap {
        /// Which line, from 1.
        line: usize,
        /// The number that it should have.
        expected: u64,
        /// The number that it has.
        found: u64,
    },
}

#[derive(Deserialize)]
struct Head<'l> {
    seq: u64,
    t: f64,
    #[serde(borrow)]
    event: std::borrow::Cow<'l, str>,
}

/// Reads a journal file.
///
/// # Errors
/// When the file can't be read, or is damaged elsewhere than at its end.
pub fn read(path: &Path) -> Result<Log, JournalError> {
    let mut records = Vec::new();
    let log = each(path, |record| records.push(record))?;
    Ok(Log { records, ..log })
}

/// Hands out the records of a journal file one by one, so that a long one never is in memory as
/// a whole; the answer has no records in it.
///
/// # Errors
/// As [`read`]; what was before the damage has been handed out by then.
pub fn each(path: &Path, take: impl FnMut(Record)) -> Result<Log, JournalError> {
    let name = || path.display().to_string();
    // Read line by line, so its size is no matter.
    let file = regular_file::open(path, u64::MAX).map_err(|source| JournalError::Io {
        path: name(),
        source,
    })?;
    lines(BufReader::with_capacity(1 << 18, file), name, take)
}

/// Reads a journal from anywhere; `name` is for messages.
///
/// # Errors
/// As [`read`].
pub fn read_from(input: impl BufRead, name: &str) -> Result<Log, JournalError> {
    let mut records = Vec::new();
    let log = lines(input, || name.to_owned(), |record| records.push(record))?;
    Ok(Log { records, ..log })
}

/// Reads a journal from memory; see [`read`].
///
/// # Errors
/// When it is damaged elsewhere than at its end.
pub fn read_bytes(bytes: &[u8]) -> Result<Log, JournalError> {
    let mut records = Vec::new();
    let log = lines(bytes, String::new, |record| records.push(record))?;
    Ok(Log { records, ..log })
}

fn lines(
    mut input: impl BufRead,
    name: impl Fn() -> String,
    mut take: impl FnMut(Record),
) -> Result<Log, JournalError> {
    let io = |source| JournalError::Io {
        path: name(),
        source,
    };
    let mut log = Log::default();
    let mut buffer = Vec::new();
    let mut line = 0;
    loop {
        buffer.clear();
        let bytes = input.read_until(b'\n', &mut buffer).map_err(io)?;
        if bytes == 0 {
            return Ok(log);
        }
        line += 1;
        let text = buffer.strip_suffix(b"\n").unwrap_or(&buffer);
        // a power cut may leave zeros, or a block that never reached the disk, where the last
        // lines were; so a last line is torn whenever it is no JSON
        let head = match serde_json::from_slice::<Head<'_>>(text) {
            Ok(head) => head,
            Err(error) => {
                if input.fill_buf().map_err(io)?.is_empty() {
                    log.torn = Some(TornLine { line, bytes });
                    return Ok(log);
                }
                return Err(JournalError::Line {
                    line,
                    reason: error.to_string(),
                });
            }
        };
        let expected = log.last_seq + 1;
        if head.seq != expected {
            return Err(JournalError::Gap {
                line,
                expected,
                found: head.seq,
            });
        }
        if Event::KINDS.contains(&&*head.event) {
            let event = serde_json::from_slice(text).map_err(|error| JournalError::Line {
                line,
                reason: format!("event `{}`: {error}", head.event),
            })?;
            take(Record {
                seq: head.seq,
                t: head.t,
                event,
            });
        } else {
            log.unknown.push(UnknownEvent {
                seq: head.seq,
                kind: head.event.into_owned(),
            });
        }
        log.last_seq = expected;
        log.len += bytes as u64;
        log.lacks_newline = text.len() == bytes;
    }
}

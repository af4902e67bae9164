//! Reads a journal, whatever state a killed host or a full disk left it in.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use serde::Deserialize;

use super::{Event, FORMAT};
use mswea_files as regular_file;

/// The longest line that is read. The longest that a run writes is a submission of 64 MiB, of which JSON
/// writes a byte with up to six. A file may be a hole of any length, which a command of the model has made.
pub const LONGEST_LINE: u64 = 512 << 20;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// The time, in Unix seconds.
    pub t: f64,
    /// The event.
    pub event: Event,
}

/// The content of a journal file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The events, in order.
    pub records: Vec<Record>,
    /// The end of the file, if it is not a complete line: the host was killed while it wrote the
    /// line. Its event had not taken effect.
    pub torn: Option<TornLine>,
    /// Events of kinds that this version does not know.
    pub unknown: Vec<UnknownEvent>,
    /// The number of bytes in complete lines.
    pub len: u64,
    /// Whether only the newline of the last line is missing.
    pub lacks_newline: bool,
    /// The number of the last event, including events of unknown kinds; 0 in an empty journal.
    pub last_seq: u64,
}

/// A last line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornLine {
    /// The number of the line, from 1.
    pub line: usize,
    /// The number of its bytes.
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
        /// The system's error.
        source: std::io::Error,
    },
    /// A line in the middle is damaged.
    #[error("line {line} of the journal is damaged: {reason}; {}", before(*line))]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// The reason why it can't be read.
        reason: String,
    },
    /// It can be read, and not written to.
    #[error(
        "can't write to the journal `{path}`, where the run goes on: {source}; make it writable \
         (`chmod u+w {path}`), or let a new run begin with its steps: `mswea-host fork {path} --at STEP`"
    )]
    Unwritable {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Another version wrote the journal, in another format.
    #[error(
        "the journal is of mswea-host {host} in the format `{found}`, and this version, mswea-host {}, reads `{FORMAT}`: \
         use mswea-host {host}, or start the run anew",
        env!("CARGO_PKG_VERSION")
    )]
    OtherFormat {
        /// The format.
        found: String,
        /// The version of the host that wrote it.
        host: String,
    },
    /// Another process writes to it.
    #[error("the run of the journal `{path}` still goes on: wait for its end, or end it")]
    Locked {
        /// The file.
        path: String,
    },
    /// A line is missing, repeated, or from another journal.
    #[error(
        "line {line} of the journal has number {found} where {expected} was due; was the file edited, or written by two runs?"
    )]
    Gap {
        /// The number of the line, from 1.
        line: usize,
        /// The number that it should have.
        expected: u64,
        /// The number that it has.
        found: u64,
    },
}

/// What helps if a line is damaged.
fn before(line: usize) -> String {
    match line.saturating_sub(1) {
        0 => "nothing is before it that could be used".to_owned(),
        whole => format!(
            "what is before it can be used from a copy: `head -n {whole} JOURNAL > COPY.events.jsonl`, and then \
             `mswea-host fork COPY.events.jsonl --at STEP`"
        ),
    }
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
/// [`JournalError`] if the file can't be read, or is damaged before its end.
pub fn read(path: &Path) -> Result<Log, JournalError> {
    let mut records = Vec::new();
    let log = each(path, |record| records.push(record))?;
    Ok(Log { records, ..log })
}

/// Calls `take` with each record of a journal file, so that a long journal is never in memory as a
/// whole. The result has no records.
///
/// # Errors
/// The errors of [`read`]. The records before the damage have been passed on.
pub fn each(path: &Path, take: impl FnMut(Record)) -> Result<Log, JournalError> {
    let name = || path.display().to_string();
    // Any size is accepted, because the file is read line by line.
    let file = regular_file::open(path, u64::MAX).map_err(|source| JournalError::Io {
        path: name(),
        source,
    })?;
    lines(BufReader::with_capacity(1 << 18, file), name, take)
}

/// Reads a journal from any reader; `name` is used in messages.
///
/// # Errors
/// The errors of [`read`].
pub fn read_from(input: impl BufRead, name: &str) -> Result<Log, JournalError> {
    let mut records = Vec::new();
    let log = lines(input, || name.to_owned(), |record| records.push(record))?;
    Ok(Log { records, ..log })
}

/// Reads a journal from memory; see [`read`].
///
/// # Errors
/// [`JournalError`] if it is damaged before its end.
pub fn read_bytes(bytes: &[u8]) -> Result<Log, JournalError> {
    let mut records = Vec::new();
    let log = lines(bytes, String::new, |record| records.push(record))?;
    Ok(Log { records, ..log })
}

/// Another version may have other events, so no event of its journals is read.
fn check_format(line: &[u8]) -> Result<(), JournalError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Made {
        format: String,
        host_version: String,
    }
    let made: Made = serde_json::from_slice(line).unwrap_or_default();
    match made.format.as_str() {
        // Without a format it is damaged, which is reported elsewhere.
        FORMAT | "" => Ok(()),
        _ => Err(JournalError::OtherFormat {
            found: made.format,
            host: made.host_version,
        }),
    }
}

/// The record of a line in the usual form with the number `expected`. It is parsed only once,
/// because a long journal is read before a run continues. None for any other line, which is then
/// parsed with checks.
fn record_at_once(text: &[u8], expected: u64) -> Option<Record> {
    /// The bytes before `end`, and those after it.
    fn until(text: &[u8], end: u8) -> Option<(&str, &[u8])> {
        // The end of a number or of an event's name.
        let at = text.iter().take(64).position(|byte| *byte == end)?;
        let word = std::str::from_utf8(&text[..at]).ok()?;
        Some((word, &text[at + 1..]))
    }
    let (seq, rest) = until(text.strip_prefix(b"{\"seq\":")?, b',')?;
    let (t, rest) = until(rest.strip_prefix(b"\"t\":")?, b',')?;
    let (kind, _) = until(rest.strip_prefix(b"\"event\":\"")?, b'"')?;
    // The first line has the format, which is checked elsewhere.
    if kind == "run_started" || !Event::KINDS.contains(&kind) {
        return None;
    }
    Some(Record {
        seq: seq.parse().ok().filter(|seq| *seq == expected)?,
        t: t.parse().ok()?,
        event: serde_json::from_slice(text).ok()?,
    })
}

/// The kind of a line.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are events, which a box would cost an allocation each"
)]
pub(super) enum ParsedLine {
    /// An event.
    Event(Record),
    /// An event of this kind, which a later version wrote.
    Unknown(String),
    /// The line is not JSON.
    NoJson(serde_json::Error),
}

/// Parses the line with the number `line`, whose event should have the number `expected`.
///
/// # Errors
/// [`JournalError`] if its event has another number, or can't be read by this version.
pub(super) fn parsed(text: &[u8], expected: u64, line: usize) -> Result<ParsedLine, JournalError> {
    if let Some(record) = record_at_once(text, expected) {
        return Ok(ParsedLine::Event(record));
    }
    let head = match serde_json::from_slice::<Head<'_>>(text) {
        Ok(head) => head,
        Err(error) => return Ok(ParsedLine::NoJson(error)),
    };
    if head.seq != expected {
        return Err(JournalError::Gap {
            line,
            expected,
            found: head.seq,
        });
    }
    if head.event == "run_started" {
        check_format(text)?;
    }
    if !Event::KINDS.contains(&&*head.event) {
        return Ok(ParsedLine::Unknown(head.event.into_owned()));
    }
    let event = serde_json::from_slice(text).map_err(|error| JournalError::Line {
        line,
        reason: format!("event `{}`: {}", head.event, shortened(&error)),
    })?;
    Ok(ParsedLine::Event(Record {
        seq: head.seq,
        t: head.t,
        event,
    }))
}

/// The text of an error, which quotes a wrong value whole: its beginning and its end.
pub(super) fn shortened(error: &serde_json::Error) -> String {
    const PART: usize = 200;
    let text = error.to_string();
    let head = text.floor_char_boundary(PART);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(PART));
    match head < tail {
        true => format!("{}...{}", &text[..head], &text[tail..]),
        false => text,
    }
}

/// A line that is not read as a whole, because it has more than `longest` bytes.
pub(super) fn too_long(line: usize, longest: u64) -> JournalError {
    JournalError::Line {
        line,
        reason: format!("it is longer than {} MiB", longest >> 20),
    }
}

fn lines(
    input: impl BufRead,
    name: impl Fn() -> String,
    take: impl FnMut(Record),
) -> Result<Log, JournalError> {
    lines_up_to(LONGEST_LINE, input, name, take)
}

fn lines_up_to(
    longest: u64,
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
        let mut bounded = input.by_ref().take(longest);
        let bytes = bounded.read_until(b'\n', &mut buffer).map_err(io)?;
        if bytes == 0 {
            return Ok(log);
        }
        line += 1;
        if bytes as u64 == longest && !buffer.ends_with(b"\n") {
            return Err(too_long(line, longest));
        }
        let text = buffer.strip_suffix(b"\n").unwrap_or(&buffer);
        let expected = log.last_seq + 1;
        match parsed(text, expected, line)? {
            ParsedLine::Event(record) => take(record),
            ParsedLine::Unknown(kind) => log.unknown.push(UnknownEvent {
                seq: expected,
                kind,
            }),
            // A power cut may leave zeros or random blocks in place of the last lines, so a last
            // line that is not JSON counts as incomplete.
            ParsedLine::NoJson(_) if input.fill_buf().map_err(io)?.is_empty() => {
                log.torn = Some(TornLine { line, bytes });
                return Ok(log);
            }
            ParsedLine::NoJson(error) => {
                return Err(JournalError::Line {
                    line,
                    reason: shortened(&error),
                });
            }
        }
        log.last_seq = expected;
        log.len += bytes as u64;
        log.lacks_newline = text.len() == bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_not_read() {
        let line = |seq: u32, text: &str| {
            format!(
                "{{\"seq\":{seq},\"t\":1.0,\"event\":\"allowed\",\"index\":0,\"x\":\"{text}\"}}\n"
            )
        };
        let long = line(2, &"x".repeat(2 << 20));
        let read = |text: &str| {
            let mut found = 0;
            lines_up_to(1 << 20, text.as_bytes(), String::new, |_| found += 1).map(|_| found)
        };
        assert_eq!(read(&(line(1, "") + &line(2, ""))).unwrap(), 2);
        for text in [line(1, "") + &long, line(1, "") + &long + &line(3, "")] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.starts_with("line 2 "), "{error}");
            assert!(error.contains("longer than 1 MiB"), "{error}");
        }
    }

    /// The short way of parsing lines in the usual form has the same result.
    #[test]
    fn a_line_means_the_same_however_it_is_written() {
        let ours = [
            r#"{"seq":1,"t":1.500000,"event":"message","message":{"role":"user","content":[]}}"#,
            r#"{"seq":2,"t":1763863200.123456,"event":"query_started","query":1}"#,
            r#"{"seq":3,"t":2.000000,"event":"from_the_future","x":1}"#,
            r#"{"seq":4,"t":3.000000,"event":"allowed","index":0}"#,
        ];
        let others = [
            r#" {"event":"message","message":{"content":[],"role":"user"},"t":1.5,"seq":1}"#,
            r#"{"seq": 2, "t": 1763863200.123456, "event": "query_started", "query": 1}"#,
            r#"{"seq":3,"t":2,"x":1,"event":"from_the_future"}"#,
            r#"{"seq":4,"t":3e0,"event":"all\u006fwed","index":0}"#,
        ];
        assert!(record_at_once(ours[0].as_bytes(), 1).is_some());
        assert!(record_at_once(others[0].as_bytes(), 1).is_none());
        let read = |lines: &[&str]| read_bytes((lines.join("\n") + "\n").as_bytes());
        let (log, other) = (read(&ours).unwrap(), read(&others).unwrap());
        assert_eq!(log.records, other.records);
        assert_eq!(log.records.len(), 3);
        assert_eq!((&log.unknown, log.last_seq), (&other.unknown, 4));
        assert_eq!(
            log.len,
            ours.map(|line| line.len() as u64 + 1).iter().sum::<u64>()
        );
        // The errors of a line stay the same.
        let long = format!(
            r#"{{"seq":2,"t":1.0,"event":"allowed","index":"{}"}}"#,
            "é".repeat(100_000)
        );
        for (line, says) in [
            (&*long, "é...é"),
            (&*long, "é\", expected usize;"),
            (
                r#"{"seq":7,"t":1.0,"event":"allowed","index":0}"#,
                "number 7",
            ),
            (
                r#"{"seq":2,"t":1.0,"event":"allowed","index":"x"}"#,
                "event `allowed`",
            ),
            (r#"{"seq":2,"t":1.0,"event":"allowed","index":0"#, "damaged"),
            (
                r#"{"seq":2,"t":inf,"event":"allowed","index":0}"#,
                "damaged",
            ),
        ] {
            let error = read(&[ours[0], line, ours[2]]).unwrap_err().to_string();
            assert!(error.contains(says) && error.len() < 1000, "{error}");
        }
        let torn = read(&[ours[0], r#"{"seq":2,"t":1.0,"event":"allo"#]).unwrap();
        assert_eq!(torn.torn.unwrap().line, 2);
    }
}

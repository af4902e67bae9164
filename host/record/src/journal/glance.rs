//! The first and the last line of a journal, without reading the lines between: enough for a list
//! of many runs.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;

use serde::Deserialize;
use serde::de::IgnoredAny;

use mswea_core::{Object, Usage};

use super::{Event, Record};

/// The longest first line, which has the task and the config.
const HEAD: u64 = 64 << 20;
/// How much is read at a time to find the last line.
const BLOCK: usize = 64 << 10;
/// How many lines at the end may be about shadows, which are written after the run's end.
const SHADOWS: usize = 256;

/// The data of the two ends of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Glance {
    /// The first line.
    pub head: Record,
    /// The time of the last complete line, in Unix seconds.
    pub last: f64,
    /// The end of the run, if the journal ends with it.
    pub end: Option<Closing>,
}

/// The data of `run_ended` without the submission, which may be large.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Closing {
    /// `Submitted`, `LimitsExceeded`, ...
    pub exit_status: String,
    /// Dollars; none if a price was unknown.
    pub cost: Option<f64>,
    /// The number of queries that were begun.
    pub queries: u32,
    /// Tokens of all replies.
    pub usage: Usage,
    /// The failure that ended the run, if one did.
    #[serde(default)]
    pub extra: Object,
}

#[derive(Deserialize)]
struct Line {
    seq: u64,
    t: f64,
    event: String,
}

#[derive(Deserialize)]
struct ClosingLine {
    #[serde(flatten)]
    closing: Closing,
    #[serde(default, rename = "submission")]
    _submission: IgnoredAny,
}

/// Reads the two ends of a journal.
///
/// # Errors
/// The system's error if the file can't be read; an [`io::Error`] if its first line is not that of
/// a journal of this host.
pub fn glance(file: &File) -> io::Result<Glance> {
    let first = first_line(file)?;
    let line: Line = serde_json::from_slice(&first).map_err(io::Error::other)?;
    let event: Event = serde_json::from_slice(&first).map_err(io::Error::other)?;
    if !matches!(event, Event::RunStarted { .. }) {
        return Err(io::Error::other("it does not begin with `run_started`"));
    }
    let (last, end) = last_lines(file)?;
    Ok(Glance {
        head: Record {
            seq: line.seq,
            t: line.t,
            event,
        },
        last: last.unwrap_or(line.t),
        end,
    })
}

/// The time of the last complete line of a journal, and the end of the run, if the journal ends
/// with it.
///
/// # Errors
/// The system's error if the file can't be read.
pub fn last_lines(file: &File) -> io::Result<(Option<f64>, Option<Closing>)> {
    let mut last: Option<f64> = None;
    let mut closing = None;
    let mut end = file.metadata()?.len();
    let mut is_last = true;
    for _ in 0..SHADOWS {
        let Some((start, whole)) = line_before(file, end)? else {
            break;
        };
        let Ok(line) = serde_json::from_reader::<_, Line>(part(file, start, end)) else {
            // An incomplete last line has no event. A damaged line before it is reported by `read`.
            if is_last && !whole && start > 0 {
                (end, is_last) = (start, false);
                continue;
            }
            break;
        };
        if is_last || last.is_none_or(|last| last < line.t) {
            last = Some(line.t);
        }
        is_last = false;
        match line.event.as_str() {
            "shadow_diverged" | "shadow_ended" => end = start,
            "run_ended" => {
                let line: Result<ClosingLine, _> = serde_json::from_reader(part(file, start, end));
                closing = line.ok().map(|line| line.closing);
                break;
            }
            _ => break,
        }
    }
    Ok((last, closing))
}

/// The first line of a journal.
///
/// # Errors
/// The system's error if the file can't be read; an [`io::Error`] if the line is too long.
pub fn first_line(file: &File) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut buffer = vec![0; BLOCK];
    loop {
        let read = file.read_at(&mut buffer, line.len() as u64)?;
        let block = &buffer[..read];
        if let Some(end) = block.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&block[..end]);
            return Ok(line);
        }
        line.extend_from_slice(block);
        if read == 0 {
            return Ok(line);
        }
        if line.len() as u64 > HEAD {
            return Err(io::Error::other("its first line is too long for a journal"));
        }
    }
}

/// The beginning of the line that ends at `end`, and whether the line has its newline.
fn line_before(file: &File, end: u64) -> io::Result<Option<(u64, bool)>> {
    if end == 0 {
        return Ok(None);
    }
    let mut buffer = vec![0; BLOCK];
    file.read_exact_at(&mut buffer[..1], end - 1)?;
    let whole = buffer[0] == b'\n';
    let mut at = end - u64::from(whole);
    while at > 0 {
        let start = at.saturating_sub(BLOCK as u64);
        #[expect(clippy::cast_possible_truncation, reason = "at most a block")]
        let block = &mut buffer[..(at - start) as usize];
        file.read_exact_at(block, start)?;
        if let Some(newline) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some((start + newline as u64 + 1, whole)));
        }
        at = start;
    }
    Ok(Some((0, whole)))
}

/// A reader of the bytes from `start` to `end`: a line may be too long for the memory.
fn part(file: &File, start: u64, end: u64) -> impl io::Read + '_ {
    let part = FileOffsetReader { file, at: start };
    BufReader::with_capacity(BLOCK, part.take(end - start))
}

struct FileOffsetReader<'f> {
    file: &'f File,
    at: u64,
}

impl io::Read for FileOffsetReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn looked_at(text: &str) -> io::Result<Glance> {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        glance(&file)
    }

    fn started() -> String {
        let event = json!({"seq": 1, "t": 1.0, "event": "run_started", "format": "mswea-journal-2",
            "run_id": "r", "host_version": "0", "task": "t", "config": {}, "plugins": []});
        format!("{event}\n")
    }

    fn ended(seq: u64, submission: &str) -> String {
        let event = json!({"seq": seq, "t": 9.0, "event": "run_ended", "exit_status": "Submitted",
            "submission": submission, "cost": 0.5, "queries": 3, "usage": Usage::default()});
        format!("{event}\n")
    }

    #[test]
    fn both_ends_are_read_whatever_is_between() {
        let query = "{\"seq\":2,\"t\":5.0,\"event\":\"query_started\",\"query\":1}\n";
        let shadow = "{\"seq\":4,\"t\":10.0,\"event\":\"shadow_ended\",\"summary\":{}}\n";
        let large = "x".repeat(300_000);
        let end = Some("Submitted");
        let vectors = [
            (started(), 1.0, None),
            (started() + query, 5.0, None),
            (started() + query + "{\"seq\":3,\"t\":6.0,\"ev", 5.0, None),
            (started() + "{\"seq\":2,\"t\":6.0,\"ev", 1.0, None),
            (started() + query + &ended(3, "s"), 9.0, end),
            (started() + query + &ended(3, &large), 9.0, end),
            (started() + &ended(2, "s") + shadow + shadow, 10.0, end),
            (started() + &ended(2, "s") + &large, 9.0, end),
            // The run continues after an end.
            (started() + &ended(2, "s") + query, 5.0, None),
            (started() + "no JSON\n", 1.0, None),
        ];
        for (text, last, end) in vectors {
            let found = looked_at(&text).unwrap();
            let shown: String = text.chars().skip(150).take(120).collect();
            assert_eq!(found.last, last, "{shown}");
            let status = found.end.map(|end| end.exit_status);
            assert_eq!(status.as_deref(), end, "{shown}");
        }
        for text in ["", "\n", "no JSON", "{}\n", query, &"x".repeat(1 << 20)] {
            looked_at(text).unwrap_err();
        }
    }
}

//! Counts the queries, tokens and cost of a run without a recorded end: its journal is read once,
//! and later only the added lines.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};

use mswea_core::Usage;
use mswea_run::journal::LONGEST_LINE;
use serde::Deserialize;

/// The number of bytes of a line that are read for the kind of its event.
const BEGINNING: usize = 96;

/// The counts so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct JournalTally {
    /// The number of bytes that were read.
    read: u64,
    /// Queries that were begun.
    pub(crate) queries: u32,
    /// Tokens.
    pub(crate) usage: Usage,
    cost: f64,
    is_unpriced: bool,
}

#[derive(Deserialize)]
struct BilledLine {
    #[serde(default)]
    cost: Option<f64>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    reply: Option<BilledReply>,
}

#[derive(Deserialize)]
struct BilledReply {
    #[serde(default)]
    usage: Option<Usage>,
}

impl JournalTally {
    /// The cost in dollars; none if a price is unknown.
    pub(crate) fn cost(&self) -> Option<f64> {
        (!self.is_unpriced).then_some(self.cost)
    }

    /// Reads the added lines.
    pub(crate) fn go_on(&mut self, file: &File) -> io::Result<()> {
        let mut input = BufReader::with_capacity(1 << 18, file);
        input.seek(SeekFrom::Start(self.read))?;
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut bounded = input.by_ref().take(LONGEST_LINE);
            let bytes = bounded.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                return match bytes as u64 == LONGEST_LINE {
                    true => Err(io::Error::other(
                        "it has a line that is too long for a journal",
                    )),
                    false => Ok(()),
                };
            }
            self.read += bytes as u64;
            match kind(&line) {
                b"query_started" => self.queries += 1,
                b"reply" | b"ask_reply" | b"query_failed" => self.bill(&line),
                _ => {}
            }
        }
    }

    fn bill(&mut self, line: &[u8]) {
        let Ok(line) = serde_json::from_slice::<BilledLine>(line) else {
            return;
        };
        let usage = line.usage.or(line.reply.and_then(|reply| reply.usage));
        if let Some(usage) = usage {
            self.usage.add(&usage);
        }
        match line.cost {
            Some(cost) => self.cost += cost,
            None => self.is_unpriced = true,
        }
    }
}

/// The kind of the event of a line, as the journal writes it.
fn kind(line: &[u8]) -> &[u8] {
    const KEY: &[u8] = b"\"event\":\"";
    let beginning = &line[..line.len().min(BEGINNING)];
    let Some(at) = beginning.windows(KEY.len()).position(|it| it == KEY) else {
        return b"";
    };
    let rest = &line[at + KEY.len()..];
    let end = rest.iter().position(|byte| *byte == b'"');
    &rest[..end.unwrap_or_default()]
}

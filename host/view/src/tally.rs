//! Counts the queries, tokens and cost of a run without a recorded end: its journal is read once,
//! and later only the added lines.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};

use mswea_core::Usage;
use mswea_record::Account;
use mswea_record::journal::LONGEST_LINE;
use serde::Deserialize;

/// The number of bytes of a line that are read for the kind of its event.
const BEGINNING: usize = 96;

/// The counts so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct JournalTally {
    /// The number of bytes that were read.
    read: u64,
    /// The queries, the tokens and the cost.
    pub(crate) account: Account,
    /// The last query has no reply yet.
    is_querying: bool,
}

#[derive(Deserialize)]
struct QueryLine {
    query: u32,
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
    /// Reads what was added.
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
                b"query_started" => {
                    if let Ok(line) = serde_json::from_slice::<QueryLine>(&line) {
                        self.account.queries = line.query;
                        self.is_querying = true;
                    }
                }
                b"reply" => {
                    self.is_querying = false;
                    self.bill(&line, true);
                }
                b"ask_reply" => self.bill(&line, true),
                b"query_failed" => self.bill(&line, false),
                b"run_resumed" | b"reopened" if self.is_querying => {
                    // It is sent again with the same number.
                    self.account.queries = self.account.queries.saturating_sub(1);
                    self.is_querying = false;
                }
                _ => {}
            }
        }
    }

    fn bill(&mut self, line: &[u8], is_reply: bool) {
        let Ok(line) = serde_json::from_slice::<BilledLine>(line) else {
            return;
        };
        let usage = line.usage.or(line.reply.and_then(|reply| reply.usage));
        self.account.charge(usage.as_ref(), line.cost, is_reply);
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// As the state of the run counts.
    #[test]
    fn a_query_that_is_sent_again_counts_once() {
        let mut file = tempfile::tempfile().unwrap();
        let mut tally = JournalTally::default();
        let mut seq = 0;
        let mut counted = |lines: &[&str]| {
            for line in lines {
                seq += 1;
                writeln!(file, r#"{{"seq":{seq},"t":1.5,"event":{line}}}"#).unwrap();
            }
            tally.go_on(&file).unwrap();
            let account = &tally.account;
            (
                account.queries,
                account.usage.input_tokens,
                account.known_cost(),
            )
        };
        let usage = r#"{"input_tokens":3,"output_tokens":1}"#;
        let reply = format!(r#""reply","reply":{{"usage":{usage}}},"cost":0.5"#);
        let first = counted(&[r#""query_started","query":1"#, &reply]);
        assert_eq!(first, (1, 3, Some(0.5)));
        // A failure that nobody bills has no price.
        let failed = r#""query_failed","class":"x","message":"m""#;
        let second = [r#""query_started","query":2"#, failed, r#""run_resumed""#];
        assert_eq!(counted(&second), (1, 3, Some(0.5)));
        let again = counted(&[r#""query_started","query":2"#, &reply]);
        assert_eq!(again, (2, 6, Some(1.0)));
        let billed = format!(r#""query_failed","usage":{usage}"#);
        assert_eq!(counted(&[&billed]), (2, 9, None));
    }
}

//! A trajectory without a journal, page by page: a reply of the model with its results, or the
//! prompts. The formats are those of mini-swe-agent (also a bare list of messages), SWE-agent and
//! ATIF.

use std::ops::Range;
use std::path::Path;

use mswea_export::{Conversation, ConversationStep, from_atif, from_records, from_sweagent};
use mswea_run::journal::trajectory::{records_from_trajectory, replace_lone_surrogates};
use serde_json::{Map, Value};

use crate::elements::{JsonScan, line_of};

/// A longer value beside the steps is not kept, unless it tells how the run ended.
const HEAD: usize = 256 << 10;
const ENDING: [&str; 3] = ["info", "extra", "final_metrics"];
/// How many messages of the history are looked at for the prompts of SWE-agent.
const PROMPTS: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrajectoryKind {
    Mini,
    Sweagent,
    Atif,
}

impl TrajectoryKind {
    /// The list whose elements are the steps.
    fn key(self) -> &'static str {
        match self {
            Self::Mini => "messages",
            Self::Sweagent => "trajectory",
            Self::Atif => "steps",
        }
    }
}

/// A trajectory.
pub(crate) struct IndexedTrajectory {
    bytes: Vec<u8>,
    kind: TrajectoryKind,
    /// The values outside of the steps.
    head: Map<String, Value>,
    /// The messages before the first step, if they are apart.
    prompts: Option<Range<usize>>,
    /// The elements of each page.
    pages: Vec<Range<usize>>,
}

impl IndexedTrajectory {
    /// Reads a file, and finds its steps.
    ///
    /// # Errors
    /// A message if the file can't be read, or has no steps.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let shown = mswea_text::one_line(&name);
        let bytes = mswea_files::read(path, mswea_files::RECORDS)
            .map_err(|error| format!("`{shown}`: {error}"))?;
        Self::of(bytes).map_err(|why| format!("`{shown}` {why}"))
    }

    fn of(bytes: Vec<u8>) -> Result<Self, String> {
        let mut head = Map::new();
        let mut found: Vec<(TrajectoryKind, Vec<Range<usize>>)> = Vec::new();
        let mut prompts = None;
        let mut scan = JsonScan::new(&bytes);
        let read = match scan.is_array() {
            true => paged(&mut scan, &bytes, TrajectoryKind::Mini)
                .map(|pages| found.push((TrajectoryKind::Mini, pages))),
            false => scan.members(|key, scan| {
                let kind = match key {
                    b"messages" => Some(TrajectoryKind::Mini),
                    b"trajectory" => Some(TrajectoryKind::Sweagent),
                    b"steps" => Some(TrajectoryKind::Atif),
                    _ => None,
                };
                match kind.filter(|_| scan.is_array()) {
                    Some(kind) => found.push((kind, paged(scan, &bytes, kind)?)),
                    None if key == b"history" && scan.is_array() => {
                        prompts = before_replies(scan, &bytes)?;
                    }
                    None => {
                        let value = scan.value()?;
                        let key = String::from_utf8_lossy(key).into_owned();
                        if (value.len() <= HEAD || ENDING.contains(&key.as_str()))
                            && let Ok(value) = parsed(bytes[value].to_vec())
                        {
                            head.insert(key, value);
                        }
                    }
                }
                Some(())
            }),
        };
        if read.is_none() {
            let line = line_of(&bytes, scan.begin());
            return Err(format!("is no JSON, or is cut off: see line {line}"));
        }
        // Newer versions of SWE-agent write `messages` as well.
        found.sort_by_key(|(kind, _)| *kind != TrajectoryKind::Sweagent);
        let Some((kind, pages)) = found.into_iter().next() else {
            return Err(
                "is no trajectory: it has no list `messages`, `trajectory` or `steps`".to_owned(),
            );
        };
        Ok(Self {
            bytes,
            kind,
            head,
            prompts: prompts.filter(|_| kind == TrajectoryKind::Sweagent),
            pages,
        })
    }

    /// The values outside of the steps.
    pub(crate) fn head(&self) -> Value {
        Value::Object(self.head.clone())
    }

    /// Whether what the run has cost in all is beside the steps.
    pub(crate) fn has_sums(&self) -> bool {
        self.kind != TrajectoryKind::Mini
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len() + usize::from(self.prompts.is_some())
    }

    /// The bytes of the prompts and of the steps in these pages.
    fn ranges(&self, pages: Range<usize>) -> [Range<usize>; 2] {
        let apart = usize::from(self.prompts.is_some());
        let prompts = self.prompts.clone().filter(|_| pages.contains(&0));
        let of = pages.start.saturating_sub(apart)..pages.end.saturating_sub(apart);
        let steps = match self.pages.get(of) {
            Some([first, .., last]) => first.start..last.end,
            Some([only]) => only.clone(),
            _ => 0..0,
        };
        [prompts.unwrap_or_default(), steps]
    }

    fn text(&self, range: Range<usize>) -> String {
        String::from_utf8_lossy(&self.bytes[range]).into_owned()
    }

    /// The text of a page, unchanged.
    pub(crate) fn raw(&self, index: usize) -> String {
        let [prompts, steps] = self.ranges(index..index + 1);
        self.text(if prompts.is_empty() { steps } else { prompts })
    }

    /// The last of the pages that follow this one within so many bytes.
    pub(crate) fn end_within(&self, begin: usize, bytes: usize) -> usize {
        let begin_of = |page: usize| self.ranges(page..page + 1)[1].start;
        let mut end = (begin + 1).min(self.len());
        while end < self.len() && self.ranges(end..end + 1)[1].end - begin_of(begin) <= bytes {
            end += 1;
        }
        end
    }

    /// The run, with the steps of these pages.
    ///
    /// # Errors
    /// A message if one of them is in no known form.
    pub(crate) fn conversation(&self, pages: Range<usize>) -> Result<Conversation, String> {
        let list = |range| {
            let list = parsed(format!("[{}]", self.text(range)).into_bytes());
            list.map_err(|error| format!("this step is no JSON: {error}"))
        };
        let [prompts, steps] = self.ranges(pages);
        let mut value = self.head.clone();
        value.insert(self.kind.key().to_owned(), list(steps)?);
        match self.kind {
            TrajectoryKind::Mini => {
                let records = records_from_trajectory(&Value::Object(value), "")?;
                Ok(from_records(&records))
            }
            TrajectoryKind::Sweagent => {
                value.insert("history".to_owned(), list(prompts)?);
                Ok(from_sweagent(&Value::Object(value)))
            }
            TrajectoryKind::Atif => from_atif(&Value::Object(value)),
        }
    }

    /// The steps of a page.
    ///
    /// # Errors
    /// A message if the page has no known form.
    pub(crate) fn steps(&self, index: usize) -> Result<Vec<ConversationStep>, String> {
        Ok(self.conversation(index..index + 1)?.steps)
    }
}

fn parsed(mut text: Vec<u8>) -> serde_json::Result<Value> {
    serde_json::from_slice(&text).or_else(|error| {
        // Python writes half a character as it is.
        match replace_lone_surrogates(&mut text) {
            0 => Err(error),
            _ => serde_json::from_slice(&text),
        }
    })
}

/// The bytes of each page of a list.
fn paged(scan: &mut JsonScan<'_>, bytes: &[u8], kind: TrajectoryKind) -> Option<Vec<Range<usize>>> {
    let mut pages: Vec<Range<usize>> = Vec::new();
    scan.elements(|scan| {
        let begin = scan.begin();
        let begins = is_reply(scan, bytes)? || kind == TrajectoryKind::Sweagent;
        match pages.last_mut().filter(|_| !begins) {
            Some(page) => page.end = scan.end(),
            None => pages.push(begin..scan.end()),
        }
        Some(())
    })?;
    Some(pages)
}

/// The bytes of a history before the first reply of the model.
fn before_replies(scan: &mut JsonScan<'_>, bytes: &[u8]) -> Option<Option<Range<usize>>> {
    let mut found: Option<Range<usize>> = None;
    let (mut seen, mut is_over) = (0, false);
    scan.elements(|scan| {
        let begin = scan.begin();
        is_over = is_over || seen == PROMPTS;
        // The rest is only skipped.
        is_over = match is_over {
            true => scan.value().map(|_| true)?,
            false => is_reply(scan, bytes)?,
        };
        if !is_over {
            seen += 1;
            found.get_or_insert(begin..begin).end = scan.end();
        }
        Some(())
    })?;
    Some(found)
}

/// Reads an element. Whether it is a reply of the model, or what was typed in its place; one that is part of a
/// demonstration is not.
fn is_reply(scan: &mut JsonScan<'_>, bytes: &[u8]) -> Option<bool> {
    if !scan.is_object() {
        scan.value()?;
        return Some(false);
    }
    let (mut is_reply, mut is_demo) = (false, false);
    scan.members(|key, scan| {
        let text = &bytes[scan.value()?];
        match key {
            b"role" => is_reply |= text == b"\"assistant\"",
            b"source" => is_reply |= text == b"\"agent\"",
            b"object" => is_reply |= text == b"\"response\"",
            b"is_demo" => is_demo = text == b"true",
            _ => {}
        }
        Some(())
    })?;
    Some(is_reply && !is_demo)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<Vec<String>> {
        let run = IndexedTrajectory::of(text.as_bytes().to_vec()).unwrap();
        let pages = (0..run.len()).map(|page| {
            let steps = run.steps(page).unwrap().into_iter();
            steps.map(|step| step.text).collect()
        });
        pages.collect()
    }

    #[test]
    fn pages_of_each_format() {
        let messages = r#"[{"role": "system", "content": "s"}, {"role": "user", "content": "t"},
            {"role": "assistant", "content": "a"}, {"role": "user", "content": "shown"},
            {"content": "b", "role": "assistant"}, {"role": "exit", "content": "", "extra": {"exit_status": "Submitted"}}]"#;
        let mini = format!(
            r#"{{"info": {{"x": 1}}, "messages": {messages}, "trajectory_format": "mini-swe-agent-1.1"}}"#
        );
        for text in [messages.to_owned(), mini] {
            assert_eq!(
                texts(&text),
                [vec!["s", "t"], vec!["a"], vec!["b"]],
                "{text}"
            );
        }
        let sweagent = r#"{"trajectory": [{"action": "ls", "thought": "one", "observation": "x"}, {"action": "", "thought": "two"}],
            "history": [{"role": "system", "content": "s"}, {"role": "assistant", "content": "d", "is_demo": true}, {"role": "assistant", "content": "one"}],
            "info": {}}"#;
        assert_eq!(texts(sweagent), [vec!["s", "d"], vec!["one"], vec!["two"]]);
    }

    #[test]
    fn the_name_of_a_file_in_an_error_is_harmless() {
        let path = Path::new("x\u{1b}]0;title\u{7}\u{1b}[2J.traj.json");
        let error = IndexedTrajectory::open(path).err().unwrap();
        assert!(error.starts_with("`x.traj.json`: "), "{error:?}");
    }

    #[test]
    fn what_is_no_trajectory() {
        for (text, expected) in [
            ("{\n\"messages\": [1,\n", "cut off: see line 3"),
            ("{}", "no list `messages`"),
            ("x", "is no JSON"),
        ] {
            let error = IndexedTrajectory::of(text.as_bytes().to_vec())
                .err()
                .unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }
}

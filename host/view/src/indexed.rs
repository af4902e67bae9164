//! A trajectory without a journal, page by page: a reply of the model with its results, or the
//! prompts. The formats are those of mini-swe-agent (also a bare list of messages), SWE-agent (also its
//! history alone) and ATIF.

use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use mswea_export::{
    Conversation, ConversationStep, from_atif, from_records, from_sweagent, steps_of_history,
};
use mswea_record::trajectory::records_from_trajectory;
use mswea_text::read_json;
use serde_json::{Map, Value};

use crate::elements::{JsonScan, line_of, unescaped};

/// A longer value beside the steps is not kept, unless it tells how the run ended.
const HEAD: usize = 256 << 10;
const ENDING: [&str; 3] = ["info", "extra", "final_metrics"];
/// So many of the other values are kept, with so many bytes in all.
const MEMBERS: usize = 1000;
const MEMBERS_BYTES: usize = 1 << 20;
/// Keys that a trajectory has at most once: a parser takes the last of several, another reader the first.
pub(crate) const ONCE: [&str; 5] = ["messages", "steps", "trajectory", "history", "info"];
/// How many messages of the history are looked at for the prompts of SWE-agent.
const PROMPTS: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrajectoryKind {
    Mini,
    Sweagent,
    /// SWE-agent's history alone.
    History,
    Atif,
}

impl TrajectoryKind {
    /// The list whose elements are the steps.
    fn key(self) -> &'static str {
        match self {
            Self::Mini => "messages",
            Self::Sweagent | Self::History => "trajectory",
            Self::Atif => "steps",
        }
    }

    /// The run with these values.
    fn read(self, value: &Value) -> Result<Conversation, String> {
        match self {
            Self::Mini => records_from_trajectory(value, "").map(|it| from_records(&it)),
            Self::Atif => from_atif(value),
            Self::Sweagent | Self::History => Ok(from_sweagent(value)),
        }
    }
}

/// A trajectory.
pub(crate) struct IndexedTrajectory {
    bytes: Vec<u8>,
    kind: TrajectoryKind,
    /// The values outside of the steps.
    head: Mutex<Map<String, Value>>,
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
        let mut bytes_left = MEMBERS_BYTES;
        let mut found: Vec<(TrajectoryKind, Vec<Range<usize>>)> = Vec::new();
        let (mut prompts, mut history) = (None, None);
        let mut once: Vec<&str> = Vec::new();
        let mut twice = None;
        let mut scan = JsonScan::new(&bytes);
        let read = match scan.is_array() {
            true => paged(&mut scan, &bytes, TrajectoryKind::Mini)
                .map(|pages| found.push((TrajectoryKind::Mini, pages))),
            false => scan.members(|key, scan| {
                if let Some(key) = ONCE.iter().find(|it| it.as_bytes() == key) {
                    if once.contains(key) {
                        twice = Some(*key);
                        return None;
                    }
                    once.push(key);
                }
                let kind = match key {
                    b"messages" => Some(TrajectoryKind::Mini),
                    b"trajectory" => Some(TrajectoryKind::Sweagent),
                    b"steps" => Some(TrajectoryKind::Atif),
                    _ => None,
                };
                match kind.filter(|_| scan.is_array()) {
                    Some(kind) => found.push((kind, paged(scan, &bytes, kind)?)),
                    None if key == b"history" && scan.is_array() => {
                        history = Some(scan.begin());
                        prompts = before_replies(scan, &bytes)?;
                    }
                    None => {
                        let value = scan.value()?;
                        let key = String::from_utf8_lossy(key).into_owned();
                        // The last one counts.
                        head.shift_remove(&key);
                        let is_ending = ENDING.contains(&key.as_str());
                        let bytes_used = if is_ending {
                            0
                        } else {
                            key.len() + value.len()
                        };
                        let has_room = head.len() < MEMBERS && bytes_used <= bytes_left;
                        if (is_ending || value.len() <= HEAD && has_room)
                            && let Ok(value) = read_json(&bytes[value])
                        {
                            bytes_left -= bytes_used;
                            head.insert(key, value);
                        }
                    }
                }
                Some(())
            }),
        };
        if let Some(key) = twice {
            return Err(has_twice(key));
        }
        if read.is_none() {
            let line = line_of(&bytes, scan.begin());
            return Err(format!("is no JSON, or is cut off: see line {line}"));
        }
        if let Some(begin) = history.filter(|_| found.is_empty()) {
            let kind = TrajectoryKind::History;
            let pages = paged(&mut JsonScan::at(&bytes, begin), &bytes, kind);
            found.push((kind, pages.unwrap_or_default()));
        }
        // Newer versions of SWE-agent write `messages` as well.
        found.sort_by_key(|(kind, _)| *kind != TrajectoryKind::Sweagent);
        let Some((kind, pages)) = found.into_iter().next() else {
            return Err(
                "is no trajectory: it has no list `messages`, `trajectory`, `steps` or `history`"
                    .to_owned(),
            );
        };
        Ok(Self {
            bytes,
            kind,
            head: Mutex::new(head),
            prompts: prompts.filter(|_| kind == TrajectoryKind::Sweagent),
            pages,
        })
    }

    /// The values outside of the steps.
    pub(crate) fn head(&self) -> Value {
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        Value::Object(head.clone())
    }

    /// How the run ended, if that is outside of the steps.
    pub(crate) fn exit_status(&self) -> Option<String> {
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let status = head.get("info")?.get("exit_status")?.as_str()?;
        Some(status.to_owned())
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
        let list = |range| match read_json(format!("[{}]", self.text(range)).as_bytes()) {
            Ok(Value::Array(list)) => Ok(list),
            Ok(_) => Ok(Vec::new()),
            Err(error) => Err(format!("this step is no JSON: {error}")),
        };
        let [prompts, steps] = self.ranges(pages);
        let (mut prompts, mut steps) = (list(prompts)?, list(steps)?);
        if self.kind == TrajectoryKind::History {
            (prompts, steps) = steps_of_history(steps);
        }
        // The values are lent, because they may be large.
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        head.insert(self.kind.key().to_owned(), steps.into());
        if self.kind.key() == "trajectory" {
            head.insert("history".to_owned(), prompts.into());
        }
        let mut value = Value::Object(std::mem::take(&mut *head));
        let read = self.kind.read(&value);
        if let Some(values) = value.as_object_mut() {
            values.shift_remove("history");
            values.shift_remove(self.kind.key());
            *head = std::mem::take(values);
        }
        let mut run = read?;
        if self.kind.key() == "trajectory" && !self.pages.is_empty() {
            let stats = head.get("info").and_then(|it| it.get("model_stats"));
            let calls = stats.and_then(|it| it.get("api_calls")?.as_u64());
            run.cost = run
                .cost
                .filter(|cost| is_told(*cost, calls.unwrap_or_default()));
        }
        Ok(run)
    }

    /// The steps of a page.
    ///
    /// # Errors
    /// A message if the page has no known form.
    pub(crate) fn steps(&self, index: usize) -> Result<Vec<ConversationStep>, String> {
        Ok(self.conversation(index..index + 1)?.steps)
    }
}

/// The error about such a key ([`ONCE`]).
pub(crate) fn has_twice(key: &str) -> String {
    format!("has the key `{key}` more than once, of which readers take different ones")
}

/// Whether SWE-agent's cost of a run with replies is known. Its statistics may be all zero.
pub(crate) fn is_told(cost: f64, calls: u64) -> bool {
    calls > 0 || cost > 0.0
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
    let (mut of_role, mut of_source, mut of_kind, mut is_demo) = (false, false, false, false);
    scan.members(|key, scan| {
        let text = &bytes[scan.value()?];
        let is = |word: &str| text.first() == Some(&b'"') && *unescaped(text) == *word.as_bytes();
        match key {
            b"role" => of_role = is("assistant"),
            b"source" => of_source = is("agent"),
            b"object" => of_kind = is("response"),
            b"is_demo" => is_demo = text == b"true",
            _ => {}
        }
        Some(())
    })?;
    Some((of_role || of_source || of_kind) && !is_demo)
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
    fn a_history_alone_is_a_run() {
        let history = r#"{"history": [{"role": "system", "content": "s"}, {"role": "assistant", "content": "d", "is_demo": true},
            {"role": "user", "content": [{"type": "text", "text": "fix it"}]}, {"role": "\u0061ssistant", "thought": "one", "content": "", "action": "ls"},
            {"role": "user", "content": "a.c"}, {"role": "tool", "content": [{"type": "text", "text": "b.c"}]},
            {"role": "assistant", "content": "two"}],
            "info": {"model_stats": {"api_calls": 0, "instance_cost": 0.0}}}"#;
        let expected = [vec!["s", "d", "fix it"], vec!["one"], vec!["two"]];
        assert_eq!(texts(history), expected);
        let run = IndexedTrajectory::of(history.as_bytes().to_vec()).unwrap();
        assert_eq!(run.steps(1).unwrap()[0].shown[0].text, "a.c\nb.c");
        // Zero statistics are none.
        assert_eq!(run.conversation(0..2).unwrap().cost, None);
    }

    #[test]
    fn what_is_kept_beside_the_steps_is_limited() {
        let many = (0..3 * MEMBERS).map(|key| format!("\"{key}\": {key}, "));
        let long = "x".repeat(HEAD - 2);
        let text = format!(
            r#"{{"a": 1, "b": "{long}", "c": "{long}", "d": "{long}", "e": "{long}", "a": "{long}x", {} "info": {{"exit_status": "end"}}, "messages": []}}"#,
            many.collect::<String>()
        );
        let run = IndexedTrajectory::of(text.into_bytes()).unwrap();
        assert!(run.head.lock().unwrap().len() <= MEMBERS + 1);
        // The last one counts, and is too long.
        assert!(run.head().get("a").is_none() && run.head().get("e").is_none());
        for _ in 0..2 {
            assert_eq!(run.exit_status().as_deref(), Some("end"));
            let read = run.conversation(0..0).unwrap();
            assert_eq!(read.exit_status.as_deref(), Some("end"));
        }
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
            (
                r#"{"messages": [1], "\u006dessages": [2]}"#,
                "has the key `messages` more than once",
            ),
            (
                r#"{"info": {}, "steps": [], "info": 7}"#,
                "the key `info` more",
            ),
        ] {
            let error = IndexedTrajectory::of(text.as_bytes().to_vec())
                .err()
                .unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }
}

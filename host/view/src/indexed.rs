//! A trajectory without a journal, page by page: a reply of the model with its results, or the
//! prompts. The formats are those of mini-swe-agent (also a bare list of messages), SWE-agent and
//! ATIF.

use std::ops::Range;
use std::path::Path;

use mswea_export::{ConversationStep, from_atif, from_records, from_sweagent};
use mswea_run::journal::trajectory::{records_from_trajectory, replace_lone_surrogates};
use serde_json::{Map, Value, json};

use crate::elements::{JsonScan, line_of};

/// The longest value outside of the steps that is kept.
const HEAD: usize = 256 << 10;
/// The number of messages of the history in which the prompts of SWE-agent are looked for.
const PROMPTS: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrajectoryKind {
    Mini,
    Sweagent,
    Atif,
}

/// A trajectory.
pub(crate) struct IndexedTrajectory {
    bytes: Vec<u8>,
    kind: TrajectoryKind,
    /// The values outside of the steps.
    head: Map<String, Value>,
    /// The messages before the first step, if the format has them separately.
    prompts: Vec<Range<usize>>,
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
        let mut history = Vec::new();
        let mut scan = JsonScan::new(&bytes, 0);
        let read = match scan.is_array() {
            true => scan
                .elements()
                .map(|all| found.push((TrajectoryKind::Mini, all))),
            false => scan.members(|key, scan| {
                let kind = match key {
                    b"messages" => Some(TrajectoryKind::Mini),
                    b"trajectory" => Some(TrajectoryKind::Sweagent),
                    b"steps" => Some(TrajectoryKind::Atif),
                    _ => None,
                };
                match kind.filter(|_| scan.is_array()) {
                    Some(kind) => found.push((kind, scan.elements()?)),
                    None if key == b"history" && scan.is_array() => history = scan.elements()?,
                    None => {
                        let value = scan.value()?;
                        let key = String::from_utf8_lossy(key).into_owned();
                        if value.len() <= HEAD
                            && let Ok(value) = serde_json::from_slice(&bytes[value])
                        {
                            head.insert(key, value);
                        }
                    }
                }
                Some(())
            }),
        };
        let end = scan.at();
        if read.is_none() {
            let line = line_of(&bytes, end);
            return Err(format!("is no JSON, or is cut off: see line {line}"));
        }
        // Newer versions of SWE-agent write `messages` as well.
        found.sort_by_key(|(kind, _)| *kind != TrajectoryKind::Sweagent);
        let Some((kind, elements)) = found.into_iter().next() else {
            return Err(
                "is no trajectory: it has no list `messages`, `trajectory` or `steps`".to_owned(),
            );
        };
        let mut this = Self {
            bytes,
            kind,
            head,
            prompts: Vec::new(),
            pages: Vec::new(),
        };
        if kind == TrajectoryKind::Sweagent {
            let prompts = history.into_iter().take(PROMPTS);
            this.prompts = prompts
                .take_while(|it| !this.is_reply(it.clone(), true))
                .collect();
        }
        this.pages = this.paged(elements);
        Ok(this)
    }

    /// The bytes of each page.
    fn paged(&self, elements: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let mut pages: Vec<Range<usize>> = Vec::new();
        for element in elements {
            let begins = match self.kind {
                TrajectoryKind::Sweagent => true,
                TrajectoryKind::Mini | TrajectoryKind::Atif => {
                    self.is_reply(element.clone(), false)
                }
            };
            match pages.last_mut().filter(|_| !begins) {
                Some(page) => page.end = element.end,
                None => pages.push(element),
            }
        }
        pages
    }

    /// Whether an element is a reply of the model, or a person's text in its place.
    fn is_reply(&self, element: Range<usize>, counts_demos: bool) -> bool {
        let mut is_reply = false;
        let bytes = &self.bytes;
        JsonScan::new(bytes, element.start).members(|key, scan| {
            let value = scan.value()?;
            let text = &bytes[value];
            match key {
                b"role" => {
                    is_reply = text == b"\"assistant\"";
                    // The rest, which may be long, is not needed.
                    return counts_demos.then_some(());
                }
                b"source" => is_reply |= text == b"\"agent\"",
                b"object" => is_reply |= text == b"\"response\"",
                b"is_demo" if counts_demos && text == b"true" => {
                    is_reply = false;
                    return None;
                }
                _ => {}
            }
            Some(())
        });
        is_reply
    }

    /// The values outside of the steps.
    pub(crate) fn head(&self) -> Value {
        Value::Object(self.head.clone())
    }

    fn has_prompts(&self) -> bool {
        !self.prompts.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len() + usize::from(self.has_prompts())
    }

    /// The text of a page, unchanged.
    pub(crate) fn raw(&self, index: usize) -> String {
        let range = match (self.has_prompts(), index) {
            (true, 0) => self.prompts[0].start..self.prompts[self.prompts.len() - 1].end,
            (has_prompts, index) => match self.pages.get(index - usize::from(has_prompts)) {
                Some(page) => page.clone(),
                None => return String::new(),
            },
        };
        String::from_utf8_lossy(&self.bytes[range]).into_owned()
    }

    /// The steps of a page.
    ///
    /// # Errors
    /// A message if the page has no known form.
    pub(crate) fn steps(&self, index: usize) -> Result<Vec<ConversationStep>, String> {
        let mut text = format!("[{}]", self.raw(index)).into_bytes();
        let elements =
            serde_json::from_slice(&text).or_else(|error| {
                match replace_lone_surrogates(&mut text) {
                    0 => Err(error),
                    _ => serde_json::from_slice(&text),
                }
            });
        let elements: Value = elements.map_err(|error| format!("this step is no JSON: {error}"))?;
        let steps = match self.kind {
            TrajectoryKind::Mini => {
                let records = records_from_trajectory(&json!({ "messages": elements }), "")?;
                from_records(&records).steps
            }
            TrajectoryKind::Sweagent if self.has_prompts() && index == 0 => {
                from_sweagent(&json!({ "history": elements, "trajectory": [], "info": {} })).steps
            }
            TrajectoryKind::Sweagent => {
                from_sweagent(&json!({ "history": [], "trajectory": elements, "info": {} })).steps
            }
            TrajectoryKind::Atif => {
                let mut value = self.head.clone();
                value.insert("steps".to_owned(), elements);
                from_atif(&Value::Object(value))?.steps
            }
        };
        Ok(steps)
    }
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

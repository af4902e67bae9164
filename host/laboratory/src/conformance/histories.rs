//! Histories as runs produce them, and their changes from query to query.

mod hostile;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::options::Scale;
pub(super) use hostile::hostile;

use super::values::{object, tool_call};
use mswea_core::{Change, Message, Part};
use mswea_run::history::check_pairing;

/// Steps of a long history.
const LONG: usize = 64;

/// One change of the history; `history[start..]` is now `messages`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct HistoryStep {
    pub start: usize,
    pub messages: Vec<Message>,
}

impl HistoryStep {
    pub fn change(&self) -> Change {
        Change {
            start: self.start,
            ..Change::all(self.messages.clone())
        }
    }
}

/// A sequence of changes with its description.
pub(super) struct Course {
    pub label: String,
    pub steps: Vec<HistoryStep>,
}

/// Whether a host could make these changes: without gaps, never empty, always paired.
pub(super) fn is_lawful(steps: &[HistoryStep]) -> bool {
    let mut history: Vec<Message> = Vec::new();
    !steps.is_empty()
        && steps.iter().all(|step| {
            if step.start > history.len() {
                return false;
            }
            step.change().apply(&mut history);
            let roles = ["system", "user", "assistant", "tool"];
            let known = |message: &Message| roles.contains(&message.role.as_str());
            let ids = |message: &Message| message.tool_calls.iter().all(|call| !call.id.is_empty());
            !history.is_empty()
                && history.iter().all(|message| known(message) && ids(message))
                && check_pairing(&history, 0).is_ok()
        })
}

/// Writes messages that all differ.
pub(super) struct MessageWriter {
    random: fastrand::Rng,
    count: usize,
    /// Whether messages state large token counts.
    heavy: bool,
    /// Whether messages have one line only.
    brief: bool,
}

impl MessageWriter {
    pub fn new(random: fastrand::Rng) -> Self {
        Self {
            random,
            count: 0,
            heavy: false,
            brief: false,
        }
    }

    fn text(&mut self, word: &str) -> String {
        let n = self.count;
        let lines = match self.random.u32(0..8) {
            0 => 60,
            1 => 0,
            _ => self.random.usize(1..5),
        };
        let lines = match (self.heavy, self.brief) {
            (true, _) => 150,
            (_, true) => 0,
            _ => lines,
        };
        let mut text = format!("{word} {n}\n");
        for line in 0..lines {
            text.push_str(&format!(
                "{word} {n}, line {line}: caf\u{e9} \u{1f980} {}\n",
                self.random.u16(..)
            ));
        }
        text
    }

    /// A message with keys in its `extra` that no plugin knows.
    fn message(&mut self, role: &str, word: &str) -> Message {
        self.count += 1;
        let mut message = Message::new(role, self.text(word));
        message.extra = object(json!({
            "timestamp": 1_760_000_000.5 + self.count as f64,
            "kit_mark": self.count,
            "kit_more": {"list": [null, "x", self.count], "": true},
        }));
        message
    }

    /// The beginning of a history.
    pub fn opening(&mut self) -> Vec<Message> {
        let mut opening = vec![
            self.message("system", "system"),
            self.message("user", "task"),
        ];
        // Some histories begin with a demonstration.
        if self.random.u8(0..5) == 0 {
            let mut demo = self.message("user", "demonstration");
            demo.extra
                .insert("tags".into(), json!(["is_demo", "keep_output"]));
            opening.insert(1, demo);
        }
        opening
    }

    /// The messages that one query adds: the model's, and the observations.
    pub fn turn(&mut self) -> Vec<Message> {
        let mut says = self.message("assistant", "thought");
        let tokens = self.count as u64 * if self.heavy { 40_000 } else { 900 };
        says.extra.insert("cost".into(), json!(0.01));
        says.extra.insert(
            "mswea".into(),
            json!({"usage": {
                "input_tokens": tokens, "output_tokens": 200, "cache_read_tokens": tokens / 2,
            }}),
        );
        if self.random.u8(0..6) == 0 {
            says.content.insert(
                0,
                Part::Reasoning {
                    text: format!("reasoning {}", self.count),
                    extra: object(json!({"kit": 1})),
                },
            );
            says.content.push(Part::Opaque {
                format: "kit".to_owned(),
                data: json!({"signature": self.count}),
            });
        }
        let calls = match self.random.u8(0..8) {
            0 | 1 => 0,
            2 => 2,
            3 => 3,
            _ => 1,
        };
        let mut turn = Vec::new();
        if calls == 0 {
            says.extra
                .insert("actions".into(), json!([{"command": "ls"}]));
            turn.push(says);
            let mut seen = self.message("user", "observation");
            seen.extra.insert("returncode".into(), json!(0));
            if self.count.is_multiple_of(3) {
                seen.content.push(Part::Image {
                    url: "data:image/png;base64,iVBORw0KGgo=".to_owned(),
                    extra: object(json!({"kit": self.count})),
                });
            }
            turn.push(seen);
            return turn;
        }
        let ids: Vec<String> = (0..calls)
            .map(|n| format!("call_{}_{n}", self.count))
            .collect();
        says.tool_calls = ids
            .iter()
            .map(|id| {
                let mut call = tool_call(id, "bash", r#"{"command": "ls \u00e9"}"#);
                call.extra = object(json!({"kit_call": id}));
                call
            })
            .collect();
        turn.push(says);
        for id in ids {
            let mut result = self.message("tool", "observation");
            result
                .extra
                .insert("returncode".into(), json!(self.random.i32(-1..3)));
            let tags = match self.random.u8(0..8) {
                0 => json!(["keep_output"]),
                1 => json!(["remove_output", "image"]),
                _ => json!(null),
            };
            if !tags.is_null() {
                result.extra.insert("tags".into(), tags);
            }
            result.tool_call_id = Some(id);
            turn.push(result);
        }
        if self.random.u8(0..9) == 0 {
            let mut note = self.message("user", "interruption");
            note.extra
                .insert("interrupt_type".into(), json!("UserInterruption"));
            turn.push(note);
        }
        turn
    }

    /// A history that only grows.
    pub fn growth(&mut self, turns: usize) -> Vec<HistoryStep> {
        let mut steps = Vec::new();
        let mut messages = self.opening();
        let mut len = 0;
        for _ in 0..turns {
            steps.push(HistoryStep {
                start: len,
                messages: messages.clone(),
            });
            len += messages.len();
            messages = self.turn();
        }
        steps
    }

    /// A history in which each change may remove or replace something, and may begin anywhere.
    pub fn splices(&mut self, turns: usize) -> Vec<HistoryStep> {
        let mut history: Vec<Message> = Vec::new();
        let mut steps: Vec<HistoryStep> = Vec::new();
        for turn in 0..turns {
            let mut next = history.clone();
            let kept = match self.random.u8(0..10) {
                _ if turn == 0 => 0,
                0 => 0,
                1 | 2 => self.random.usize(0..=history.len()),
                _ => history.len(),
            };
            next.truncate(boundary(&history, kept));
            if next.is_empty() {
                next = self.opening();
            }
            for _ in 0..self.random.usize(0..4) {
                let turn = self.turn();
                next.extend(turn);
            }
            // An old message gets another text.
            if self.random.u8(0..4) == 0 {
                let index = self.random.usize(0..next.len());
                let text = self.text("changed");
                next[index].content = vec![Part::text(text)];
            }
            let same = history
                .iter()
                .zip(&next)
                .take_while(|(a, b)| a == b)
                .count();
            // The change may begin before the first difference.
            let start = match self.random.u8(0..4) {
                0 => self.random.usize(0..=same),
                _ => same,
            };
            steps.push(HistoryStep {
                start,
                messages: next[start..].to_vec(),
            });
            history = next;
        }
        steps
    }
}

/// The end of the last turn that is wholly before `at`.
fn boundary(history: &[Message], at: usize) -> usize {
    let mut end = at.min(history.len());
    while end > 0 && end < history.len() && history[end].role == "tool" {
        end -= 1;
    }
    end
}

/// Courses as they occur: some only grow, and with `spliced` some change anywhere.
pub(super) fn courses(
    random: fastrand::Rng,
    scale: &Scale,
    spliced: bool,
    samples: &[Vec<Message>],
) -> Vec<Course> {
    let mut writer = MessageWriter::new(random);
    let mut courses = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        courses.push(Course {
            label: format!("history {} of the samples", index + 1),
            steps: stepwise(sample),
        });
    }
    for index in 0..scale.sequences {
        let turns = 2 + writer.random.usize(0..12);
        // Some contexts are so large that they have to be compressed.
        writer.heavy = index % 4 == 2;
        let (label, steps) = if spliced {
            ("a history that is changed anywhere", writer.splices(turns))
        } else {
            ("a history that grows", writer.growth(turns))
        };
        courses.push(Course {
            label: label.to_owned(),
            steps,
        });
    }
    courses
}

/// A long run of short messages: the effects of counters and of growing state show only after many
/// steps.
pub(super) fn long(random: fastrand::Rng) -> Course {
    let mut writer = MessageWriter::new(random);
    writer.brief = true;
    Course {
        label: "a long history that grows".to_owned(),
        steps: writer.growth(LONG),
    }
}

/// The changes by which a history grew: each ends before a message of the model.
fn stepwise(history: &[Message]) -> Vec<HistoryStep> {
    let mut steps = Vec::new();
    let mut start = 0;
    for (index, message) in history.iter().enumerate() {
        if message.role == "assistant" && index > start {
            steps.push(HistoryStep {
                start,
                messages: history[start..index].to_vec(),
            });
            start = index;
        }
    }
    let messages = history[start..].to_vec();
    steps.push(HistoryStep { start, messages });
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Effort;

    #[test]
    fn what_is_made_is_lawful_and_varied() {
        let scale = Effort::Full.scale();
        let (mut shrinks, mut inside, mut before) = (0, 0, 0);
        for spliced in [false, true] {
            for course in courses(fastrand::Rng::with_seed(7), &scale, spliced, &[]) {
                assert!(is_lawful(&course.steps), "{}", course.label);
                let mut history: Vec<Message> = Vec::new();
                for step in &course.steps {
                    let len = history.len();
                    before += usize::from(
                        step.start < len && history.get(step.start) == step.messages.first(),
                    );
                    inside += usize::from(step.start < len && history[step.start].role == "tool");
                    step.change().apply(&mut history);
                    shrinks += usize::from(history.len() < len);
                }
            }
        }
        assert!(
            shrinks > 3 && inside > 3 && before > 3,
            "{shrinks} {inside} {before}"
        );
    }

    #[test]
    fn a_sample_is_taken_apart_where_the_model_speaks() {
        let mut writer = MessageWriter::new(fastrand::Rng::with_seed(1));
        let mut history = writer.opening();
        for _ in 0..3 {
            history.extend(writer.turn());
        }
        let steps = stepwise(&history);
        assert_eq!(steps.len(), 4);
        let mut back: Vec<Message> = Vec::new();
        for step in &steps {
            step.change().apply(&mut back);
        }
        assert_eq!(back, history);
    }
}

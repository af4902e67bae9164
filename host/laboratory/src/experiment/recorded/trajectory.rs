//! Reads a run from a trajectory of this host or of mini-swe-agent, message by message.
//!
//! A trajectory does not contain queries, so they are found by their replies: accepted ones are
//! messages, rejected ones are in the `extra` of their feedback.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::super::text::number;
use super::{Left, Read, RecordedOutcome, Run, RunFileFormat, Step, lighten, raw_output};
use mswea_core::{Action, Message, Object, Reply, Usage};
use mswea_files as regular_file;
use mswea_record::trajectory::messages_from_trajectory;
use mswea_text::MendedJson;

/// Reads a run, unless it is one of the `known` ones; also returns a warning about the file, if
/// there is one.
pub(super) fn read(path: &Path, name: &str, known: &HashSet<String>) -> Read {
    let bytes = regular_file::read(path, regular_file::RECORDS)
        .map_err(|error| Left::Damaged(error.to_string()))?;
    let mut read = parse(&bytes, name, known);
    let mut note = None;
    if matches!(&read, Err(Unread::Damaged(error)) if error.is_syntax())
        && let Some(mended) = MendedJson::of(&bytes)
    {
        read = parse(&mended.text, name, known);
        note = (mended.halves > 0).then(|| {
            format!(
                "it has {} of half a character, read as U+FFFD",
                number(mended.halves, "`\\u` escape")
            )
        });
    }
    match read {
        Ok(run) => Ok((run, note)),
        Err(Unread::Known) => Err(Left::Known),
        Err(Unread::Damaged(error)) => Err(Left::Damaged(format!(
            "it is no trajectory, or a damaged one: {error}"
        ))),
    }
}

enum Unread {
    Known,
    Damaged(serde_json::Error),
}

fn parse(bytes: &[u8], name: &str, known: &HashSet<String>) -> Result<Run, Unread> {
    let mut builder = TrajectoryRunBuilder::new(name);
    let mut is_known = false;
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let reader = TrajectoryReader {
        builder: &mut builder,
        known,
        is_known: &mut is_known,
    };
    let read = deserializer
        .deserialize_any(reader)
        .and_then(|()| deserializer.end());
    match read {
        _ if is_known => Err(Unread::Known),
        Ok(()) => Ok(builder.finish()),
        Err(error) => Err(Unread::Damaged(error)),
    }
}

/// Reads a file without holding all of it in memory as values; everything but its messages is
/// skipped.
struct TrajectoryReader<'a> {
    builder: &'a mut TrajectoryRunBuilder,
    known: &'a HashSet<String>,
    is_known: &'a mut bool,
}

impl<'de> Visitor<'de> for TrajectoryReader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list `messages`, or a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, messages: A) -> Result<(), A::Error> {
        Messages(self.builder).visit_seq(messages)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut has_messages = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "info" => {
                    let info: Value = map.next_value()?;
                    let id = info.pointer("/mswea/run_id").and_then(Value::as_str);
                    self.builder.run.run_id = id.unwrap_or_default().to_owned();
                    if id.is_some_and(|id| self.known.contains(id)) {
                        *self.is_known = true;
                        return Err(serde::de::Error::custom("the run is known"));
                    }
                }
                "messages" => {
                    map.next_value_seed(Messages(&mut *self.builder))?;
                    has_messages = true;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match has_messages {
            true => Ok(()),
            false => Err(serde::de::Error::missing_field("messages")),
        }
    }
}

struct Messages<'a>(&'a mut TrajectoryRunBuilder);

impl<'de> DeserializeSeed<'de> for Messages<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Messages<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut messages: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(message) = messages.next_element::<Value>()? {
            self.0.take(message).map_err(|reason| {
                serde::de::Error::custom(format_args!("message {index}: {reason}"))
            })?;
            index += 1;
        }
        Ok(())
    }
}

struct TrajectoryRunBuilder {
    run: Run,
    /// Whether observations that follow belong to the last step.
    is_open: bool,
    /// Actions without an output so far.
    waiting: Vec<Action>,
}

impl TrajectoryRunBuilder {
    fn new(name: &str) -> Self {
        Self {
            run: Run {
                name: name.to_owned(),
                form: RunFileFormat::Trajectory,
                run_id: String::new(),
                history: Vec::new(),
                steps: Vec::new(),
                questions: Vec::new(),
            },
            is_open: false,
            waiting: Vec::new(),
        }
    }

    fn take(&mut self, value: Value) -> Result<(), String> {
        let message = decode(value)?;
        let is_feedback = message
            .extra
            .get("interrupt_type")
            .is_some_and(|kind| kind == "FormatError");
        if message.role == "assistant" {
            self.accepted(message);
        } else if is_feedback {
            self.rejected(message);
        } else {
            self.observed(message);
        }
        Ok(())
    }

    fn step(&mut self, reply: Reply, outcome: RecordedOutcome) {
        let seen = self.run.history.len();
        self.run.steps.push(Step {
            number: u32::try_from(self.run.steps.len() + 1).unwrap_or(u32::MAX),
            seen,
            reply: Some(reply),
            outcome: Some(outcome),
            observed: seen + 1..seen + 1,
            ..Step::default()
        });
    }

    fn accepted(&mut self, message: Message) {
        let actions = actions(message.extra.get("actions"));
        let reply = reply(&message);
        self.waiting.clone_from(&actions);
        self.is_open = true;
        self.step(reply, RecordedOutcome::Actions(actions));
        self.run.history.push(lighten(message));
    }

    fn rejected(&mut self, feedback: Message) {
        self.is_open = false;
        let body = feedback.extra.get("response").unwrap_or(&Value::Null);
        // Without the reply in the record there is nothing to parse.
        if let Some(message) = rejected_message(&feedback, body) {
            let extra = [("response", body.clone())];
            let extra = extra.map(|(key, value)| (key.to_owned(), value));
            let reply = reply(&Message {
                extra: extra.into_iter().collect(),
                ..message
            });
            self.step(reply, RecordedOutcome::Malformed(None));
        }
        self.run.history.push(lighten(feedback));
    }

    fn observed(&mut self, message: Message) {
        // Messages of a person in between are no observations of the step.
        let is_observation = matches!(message.role.as_str(), "tool" | "user")
            && !message.extra.contains_key("actions");
        self.is_open &= is_observation && !message.extra.contains_key("interrupt_type");
        let output = raw_output(&message.extra);
        let id = message.tool_call_id.clone();
        self.run.history.push(lighten(message));
        if !self.is_open {
            return;
        }
        let end = self.run.history.len();
        if let Some(step) = self.run.steps.last_mut() {
            step.observed.end = end;
            if let Some(output) = output {
                let waits = self
                    .waiting
                    .iter()
                    .position(|action| action.tool_call_id == id);
                let action = match waits {
                    Some(index) => self.waiting.remove(index),
                    // A call without an action has an observation all the same.
                    None => Action {
                        tool_call_id: id,
                        ..Action::default()
                    },
                };
                step.outputs.push((action, output));
            }
        }
    }

    fn finish(mut self) -> Run {
        for step in &mut self.run.steps {
            // A message without an output: the formatter's input is not known.
            if step.outputs.len() != step.observed.len() {
                step.outputs.clear();
            }
        }
        self.run
    }
}

fn decode(value: Value) -> Result<Message, String> {
    let list = Value::Array(vec![value]);
    let mut messages = messages_from_trajectory(&list)
        .map_err(|reason| reason.trim_start_matches("message 0: ").to_owned())?;
    messages.pop().ok_or_else(|| "it is empty".to_owned())
}

fn actions(value: Option<&Value>) -> Vec<Action> {
    let list = value.and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|action| serde_json::from_value(action.clone()).ok())
        .collect()
}

/// The reply from which a message was made, as far as the record contains it.
fn reply(message: &Message) -> Reply {
    let nothing = Value::Null;
    let body = message.extra.get("response").unwrap_or(&nothing);
    let word = |path: &str| body.pointer(path).and_then(Value::as_str);
    let finish_reason = match (word("/choices/0/finish_reason"), word("/stop_reason")) {
        (Some(reason), _) => reason,
        (None, Some("end_turn" | "stop_sequence")) => "stop",
        (None, Some("max_tokens" | "model_context_window_exceeded")) => "length",
        (None, Some("tool_use")) => "tool_calls",
        (None, Some("refusal")) => "content_filter",
        (None, Some(other)) => other,
        (None, None) if word("/incomplete_details/reason") == Some("max_output_tokens") => "length",
        (None, None) if message.tool_calls.is_empty() => "stop",
        (None, None) => "tool_calls",
    };
    let mut own = message.clone();
    own.role = "assistant".to_owned();
    // Keys that the loop added when the reply became part of the history.
    for key in ["actions", "response", "cost", "timestamp", "mswea"] {
        own.extra.shift_remove(key);
    }
    let recorded = message.extra.get("mswea").and_then(|own| own.get("usage"));
    let recorded = recorded.and_then(|usage| serde_json::from_value(usage.clone()).ok());
    Reply {
        message: own,
        finish_reason: finish_reason.to_owned(),
        usage: recorded.or_else(|| usage(body.get("usage")?)),
        model: word("/model").unwrap_or_default().to_owned(),
        response: None,
        extra: Object::new(),
    }
}

/// The token counts, in the format of any API.
fn usage(body: &Value) -> Option<Usage> {
    let count = |keys: [&str; 2]| keys.iter().find_map(|key| body.get(*key)?.as_u64());
    Some(Usage {
        input_tokens: count(["input_tokens", "prompt_tokens"])?,
        output_tokens: count(["output_tokens", "completion_tokens"])?,
        ..Usage::default()
    })
}

/// A rejected reply's message, from the provider's response or else its plain text.
fn rejected_message(feedback: &Message, body: &Value) -> Option<Message> {
    if body.get("output").is_some_and(Value::is_array) {
        return decode(body.clone()).ok();
    }
    if let Some(message) = body.pointer("/choices/0/message") {
        let mut message = message.clone();
        // Some servers leave out the role.
        if let Value::Object(keys) = &mut message {
            keys.entry("role").or_insert_with(|| "assistant".into());
        }
        return decode(message).ok();
    }
    if let Some(blocks) = body.get("content").and_then(Value::as_array) {
        return Some(blocks_message(blocks));
    }
    let text = feedback.extra.get("model_response")?.as_str()?;
    Some(Message::new("assistant", text))
}

/// Anthropic's blocks.
fn blocks_message(blocks: &[Value]) -> Message {
    let mut message = Message {
        role: "assistant".to_owned(),
        ..Message::default()
    };
    for block in blocks {
        let word = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match word("type") {
            "text" => message.content.push(mswea_core::Part::text(word("text"))),
            "tool_use" => message.tool_calls.push(mswea_core::ToolCall {
                id: word("id").to_owned(),
                name: word("name").to_owned(),
                arguments: match block.get("input") {
                    Some(Value::String(text)) => text.clone(),
                    Some(input) => input.to_string(),
                    None => String::new(),
                },
                extra: Object::new(),
            }),
            _ => {}
        }
    }
    message
}

//! Streams: assembles chunks to the response that the server would have sent at once.

use mswea_sdk::adapter::Delta;
use mswea_sdk::http::Event;
use mswea_wire::json::{show, text};
use serde_json::{Map, Value, json};

use crate::response;

/// The parts that have arrived so far.
#[derive(Default)]
pub struct Assembly {
    /// Keys of the chunks; the last value of each counts.
    top: Map<String, Value>,
    /// The first candidate's keys other than its content.
    candidate: Map<String, Value>,
    parts: Vec<Value>,
    has_candidate: bool,
    usage: Value,
    error: Option<Value>,
}

impl mswea_wire::Assembly for Assembly {
    fn take(&mut self, event: &Event, deltas: &mut Vec<Delta>) {
        let data = event.data.trim();
        if self.error.is_some() {
            return;
        }
        let is_error = event.name == "error";
        let Ok(chunk) = serde_json::from_str::<Value>(data) else {
            if is_error && !data.is_empty() {
                self.error = Some(Value::String(data.to_owned()));
            }
            return;
        };
        let first = chunk.get(0).unwrap_or(&chunk);
        if is_error || first.get("error").is_some_and(|error| !error.is_null()) {
            self.error = Some(chunk);
            return;
        }
        if let Value::Object(chunk) = chunk {
            self.take_chunk(chunk, deltas);
        }
    }

    fn error(&self) -> Option<&Value> {
        self.error.as_ref()
    }

    fn usage(&self) -> &Value {
        &self.usage
    }

    fn has_answer(&self) -> bool {
        self.has_candidate || self.is_blocked()
    }

    fn is_complete(&self) -> bool {
        !text(self.candidate.get("finishReason")).is_empty() || self.is_blocked()
    }

    fn has_ended(&self) -> bool {
        // The format has no mark of its end.
        false
    }

    fn into_response(mut self) -> Value {
        let mut out = Map::new();
        if self.has_candidate {
            let mut candidate = Map::new();
            let content = json!({ "parts": self.parts, "role": "model" });
            candidate.insert("content".to_owned(), content);
            candidate.append(&mut self.candidate);
            out.insert("candidates".to_owned(), json!([candidate]));
        }
        out.append(&mut self.top);
        if !self.usage.is_null() {
            out.insert("usageMetadata".to_owned(), self.usage);
        }
        Value::Object(out)
    }
}

impl Assembly {
    /// Whether the prompt was refused.
    fn is_blocked(&self) -> bool {
        let feedback = self.top.get("promptFeedback");
        feedback.is_some_and(|feedback| !text(feedback.get("blockReason")).is_empty())
    }

    fn take_chunk(&mut self, chunk: Map<String, Value>, deltas: &mut Vec<Delta>) {
        for (key, value) in chunk {
            match (key.as_str(), value) {
                ("candidates", Value::Array(candidates)) => {
                    for candidate in candidates {
                        let index = candidate.get("index").and_then(Value::as_u64);
                        if let (0, Value::Object(candidate)) = (index.unwrap_or(0), candidate) {
                            self.take_candidate(candidate, deltas);
                        }
                    }
                }
                ("usageMetadata", usage) if response::usage(&usage).is_some() => {
                    self.usage = usage;
                }
                ("candidates" | "usageMetadata", _) | (_, Value::Null) => {}
                (_, value) => {
                    self.top.insert(key, value);
                }
            }
        }
    }

    fn take_candidate(&mut self, mut candidate: Map<String, Value>, deltas: &mut Vec<Delta>) {
        self.has_candidate = true;
        if let Some(Value::Object(mut content)) = candidate.shift_remove("content")
            && let Some(Value::Array(parts)) = content.shift_remove("parts")
        {
            for part in parts {
                show_part(&part, deltas);
                self.add(part);
            }
        }
        for (key, value) in candidate {
            let is_said_already = value == "" && self.candidate.contains_key(&key);
            if !value.is_null() && !is_said_already {
                self.candidate.insert(key, value);
            }
        }
    }

    /// Adds a part. Pieces of one text are joined, unless one is signed: a signature belongs to
    /// exactly the part with which it came.
    fn add(&mut self, part: Value) {
        let is_text = |part: &Value| {
            let part = part.as_object();
            let keys = part.map(|part| part.keys().all(|key| key == "text" || key == "thought"));
            keys == Some(true)
        };
        if let Some(last) = self.parts.last_mut()
            && is_text(last)
            && is_text(&part)
            && last.get("thought") == part.get("thought")
            && let Some(Value::String(known)) = last.get_mut("text")
        {
            known.push_str(text(part.get("text")));
            return;
        }
        self.parts.push(part);
    }
}

fn show_part(part: &Value, deltas: &mut Vec<Delta>) {
    let is_thought = part.get("thought").is_some_and(|thought| thought == true);
    let kind = if is_thought { "reasoning" } else { "text" };
    show(deltas, kind, text(part.get("text")));
    if let Some(call) = part.get("functionCall") {
        let arguments = response::arguments(call.get("args"));
        show(deltas, "tool-call", &arguments);
    }
}

//! Streams: assembles chunks to the response that the server would have sent at once.

mod plain_stream;

use std::collections::BTreeMap;

use mswea_sdk::adapter::Delta;
use mswea_sdk::http::Event;
use mswea_sdk::types::Reply;
use serde_json::{Map, Value, json};

use crate::json::{show, text};

/// Keys of a delta that hold readable reasoning, in order of preference: servers that send two of
/// them send the same text twice.
pub const REASONING_KEYS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// Lists of reasoning blocks that arrive in pieces.
const BLOCK_LISTS: [&str; 2] = ["reasoning_details", "thinking_blocks"];

/// Anthropic's blocks as Portkey sends them, whole in a message and in pieces in a stream.
pub const CONTENT_BLOCKS: &str = "content_blocks";

/// Keys with a complete value in every piece, which is never appended to.
const WHOLE_KEYS: [&str; 8] = [
    "id",
    "type",
    "name",
    "format",
    "index",
    "model",
    "role",
    "signature",
];

/// The parts that have arrived so far.
#[derive(Default)]
pub struct Assembly {
    /// Keys of the chunks themselves; the first value of each counts.
    top: Map<String, Value>,
    has_choice: bool,
    content: Option<String>,
    /// Reasoning that came as parts of the content.
    thinking: String,
    calls: Vec<Call>,
    /// Keys of the message other than role, content and tool calls.
    vendor: Map<String, Value>,
    /// The blocks of [`CONTENT_BLOCKS`].
    blocks: BTreeMap<u64, Map<String, Value>>,
    /// Keys of the choice other than the message: `logprobs`, vLLM's `token_ids`.
    beside: Map<String, Value>,
    finish_reason: Option<Value>,
    usage: Value,
    done: bool,
    error: Option<Value>,
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// Where in the arguments the name was sent again: another call may begin there.
    named_at: Vec<usize>,
    vendor: Map<String, Value>,
}

impl crate::Assembly for Assembly {
    fn take(&mut self, event: &Event, deltas: &mut Vec<Delta>) {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.done = true;
        }
        if self.done || self.error.is_some() {
            return;
        }
        if event.name.is_empty() && self.take_plain(data, deltas) {
            return;
        }
        // Data that is not an object is a server's keep-alive, or the end of a stream that was cut
        // off. The second case is found later, because parts of the message are missing.
        let Ok(chunk) = serde_json::from_str::<Map<String, Value>>(data) else {
            if event.name == "error" && !data.is_empty() {
                self.error = Some(Value::String(data.to_owned()));
            }
            return;
        };
        let is_error = event.name == "error"
            || chunk.get("object").is_some_and(|object| object == "error")
            || chunk.get("error").is_some_and(|error| !error.is_null())
            || chunk
                .get("base_resp")
                .and_then(|own| own.get("status_code"))
                .and_then(Value::as_i64)
                .is_some_and(|code| code != 0);
        if let Some(usage) = usage_of(&chunk) {
            self.usage = usage.clone();
        }
        if is_error {
            self.error = Some(Value::Object(chunk));
            return;
        }
        self.take_chunk(chunk, deltas);
    }

    fn error(&self) -> Option<&Value> {
        self.error.as_ref()
    }

    fn usage(&self) -> &Value {
        &self.usage
    }

    fn has_answer(&self) -> bool {
        self.has_choice
    }

    fn calls(&self) -> usize {
        self.calls.len()
    }

    fn is_complete(&self) -> bool {
        // Some servers have an empty reason in every chunk.
        let reason = self.finish_reason.as_ref();
        self.done || reason.is_some_and(|reason| reason != "")
    }

    fn has_ended(&self) -> bool {
        self.done
    }

    fn plain_reply(&self, history_len: usize) -> Option<Reply> {
        self.assembled(history_len)
    }

    fn into_response(mut self) -> Value {
        let mut message = Map::new();
        message.insert("role".to_owned(), json!("assistant"));
        let content = if self.thinking.is_empty() {
            json!(self.content)
        } else {
            json!([
                { "type": "thinking", "thinking": [{ "type": "text", "text": self.thinking }] },
                { "type": "text", "text": self.content },
            ])
        };
        message.insert("content".to_owned(), content);
        if !self.calls.is_empty() {
            let calls = self.calls.into_iter().flat_map(Call::split);
            let calls: Vec<Value> = calls.map(Call::into_value).collect();
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        let blocks: Vec<Value> = self.blocks.into_values().filter_map(typed).collect();
        if !blocks.is_empty() {
            message.insert(CONTENT_BLOCKS.to_owned(), Value::Array(blocks));
        }
        for (key, value) in self.vendor {
            message.entry(key).or_insert(value);
        }
        let mut choice = Map::new();
        choice.insert("index".to_owned(), json!(0));
        choice.insert("message".to_owned(), Value::Object(message));
        choice.insert("finish_reason".to_owned(), json!(self.finish_reason));
        choice.append(&mut self.beside);
        let mut out = Map::new();
        let mut top = |key: &str| self.top.shift_remove(key).unwrap_or_default();
        out.insert("id".to_owned(), top("id"));
        out.insert("object".to_owned(), json!("chat.completion"));
        out.insert("created".to_owned(), top("created"));
        out.insert("model".to_owned(), top("model"));
        out.insert("choices".to_owned(), json!([choice]));
        out.insert("usage".to_owned(), self.usage);
        out.append(&mut self.top);
        Value::Object(out)
    }
}

impl Assembly {
    fn take_chunk(&mut self, chunk: Map<String, Value>, deltas: &mut Vec<Delta>) {
        for (key, value) in chunk {
            match (key.as_str(), value) {
                ("choices", Value::Array(choices)) => {
                    for choice in choices {
                        let is_first = choice.get("index").is_none_or(|i| i.is_null() || i == 0);
                        if let (true, Value::Object(choice)) = (is_first, choice) {
                            self.take_choice(choice, deltas);
                        }
                    }
                }
                ("choices" | "usage" | "object" | "error", _) | (_, Value::Null) => {}
                (_, value) => {
                    self.top.entry(key).or_insert(value);
                }
            }
        }
    }

    fn take_choice(&mut self, mut choice: Map<String, Value>, deltas: &mut Vec<Delta>) {
        self.has_choice = true;
        if let Some(error) = choice.get("error").filter(|error| !error.is_null()) {
            self.error = Some(json!({ "error": error }));
            return;
        }
        self.take_reason(choice.get("finish_reason").cloned());
        let delta = match choice.shift_remove("delta") {
            Some(Value::Object(delta)) => Some(delta),
            // A whole message in place of a delta; after deltas it would only repeat them.
            _ if self.content.is_none() && self.calls.is_empty() => {
                match choice.shift_remove("message") {
                    Some(Value::Object(message)) => Some(message),
                    _ => None,
                }
            }
            _ => None,
        };
        if let Some(delta) = delta {
            self.take_delta(delta, deltas);
        }
        for key in ["index", "finish_reason", "error", "delta", "message"] {
            choice.shift_remove(key);
        }
        collect(&mut self.beside, choice);
    }

    /// An empty reason does not replace one.
    fn take_reason(&mut self, reason: Option<Value>) {
        match (&self.finish_reason, reason) {
            (_, None | Some(Value::Null)) => {}
            (Some(_), Some(reason)) if reason == "" => {}
            (_, reason) => self.finish_reason = reason,
        }
    }

    fn take_delta(&mut self, delta: Map<String, Value>, deltas: &mut Vec<Delta>) {
        let shown = REASONING_KEYS
            .into_iter()
            .find(|key| delta.get(*key).and_then(Value::as_str).is_some_and(is_some));
        for (key, value) in delta {
            match (key.as_str(), value) {
                ("role", _) | (_, Value::Null) => {}
                ("content", content) => {
                    let (text, reasoning) = texts(&content);
                    show(deltas, "reasoning", &reasoning);
                    self.thinking.push_str(&reasoning);
                    self.take_text(&text, deltas);
                }
                ("tool_calls", Value::Array(calls)) => {
                    for call in calls {
                        if let Value::Object(call) = call {
                            self.take_call(call, deltas);
                        }
                    }
                }
                ("tool_calls", _) => {}
                (CONTENT_BLOCKS, Value::Array(pieces))
                    if pieces.iter().all(|piece| piece.get("delta").is_some()) =>
                {
                    for piece in pieces {
                        self.take_block(piece, deltas);
                    }
                }
                (name, value) => {
                    if shown == Some(name)
                        && let Some(text) = value.as_str()
                    {
                        show(deltas, "reasoning", text);
                    }
                    merge(&mut self.vendor, name, value);
                }
            }
        }
    }

    fn take_text(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        show(deltas, "text", text);
        self.content.get_or_insert_default().push_str(text);
    }

    fn take_block(&mut self, mut piece: Value, deltas: &mut Vec<Delta>) {
        let index = piece.get("index").and_then(Value::as_u64);
        let Some(Value::Object(delta)) = piece.get_mut("delta").map(Value::take) else {
            return;
        };
        let block = self.blocks.entry(index.unwrap_or(0)).or_default();
        for (key, value) in delta {
            if key == "thinking" {
                show(deltas, "reasoning", text(Some(&value)));
            }
            merge(block, &key, value);
        }
    }

    fn take_call(&mut self, mut piece: Map<String, Value>, deltas: &mut Vec<Delta>) {
        let index = piece.shift_remove("index").and_then(|index| index.as_u64());
        let id = string(piece.shift_remove("id"));
        let mut function = match piece.shift_remove("function") {
            Some(Value::Object(function)) => function,
            _ => Map::new(),
        };
        let name = string(function.shift_remove("name"));
        let arguments = match function.shift_remove("arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(arguments)) => arguments,
            Some(other) => other.to_string(),
        };
        let call = self.take_piece(index, id, &name, &arguments);
        for (key, value) in piece {
            if key != "type" && !value.is_null() {
                merge(&mut call.vendor, &key, value);
            }
        }
        show(deltas, "tool-call", &arguments);
    }

    /// Adds a piece to its call.
    fn take_piece(
        &mut self,
        index: Option<u64>,
        id: String,
        name: &str,
        arguments: &str,
    ) -> &mut Call {
        let call = self.find_call(index, &id, name);
        if call.id.is_empty() {
            call.id = id;
        }
        // Usually complete in the first piece; some servers repeat it.
        if call.name != name {
            call.name.push_str(name);
        } else if !name.is_empty() && !call.arguments.is_empty() {
            call.named_at.push(call.arguments.len());
        }
        call.arguments.push_str(arguments);
        call
    }

    /// The call that a piece belongs to; a new one if there is none.
    fn find_call(&mut self, index: Option<u64>, id: &str, name: &str) -> &mut Call {
        let is_its_name = |call: &Call| call.name == name || call.arguments.is_empty();
        let found = if let Some(index) = index {
            // Some servers give every call the index 0: another id with a name begins another call
            // all the same, and so does another name after arguments.
            let last = self
                .calls
                .iter()
                .rposition(|call| call.index == Some(index));
            last.filter(|last| {
                let call = &self.calls[*last];
                let is_its_id = id.is_empty() || call.id.is_empty() || call.id == id;
                name.is_empty() || is_its_id && is_its_name(call)
            })
        } else if id.is_empty() {
            // A name after arguments begins another call; anything else continues the last one.
            let begins = |call: &Call| !name.is_empty() && !call.arguments.is_empty();
            match self.calls.last() {
                Some(call) if !begins(call) => Some(self.calls.len() - 1),
                _ => None,
            }
        } else {
            let last = self.calls.iter().rposition(|call| call.id == id);
            last.filter(|last| name.is_empty() || is_its_name(&self.calls[*last]))
        };
        let position = found.unwrap_or_else(|| {
            self.calls.push(Call {
                index,
                ..Call::default()
            });
            self.calls.len() - 1
        });
        &mut self.calls[position]
    }
}

impl Call {
    /// The calls in it: a server that gives several calls one id and one index sends the arguments
    /// of each after its name. Arguments that are sent twice are left as they are, for
    /// [`crate::repair`].
    fn split(self) -> Vec<Self> {
        let parts = match self.named_at.is_empty() {
            true => Vec::new(),
            false => objects(&self.arguments),
        };
        let is_named = |part: &(usize, Value)| self.named_at.contains(&part.0);
        let (Some((_, first)), Some(others)) = (parts.first(), parts.get(1..)) else {
            return vec![self];
        };
        if others.iter().all(|(_, other)| other == first) || !others.iter().all(is_named) {
            return vec![self];
        }
        let mut calls: Vec<Self> = Vec::new();
        for (number, (start, value)) in parts.iter().enumerate() {
            let end = parts
                .get(number + 1)
                .map_or(self.arguments.len(), |next| next.0);
            if !parts[..number].iter().any(|(_, known)| known == value) {
                calls.push(Self {
                    index: self.index,
                    id: self.id.clone(),
                    name: self.name.clone(),
                    arguments: self.arguments[*start..end].to_owned(),
                    ..Self::default()
                });
            }
        }
        calls[0].vendor = self.vendor;
        calls
    }

    fn into_value(self) -> Value {
        let mut out = Map::new();
        out.insert("id".to_owned(), Value::String(self.id));
        out.insert("type".to_owned(), json!("function"));
        out.insert(
            "function".to_owned(),
            json!({ "name": self.name, "arguments": self.arguments }),
        );
        for (key, value) in self.vendor {
            out.entry(key).or_insert(value);
        }
        Value::Object(out)
    }
}

/// The objects of which a text consists, and where each begins; none if it has anything else.
fn objects(text: &str) -> Vec<(usize, Value)> {
    let mut found = Vec::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    loop {
        let start = values.byte_offset();
        match values.next() {
            Some(Ok(value @ Value::Object(_))) => found.push((start, value)),
            Some(_) => return Vec::new(),
            None => return found,
        }
    }
}

/// The text and the reasoning of a content, which is a string or a list of parts.
pub fn texts(content: &Value) -> (String, String) {
    let (mut text, mut reasoning) = (String::new(), String::new());
    match content {
        Value::String(whole) => text.push_str(whole),
        Value::Array(parts) => {
            for part in parts {
                match part {
                    Value::String(piece) => text.push_str(piece),
                    _ => match part.get("type").and_then(Value::as_str) {
                        Some("thinking" | "reasoning") => {
                            for key in ["thinking", "reasoning", "text"] {
                                if let Some(inner) = part.get(key) {
                                    reasoning.push_str(&texts(inner).0);
                                    break;
                                }
                            }
                        }
                        _ => {
                            let piece = part.get("text").or_else(|| part.get("refusal"));
                            text.push_str(piece.and_then(Value::as_str).unwrap_or_default());
                        }
                    },
                }
            }
        }
        _ => {}
    }
    (text, reasoning)
}

fn usage_of(chunk: &Map<String, Value>) -> Option<&Value> {
    let groq = || chunk.get("x_groq").and_then(|inner| inner.get("usage"));
    chunk
        .get("usage")
        .filter(|usage| usage.is_object())
        .or_else(groq)
        .filter(|usage| usage.is_object())
}

fn is_some(text: &str) -> bool {
    !text.is_empty()
}

fn string(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        // Some servers send ids as numbers.
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Adds a piece of a vendor key to the part that has arrived.
fn merge(map: &mut Map<String, Value>, key: &str, piece: Value) {
    match (map.get_mut(key), piece) {
        (Some(Value::String(text)), Value::String(piece)) if !WHOLE_KEYS.contains(&key) => {
            text.push_str(&piece);
        }
        (Some(Value::Array(list)), Value::Array(pieces)) => {
            for piece in pieces {
                if BLOCK_LISTS.contains(&key) {
                    merge_block(list, piece);
                } else {
                    list.push(piece);
                }
            }
        }
        (Some(Value::Object(inner)), Value::Object(pieces)) => {
            for (key, piece) in pieces {
                merge(inner, &key, piece);
            }
        }
        (Some(known), piece) => {
            if !piece.is_null() {
                *known = piece;
            }
        }
        (None, Value::Array(pieces)) if BLOCK_LISTS.contains(&key) => {
            let mut list = Vec::new();
            for piece in pieces {
                merge_block(&mut list, piece);
            }
            map.insert(key.to_owned(), Value::Array(list));
        }
        (None, piece) => {
            map.insert(key.to_owned(), piece);
        }
    }
}

/// A block with its type, which its pieces lack; none for a text that is empty, because it would be refused.
fn typed(mut block: Map<String, Value>) -> Option<Value> {
    let kind = match &block {
        block if block.contains_key("thinking") => "thinking",
        block if block.contains_key("data") => "redacted_thinking",
        block if text(block.get("text")).is_empty() => return None,
        _ => "text",
    };
    block.entry("type").or_insert(json!(kind));
    Some(Value::Object(block))
}

/// Adds a chunk's keys other than the delta: lists are continued, other values replaced.
fn collect(known: &mut Map<String, Value>, pieces: Map<String, Value>) {
    for (key, piece) in pieces {
        match (known.get_mut(&key), piece) {
            (_, Value::Null) => {}
            (Some(Value::Array(list)), Value::Array(mut pieces)) => list.append(&mut pieces),
            (Some(Value::Object(inner)), Value::Object(pieces)) => collect(inner, pieces),
            (_, piece) => {
                known.insert(key, piece);
            }
        }
    }
}

/// Adds a piece to the reasoning block that it continues, or as a new block. Blocks are signed or
/// encrypted, so they have to be sent back exactly as the provider made them.
fn merge_block(list: &mut Vec<Value>, piece: Value) {
    let Value::Object(piece) = piece else {
        list.push(piece);
        return;
    };
    let differs = |block: &Map<String, Value>, key: &str| {
        let (old, new) = (block.get(key), piece.get(key));
        old.is_some_and(|v| !v.is_null()) && new.is_some_and(|v| !v.is_null()) && old != new
    };
    let is_sealed = |block: &Map<String, Value>| {
        let has = |key: &str| block.get(key).and_then(Value::as_str).is_some_and(is_some);
        has("data") || has("signature")
    };
    let last = list.last_mut().and_then(Value::as_object_mut);
    match last {
        Some(block)
            if !is_sealed(block) && !["index", "type", "id"].iter().any(|k| differs(block, k)) =>
        {
            for (key, value) in piece {
                merge(block, &key, value);
            }
        }
        _ => list.push(Value::Object(piece)),
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;

//! Requests: messages and tools in the shape of chat completions.
//!
//! The encoded history is kept between queries, so that a step costs the encoding of its new
//! messages and one copy of the bytes that the wire needs anyway.

use mswea_sdk::types::{Change, ContentPart, Message, Tool};
use serde_json::{Map, Value, json};

use crate::FORMAT;
use crate::config::Config;

/// The encoded history.
#[derive(Default)]
pub struct Prefix {
    /// All messages that are sent, each with a comma before it.
    bytes: Vec<u8>,
    /// Where each message of the history ends in `bytes`; one that is not sent is empty.
    ends: Vec<usize>,
}

impl Prefix {
    /// Lays a change over the history.
    ///
    /// # Errors
    /// When the change begins behind the end of what is known; gives the known length.
    pub fn apply(&mut self, change: &Change) -> Result<(), usize> {
        let start = change.start as usize;
        if start > self.ends.len() {
            return Err(self.ends.len());
        }
        self.ends.truncate(start);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
        self.ends.reserve(change.messages.len());
        for message in &change.messages {
            // The last message of an ended run is for people, never for a model.
            if message.role != "exit" {
                self.bytes.push(b',');
                append(&mut self.bytes, &encode_message(message));
            }
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    /// How many messages the history has.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The messages, without the brackets of the array.
    fn messages(&self) -> &[u8] {
        self.bytes.get(1..).unwrap_or_default()
    }
}

/// The body of a request.
pub fn body(config: &Config, prefix: &Prefix, tools: &[Tool]) -> Vec<u8> {
    let mut out = Vec::with_capacity(prefix.bytes.len() + 1024 + 512 * tools.len());
    out.push(b'{');
    // Where `model_kwargs` has a key too, that one counts: a body names each key once.
    let ours = |key: &str| !config.model_kwargs.contains_key(key);
    if ours("model") {
        append_key(&mut out, "model");
        append(&mut out, &config.model);
    }
    if ours("messages") {
        append_key(&mut out, "messages");
        out.push(b'[');
        out.extend_from_slice(prefix.messages());
        out.push(b']');
    }
    if !tools.is_empty() && ours("tools") {
        append_key(&mut out, "tools");
        append(
            &mut out,
            &tools.iter().map(encode_tool).collect::<Vec<Value>>(),
        );
    }
    if config.stream {
        if ours("stream") {
            append_key(&mut out, "stream");
            append(&mut out, &true);
        }
        if config.stream_usage && ours("stream_options") {
            append_key(&mut out, "stream_options");
            append(&mut out, &json!({ "include_usage": true }));
        }
    }
    for (key, value) in &config.model_kwargs {
        append_key(&mut out, key);
        append(&mut out, value);
    }
    out.push(b'}');
    out
}

fn append_key(out: &mut Vec<u8>, key: &str) {
    if out.len() > 1 {
        out.push(b',');
    }
    append(out, key);
    out.push(b':');
}

fn append<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value)
        .expect("invariant: values with string keys can be written, and memory takes every byte");
}

fn encode_tool(tool: &Tool) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            // A text that is no JSON is a fault of whoever made the tool; the server will say
            // so in better words than we could.
            "parameters": serde_json::from_str(&tool.parameters)
                .unwrap_or_else(|_| Value::String(tool.parameters.clone())),
        }
    })
}

fn encode_message(message: &Message) -> Value {
    let mut out = Map::new();
    out.insert("role".to_owned(), Value::String(message.role.clone()));
    let content = encode_content(&message.content);
    let is_empty = content.as_str().is_some_and(str::is_empty);
    let mut content = if is_empty && !message.tool_calls.is_empty() {
        Value::Null
    } else {
        content
    };
    let mark = mark(message).and_then(|mark| place_mark(message, &mut content, mark));
    out.insert("content".to_owned(), content);
    if !message.tool_calls.is_empty() {
        out.insert("tool_calls".to_owned(), encode_calls(message));
    }
    if let Some(id) = &message.tool_call_id {
        out.insert("tool_call_id".to_owned(), Value::String(id.clone()));
    }
    if let Some(mark) = mark {
        out.insert("cache_control".to_owned(), mark);
    }
    for part in &message.content {
        if let ContentPart::Opaque(opaque) = part
            && opaque.format == FORMAT
            && let Ok(Value::Object(keys)) = serde_json::from_str(&opaque.data)
        {
            for (key, value) in keys {
                out.entry(key).or_insert(value);
            }
        }
    }
    Value::Object(out)
}

fn encode_content(parts: &[ContentPart]) -> Value {
    let has_image = parts
        .iter()
        .any(|part| matches!(part, ContentPart::Image(_)));
    if !has_image {
        let mut text = String::new();
        for part in parts {
            if let ContentPart::Text(piece) = part {
                text.push_str(piece);
            }
        }
        return Value::String(text);
    }
    let encoded = parts.iter().filter_map(|part| match part {
        ContentPart::Text(text) => Some(json!({ "type": "text", "text": text })),
        ContentPart::Image(image) => {
            let mut inner = Map::new();
            inner.insert("url".to_owned(), Value::String(image.url.clone()));
            let extra = image
                .extra
                .as_deref()
                .and_then(|extra| serde_json::from_str::<Map<String, Value>>(extra).ok());
            if let Some(detail) = extra.and_then(|mut extra| extra.shift_remove("detail")) {
                inner.insert("detail".to_owned(), detail);
            }
            Some(json!({ "type": "image_url", "image_url": inner }))
        }
        // Reasoning goes back, if at all, in the provider's own keys.
        ContentPart::Reasoning(_) | ContentPart::Opaque(_) => None,
    });
    Value::Array(encoded.collect())
}

/// The message's mark for the cache, which a history processor has put there.
fn mark(message: &Message) -> Option<Value> {
    let extra = message.extra.as_deref()?;
    // Most messages have none, and their `extra` need not be read.
    if !extra.contains("\"cache_control\"") {
        return None;
    }
    let mut extra: Map<String, Value> = serde_json::from_str(extra).ok()?;
    extra.shift_remove("cache_control").filter(Value::is_object)
}

/// Puts a mark where mini-swe-agent does: on the (last) part of the content, which becomes a
/// list for it; on the message itself, if that is a tool's or has no content. Gives back what
/// is to stand on the message.
fn place_mark(message: &Message, content: &mut Value, mark: Value) -> Option<Value> {
    if content.is_null() {
        return Some(mark);
    }
    if content.is_string() {
        *content = json!([{ "type": "text", "text": content.take() }]);
    }
    if message.role == "tool" {
        return Some(mark);
    }
    let part = content.as_array_mut()?.last_mut()?.as_object_mut()?;
    part.insert("cache_control".to_owned(), mark);
    None
}

fn encode_calls(message: &Message) -> Value {
    let calls = message.tool_calls.iter().map(|call| {
        let mut out = Map::new();
        out.insert("id".to_owned(), Value::String(call.id.clone()));
        out.insert("type".to_owned(), Value::String("function".to_owned()));
        out.insert(
            "function".to_owned(),
            json!({ "name": call.name, "arguments": call.arguments }),
        );
        let vendor = call
            .extra
            .as_deref()
            .and_then(|extra| serde_json::from_str::<Map<String, Value>>(extra).ok())
            .and_then(|mut extra| extra.shift_remove(FORMAT));
        if let Some(Value::Object(keys)) = vendor {
            for (key, value) in keys {
                out.entry(key).or_insert(value);
            }
        }
        Value::Object(out)
    });
    Value::Array(calls.collect())
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;

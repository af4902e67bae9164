//! Replies: parses a complete response.

use mswea_sdk::types::{ContentPart, Image, Message, Opaque, Reasoning, Reply, ToolCall};
use serde_json::{Map, Value};

use super::FORMAT;
use super::assemble::{CONTENT_BLOCKS, REASONING_KEYS, texts};
use super::plain::{id_of_call, reason};
use super::usage::usage;
use crate::json::object;
use crate::repair;

/// The reply in a `chat.completion` object; none if it holds no message.
///
/// `history_len` is used for the ids of calls without one: they are the same on every instance, and
/// unique in a conversation.
pub fn reply(completion: &Value, response: String, history_len: usize) -> Option<Reply> {
    let choice = completion.get("choices")?.get(0)?;
    let message = choice.get("message")?.as_object()?;
    let word = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = self::message(message, history_len);
    let finish_reason = choice.get("finish_reason").and_then(Value::as_str);
    let finish_reason = reason(
        finish_reason.unwrap_or_default(),
        !message.tool_calls.is_empty(),
    );
    Some(Reply {
        message,
        finish_reason: finish_reason.to_owned(),
        usage: completion.get("usage").and_then(usage),
        model: word(completion.get("model")),
        response: Some(response),
        extra: None,
    })
}

/// Whether a response reports an error in MiniMax's own form, in which a success has the code 0.
pub fn is_failed(response: &Value) -> bool {
    let code = response.pointer("/base_resp/status_code");
    code.and_then(Value::as_i64).is_some_and(|code| code != 0)
}

fn message(message: &Map<String, Value>, history_len: usize) -> Message {
    let raw_content = message.get("content").unwrap_or(&Value::Null);
    let (mut text, mut reasoning) = texts(raw_content);
    let mut vendor: Map<String, Value> = message
        .iter()
        .filter(|(key, value)| {
            // Servers of models that think want the key back, also if it is empty.
            let is_reasoning = value.is_string() && REASONING_KEYS.contains(&key.as_str());
            !matches!(key.as_str(), "role" | "content" | "tool_calls")
                && (!is_empty(value) || is_reasoning)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if text.is_empty()
        && let Some(Value::String(refusal)) = vendor.get("refusal")
    {
        text.clone_from(refusal);
        vendor.shift_remove("refusal");
    }
    if reasoning.is_empty() {
        let texts = REASONING_KEYS
            .into_iter()
            .filter_map(|key| vendor.get(key).and_then(Value::as_str));
        let text = texts.into_iter().find(|text| !text.is_empty());
        text.unwrap_or_default().clone_into(&mut reasoning);
    }
    if let (true, Some(blocks)) = (reasoning.is_empty(), vendor.get(CONTENT_BLOCKS)) {
        reasoning = texts(blocks).1;
    }
    let mut content = Vec::new();
    if !reasoning.is_empty() {
        content.push(ContentPart::Reasoning(Reasoning {
            text: reasoning,
            extra: None,
        }));
    }
    // An empty text differs from a missing one: it is sent back as it came.
    if !text.is_empty() || raw_content.is_string() {
        content.push(ContentPart::Text(text));
    }
    for part in raw_content.as_array().into_iter().flatten() {
        let url = part.get("image_url").and_then(|image| image.get("url"));
        if let Some(Value::String(url)) = url {
            content.push(ContentPart::Image(Image {
                url: url.clone(),
                extra: None,
            }));
        }
    }
    if !vendor.is_empty() {
        content.push(ContentPart::Opaque(Opaque {
            format: FORMAT.to_owned(),
            data: Value::Object(vendor).to_string(),
            extra: None,
        }));
    }
    let calls = message.get("tool_calls").and_then(Value::as_array);
    let calls = calls.into_iter().flatten();
    let mut tool_calls: Vec<ToolCall> = calls.map(tool_call).collect();
    repair::give_ids(&mut tool_calls, |index| id_of_call(history_len, index));
    Message {
        role: "assistant".to_owned(),
        content,
        tool_calls,
        tool_call_id: None,
        extra: None,
    }
}

/// Adds a key that is sent back with the message.
pub fn add_vendor_key(message: &mut Message, key: &str, value: Value) {
    let is_vendors =
        |part: &ContentPart| matches!(part, ContentPart::Opaque(opaque) if opaque.format == FORMAT);
    let at = message.content.iter().position(is_vendors);
    let mut vendor = match at.map(|at| message.content.remove(at)) {
        Some(ContentPart::Opaque(opaque)) => object(Some(&opaque.data)).unwrap_or_default(),
        _ => Map::new(),
    };
    vendor.insert(key.to_owned(), value);
    message.content.push(ContentPart::Opaque(Opaque {
        format: FORMAT.to_owned(),
        data: Value::Object(vendor).to_string(),
        extra: None,
    }));
}

/// Whether the value has nothing to send back: some servers list all keys that they know, without
/// values.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn tool_call(call: &Value) -> ToolCall {
    let function = call.get("function");
    let name = function.and_then(|function| function.get("name"));
    let arguments = match function.and_then(|function| function.get("arguments")) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        // Some servers send the object itself instead of its text.
        Some(other) => other.to_string(),
    };
    let id = match call.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => String::new(),
    };
    let vendor: Map<String, Value> = call
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| {
            !matches!(key.as_str(), "id" | "type" | "function" | "index") && !is_empty(value)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let extra = (!vendor.is_empty()).then(|| {
        let extra = Map::from_iter([(FORMAT.to_owned(), Value::Object(vendor))]);
        Value::Object(extra).to_string()
    });
    ToolCall {
        id,
        name: name.and_then(Value::as_str).unwrap_or_default().to_owned(),
        arguments,
        extra,
    }
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;

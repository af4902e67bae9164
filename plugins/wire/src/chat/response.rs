//! Replies: parses a complete response.

use mswea_sdk::types::{ContentPart, Image, Message, Opaque, Reasoning, Reply, ToolCall, Usage};
use serde_json::{Map, Value};

use super::FORMAT;
use super::assemble::{REASONING_KEYS, texts};
use crate::json::{cost, count};

/// The reply in a `chat.completion` object; none if it holds no message.
///
/// `history_len` is used for the ids of calls without one: they are the same on every instance, and
/// unique in a conversation.
pub fn reply(completion: &Value, response: String, history_len: usize) -> Option<Reply> {
    let choice = completion.get("choices")?.get(0)?;
    let message = choice.get("message")?.as_object()?;
    let word = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = self::message(message, history_len);
    let mut finish_reason = word(choice.get("finish_reason"));
    // Some servers give `stop` also as the reason of tool calls.
    if finish_reason == "stop" && !message.tool_calls.is_empty() {
        finish_reason = "tool_calls".to_owned();
    }
    Some(Reply {
        message,
        finish_reason,
        usage: completion.get("usage").and_then(usage),
        model: word(completion.get("model")),
        response: Some(response),
        extra: None,
    })
}

fn message(message: &Map<String, Value>, history_len: usize) -> Message {
    let raw_content = message.get("content").unwrap_or(&Value::Null);
    let (mut text, mut reasoning) = texts(raw_content);
    let mut vendor: Map<String, Value> = message
        .iter()
        .filter(|(key, value)| {
            !matches!(key.as_str(), "role" | "content" | "tool_calls") && !is_empty(value)
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
        let key = REASONING_KEYS
            .into_iter()
            .find_map(|key| vendor.get(key).and_then(Value::as_str));
        key.unwrap_or_default().clone_into(&mut reasoning);
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
    Message {
        role: "assistant".to_owned(),
        content,
        tool_calls: calls
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(index, call)| tool_call(call, history_len, index))
            .collect(),
        tool_call_id: None,
        extra: None,
    }
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

/// The id of a call without one.
pub fn id_of_call(history_len: usize, index: usize) -> String {
    format!("call_{history_len}_{index}")
}

fn tool_call(call: &Value, history_len: usize, index: usize) -> ToolCall {
    let function = call.get("function");
    let name = function.and_then(|function| function.get("name"));
    let arguments = match function.and_then(|function| function.get("arguments")) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        // Some servers send the object itself instead of its text.
        Some(other) => other.to_string(),
    };
    let id = match call.get("id") {
        Some(Value::String(id)) if !id.is_empty() => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => id_of_call(history_len, index),
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

/// Parses a `usage` object; none if it is none.
pub fn usage(usage: &Value) -> Option<Usage> {
    let usage = usage.as_object()?;
    let prompt = usage.get("prompt_tokens_details");
    let completion = usage.get("completion_tokens_details");
    let top = |key: &str| count(usage.get(key));
    let in_prompt = |key: &str| count(prompt.and_then(|details| details.get(key)));
    let cache_read_tokens = in_prompt("cached_tokens")
        .or_else(|| top("cache_read_input_tokens"))
        .or_else(|| top("prompt_cache_hit_tokens"))
        .unwrap_or(0);
    let cache_write_tokens = top("cache_creation_input_tokens")
        .or_else(|| in_prompt("cache_creation_tokens"))
        .or_else(|| in_prompt("cache_write_tokens"))
        .unwrap_or(0);
    let reasoning = completion.and_then(|details| details.get("reasoning_tokens"));
    let mut reasoning_tokens = count(reasoning).unwrap_or(0);
    let mut input_tokens = top("prompt_tokens").unwrap_or(0);
    let mut output_tokens = top("completion_tokens").unwrap_or(0);
    // Some servers count cached or reasoning tokens only in the total.
    let missing = top("total_tokens")
        .unwrap_or(0)
        .saturating_sub(input_tokens.saturating_add(output_tokens));
    if missing > 0 {
        let cached = cache_read_tokens.saturating_add(cache_write_tokens);
        if [cache_read_tokens, cache_write_tokens, cached].contains(&missing) {
            input_tokens = input_tokens.saturating_add(missing);
        } else {
            output_tokens = output_tokens.saturating_add(missing);
            reasoning_tokens = reasoning_tokens.max(missing);
        }
    }
    Some(Usage {
        input_tokens,
        cache_read_tokens,
        cache_write_tokens,
        output_tokens,
        reasoning_tokens,
        cost: cost(usage.get("cost")),
        extra: None,
    })
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;

//! Replies: parses a complete response.
//!
//! Each item of the output becomes an opaque part, so that it can be sent back unchanged. Texts and
//! calls, which the host and its plugins use, are taken out of it and replaced by `null`, so that
//! they are stored once.

use mswea_sdk::types::{ContentPart, Message, Opaque, Reasoning, Reply, ToolCall, Usage};
use serde_json::{Map, Value, json};

use super::FORMAT;
use super::encode::text_key;
use crate::json::{cost, count, text};
use crate::repair;

/// The reply in a `response` object; none if it has no output.
pub fn reply(response: &Value, verbatim: String, history_len: usize) -> Option<Reply> {
    let items = response.get("output")?.as_array()?;
    let mut message = Message {
        role: "assistant".to_owned(),
        ..Message::default()
    };
    let calls = items.iter().filter(|item| is_call(item)).map(call);
    message.tool_calls = calls.collect();
    repair::give_ids(&mut message.tool_calls, |index| {
        format!("call_{history_len}_{index}")
    });
    let ids = message.tool_calls.iter().map(|call| call.id.clone());
    let mut ids = ids.collect::<Vec<_>>().into_iter();
    for item in items {
        match item.as_object() {
            Some(item) => add_item(&mut message, item.clone(), &mut ids),
            None => add_opaque(&mut message, item),
        }
    }
    Some(Reply {
        message,
        finish_reason: finish_reason(response),
        usage: response.get("usage").and_then(usage),
        model: text(response.get("model")).to_owned(),
        response: Some(verbatim),
        extra: None,
    })
}

fn finish_reason(response: &Value) -> String {
    let status = text(response.get("status"));
    let reason = text(response.pointer("/incomplete_details/reason"));
    match (status, reason) {
        ("incomplete", "max_output_tokens") => "length",
        ("incomplete", "content_filter") => "content_filter",
        _ => status,
    }
    .to_owned()
}

fn is_call(item: &Value) -> bool {
    text(item.get("type")) == "function_call"
}

/// The call of an item, with an empty id if it has none.
fn call(item: &Value) -> ToolCall {
    let ids = [item.get("call_id"), item.get("id")].map(text);
    let arguments = match item.get("arguments") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        // Some servers send the object itself instead of its text.
        Some(other) => other.to_string(),
    };
    ToolCall {
        id: ids
            .into_iter()
            .find(|id| !id.is_empty())
            .unwrap_or_default()
            .to_owned(),
        name: text(item.get("name")).to_owned(),
        arguments,
        extra: None,
    }
}

/// Adds an item; `ids` has those of the calls that are left.
fn add_item(
    message: &mut Message,
    mut item: Map<String, Value>,
    ids: &mut impl Iterator<Item = String>,
) {
    match text(item.get("type")) {
        "message" => {
            let parts = item.get_mut("content").and_then(Value::as_array_mut);
            for part in parts.into_iter().flatten().filter_map(Value::as_object_mut) {
                // An empty text stays in the item.
                if let Some(slot) = text_key(part).and_then(|key| part.get_mut(key))
                    && slot.as_str().is_some_and(|text| !text.is_empty())
                    && let Value::String(text) = slot.take()
                {
                    message.content.push(ContentPart::Text(text));
                }
            }
        }
        "reasoning" => {
            let reasoning = readable(&item);
            if !reasoning.is_empty() {
                message.content.push(ContentPart::Reasoning(Reasoning {
                    text: reasoning,
                    extra: None,
                }));
            }
        }
        "function_call" => {
            item.insert("arguments".to_owned(), Value::Null);
            item.insert("name".to_owned(), Value::Null);
            item.insert("call_id".to_owned(), json!(ids.next()));
        }
        _ => {}
    }
    add_opaque(message, &Value::Object(item));
}

fn add_opaque(message: &mut Message, item: &Value) {
    message.content.push(ContentPart::Opaque(Opaque {
        format: FORMAT.to_owned(),
        data: item.to_string(),
        extra: None,
    }));
}

/// The readable text of a reasoning item: its summary, or else the reasoning itself.
fn readable(item: &Map<String, Value>) -> String {
    let of = |key: &str| {
        let parts = item.get(key).and_then(Value::as_array);
        let texts = parts
            .into_iter()
            .flatten()
            .map(|part| text(part.get("text")));
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        texts.join("\n\n")
    };
    let summary = of("summary");
    if summary.is_empty() {
        of("content")
    } else {
        summary
    }
}

/// Parses a `usage` object; none if it has neither a count nor a cost.
pub fn usage(usage: &Value) -> Option<Usage> {
    let usage = usage.as_object()?;
    let [input, output] = ["input_tokens", "output_tokens"].map(|key| count(usage.get(key)));
    let cost = cost(usage.get("cost"));
    if input.or(output).is_none() && cost.is_none() {
        return None;
    }
    let detail = |of: &str, key: &str| {
        let details = usage.get(of).and_then(|details| details.get(key));
        count(details).unwrap_or(0)
    };
    Some(Usage {
        input_tokens: input.unwrap_or(0),
        cache_read_tokens: detail("input_tokens_details", "cached_tokens"),
        cache_write_tokens: detail("input_tokens_details", "cache_write_tokens"),
        output_tokens: output.unwrap_or(0),
        reasoning_tokens: detail("output_tokens_details", "reasoning_tokens"),
        cost,
        extra: None,
    })
}

/// The error of a response that failed.
pub fn failure(response: &Value) -> Option<Value> {
    let error = response.get("error").filter(|error| !error.is_null());
    let status = text(response.get("status"));
    let is_answer = response.get("output").is_some_and(Value::is_array);
    if matches!(status, "failed" | "cancelled") {
        return Some(match error {
            Some(error) => json!({ "error": error }),
            None => json!({ "error": { "message": format!("the response was {status}") } }),
        });
    }
    if is_answer {
        return None;
    }
    let is_error = error.is_some()
        || response
            .get("object")
            .is_some_and(|object| object == "error")
        || response.get("type").is_some_and(|kind| kind == "error");
    is_error.then(|| response.clone())
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;

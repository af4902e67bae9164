//! Replies: parses a complete response.
//!
//! Each part that is more than text becomes an opaque part, so that it can be sent back unchanged.
//! Texts and calls, which the host and its plugins use, are taken out of it and replaced by `null`,
//! so that they are stored once.

use mswea_sdk::types::{ContentPart, Image, Message, Opaque, Reasoning, Reply, ToolCall, Usage};
use mswea_wire::json::{count, text};
use mswea_wire::repair;
use serde_json::{Map, Value, json};

use crate::FORMAT;

/// Finish reasons of content filters.
const FILTERS: [&str; 9] = [
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "MODEL_ARMOR",
];

/// The reply in a `GenerateContentResponse`; none if it has no candidate.
pub fn reply(response: &Value, verbatim: String, history_len: usize) -> Option<Reply> {
    let candidate = response.get("candidates")?.get(0)?;
    let parts = candidate.pointer("/content/parts");
    let parts = parts
        .and_then(Value::as_array)
        .map_or(&[][..], |parts| parts);
    let mut message = Message {
        role: "assistant".to_owned(),
        ..Message::default()
    };
    // Calls are stored after the content. If one has more than name and arguments, or is followed
    // by something, all of them have to record their position.
    let first = parts
        .iter()
        .position(|part| part.get("functionCall").is_some());
    let marks_calls = first.is_some_and(|first| {
        let mut calls = parts[first..].iter();
        !calls.all(|part| is_plain(part, "functionCall") && has_plain_call(part))
    });
    let calls = parts.iter().filter_map(|part| part.get("functionCall"));
    message.tool_calls = calls.filter_map(Value::as_object).map(call).collect();
    repair::give_ids(&mut message.tool_calls, |index| {
        format!("call_{history_len}_{index}")
    });
    let ids = message.tool_calls.iter().map(|call| call.id.clone());
    let mut ids = ids.collect::<Vec<_>>().into_iter();
    for part in parts {
        match part.as_object() {
            Some(part) => add_part(&mut message, part.clone(), marks_calls, &mut ids),
            None => add_opaque(&mut message, part),
        }
    }
    Some(Reply {
        finish_reason: finish_reason(candidate, &message),
        message,
        usage: response.get("usageMetadata").and_then(usage),
        model: text(response.get("modelVersion")).to_owned(),
        response: Some(verbatim),
        extra: None,
    })
}

/// Whether a part has this key and no other.
fn is_plain(part: &Value, key: &str) -> bool {
    let part = part.as_object();
    part.is_some_and(|part| part.len() == 1 && part.contains_key(key))
}

fn has_plain_call(part: &Value) -> bool {
    let call = part.get("functionCall").and_then(Value::as_object);
    call.is_some_and(|call| call.keys().all(|key| key == "name" || key == "args"))
}

fn finish_reason(candidate: &Value, message: &Message) -> String {
    match text(candidate.get("finishReason")) {
        "STOP" if message.tool_calls.is_empty() => "stop",
        "STOP" => "tool_calls",
        "MAX_TOKENS" => "length",
        reason if FILTERS.contains(&reason) => "content_filter",
        other => other,
    }
    .to_owned()
}

/// A call, with an empty id if Gemini has given none.
fn call(call: &Map<String, Value>) -> ToolCall {
    ToolCall {
        id: text(call.get("id")).to_owned(),
        name: text(call.get("name")).to_owned(),
        arguments: arguments(call.get("args")),
        extra: None,
    }
}

/// A call's arguments as text, in which some servers send them.
pub fn arguments(args: Option<&Value>) -> String {
    match args {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(args) => args.to_string(),
    }
}

/// Adds a part; `ids` has those of the calls that are left.
fn add_part(
    message: &mut Message,
    mut part: Map<String, Value>,
    marks_calls: bool,
    ids: &mut impl Iterator<Item = String>,
) {
    let is_thought = part.get("thought").is_some_and(|thought| thought == true);
    if let Some(call) = part.get_mut("functionCall").and_then(Value::as_object_mut) {
        // An id that Gemini has given goes back to it; another one is only the host's.
        let key = match text(call.get("id")) {
            "" => "callId",
            _ => "id",
        };
        call.insert(key.to_owned(), json!(ids.next()));
        call.insert("name".to_owned(), Value::Null);
        call.insert("args".to_owned(), Value::Null);
        if marks_calls {
            add_opaque(message, &Value::Object(part));
        }
        return;
    }
    if let Some(Value::String(words)) = part.get("text") {
        if is_thought {
            let reasoning = Reasoning {
                text: words.clone(),
                extra: None,
            };
            message.content.push(ContentPart::Reasoning(reasoning));
        } else if !words.is_empty() {
            message.content.push(ContentPart::Text(words.clone()));
            part.insert("text".to_owned(), Value::Null);
        }
        if part.len() == 1 {
            return;
        }
    }
    if let Some(data) = part.get("inlineData")
        && !is_thought
    {
        let (kind, bytes) = (text(data.get("mimeType")), text(data.get("data")));
        if kind.starts_with("image/") {
            // Shown as an image, and sent back as its part.
            message.content.push(ContentPart::Image(Image {
                url: format!("data:{kind};base64,{bytes}"),
                extra: None,
            }));
        }
    }
    add_opaque(message, &Value::Object(part));
}

fn add_opaque(message: &mut Message, part: &Value) {
    message.content.push(ContentPart::Opaque(Opaque {
        format: FORMAT.to_owned(),
        data: part.to_string(),
        extra: None,
    }));
}

/// Parses `usageMetadata`; none if it has no count.
pub fn usage(usage: &Value) -> Option<Usage> {
    let usage = usage.as_object()?;
    let read = |key: &str| count(usage.get(key));
    let of = |key: &str| read(key).unwrap_or(0);
    let (prompt, answer) = (read("promptTokenCount"), read("candidatesTokenCount"));
    prompt.or(answer).or_else(|| read("thoughtsTokenCount"))?;
    let (prompt, answer) = (prompt.unwrap_or(0), answer.unwrap_or(0));
    let thoughts = of("thoughtsTokenCount");
    let input = prompt.saturating_add(of("toolUsePromptTokenCount"));
    // Some servers count reasoning as part of the answer already.
    let has_them = of("totalTokenCount") == input.saturating_add(answer);
    let output = if has_them {
        answer
    } else {
        answer.saturating_add(thoughts)
    };
    Some(Usage {
        input_tokens: input,
        cache_read_tokens: of("cachedContentTokenCount"),
        cache_write_tokens: 0,
        output_tokens: output,
        reasoning_tokens: thoughts,
        cost: None,
        extra: None,
    })
}

/// The error of a response without an answer.
pub fn failure(response: &Value) -> Option<Value> {
    let has_candidate = response.pointer("/candidates/0").is_some();
    let first = response.get(0).unwrap_or(response);
    if first.get("error").is_some_and(|error| !error.is_null()) {
        return (!has_candidate).then(|| response.clone());
    }
    let blocked = text(response.pointer("/promptFeedback/blockReason"));
    if has_candidate || blocked.is_empty() {
        return None;
    }
    let said = text(response.pointer("/promptFeedback/blockReasonMessage"));
    let message = format!("the prompt was blocked: {blocked} {said}");
    Some(json!({ "error": { "code": "content_filter", "message": message.trim_end() } }))
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;

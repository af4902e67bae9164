//! Replies from a recorded run: the accepted ones, and the rejected ones, which the record keeps
//! with their feedback.

use mswea_sdk::types::{ContentPart, Message, Opaque, PluginError, Reasoning, Reply, ToolCall};
use serde_json::{Map, Value};

/// The format of opaque parts with vendor keys of chat messages, which `openai` sends back.
const CHAT: &str = "openai-chat";

/// Reads the replies of a trajectory.
///
/// # Errors
/// `invalid-config` if this is no trajectory, or one without replies.
pub fn replies(trajectory: &Map<String, Value>, model: &str) -> Result<Vec<Reply>, PluginError> {
    let Some(messages) = trajectory.get("messages").and_then(Value::as_array) else {
        return Err(PluginError::invalid_config(
            "the trajectory has no list `messages`; give a file in the format \
             `mini-swe-agent-1.1`",
        )
        .at("/trajectory"));
    };
    let mut replies: Vec<Reply> = messages
        .iter()
        .filter_map(|message| reply(message, model))
        .collect();
    if replies.is_empty() {
        return Err(PluginError::invalid_config(format!(
            "none of the trajectory's {} messages is a reply of a model; give a recorded run",
            messages.len()
        ))
        .at("/trajectory/messages"));
    }
    crate::fill_ids(&mut replies);
    Ok(replies)
}

/// The reply that a message stores: an accepted one, or a rejected one that the message answers.
fn reply(message: &Value, model: &str) -> Option<Reply> {
    let extra = message.get("extra").unwrap_or(&Value::Null);
    let is_response = is_responses_object(message);
    let is_rejected = extra
        .get("interrupt_type")
        .is_some_and(|t| t == "FormatError");
    let response = extra.get("response").filter(|response| !response.is_null());
    let body = if is_response {
        message
    } else {
        response.unwrap_or(&Value::Null)
    };
    let said = if is_response {
        responses_message(message)
    } else if message.get("role").is_some_and(|role| role == "assistant") {
        chat_message(message)
    } else if is_rejected {
        rejected_message(extra, body)
    } else {
        return None;
    };
    let word = |path: &str| body.pointer(path).and_then(Value::as_str);
    let usual = if said.tool_calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let is_cut = word("/incomplete_details/reason") == Some("max_output_tokens");
    let finish_reason = match (word("/choices/0/finish_reason"), word("/stop_reason")) {
        (Some(reason), _) => reason,
        (None, Some(reason)) => in_our_words(reason),
        (None, None) if is_cut => "length",
        (None, None) => word("/status").unwrap_or(usual),
    };
    Some(Reply {
        finish_reason: finish_reason.to_owned(),
        usage: crate::usage(body.get("usage"), extra.get("cost").and_then(Value::as_f64)),
        model: word("/model").unwrap_or(model).to_owned(),
        response: body.is_object().then(|| match message.get("extra") {
            // The record adds `extra` to a response that is stored as the message itself.
            Some(_) if is_response => {
                let mut body = body.as_object().cloned().unwrap_or_default();
                body.shift_remove("extra");
                Value::Object(body).to_string()
            }
            _ => body.to_string(),
        }),
        message: said,
        extra: None,
    })
}

/// The contract's name of Anthropic's finish reason.
fn in_our_words(reason: &str) -> &str {
    match reason {
        "end_turn" | "stop_sequence" => "stop",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        "refusal" => "content_filter",
        other => other,
    }
}

fn is_responses_object(value: &Value) -> bool {
    value
        .get("object")
        .is_some_and(|object| object == "response")
        && value.get("output").is_some_and(Value::is_array)
}

/// A rejected reply, from the provider's response. If the response is missing, the message is
/// empty. The parser rejects an empty message as well, so the run continues in the same way.
fn rejected_message(extra: &Value, body: &Value) -> Message {
    if is_responses_object(body) {
        return responses_message(body);
    }
    if let Some(message) = body.pointer("/choices/0/message") {
        return chat_message(message);
    }
    if let Some(blocks) = body.get("content").and_then(Value::as_array)
        && body.get("type").is_some_and(|kind| kind == "message")
    {
        return blocks_message(blocks);
    }
    let text = extra.get("model_response").and_then(Value::as_str);
    assistant(
        vec![ContentPart::text(text.unwrap_or_default())],
        Vec::new(),
    )
}

fn assistant(content: Vec<ContentPart>, tool_calls: Vec<ToolCall>) -> Message {
    Message {
        role: "assistant".to_owned(),
        content,
        tool_calls,
        ..Message::default()
    }
}

fn reasoning(text: String) -> Option<ContentPart> {
    (!text.is_empty()).then_some(ContentPart::Reasoning(Reasoning { text, extra: None }))
}

fn text(text: String) -> Option<ContentPart> {
    (!text.is_empty()).then_some(ContentPart::Text(text))
}

/// A message of chat completions, with the provider's own keys, which are sent back.
fn chat_message(message: &Value) -> Message {
    let thought = ["reasoning_content", "reasoning"]
        .into_iter()
        .find_map(|key| message.get(key).and_then(Value::as_str));
    let calls = message.get("tool_calls").and_then(Value::as_array);
    let tool_calls = calls.into_iter().flatten().map(|call| {
        let function = call.get("function");
        tool_call(
            call.get("id"),
            function.and_then(|function| function.get("name")),
            function.and_then(|function| function.get("arguments")),
        )
    });
    let vendor: Map<String, Value> = message
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| {
            !matches!(
                key.as_str(),
                "role" | "content" | "tool_calls" | "extra" | "function_call"
            ) && !is_empty(value)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let opaque = (!vendor.is_empty()).then(|| {
        ContentPart::Opaque(Opaque {
            format: CHAT.to_owned(),
            data: Value::Object(vendor).to_string(),
            extra: None,
        })
    });
    let said = match message.get("content") {
        // An empty text differs from a missing one.
        Some(Value::String(said)) => Some(ContentPart::Text(said.clone())),
        said => text(said.map(texts).unwrap_or_default()),
    };
    let content = [
        reasoning(thought.unwrap_or_default().to_owned()),
        said,
        opaque,
    ];
    assistant(
        content.into_iter().flatten().collect(),
        tool_calls.collect(),
    )
}

/// The items of a Responses object as one message.
fn responses_message(response: &Value) -> Message {
    let (mut said, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    let items = response.get("output").and_then(Value::as_array);
    for item in items.into_iter().flatten() {
        match item.get("type").and_then(Value::as_str) {
            Some("message") => said += &item.get("content").map(texts).unwrap_or_default(),
            Some("reasoning") => thought += &item.get("summary").map(texts).unwrap_or_default(),
            Some("function_call") => {
                let id = item.get("call_id").filter(|id| !is_empty(id));
                calls.push(tool_call(
                    id.or_else(|| item.get("id")),
                    item.get("name"),
                    item.get("arguments"),
                ));
            }
            _ => {}
        }
    }
    let content = [reasoning(thought), text(said)];
    assistant(content.into_iter().flatten().collect(), calls)
}

/// The blocks of Anthropic's message as one message.
fn blocks_message(blocks: &[Value]) -> Message {
    let (mut said, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for block in blocks {
        let word = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match word("type") {
            "text" => said += word("text"),
            "thinking" => thought += word("thinking"),
            "tool_use" => calls.push(tool_call(
                block.get("id"),
                block.get("name"),
                block.get("input"),
            )),
            _ => {}
        }
    }
    let content = [reasoning(thought), text(said)];
    assistant(content.into_iter().flatten().collect(), calls)
}

fn tool_call(id: Option<&Value>, name: Option<&Value>, arguments: Option<&Value>) -> ToolCall {
    let string = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    ToolCall {
        id: string(id),
        name: string(name),
        arguments: string(arguments),
        extra: None,
    }
}

/// The text of a content: a string, or a list of parts.
fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .map(|part| match part {
                Value::String(text) => text.as_str(),
                _ => part.get("text").and_then(Value::as_str).unwrap_or_default(),
            })
            .collect(),
        _ => String::new(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

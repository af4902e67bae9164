//! Requests: messages and tools in the shape of chat completions.

use mswea_sdk::types::{ContentPart, Message, Tool};
use serde_json::{Map, Value, json};

use super::{Chat, FORMAT};
use crate::json::{append, append_key, object, parse_or_string};

/// The body of a request.
pub fn body(chat: &Chat, history: &[u8], tools: &[Tool]) -> Vec<u8> {
    let config = &chat.server;
    let mut out = Vec::with_capacity(history.len() + 1024 + 512 * tools.len());
    out.push(b'{');
    // Where `model_kwargs` has a key too, that one counts: a body names each key once.
    let theirs = |key: &str| config.extra_body.contains_key(key);
    let ours = |key: &str| !config.model_kwargs.contains_key(key) && !theirs(key);
    if ours("model") {
        append_key(&mut out, "model");
        append(&mut out, &config.model);
    }
    if ours("messages") {
        append_key(&mut out, "messages");
        out.push(b'[');
        // Each message has a comma before it.
        out.extend_from_slice(history.get(1..).unwrap_or_default());
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
        if chat.stream_usage && ours("stream_options") {
            append_key(&mut out, "stream_options");
            append(&mut out, &json!({ "include_usage": true }));
        }
    }
    if chat.ask_cost && ours("usage") {
        append_key(&mut out, "usage");
        append(&mut out, &json!({ "include": true }));
    }
    let kwargs = config.model_kwargs.iter().filter(|(key, _)| !theirs(key));
    for (key, value) in kwargs.chain(&config.extra_body) {
        append_key(&mut out, key);
        append(&mut out, value);
    }
    out.push(b'}');
    out
}

/// Writes a message with a comma before it.
pub fn append_message(out: &mut Vec<u8>, message: &Message) {
    out.push(b',');
    append(out, &encode_message(message));
}

fn encode_tool(tool: &Tool) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": parse_or_string(&tool.parameters),
        }
    })
}

fn encode_message(message: &Message) -> Value {
    let mut out = Map::new();
    out.insert("role".to_owned(), Value::String(message.role.clone()));
    let content = encode_content(&message.content);
    let is_empty = content.as_str().is_some_and(str::is_empty);
    let content = if is_empty && !message.tool_calls.is_empty() {
        Value::Null
    } else {
        content
    };
    out.insert("content".to_owned(), content);
    if !message.tool_calls.is_empty() {
        out.insert("tool_calls".to_owned(), encode_calls(message));
    }
    if let Some(id) = &message.tool_call_id {
        out.insert("tool_call_id".to_owned(), Value::String(id.clone()));
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
            let extra = object(image.extra.as_deref());
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

fn encode_calls(message: &Message) -> Value {
    let calls = message.tool_calls.iter().map(|call| {
        let mut out = Map::new();
        out.insert("id".to_owned(), Value::String(call.id.clone()));
        out.insert("type".to_owned(), Value::String("function".to_owned()));
        out.insert(
            "function".to_owned(),
            json!({ "name": call.name, "arguments": call.arguments }),
        );
        let vendor = object(call.extra.as_deref()).and_then(|mut extra| extra.shift_remove(FORMAT));
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

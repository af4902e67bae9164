//! Encodes messages in the format of chat completions, and decodes them.
//!
//! Data without a key in that format (blocks of other providers) is kept in `extra`, which readers
//! of trajectories ignore.

use serde_json::{Map, Value, json};

use mswea_core::{CONTENT_LIST, Message, Object, Part, ToolCall};

/// The format of opaque parts that hold a chat message's vendor keys, and the key of a tool call's
/// `extra` that holds the call's vendor keys.
const FORMAT: &str = "openai-chat";

/// The format of opaque parts that hold a block of Anthropic's. Thinking blocks have a key of their
/// own in the format of chat completions.
const BLOCKS: &str = "anthropic-messages";

/// The key of thinking blocks.
const THINKING: &str = "thinking_blocks";

/// The key of parts of other formats.
const OPAQUE: &str = "opaque";

/// The keys under which servers return readable reasoning.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// Encodes a message for the trajectory. The order of keys is mini-swe-agent's.
pub(super) fn encode(mut message: Message) -> Value {
    let mut out = Map::new();
    let content = content(&message);
    // Moved, because it may be large.
    let mut extra = std::mem::take(&mut message.extra);
    extra.shift_remove(CONTENT_LIST);
    if message.role == "tool" {
        keep_foreign(&message, &mut extra, |_, _| false);
        out.insert("content".into(), content);
        out.insert("extra".into(), extra.into());
        out.insert("tool_call_id".into(), json!(message.tool_call_id));
        out.insert("role".into(), "tool".into());
        return out.into();
    }
    out.insert("role".into(), message.role.as_str().into());
    out.insert("content".into(), content);
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(call);
        out.insert("tool_calls".into(), calls.collect());
    }
    if let Some(id) = &message.tool_call_id {
        out.insert("tool_call_id".into(), id.as_str().into());
    }
    for part in &message.content {
        if let Part::Opaque {
            format,
            data: Value::Object(keys),
        } = part
            && format == FORMAT
        {
            for (key, value) in keys {
                out.entry(key.as_str()).or_insert_with(|| value.clone());
            }
        }
    }
    let reasoning = reasoning(&message);
    if !reasoning.is_empty() && !REASONING.iter().any(|key| out.contains_key(*key)) {
        out.insert(REASONING[0].into(), reasoning.into());
    }
    let thinking: Vec<Value> = thinking(&message).cloned().collect();
    if !thinking.is_empty() {
        out.entry(THINKING).or_insert(thinking.into());
    }
    let shown = out.get(THINKING).and_then(Value::as_array);
    keep_foreign(&message, &mut extra, |format, data| match format {
        FORMAT => data.is_object(),
        BLOCKS => is_thinking(data) && shown.is_some_and(|shown| shown.contains(data)),
        _ => false,
    });
    if !extra.is_empty() {
        // Removed after the vendor's keys were added, because one of them may have this name.
        out.shift_remove("extra");
        out.insert("extra".into(), extra.into());
    }
    out.into()
}

fn has_image(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::Image { .. }))
}

/// The content as a string, or as a list if there is an image or the message asks for a list.
fn content(message: &Message) -> Value {
    let parts = &message.content;
    let is_list = message.extra.get(CONTENT_LIST) == Some(&Value::Bool(true));
    if is_list || has_image(parts) {
        let shown = parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(json!({"type": "text", "text": text})),
            Part::Image { url, extra } => {
                let mut image = Map::new();
                image.insert("url".into(), url.as_str().into());
                image.extend(extra.clone());
                Some(json!({"type": "image_url", "image_url": image}))
            }
            Part::Reasoning { .. } | Part::Opaque { .. } => None,
        });
        return shown.collect();
    }
    let has_text = parts.iter().any(|part| matches!(part, Part::Text { .. }));
    if !has_text && !message.tool_calls.is_empty() {
        return Value::Null;
    }
    message.text().into()
}

fn call(call: &ToolCall) -> Value {
    let mut out = Map::new();
    out.insert("id".into(), call.id.as_str().into());
    out.insert("type".into(), "function".into());
    out.insert(
        "function".into(),
        json!({"name": call.name, "arguments": call.arguments}),
    );
    let mut extra = call.extra.clone();
    if let Some(Value::Object(keys)) = extra.shift_remove(FORMAT) {
        for (key, value) in keys {
            out.entry(key).or_insert(value);
        }
    }
    if !extra.is_empty() {
        out.insert("extra".into(), extra.into());
    }
    out.into()
}

fn reasoning(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|part| match part {
        Part::Reasoning { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The thinking blocks of an assistant's message, as the provider signed them.
fn thinking(message: &Message) -> impl Iterator<Item = &Value> {
    let parts = message.content.iter();
    parts.filter_map(|part| match part {
        Part::Opaque { format, data }
            if format == BLOCKS && message.role == "assistant" && is_thinking(data) =>
        {
            Some(data)
        }
        _ => None,
    })
}

fn is_thinking(block: &Value) -> bool {
    let kind = block.get("type").and_then(Value::as_str);
    matches!(kind, Some("thinking" | "redacted_thinking"))
}

/// Puts data without a key in the format into `extra`.
pub(super) fn keep_foreign(
    message: &Message,
    extra: &mut Object,
    is_native: impl Fn(&str, &Value) -> bool,
) {
    let foreign: Vec<Value> = message
        .content
        .iter()
        .filter_map(|part| match part {
            Part::Opaque { format, data } if !is_native(format, data) => {
                Some(json!({"format": format, "data": data}))
            }
            _ => None,
        })
        .collect();
    if !foreign.is_empty() {
        extra.insert(OPAQUE.into(), foreign.into());
    }
}

/// Takes this data out of `extra` again.
pub(super) fn take_foreign(message: &mut Message) {
    if let Some(Value::Array(foreign)) = message.extra.shift_remove(OPAQUE) {
        for part in foreign {
            message.content.push(Part::Opaque {
                format: part["format"].as_str().unwrap_or_default().to_owned(),
                data: part["data"].clone(),
            });
        }
    }
}

/// Decodes a message of a trajectory.
pub(super) fn decode(value: &Value) -> Result<Message, String> {
    let Value::Object(map) = value else {
        return Err("it is no object".to_owned());
    };
    let Some(role) = map.get("role").and_then(Value::as_str) else {
        return Err("it has no `role`".to_owned());
    };
    let mut message = Message {
        role: role.to_owned(),
        ..Message::default()
    };
    let mut vendor = Object::new();
    let mut is_list = false;
    for (key, value) in map {
        match (key.as_str(), value) {
            ("role" | "type", _) => {}
            ("content", value) => {
                message.content.extend(decode_content(value)?);
                // Parts of other types show by themselves that the content is a list.
                let is_text = |part: &Value| part["type"] == "text";
                is_list = value
                    .as_array()
                    .is_some_and(|parts| parts.iter().all(is_text));
            }
            ("tool_calls", Value::Null) => {}
            ("tool_calls", Value::Array(calls)) => {
                for call in calls {
                    message.tool_calls.push(decode_call(call)?);
                }
            }
            ("tool_calls", _) => return Err("`tool_calls` is no list".to_owned()),
            ("tool_call_id", value) => message.tool_call_id = value.as_str().map(str::to_owned),
            ("extra", Value::Object(extra)) => message.extra = extra.clone(),
            ("extra", Value::Null) => {}
            ("extra", _) => return Err("`extra` is no object".to_owned()),
            (_, value) => {
                vendor.insert(key.clone(), value.clone());
            }
        }
    }
    if is_list {
        message.extra.insert(CONTENT_LIST.into(), true.into());
    }
    let thought = decode_thinking(&message, &mut vendor);
    message.content.splice(0..0, thought);
    if !vendor.is_empty() {
        message.content.push(Part::Opaque {
            format: FORMAT.to_owned(),
            data: vendor.into(),
        });
    }
    take_foreign(&mut message);
    Ok(message)
}

/// The reasoning among a message's vendor keys, as parts.
fn decode_thinking(message: &Message, vendor: &mut Object) -> Vec<Part> {
    let reasoning = |text: &str| Part::Reasoning {
        text: text.to_owned(),
        extra: Object::new(),
    };
    let mut parts = Vec::new();
    let mut has_text = false;
    let blocks = vendor.get(THINKING).and_then(Value::as_array);
    for block in blocks.into_iter().flatten().filter(|b| is_thinking(b)) {
        if let Some(text) = block["thinking"].as_str().filter(|text| !text.is_empty()) {
            parts.push(reasoning(text));
            has_text = true;
        }
        parts.push(Part::Opaque {
            format: BLOCKS.to_owned(),
            data: block.clone(),
        });
    }
    let text = REASONING.iter().find_map(|key| vendor.get(*key)?.as_str());
    if let Some(text) = text.filter(|text| !text.is_empty() && !has_text) {
        parts.insert(0, reasoning(text));
    }
    // In the record of a run over Anthropic's API, these keys only repeat the parts. Otherwise they
    // may be from a server of chat completions, which requires them unchanged.
    let response = message.extra.get("response");
    if response.is_some_and(|response| response["type"] == "message") {
        vendor.shift_remove(THINKING);
        vendor.shift_remove(REASONING[0]);
    }
    parts
}

pub(super) fn decode_content(value: &Value) -> Result<Vec<Part>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Part::text(text)]),
        Value::Array(parts) => parts.iter().map(decode_part).collect(),
        _ => Err("`content` is neither a text nor a list".to_owned()),
    }
}

fn decode_part(part: &Value) -> Result<Part, String> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    match (kind, part.get("text").and_then(Value::as_str)) {
        ("text" | "input_text" | "output_text", Some(text)) => return Ok(Part::text(text)),
        ("image_url", _) => {
            let image = &part["image_url"];
            let mut extra = image.as_object().cloned().unwrap_or_default();
            let url = match extra.shift_remove("url") {
                Some(Value::String(url)) => Some(url),
                _ => image.as_str().map(str::to_owned),
            };
            if let Some(url) = url {
                return Ok(Part::Image { url, extra });
            }
        }
        ("input_image", _) => {
            let mut extra = part.as_object().cloned().unwrap_or_default();
            extra.shift_remove("type");
            if let Some(Value::String(url)) = extra.shift_remove("image_url") {
                return Ok(Part::Image { url, extra });
            }
        }
        _ => {}
    }
    Err(format!("a part of type `{kind}` can't be read"))
}

fn decode_call(call: &Value) -> Result<ToolCall, String> {
    let Value::Object(map) = call else {
        return Err("a tool call is no object".to_owned());
    };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let function = map.get("function");
    let mut extra = match map.get("extra") {
        Some(Value::Object(extra)) => extra.clone(),
        _ => Object::new(),
    };
    let vendor: Object = map
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "id" | "type" | "function" | "extra"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !vendor.is_empty() {
        extra.insert(FORMAT.into(), vendor.into());
    }
    Ok(ToolCall {
        id: text(map.get("id")),
        name: text(function.and_then(|function| function.get("name"))),
        arguments: match function.and_then(|function| function.get("arguments")) {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            // Some writers store decoded arguments.
            Some(other) => other.to_string(),
        },
        extra,
    })
}

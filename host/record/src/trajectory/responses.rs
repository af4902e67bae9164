//! Encodes messages in the format of the Responses API, and decodes them: a reply is the response
//! object, an observation is the item that answers a call.
//!
//! mini-swe-agent uses this format for a run over that API. Messages of the user and of the loop
//! keep the format of chat messages there; over a router, the prompts are items as well.

use serde_json::{Map, Value, json};

use super::chat;
use mswea_core::{CONTENT_LIST, Message, Object, Part, ToolCall};

/// The format of opaque parts that hold an item of a reply, with `null` in place of the text, the
/// name or the arguments that the message itself has.
const FORMAT: &str = "openai-responses";

/// Whether a value is a response of the API.
pub(super) fn is_response(value: &Value) -> bool {
    value
        .get("object")
        .is_some_and(|object| object == "response")
        && value.get("output").is_some_and(Value::is_array)
}

/// Whether a message is a response of the API, or answers a call in one.
pub(super) fn is_from_api(message: &Message) -> bool {
    message.extra.get("response").is_some_and(is_response)
}

/// Encodes a message of a run over the API for the trajectory.
pub(super) fn encode(message: Message, is_router: bool) -> Value {
    let says = |key: &str| message.extra.contains_key(key);
    let interrupt = message.extra.get("interrupt_type");
    let is_item = match (message.role.as_str(), &message.tool_call_id) {
        ("assistant", _) if is_from_api(&message) => return encode_reply(message),
        ("tool", Some(id)) => {
            let mut extra = message.extra.clone();
            extra.shift_remove(CONTENT_LIST);
            chat::keep_foreign(&message, &mut extra, |_, _| false);
            return json!({
                "extra": extra,
                "type": "function_call_output",
                "call_id": id,
                "output": content(&message, false),
            });
        }
        // The output of a user's command answers no call.
        ("tool", None) => true,
        ("user", None) if says("returncode") => true,
        ("user", None) if interrupt.is_some() => interrupt == Some(&json!("FormatError")),
        ("system" | "user", None) => is_router && !says("actions"),
        ("exit", None) => is_router && says("exception_str"),
        _ => false,
    };
    if is_item {
        encode_item(&message)
    } else {
        chat::encode(message)
    }
}

fn encode_item(message: &Message) -> Value {
    let mut extra = message.extra.clone();
    extra.shift_remove(CONTENT_LIST);
    chat::keep_foreign(message, &mut extra, |_, _| false);
    let role = match message.role.as_str() {
        "tool" => "user",
        role => role,
    };
    let mut out = Map::new();
    out.insert("type".into(), "message".into());
    out.insert("role".into(), role.into());
    out.insert("content".into(), content(message, true));
    if !extra.is_empty() {
        out.insert("extra".into(), extra.into());
    }
    out.into()
}

fn encode_reply(mut message: Message) -> Value {
    let Some(Value::Object(mut out)) = message.extra.shift_remove("response") else {
        return chat::encode(message);
    };
    let mut extra = std::mem::take(&mut message.extra);
    extra.shift_remove(CONTENT_LIST);
    // A call without an id of the server gets the id of this host, which its observation has.
    let is_call = |item: &&mut Value| item["type"] == "function_call";
    let items = out.get_mut("output").and_then(Value::as_array_mut);
    for (item, call) in items
        .into_iter()
        .flatten()
        .filter(is_call)
        .zip(&message.tool_calls)
    {
        if text(item.get("call_id")).is_empty() && text(item.get("id")) != call.id {
            item["call_id"] = call.id.as_str().into();
        }
    }
    chat::keep_foreign(&message, &mut extra, |format, _| format == FORMAT);
    out.shift_remove("extra");
    out.insert("extra".into(), extra.into());
    out.into()
}

/// The content as a string, or as a list of parts if there are images or `as_list` is set.
fn content(message: &Message, as_list: bool) -> Value {
    let is_image = |part: &Part| matches!(part, Part::Image { .. });
    if !as_list && !message.content.iter().any(is_image) {
        return message.text().into();
    }
    let shown = message.content.iter().filter_map(|part| match part {
        Part::Text { text } => Some(json!({"type": "input_text", "text": text})),
        Part::Image { url, extra } => {
            let mut image = Map::new();
            image.insert("type".into(), "input_image".into());
            image.insert("image_url".into(), url.as_str().into());
            for (key, value) in extra {
                image.entry(key.as_str()).or_insert_with(|| value.clone());
            }
            Some(image.into())
        }
        Part::Reasoning { .. } | Part::Opaque { .. } => None,
    });
    shown.collect()
}

/// Decodes a message in the format of the API; none if it has another format.
pub(super) fn decode(value: &Value) -> Option<Result<Message, String>> {
    if is_response(value) {
        return Some(decode_reply(value));
    }
    match text(value.get("type")) {
        "" | "message" => None,
        "function_call_output" => Some(decode_output(value)),
        kind => Some(Err(format!("a message of type `{kind}` can't be read"))),
    }
}

fn decode_output(value: &Value) -> Result<Message, String> {
    let mut message = Message {
        role: "tool".to_owned(),
        content: chat::decode_content(value.get("output").unwrap_or(&Value::Null))?,
        tool_call_id: Some(text(value.get("call_id")).to_owned()),
        extra: decode_extra(value)?,
        ..Message::default()
    };
    chat::take_foreign(&mut message);
    Ok(message)
}

/// Decodes a reply as the adapter does: an item is kept unchanged, to be sent back, except for the
/// parts that the host and its plugins change.
fn decode_reply(value: &Value) -> Result<Message, String> {
    let mut message = Message {
        role: "assistant".to_owned(),
        extra: decode_extra(value)?,
        ..Message::default()
    };
    let items = value.get("output").and_then(Value::as_array);
    for item in items.into_iter().flatten() {
        let mut item = item.clone();
        if let Value::Object(keys) = &mut item {
            take_item(&mut message, keys);
        }
        message.content.push(Part::Opaque {
            format: FORMAT.to_owned(),
            data: item,
        });
    }
    chat::take_foreign(&mut message);
    let mut response = value.clone();
    if let Value::Object(keys) = &mut response {
        keys.shift_remove("extra");
    }
    message.extra.insert("response".into(), response);
    Ok(message)
}

fn take_item(message: &mut Message, item: &mut Object) {
    match text(item.get("type")) {
        "message" => {
            let parts = item.get_mut("content").and_then(Value::as_array_mut);
            for part in parts.into_iter().flatten() {
                let key = match text(part.get("type")) {
                    "output_text" | "text" | "input_text" => "text",
                    "refusal" => "refusal",
                    _ => continue,
                };
                // An empty text stays in the item.
                if let Some(slot) = part.get_mut(key)
                    && slot.as_str().is_some_and(|text| !text.is_empty())
                    && let Value::String(text) = slot.take()
                {
                    message.content.push(Part::Text { text });
                }
            }
        }
        "reasoning" => {
            let text = readable(item);
            if !text.is_empty() {
                message.content.push(Part::Reasoning {
                    text,
                    extra: Object::new(),
                });
            }
        }
        "function_call" => {
            let given = [item.get("call_id"), item.get("id")];
            let id = given.into_iter().map(text).find(|id| !id.is_empty());
            let id = match id {
                Some(id) => id.to_owned(),
                None => format!("call_{}", message.tool_calls.len()),
            };
            let name = item.insert("name".into(), Value::Null);
            let arguments = item.insert("arguments".into(), Value::Null);
            item.insert("call_id".into(), id.as_str().into());
            message.tool_calls.push(ToolCall {
                id,
                name: text(name.as_ref()).to_owned(),
                arguments: match arguments {
                    None | Some(Value::Null) => String::new(),
                    Some(Value::String(text)) => text,
                    Some(other) => other.to_string(),
                },
                extra: Object::new(),
            });
        }
        _ => {}
    }
}

/// The readable text of a reasoning item: its summary, or else the reasoning itself.
fn readable(item: &Object) -> String {
    let of = |key: &str| {
        let parts = item.get(key).and_then(Value::as_array);
        let texts = parts.into_iter().flatten();
        let texts: Vec<&str> = texts
            .map(|part| text(part.get("text")))
            .filter(|text| !text.is_empty())
            .collect();
        texts.join("\n\n")
    };
    let summary = of("summary");
    if summary.is_empty() {
        of("content")
    } else {
        summary
    }
}

fn decode_extra(value: &Value) -> Result<Object, String> {
    match value.get("extra") {
        None | Some(Value::Null) => Ok(Object::new()),
        Some(Value::Object(extra)) => Ok(extra.clone()),
        Some(_) => Err("`extra` is no object".to_owned()),
    }
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

//! Requests: messages as items.
//!
//! A reply's items are sent back unchanged, in their order. Their texts and calls are in the
//! message itself, where history processors may change them; opaque parts hold the rest, with
//! `null` in place of the text (see `response.rs`).

use mswea_sdk::types::{ContentPart, Image, Message, Tool};
use serde_json::{Map, Value, json};

use super::{FORMAT, Responses};
use crate::json::{Body, append, object, parse_or_string};
use crate::marks;
use crate::pieces::{Unchanged, Written};
use crate::{Calls, History};

/// Keys of a reasoning item that must not be sent as `null`, although responses may contain them
/// so.
const NEVER_NULL: [&str; 3] = ["status", "content", "encrypted_content"];

/// The body of a request.
pub fn body(
    responses: &Responses,
    history: &History<()>,
    tools: &[Tool],
    unchanged: Option<Unchanged>,
) -> Written {
    let server = &responses.server;
    let mut body = Body::new(server, history.bytes().len(), unchanged);
    body.put("model", &server.model);
    body.put_messages("input", history.bytes(), &[]);
    if !tools.is_empty() {
        body.put("tools", &tools.iter().map(encode_tool).collect::<Value>());
    }
    if server.stream {
        body.put("stream", &true);
    }
    if responses.stateless {
        body.put("store", &false);
        body.put("include", &["reasoning.encrypted_content"]);
    }
    body.finish()
}

fn encode_tool(tool: &Tool) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parse_or_string(&tool.parameters),
    })
}

/// Writes a message's items, each with a comma before it.
pub fn append_message(responses: &Responses, out: &mut Vec<u8>, message: &Message) {
    let mut push = |item: Value| {
        out.push(b',');
        append(out, &item);
    };
    match (&*message.role, &message.tool_call_id) {
        ("assistant", _) => encode_reply(responses, message, &mut push),
        ("tool", Some(id)) => push(json!({
            "type": "function_call_output",
            "call_id": id,
            "output": encode_content(&message.content, false),
        })),
        // A tool's message without a call is the output of a command that the user ran.
        ("tool", None) => push(plain("user", encode_content(&message.content, true), true)),
        (role, _) => {
            let is_typed = is_typed(responses, message);
            let content = encode_content(&message.content, is_typed || marks::is_list(message));
            push(plain(role, content, is_typed));
        }
    }
}

fn plain(role: &str, content: Value, is_typed: bool) -> Value {
    if is_typed {
        json!({ "type": "message", "role": role, "content": content })
    } else {
        json!({ "role": role, "content": content })
    }
}

/// Whether mini-swe-agent writes this message as an item: some always, others never.
fn is_typed(responses: &Responses, message: &Message) -> bool {
    let extra = object(message.extra.as_deref()).unwrap_or_default();
    match extra.get("interrupt_type").and_then(Value::as_str) {
        Some("FormatError") => true,
        Some(_) => false,
        // The output of a command that the user ran, and the command itself.
        None if extra.contains_key("returncode") => true,
        None if extra.contains_key("actions") => false,
        None => responses.typed_messages,
    }
}

/// A string, or a list of parts if there are images or a list is demanded.
fn encode_content(parts: &[ContentPart], as_list: bool) -> Value {
    let mut text = String::new();
    let mut list = Vec::new();
    let input_text = |text: &str| json!({ "type": "input_text", "text": text });
    for part in parts {
        match part {
            ContentPart::Text(piece) => text.push_str(piece),
            ContentPart::Image(image) => {
                if !text.is_empty() {
                    list.push(input_text(&std::mem::take(&mut text)));
                }
                list.push(encode_image(image));
            }
            ContentPart::Reasoning(_) | ContentPart::Opaque(_) => {}
        }
    }
    if list.is_empty() && !as_list {
        return Value::String(text);
    }
    if list.is_empty() || !text.is_empty() {
        list.push(input_text(&text));
    }
    Value::Array(list)
}

fn encode_image(image: &Image) -> Value {
    let mut out = Map::new();
    out.insert("type".to_owned(), json!("input_image"));
    out.insert("image_url".to_owned(), json!(image.url));
    let detail = object(image.extra.as_deref()).and_then(|mut e| e.shift_remove("detail"));
    if let Some(detail) = detail {
        out.insert("detail".to_owned(), detail);
    }
    Value::Object(out)
}

fn encode_reply(responses: &Responses, message: &Message, push: &mut impl FnMut(Value)) {
    let mut calls = Calls::new(&message.tool_calls);
    let mut texts: Vec<&str> = Vec::new();
    for part in &message.content {
        match part {
            ContentPart::Text(text) => texts.push(text),
            ContentPart::Opaque(opaque) if opaque.format == FORMAT => {
                let Some(mut item) = object(Some(&opaque.data)) else {
                    continue;
                };
                let kind = item.get("type").and_then(Value::as_str);
                let is_kept = match kind {
                    Some("message") => fill_message(&mut item, std::mem::take(&mut texts)),
                    Some("function_call") => fill_call(&mut item, &mut calls),
                    Some("reasoning") if !responses.is_router => {
                        for key in NEVER_NULL {
                            if item.get(key).is_some_and(Value::is_null) {
                                item.shift_remove(key);
                            }
                        }
                        true
                    }
                    _ => true,
                };
                if is_kept {
                    push(Value::Object(item));
                }
            }
            _ => {}
        }
    }
    // Messages from an adapter of another format, or from a processor.
    let text = texts.concat();
    if !text.is_empty() {
        let content = if responses.typed_messages {
            json!([{ "type": "output_text", "text": text }])
        } else {
            Value::String(text)
        };
        push(plain("assistant", content, responses.typed_messages));
    }
    for call in calls.left() {
        push(json!({
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }));
    }
}

/// Puts the message's text back in place of the `null` in its item; false if the message has no
/// text any more.
fn fill_message(item: &mut Map<String, Value>, texts: Vec<&str>) -> bool {
    let Some(Value::Array(parts)) = item.get_mut("content") else {
        return true;
    };
    let mut slots: Vec<&mut Value> = parts
        .iter_mut()
        .filter_map(|part| part.as_object_mut())
        .filter_map(|part| {
            let key = text_key(part)?;
            part.get_mut(key).filter(|slot| slot.is_null())
        })
        .collect();
    if slots.len() == texts.len() {
        for (slot, text) in slots.into_iter().zip(texts) {
            *slot = Value::String(text.to_owned());
        }
        return true;
    }
    // A processor has changed the number of texts: the first place takes them all.
    let whole = texts.concat();
    let Some(first) = slots.first_mut() else {
        return true;
    };
    **first = Value::String(whole.clone());
    parts.retain(|part| {
        let part = part.as_object();
        part.is_none_or(|part| text_key(part).is_none_or(|key| part[key].is_string()))
    });
    !whole.is_empty()
}

/// The key with the text of a part, if it has one.
pub fn text_key(part: &Map<String, Value>) -> Option<&'static str> {
    let key = match part.get("type").and_then(Value::as_str)? {
        "output_text" | "text" | "input_text" => "text",
        "refusal" => "refusal",
        _ => return None,
    };
    part.contains_key(key).then_some(key)
}

/// Puts a call's name and arguments back; false if the message has no such call left.
fn fill_call(item: &mut Map<String, Value>, calls: &mut Calls<'_>) -> bool {
    let id = item.get("call_id").and_then(Value::as_str);
    let Some(call) = id.and_then(|id| calls.take(id)) else {
        return false;
    };
    item.insert("name".to_owned(), json!(call.name));
    item.insert("arguments".to_owned(), json!(call.arguments));
    true
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;

//! Requests: messages as contents, whose turns alternate.
//!
//! Consecutive messages of one role share a content, and the outputs of calls have to, so the last
//! content is kept open: the next message continues it or closes it.
//!
//! A reply's parts are sent back unchanged, each with its own signature. As with Responses, their
//! texts and calls are in the message itself, and opaque parts hold the rest, with `null` in their
//! place (see `response.rs`).

use std::collections::BTreeSet;

use mswea_sdk::host::{self, Level};
use mswea_sdk::types::{ContentPart, Image, Message, Tool};
use mswea_wire::json::{Body, append, object, parse_or_string};
use mswea_wire::pieces::{Unchanged, Written};
use mswea_wire::{Calls, History};
use serde_json::{Map, Value, json};

use crate::known::Known;
use crate::{FORMAT, GenerateContent, schema};

/// A signature that Gemini accepts for calls that it has not made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The state after a message.
#[derive(Clone, Default)]
pub struct State {
    /// The role of the content that is open.
    open: Option<&'static str>,
    /// Earlier messages, as far as they are needed.
    known: Known,
}

/// The body of a request.
pub fn body(
    format: &GenerateContent,
    history: &History<State>,
    tools: &[Tool],
    unchanged: Option<Unchanged>,
) -> Written {
    let state = history.state();
    let mut body = Body::new(&format.server, history.bytes().len(), unchanged);
    let system = state.known.system();
    if !system.is_empty() {
        body.put("systemInstruction", &json!({ "parts": system }));
    }
    let close = state.open.map_or("", |_| "]}");
    body.put_messages("contents", history.bytes(), &[close.as_bytes()]);
    if !tools.is_empty() {
        let declarations = declarations(format, tools);
        body.put("tools", &json!([{ "functionDeclarations": declarations }]));
    }
    body.finish()
}

fn declarations(format: &GenerateContent, tools: &[Tool]) -> Vec<Value> {
    let mut dropped = Vec::new();
    let declarations = tools.iter().map(|tool| {
        let parameters = parse_or_string(&tool.parameters);
        json!({
            "name": tool.name,
            "description": tool.description,
            "parameters": schema::fit(&parameters, &mut dropped),
        })
    });
    let declarations = declarations.collect();
    if !dropped.is_empty() && !format.has_told.replace(true) {
        let names: Vec<String> = dropped.iter().map(|name| format!("`{name}`")).collect();
        let note = format!(
            "schemas of tools are sent without {}, which Gemini refuses",
            names.join(", ")
        );
        host::log(Level::Warn, &note);
    }
    declarations
}

/// Writes a message's parts, into the open content or a new one.
pub fn append_message(
    format: &GenerateContent,
    out: &mut Vec<u8>,
    state: &mut State,
    message: &Message,
) {
    match (&*message.role, &message.tool_call_id) {
        ("system" | "developer", _) => {
            state.known.add_system(plain_parts(&message.content));
        }
        ("assistant", _) => {
            let parts = reply_parts(format, message);
            if state.open != Some("model") {
                state.known.settle();
            }
            let ids = parts.iter().filter_map(|part| {
                let id = part.get("functionCall")?.get("id")?;
                id.as_str()
            });
            let ids: BTreeSet<&str> = ids.collect();
            for call in &message.tool_calls {
                let is_given = ids.contains(&*call.id);
                state.known.add_call(&call.id, &call.name, is_given);
            }
            push(out, state, "model", parts);
        }
        ("tool", Some(id)) => {
            let parts = output_parts(&state.known, id, &message.content);
            push(out, state, "user", parts);
        }
        _ => {
            let mut parts = plain_parts(&message.content);
            if parts.is_empty() {
                parts.push(json!({ "text": "" }));
            }
            push(out, state, "user", parts);
        }
    }
}

fn push(out: &mut Vec<u8>, state: &mut State, role: &'static str, parts: Vec<Value>) {
    for part in parts {
        if state.open == Some(role) {
            out.push(b',');
        } else {
            if state.open.is_some() {
                out.extend_from_slice(b"]}");
            }
            out.extend_from_slice(b",{\"role\":\"");
            out.extend_from_slice(role.as_bytes());
            out.extend_from_slice(b"\",\"parts\":[");
            state.open = Some(role);
        }
        append(out, &part);
    }
}

/// Texts, joined, and images.
fn plain_parts(content: &[ContentPart]) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    let mut text = String::new();
    for part in content {
        match part {
            ContentPart::Text(piece) => text.push_str(piece),
            ContentPart::Image(image) => {
                if !text.is_empty() {
                    parts.push(json!({ "text": std::mem::take(&mut text) }));
                }
                parts.push(encode_image(image));
            }
            ContentPart::Reasoning(_) | ContentPart::Opaque(_) => {}
        }
    }
    if !text.is_empty() {
        parts.push(json!({ "text": text }));
    }
    parts
}

/// The bytes of an image, or its URL.
fn encode_image(image: &Image) -> Value {
    if let Some(rest) = image.url.strip_prefix("data:")
        && let Some((kind, data)) = rest.split_once(',')
    {
        let kind = kind.split(';').next().unwrap_or_default();
        let kind = if kind.is_empty() { "image/png" } else { kind };
        return json!({ "inlineData": { "mimeType": kind, "data": data } });
    }
    let path = image.url.split(['?', '#']).next().unwrap_or_default();
    let ending = path.rsplit('.').next().unwrap_or_default();
    let kind = match ending.to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        _ => "image/png",
    };
    json!({ "fileData": { "mimeType": kind, "fileUri": image.url } })
}

/// The output of a call, with its images beside it.
fn output_parts(known: &Known, id: &str, content: &[ContentPart]) -> Vec<Value> {
    let (name, is_given) = known.with_call(id, |call| {
        call.map_or_else(Default::default, |call| (call.name.clone(), call.is_given))
    });
    let mut response = Map::new();
    if is_given {
        response.insert("id".to_owned(), json!(id));
    }
    // An empty name is not accepted, whatever the model called.
    let name = if name.is_empty() { "unknown" } else { &name };
    let text: String = content.iter().filter_map(ContentPart::as_text).collect();
    response.insert("name".to_owned(), json!(name));
    response.insert("response".to_owned(), json!({ "content": text }));
    let images = content.iter().filter_map(|part| match part {
        ContentPart::Image(image) => Some(encode_image(image)),
        _ => None,
    });
    std::iter::once(json!({ "functionResponse": response }))
        .chain(images)
        .collect()
}

fn reply_parts(format: &GenerateContent, message: &Message) -> Vec<Value> {
    let mut calls = Calls::new(&message.tool_calls);
    let mut texts: Vec<&str> = Vec::new();
    let mut parts = Vec::new();
    let mut is_own = false;
    let flush = |texts: &mut Vec<&str>, parts: &mut Vec<Value>| {
        let text = std::mem::take(texts).concat();
        if !text.is_empty() {
            parts.push(json!({ "text": text }));
        }
    };
    for part in &message.content {
        match part {
            ContentPart::Text(text) => texts.push(text),
            ContentPart::Opaque(opaque) if opaque.format == FORMAT => {
                let Some(mut part) = object(Some(&opaque.data)) else {
                    continue;
                };
                is_own = true;
                let text = match part.get("text") {
                    Some(Value::Null) => texts.pop(),
                    _ => None,
                };
                flush(&mut texts, &mut parts);
                if let Some(slot) = part.get_mut("text").filter(|slot| slot.is_null()) {
                    *slot = json!(text.unwrap_or_default());
                }
                if let Some(call) = part.get_mut("functionCall")
                    && !fill_call(call, &mut calls)
                {
                    continue;
                }
                parts.push(Value::Object(part));
            }
            _ => {}
        }
    }
    flush(&mut texts, &mut parts);
    for (number, call) in calls.left().enumerate() {
        let mut part = json!({ "functionCall": {
            "name": call.name, "args": arguments(&call.arguments) } });
        if number == 0 && !is_own && format.wants_signatures {
            part["thoughtSignature"] = json!(NO_SIGNATURE);
        }
        parts.push(part);
    }
    parts
}

/// Puts a call's name and arguments back into a part; false if the message has no such call left.
fn fill_call(slot: &mut Value, calls: &mut Calls<'_>) -> bool {
    let Some(slot) = slot.as_object_mut() else {
        return true;
    };
    // If Gemini gave no id, the host's own is beside it.
    let own = slot.shift_remove("callId");
    let id = own.as_ref().or_else(|| slot.get("id"));
    let Some(call) = id.and_then(Value::as_str).and_then(|id| calls.take(id)) else {
        return false;
    };
    slot.insert("name".to_owned(), json!(call.name));
    slot.insert("args".to_owned(), arguments(&call.arguments));
    true
}

/// Arguments as an object, even if the model wrote something else.
fn arguments(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => value,
        _ if text.is_empty() => json!({}),
        _ => json!({ "arguments": text }),
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;

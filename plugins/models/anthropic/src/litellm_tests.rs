//! Compares this adapter's requests with those that litellm 1.106 sends for the same calls.
//! `vectors/record_litellm.py` has recorded these in `vectors/litellm.json`.

use mswea_sdk::types::{Change, Message, Tool};
use mswea_wire::testing::{call, image, opaque, text};
use mswea_wire::{Encoded as _, Format as _};
use serde_json::{Value, json};

use crate::history::History;
use crate::{FORMAT, configured};

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A chat message as mini-swe-agent sends it; the mark is on the message or on a part.
fn message(chat: &Value) -> Message {
    let mut mark = chat.get("cache_control");
    let mut content = Vec::new();
    for block in chat["thinking_blocks"].as_array().into_iter().flatten() {
        content.push(opaque(FORMAT, &block.to_string()));
    }
    match &chat["content"] {
        Value::Array(parts) => {
            for part in parts {
                mark = mark.or(part.get("cache_control"));
                content.push(match part.get("image_url") {
                    Some(url) => image(&string(&url["url"])),
                    None => text(&string(&part["text"])),
                });
            }
        }
        words => content.push(text(&string(words))),
    }
    let calls = chat["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|used| {
        let [name, arguments] = ["name", "arguments"].map(|key| string(&used["function"][key]));
        call(&string(&used["id"]), &name, &arguments)
    });
    Message {
        role: string(&chat["role"]),
        content,
        tool_calls: calls.collect(),
        tool_call_id: chat["tool_call_id"].as_str().map(str::to_owned),
        extra: mark.map(|mark| json!({ "cache_control": mark }).to_string()),
    }
}

#[test]
fn requests_are_those_of_mini_swe_agent() {
    let cases: Value = serde_json::from_str(include_str!("../vectors/litellm.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert!(cases.len() > 300);
    let bash = Tool::new(
        "bash",
        "Execute a bash command",
        &json!({"type": "object", "required": ["command"]}),
    );
    let mut wrong = Vec::new();
    for case in cases {
        let format = configured(&json!({
            "model": case["model"], "model_kwargs": case["kwargs"], "stream": false,
        }));
        let messages = case["messages"].as_array().into_iter().flatten();
        let mut history = History::default();
        history
            .apply(&format, &Change::all(messages.map(message).collect()))
            .unwrap();
        let tools = match case["tools"] == true {
            true => std::slice::from_ref(&bash),
            false => &[],
        };
        let body = format.body(&history, tools);
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        let keys = body.as_object_mut().unwrap();
        let tools = keys.shift_remove("tools").is_some();
        keys.insert("tools".to_owned(), tools.into());
        if case.get("messages").is_none() {
            keys.shift_remove("messages");
        }
        if body != case["body"] {
            wrong.push(format!(
                "{}\nours:   {body}\ntheirs: {}",
                case["kwargs"], case["body"]
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}

//! Replies, tool calls, actions and outputs for tests, also unusual ones.

use mswea_core::{Action, Message, Object, Output, Part, Reply, ToolCall, Usage};
use serde_json::{Value, json};

pub(super) fn object(value: Value) -> Object {
    match value {
        Value::Object(map) => map,
        _ => Object::new(),
    }
}

pub(super) fn tool_call(id: &str, name: &str, arguments: impl Into<String>) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.into(),
        extra: Object::new(),
    }
}

pub(super) fn bash(id: &str, command: &str) -> ToolCall {
    tool_call(id, "bash", json!({ "command": command }).to_string())
}

pub(super) fn reply(text: &str, calls: Vec<ToolCall>) -> Reply {
    let finish = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    Reply {
        message: Message {
            tool_calls: calls,
            ..Message::new("assistant", text)
        },
        finish_reason: finish.to_owned(),
        usage: Some(Usage {
            input_tokens: 1200,
            output_tokens: 80,
            ..Usage::default()
        }),
        model: "kit-1".to_owned(),
        ..Reply::default()
    }
}

pub(super) fn action(command: &str, id: Option<&str>) -> Action {
    Action {
        command: command.to_owned(),
        tool_call_id: id.map(str::to_owned),
        extra: Object::new(),
    }
}

pub(super) fn output(text: &str, returncode: i32) -> Output {
    Output {
        output: text.to_owned(),
        returncode,
        ..Output::default()
    }
}

/// An `extra` that its readers do not expect, nested as deeply as JSON parsers allow.
pub(super) fn odd_extra() -> Object {
    let mut deep = json!(1);
    for _ in 0..90 {
        deep = json!([deep]);
    }
    object(json!({
        "": null, "kit_unknown": {"deep": deep, "\u{1f980}": "\u{0}"},
        "tags": 7, "actions": "none", "cost": "much", "mswea": [], "returncode": "x",
        "timestamp": -1e300, "content_list": "yes", "cache_control": [1], "dropped_params": {"a": 1},
        "elided_bytes": -5, "exception_type": 3, "interrupt_type": {},
    }))
}

pub(super) fn odd_usage() -> Usage {
    Usage {
        input_tokens: u64::MAX,
        cache_read_tokens: u64::MAX,
        cache_write_tokens: u64::MAX,
        output_tokens: u64::MAX,
        reasoning_tokens: u64::MAX,
        cost: Some(f64::MAX),
        extra: odd_extra(),
    }
}

/// Contents that are not plain text.
pub(super) fn odd_parts() -> Vec<Part> {
    vec![
        Part::text(""),
        Part::Image {
            url: "data:image/png;base64,!!!".to_owned(),
            extra: odd_extra(),
        },
        Part::Image {
            url: String::new(),
            extra: Object::new(),
        },
        Part::Reasoning {
            text: "```bash\nls\n```".to_owned(),
            extra: object(json!({"signature": 5})),
        },
        Part::Opaque {
            format: "openai-chat".to_owned(),
            data: Value::Null,
        },
        Part::Opaque {
            format: String::new(),
            data: json!([[{"type": 1}], "x"]),
        },
        Part::text("```bash\nls"),
    ]
}

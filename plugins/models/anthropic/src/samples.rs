//! Values that the tests share.

use mswea_sdk::types::{ContentPart, Message, Opaque, ToolCall};
use serde_json::{Value, json};

use crate::config::Config;

pub fn config(extra: Value) -> Config {
    let mut config = json!({ "model": "m" });
    for (key, value) in extra.as_object().unwrap() {
        config[key] = value.clone();
    }
    Config::new(config).unwrap()
}

pub fn text(text: &str) -> ContentPart {
    ContentPart::Text(text.to_owned())
}

pub fn opaque(format: &str, data: &str) -> ContentPart {
    ContentPart::Opaque(Opaque {
        format: format.to_owned(),
        data: data.to_owned(),
        extra: None,
    })
}

pub fn message(role: &str, content: Vec<ContentPart>) -> Message {
    Message {
        role: role.to_owned(),
        content,
        tool_calls: Vec::new(),
        tool_call_id: None,
        extra: None,
    }
}

pub fn assistant(content: Vec<ContentPart>, tool_calls: Vec<ToolCall>) -> Message {
    Message {
        tool_calls,
        ..message("assistant", content)
    }
}

pub fn tool_message(id: &str, output: &str) -> Message {
    Message {
        tool_call_id: Some(id.to_owned()),
        ..message("tool", vec![text(output)])
    }
}

pub fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        extra: None,
    }
}

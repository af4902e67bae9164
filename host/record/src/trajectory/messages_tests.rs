//! Messages of chat completions, to the format and back.

use serde_json::{Value, json};

use super::{chat, messages_from_trajectory, to_string};
use mswea_core::{CONTENT_LIST, Message, Object, Part, ToolCall};

fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap()
}

#[test]
fn neutral_messages_survive() {
    let image = Part::Image {
        url: "data:image/png;base64,AA==".into(),
        extra: object(json!({"detail": "low"})),
    };
    let foreign = Part::Opaque {
        format: "anthropic-messages".into(),
        data: json!({"type": "server_tool_use", "id": "s"}),
    };
    let with = |role: &str, content: Vec<Part>| Message {
        role: role.into(),
        content,
        ..Message::default()
    };
    let mut tool = with(
        "tool",
        vec![Part::text("a"), image.clone(), foreign.clone()],
    );
    tool.tool_call_id = Some("c".into());
    let list = |role: &str, content: Vec<Part>| {
        let mut message = with(role, content);
        message.extra.insert(CONTENT_LIST.into(), json!(true));
        message
    };
    let mut tagged = with("user", vec![Part::text("x")]);
    tagged.extra.insert("tags".into(), json!(["keep"]));
    let two = list("system", vec![Part::text("a"), Part::text("b")]);
    let mut nothing = with("user", vec![]);
    nothing.extra = object(json!({"content_list": true, "returncode": 0}));
    let mut calls = with("assistant", vec![]);
    calls.tool_calls = vec![ToolCall {
        id: "1".into(),
        name: "bash".into(),
        arguments: "not json".into(),
        extra: object(json!({"other": {"k": 1}, "openai-chat": {"index": 1, "z": null}})),
    }];
    for message in [
        with("system", vec![Part::text("")]),
        with(
            "user",
            vec![Part::text("a"), image.clone(), Part::text("b")],
        ),
        with("user", vec![image]),
        list("system", vec![Part::text("")]),
        list("user", vec![Part::text("a"), Part::text("b")]),
        list("user", vec![]),
        with("assistant", vec![Part::text("a"), foreign]),
        tool,
        tagged,
        calls,
        two,
        nothing,
    ] {
        let encoded = chat::encode(message.clone());
        assert_eq!(chat::decode(&encoded).unwrap(), message, "{encoded}");
    }
}

/// Shapes that other programs write.
#[test]
fn foreign_messages_are_read() {
    for (value, text) in [
        (json!({"role": "user", "content": "x", "extra": null}), "x"),
        (
            json!({"role": "assistant", "content": null, "tool_calls": null}),
            "",
        ),
        (
            json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            "ab",
        ),
        (
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]}),
            "q",
        ),
        (
            json!({"content": "z", "role": "assistant", "tool_calls": [{"function": {"name": "bash", "arguments": {"command": "ls"}}}], "function_call": null}),
            "z",
        ),
    ] {
        assert_eq!(chat::decode(&value).unwrap().text(), text, "{value}");
    }
    let decoded = chat::decode(&json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "1", "function": {"name": "bash", "arguments": {"command": "ls"}}},
    ]}));
    assert_eq!(
        decoded.unwrap().tool_calls[0].arguments,
        "{\"command\":\"ls\"}"
    );
    for (value, expected) in [
        (json!({"messages": {}}), "no list `messages` in it"),
        (json!("x"), "no list `messages` in it"),
        (
            json!([{"role": "user", "content": "x"}, 5]),
            "message 1: it is no object",
        ),
        (json!([{"content": "x"}]), "message 0: it has no `role`"),
        (
            json!([{"role": "user", "content": 5}]),
            "message 0: `content` is neither",
        ),
        (
            json!([{"role": "user", "content": [{"type": "audio"}]}]),
            "message 0: a part of type `audio`",
        ),
        (
            json!([{"type": "reasoning", "summary": []}]),
            "message 0: a message of type `reasoning` can't be read",
        ),
        (
            json!([{"type": "function_call_output", "output": 5}]),
            "message 0: `content` is neither",
        ),
    ] {
        let error = messages_from_trajectory(&value).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn text_is_as_python_writes_it() {
    let vectors: Value = serde_json::from_str(include_str!("python.json")).unwrap();
    let vectors = vectors.as_array().unwrap();
    assert!(vectors.len() > 10);
    for vector in vectors {
        assert_eq!(
            to_string(&vector["value"]),
            vector["text"].as_str().unwrap()
        );
    }
}

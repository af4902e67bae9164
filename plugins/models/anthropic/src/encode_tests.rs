//! Vectors for bodies.

use super::*;
use crate::configured;
use mswea_sdk::types::{Change, Message};
use mswea_wire::Encoded as _;
use mswea_wire::testing::{assistant, bash_tool, call, message, text, tool_message};

fn text_of(config: &Value, messages: Vec<Message>, tools: &[Tool]) -> String {
    let format = configured(config);
    let mut history = History::default();
    history.apply(&format, &Change::all(messages)).unwrap();
    String::from_utf8(mswea_wire::Format::body(&format, &history, tools)).unwrap()
}

#[test]
fn bodies_hold_each_key_once_and_kwargs_last() {
    let tool = json!([{"type": "custom", "name": "bash", "description": "Execute a bash command",
        "input_schema": {"type": "object",
            "properties": {"command": {"type": "string", "description": "The bash command to execute"}},
            "required": ["command"]}}]);
    let system = r#"[{"type":"text","text":"s"}]"#;
    let hi = r#"[{"role":"user","content":[{"type":"text","text":"hi"}]}]"#;
    let vectors = [
        (
            json!({}),
            true,
            format!(
                r#"{{"model":"m","max_tokens":4096,"system":{system},"messages":{hi},"tools":{tool},"stream":true}}"#
            ),
        ),
        (
            json!({"stream": false, "max_output_tokens": 7}),
            false,
            format!(r#"{{"model":"m","max_tokens":7,"system":{system},"messages":{hi}}}"#),
        ),
        // `tool_choice` is left out if there are no tools.
        (
            json!({"stream": false, "model_kwargs": {"parallel_tool_calls": true}}),
            false,
            format!(r#"{{"model":"m","max_tokens":4096,"system":{system},"messages":{hi}}}"#),
        ),
        (
            json!({"model_kwargs": {"parallel_tool_calls": true, "stream": false, "max_tokens": 9}}),
            true,
            format!(
                r#"{{"model":"m","max_tokens":9,"system":{system},"messages":{hi},"tools":{tool},"tool_choice":{{"type":"auto","disable_parallel_tool_use":false}}}}"#
            ),
        ),
        (
            json!({"stream": false, "model_kwargs": {"drop_params": true, "temperature": 0.5, "model": "n", "seed": 1}}),
            false,
            format!(
                r#"{{"max_tokens":4096,"system":{system},"messages":{hi},"temperature":0.5,"model":"n"}}"#
            ),
        ),
        (
            json!({"model_kwargs": {"messages": [], "tools": [], "system": "x",
                                    "extra_body": {"max_tokens": 1, "stream": false}}}),
            true,
            r#"{"model":"m","messages":[],"tools":[],"system":"x","max_tokens":1,"stream":false}"#
                .to_owned(),
        ),
    ];
    for (extra, with_tool, expected) in vectors {
        let messages = vec![
            message("system", vec![text("s")]),
            message("user", vec![text("hi")]),
        ];
        let tools = if with_tool { vec![bash_tool()] } else { vec![] };
        assert_eq!(text_of(&extra, messages, &tools), expected, "{extra}");
    }
}

#[test]
fn tools_are_named_where_calls_are_shown_without_them() {
    let messages = vec![
        assistant(vec![], vec![call("a", "bash", ""), call("b", "x", "")]),
        tool_message("a", "1"),
        tool_message("b", "2"),
        assistant(vec![], vec![call("c", "bash", "")]),
    ];
    let config = json!({"model_kwargs": {"tool_choice": "any"}});
    let body = text_of(&config, messages, &[]);
    let body: Value = serde_json::from_str(&body).unwrap();
    let named =
        |name: &str| json!({"type": "custom", "name": name, "input_schema": {"type": "object"}});
    assert_eq!(body["tools"], json!([named("bash"), named("x")]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[test]
fn schemas_of_tools_are_objects() {
    for (parameters, expected) in [
        (
            r#"{"properties":{}}"#,
            json!({"properties": {}, "type": "object"}),
        ),
        ("broken", json!("broken")),
    ] {
        let mut tool = bash_tool();
        tool.parameters = parameters.to_owned();
        tool.description = String::new();
        let tool = encode_tool(&tool);
        assert_eq!(tool["input_schema"], expected);
        assert!(tool.get("description").is_none());
    }
}

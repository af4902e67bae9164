//! A history for benchmarks.

use mswea_host::roles::{Message, ToolCall};
use serde_json::{Value, json};

/// A history as the loop makes it: task, then calls and observations.
pub fn messages(count: usize) -> Vec<Message> {
    let mut messages = vec![
        Message::new("system", "You are a careful software engineer."),
        Message::new("user", "Fix the failing test."),
    ];
    for step in 1.. {
        if messages.len() >= count {
            break;
        }
        let id = format!("call_{step}");
        let mut call = Message::new("assistant", "THOUGHT: let us look at the next file.");
        call.tool_calls.push(ToolCall {
            id: id.clone(),
            name: "bash".into(),
            arguments: json!({"command": format!("sed -n '{step},40p' src/lib.rs")}).to_string(),
            extra: object(Value::Null),
        });
        call.extra = object(json!({
            "actions": [{"command": format!("sed -n '{step},40p' src/lib.rs"), "tool_call_id": id}],
            "response": {"id": "x", "choices": []},
            "cost": 0.001,
            "timestamp": 1_700_000_000.5,
        }));
        messages.push(call);
        let output = format!("line {step} of the file\n").repeat(8);
        let mut result = Message::new(
            "tool",
            format!("{{\"returncode\":0,\"output\":{output:?}}}"),
        );
        result.tool_call_id = Some(format!("call_{step}"));
        result.extra = object(json!({
            "raw_output": output,
            "returncode": 0,
            "timestamp": 1_700_000_000.5,
            "exception_info": "",
        }));
        messages.push(result);
    }
    messages.truncate(count);
    messages
}

fn object(value: Value) -> mswea_host::roles::Object {
    value.as_object().cloned().unwrap_or_default()
}

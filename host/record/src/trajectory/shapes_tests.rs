//! The shapes that mini-swe-agent gives the messages of each API, out of its recorded runs.

use serde_json::{Value, json};

use super::{encode, messages_from_trajectory};
use mswea_core::{Message, Object, Part, ToolCall};

macro_rules! recorded {
    ($($name:literal)*) => {
        [$((
            $name,
            include_str!(concat!("../../../../tests/side-by-side/recorded/", $name, ".json")),
        )),*]
    };
}

/// The messages of a recorded run.
fn messages(name: &str, recording: &str) -> Vec<Value> {
    let recording: Value = serde_json::from_str(recording).unwrap();
    match &recording["result"]["trajectory"]["messages"] {
        Value::Array(messages) => messages.clone(),
        other => panic!("{name}: {other}"),
    }
}

#[test]
fn recorded_messages_come_back_to_the_letter() {
    for (name, recording) in recorded![
        "anthropic_cache" "anthropic_format_errors" "anthropic_several" "anthropic_text"
        "anthropic_thinking" "multimodal" "multimodal_text" "responses_format_errors" "responses_incomplete"
        "responses_multimodal" "responses_plain" "responses_reasoning" "responses_repeated"
        "responses_several" "responses_timeout" "text_plain" "toolcall_reasoning"
        "toolcall_several"
    ] {
        let recorded = messages(name, recording);
        let neutral = messages_from_trajectory(&recorded.clone().into()).unwrap();
        assert_eq!(neutral.len(), recorded.len());
        // a null for no calls has no neutral form
        let mut expected = recorded;
        for message in &mut expected {
            if message.get("tool_calls").is_some_and(Value::is_null) {
                message.as_object_mut().unwrap().shift_remove("tool_calls");
            }
        }
        for (index, (message, expected)) in encode(neutral.clone(), false)
            .iter()
            .zip(&expected)
            .enumerate()
        {
            assert_eq!(message, expected, "{name}, message {index}");
        }
    }
}

fn opaque(format: &str, data: Value) -> Part {
    Part::Opaque {
        format: format.into(),
        data,
    }
}

fn reasoning(text: &str) -> Part {
    Part::Reasoning {
        text: text.into(),
        extra: Object::new(),
    }
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: "bash".into(),
        arguments: arguments.into(),
        extra: Object::new(),
    }
}

fn message(role: &str, content: Vec<Part>, extra: Value) -> Message {
    Message {
        role: role.into(),
        content,
        extra: object(extra),
        ..Message::default()
    }
}

fn comes_back(messages: &[Message], expected: &[Value]) {
    let encoded = encode(messages.to_vec(), false);
    assert_eq!(encoded, expected);
    let text = super::to_string(&encoded.into());
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(messages_from_trajectory(&read).unwrap(), messages);
}

/// A run over the Responses API, as the adapter has it in the history.
#[test]
fn responses_shape() {
    let items = json!([
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}],
         "encrypted_content": "gAA"},
        {"type": "message", "id": "m", "role": "assistant", "content": [
            {"type": "output_text", "text": "Then.", "annotations": []},
            {"type": "output_text", "text": ""},
            {"type": "refusal", "refusal": "no"},
        ]},
        {"type": "function_call", "id": "fc", "call_id": "c1", "name": "bash", "arguments": "{}"},
        {"type": "function_call", "call_id": "", "name": "bash", "arguments": "{"},
        {"type": "web_search_call", "id": "ws"},
    ]);
    let response = |items: &Value| json!({"object": "response", "id": "r1", "output": items});
    let mut reply = message(
        "assistant",
        vec![
            reasoning("hm"),
            opaque("openai-responses", items[0].clone()),
            Part::text("Then."),
            Part::text("no"),
            opaque(
                "openai-responses",
                json!({"type": "message", "id": "m", "role": "assistant", "content": [
                    {"type": "output_text", "text": null, "annotations": []},
                    {"type": "output_text", "text": ""},
                    {"type": "refusal", "refusal": null},
                ]}),
            ),
            opaque(
                "openai-responses",
                json!({"type": "function_call", "id": "fc", "call_id": "c1", "name": null,
                       "arguments": null}),
            ),
            opaque(
                "openai-responses",
                json!({"type": "function_call", "call_id": "call_2_1", "name": null,
                       "arguments": null}),
            ),
            opaque("openai-responses", items[4].clone()),
            opaque("other", json!({"k": 1})),
        ],
        json!({"actions": [], "cost": 0.5, "timestamp": 2.0}),
    );
    reply.tool_calls = vec![call("c1", "{}"), call("call_2_1", "{")];
    let mut with_ids = items;
    with_ids[3]["call_id"] = "call_2_1".into();
    let mut given = reply.clone();
    given.extra.insert("response".into(), response(&with_ids));
    let image = Part::Image {
        url: "data:image/png;base64,AA==".into(),
        extra: object(json!({"detail": "low"})),
    };
    let mut seen = message("tool", vec![Part::text("out")], json!({"returncode": 0}));
    seen.tool_call_id = Some("c1".into());
    let mut shown = message("tool", vec![Part::text("out"), image], json!({}));
    shown.tool_call_id = Some("call_2_1".into());
    let feedback = json!({"interrupt_type": "FormatError", "response": response(&json!([]))});
    let messages = [
        Message::new("system", "be good"),
        message("user", vec![Part::text("no call")], feedback.clone()),
        given,
        seen,
        shown,
        message(
            "user",
            vec![Part::text("by hand")],
            json!({"returncode": 1}),
        ),
        message(
            "user",
            vec![Part::text("stop")],
            json!({"interrupt_type": "UserInterruption"}),
        ),
        Message::new("exit", ""),
    ];
    let extra = json!({"actions": [], "cost": 0.5, "timestamp": 2.0,
        "opaque": [{"format": "other", "data": {"k": 1}}]});
    let mut whole = response(&with_ids);
    whole["extra"] = extra;
    comes_back(
        &messages,
        &[
            json!({"role": "system", "content": "be good"}),
            json!({"type": "message", "role": "user", "extra": feedback,
                   "content": [{"type": "input_text", "text": "no call"}]}),
            whole.clone(),
            json!({"extra": {"returncode": 0}, "type": "function_call_output", "call_id": "c1",
                   "output": "out"}),
            json!({"extra": {}, "type": "function_call_output", "call_id": "call_2_1", "output": [
                {"type": "input_text", "text": "out"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
            ]}),
            json!({"type": "message", "role": "user", "extra": {"returncode": 1},
                   "content": [{"type": "input_text", "text": "by hand"}]}),
            json!({"role": "user", "content": "stop",
                   "extra": {"interrupt_type": "UserInterruption"}}),
            json!({"role": "exit", "content": ""}),
        ],
    );

    // as the server gave it: without the id that the adapter made
    let mut items = with_ids;
    items[3]["call_id"] = "".into();
    reply.extra.insert("response".into(), response(&items));
    assert_eq!(encode(vec![reply], false)[0], whole);
}

/// As mini-swe-agent's class `openrouter_response` writes it.
#[test]
fn prompts_are_items_over_a_router() {
    let response = json!({"object": "response", "output": []});
    let item = |role: &str, text: &str| {
        json!({"type": "message", "role": role,
               "content": [{"type": "input_text", "text": text}]})
    };
    let says = |role: &str, text: &str, extra: Value| message(role, vec![Part::text(text)], extra);
    let failed = json!({"exit_status": "RuntimeError", "exception_str": "boom"});
    let messages = [
        Message::new("system", "s"),
        Message::new("user", "u"),
        says("user", "by hand", json!({"actions": [{"command": "ls"}]})),
        says(
            "user",
            "stop",
            json!({"interrupt_type": "UserInterruption"}),
        ),
        message("assistant", vec![], json!({"response": response})),
        says("exit", "done", json!({"exit_status": "Submitted"})),
        says("exit", "boom", failed.clone()),
    ];
    let encoded = encode(messages.to_vec(), true);
    assert_eq!(encoded[0], item("system", "s"));
    assert_eq!(encoded[1], item("user", "u"));
    assert_eq!(encoded[2]["content"], "by hand");
    assert_eq!(encoded[3]["content"], "stop");
    assert_eq!(encoded[5]["content"], "done");
    let mut exit = item("exit", "boom");
    exit["extra"] = failed;
    assert_eq!(encoded[6], exit);
    assert_eq!(messages_from_trajectory(&encoded.into()).unwrap(), messages);
}

/// A run over Anthropic's API: chat messages, with the thinking under a key of its own.
#[test]
fn thinking_has_a_key() {
    let block = json!({"type": "thinking", "thinking": "hm", "signature": "s1=="});
    let sealed = json!({"type": "redacted_thinking", "data": "xyz"});
    let other = json!({"type": "server_tool_use", "id": "x"});
    let response = json!({"type": "message", "content": []});
    let mut reply = message(
        "assistant",
        vec![
            reasoning("hm"),
            opaque("anthropic-messages", block.clone()),
            opaque("anthropic-messages", sealed.clone()),
            Part::text("Then."),
            opaque("anthropic-messages", other.clone()),
        ],
        json!({"response": response}),
    );
    reply.tool_calls = vec![call("c1", "{}")];
    let expected = json!({
        "role": "assistant",
        "content": "Then.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
        ],
        "thinking_blocks": [block, sealed],
        "reasoning_content": "hm",
        "extra": {
            "response": response,
            "opaque": [{"format": "anthropic-messages", "data": other}],
        },
    });
    comes_back(&[reply], &[expected]);
}

/// A server of chat completions that gives thinking blocks gets them back as they are.
#[test]
fn thinking_of_chat_stays_with_chat() {
    let block = json!({"type": "thinking", "thinking": "hm", "signature": "s1=="});
    let value = json!({
        "role": "assistant",
        "content": "a",
        "reasoning_content": "hm",
        "thinking_blocks": [block],
        "extra": {"response": {"object": "chat.completion"}},
    });
    let messages = messages_from_trajectory(&json!([value])).unwrap();
    assert_eq!(
        messages[0].content,
        [
            reasoning("hm"),
            opaque("anthropic-messages", block.clone()),
            Part::text("a"),
            opaque(
                "openai-chat",
                json!({"reasoning_content": "hm", "thinking_blocks": [block]})
            ),
        ]
    );
    assert_eq!(encode(messages.clone(), false), [value]);
}

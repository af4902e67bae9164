//! Vectors for whole responses.

use super::*;
use crate::testing::counts;

fn read(response: &Value) -> Reply {
    reply(response, response.to_string(), 7).unwrap()
}

#[test]
fn the_status_becomes_the_finish_reason() {
    for (status, reason, expected) in [
        (json!("completed"), json!(null), "completed"),
        (json!("incomplete"), json!("max_output_tokens"), "length"),
        (
            json!("incomplete"),
            json!("content_filter"),
            "content_filter",
        ),
        (json!("incomplete"), json!("other"), "incomplete"),
        (json!("incomplete"), json!(null), "incomplete"),
        (json!(null), json!(null), ""),
    ] {
        let response = json!({
            "status": status, "output": [], "incomplete_details": {"reason": reason},
        });
        assert_eq!(read(&response).finish_reason, expected, "{response}");
    }
}

#[test]
fn calls_are_read_in_every_form() {
    // Item, then id, name, arguments.
    for (item, expected) in [
        (
            json!({"type": "function_call", "id": "fc", "call_id": "c", "name": "bash", "arguments": "{}"}),
            ("c", "bash", "{}"),
        ),
        (
            json!({"type": "function_call", "id": "fc", "call_id": "", "name": null}),
            ("fc", "", ""),
        ),
        (
            json!({"type": "function_call", "name": "bash", "arguments": {"command": "ls"}}),
            ("call_7_0", "bash", r#"{"command":"ls"}"#),
        ),
        (
            json!({"type": "function_call", "call_id": null, "name": "x", "arguments": null}),
            ("call_7_0", "x", ""),
        ),
    ] {
        let message = read(&json!({"output": [item]})).message;
        let call = &message.tool_calls[0];
        assert_eq!(
            (&*call.id, &*call.name, &*call.arguments),
            expected,
            "{item}"
        );
    }
    // The second of two calls with one id has an id of its own, in its item as well.
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "x"});
    let message = read(
        &json!({"output": [call("c"), {"type": "reasoning"}, call("c"), call(""), call("d")]}),
    )
    .message;
    let ids: Vec<&str> = message.tool_calls.iter().map(|call| &*call.id).collect();
    assert_eq!(ids, ["c", "call_7_1", "call_7_2", "d"]);
    let items = message.content.iter().filter_map(|part| match part {
        ContentPart::Opaque(opaque) => serde_json::from_str::<Value>(&opaque.data).ok(),
        _ => None,
    });
    let sent: Vec<Value> = items
        .filter_map(|item| item.get("call_id").cloned())
        .collect();
    assert_eq!(sent, ids);
    let other = json!({"output": [{"type": "custom_tool_call", "call_id": "c", "input": "ls"}, 5]});
    let message = read(&other).message;
    assert!(message.tool_calls.is_empty());
    assert_eq!(message.content.len(), 2);
}

#[test]
fn reasoning_is_shown_as_far_as_there_is_any() {
    for (item, expected) in [
        (json!({"type": "reasoning", "summary": []}), None),
        (json!({"type": "reasoning", "encrypted_content": "x"}), None),
        (
            json!({"type": "reasoning", "summary": [{"text": "a"}, {"text": ""}, {"text": "b"}],
                   "content": [{"text": "raw"}]}),
            Some("a\n\nb"),
        ),
        (
            json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "raw"}]}),
            Some("raw"),
        ),
    ] {
        let message = read(&json!({"output": [item]})).message;
        let shown = message.content.iter().find_map(|part| match part {
            ContentPart::Reasoning(reasoning) => Some(&*reasoning.text),
            _ => None,
        });
        assert_eq!(shown, expected, "{item}");
        // The item itself is kept whole.
        let Some(ContentPart::Opaque(opaque)) = message.content.last() else {
            panic!("{item}")
        };
        assert_eq!(opaque.data, item.to_string());
    }
}

#[test]
fn usage_is_read_with_its_details() {
    // input, cache read, cache write, output, reasoning, cost
    for (value, expected) in [
        (json!({"cost": 0.25}), ([0, 0, 0, 0, 0], Some(0.25))),
        (
            json!({"input_tokens": "10", "output_tokens": "5"}),
            ([10, 0, 0, 5, 0], None),
        ),
        (
            json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4},
                   "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 3},
                   "total_tokens": 15}),
            ([10, 4, 0, 5, 3], None),
        ),
        (
            json!({"input_tokens": 10.0, "input_tokens_details": null, "cost": 0.25,
                   "output_tokens": null, "output_tokens_details": {}}),
            ([10, 0, 0, 0, 0], Some(0.25)),
        ),
        (
            json!({"input_tokens": 9, "input_tokens_details": {"cache_write_tokens": 7}, "cost": -1}),
            ([9, 0, 7, 0, 0], None),
        ),
    ] {
        let got = usage(&value).unwrap();
        assert_eq!((counts(&got), got.cost), expected, "{value}");
    }
    for value in [
        json!(null),
        json!({}),
        json!({"input_tokens": -5, "output_tokens": "many"}),
    ] {
        assert_eq!(usage(&value), None, "{value}");
    }
}

#[test]
fn failures_are_told_from_answers() {
    for (response, is_failure, is_reply) in [
        (
            json!({"status": "completed", "error": null, "output": []}),
            false,
            true,
        ),
        (
            json!({"error": {"message": "beside"}, "output": []}),
            false,
            true,
        ),
        (
            json!({"status": "failed", "error": {"code": "server_error"}, "output": []}),
            true,
            true,
        ),
        (
            json!({"status": "cancelled", "error": null, "output": []}),
            true,
            true,
        ),
        (json!({"error": {"message": "m", "code": 502}}), true, false),
        (json!({"object": "error", "message": "m"}), true, false),
        (json!({"type": "error", "message": "m"}), true, false),
        (json!({"output": null}), false, false),
        (json!({"choices": []}), false, false),
        (json!(5), false, false),
    ] {
        assert_eq!(failure(&response).is_some(), is_failure, "{response}");
        let reply = reply(&response, String::new(), 0);
        assert_eq!(reply.is_some(), is_reply, "{response}");
    }
}

//! Test vectors of streams that deviate from the API's reference, besides those of the exchanges.

use super::*;
use mswea_wire::Assembly as _;

fn assemble(events: &Value) -> Assembly {
    let mut assembly = Assembly::default();
    for event in events.as_array().unwrap() {
        let event = Event {
            name: String::new(),
            data: event.to_string(),
        };
        assembly.take(&event, &mut Vec::new());
    }
    assembly
}

#[test]
fn loose_streams_make_messages() {
    let piece = |text: &str| json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}});
    let vectors = [
        // No start, no index, no end of the block.
        (
            json!([piece("a"), piece("b"), {"type": "message_stop"}]),
            json!([{"type": "text", "text": "ab"}]),
        ),
        // Pieces of two blocks that alternate, and blocks out of order.
        (
            json!([
                {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "x", "name": "n"}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
                {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a\""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "t"}},
                {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ":1}"}},
            ]),
            json!([{"type": "text", "text": "t"}, {"type": "tool_use", "id": "x", "name": "n", "input": {"a": 1}}]),
        ),
        // Several calls of one index, and one of them twice.
        (
            json!([
                {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "x", "name": "n", "input": {}}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "x", "name": "n", "input": {}}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":1}"}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "x", "name": "n", "input": {}}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":1}"}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "x", "name": "n", "input": {}}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":2}"}},
            ]),
            json!([{"type": "tool_use", "id": "x", "name": "n", "input": {"a": 1}},
                   {"type": "tool_use", "id": "x", "name": "n", "input": {"a": 2}}]),
        ),
        // An input that broke off.
        (
            json!([
                {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "x", "input": {}}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"a"}},
            ]),
            json!([{"type": "tool_use", "id": "x", "input": "{\"a"}]),
        ),
        // An event that contains the whole block, and one that contains it with the message.
        (
            json!([
                {"type": "message_start", "message": {"content": [{"type": "text", "text": "a"}]}},
                {"type": "content_block_start", "content_block": {"type": "text", "text": "b"}},
            ]),
            json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        ),
        (
            json!([
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"n": 1}}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"n": 2}}},
            ]),
            json!([{"type": "text", "text": "", "citations": [{"n": 1}, {"n": 2}]}]),
        ),
    ];
    for (events, content) in vectors {
        let assembly = assemble(&events);
        assert!(assembly.has_answer());
        assert_eq!(assembly.into_response()["content"], content, "{events}");
    }
}

#[test]
fn counts_are_laid_over_and_null_says_nothing() {
    let assembly = assemble(&json!([
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1, "x": null}}},
        {"type": "message_delta", "delta": {"stop_reason": null},
         "usage": {"input_tokens": null, "output_tokens": 9}},
    ]));
    assert!(!assembly.is_complete());
    assert_eq!(
        *assembly.usage(),
        json!({"input_tokens": 5, "output_tokens": 9, "x": null})
    );
}

#[test]
fn the_type_may_stand_in_the_events_name_alone() {
    let mut assembly = Assembly::default();
    for (name, data) in [
        ("message_start", r#"{"message":{"id":"m"}}"#),
        ("message_delta", r#"{"delta":{"stop_reason":"end_turn"}}"#),
        ("ping", ""),
        ("message_stop", "{}"),
        ("message_start", r#"{"message":{"id":"late"}}"#),
    ] {
        let event = Event {
            name: name.to_owned(),
            data: data.to_owned(),
        };
        assembly.take(&event, &mut Vec::new());
    }
    assert!(assembly.is_complete());
    let message = assembly.into_response();
    assert_eq!(
        (&message["id"], &message["stop_reason"]),
        (&json!("m"), &json!("end_turn"))
    );
}

#[test]
fn errors_are_seen_in_every_form() {
    for (name, data, is_error) in [
        ("error", r#"{"type":"error","error":{"message":"m"}}"#, true),
        ("", r#"{"type":"error","error":{"message":"m"}}"#, true),
        ("", r#"{"error":{"message":"m"}}"#, true),
        ("error", "m", true),
        ("error", "", false),
        ("", "{\"error\":null}", false),
        ("", "{\"error\":", false),
        ("", "[1]", false),
        ("", "[DONE]", false),
    ] {
        let mut assembly = Assembly::default();
        let event = Event {
            name: name.to_owned(),
            data: data.to_owned(),
        };
        assembly.take(&event, &mut Vec::new());
        assert_eq!(assembly.error().is_some(), is_error, "{data}");
    }
}

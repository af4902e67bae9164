//! Vectors for whole responses, beside those of the exchanges.

use super::*;
use mswea_wire::testing::counts;

#[test]
fn reasons_are_put_into_the_contracts_words() {
    for (reason, expected) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
        ("", ""),
    ] {
        assert_eq!(finish_reason(reason), expected);
    }
}

#[test]
fn usage_counts_what_was_cached_as_input() {
    let vectors = [
        (
            json!({"input_tokens": 3.0, "output_tokens": "4", "cache_read_input_tokens": "5"}),
            [8, 5, 0, 4, 0],
            None,
        ),
        (
            json!({"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": null}),
            [3, 0, 0, 4, 0],
            None,
        ),
        (
            json!({"input_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 7,
                   "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 3}}),
            [15, 5, 7, 0, 0],
            Some(json!({"cache_write_1h_tokens": 3})),
        ),
        // The parts alone.
        (
            json!({"cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 3}}),
            [7, 0, 7, 0, 0],
            Some(json!({"cache_write_1h_tokens": 3})),
        ),
    ];
    for (value, expected, extra) in vectors {
        let got = usage(&value).unwrap();
        assert_eq!(counts(&got), expected, "{value}");
        assert_eq!(got.extra, extra.map(|extra| extra.to_string()), "{value}");
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
fn what_holds_no_message_is_no_reply() {
    for value in [
        json!({}),
        json!(1),
        json!({"content": "text"}),
        json!({"choices": [{"message": {"content": "x"}}]}),
    ] {
        assert_eq!(reply(&value, String::new(), 0), None, "{value}");
    }
}

#[test]
fn blocks_are_read_in_every_form() {
    let body = json!({"content": [
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "a", "input": "{\"broken"},
        {"type": "novelty"}, 7,
    ]});
    let reply = reply(&body, String::new(), 0).unwrap();
    assert_eq!(reply.message.tool_calls[0].arguments, "{\"broken");
    assert_eq!(reply.message.content.len(), 1);
    assert!(matches!(&reply.message.content[0], ContentPart::Opaque(o) if o.format == FORMAT));
    assert_eq!((&*reply.model, &*reply.finish_reason), ("", ""));
}

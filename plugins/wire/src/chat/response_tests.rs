//! Vectors for whole responses.

use super::*;
use crate::chat::plain;
use crate::testing::counts;
use serde_json::json;

fn read(message: &Value) -> Reply {
    let completion = json!({
        "model": "m-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    });
    let text = completion.to_string();
    let read = reply(&completion, text.clone(), 7).unwrap();
    if let Some(plain) = plain::reply(&text, 7) {
        assert_eq!(plain, read);
    }
    read
}

fn text(text: &str) -> ContentPart {
    ContentPart::text(text)
}

fn reasoning(text: &str) -> ContentPart {
    ContentPart::Reasoning(Reasoning {
        text: text.to_owned(),
        extra: None,
    })
}

fn opaque(data: &Value) -> ContentPart {
    ContentPart::Opaque(Opaque {
        format: FORMAT.to_owned(),
        data: data.to_string(),
        extra: None,
    })
}

#[test]
fn contents_are_read_in_every_form() {
    let vectors = [
        (
            json!({"role": "assistant", "content": "hi"}),
            vec![text("hi")],
        ),
        (json!({"content": null}), vec![]),
        (json!({}), vec![]),
        (
            json!({"content": "hi", "refusal": null, "annotations": [], "audio": {}}),
            vec![text("hi")],
        ),
        // Servers of models that think want an empty reasoning back.
        (
            json!({"content": "hi", "reasoning_content": "", "reasoning": null}),
            vec![text("hi"), opaque(&json!({"reasoning_content": ""}))],
        ),
        (
            json!({"content": "hi", "reasoning_content": "", "reasoning": "r"}),
            vec![
                reasoning("r"),
                text("hi"),
                opaque(&json!({"reasoning_content": "", "reasoning": "r"})),
            ],
        ),
        (
            json!({"content": null, "refusal": "I won't"}),
            vec![text("I won't")],
        ),
        (
            json!({"content": "a", "refusal": "b"}),
            vec![text("a"), opaque(&json!({"refusal": "b"}))],
        ),
        (
            json!({"content": "a", "reasoning_content": "r", "x": 0}),
            vec![
                reasoning("r"),
                text("a"),
                opaque(&json!({"reasoning_content": "r", "x": 0})),
            ],
        ),
        (
            json!({"content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "a"},
                "b",
                {"type": "image_url", "image_url": {"url": "data:x"}},
                {"type": "refusal", "refusal": "c"},
            ]}),
            vec![
                reasoning("hm"),
                text("abc"),
                ContentPart::Image(Image {
                    url: "data:x".to_owned(),
                    extra: None,
                }),
            ],
        ),
    ];
    for (message, expected) in vectors {
        let got = read(&message);
        assert_eq!(got.message.content, expected, "{message}");
        assert_eq!(got.message.role, "assistant");
        assert_eq!(got.model, "m-1");
    }
}

#[test]
fn tool_calls_are_read_in_every_form() {
    let function = |arguments: Value| json!({"name": "bash", "arguments": arguments});
    let vectors = [
        (
            json!({"id": "c", "type": "function", "function": function(json!("{}"))}),
            ("c", "bash", "{}", None),
        ),
        (
            json!({"id": "c", "index": 0, "function": function(json!({"command": "ls"}))}),
            ("c", "bash", r#"{"command":"ls"}"#, None),
        ),
        (
            json!({"function": function(json!(null))}),
            ("call_7_0", "bash", "", None),
        ),
        (
            json!({"id": "", "function": {}}),
            ("call_7_0", "", "", None),
        ),
        (json!({"id": 5}), ("5", "", "", None)),
        (
            json!({"id": "c", "function": function(json!("x")), "extra_content": {"s": 1}}),
            (
                "c",
                "bash",
                "x",
                Some(r#"{"openai-chat":{"extra_content":{"s":1}}}"#),
            ),
        ),
    ];
    for (call, (id, name, arguments, extra)) in vectors {
        let got = read(&json!({"content": null, "tool_calls": [call]}));
        let got = &got.message.tool_calls[0];
        assert_eq!(
            (&*got.id, &*got.name, &*got.arguments, got.extra.as_deref()),
            (id, name, arguments, extra),
            "{call}"
        );
    }
    assert!(
        read(&json!({"tool_calls": null}))
            .message
            .tool_calls
            .is_empty()
    );
}

#[test]
fn usage_is_read_from_every_dialect() {
    // input, cache read, cache write, output, reasoning, cost
    let vectors = [
        (json!({"cost": 0.5}), ([0, 0, 0, 0, 0], Some(0.5))),
        (
            json!({"prompt_tokens": "100", "completion_tokens": " 5 ",
                   "prompt_tokens_details": {"cached_tokens": "4"}}),
            ([100, 4, 0, 5, 0], None),
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
                   "prompt_tokens_details": {"cached_tokens": 4},
                   "completion_tokens_details": {"reasoning_tokens": 3}, "cost": 0.5}),
            ([10, 4, 0, 5, 3], Some(0.5)),
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": null, "cost": null,
                   "prompt_tokens_details": null, "cache_creation_input_tokens": 6,
                   "cache_read_input_tokens": 2}),
            ([10, 2, 6, 0, 0], None),
        ),
        (
            json!({"prompt_tokens": 9.0, "prompt_cache_hit_tokens": 8, "cost": -1,
                   "prompt_tokens_details": {"cache_write_tokens": 1}}),
            ([9, 8, 1, 0, 0], None),
        ),
        // Cached tokens that are counted only in the total.
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115,
                   "prompt_tokens_details": {"cached_tokens": 100}}),
            ([110, 100, 0, 5, 0], None),
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 122,
                   "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}),
            ([117, 100, 7, 5, 0], None),
        ),
        // Reasoning tokens that are counted only in the total.
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 65}),
            ([10, 0, 0, 55, 50], None),
        ),
    ];
    for (value, expected) in vectors {
        let got = usage(&value).unwrap();
        assert_eq!((counts(&got), got.cost), expected, "{value}");
    }
    for value in [
        json!(null),
        json!({}),
        json!({"prompt_tokens": -5, "completion_tokens": "many", "cost": "0.5"}),
    ] {
        assert_eq!(usage(&value), None, "{value}");
    }
}

#[test]
fn what_holds_no_message_is_no_reply() {
    for value in [
        json!({}),
        json!(1),
        json!({"choices": null}),
        json!({"choices": []}),
        json!({"choices": [{}]}),
        json!({"choices": [{"message": null}]}),
        json!({"choices": [{"text": "plain"}]}),
    ] {
        assert_eq!(reply(&value, String::new(), 0), None, "{value}");
    }
}

#[test]
fn replies_with_texts_and_calls_only_are_read_without_a_value() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": "{}"}});
    let openai = json!({"role": "assistant", "content": null, "tool_calls": [call("c"), call("")],
                        "refusal": null, "annotations": []});
    let vllm = json!({"role": "assistant", "content": "a\n", "refusal": null, "annotations": null, "audio": null,
                      "function_call": null, "tool_calls": [], "reasoning_content": null});
    for (message, is_plain) in [
        (openai, true),
        (vllm, true),
        (json!({"content": ""}), true),
        (json!({"content": [{"type": "text", "text": "a"}]}), false),
        (json!({"content": "a", "refusal": "b"}), false),
        (json!({"content": "a", "annotations": [{}]}), false),
        (json!({"content": "a", "reasoning_content": "r"}), false),
        (json!({"content": "a", "new": null}), false),
        (json!({"tool_calls": [{"id": 1}]}), false),
        (
            json!({"tool_calls": [{"id": "c", "function": {"arguments": {}}}]}),
            false,
        ),
        (
            json!({"tool_calls": [{"id": "c", "extra_content": {}}]}),
            false,
        ),
    ] {
        let completion = json!({
            "id": "i", "object": "chat.completion", "created": 1, "model": "m", "system_fingerprint": null,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": null}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
        });
        let text = completion.to_string();
        let plain = plain::reply(&text, 7);
        assert_eq!(plain.is_some(), is_plain, "{message}");
        if let Some(plain) = plain {
            assert_eq!(Some(plain), reply(&completion, text, 7), "{message}");
        }
    }
    let deep = format!(
        r#"{{"choices": [{{"message": {{}}}}], "id": {}{}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    // An error in the choice, keys that are unknown or twice, and values that no `Value` can hold.
    for text in [
        deep.as_str(),
        r#"{"choices": [{"message": {}}], "created": 1e999}"#,
        r#"{"choices": [[{"content": "a"}, "stop", 0, null, null, null, null, null]]}"#,
        r#"{"choices": [{"message": {"tool_calls": [{"id": "a", "function": ["bash", "{}"]}]}}]}"#,
        r#"{"choices": [{"message": {"role": {}}}]}"#,
        r#"{"choices": [{"message": {}}], "new": 1e999}"#,
        r#"{"choices": [{"message": {}, "delta": {}}]}"#,
        r#"{"choices": [{"message": {}}, {"message": {}}]}"#,
        r#"{"choices": [{"message": {}, "new": 1}]}"#,
        r#"{"choices": [{"message": {"content": "a"}, "error": {"code": 502}}]}"#,
        r#"{"choices": [{"message": {"content": "a", "content": "b"}}]}"#,
    ] {
        assert_eq!(plain::reply(text, 0), None, "{text}");
    }
}

#[test]
fn finish_reasons_are_litellm_s() {
    for (given, has_calls, expected) in [
        ("stop", false, "stop"),
        ("stop", true, "tool_calls"),
        ("length", true, "length"),
        ("max_tokens", false, "length"),
        ("tool_use", false, "tool_calls"),
        ("content_filter", false, "content_filter"),
        ("eos", false, "stop"),
        ("end_turn", false, "stop"),
        ("", false, "stop"),
        ("", true, "tool_calls"),
        ("error", false, "error"),
    ] {
        assert_eq!(reason(given, has_calls), expected, "{given}");
        let mut message = json!({ "role": "assistant", "content": "x" });
        if has_calls {
            message["tool_calls"] = json!([{ "id": "c", "type": "function",
                "function": { "name": "bash", "arguments": "{}" } }]);
        }
        for given in [json!(given), Value::Null] {
            let text = json!({ "choices": [{ "message": message, "finish_reason": given }] });
            let whole = reply(&text, text.to_string(), 0).expect("it is a reply");
            // A reply with anything else than texts and calls is not read in the quick way.
            if let Some(quick) = plain::reply(&text.to_string(), 0) {
                assert_eq!(whole.finish_reason, quick.finish_reason, "{text}");
            }
        }
    }
}

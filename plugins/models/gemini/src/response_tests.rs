//! Vectors for whole responses.

use super::*;

fn read(candidate: &Value) -> Reply {
    let response = json!({"candidates": [candidate], "modelVersion": "m-1"});
    reply(&response, response.to_string(), 7).unwrap()
}

#[test]
fn finish_reasons_are_put_in_the_common_words() {
    let called = json!({"parts": [{"functionCall": {"name": "bash", "args": {}}}]});
    for (reason, content, expected) in [
        (json!("STOP"), json!({"parts": [{"text": "a"}]}), "stop"),
        (json!("STOP"), called.clone(), "tool_calls"),
        (json!("MAX_TOKENS"), json!({"role": "model"}), "length"),
        (json!("MAX_TOKENS"), called, "length"),
        (json!("SAFETY"), json!(null), "content_filter"),
        (json!("PROHIBITED_CONTENT"), json!(null), "content_filter"),
        (json!("RECITATION"), json!({}), "content_filter"),
        (
            json!("MALFORMED_FUNCTION_CALL"),
            json!({}),
            "MALFORMED_FUNCTION_CALL",
        ),
        (
            json!("UNEXPECTED_TOOL_CALL"),
            json!({}),
            "UNEXPECTED_TOOL_CALL",
        ),
        (json!(null), json!({}), ""),
    ] {
        let reply = read(&json!({"finishReason": reason, "content": content}));
        assert_eq!(reply.finish_reason, expected, "{reason}");
        assert_eq!(reply.model, "m-1");
    }
}

#[test]
fn parts_are_read_in_every_form() {
    let shape = |part: &ContentPart| match part {
        ContentPart::Text(text) => format!("text {text}"),
        ContentPart::Reasoning(reasoning) => format!("reasoning {}", reasoning.text),
        ContentPart::Image(image) => format!("image {}", image.url),
        ContentPart::Opaque(opaque) => format!("opaque {}", opaque.data),
    };
    for (parts, expected, calls) in [
        (json!([{"text": "a"}, {"text": ""}]), vec!["text a"], 0),
        (
            json!([{"text": "hm", "thought": true}, {"text": "a"}, {"functionCall": {"name": "b", "args": {}}}]),
            vec![
                "reasoning hm",
                r#"opaque {"text":"hm","thought":true}"#,
                "text a",
            ],
            1,
        ),
        (
            json!([{"text": "a", "thoughtSignature": "s"}, 5]),
            vec![
                "text a",
                r#"opaque {"text":null,"thoughtSignature":"s"}"#,
                "opaque 5",
            ],
            0,
        ),
        (
            json!([{"functionCall": {"name": "b"}, "thoughtSignature": "s"}]),
            vec![
                r#"opaque {"functionCall":{"name":null,"callId":"call_7_0","args":null},"thoughtSignature":"s"}"#,
            ],
            1,
        ),
        (
            json!([{"inlineData": {"mimeType": "image/png", "data": "AA"}}]),
            vec![
                "image data:image/png;base64,AA",
                r#"opaque {"inlineData":{"mimeType":"image/png","data":"AA"}}"#,
            ],
            0,
        ),
    ] {
        let message = read(&json!({"content": {"parts": parts}})).message;
        let got: Vec<String> = message.content.iter().map(shape).collect();
        assert_eq!(got, expected, "{parts}");
        assert_eq!(message.tool_calls.len(), calls);
    }
    // The second of two calls with one id has an id of its own, in its part as well.
    let part = json!({"functionCall": {"id": "c", "name": "b", "args": {}}});
    let message = read(&json!({"content": {"parts": [part, part]}})).message;
    let ids: Vec<&str> = message.tool_calls.iter().map(|call| &*call.id).collect();
    assert_eq!(ids, ["c", "call_7_1"]);
    let shapes: Vec<String> = message.content.iter().map(shape).collect();
    let expected = ids
        .iter()
        .map(|id| format!(r#"opaque {{"functionCall":{{"id":"{id}","name":null,"args":null}}}}"#));
    assert_eq!(shapes, expected.collect::<Vec<_>>());
    for args in [json!({"x": "é"}), json!(r#"{"x":"é"}"#)] {
        let call = json!({"content": {"parts": [{"functionCall": {"name": "b", "args": args}}]}});
        let call = &read(&call).message.tool_calls[0];
        assert_eq!(
            (&*call.id, &*call.name, &*call.arguments),
            ("call_7_0", "b", r#"{"x":"é"}"#)
        );
    }
}

#[test]
fn usage_counts_thoughts_once() {
    // input, cache read, output, reasoning
    for (value, expected) in [
        (
            json!({"promptTokenCount": "10", "candidatesTokenCount": 5.0}),
            (10, 0, 5, 0),
        ),
        (
            json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 22,
                   "thoughtsTokenCount": 7, "cachedContentTokenCount": 4}),
            (10, 4, 12, 7),
        ),
        (
            json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15, "thoughtsTokenCount": 2}),
            (10, 0, 5, 2),
        ),
        (
            json!({"promptTokenCount": 10, "thoughtsTokenCount": 7, "toolUsePromptTokenCount": 3, "totalTokenCount": 20}),
            (13, 0, 7, 7),
        ),
    ] {
        let got = usage(&value).unwrap();
        assert_eq!(
            (
                got.input_tokens,
                got.cache_read_tokens,
                got.output_tokens,
                got.reasoning_tokens
            ),
            expected,
            "{value}"
        );
    }
    for value in [
        json!(null),
        json!({}),
        json!({"promptTokenCount": -5, "candidatesTokenCount": "many"}),
    ] {
        assert_eq!(usage(&value), None, "{value}");
    }
}

#[test]
fn failures_are_told_from_answers() {
    for (response, is_failure) in [
        (json!({"candidates": [{}]}), false),
        (
            json!({"candidates": [{}], "promptFeedback": {"blockReason": "x"}}),
            false,
        ),
        (json!({"promptFeedback": {"blockReason": "SAFETY"}}), true),
        (json!({"promptFeedback": {}}), false),
        (json!({"error": {"code": 400}}), true),
        (json!([{"error": {"code": 400}}]), true),
        (json!({"candidates": []}), false),
    ] {
        assert_eq!(failure(&response).is_some(), is_failure, "{response}");
    }
}

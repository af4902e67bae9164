//! Vectors for streams, as the chunks' deltas and the message that they make.

use super::*;
use crate::Assembly as _;
use crate::chat::response;
use mswea_sdk::types::ContentPart;

fn assemble(chunks: &[Value]) -> (Assembly, Vec<Delta>) {
    let take = |name: &str| {
        let mut assembly = Assembly::default();
        let mut deltas = Vec::new();
        for chunk in chunks {
            let event = Event {
                name: name.to_owned(),
                data: chunk.to_string(),
            };
            assembly.take(&event, &mut deltas);
        }
        (assembly, deltas)
    };
    // The chunks of a named event are always read as values, and the reply from the response.
    let (by_values, deltas_by_values) = take("chunk");
    let (plain, deltas) = take("");
    assert_eq!(deltas, deltas_by_values);
    assert_eq!(plain.error(), by_values.error());
    assert_eq!(plain.usage(), by_values.usage());
    assert_eq!(plain.is_complete(), by_values.is_complete());
    assert_eq!(plain.has_answer(), by_values.has_answer());
    let reply = plain.plain_reply(7);
    let response = by_values.into_response();
    if let Some(reply) = reply {
        let expected = response::reply(&response, response.to_string(), 7);
        assert_eq!(Some(reply), expected);
    }
    let (plain, _) = take("");
    assert_eq!(plain.into_response().to_string(), response.to_string());
    take("")
}

fn chunks_of(deltas: &Value) -> Vec<Value> {
    let deltas = deltas.as_array().unwrap().iter();
    deltas
        .map(|delta| json!({"choices": [{"index": 0, "delta": delta}]}))
        .collect()
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[test]
fn deltas_make_messages() {
    let vectors = [
        (
            json!([{"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}, {}]),
            json!({"role": "assistant", "content": "ab"}),
        ),
        (
            json!([{"tool_calls": [{"index": 0, "id": "c", "type": "function",
                                    "function": {"name": "bash", "arguments": ""}}]},
                   {"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\""}}]},
                   {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}]),
            json!({"role": "assistant", "content": null, "tool_calls": [call("c", "bash", "{\"a\":1}")]}),
        ),
        // Two calls whose pieces alternate.
        (
            json!([{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "x", "arguments": "1"}},
                                   {"index": 1, "id": "d", "function": {"name": "y", "arguments": "2"}}]},
                   {"tool_calls": [{"index": 1, "function": {"arguments": "4"}}]},
                   {"tool_calls": [{"index": 0, "function": {"arguments": "3"}}]}]),
            json!({"role": "assistant", "content": null, "tool_calls": [call("c", "x", "13"), call("d", "y", "24")]}),
        ),
        // No index at all; ids and names repeated.
        (
            json!([{"tool_calls": [{"id": "c", "function": {"name": "x", "arguments": "1"}}]},
                   {"tool_calls": [{"id": "c", "function": {"name": "x", "arguments": "2"}}]},
                   {"tool_calls": [{"function": {"arguments": "3"}}]},
                   {"tool_calls": [{"id": "d", "function": {"name": "x", "arguments": "4"}}]},
                   {"tool_calls": [{"function": {"name": null, "arguments": "5"}}]}]),
            json!({"role": "assistant", "content": null, "tool_calls": [call("c", "x", "123"), call("d", "x", "45")]}),
        ),
        // Neither index nor id: a name after arguments begins the next call.
        (
            json!([{"tool_calls": [{"function": {"name": "x", "arguments": "1"}},
                                   {"function": {"name": "x", "arguments": {"a": 2}}}]}]),
            json!({"role": "assistant", "content": null, "tool_calls": [call("", "x", "1"), call("", "x", "{\"a\":2}")]}),
        ),
        // Every call has the index 0.
        (
            json!([{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "x", "arguments": "1"}}]},
                   {"tool_calls": [{"index": 0, "id": "d", "function": {"name": "x", "arguments": "2"}}]},
                   {"tool_calls": [{"index": 0, "function": {"arguments": "3"}}]}]),
            json!({"role": "assistant", "content": null, "tool_calls": [call("c", "x", "1"), call("d", "x", "23")]}),
        ),
        // Every call has the same id and the same index; the name, or complete arguments with the name,
        // begin another call.
        (
            json!([{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "x", "arguments": "{\"a\": 1}"}}]},
                   {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "x", "arguments": "{\"a\":"}}]},
                   {"tool_calls": [{"index": 0, "function": {"arguments": " 2}"}}]},
                   {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "y", "arguments": "{}"}}]}]),
            json!({"role": "assistant", "content": null, "tool_calls": [
                call("c", "x", "{\"a\": 1}"), call("c", "x", "{\"a\": 2}"), call("c", "y", "{}")]}),
        ),
        // Several commands without a name between them, and a call that is sent twice: left for the
        // repair.
        (
            json!([{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "x", "arguments": "{\"a\": 1}"}},
                                   {"index": 0, "function": {"arguments": "{\"a\": 2}"}}]}]),
            json!({"role": "assistant", "content": null, "tool_calls": [call("c", "x", "{\"a\": 1}{\"a\": 2}")]}),
        ),
        (
            json!([{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "x", "arguments": "{\"a\": 1}"}},
                                   {"index": 0, "id": "c", "function": {"name": "x", "arguments": "{\"a\":1}"}}]}]),
            json!({"role": "assistant", "content": null, "tool_calls": [call("c", "x", "{\"a\": 1}{\"a\":1}")]}),
        ),
        (
            json!([{"reasoning": "a", "x": {"n": 1}}, {"reasoning": "b", "x": {"m": 2}}, {"content": "c"}]),
            json!({"role": "assistant", "content": "c", "reasoning": "ab", "x": {"n": 1, "m": 2}}),
        ),
        (
            json!([{"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "a"}]},
                   {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "b"}]},
                   {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "", "signature": "s"}]},
                   {"reasoning_details": [{"type": "reasoning.text", "index": 1, "text": "c"}]},
                   {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "d"}]},
                   {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "e"}]}]),
            json!({"role": "assistant", "content": null, "reasoning_details": [
                {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"},
                {"type": "reasoning.text", "index": 1, "text": "c"},
                {"type": "reasoning.encrypted", "index": 1, "data": "d"},
                {"type": "reasoning.encrypted", "index": 1, "data": "e"}]}),
        ),
        (
            json!([{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}]},
                   {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}]},
                   {"content": "x"}]),
            json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "x"}]}),
        ),
    ];
    for (deltas, expected) in vectors {
        let (assembly, _) = assemble(&chunks_of(&deltas));
        let got = assembly.into_response();
        assert_eq!(got["choices"][0]["message"], expected, "{deltas}");
    }
}

/// As Portkey's gateway sends the thinking of Claude: without types, and beside calls.
#[test]
fn blocks_in_pieces_are_sent_back_whole() {
    let piece =
        |index: u64, delta: Value| json!({"content_blocks": [{"index": index, "delta": delta}]});
    let deltas = json!([
        piece(0, json!({"thinking": "", "signature": ""})),
        piece(0, json!({"thinking": "h"})),
        piece(0, json!({"thinking": "m"})),
        piece(0, json!({"signature": "s"})),
        piece(1, json!({"data": "d"})),
        piece(2, json!({"text": ""})),
        {"content": "I look", "content_blocks": [{"index": 2, "delta": {"text": "I look"}}]},
        piece(3, json!({"text": ""})),
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash", "arguments": "{}"}}]},
    ]);
    let blocks = json!([{"thinking": "hm", "signature": "s", "type": "thinking"},
        {"data": "d", "type": "redacted_thinking"}, {"text": "I look", "type": "text"}]);
    let (assembly, shown) = assemble(&chunks_of(&deltas));
    let reasoning: String = shown
        .iter()
        .filter(|delta| delta.kind == "reasoning")
        .map(|delta| delta.text.as_str())
        .collect();
    assert_eq!(reasoning, "hm");
    let message = json!({"role": "assistant", "content": "I look",
        "tool_calls": [call("c", "bash", "{}")], "content_blocks": blocks});
    let response = assembly.into_response();
    assert_eq!(response["choices"][0]["message"], message);
    let whole = json!([message]);
    let (assembly, _) = assemble(&chunks_of(&whole));
    assert_eq!(
        assembly.into_response()["choices"][0]["message"]["content_blocks"],
        blocks
    );
    let reply = response::reply(&response, String::new(), 0).unwrap();
    let is_read =
        reply.message.content.iter().any(
            |part| matches!(part, ContentPart::Reasoning(reasoning) if reasoning.text == "hm"),
        );
    assert!(is_read, "{reply:?}");
}

#[test]
fn the_completion_has_what_the_chunks_say() {
    let (assembly, deltas) = assemble(&[
        json!({"id": "i", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": "f",
               "choices": [], "prompt_filter_results": []}),
        json!({"id": "j", "model": "n", "usage": null, "choices": [
            {"index": 1, "delta": {"content": "other"}},
            {"index": 0, "delta": {"reasoning_content": "r", "reasoning": "r", "content": "x"}, "finish_reason": null}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": {"prompt_tokens": 1}}}),
        json!({"choices": [], "usage": {"prompt_tokens": 2}}),
    ]);
    assert!(assembly.is_complete() && assembly.has_answer() && assembly.error().is_none());
    let shown: Vec<(&str, &str)> = deltas.iter().map(|d| (&*d.kind, &*d.text)).collect();
    assert_eq!(shown, [("reasoning", "r"), ("text", "x")]);
    let completion = assembly.into_response();
    assert_eq!(
        completion.to_string(),
        json!({
            "id": "i", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {
                "role": "assistant", "content": "x", "reasoning_content": "r", "reasoning": "r",
            }, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 2},
            "system_fingerprint": "f", "prompt_filter_results": [], "x_groq": {"usage": {"prompt_tokens": 1}},
        })
        .to_string()
    );
}

#[test]
fn a_whole_message_stands_for_deltas_but_does_not_repeat_them() {
    let whole = json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]});
    let delta = json!({"choices": [{"delta": {"content": "x"}}]});
    for chunks in [vec![whole.clone()], vec![delta, whole]] {
        let (assembly, _) = assemble(&chunks);
        let got = assembly.into_response();
        assert_eq!(got["choices"][0]["message"]["content"], "x");
    }
}

#[test]
fn errors_are_seen_in_every_form() {
    for (name, data) in [
        ("", r#"{"error":{"message":"m"}}"#),
        ("", r#"{"error":"m"}"#),
        ("", r#"{"object":"error","message":"m"}"#),
        ("error", r#"{"message":"m"}"#),
        ("error", "m"),
        (
            "",
            r#"{"base_resp":{"status_code":1008,"status_msg":"m"},"choices":null}"#,
        ),
        ("", r#"{"base_resp":{"status_code":1008,"status_msg":"m"}}"#),
        (
            "",
            r#"{"choices":[{"error":{"message":"m"},"finish_reason":"error"}]}"#,
        ),
    ] {
        let mut assembly = Assembly::default();
        let event = Event {
            name: name.to_owned(),
            data: data.to_owned(),
        };
        assembly.take(&event, &mut Vec::new());
        assert!(assembly.error().is_some(), "{data}");
    }
    let success = "{\"base_resp\":{\"status_code\":0}}";
    for data in [
        "",
        "ping",
        "{\"error\":",
        "{\"error\":null}",
        "[1]",
        success,
    ] {
        let mut assembly = Assembly::default();
        let event = Event {
            name: String::new(),
            data: data.to_owned(),
        };
        assembly.take(&event, &mut Vec::new());
        assert!(assembly.error().is_none(), "{data}");
    }
}

/// The token ids, which vLLM and other servers send besides the deltas. Users need them for
/// training.
#[test]
fn what_stands_beside_the_deltas_is_kept() {
    let logprob = |token: &str| json!({"token": token, "logprob": -0.5, "top_logprobs": []});
    let chunk = |delta: Value, ids: Value, logprobs: Value, reason: Value| {
        json!({"id": "c", "model": "m", "choices": [{
            "index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason,
            "token_ids": ids, "stop_reason": null,
            "content_filter_results": {"hate": {"severity": "safe"}},
        }]})
    };
    let first = json!({"content": [logprob("a")], "refusal": null});
    let second = json!({"content": [logprob("b")]});
    let chunks = [
        json!({"id": "c", "model": "m", "prompt_token_ids": [1, 2, 3], "choices": [{
            "index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": null,
        }]}),
        chunk(json!({"content": "a"}), json!([7, 8]), first, json!(null)),
        chunk(json!({"content": "b"}), json!([9]), second, json!("stop")),
        // A delta of another choice.
        json!({"choices": [{"index": 1, "delta": {"content": "x"}, "token_ids": [5]}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 3}}),
    ];
    let (assembly, _) = assemble(&chunks);
    let response = assembly.into_response();
    assert_eq!(response["prompt_token_ids"], json!([1, 2, 3]));
    assert_eq!(
        response["choices"],
        json!([{
            "index": 0,
            "message": {"role": "assistant", "content": "ab"},
            "finish_reason": "stop",
            "logprobs": {"content": [logprob("a"), logprob("b")], "refusal": null},
            "token_ids": [7, 8, 9],
            "content_filter_results": {"hate": {"severity": "safe"}},
        }])
    );
}

#[test]
fn streams_with_texts_and_calls_only_are_read_without_values() {
    let head = |choices: Value| {
        json!({"id": "i", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": "f",
               "choices": choices, "usage": null})
    };
    let chunk = |delta: Value| {
        head(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]))
    };
    let stream = [
        chunk(json!({"role": "assistant", "content": "", "refusal": null})),
        chunk(json!({"content": "a\n"})),
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
                                     "function": {"name": "bash", "arguments": ""}}]}),
        ),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]})),
        chunk(
            json!({"tool_calls": [{"index": 1, "function": {"name": "bash", "arguments": "{}"}}]}),
        ),
        head(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}])),
        json!({"id": "i", "model": "m", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}, "x": [1]}),
    ];
    let mut assembly = Assembly::default();
    for chunk in &stream {
        assert!(
            assembly.take_plain(&chunk.to_string(), &mut Vec::new()),
            "{chunk}"
        );
    }
    let (assembled, _) = assemble(&stream);
    let reply = assembled.plain_reply(7).unwrap();
    assert_eq!(assembly.plain_reply(7).unwrap(), reply);
    assert_eq!(reply.finish_reason, "tool_calls");
    assert_eq!(reply.message.tool_calls[1].id, "call_7_1");
    assert!(
        reply
            .response
            .unwrap()
            .ends_with(r#""system_fingerprint":"f","x":[1]}"#)
    );

    for (choices, is_plain) in [
        (json!([{"delta": {"reasoning_content": "r"}}]), true),
        (json!([{"delta": {"reasoning": "r"}}]), false),
        (
            json!([{"delta": {"reasoning": null}, "native_finish_reason": null, "matched_stop": null}]),
            true,
        ),
        (
            json!([{"delta": [null, "x", null, null, null, null, null]}]),
            false,
        ),
        (
            json!([[0, {"content": "a"}, "stop", null, null, null, null, null]]),
            false,
        ),
        (
            json!([{"delta": {"content": [{"type": "text", "text": "a"}]}}]),
            false,
        ),
        (json!([{"delta": {"tool_calls": [{"id": 1}]}}]), false),
        (
            json!([{"delta": {"tool_calls": [{"id": "c", "extra_content": {}}]}}]),
            false,
        ),
        (json!([{"delta": {}, "token_ids": [1]}]), false),
        (json!([{"delta": {}, "logprobs": {"content": []}}]), false),
        (json!([{"delta": {}, "error": {"code": 502}}]), false),
        (json!([{"message": {"content": "a"}}]), false),
        (json!([{"index": 1, "delta": {"content": "a"}}]), false),
        (json!([{"delta": {}}, {"delta": {}}]), false),
        (json!(null), false),
    ] {
        let mut assembly = Assembly::default();
        let chunk = head(choices);
        assert_eq!(
            assembly.take_plain(&chunk.to_string(), &mut Vec::new()),
            is_plain,
            "{chunk}"
        );
        assemble(&[stream[1].clone(), chunk, stream[5].clone()]);
    }
    for data in [
        r#"{"error": null, "choices": []}"#,
        r#"{"object": "error", "message": "m"}"#,
        r#"{"object": "\u0065rror"}"#,
        r#"{"x_groq": {"usage": {"prompt_tokens": 1}}, "choices": []}"#,
        r#"{"choices": [{"delta": {}}], "choices": []}"#,
        r#"{"choices": []} {}"#,
        r#"{"choices": [], "usage": 1}"#,
        r#"{"model": "m", "model": "n", "choices": []}"#,
        "[]",
        "",
    ] {
        let mut assembly = Assembly::default();
        assert!(!assembly.take_plain(data, &mut Vec::new()), "{data}");
    }
}

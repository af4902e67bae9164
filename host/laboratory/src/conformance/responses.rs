//! Responses of providers, correct and incorrect ones.

use serde_json::{Value, json};

use super::options::{Response, ResponseBody, Scale};
use super::texts;

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";

/// A response with its description.
pub(super) type LabelledResponse = (String, Response);

/// Correct responses of the usual wire formats, whole and as streams.
pub(super) fn good() -> Vec<LabelledResponse> {
    let said = "I look around. caf\u{e9} \u{1f980}\n";
    let arguments = r#"{"command": "ls -la 'caf\u00e9' é🦀"}"#;
    let chat = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1760000000, "model": "kit-1",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": said, "reasoning_content": "hm é",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": arguments}},
                {"id": "call_2", "type": "function", "function": {"name": "bash", "arguments": "{\"command\":\"pwd\"}"}},
            ],
        }}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
                  "prompt_tokens_details": {"cached_tokens": 800}},
    });
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1760000000,
               "model": "kit-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let mut chat_stream = events(
        &[
            chunk(json!({"role": "assistant", "content": ""}), Value::Null),
            chunk(json!({"content": "I look around. "}), Value::Null),
            chunk(json!({"content": "caf\u{e9} \u{1f980}\n"}), Value::Null),
            chunk(
                json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
            "function": {"name": "bash", "arguments": ""}}]}),
                Value::Null,
            ),
            chunk(
                json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"command\": \"ls é"}}]}),
                Value::Null,
            ),
            chunk(
                json!({"tool_calls": [{"index": 0, "function": {"arguments": "🦀\"}"}}]}),
                Value::Null,
            ),
            chunk(json!({}), json!("tool_calls")),
            json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "kit-1", "choices": [],
               "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}}),
        ],
        false,
    );
    chat_stream.push_str("data: [DONE]\n\n");
    let messages = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "kit-1",
        "content": [
            {"type": "thinking", "thinking": "hm é", "signature": "c2ln"},
            {"type": "text", "text": said},
            {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls é🦀"}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 200, "output_tokens": 50, "cache_read_input_tokens": 800,
                  "cache_creation_input_tokens": 10},
    });
    let messages_stream = events(
        &[
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
            "model": "kit-1", "content": [], "stop_reason": null,
            "usage": {"input_tokens": 200, "output_tokens": 1, "cache_read_input_tokens": 800}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "ping"}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I look "}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "around. é🦀"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"command\": \"l"}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "s é🦀\"}"}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
            "usage": {"output_tokens": 50}}),
            json!({"type": "message_stop"}),
        ],
        true,
    );
    let candidate = |parts: Value, finish: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}],
               "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 50,
                                 "cachedContentTokenCount": 800, "totalTokenCount": 1050},
               "modelVersion": "kit-1", "responseId": "r1"})
    };
    let generate = candidate(
        json!([
            {"text": "hm é", "thought": true}, {"text": said},
            {"functionCall": {"name": "bash", "args": {"command": "ls é🦀"}}, "thoughtSignature": "c2ln"},
        ]),
        json!("STOP"),
    );
    let generate_stream = events(
        &[
            candidate(json!([{"text": "I look "}]), Value::Null),
            candidate(json!([{"text": "around. é🦀"}]), Value::Null),
            candidate(
                json!([{"functionCall": {"name": "bash", "args": {"command": "ls é"}}}]),
                json!("STOP"),
            ),
        ],
        false,
    );
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash",
                      "arguments": arguments, "status": "completed"});
    let text = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                      "content": [{"type": "output_text", "text": said, "annotations": []}]});
    let responded = |status: &str, output: Value| {
        json!({"id": "resp_1", "object": "response", "created_at": 1760000000, "status": status,
               "model": "kit-1", "output": output, "error": null, "incomplete_details": null,
               "usage": {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 800},
                         "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 10},
                         "total_tokens": 1050}})
    };
    let responses = responded(
        "completed",
        json!([
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm é"}],
             "encrypted_content": "c2ln"}, text, call,
        ]),
    );
    let responses_stream = events(
        &[
            json!({"type": "response.created", "sequence_number": 0, "response": responded("in_progress", json!([]))}),
            json!({"type": "response.output_item.added", "output_index": 0, "item":
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}}),
            json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": "I look "}),
            json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": "around. é🦀"}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": text}),
            json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
            json!({"type": "response.completed", "response": responded("completed", json!([text, call]))}),
        ],
        true,
    );
    let whole = |label: &str, value: Value| {
        (
            format!("a {label}"),
            Response::new(200, JSON, value.to_string()),
        )
    };
    let stream = |label: &str, text: String| {
        (
            format!("a stream of a {label}"),
            Response::new(200, STREAM, text),
        )
    };
    vec![
        whole("chat completion", chat),
        stream("chat completion", chat_stream),
        whole("message of the Messages API", messages),
        stream("message of the Messages API", messages_stream),
        whole("response of Gemini's API", generate),
        stream("response of Gemini's API", generate_stream),
        whole("response of the Responses API", responses),
        stream("response of the Responses API", responses_stream),
    ]
}

fn events(events: &[Value], named: bool) -> String {
    let mut text = String::new();
    for event in events {
        if let Some(name) = event["type"].as_str().filter(|_| named) {
            text.push_str(&format!("event: {name}\n"));
        }
        text.push_str(&format!("data: {event}\n\n"));
    }
    text
}

/// Error responses of servers and of proxies in front of them.
pub(super) fn failed() -> Vec<LabelledResponse> {
    let error = json!({"error": {"message": "caf\u{e9}: slow down", "type": "x", "code": "y", "status": "Z"}}).to_string();
    let html = "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>";
    let mut list = Vec::new();
    for status in [
        400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529,
    ] {
        list.push((
            format!("status {status}"),
            Response::new(status, JSON, error.as_str()),
        ));
    }
    list.push((
        "a web page of a gateway".to_owned(),
        Response::new(502, "text/html", html),
    ));
    list.push((
        "a web page in place of an answer".to_owned(),
        Response::new(200, "text/html", html),
    ));
    list
}

/// Responses that no correct server sends, made from good ones.
pub(super) fn hostile(
    mut random: fastrand::Rng,
    scale: &Scale,
    good: &[LabelledResponse],
) -> Vec<LabelledResponse> {
    let mut list = failed();
    let mut add = |label: &str, response: Response| list.push((label.to_owned(), response));
    for (label, body) in [
        ("an empty body", ""),
        ("null", "null"),
        ("an empty list", "[]"),
        ("an empty object", "{}"),
        ("a number", "1e999"),
        ("a text", "\"x\""),
        ("blanks", "  \r\n\t "),
        ("a byte order mark", "\u{feff}{}"),
        ("an open brace", "{"),
        ("NUL", "\0"),
        ("an error that is null", r#"{"error":null}"#),
        ("an error that is a text", r#"{"error":"\ud800"}"#),
        (
            "choices of the wrong type",
            r#"{"choices":{"0":{"message":[]}},"content":7,"candidates":"x","output":{}}"#,
        ),
        (
            "empty lists",
            r#"{"choices":[],"content":[],"candidates":[],"output":[]}"#,
        ),
        (
            "only nulls",
            r#"{"choices":[null],"content":[null],"candidates":[null],"output":[null],"usage":null}"#,
        ),
    ] {
        for status in [200, 500] {
            add(
                &format!("{label}, with status {status}"),
                Response::new(status, JSON, body),
            );
        }
        add(
            &format!("{label}, as a stream"),
            Response::new(200, STREAM, format!("data: {body}\n\n")),
        );
        add(
            &format!("{label}, as all of a stream"),
            Response::new(200, STREAM, body),
        );
    }
    for (label, stream) in [
        (
            "a stream that says only that it is done",
            "data: [DONE]\n\n",
        ),
        ("a stream of comments", ": ping\n\n: ping\r\n\r\n:\r:\r"),
        (
            "a stream without data",
            "event: message_stop\nid: 1\nretry: abc\n\n",
        ),
        (
            "a stream that ends within a line",
            "data: {\"choices\":[{\"delta\":{\"content\":\"x",
        ),
        (
            "a stream with an error",
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n",
        ),
        (
            "a stream with far indices",
            concat!(
                "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":4294967295,\"function\":{\"arguments\":\"x\"}}]}}]}\n\n",
                "data: {\"choices\":[{\"index\":18446744073709551615,\"delta\":{\"tool_calls\":[{\"index\":2000000000,\"id\":\"a\"}]}}]}\n\n",
                "data: {\"type\":\"content_block_start\",\"index\":4000000000,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
                "data: {\"type\":\"content_block_delta\",\"index\":-1,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n",
                "data: {\"type\":\"response.output_text.delta\",\"output_index\":3000000000,\"content_index\":9,\"delta\":\"x\"}\n\n"
            ),
        ),
    ] {
        add(label, Response::new(200, STREAM, stream));
    }
    for status in [0, 100, 204, 301, 304, 418, 999, u16::MAX] {
        add(
            &format!("status {status}"),
            Response::new(status, JSON, "{}"),
        );
    }
    for value in [
        "",
        "-1",
        "NaN",
        "1e400",
        "99999999999999999999",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "\u{e9}",
        "0.0000001",
    ] {
        let mut response = Response::new(429, JSON, "{}");
        for name in [
            "retry-after",
            "retry-after-ms",
            "x-ratelimit-reset",
            "x-ratelimit-reset-requests",
            "anthropic-ratelimit-requests-reset",
        ] {
            response.headers.push((name.to_owned(), value.to_owned()));
        }
        add(&format!("waits of `{value}`"), response);
    }
    let mut bare = Response::new(200, JSON, "{}");
    bare.headers.clear();
    add("no headers", bare.clone());
    bare.headers = (0..500)
        .map(|n| (format!("x-{n}"), "x".repeat(500)))
        .collect();
    bare.headers.push((String::new(), String::new()));
    add("very many headers", bare);
    for (label, text) in texts::deep(5000)
        .into_iter()
        .chain(texts::huge(scale.huge).into_iter().take(4))
    {
        add(
            &format!("{label}, as body"),
            Response::new(200, JSON, text.as_str()),
        );
        add(
            &format!("{label}, as an error"),
            Response::new(400, JSON, text.as_str()),
        );
        add(
            &format!("{label}, in a stream"),
            Response::new(200, STREAM, format!("data: {text}\n\n")),
        );
    }
    let lines = "data: {}\n\n".repeat(scale.many);
    add("very many events", Response::new(200, STREAM, lines));
    for len in [1, 10, 1000] {
        let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        add("random bytes", Response::new(200, JSON, bytes.clone()));
        add(
            "random bytes in a stream",
            Response::new(
                200,
                STREAM,
                [b"data: ".as_slice(), &bytes, b"\n\n"].concat(),
            ),
        );
    }
    // Nearly correct responses reach the most code of an adapter.
    for (label, response) in good {
        for _ in 0..4 {
            let end = random.usize(0..response.body.0.len().max(1));
            let mut short = response.clone();
            short.body.0.truncate(end);
            add(&format!("{label}, cut off"), short);
            let mut bytes = response.body.0.clone();
            if let Some(byte) = bytes.get_mut(end) {
                *byte = random.u8(..);
            }
            let mut bad = response.clone();
            bad.body = ResponseBody(bytes);
            add(&format!("{label}, with a wrong byte"), bad);
        }
        for _ in 0..scale.sequences {
            if let Some(bad) = mutated(response, &mut random) {
                add(&format!("{label}, with a value of another type"), bad);
            }
        }
        let mut other = response.clone();
        other.headers = vec![("content-type".into(), "text/plain".into())];
        add(&format!("{label}, as plain text"), other.clone());
        other.headers.clear();
        add(&format!("{label}, without a content type"), other.clone());
        other.status = 500;
        add(&format!("{label}, with status 500"), other);
        let mut twice = response.clone();
        twice.body.0.extend_from_slice(&response.body.0);
        add(&format!("{label}, twice"), twice);
    }
    list
}

/// A response with one value in its JSON replaced or removed.
fn mutated(response: &Response, random: &mut fastrand::Rng) -> Option<Response> {
    let text = std::str::from_utf8(&response.body.0).ok()?;
    let mut out = String::new();
    if let Ok(mut value) = serde_json::from_str::<Value>(text) {
        mutate(&mut value, random);
        out = value.to_string();
    } else {
        // For a stream, in one of its events.
        let events = text
            .lines()
            .filter(|line| line.starts_with("data: {"))
            .count();
        let chosen = random.usize(0..events.max(1));
        let mut number = 0;
        for line in text.lines() {
            let event = line
                .strip_prefix("data: ")
                .map(serde_json::from_str::<Value>);
            if let Some(Ok(mut value)) = event {
                if number == chosen {
                    mutate(&mut value, random);
                }
                number += 1;
                out.push_str(&format!("data: {value}\n"));
            } else {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    let mut bad = response.clone();
    bad.body = ResponseBody(out.into_bytes());
    Some(bad)
}

fn mutate(value: &mut Value, random: &mut fastrand::Rng) {
    let inner = match &*value {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    // At a random depth, more often at the leaves.
    if inner > 0 && random.u8(0..8) > 0 {
        let index = random.usize(0..inner);
        match value {
            Value::Array(list) => return mutate(&mut list[index], random),
            Value::Object(map) => {
                if let Some((_, item)) = map.iter_mut().nth(index) {
                    return mutate(item, random);
                }
            }
            _ => {}
        }
    }
    *value = match random.u8(0..10) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1.5e300),
        5 => json!(""),
        6 => json!("\u{0}\u{1f980}"),
        7 => json!([]),
        8 => json!({}),
        _ => json!([{"type": "x", "text": 1, "index": 70_000}]),
    };
}

//! The adapter as the host drives it: the exchanges in `vectors/`, written after the public API
//! reference, and what must hold between calls.

use super::*;
use crate::samples::{message, text};
use mswea_sdk::testing;
use mswea_sdk::types::{ContentPart, Image, Message, Opaque, Reasoning, Reply, Tool, ToolCall};
use serde_json::json;

const VECTORS: [(&str, &str); 6] = [
    ("text_stream", include_str!("../vectors/text_stream.json")),
    ("tools_stream", include_str!("../vectors/tools_stream.json")),
    (
        "thinking_stream",
        include_str!("../vectors/thinking_stream.json"),
    ),
    (
        "server_tool_stream",
        include_str!("../vectors/server_tool_stream.json"),
    ),
    ("image_whole", include_str!("../vectors/image_whole.json")),
    (
        "refusal_whole",
        include_str!("../vectors/refusal_whole.json"),
    ),
];

fn string(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn part(value: &Value) -> ContentPart {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "text" => ContentPart::Text(string(value)),
        "image" => ContentPart::Image(Image {
            url: string(value),
            extra: None,
        }),
        "reasoning" => ContentPart::Reasoning(Reasoning {
            text: string(value),
            extra: None,
        }),
        "opaque" => ContentPart::Opaque(Opaque {
            format: FORMAT.to_owned(),
            data: value.to_string(),
            extra: None,
        }),
        other => panic!("no part `{other}`"),
    }
}

fn message_of(value: &Value) -> Message {
    let calls = items(&value["tool_calls"]).map(|call| ToolCall {
        id: string(&call[0]),
        name: string(&call[1]),
        arguments: string(&call[2]),
        extra: None,
    });
    Message {
        role: value["role"].as_str().unwrap_or("assistant").to_owned(),
        content: items(&value["parts"]).map(part).collect(),
        tool_calls: calls.collect(),
        tool_call_id: value["tool_call_id"].as_str().map(str::to_owned),
        extra: value.get("extra").map(Value::to_string),
    }
}

fn adapter(config: &Value) -> Anthropic {
    testing::configure(config.clone()).unwrap()
}

fn ask(adapter: &mut Anthropic, change: Change, tools: &Value) -> HttpRequest {
    let tools = items(tools).map(|tool| Tool::new(string(&tool[0]), string(&tool[1]), &tool[2]));
    let request = Request {
        tools: tools.collect(),
        extra: None,
    };
    match adapter.query(change, request).unwrap() {
        Next::Send(request) => request,
        Next::Reply(reply) => panic!("{reply:?}"),
    }
}

fn answer(
    adapter: &mut Anthropic,
    content_type: &str,
    pieces: &[&[u8]],
) -> (Result<Reply, ModelError>, Vec<Delta>) {
    adapter.head(
        200,
        vec![("content-type".to_owned(), content_type.to_owned())],
    );
    let deltas = pieces.iter().flat_map(|p| adapter.feed(p.to_vec()));
    let deltas = deltas.collect();
    let reply = adapter.finish().map(|next| match next {
        Next::Reply(reply) => reply,
        Next::Send(request) => panic!("{request:?}"),
    });
    (reply, deltas)
}

/// The bytes that the server sends: a stream, or the response itself.
fn bytes(vector: &Value) -> Vec<u8> {
    let Some(events) = vector.get("events") else {
        return format!(" \n{:#}\n", vector["response"]).into_bytes();
    };
    let events =
        items(events).map(|event| format!("event: {}\ndata: {}\n\n", string(&event[0]), event[1]));
    events.collect::<String>().into_bytes()
}

fn check_reply(name: &str, vector: &Value, reply: &Reply) {
    let expected = &vector["reply"];
    let mut message = message_of(expected);
    message.extra = None;
    assert_eq!(reply.message, message, "{name}");
    assert_eq!(reply.finish_reason, string(&expected["finish_reason"]));
    assert_eq!(reply.model, string(&vector["response"]["model"]));
    let usage = reply.usage.as_ref().unwrap();
    let mut counts = json!({
        "input": usage.input_tokens, "read": usage.cache_read_tokens,
        "write": usage.cache_write_tokens, "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
    });
    if let Some(extra) = &usage.extra {
        counts["extra"] = serde_json::from_str(extra).unwrap();
    }
    assert_eq!(counts, expected["usage"], "{name}");
    let extra = reply.extra.as_deref();
    let extra = extra.map_or(Value::Null, |extra| serde_json::from_str(extra).unwrap());
    assert_eq!(extra, expected["extra"], "{name}");
}

#[test]
fn exchanges_are_as_the_reference_has_them() {
    for (name, text) in VECTORS {
        let vector: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut adapter = adapter(&vector["config"]);
        let history: Vec<Message> = items(&vector["history"]).map(message_of).collect();
        let count = history.len();
        let request = ask(&mut adapter, Change::all(history.clone()), &vector["tools"]);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body, vector["request"], "{name}");

        let bytes = bytes(&vector);
        let (whole, _) = answer(&mut adapter, "", &[&bytes]);
        let whole = whole.unwrap();
        check_reply(name, &vector, &whole);
        let response: Value = serde_json::from_str(whole.response.as_ref().unwrap()).unwrap();
        // As text, so that the order of the keys counts too.
        assert_eq!(
            response.to_string(),
            vector["response"].to_string(),
            "{name}"
        );

        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            // The content type is wrong on purpose every other time.
            let content_type = ["text/event-stream; charset=utf-8", "application/json"][cut % 2];
            let (reply, deltas) = answer(&mut adapter, content_type, &[left, right]);
            assert_eq!(reply.unwrap(), whole, "{name} cut at {cut}");
            let mut shown = json!({});
            for delta in deltas {
                let known = shown[&delta.kind].as_str().unwrap_or_default();
                shown[&delta.kind] = json!(format!("{known}{}", delta.text));
            }
            assert_eq!(shown, vector["shown"], "{name} cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(
            answer(&mut adapter, "", &single).0.unwrap(),
            whole,
            "{name}"
        );

        // What came goes back unchanged, from this instance and from a fresh one.
        let answered = whole.message.clone();
        let warm = ask(
            &mut adapter,
            Change::tail(count, vec![answered.clone()]),
            &json!([]),
        );
        let mut fresh = self::adapter(&vector["config"]);
        let all = Change::all(history.into_iter().chain([answered]).collect());
        assert_eq!(ask(&mut fresh, all, &json!([])).body, warm.body, "{name}");
        let body: Value = serde_json::from_slice(&warm.body).unwrap();
        let turns = body["messages"].as_array().unwrap();
        let back = turns.iter().rfind(|turn| turn["role"] == "assistant");
        let sent = &vector["response"]["content"];
        if sent != &json!([]) {
            assert_eq!(&back.unwrap()["content"], sent, "{name}");
        }
    }
}

#[test]
fn a_stream_that_ends_too_soon_is_no_reply() {
    for (name, text) in VECTORS {
        let vector: Value = serde_json::from_str(text).unwrap();
        if vector.get("events").is_none() {
            continue;
        }
        let mut adapter = adapter(&vector["config"]);
        ask(&mut adapter, Change::all(vec![]), &json!([]));
        let bytes = bytes(&vector);
        let stream = std::str::from_utf8(&bytes).unwrap();
        let reason = stream.find("\"delta\":{\"stop_reason\"").unwrap();
        let complete = reason + stream[reason..].find('\n').unwrap();
        for end in 0..=stream.len() {
            let (reply, _) = answer(&mut adapter, "text/event-stream", &[&bytes[..end]]);
            match reply {
                Ok(_) => assert!(end >= complete, "{name}: a reply at {end}"),
                Err(error) => {
                    assert!(end < complete, "{name}: none at {end}: {}", error.message);
                    assert_eq!(error.class, "malformed-response", "{}", error.message);
                    let begun = bytes[..end].windows(2).any(|two| two == b"\n\n");
                    assert!(!begun || error.usage.is_some(), "{name} at {end}");
                }
            }
        }
    }
}

#[test]
fn requests_carry_version_and_secret() {
    let headers = |config: Value| {
        let request = ask(&mut adapter(&config), Change::all(vec![]), &json!([]));
        assert_eq!(request.method, "POST");
        assert_eq!(request.url, "https://api.anthropic.com/v1/messages");
        request.headers
    };
    let plain = [
        Header::plain("content-type", "application/json"),
        Header::plain("accept", "application/json"),
        Header::plain("anthropic-version", "2023-06-01"),
    ];
    let key = Header::secret("x-api-key", "", "ANTHROPIC_API_KEY");
    let bearer = Header::secret("authorization", "Bearer ", "T");
    for (config, rest) in [
        (json!({"model": "m"}), vec![key.clone()]),
        (json!({"model": "m", "api_key": null}), vec![]),
        (
            json!({"model": "m", "api_key": "T", "auth": "bearer"}),
            vec![bearer],
        ),
        (
            json!({"model": "m", "headers": {"Anthropic-Beta": "a,b"}}),
            vec![key, Header::plain("anthropic-beta", "a,b")],
        ),
    ] {
        let expected: Vec<Header> = plain.iter().cloned().chain(rest).collect();
        assert_eq!(headers(config.clone()), expected, "{config}");
    }
    let own = headers(json!({"model": "m", "api_key": "", "headers": {"Anthropic-Version": "x"}}));
    assert_eq!(own.len(), 3);
    assert_eq!(own[2], Header::plain("anthropic-version", "x"));
}

#[test]
fn a_new_head_forgets_the_broken_response_before_it() {
    let vector: Value = serde_json::from_str(VECTORS[0].1).unwrap();
    let mut adapter = adapter(&vector["config"]);
    ask(&mut adapter, Change::all(vec![]), &json!([]));
    let bytes = bytes(&vector);
    adapter.head(200, vec![]);
    adapter.feed(bytes[..600].to_vec());
    let (reply, _) = answer(&mut adapter, "", &[&bytes]);
    assert_eq!(reply.unwrap().message.text(), "Hello, wörld 😀");
    let error = adapter.finish().unwrap_err();
    assert_eq!(error.class, "malformed-response");
    assert!(adapter.feed(bytes).is_empty());
}

#[test]
fn a_change_behind_the_end_is_the_hosts_fault() {
    let error = adapter(&json!({"model": "m"}))
        .query(Change::tail(3, vec![]), Request::default())
        .unwrap_err();
    assert!(error.message.contains("fault of the host"));
}

#[test]
fn calls_without_an_id_get_one_of_their_own() {
    let mut adapter = adapter(&json!({"model": "m"}));
    let users = vec![message("user", vec![text("u")]); 3];
    ask(&mut adapter, Change::all(users), &json!([]));
    let body = json!({"content": [{"type": "tool_use", "name": "x", "input": {}},
                                  {"type": "tool_use", "id": "", "name": "x"}]});
    let (reply, _) = answer(&mut adapter, "", &[body.to_string().as_bytes()]);
    let calls = reply.unwrap().message.tool_calls;
    let calls: Vec<_> = calls.iter().map(|c| (&*c.id, &*c.arguments)).collect();
    assert_eq!(calls, [("toolu_3_0", "{}"), ("toolu_3_1", "")]);
}

#[test]
fn the_descriptor_asks_for_what_the_defaults_need() {
    let descriptor = Anthropic::describe();
    assert_eq!(descriptor.name, "anthropic");
    assert_eq!(descriptor.secrets, ["ANTHROPIC_API_KEY"]);
    assert_eq!(descriptor.hosts, ["api.anthropic.com"]);
}

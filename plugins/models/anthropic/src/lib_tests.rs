//! The adapter as the host drives it: the exchanges in `vectors/`, written after the public API
//! reference, and rules that concern several calls.

use super::*;
use mswea_sdk::adapter::{Header, HttpRequest, Next, Request};
use mswea_sdk::types::{Change, ContentPart, Message, Reasoning, Reply, Tool};
use mswea_sdk::{Adapter as _, testing};
use mswea_wire::testing::{
    answer, call, check_signs, check_thinking, image, kinds, message, opaque, text,
};
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
        "text" => text(&string(value)),
        "image" => image(&string(value)),
        "reasoning" => ContentPart::Reasoning(Reasoning {
            text: string(value),
            extra: None,
        }),
        "opaque" => opaque(FORMAT, &value.to_string()),
        other => panic!("no part `{other}`"),
    }
}

fn message_of(value: &Value) -> Message {
    let calls = items(&value["tool_calls"])
        .map(|used| call(&string(&used[0]), &string(&used[1]), &string(&used[2])));
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
        let (whole, _) = answer(&mut adapter, 200, "", &[&bytes]);
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
            let (reply, deltas) = answer(&mut adapter, 200, content_type, &[left, right]);
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
            answer(&mut adapter, 200, "", &single).0.unwrap(),
            whole,
            "{name}"
        );

        // The response's blocks are sent back unchanged, by this instance and by a fresh one.
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
fn the_end_of_a_reply_is_said() {
    let vector: Value = serde_json::from_str(VECTORS[0].1).unwrap();
    let mut adapter = adapter(&vector["config"]);
    let bytes = bytes(&vector);
    let stream = std::str::from_utf8(&bytes).unwrap();
    check_signs(&mut adapter, stream, "\"delta\":{\"stop_reason\"", true);
}

#[test]
fn thinking_in_the_text_is_reasoning() {
    let whole = r#"{"type":"message","role":"assistant","stop_reason":"end_turn",
        "content":[{"type":"text","text":"<think>rm</think>ls"}]}"#;
    let mut stream = String::new();
    for event in [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "<thi"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "nk>rm</think>ls"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    ] {
        stream += &format!("data: {event}\n\n");
    }
    let mut adapter = adapter(&json!({"model": "m"}));
    check_thinking(&mut adapter, &[whole, &stream]);
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
            let (reply, _) = answer(&mut adapter, 200, "text/event-stream", &[&bytes[..end]]);
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
    let version = |version| Header::plain("anthropic-version", version);
    let ours = version("2023-06-01");
    let key = Header::secret("x-api-key", "", "ANTHROPIC_API_KEY");
    let bearer = Header::secret("authorization", "Bearer ", "T");
    let beta = Header::plain("anthropic-beta", "a,b");
    for (config, rest) in [
        (json!({}), vec![key.clone(), ours.clone()]),
        (json!({"api_key": null}), vec![ours.clone()]),
        (
            json!({"api_key": "T", "auth_header": "Authorization"}),
            vec![bearer, ours.clone()],
        ),
        (
            json!({"headers": {"Anthropic-Beta": "a,b"}}),
            vec![key.clone(), beta.clone(), ours],
        ),
        (
            json!({"headers": {"Anthropic-Version": "x"},
                   "model_kwargs": {"extra_headers": {"anthropic-version": "y", "anthropic-beta": "a,b"}}}),
            vec![key, version("x"), beta],
        ),
    ] {
        let json = |name| Header::plain(name, "application/json");
        let plain = ["content-type", "accept"].map(json);
        let expected: Vec<Header> = plain.into_iter().chain(rest).collect();
        let mut full = json!({"model": "m"});
        full.as_object_mut()
            .unwrap()
            .extend(config.as_object().unwrap().clone());
        assert_eq!(headers(full), expected, "{config}");
    }
}

#[test]
fn servers_are_found_with_and_without_the_version() {
    for base in ["http://h", "http://h/v1/", "http://h/v1/messages"] {
        let request = ask(
            &mut adapter(&json!({"model": "m", "base_url": base})),
            Change::all(vec![]),
            &json!([]),
        );
        assert_eq!(request.url, "http://h/v1/messages");
    }
}

#[test]
fn the_schema_is_json_and_its_defaults_are_the_ones_in_force() {
    let schema = Anthropic::describe().config_schema;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert!(schema["properties"]["max_output_tokens"]["default"].is_null());
    let full = configured(&json!({"max_output_tokens": null, "stream": true, "model_kwargs": {}}));
    let short = configured(&json!({}));
    assert_eq!(format!("{:?}", full.server), format!("{:?}", short.server));
    assert_eq!(full.max_tokens, short.max_tokens);
    let error = testing::configure::<Anthropic>(json!({"model": "m", "auth": "bearer"}));
    assert!(error.err().unwrap().message.contains("`auth`"));
}

#[test]
fn a_new_head_forgets_the_broken_response_before_it() {
    let vector: Value = serde_json::from_str(VECTORS[0].1).unwrap();
    let mut adapter = adapter(&vector["config"]);
    ask(&mut adapter, Change::all(vec![]), &json!([]));
    let bytes = bytes(&vector);
    adapter.head(200, vec![]);
    adapter.feed(bytes[..600].to_vec());
    let (reply, _) = answer(&mut adapter, 200, "", &[&bytes]);
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
    let (reply, _) = answer(&mut adapter, 200, "", &[body.to_string().as_bytes()]);
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

#[test]
fn bodies_in_pieces_equal_whole_ones() {
    let make = || adapter(&json!({"model": "m"}));
    mswea_wire::testing::check_pieces(make, FORMAT, r#"{"type":"thinking","thinking":"t"}"#);
}

#[test]
fn a_reason_before_the_content_is_a_placeholder() {
    let start = |reason: Value, content: Value| json!({"type": "message_start", "message": {"role": "assistant", "content": content, "stop_reason": reason}});
    let call = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "bash", "input": {}}});
    let input = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{}"}});
    let end = |reason: Value| json!({"type": "message_delta", "delta": {"stop_reason": reason}});
    let whole = start(json!("end_turn"), json!([{"type": "text", "text": "a"}]));
    for (events, expected) in [
        (
            vec![start(json!(""), json!([])), call.clone(), input.clone()],
            &[][..],
        ),
        (
            vec![
                start(json!("end_turn"), json!([])),
                call.clone(),
                input.clone(),
            ],
            &[],
        ),
        (
            vec![
                start(Value::Null, json!([])),
                call.clone(),
                input.clone(),
                end(json!("")),
            ],
            &[],
        ),
        (
            vec![
                start(json!(""), json!([])),
                call,
                input,
                end(json!("tool_use")),
                end(json!("")),
            ],
            &["finished"],
        ),
        (vec![whole], &["likely-finished"]),
    ] {
        let mut adapter = adapter(&json!({"model": "m"}));
        assert_eq!(kinds(&mut adapter, &events), expected, "{events:?}");
    }
}

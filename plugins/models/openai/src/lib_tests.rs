//! The adapter as the host drives it.

use super::*;
use mswea_sdk::adapter::{Header, HeaderValue, HttpRequest, Next, Request};
use mswea_sdk::testing;
use mswea_sdk::types::{Change, ContentPart, Tool};
use mswea_wire::testing::{answer, check_signs, joined, kinds, message, text};
use serde_json::json;

/// A stream as OpenAI sends it, with reasoning, text, two calls, a keep-alive and letters of
/// two, three and four bytes.
const STREAM: &str = concat!(
    ": OPENROUTER PROCESSING\n\n",
    "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"höm \"}}]}\r\n\r\n",
    "data:{\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"…\"}}]}\n\n",
    "data: {\"id\":\"x\",\ndata: \"choices\":[{\"index\":0,\"delta\":{\"content\":\"I look 😀\"}}]}\n\n",
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"bash\",\"arguments\":\"\"}}]}}]}\n\n",
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"command\\\":\"}}]}}]}\n\n",
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"ls é\\\"}\"}}]}}]}\n\n",
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"c2\",\"function\":{\"name\":\"bash\",\"arguments\":\"{}\"}}]}}]}\n\n",
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
    "data: [DONE]\n\n",
);

#[test]
fn the_end_of_a_reply_is_said() {
    let mut adapter = adapter(json!({"model": "m"}));
    let reason = r#""finish_reason":"tool_calls""#;
    check_signs(&mut adapter, STREAM, reason, true);
    let no_done = STREAM.replace("data: [DONE]\n\n", "");
    check_signs(&mut adapter, &no_done, reason, false);
    let without_blank_lines = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\
        \"finish_reason\":\"\"}]}\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\ndata: [DONE]\n";
    let (reply, _) = answer(&mut adapter, 200, "", &[without_blank_lines.as_bytes()]);
    assert_eq!(reply.unwrap().message.text(), "a");
}

#[test]
fn thinking_in_the_text_is_reasoning_and_sent_back_as_such() {
    // Some templates of chats begin the thinking themselves.
    for opening in ["<think>", ""] {
        check_sent_thinking(opening);
    }
}

fn check_sent_thinking(opening: &str) {
    let words = format!("{opening}\n```bash\nrm x\n```</think>\nI look");
    let whole = json!({"choices": [{"message": {"role": "assistant", "content": words}, "finish_reason": "stop"}]});
    let pieces = words.split_inclusive(['<', '>', 'n', '/']);
    let events =
        pieces.map(|piece| json!({"choices": [{"index": 0, "delta": {"content": piece}}]}));
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let stream: String = events
        .chain([end])
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    for body in [whole.to_string(), stream] {
        let mut adapter = adapter(json!({"model": "m"}));
        ask(&mut adapter);
        let (reply, deltas) = answer(&mut adapter, 200, "", &[body.as_bytes()]);
        let reply = reply.unwrap().message;
        assert_eq!(reply.text(), "\nI look");
        if body.starts_with("data") && !opening.is_empty() {
            assert_eq!(joined(&deltas, "text"), "\nI look");
            assert_eq!(joined(&deltas, "reasoning"), "\n```bash\nrm x\n```");
        }
        let next = adapter.query(Change::tail(1, vec![reply]), Request::default());
        let Ok(Next::Send(request)) = next else {
            panic!("no request")
        };
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let sent = json!({"role": "assistant", "content": "\nI look", "reasoning_content": "\n```bash\nrm x\n```"});
        assert_eq!(body["messages"][1], sent);
    }
}

fn adapter(config: Value) -> OpenAi {
    testing::configure(config).unwrap()
}

fn ask(adapter: &mut OpenAi) -> HttpRequest {
    let change = Change::all(vec![message("user", vec![text("hi")])]);
    match adapter.query(change, Request::default()).unwrap() {
        Next::Send(request) => request,
        Next::Reply(reply) => panic!("{reply:?}"),
    }
}

#[test]
fn a_stream_gives_the_same_reply_wherever_it_is_cut() {
    let mut adapter = adapter(json!({"model": "m"}));
    ask(&mut adapter);
    let bytes = STREAM.as_bytes();
    let (whole, _) = answer(&mut adapter, 200, "text/event-stream", &[bytes]);
    let whole = whole.unwrap();
    assert_eq!(whole.message.text(), "I look 😀");
    assert_eq!(whole.finish_reason, "tool_calls");
    assert_eq!(whole.model, "m-1");
    assert_eq!(whole.message.tool_calls.len(), 2);
    assert_eq!(
        whole.message.tool_calls[0].arguments,
        "{\"command\":\"ls é\"}"
    );
    let usage = whole.usage.clone().unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.cache_read_tokens,
            usage.output_tokens
        ),
        (10, 4, 5)
    );
    assert!(matches!(&whole.message.content[0], ContentPart::Reasoning(r) if r.text == "höm …"));
    let response: Value = serde_json::from_str(whole.response.as_ref().unwrap()).unwrap();
    assert_eq!(response["object"], "chat.completion");

    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        // The content type is wrong on purpose every other time.
        let content_type = ["text/event-stream; charset=utf-8", "application/json"][cut % 2];
        let (reply, deltas) = answer(&mut adapter, 200, content_type, &[left, right]);
        assert_eq!(reply.unwrap(), whole, "cut at {cut}");
        assert_eq!(joined(&deltas, "text"), "I look 😀", "cut at {cut}");
        assert_eq!(joined(&deltas, "reasoning"), "höm …", "cut at {cut}");
        assert_eq!(joined(&deltas, "tool-call"), "{\"command\":\"ls é\"}{}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(answer(&mut adapter, 200, "", &single).0.unwrap(), whole);
}

#[test]
fn a_stream_that_ends_too_soon_is_no_reply() {
    let mut adapter = adapter(json!({"model": "m"}));
    ask(&mut adapter);
    let reason = STREAM.find("\"finish_reason\":\"tool_calls\"}]}").unwrap()
        + "\"finish_reason\":\"tool_calls\"}]}".len();
    for end in (0..=STREAM.len()).filter(|end| STREAM.is_char_boundary(*end)) {
        let piece = &STREAM.as_bytes()[..end];
        let (reply, _) = answer(&mut adapter, 200, "text/event-stream", &[piece]);
        match reply {
            Ok(_) => assert!(end >= reason, "a reply at {end}"),
            Err(error) => {
                assert!(end < reason, "none at {end}: {}", error.message);
                assert_eq!(error.class, "malformed-response", "{}", error.message);
            }
        }
    }
}

#[test]
fn a_whole_answer_to_a_request_for_a_stream_is_taken() {
    let completion = json!({
        "id": "x", "model": "m-1", "usage": null,
        "choices": [{"message": {"role": "assistant", "content": "é"}, "finish_reason": "stop"}],
    });
    let body = format!("\n  \n{completion}\n");
    for content_type in ["application/json", "text/event-stream", ""] {
        let mut adapter = adapter(json!({"model": "m"}));
        ask(&mut adapter);
        for cut in 0..=body.len() {
            let (left, right) = body.as_bytes().split_at(cut);
            let (reply, _) = answer(&mut adapter, 200, content_type, &[left, right]);
            let reply = reply.unwrap();
            assert_eq!(reply.message.text(), "é");
            assert_eq!(reply.usage, None);
            assert_eq!(reply.response.unwrap(), completion.to_string());
        }
    }
}

#[test]
fn requests_carry_the_secret_by_name_and_headers_as_configured() {
    let headers = |config: Value| {
        let request = ask(&mut adapter(config));
        assert_eq!(request.method, "POST");
        request.headers
    };
    let plain = headers(json!({"model": "m"}));
    assert_eq!(
        plain,
        [
            Header::plain("content-type", "application/json"),
            Header::plain("accept", "application/json"),
            Header::secret("authorization", "Bearer ", "OPENAI_API_KEY"),
        ]
    );
    let none = headers(json!({"model": "m", "api_key": null}));
    assert!(none.iter().all(|header| header.name != "authorization"));
    let own = headers(json!({"model": "m", "headers": {"X-Title": "t", "Accept": "*/*"}}));
    assert!(own.contains(&Header::plain("x-title", "t")));
    let accepts: Vec<_> = own
        .iter()
        .filter(|header| header.name == "accept")
        .collect();
    assert_eq!(accepts.len(), 1);
    assert_eq!(accepts[0].value, HeaderValue::Plain("*/*".to_owned()));
}

#[test]
fn what_a_reply_brings_goes_back_unchanged_on_any_instance() {
    let sent = json!({
        "role": "assistant",
        "content": null,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{ }"},
                        "extra_content": {"google": {"thought_signature": "s"}}}],
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "d", "index": 0}],
    });
    let completion = json!({"choices": [{"message": sent}]}).to_string();
    let mut warm = adapter(json!({"model": "m"}));
    ask(&mut warm);
    let reply = answer(&mut warm, 200, "", &[completion.as_bytes()])
        .0
        .unwrap();
    let tools = || Request {
        tools: vec![Tool::new("bash", "Run", &json!({"type": "object"}))],
        extra: None,
    };
    let user = message("user", vec![text("hi")]);
    let body = |adapter: &mut OpenAi, change: Change| match adapter.query(change, tools()) {
        Ok(Next::Send(request)) => request.body,
        other => panic!("{other:?}"),
    };
    let from_warm = body(&mut warm, Change::tail(1, vec![reply.message.clone()]));
    let mut fresh = adapter(json!({"model": "m"}));
    let from_fresh = body(&mut fresh, Change::all(vec![user, reply.message]));
    assert_eq!(from_warm, from_fresh);
    let body: Value = serde_json::from_slice(&from_warm).unwrap();
    assert_eq!(body["messages"][1], sent);
}

#[test]
fn a_new_head_forgets_the_broken_response_before_it() {
    let mut adapter = adapter(json!({"model": "m"}));
    ask(&mut adapter);
    adapter.head(200, vec![]);
    adapter.feed(b"data: {\"choices\":[{\"delta\":{\"content\":\"lost\"}}]}\n\nda".to_vec());
    let (reply, _) = answer(&mut adapter, 200, "", &[STREAM.as_bytes()]);
    assert_eq!(reply.unwrap().message.text(), "I look 😀");
    let error = adapter.finish().unwrap_err();
    assert_eq!(error.class, "malformed-response");
}

#[test]
fn a_change_behind_the_end_is_the_hosts_fault() {
    let mut adapter = adapter(json!({"model": "m"}));
    let error = adapter
        .query(Change::tail(3, vec![]), Request::default())
        .unwrap_err();
    assert!(error.message.contains("fault of the host"));
}

#[test]
fn the_descriptor_asks_for_what_the_defaults_need() {
    let descriptor = OpenAi::describe();
    assert_eq!(descriptor.name, "openai");
    assert_eq!(descriptor.secrets, ["OPENAI_API_KEY"]);
    assert_eq!(descriptor.hosts, ["api.openai.com"]);
}

#[test]
fn bodies_in_pieces_equal_whole_ones() {
    let make = || adapter(json!({"model": "m"}));
    mswea_wire::testing::check_pieces(make, mswea_wire::chat::FORMAT, r#"{"k":[1,2]}"#);
}

#[test]
fn a_reason_beside_content_may_not_be_the_last_one() {
    let chunk = |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let words = |reason| chunk(json!({"content": "a"}), reason);
    let call_of = |arguments: &str, reason| {
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash", "arguments": arguments}}]}),
            reason,
        )
    };
    let call = |reason| call_of("{}", reason);
    let bare = |reason| chunk(json!({"role": "assistant", "content": ""}), reason);
    let stop = || json!("stop");
    for (events, expected) in [
        (vec![words(stop()), call(stop())], &["likely-finished"][..]),
        (vec![bare(stop()), words(stop())], &["likely-finished"]),
        (
            vec![words(stop()), bare(stop()), call(stop())],
            &["likely-finished"],
        ),
        (vec![words(json!("")), call(Value::Null)], &[]),
        (
            vec![words(Value::Null), call_of("", stop()), call(Value::Null)],
            &["likely-finished"],
        ),
        (
            vec![bare(Value::Null), call_of("", Value::Null), bare(stop())],
            &["finished"],
        ),
        (
            vec![bare(Value::Null), call(json!("")), bare(stop())],
            &["finished"],
        ),
        (
            vec![call(Value::Null), bare(stop()), bare(json!(""))],
            &["finished"],
        ),
    ] {
        assert_eq!(
            kinds(&mut adapter(json!({"model": "m"})), &events),
            expected,
            "{events:?}"
        );
    }
}

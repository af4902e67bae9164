//! Ollama's own API, as the host drives the adapter.

use mswea_sdk::types::{ContentPart, Message};
use mswea_sdk::{BodyPieces as _, testing};
use mswea_wire::testing::{
    answer, ask, ask_body, assistant, call, counts, cut_everywhere, image, joined, message, text,
    tool_message,
};
use serde_json::{Value, json};

use crate::OpenAi;

/// A stream as Ollama sends it.
const STREAM: &str = concat!(
    r#"{"model":"q","created_at":"t","message":{"role":"assistant","content":"","thinking":"hö"},"done":false}"#,
    "\n",
    r#"{"model":"q","created_at":"u","message":{"role":"assistant","content":"","thinking":"m"},"done":false}"#,
    "\n\n",
    r#"{"model":"q","created_at":"u","message":{"role":"assistant","content":"I look 😀"},"done":false}"#,
    "\r\n",
    r#"{"model":"q","created_at":"u","message":{"role":"assistant","content":"","tool_calls":[{"function":{"index":0,"name":"bash","arguments":{"command":"ls"}}}]},"done":false}"#,
    "\n",
    r#"{"model":"q","created_at":"u","message":{"role":"assistant","content":"","tool_calls":[{"id":"c9","function":{"index":0,"name":"bash","arguments":{"command":"ls"}}}]},"done":false}"#,
    "\n",
    r#"{"model":"q","created_at":"v","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"total_duration":5,"prompt_eval_count":26,"eval_count":8}"#,
    "\n",
);

fn adapter(kwargs: &Value, stream: bool) -> OpenAi {
    let config = json!({"model": "q", "api": "ollama", "base_url": "http://localhost:11434",
        "stream": stream, "model_kwargs": kwargs});
    testing::configure(config).unwrap()
}

fn hello() -> Vec<Message> {
    vec![message("user", vec![text("hi")])]
}

#[test]
fn requests_have_the_form_of_ollama() {
    let kwargs = json!({"num_ctx": 32768, "temperature": 0.5, "max_tokens": 9, "stop": "x", "keep_alive": "1h",
        "tool_choice": "auto", "options": {"seed": 1}, "reasoning_effort": "low",
        "response_format": {"type": "json_object"}});
    let mut first = adapter(&kwargs, true);
    let request = ask(&mut first, &hello());
    assert_eq!(request.url, "http://localhost:11434/api/chat");
    let mut body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["tools"].take()[0]["function"]["name"], "bash");
    let expected = json!({"stream": true, "model": "q", "messages": [{"role": "user", "content": "hi"}],
        "tools": null, "keep_alive": "1h", "think": true, "format": "json",
        "options": {"num_ctx": 32768, "temperature": 0.5, "num_predict": 9, "stop": ["x"], "seed": 1}});
    assert_eq!(body, expected);

    let kwargs = json!({"think": "high", "reasoning_effort": "low", "stop": ["a"], "extra_body": {"top_k": 3},
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}});
    let body = ask_body(&mut adapter(&kwargs, false), &hello());
    assert_eq!(body["stream"], false);
    assert_eq!(body["think"], "high");
    assert_eq!(body["format"], json!({"type": "object"}));
    assert_eq!(body["options"], json!({"stop": ["a"], "top_k": 3}));

    for (model, effort, think) in [
        ("q", json!("none"), json!(false)),
        ("q", json!(null), json!(null)),
        ("q", json!({"effort": "high"}), json!(true)),
        ("gpt-oss:20b", json!("high"), json!("high")),
    ] {
        let config =
            json!({"model": model, "api": "ollama", "model_kwargs": {"reasoning_effort": effort}});
        let body = ask_body(&mut testing::configure::<OpenAi>(config).unwrap(), &hello());
        assert_eq!(body["think"], think, "{model} {effort}");
    }
}

#[test]
fn messages_have_the_form_of_ollama() {
    let history = [
        message(
            "user",
            vec![
                text("see "),
                image("data:image/png;base64,AAA="),
                text("this"),
            ],
        ),
        assistant(
            vec![],
            vec![
                call("c1", "bash", r#"{"command": "ls"}"#),
                call("c2", "bash", "oops"),
            ],
        ),
        tool_message("c1", "out"),
    ];
    let body = ask_body(&mut adapter(&json!({}), true), &history);
    let function = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let expected = json!([
        {"role": "user", "content": "see this", "images": ["AAA="]},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "type": "function", "function": function("bash", json!({"command": "ls"}))},
            {"id": "c2", "type": "function", "function": function("bash", json!({"arguments": "oops"}))},
        ]},
        {"role": "tool", "content": "out", "tool_call_id": "c1", "tool_name": "bash"},
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body.get("options"), None);
}

#[test]
fn streams_become_replies_whatever_the_cut() {
    let mut adapter = adapter(&json!({}), true);
    ask(&mut adapter, &hello());
    let reply = cut_everywhere(&mut adapter, STREAM);
    assert_eq!(reply.message.text(), "I look 😀");
    let calls = &reply.message.tool_calls;
    let calls: Vec<_> = calls
        .iter()
        .map(|call| (&*call.id, &*call.name, &*call.arguments))
        .collect();
    let arguments = r#"{"command":"ls"}"#;
    assert_eq!(
        calls,
        [("call_1_0", "bash", arguments), ("c9", "bash", arguments)]
    );
    assert_eq!(reply.finish_reason, "tool_calls");
    assert_eq!(counts(reply.usage.as_ref().unwrap()), [26, 0, 0, 8, 0]);
    let (_, deltas) = answer(&mut adapter, 200, "", &[STREAM.as_bytes()]);
    assert_eq!(joined(&deltas, "reasoning"), "höm");
    assert_eq!(joined(&deltas, "text"), "I look 😀");
    // The thinking goes back under the name that Ollama has for it.
    let history = [hello(), vec![reply.message]].concat();
    assert_eq!(
        ask_body(&mut adapter, &history)["messages"][1]["thinking"],
        "höm"
    );
}

#[test]
fn whole_answers_become_replies() {
    let whole = r#"{"model":"q","message":{"role":"assistant","content":"a","thinking":"t"},"done":true,"done_reason":"length","eval_count":3}"#;
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(whole).unwrap());
    for body in [whole, &pretty.unwrap()] {
        let mut adapter = adapter(&json!({}), false);
        ask(&mut adapter, &hello());
        let (reply, _) = answer(&mut adapter, 200, "application/json", &[body.as_bytes()]);
        let reply = reply.unwrap();
        assert_eq!(reply.message.text(), "a");
        let is_read =
            |part: &ContentPart| matches!(part, ContentPart::Reasoning(it) if it.text == "t");
        assert!(reply.message.content.iter().any(is_read));
        assert_eq!(reply.finish_reason, "length");
        assert_eq!(counts(&reply.usage.unwrap()), [0, 0, 0, 3, 0]);
    }
}

#[test]
fn failures_are_classified() {
    let cut = STREAM.split_at(STREAM.len() - 9).0;
    for (status, body, class, part) in [
        (
            404,
            r#"{"error":"model 'q' not found"}"#,
            "not-found",
            "model 'q' not found",
        ),
        (
            400,
            r#"{"error":"q does not support tools"}"#,
            "bad-request",
            "support tools",
        ),
        (
            200,
            r#"{"error":"an error was encountered"}"#,
            "",
            "an error was encountered",
        ),
        (
            200,
            "<html>log in</html>\n",
            "malformed-response",
            "web page",
        ),
        (200, "", "malformed-response", "empty body"),
        (200, cut, "malformed-response", "broke off"),
    ] {
        let mut adapter = adapter(&json!({}), true);
        ask(&mut adapter, &hello());
        let (reply, _) = answer(&mut adapter, status, "", &[body.as_bytes()]);
        let error = reply.unwrap_err();
        assert!(class.is_empty() || error.class == class, "{error:?}");
        assert!(error.message.contains(part), "{error:?}");
    }
    // What speaks chat completions in spite of the address is understood.
    let mut adapter = adapter(&json!({}), true);
    ask(&mut adapter, &hello());
    for body in [
        r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#,
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n",
    ] {
        let (reply, _) = answer(&mut adapter, 200, "", &[body.as_bytes()]);
        assert_eq!(reply.unwrap().message.text(), "a");
    }
}

#[test]
fn bodies_are_never_passed_in_pieces() {
    let mut adapter = adapter(&json!({}), true);
    adapter.offer(0);
    assert!(!ask(&mut adapter, &hello()).body.is_empty());
    assert!(adapter.pieces().is_empty());
}

#[test]
fn other_apis_are_refused() {
    let config = json!({"model": "q", "api": "generate"});
    let error = testing::configure::<OpenAi>(config).err().unwrap();
    assert!(
        error.message.contains("write `chat` or `ollama`"),
        "{error:?}"
    );
}

//! Vectors for the requests. Shapes are those that mini-swe-agent 2.4.6 sends through litellm 1.106
//! (plain) and to OpenRouter (typed), recorded by a server of this project.

use super::*;
use crate::chat::OPENAI;
use crate::responses::response;
use crate::testing::{
    assistant, bash_tool, call, check_prefix, measure_step, message, opaque, text, tool_message,
};
use crate::{Encoded as _, History, Server, Table};
use mswea_sdk::types::{Change, Reasoning};

fn responses(extra: &Value, is_router: bool) -> Responses {
    let mut config = json!({"model": "m", "stream": false});
    for (key, value) in extra.as_object().unwrap() {
        config[key] = value.clone();
    }
    let mut table = Table::new(config).unwrap();
    let server = Server::take(&mut table, &OPENAI).unwrap();
    Responses::take(&mut table, server, is_router).unwrap()
}

/// A message's items.
fn items(responses: &Responses, message: &Message) -> Value {
    let mut out = Vec::new();
    append_message(responses, &mut out, message);
    let list = String::from_utf8(out).unwrap();
    let list = list.strip_prefix(',').unwrap_or_default();
    serde_json::from_str(&format!("[{list}]")).unwrap()
}

fn with_extra(mut message: Message, extra: &Value) -> Message {
    message.extra = Some(extra.to_string());
    message
}

fn image(url: &str, extra: Option<&str>) -> ContentPart {
    ContentPart::Image(Image {
        url: url.to_owned(),
        extra: extra.map(str::to_owned),
    })
}

#[test]
fn messages_become_items() {
    let typed = |role: &str, text: &str| json!([{"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}]);
    let user = || message("user", vec![text("u")]);
    // Message, short form, typed form.
    let vectors = [
        (
            message("system", vec![text("a"), text("b")]),
            json!([{"role": "system", "content": "ab"}]),
            typed("system", "ab"),
        ),
        (
            user(),
            json!([{"role": "user", "content": "u"}]),
            typed("user", "u"),
        ),
        (
            message("user", vec![]),
            json!([{"role": "user", "content": ""}]),
            typed("user", ""),
        ),
        (
            with_extra(user(), &json!({"interrupt_type": "FormatError"})),
            typed("user", "u"),
            typed("user", "u"),
        ),
        (
            with_extra(user(), &json!({"content_list": true})),
            json!([{"role": "user", "content": [{"type": "input_text", "text": "u"}]}]),
            typed("user", "u"),
        ),
        // The output of a call may have several parts.
        (
            with_extra(tool_message("c", "o"), &json!({"content_list": true})),
            json!([{"type": "function_call_output", "call_id": "c", "output": "o"}]),
            json!([{"type": "function_call_output", "call_id": "c", "output": "o"}]),
        ),
        (
            with_extra(user(), &json!({"interrupt_type": "UserInterruption"})),
            json!([{"role": "user", "content": "u"}]),
            json!([{"role": "user", "content": "u"}]),
        ),
        (
            with_extra(user(), &json!({"returncode": 0})),
            typed("user", "u"),
            typed("user", "u"),
        ),
        (
            with_extra(user(), &json!({"actions": [{"command": "ls"}]})),
            json!([{"role": "user", "content": "u"}]),
            json!([{"role": "user", "content": "u"}]),
        ),
        (
            tool_message("c", "out"),
            json!([{"type": "function_call_output", "call_id": "c", "output": "out"}]),
            json!([{"type": "function_call_output", "call_id": "c", "output": "out"}]),
        ),
        (
            message("tool", vec![text("out")]),
            typed("user", "out"),
            typed("user", "out"),
        ),
        (
            message(
                "user",
                vec![
                    text("see"),
                    image("https://x/y", Some(r#"{"detail":"low"}"#)),
                ],
            ),
            json!([{"role": "user", "content": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "https://x/y", "detail": "low"}]}]),
            json!([{"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "https://x/y", "detail": "low"}]}]),
        ),
        (
            Message {
                tool_call_id: Some("c".to_owned()),
                ..message("tool", vec![image("data:image/png;base64,AA", None)])
            },
            json!([{"type": "function_call_output", "call_id": "c", "output": [
                {"type": "input_image", "image_url": "data:image/png;base64,AA"}]}]),
            json!([{"type": "function_call_output", "call_id": "c", "output": [
                {"type": "input_image", "image_url": "data:image/png;base64,AA"}]}]),
        ),
        // A reply that another adapter has decoded.
        (
            assistant(
                vec![
                    ContentPart::Reasoning(Reasoning {
                        text: "hm".to_owned(),
                        extra: None,
                    }),
                    text("a"),
                    text("b"),
                    opaque("anthropic", "{}"),
                    opaque(FORMAT, "broken"),
                ],
                vec![call("c", "bash", "{}")],
            ),
            json!([{"role": "assistant", "content": "ab"},
                   {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}]),
            json!([{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ab"}]},
                   {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}]),
        ),
    ];
    let short = responses(&json!({}), false);
    let long = responses(&json!({"typed_messages": true}), false);
    for (message, plain, typed) in vectors {
        // As text, so that the order of the keys counts too.
        assert_eq!(items(&short, &message).to_string(), plain.to_string());
        assert_eq!(items(&long, &message).to_string(), typed.to_string());
    }
}

/// An output with every kind of item, in an order that a message can't represent.
fn output() -> Value {
    json!([
        {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "**Look**"}],
         "encrypted_content": "gAAA=="},
        {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "commentary",
         "content": [{"type": "output_text", "annotations": [], "text": "hi é", "logprobs": []},
                     {"type": "output_text", "text": "", "annotations": []},
                     {"type": "refusal", "refusal": "no"}, {"type": "odd", "x": 1.50}]},
        {"id": "fc_1", "type": "function_call", "status": "completed", "arguments": "{\"command\":\"ls\"}",
         "call_id": "call_1", "name": "bash", "zzz": 1},
        {"id": "rs_2", "type": "reasoning", "summary": [], "encrypted_content": "gBBB=="},
        {"id": "fc_2", "type": "function_call", "arguments": "not json", "call_id": "call_2", "name": "bash"},
        {"id": "msg_2", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "end"}]},
        {"id": "ws_1", "type": "web_search_call", "action": {"query": "q"}},
    ])
}

fn reply_message(output: &Value) -> Message {
    let response = json!({"status": "completed", "output": output});
    response::reply(&response, String::new(), 3)
        .unwrap()
        .message
}

#[test]
fn items_go_back_as_they_came_and_in_their_order() {
    let message = reply_message(&output());
    assert_eq!(message.text(), "hi énoend");
    let ids: Vec<&str> = message.tool_calls.iter().map(|call| &*call.id).collect();
    assert_eq!(ids, ["call_1", "call_2"]);
    let got = items(&responses(&json!({}), false), &message);
    assert_eq!(got.to_string(), output().to_string());
}

#[test]
fn nulls_that_the_api_refuses_go_back_only_to_a_router() {
    let output = json!([{"id": "rs", "type": "reasoning", "summary": [], "status": null,
                         "encrypted_content": null, "content": null, "x": null}]);
    let message = reply_message(&output);
    assert_eq!(items(&responses(&json!({}), true), &message), output);
    assert_eq!(
        items(&responses(&json!({}), false), &message),
        json!([{"id": "rs", "type": "reasoning", "summary": [], "x": null}])
    );
}

#[test]
fn what_a_processor_changes_is_what_goes_back() {
    let shown = |message: &Message| items(&responses(&json!({}), false), message);
    let mut message = reply_message(&output());
    message.tool_calls.remove(0);
    message.tool_calls[0].arguments = "{}".to_owned();
    let got = shown(&message);
    let calls: Vec<&Value> = got
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["type"] == "function_call")
        .collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["call_id"], "call_2");
    assert_eq!(calls[0]["arguments"], "{}");

    // One text where there were two: the first place has the text, the other part is removed.
    let mut message = reply_message(&output());
    let second = message
        .content
        .iter()
        .rposition(|part| part.as_text() == Some("no"));
    message.content.remove(second.unwrap());
    let got = shown(&message);
    assert_eq!(
        got[1]["content"],
        json!([{"type": "output_text", "annotations": [], "text": "hi é", "logprobs": []},
               {"type": "output_text", "text": "", "annotations": []}, {"type": "odd", "x": 1.50}])
    );
    // No text at all: no message.
    message.content.retain(|part| part.as_text().is_none());
    let got = shown(&message);
    assert!(
        got.as_array()
            .unwrap()
            .iter()
            .all(|item| item["type"] != "message")
    );
}

#[test]
fn bodies_hold_each_key_once_and_kwargs_last() {
    let tool = r#"[{"type":"function","name":"bash","description":"Execute a bash command","parameters":{"type":"object","properties":{"command":{"type":"string","description":"The bash command to execute"}},"required":["command"]}}]"#;
    let hi = r#"[{"role":"user","content":"hi"}]"#;
    let vectors = [
        (
            json!({}),
            false,
            true,
            format!(r#"{{"model":"m","input":{hi},"tools":{tool}}}"#),
        ),
        (
            json!({"stream": true}),
            false,
            false,
            format!(r#"{{"model":"m","input":{hi},"stream":true}}"#),
        ),
        (
            json!({"stateless": true}),
            false,
            false,
            format!(
                r#"{{"model":"m","input":{hi},"store":false,"include":["reasoning.encrypted_content"]}}"#
            ),
        ),
        (
            json!({"stateless": true, "model_kwargs": {"store": true, "model": "n", "zzz": 1, "extra_body": {"zzz": 2}}}),
            false,
            false,
            format!(
                r#"{{"input":{hi},"include":["reasoning.encrypted_content"],"store":true,"model":"n","zzz":2}}"#
            ),
        ),
        (
            json!({"typed_messages": false, "model_kwargs": {"drop_params": true, "zzz": 1, "provider": {"only": ["x"]}}}),
            true,
            false,
            format!(r#"{{"model":"m","input":{hi},"zzz":1,"provider":{{"only":["x"]}}}}"#),
        ),
    ];
    for (extra, is_router, with_tool, expected) in vectors {
        let responses = responses(&extra, is_router);
        let mut history = History::default();
        let hi = vec![message("user", vec![text("hi")])];
        history.apply(&responses, &Change::all(hi)).unwrap();
        let tools = if with_tool { vec![bash_tool()] } else { vec![] };
        let body = body(&responses, &history, &tools, None).fresh;
        assert_eq!(String::from_utf8(body).unwrap(), expected, "{extra}");
    }
}

#[test]
fn the_kept_prefix_equals_encoding_from_scratch() {
    let data = r#"{"type":"reasoning","id":"r"}"#;
    check_prefix(&responses(&json!({}), false), FORMAT, data);
    check_prefix(&responses(&json!({}), true), FORMAT, data);
}

#[test]
#[ignore = "a measurement"]
fn a_step_costs_little_beside_the_copy_of_its_bytes() {
    let format = responses(&json!({}), false);
    let (step, copy) = measure_step(&format, &reply_message(&output()));
    eprintln!("responses: {step:.1} µs for a step, {copy:.1} µs for a copy");
    assert!(step - copy < 50.0);
}

//! Vectors for the requests. Where mini-swe-agent's (through litellm) differ, it is in the
//! spelling of keys (`function_call`), which Google's API reads alike.

use super::*;
use crate::{DEFAULTS, params, response};
use mswea_sdk::types::{Change, Reasoning};
use mswea_wire::testing::{
    assistant, bash_tool, call, check_prefix, measure_step, message, opaque, text, tool_message,
};
use mswea_wire::{Encoded as _, Format as _, History, Server, Table};

fn format(config: &Value) -> GenerateContent {
    let mut all = json!({"model": "gemini-2.5-pro"});
    for (key, value) in config.as_object().unwrap() {
        all[key] = value.clone();
    }
    let mut server = Server::take(&mut Table::new(all).unwrap(), &DEFAULTS).unwrap();
    params::fit(&mut server);
    GenerateContent {
        wants_signatures: params::is_third(&server.model),
        server,
        has_told: std::cell::Cell::new(false),
    }
}

fn sent(format: &GenerateContent, messages: Vec<Message>, tools: &[Tool]) -> Value {
    let mut history = History::default();
    history.apply(format, &Change::all(messages)).unwrap();
    let body = format.body(&history, tools);
    serde_json::from_slice(&body).unwrap()
}

fn image(url: &str) -> ContentPart {
    ContentPart::Image(Image {
        url: url.to_owned(),
        extra: None,
    })
}

fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{"text": text}]})
}

#[test]
fn messages_become_contents_of_alternating_roles() {
    let output = |name: &str, text: &str| json!({"functionResponse": {"name": name, "response": {"content": text}}});
    let two_calls = || {
        assistant(
            vec![],
            vec![
                call("a", "bash", r#"{"command":"ls"}"#),
                call("b", "bash", "not json"),
            ],
        )
    };
    let called = json!({"role": "model", "parts": [
        {"functionCall": {"name": "bash", "args": {"command": "ls"}}},
        {"functionCall": {"name": "bash", "args": {"arguments": "not json"}}}]});
    let vectors = [
        (
            vec![message("user", vec![text("a"), text("b")])],
            json!([user("ab")]),
        ),
        (vec![message("user", vec![])], json!([user("")])),
        (
            vec![
                message("user", vec![text("a")]),
                message("exit", vec![text("x")]),
                message("user", vec![text("b")]),
            ],
            json!([{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]),
        ),
        (
            vec![message(
                "user",
                vec![
                    text("see"),
                    image("data:image/jpeg;base64,AA"),
                    image("https://x/y.WEBP?z"),
                    text("!"),
                ],
            )],
            json!([{"role": "user", "parts": [
                {"text": "see"}, {"inlineData": {"mimeType": "image/jpeg", "data": "AA"}},
                {"fileData": {"mimeType": "image/webp", "fileUri": "https://x/y.WEBP?z"}}, {"text": "!"}]}]),
        ),
        // Both outputs are in one turn, and a user's text may follow there.
        (
            vec![
                two_calls(),
                tool_message("a", "1"),
                tool_message("b", "2"),
                message("user", vec![text("go on")]),
            ],
            json!([called, {"role": "user", "parts": [output("bash", "1"), output("bash", "2"), {"text": "go on"}]}]),
        ),
        (
            vec![
                two_calls(),
                tool_message("a", "1"),
                assistant(vec![text("so")], vec![call("c", "", "")]),
                tool_message("c", "3"),
                tool_message("zzz", "4"),
            ],
            json!([called, {"role": "user", "parts": [output("bash", "1")]},
                {"role": "model", "parts": [{"text": "so"}, {"functionCall": {"name": "", "args": {}}}]},
                {"role": "user", "parts": [output("unknown", "3"), output("unknown", "4")]}]),
        ),
        (
            vec![
                two_calls(),
                Message {
                    tool_call_id: Some("a".to_owned()),
                    ..message("tool", vec![text("t"), image("data:image/png;base64,AA")])
                },
            ],
            json!([called, {"role": "user", "parts": [output("bash", "t"), {"inlineData": {"mimeType": "image/png", "data": "AA"}}]}]),
        ),
        // A reply that an adapter of another wire format has decoded.
        (
            vec![assistant(
                vec![
                    ContentPart::Reasoning(Reasoning {
                        text: "hm".to_owned(),
                        extra: None,
                    }),
                    text("a"),
                    opaque("openai-chat", "{}"),
                    opaque(FORMAT, "broken"),
                ],
                vec![],
            )],
            json!([{"role": "model", "parts": [{"text": "a"}]}]),
        ),
        (vec![assistant(vec![], vec![])], json!([])),
    ];
    let format = format(&json!({}));
    for (messages, expected) in vectors {
        assert_eq!(sent(&format, messages, &[])["contents"], expected);
    }
}

#[test]
fn system_prompts_are_an_instruction_of_their_own() {
    let format = format(&json!({"model_kwargs": {"temperature": 0}}));
    let body = sent(
        &format,
        vec![
            message("system", vec![text("S"), text("!")]),
            message("user", vec![text("u")]),
            message("system", vec![text("T")]),
        ],
        &[bash_tool()],
    );
    assert_eq!(
        body,
        json!({
            "systemInstruction": {"parts": [{"text": "S!"}, {"text": "T"}]},
            "contents": [user("u")],
            "tools": [{"functionDeclarations": [{"name": "bash", "description": "Execute a bash command",
                "parameters": {"type": "object", "properties": {"command": {"type": "string",
                    "description": "The bash command to execute"}}, "required": ["command"]}}]}],
            "generationConfig": {"temperature": 0},
        })
    );
    assert!(mswea_sdk::testing::take_log().is_empty());
}

#[test]
fn what_a_schema_loses_is_said_once() {
    let format = format(&json!({}));
    let tool = Tool::new(
        "t",
        "d",
        &json!({"type": "object", "additionalProperties": false}),
    );
    for _ in 0..2 {
        let body = sent(&format, vec![], std::slice::from_ref(&tool));
        let declared = &body["tools"][0]["functionDeclarations"][0]["parameters"];
        assert_eq!(*declared, json!({"type": "object"}));
    }
    let log = mswea_sdk::testing::take_log();
    assert_eq!(log.len(), 1);
    assert!(log[0].1.contains("`additionalProperties`"));
}

fn reply_message(parts: &Value) -> Message {
    let response = json!({"candidates": [{"content": {"role": "model", "parts": parts}}]});
    response::reply(&response, String::new(), 5)
        .unwrap()
        .message
}

/// The parts of responses, and the parts that the next request must contain.
#[test]
fn parts_go_back_as_they_came_each_with_its_signature() {
    let format = format(&json!({}));
    for parts in [
        json!([{"text": "a"}]),
        json!([{"text": "a"}, {"functionCall": {"name": "bash", "args": {"command": "ls é"}}}]),
        json!([{"text": "why", "thought": true}, {"text": "Look", "thoughtSignature": "sigT"},
               {"functionCall": {"name": "bash", "args": {"command": "ls"}}, "thoughtSignature": "sigF"},
               {"functionCall": {"name": "bash", "args": {}}}]),
        json!([{"functionCall": {"name": "bash", "args": {"a": 1.5, "b": [null]}}},
               {"functionCall": {"id": "own", "name": "bash", "args": {"command": "pwd"}}},
               {"text": "after"}, {"text": "", "thoughtSignature": "last"}]),
        json!([{"text": "a"}, {"text": "b", "thoughtSignature": "s"}, {"text": "c"}]),
        json!([{"executableCode": {"language": "PYTHON", "code": "1"}}, {"odd": {"x": 1}, "thoughtSignature": "s"}]),
        json!([{"inlineData": {"mimeType": "image/png", "data": "AA"}}]),
    ] {
        let message = reply_message(&parts);
        let got = sent(&format, vec![message], &[]);
        assert_eq!(got["contents"][0]["parts"].to_string(), parts.to_string());
    }
}

#[test]
fn outputs_repeat_the_ids_that_were_given() {
    let parts = json!([{"functionCall": {"name": "bash", "args": {}}},
                       {"functionCall": {"id": "own", "name": "other", "args": {}}}]);
    let message = reply_message(&parts);
    assert_eq!(message.tool_calls[0].id, "call_5_0");
    assert_eq!(message.tool_calls[1].id, "own");
    let outputs = [tool_message("call_5_0", "1"), tool_message("own", "2")];
    let messages = std::iter::once(message).chain(outputs).collect();
    let got = sent(&format(&json!({})), messages, &[]);
    assert_eq!(
        got["contents"][1]["parts"],
        json!([{"functionResponse": {"name": "bash", "response": {"content": "1"}}},
               {"functionResponse": {"id": "own", "name": "other", "response": {"content": "2"}}}])
    );
}

#[test]
fn what_a_processor_changes_is_what_goes_back() {
    let parts = json!([{"text": "Look", "thoughtSignature": "s"},
        {"functionCall": {"name": "bash", "args": {}}, "thoughtSignature": "f"},
        {"functionCall": {"name": "bash", "args": {"command": "ls"}}}]);
    let mut message = reply_message(&parts);
    message.tool_calls.remove(0);
    message.tool_calls[0].arguments = r#"{"command":"pwd"}"#.to_owned();
    message.content[0] = text("Cut");
    let got = sent(&format(&json!({})), vec![message], &[]);
    assert_eq!(
        got["contents"][0]["parts"],
        json!([{"text": "Cut", "thoughtSignature": "s"},
               {"functionCall": {"name": "bash", "args": {"command": "pwd"}}}])
    );
}

#[test]
fn calls_of_other_wires_are_marked_for_models_that_want_signatures() {
    let foreign = || {
        assistant(
            vec![],
            vec![call("a", "bash", "{}"), call("b", "bash", "{}")],
        )
    };
    let third = format(&json!({"model": "gemini-3-pro-preview"}));
    let got = sent(&third, vec![foreign()], &[]);
    let parts = &got["contents"][0]["parts"];
    assert_eq!(parts[0]["thoughtSignature"], NO_SIGNATURE);
    assert!(parts[1].get("thoughtSignature").is_none());
    let got = sent(&format(&json!({})), vec![foreign()], &[]);
    assert!(
        got["contents"][0]["parts"][0]
            .get("thoughtSignature")
            .is_none()
    );
}

#[test]
fn the_config_replaces_what_the_adapter_would_write() {
    let format = format(
        &json!({"model_kwargs": {"tools": [{"googleSearch": {}}], "extra_body": {"contents": []}}}),
    );
    let body = sent(
        &format,
        vec![message("user", vec![text("u")])],
        &[bash_tool()],
    );
    assert_eq!(
        body,
        json!({"tools": [{"googleSearch": {}}], "contents": []})
    );
}

#[test]
fn the_kept_prefix_equals_encoding_from_scratch() {
    check_prefix(
        &format(&json!({})),
        FORMAT,
        r#"{"text":null,"thoughtSignature":"s"}"#,
    );
}

/// Quadratic time would be minutes here.
#[test]
fn thousands_of_calls_are_answered_at_once() {
    const MANY: usize = 10_000;
    let ids: Vec<String> = (0..MANY).map(|id| format!("call_{id}")).collect();
    let plain = assistant(
        vec![],
        ids.iter().map(|id| call(id, "bash", "{}")).collect(),
    );
    // The calls as Gemini returns them, with ids.
    let part = |id: &String| {
        json!({"functionCall": {"id": id, "name": "bash", "args": {}},
        "thoughtSignature": "s"})
    };
    let own = reply_message(&ids.iter().map(part).collect());
    // One message for each call, with instructions in between.
    let mut apart: Vec<Message> = Vec::new();
    for id in &ids {
        apart.push(assistant(vec![], vec![call(id, "bash", "{}")]));
        apart.push(message("system", vec![text("s")]));
    }
    for (calls, is_given) in [(vec![plain], false), (vec![own], true), (apart, false)] {
        for is_reversed in [false, true] {
            let mut ids = ids.clone();
            if is_reversed {
                ids.reverse();
            }
            let mut messages = calls.clone();
            messages.extend(ids.iter().map(|id| tool_message(id, "x")));
            let format = format(&json!({}));
            let mut history = History::default();
            let begun = std::time::Instant::now();
            history.apply(&format, &Change::all(messages)).unwrap();
            let body = format.body(&history, &[]);
            let took = begun.elapsed();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let outputs = body["contents"][1]["parts"].as_array().unwrap();
            assert_eq!(outputs.len(), MANY);
            for (output, id) in outputs.iter().zip(&ids) {
                let output = &output["functionResponse"];
                assert_eq!(output["name"], "bash");
                assert_eq!(output.get("id").is_some(), is_given);
                assert!(!is_given || output["id"] == *id);
            }
            // Half a second on an idle machine.
            assert!(took.as_secs() < 5, "{took:?} for {MANY} calls");
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn a_step_costs_little_beside_the_copy_of_its_bytes() {
    let reply = reply_message(&json!([{"text": "I look", "thoughtSignature": "s"}]));
    let (step, copy) = measure_step(&format(&json!({})), &reply);
    eprintln!("gemini: {step:.1} µs for a step, {copy:.1} µs for a copy");
    assert!(step - copy < 50.0);
}

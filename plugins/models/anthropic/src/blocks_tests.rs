//! Vectors for blocks.

use super::*;
use mswea_sdk::types::Reasoning;
use mswea_wire::testing::{assistant, call, image, message, opaque, text, tool_message};

const MARK: &str = r#"{"x":1,"cache_control":{"type":"ephemeral","ttl":"1h"}}"#;

fn reasoning(text: &str) -> ContentPart {
    ContentPart::Reasoning(Reasoning {
        text: text.to_owned(),
        extra: None,
    })
}

fn listed(mut message: Message) -> Message {
    message.extra = Some(r#"{"returncode":0,"content_list":true}"#.to_owned());
    message
}

fn blocks(message: &Message) -> (Value, Kind) {
    let mut out = b"before".to_vec();
    let kind = write(&mut out, message);
    let text = format!("[{}]", std::str::from_utf8(&out[6..]).unwrap());
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    if let Kind::Result(_, content) = &kind {
        let content = &out[6..][content.clone()];
        let inner: Value = serde_json::from_slice(content).unwrap();
        let value: &Value = &value;
        assert_eq!(inner, value[0]["content"]);
    }
    (value, kind)
}

#[test]
fn messages_become_blocks() {
    let thinking = r#"{"type":"thinking","thinking":"hm \u00e9","signature":"c2ln"}"#;
    let redacted = r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#;
    let thought = json!({"type": "thinking", "thinking": "hm é", "signature": "c2ln"});
    let hidden = json!({"type": "redacted_thinking", "data": "ZGF0YQ=="});
    let vectors = [
        (message("user", vec![]), json!([])),
        (message("user", vec![text(" \n\t")]), json!([])),
        (message("exit", vec![text("x")]), json!([])),
        (
            message(
                "user",
                vec![text("é\n\"\u{1}"), reasoning("no"), text("b ")],
            ),
            json!([{"type": "text", "text": "é\n\"\u{1}"}, {"type": "text", "text": "b "}]),
        ),
        (
            message(
                "user",
                vec![
                    image("data:image/png;base64,AAAA"),
                    image("https://x.y/z.png"),
                    image("DATA:image/JPG;charset=x;base64, BBBB"),
                    image("data:text/plain,AAAA"),
                ],
            ),
            json!([
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                {"type": "image", "source": {"type": "url", "url": "https://x.y/z.png"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "BBBB"}},
                {"type": "image", "source": {"type": "url", "url": "data:text/plain,AAAA"}},
            ]),
        ),
        (
            assistant(
                vec![
                    reasoning("hm é"),
                    opaque(FORMAT, thinking),
                    opaque(FORMAT, redacted),
                    text("I look"),
                    opaque("openai-chat", r#"{"type":"thinking"}"#),
                    opaque(FORMAT, "broken"),
                    opaque(FORMAT, "{}"),
                ],
                vec![
                    call("toolu_1", "bash", "{\"command\": \"ls\"}"),
                    call("a:b.1", "", ""),
                ],
            ),
            json!([thought, hidden, {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "a_b_1", "name": "_", "input": {}}]),
        ),
        // Blocks of a server tool between thoughts stay there.
        (
            assistant(
                vec![
                    opaque(FORMAT, thinking),
                    text("a"),
                    opaque(FORMAT, redacted),
                    text("b"),
                ],
                vec![],
            ),
            json!([thought, {"type": "text", "text": "a"}, hidden, {"type": "text", "text": "b"}]),
        ),
        // Thinking is first in a turn.
        (
            assistant(
                vec![
                    text(" "),
                    text("a"),
                    opaque(FORMAT, thinking),
                    opaque(FORMAT, redacted),
                ],
                vec![],
            ),
            json!([thought, hidden, {"type": "text", "text": "a"}]),
        ),
        // Thinking is never last in a turn.
        (
            assistant(vec![opaque(FORMAT, thinking)], vec![]),
            json!([thought, {"type": "text", "text": NO_ANSWER}]),
        ),
        (
            assistant(
                vec![opaque(FORMAT, r#"{"type":"server_tool_use","id":"s"}"#)],
                vec![call("c", "bash", "not json"), call("d", "bash", "[1]")],
            ),
            json!([{"type": "server_tool_use", "id": "s"},
                {"type": "tool_use", "id": "c", "name": "bash", "input": {"arguments": "not json"}},
                {"type": "tool_use", "id": "d", "name": "bash", "input": {"arguments": "[1]"}}]),
        ),
        (
            tool_message("c:1", "out"),
            json!([{"type": "tool_result", "tool_use_id": "c_1", "content": "out"}]),
        ),
        (
            tool_message("c", ""),
            json!([{"type": "tool_result", "tool_use_id": "c", "content": ""}]),
        ),
        (
            Message {
                content: vec![text("see"), image("https://x"), text("")],
                ..tool_message("c", "")
            },
            json!([{"type": "tool_result", "tool_use_id": "c", "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"type": "url", "url": "https://x"}}]}]),
        ),
        // Where images are looked for, every content is a list.
        (
            listed(tool_message("c", "out")),
            json!([{"type": "tool_result", "tool_use_id": "c",
                    "content": [{"type": "text", "text": "out"}]}]),
        ),
        (
            Message {
                content: vec![text("a"), text("\n"), text("b")],
                ..listed(tool_message("c", ""))
            },
            json!([{"type": "tool_result", "tool_use_id": "c", "content": [
                {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]),
        ),
        (
            listed(tool_message("c", "")),
            json!([{"type": "tool_result", "tool_use_id": "c", "content": ""}]),
        ),
        (
            listed(message("user", vec![text("a")])),
            json!([{"type": "text", "text": "a"}]),
        ),
    ];
    for (message, expected) in vectors {
        assert_eq!(blocks(&message).0, expected, "{message:?}");
    }
}

#[test]
fn signed_blocks_go_back_to_the_letter() {
    let odd = r#"{ "signature":"s\/s", "type":"thinking","thinking":"\u00e9 1.0e5" }"#;
    let mut out = Vec::new();
    write(
        &mut out,
        &assistant(vec![opaque(FORMAT, odd), text("x")], vec![]),
    );
    assert!(out.starts_with(odd.as_bytes()));
}

#[test]
fn marks_go_to_the_last_block_that_takes_one() {
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    let thinking = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
    let vectors = [
        (
            message("system", vec![text("a"), text("b")]),
            json!([{"type": "text", "text": "a"},
                   {"type": "text", "text": "b", "cache_control": mark}]),
        ),
        (
            message("user", vec![image("https://x")]),
            json!([{"type": "image", "source": {"type": "url", "url": "https://x"}, "cache_control": mark}]),
        ),
        // As mini-swe-agent's marked results reach the wire.
        (
            tool_message("c", "out"),
            json!([{"type": "tool_result", "tool_use_id": "c",
                    "content": [{"type": "text", "text": "out"}], "cache_control": mark}]),
        ),
        (
            tool_message("c", ""),
            json!([{"type": "tool_result", "tool_use_id": "c", "content": "", "cache_control": mark}]),
        ),
        (
            assistant(
                vec![text("a"), opaque(FORMAT, thinking)],
                vec![call("c", "b", "")],
            ),
            json!([{"type": "thinking", "thinking": "t", "signature": "s"},
                   {"type": "text", "text": "a"},
                   {"type": "tool_use", "id": "c", "name": "b", "input": {}, "cache_control": mark}]),
        ),
        (
            assistant(
                vec![text("a"), opaque(FORMAT, r#"{"type":"other"}"#)],
                vec![],
            ),
            json!([{"type": "text", "text": "a", "cache_control": mark}, {"type": "other"}]),
        ),
        (message("user", vec![]), json!([])),
    ];
    for (mut message, expected) in vectors {
        message.extra = Some(MARK.to_owned());
        assert_eq!(blocks(&message).0, expected, "{message:?}");
    }
    for extra in [
        "no JSON",
        r#"{"cache_control":null}"#,
        r#"{"a":"\"cache_control\""}"#,
    ] {
        let mut message = message("user", vec![text("a")]);
        message.extra = Some(extra.to_owned());
        assert_eq!(blocks(&message).0, json!([{"type": "text", "text": "a"}]));
    }
}

#[test]
fn kinds_say_what_stands_on_the_wire() {
    let call_of = |id: &str, name: &str| Call {
        id: id.to_owned(),
        name: name.to_owned(),
    };
    for (message, expected) in [
        (message("user", vec![]), Kind::Nothing),
        (message("system", vec![text("s")]), Kind::System),
        (message("developer", vec![text("s")]), Kind::System),
        (message("critic", vec![text("s")]), Kind::User),
        (assistant(vec![], vec![]), Kind::Nothing),
        (
            assistant(vec![], vec![call("", "b c", "")]),
            Kind::Assistant(vec![call_of("_", "b_c")]),
        ),
    ] {
        assert_eq!(blocks(&message).1, expected);
    }
}

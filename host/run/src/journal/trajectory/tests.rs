//! The shape that peers' tools open, and back.

use serde_json::json;

use super::*;
use crate::journal::{Event, JournalFile, MemoryJournal, read};
use mswea_core::{Action, CONTENT_LIST, Journal, Object, Output, Part, Reply, ToolCall, Usage};

fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap()
}

fn query(query: u32) -> Event {
    Event::QueryStarted { query, view: None }
}

/// A run with one tool call, one malformed reply, and a submission.
pub(super) fn events() -> Vec<Event> {
    let mut call = Reply {
        message: Message::new("assistant", ""),
        usage: Some(Usage {
            input_tokens: 100,
            output_tokens: 7,
            ..Usage::default()
        }),
        response: Some(json!({"id": "r1", "choices": []})),
        ..Reply::default()
    };
    call.message.content = vec![
        Part::Reasoning {
            text: "hm".into(),
            extra: Object::new(),
        },
        Part::Opaque {
            format: "openai-chat".into(),
            data: json!({"reasoning_content": "hm", "refusal": null, "role": "not ours"}),
        },
    ];
    call.message.tool_calls = vec![ToolCall {
        id: "c1".into(),
        name: "bash".into(),
        arguments: "{\"command\": \"ls\"}".into(),
        extra: object(json!({"openai-chat": {"index": 0}})),
    }];
    let action = Action {
        command: "ls".into(),
        tool_call_id: Some("c1".into()),
        ..Action::default()
    };
    let mut seen = Message::new("tool", "<returncode>0</returncode>");
    seen.tool_call_id = Some("c1".into());
    seen.extra = object(json!({
        "raw_output": "é\n", "returncode": 0, "timestamp": 3.5, "exception_info": "",
    }));
    let mut feedback = Message::new("user", "no tool call");
    feedback.extra =
        object(json!({"interrupt_type": "FormatError", "cost": 0.5, "response": null}));
    vec![
        Event::RunStarted {
            format: crate::journal::FORMAT.into(),
            run_id: "run-1".into(),
            host_version: "0.1.0".into(),
            task: "fix it".into(),
            config: json!({
                "agent": {"step_limit": 0},
                "model": {"model_name": "openai/x"},
                "environment": {"environment_class": "local", "cwd": "/w"},
                "parser": "toolcall",
            }),
            plugins: json!([
                {"name": "parsers/toolcall", "kind": "action-parser", "digest": "sha256:1"},
                {"name": "models/openai", "kind": "model-adapter", "digest": "sha256:2"},
            ]),
            parent: None,
        },
        Event::Opening {
            messages: vec![
                Message::new("system", "be good"),
                Message::new("user", "fix it"),
            ],
        },
        query(1),
        Event::Reply {
            reply: Reply::default(),
            cost: Some(0.5),
            timestamp: 1.0,
        },
        Event::Rejected {
            code: "no-tool-calls".into(),
            message: "m".into(),
            feedback: Some(feedback),
            is_fault: false,
            requery: None,
        },
        query(2),
        Event::Reply {
            reply: call,
            cost: Some(0.25),
            timestamp: 2.5,
        },
        Event::Accepted {
            actions: vec![action.clone()],
        },
        Event::Action { index: 0, action },
        Event::Output {
            index: 0,
            output: Output {
                output: "é\n".into(),
                ..Output::default()
            },
            timestamp: 3.5,
        },
        Event::Observed {
            messages: vec![seen],
        },
        Event::Salvaged {
            output: Output {
                output: "diff".into(),
                ..Output::default()
            },
        },
        Event::RunEnded {
            exit_status: "Submitted".into(),
            submission: "patch\n".into(),
            cost: Some(0.75),
            queries: 2,
            usage: Usage::default(),
            extra: Object::new(),
            message: None,
        },
    ]
}

fn records(events: &[Event]) -> Vec<Record> {
    let journal = MemoryJournal::new();
    for event in events {
        journal.record(event).unwrap();
    }
    let mut records = journal.records();
    for record in &mut records {
        record.t = 10.5;
    }
    records
}

#[test]
fn has_the_documented_shape() {
    let mut trajectory = from_journal(&records(&events()));
    set_journal(&mut trajectory, Path::new("/o/events.jsonl"));
    let expected = include_str!("expected.traj.json");
    assert_eq!(to_string(&trajectory), expected.trim_end());
}

#[test]
fn a_killed_run_has_one_too() {
    let all = events();
    for cut in 0..all.len() {
        let trajectory = from_journal(&records(&all[..cut]));
        assert_eq!(trajectory["trajectory_format"], FORMAT);
        assert_eq!(trajectory["info"]["mswea"]["complete"], false);
        assert_eq!(trajectory["info"]["exit_status"], "");
        messages_from_trajectory(&trajectory).unwrap();
    }
}

/// What the loop writes at its end, and what a file gives after its host was killed.
#[test]
fn is_the_same_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let journal = JournalFile::create(&path).unwrap();
    for event in &events() {
        journal.record(event).unwrap();
    }
    let mut from_file = read(&path).unwrap().records;
    for record in &mut from_file {
        record.t = 10.5;
    }
    assert_eq!(from_journal(&from_file), from_journal(&records(&events())));
}

#[test]
fn messages_come_back() {
    let trajectory = from_journal(&records(&events()));
    let text = to_string(&trajectory);
    let back = messages_from_trajectory(&serde_json::from_str(&text).unwrap()).unwrap();
    let expected = fold(&records(&events())).messages;
    let mut expected: Vec<Message> = expected.iter().map(|it| (**it).clone()).collect();
    // the one thing that an object can't say twice
    if let Part::Opaque { data, .. } = &mut expected[3].content[1] {
        data.as_object_mut().unwrap().shift_remove("role");
    }
    assert_eq!(back, expected);
    let bare = trajectory["messages"].clone();
    assert_eq!(messages_from_trajectory(&bare).unwrap(), expected);
}

#[test]
fn neutral_messages_survive() {
    let image = Part::Image {
        url: "data:image/png;base64,AA==".into(),
        extra: object(json!({"detail": "low"})),
    };
    let foreign = Part::Opaque {
        format: "anthropic-messages".into(),
        data: json!({"type": "server_tool_use", "id": "s"}),
    };
    let with = |role: &str, content: Vec<Part>| Message {
        role: role.into(),
        content,
        ..Message::default()
    };
    let mut tool = with(
        "tool",
        vec![Part::text("a"), image.clone(), foreign.clone()],
    );
    tool.tool_call_id = Some("c".into());
    let list = |role: &str, content: Vec<Part>| {
        let mut message = with(role, content);
        message.extra.insert(CONTENT_LIST.into(), json!(true));
        message
    };
    let mut tagged = with("user", vec![Part::text("x")]);
    tagged.extra.insert("tags".into(), json!(["keep"]));
    let two = list("system", vec![Part::text("a"), Part::text("b")]);
    let mut nothing = with("user", vec![]);
    nothing.extra = object(json!({"content_list": true, "returncode": 0}));
    let mut calls = with("assistant", vec![]);
    calls.tool_calls = vec![ToolCall {
        id: "1".into(),
        name: "bash".into(),
        arguments: "not json".into(),
        extra: object(json!({"other": {"k": 1}, "openai-chat": {"index": 1, "z": null}})),
    }];
    for message in [
        with("system", vec![Part::text("")]),
        with(
            "user",
            vec![Part::text("a"), image.clone(), Part::text("b")],
        ),
        with("user", vec![image]),
        list("system", vec![Part::text("")]),
        list("user", vec![Part::text("a"), Part::text("b")]),
        list("user", vec![]),
        with("assistant", vec![Part::text("a"), foreign]),
        tool,
        tagged,
        calls,
        two,
        nothing,
    ] {
        let encoded = chat::encode(message.clone());
        assert_eq!(chat::decode(&encoded).unwrap(), message, "{encoded}");
    }
}

/// Shapes that other programs write.
#[test]
fn foreign_messages_are_read() {
    for (value, text) in [
        (json!({"role": "user", "content": "x", "extra": null}), "x"),
        (
            json!({"role": "assistant", "content": null, "tool_calls": null}),
            "",
        ),
        (
            json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            "ab",
        ),
        (
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]}),
            "q",
        ),
        (
            json!({"content": "z", "role": "assistant", "tool_calls": [{"function": {"name": "bash", "arguments": {"command": "ls"}}}], "function_call": null}),
            "z",
        ),
    ] {
        assert_eq!(chat::decode(&value).unwrap().text(), text, "{value}");
    }
    let decoded = chat::decode(&json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "1", "function": {"name": "bash", "arguments": {"command": "ls"}}},
    ]}));
    assert_eq!(
        decoded.unwrap().tool_calls[0].arguments,
        "{\"command\":\"ls\"}"
    );
    for (value, expected) in [
        (json!({"messages": {}}), "no list `messages` in it"),
        (json!("x"), "no list `messages` in it"),
        (
            json!([{"role": "user", "content": "x"}, 5]),
            "message 1: it is no object",
        ),
        (json!([{"content": "x"}]), "message 0: it has no `role`"),
        (
            json!([{"role": "user", "content": 5}]),
            "message 0: `content` is neither",
        ),
        (
            json!([{"role": "user", "content": [{"type": "audio"}]}]),
            "message 0: a part of type `audio`",
        ),
        (
            json!([{"type": "reasoning", "summary": []}]),
            "message 0: a message of type `reasoning` can't be read",
        ),
        (
            json!([{"type": "function_call_output", "output": 5}]),
            "message 0: `content` is neither",
        ),
    ] {
        let error = messages_from_trajectory(&value).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn text_is_as_python_writes_it() {
    let vectors: Value = serde_json::from_str(include_str!("python.json")).unwrap();
    let vectors = vectors.as_array().unwrap();
    assert!(vectors.len() > 10);
    for vector in vectors {
        assert_eq!(
            to_string(&vector["value"]),
            vector["text"].as_str().unwrap()
        );
    }
}

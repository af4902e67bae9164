//! The shape that peers' tools open, and back.

use serde_json::json;

use std::path::Path;

use serde_json::Value;

use crate::state::fold;
use mswea_core::{Action, Event, Journal, Message, Object, Output, Part, Reply, ToolCall, Usage};
use mswea_record::journal::{JournalFile, MemoryJournal, Record, read};
use mswea_record::trajectory::{FORMAT, messages_from_trajectory, set_journal, to_string};

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
    let mut feedback = Message::new("user", "no tool call");
    feedback.extra =
        object(json!({"interrupt_type": "FormatError", "cost": 0.5, "response": null}));
    vec![
        Event::RunStarted {
            format: mswea_record::journal::FORMAT.into(),
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
            shown: vec![Some(0)],
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
    let mut trajectory = fold(&records(&events())).into_trajectory();
    set_journal(&mut trajectory, Path::new("/o/events.jsonl"));
    let expected = include_str!("expected.traj.json");
    assert_eq!(to_string(&trajectory), expected.trim_end());
}

#[test]
fn a_killed_run_has_one_too() {
    let all = events();
    for cut in 0..all.len() {
        let trajectory = fold(&records(&all[..cut])).into_trajectory();
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
    assert_eq!(
        fold(&from_file).into_trajectory(),
        fold(&records(&events())).into_trajectory()
    );
}

#[test]
fn messages_come_back() {
    let trajectory = fold(&records(&events())).into_trajectory();
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

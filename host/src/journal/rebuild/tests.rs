//! The list and the state against a model of the loop that keeps its own.

use serde_json::json;

use super::*;
use crate::journal::{MemoryJournal, read_bytes};
use crate::roles::{ErrorClass, Journal};

fn records(events: &[Event]) -> Vec<Record> {
    let journal = MemoryJournal::new();
    for event in events {
        journal.record(event).unwrap();
    }
    journal.records()
}

fn action(command: &str) -> Action {
    Action {
        command: command.into(),
        ..Action::default()
    }
}

fn reply(text: &str, input: u64) -> Reply {
    Reply {
        message: Message::new("assistant", text),
        usage: Some(Usage {
            input_tokens: input,
            ..Usage::default()
        }),
        response: Some(json!({"id": text})),
        ..Reply::default()
    }
}

#[test]
fn an_accepted_reply_carries_what_the_format_wants() {
    let mut reply = reply("x", 1);
    reply.message.extra.insert("tags".into(), json!(["t"]));
    reply.message.extra.insert("cost".into(), json!("not ours"));
    let actions = [
        Action {
            command: "ls".into(),
            tool_call_id: Some("c1".into()),
            ..Action::default()
        },
        action("pwd"),
    ];
    let message = accepted_message(reply.clone(), &actions, Some(0.25), 12.5);
    assert_eq!(
        Value::from(message.extra).to_string(),
        r#"{"actions":[{"command":"ls","tool_call_id":"c1"},{"command":"pwd"}],"response":{"id":"x"},"cost":0.25,"timestamp":12.5,"mswea":{"usage":{"input_tokens":1,"cache_read_tokens":0,"cache_write_tokens":0,"output_tokens":0,"reasoning_tokens":0}},"tags":["t"]}"#
    );
    assert_eq!(
        accepted_message(reply, &[], None, 0.0).extra["cost"],
        json!(0.0)
    );
}

/// Random runs, cut at any event: the rebuilt list is what the loop would have held, also
/// after a way through the file format.
#[test]
fn random_runs_rebuild() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut events = Vec::new();
        // what the loop holds after each event
        let mut list: Vec<Message> = Vec::new();
        let mut lists = Vec::new();
        let push =
            |events: &mut Vec<Event>, lists: &mut Vec<Vec<Message>>, list: &Vec<Message>, event| {
                events.push(event);
                lists.push(list.clone());
            };
        for query in 1..=random.u32(1..8) {
            push(
                &mut events,
                &mut lists,
                &list,
                Event::QueryStarted { query },
            );
            while random.u8(0..4) == 0 {
                let retry = Event::Retry {
                    class: ErrorClass::Overloaded,
                    message: "busy".into(),
                    attempt: 1,
                    wait_seconds: random.f64(),
                };
                push(&mut events, &mut lists, &list, retry);
            }
            if random.u8(0..6) == 0 {
                let failed = Event::QueryFailed {
                    class: ErrorClass::Network,
                    message: "gone".into(),
                    usage: None,
                    cost: None,
                };
                push(&mut events, &mut lists, &list, failed);
                continue;
            }
            let text: String = (0..random.usize(0..9)).map(|_| random.char(..)).collect();
            let (reply, timestamp) = (reply(&text, 5), random.f64() * 2e9);
            let cost = random.bool().then(|| random.f64());
            let event = Event::Reply {
                reply: reply.clone(),
                cost,
                timestamp,
            };
            push(&mut events, &mut lists, &list, event);
            if random.u8(0..4) == 0 {
                let rejected = Event::Rejected {
                    code: "c".into(),
                    message: "m".into(),
                };
                push(&mut events, &mut lists, &list, rejected);
                let message = Message::new("user", "try again");
                list.push(message.clone());
                push(&mut events, &mut lists, &list, Event::Message { message });
                continue;
            }
            let actions: Vec<Action> = (0..random.usize(0..4))
                .map(|n| action(&format!("c{n}")))
                .collect();
            list.push(accepted_message(reply.clone(), &actions, cost, timestamp));
            let accepted = Event::Accepted {
                actions: actions.clone(),
            };
            push(&mut events, &mut lists, &list, accepted);
            for (index, action) in actions.iter().enumerate() {
                let action = Event::Action {
                    index,
                    action: action.clone(),
                };
                push(&mut events, &mut lists, &list, action);
                let output = Event::Output {
                    index,
                    output: Output::default(),
                    timestamp: random.f64(),
                };
                push(&mut events, &mut lists, &list, output);
            }
            for _ in &actions {
                let message = Message::new("user", "seen");
                list.push(message.clone());
                push(&mut events, &mut lists, &list, Event::Message { message });
            }
        }
        let all = records(&events);
        let mut file = Vec::new();
        for record in &all {
            let mut line = json!(record.event);
            line["seq"] = json!(record.seq);
            line["t"] = json!(record.t);
            file.extend(line.to_string().bytes());
            file.push(b'\n');
        }
        let log = read_bytes(&file).unwrap();
        assert_eq!(log.records, all, "seed {seed}");
        for (end, expected) in lists.iter().enumerate() {
            assert_eq!(
                &messages(&log.records[..=end]),
                expected,
                "seed {seed}, event {end}"
            );
        }
    }
}

#[test]
fn state_counts() {
    let charged = |text: &str, cost| Event::Reply {
        reply: reply(text, 10),
        cost,
        timestamp: 1.0,
    };
    let mut events = vec![
        Event::RunStarted {
            format: "f".into(),
            run_id: "id".into(),
            host_version: "0.1.0".into(),
            task: "do".into(),
            config: json!({"agent": {}}),
            plugins: json!([]),
        },
        Event::QueryStarted { query: 1 },
        Event::Retry {
            class: ErrorClass::RateLimited,
            message: String::new(),
            attempt: 1,
            wait_seconds: 1.0,
        },
        charged("bad", Some(0.5)),
        Event::Rejected {
            code: "c".into(),
            message: "m".into(),
        },
    ];
    let now = state(&records(&events));
    assert_eq!(
        (
            now.run_id.as_str(),
            now.task.as_str(),
            now.queries,
            now.retries
        ),
        ("id", "do", 1, 1)
    );
    assert_eq!(
        (
            now.cost,
            now.cost_unknown,
            now.usage.input_tokens,
            now.format_errors
        ),
        (0.5, false, 10, 1)
    );
    assert!(matches!(now.pending, Pending::Rejected { .. }));

    events.push(Event::Message {
        message: Message::new("user", "feedback"),
    });
    assert_eq!(state(&records(&events)).pending, Pending::Nothing);
    events.push(Event::QueryStarted { query: 2 });
    assert_eq!(state(&records(&events)).pending, Pending::Query);
    events.push(Event::QueryFailed {
        class: ErrorClass::Network,
        message: String::new(),
        usage: None,
        cost: None,
    });
    assert!(!state(&records(&events)).cost_unknown);
    events.push(Event::AskReply {
        processor: "p".into(),
        reply: reply("summary", 3),
        cost: Some(0.25),
    });
    let now = state(&records(&events));
    assert_eq!(
        (now.cost, now.usage.input_tokens, now.pending),
        (0.75, 13, Pending::Nothing)
    );
    events.push(charged("good", None));
    let now = state(&records(&events));
    assert!(now.cost_unknown);
    assert!(matches!(now.pending, Pending::Reply { cost: None, .. }));
}

#[test]
fn an_unfinished_action_is_found() {
    let mut events = vec![
        Event::Reply {
            reply: reply("x", 1),
            cost: None,
            timestamp: 1.0,
        },
        Event::Accepted {
            actions: vec![action("a"), action("b"), action("c")],
        },
        Event::Action {
            index: 0,
            action: action("a"),
        },
        Event::Output {
            index: 0,
            output: Output::default(),
            timestamp: 5.0,
        },
        Event::Action {
            index: 1,
            action: action("b, rewritten"),
        },
    ];
    let Pending::Step(step) = state(&records(&events)).pending else {
        panic!("no open step")
    };
    assert_eq!(step.actions.len(), 3);
    assert_eq!(step.outputs, [Some((Output::default(), 5.0)), None, None]);
    assert_eq!(step.interrupted, Some((1, action("b, rewritten"))));
    events.push(Event::Output {
        index: 1,
        output: Output::default(),
        timestamp: 6.0,
    });
    events.push(Event::Message {
        message: Message::new("user", "seen"),
    });
    let Pending::Step(step) = state(&records(&events)).pending else {
        panic!("no open step")
    };
    assert_eq!((step.interrupted, step.observed), (None, 1));
    events.push(Event::RunEnded {
        exit_status: "Submitted".into(),
        submission: "s".into(),
        cost: None,
        queries: 1,
        usage: Usage::default(),
        extra: Object::new(),
    });
    // What its shadows add afterwards is no part of the run.
    events.push(Event::ShadowEnded {
        plugin: "p".into(),
        kind: "action-parser".into(),
        beside: "q".into(),
        summary: json!({}),
    });
    let all = records(&events);
    let now = state(&all);
    assert_eq!(now.pending, Pending::Nothing);
    assert_eq!(now.ended.as_ref().unwrap().exit_status, "Submitted");
    assert_eq!(now, state(&all[..all.len() - 1]));
}

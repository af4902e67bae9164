//! Compares the state with a simple model of the loop that keeps its own list.

use serde_json::json;

use super::*;
use crate::state::fold;
use mswea_core::{Action, End, ErrorClass, Event, Journal, Usage};
use mswea_record::journal::{MemoryJournal, Record, read_bytes};

fn records(events: &[Event]) -> Vec<Record> {
    let journal = MemoryJournal::new();
    for event in events {
        journal.record(event).unwrap();
    }
    journal.records()
}

fn plain(state: &State) -> Vec<Message> {
    state.messages.iter().map(|it| (**it).clone()).collect()
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

/// Random runs, cut at any event: the list that is computed from the journal equals the list of the
/// loop, also after writing and reading the file format.
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
                Event::QueryStarted { query, view: None },
            );
            while random.u8(0..4) == 0 {
                let retry = Event::Retry {
                    class: ErrorClass::Overloaded.into(),
                    message: "busy".into(),
                    attempt: 1,
                    wait_seconds: random.f64(),
                };
                push(&mut events, &mut lists, &list, retry);
            }
            if random.u8(0..6) == 0 {
                let failed = Event::QueryFailed {
                    class: ErrorClass::Network.into(),
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
                let feedback = Message::new("user", "try again");
                list.push(feedback.clone());
                let rejected = Event::Rejected {
                    code: "c".into(),
                    message: "m".into(),
                    feedback: Some(feedback),
                    is_fault: false,
                    requery: None,
                };
                push(&mut events, &mut lists, &list, rejected);
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
            let messages = vec![Message::new("user", "seen"); actions.len()];
            list.extend(messages.clone());
            push(
                &mut events,
                &mut lists,
                &list,
                Event::Observed {
                    messages,
                    shown: Vec::new(),
                },
            );
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
                plain(&fold(&log.records[..=end])),
                *expected,
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
            parent: None,
        },
        Event::QueryStarted {
            query: 1,
            view: None,
        },
        Event::Retry {
            class: ErrorClass::RateLimited.into(),
            message: String::new(),
            attempt: 1,
            wait_seconds: 1.0,
        },
        charged("bad", Some(0.5)),
        Event::Rejected {
            code: "c".into(),
            message: "m".into(),
            feedback: Some(Message::new("user", "feedback")),
            is_fault: false,
            requery: None,
        },
    ];
    let now = fold(&records(&events));
    assert_eq!(
        (
            now.run_id.as_str(),
            now.task.as_str(),
            now.account.queries,
            now.retries
        ),
        ("id", "do", 1, 1)
    );
    assert_eq!(
        (
            now.account.cost,
            now.account.cost_unknown,
            now.account.usage.input_tokens,
            now.account.format_errors
        ),
        (0.5, false, 10, 1)
    );
    assert_eq!((now.phase, now.messages.len()), (Phase::Idle, 1));

    events.push(Event::QueryStarted {
        query: 2,
        view: None,
    });
    assert_eq!(fold(&records(&events)).phase, Phase::Querying);
    events.push(Event::QueryFailed {
        class: ErrorClass::Network.into(),
        message: String::new(),
        usage: None,
        cost: None,
    });
    assert!(!fold(&records(&events)).account.cost_unknown);
    events.push(Event::AskReply {
        processor: "p".into(),
        reply: reply("summary", 3),
        cost: Some(0.25),
    });
    let now = fold(&records(&events));
    assert_eq!(
        (now.account.cost, now.account.usage.input_tokens, now.phase),
        (0.75, 13, Phase::Querying)
    );
    // For every end, the query is sent again with the same number.
    for end in [
        End::Interrupted,
        End::Query {
            class: ErrorClass::Network.into(),
            message: String::new(),
            status: None,
        },
    ] {
        let again = [Event::Ending { end }, Event::Reopened { has_ended: true }];
        let reopened = fold(&records(&[&events[..], &again].concat()));
        assert_eq!((reopened.account.queries, reopened.phase), (1, Phase::Idle));
    }
    events.push(charged("good", None));
    let now = fold(&records(&events));
    assert!(now.account.cost_unknown);
    assert!(matches!(&now.phase, Phase::Replied(paid) if paid.cost.is_none()));
}

#[test]
fn an_unfinished_action_is_found() {
    let mut events = vec![
        Event::RunStarted {
            format: "f".into(),
            run_id: "id".into(),
            host_version: "0.1.0".into(),
            task: "do".into(),
            config: json!({}),
            plugins: json!([]),
            parent: None,
        },
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
    let Phase::Acting(step) = fold(&records(&events)).phase else {
        panic!("no open step")
    };
    let stages: Vec<&Stage> = step.slots.iter().map(|slot| &slot.stage).collect();
    let done = Stage::Done(Box::new((Output::default(), 5.0)));
    assert_eq!(stages, [&done, &Stage::Running, &Stage::Proposed]);
    assert_eq!(step.slots[1].judged(), &action("b, rewritten"));
    assert_eq!(step.open().map(|(index, _)| index), Some(1));
    events.push(Event::Output {
        index: 1,
        output: Output::default(),
        timestamp: 6.0,
    });
    let Phase::Acting(step) = fold(&records(&events)).phase else {
        panic!("no open step")
    };
    assert_eq!(step.open().map(|(index, _)| index), Some(2));
    events.push(Event::Observed {
        messages: vec![Message::new("user", "seen")],
        shown: Vec::new(),
    });
    events.push(Event::RunEnded {
        exit_status: "Submitted".into(),
        submission: "s".into(),
        cost: None,
        queries: 1,
        usage: Usage::default(),
        extra: Object::new(),
        message: None,
    });
    // Later events of shadows are not part of the run.
    events.push(Event::ShadowEnded {
        plugin: "p".into(),
        kind: "action-parser".into(),
        beside: "q".into(),
        summary: json!({}),
    });
    let all = records(&events);
    let now = fold(&all);
    assert_eq!(now.phase, Phase::Idle);
    assert_eq!(now.ended.as_ref().unwrap().exit_status, "Submitted");
    assert_eq!(now, fold(&all[..all.len() - 1]));
}

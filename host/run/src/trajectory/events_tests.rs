use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::tests::events;
use crate::state::fold;
use mswea_core::{End, Event, Message, Reply, Usage};
use mswea_record::journal::Record;
use mswea_record::trajectory::{
    is_of_mini, is_trajectory, messages_from_trajectory, records_from_trajectory,
};

/// The trajectories that mini-swe-agent has written for `tests/side-by-side`.
fn recorded() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/side-by-side/recorded");
    let files = fs::read_dir(folder).unwrap();
    let read = files.filter_map(|file| {
        let path = file.unwrap().path();
        let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let trajectory = value.pointer_mut("/result/trajectory")?.take();
        is_of_mini(&trajectory).then(|| (path.display().to_string(), trajectory))
    });
    read.collect()
}

/// A message without what the recordings leave out, and the response, which is compared nowhere else.
fn shown(message: &Message) -> Value {
    let mut value = json!(message);
    // Litellm writes it into each reply.
    for part in value["content"].as_array_mut().unwrap() {
        let Some(data) = part.get_mut("data").and_then(Value::as_object_mut) else {
            continue;
        };
        if data.get("function_call").is_some_and(Value::is_null) {
            data.shift_remove("function_call");
        }
    }
    if let Some(extra) = value.get_mut("extra").and_then(Value::as_object_mut) {
        for key in ["timestamp", "cost", "response", "mswea"] {
            extra.remove(key);
        }
        if extra.is_empty() {
            value.as_object_mut().unwrap().remove("extra");
        }
    }
    value
}

#[test]
fn the_events_of_every_recording_amount_to_its_messages() {
    let all = recorded();
    assert!(all.len() > 100, "{}", all.len());
    for (name, trajectory) in all {
        let records = records_from_trajectory(&trajectory, "mini").unwrap();
        let state = fold(&records);
        if name.contains("format_command_type") {
            // Its commands are numbers, which are no actions here.
            continue;
        }
        let wanted = messages_from_trajectory(&trajectory).unwrap();
        let wanted: Vec<Value> = wanted.iter().map(shown).collect();
        let found: Vec<Value> = state.messages.iter().map(|it| shown(it)).collect();
        assert_eq!(found, wanted, "{name}");
        let info = &trajectory["info"];
        // A query that failed has no message.
        let calls = info["model_stats"]["api_calls"].as_u64().unwrap();
        let failed = calls.checked_sub(state.account.queries.into());
        assert!(matches!(failed, Some(0 | 1)), "{name}: {failed:?}");
        let cost = info["model_stats"]["instance_cost"].as_f64().unwrap();
        assert!((state.account.cost - cost).abs() < 1e-9, "{name}");
        let ended = state.ended.unwrap();
        assert_eq!(json!(ended.exit_status), info["exit_status"], "{name}");
        assert_eq!(json!(ended.submission), info["submission"], "{name}");
        let submits = ended.exit_status == "Submitted";
        assert_eq!(state.end == Some(End::Submitted), submits, "{name}");
    }
}

#[test]
fn what_a_person_did_stays_a_message() {
    let said = json!({"role": "user", "content": "Interrupted by user: no",
                      "extra": {"interrupt_type": "UserInterruption"}});
    let ran = json!({"role": "user", "content": "User command: ls",
                     "extra": {"actions": [{"command": "ls"}]}});
    let trajectory = json!({"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "t"},
        said, ran,
        {"role": "user", "content": "a", "extra": {"returncode": 0, "raw_output": "a"}},
    ]});
    let records = records_from_trajectory(&trajectory, "mini").unwrap();
    let state = fold(&records);
    assert_eq!((state.messages.len(), state.account.queries), (5, 0));
    assert_eq!(state.task, "t");
    let outputs = records.iter().map(|it| &it.event);
    assert_eq!(
        outputs
            .filter(|it| matches!(it, Event::Output { .. }))
            .count(),
        0
    );
}

#[test]
fn an_older_one_has_steps_without_actions() {
    let trajectory = json!({"trajectory_format": "mini-swe-agent-1", "info": {}, "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "t"},
        {"role": "assistant", "content": "```bash\nls\n```"},
        {"role": "user", "content": "<output>a</output>"},
        {"role": "assistant", "content": "```bash\nls\n```"},
    ]});
    let state = fold(&records_from_trajectory(&trajectory, "mini").unwrap());
    assert_eq!((state.messages.len(), state.account.queries), (5, 2));
    assert!(state.step().is_none());
}

/// A trajectory of this host amounts to what its journal does, but for what only the journal has.
#[test]
fn one_of_this_host_is_made_again_from_its_events() {
    let mut events = events();
    events.retain(|it| !matches!(it, Event::Salvaged { .. }));
    let answer = |cost| Event::AskReply {
        processor: "p".into(),
        reply: Reply {
            usage: Some(Usage {
                input_tokens: 40,
                reasoning_tokens: 2,
                ..Usage::default()
            }),
            ..Reply::default()
        },
        cost,
    };
    let end = events.len() - 1;
    let cases = [
        (events.clone(), Some(0.75)),
        // Billed, and without a message.
        (
            [&events[..2], &[answer(Some(0.125))], &events[2..]].concat(),
            Some(0.875),
        ),
        ([&events[..2], &[answer(None)], &events[2..]].concat(), None),
        // Killed.
        (events[..end].to_vec(), Some(0.75)),
    ];
    for (mut events, cost) in cases {
        for event in &mut events {
            if let Event::RunEnded { extra, .. } = event {
                extra.insert("message".into(), "why".into());
            }
        }
        let records: Vec<Record> = (1..)
            .zip(&events)
            .map(|(seq, event)| Record {
                seq,
                t: 2.5 + seq as f64,
                event: event.clone(),
            })
            .collect();
        let before = fold(&records);
        let trajectory = fold(&records).into_trajectory();
        assert!(is_trajectory(&trajectory) && !is_of_mini(&trajectory));
        let read = records_from_trajectory(&trajectory, "file").unwrap();
        let state = fold(&read);
        assert_eq!(state.account.known_cost(), cost);
        assert_eq!(state.account.usage, before.account.usage);
        assert_eq!(state.account.queries, before.account.queries);
        let mut again = fold(&read).into_trajectory();
        if before.ended.is_none() {
            let ended = &mut again["info"]["mswea"]["ended"];
            *ended = trajectory["info"]["mswea"]["ended"].clone();
        }
        assert_eq!(again, trajectory);
    }
}

#[test]
fn the_cost_of_an_older_one_is_that_of_its_head() {
    let trajectory = json!({"trajectory_format": "mini-swe-agent-1",
    "info": {"model_stats": {"instance_cost": 0.5, "api_calls": 1}, "exit_status": "Submitted", "submission": "d"},
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "t"},
        {"role": "assistant", "content": "```bash\nls\n```", "extra": {"response": {
            "usage": {"prompt_tokens": 7, "completion_tokens": 2}}}},
    ]});
    let records = records_from_trajectory(&trajectory, "mini").unwrap();
    let state = fold(&records);
    assert_eq!(
        (state.account.cost, state.account.usage.input_tokens),
        (0.5, 7)
    );
    let Some(Event::RunEnded {
        cost,
        exit_status,
        submission,
        ..
    }) = records.last().map(|it| &it.event)
    else {
        panic!("no end: {records:?}");
    };
    assert_eq!(
        (*cost, exit_status.as_str(), submission.as_str()),
        (Some(0.5), "Submitted", "d")
    );
}

#[test]
fn calls_with_the_same_id_have_their_answers_in_turn() {
    let (_, trajectory) = recorded()
        .into_iter()
        .find(|(name, _)| name.ends_with("/toolcall_ids.json"))
        .unwrap();
    let records = records_from_trajectory(&trajectory, "mini").unwrap();
    let outputs = records.iter().filter_map(|it| match &it.event {
        Event::Output { output, .. } => Some(output.output.trim()),
        _ => None,
    });
    let outputs: Vec<&str> = outputs.take(4).collect();
    assert_eq!(outputs, ["1", "2", "3", "4"]);
}

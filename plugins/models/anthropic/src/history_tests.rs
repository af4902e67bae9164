//! Test vectors of turns, and random changes compared with encoding from scratch.

use super::*;
use crate::FORMAT;
use crate::configured;
use mswea_sdk::types::Message;
use mswea_wire::Format as _;
use mswea_wire::testing::{Dice, assistant, call, image, message, opaque, text, tool_message};
use serde_json::{Value, json};
use std::time::Instant;

fn apply(history: &mut History, change: &Change) -> Result<(), usize> {
    history.apply(&configured(&json!({})), change)
}

fn encoded(messages: Vec<Message>) -> History {
    let mut history = History::default();
    apply(&mut history, &Change::all(messages)).unwrap();
    history
}

fn list(bytes: &[u8]) -> Value {
    let text = format!("[{}]", std::str::from_utf8(bytes).unwrap());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn user(words: &str) -> Message {
    message("user", vec![text(words)])
}

fn said(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn used(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {}})
}

fn result(id: &str, output: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": output})
}

fn missing(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": NO_RESULT, "is_error": true})
}

fn calls(ids: &[&str]) -> Message {
    let calls = ids.iter().map(|id| call(id, "bash", "{}")).collect();
    assistant(vec![text("x")], calls)
}

#[test]
fn messages_become_turns() {
    let (u, a) = ("user", "assistant");
    let vectors = [
        (vec![], vec![], vec![]),
        (
            vec![message("system", vec![text("s")]), user("hi")],
            vec![said("s")],
            vec![(u, vec![said("hi")])],
        ),
        // Several instructions; a late one becomes a user's message.
        (
            vec![
                message("system", vec![text("s"), text("t")]),
                message("user", vec![]),
                message("developer", vec![text("d")]),
                user("hi"),
                message("system", vec![text("late")]),
            ],
            vec![said("s"), said("t"), said("d")],
            vec![(u, vec![said("hi"), said("late")])],
        ),
        // Several results in one turn, with a user's text.
        (
            vec![
                user("hi"),
                calls(&["c1", "c2"]),
                tool_message("c1", "one"),
                tool_message("c2", "two"),
                user("more"),
                user("again"),
                calls(&["c3"]),
                tool_message("c3", ""),
            ],
            vec![],
            vec![
                (u, vec![said("hi")]),
                (a, vec![said("x"), used("c1"), used("c2")]),
                (
                    u,
                    vec![
                        result("c1", "one"),
                        result("c2", "two"),
                        said("more"),
                        said("again"),
                    ],
                ),
                (a, vec![said("x"), used("c3")]),
                (u, vec![result("c3", "")]),
            ],
        ),
        // The results are first, whatever messages are between them.
        (
            vec![
                calls(&["c1", "c2"]),
                tool_message("c1", "one"),
                user("see"),
                tool_message("c2", "two"),
            ],
            vec![],
            vec![
                (a, vec![said("x"), used("c1"), used("c2")]),
                (
                    u,
                    vec![result("c1", "one"), result("c2", "two"), said("see")],
                ),
            ],
        ),
        // Every call is answered, at the end of the history too.
        (
            vec![
                calls(&["c1", "c2"]),
                tool_message("c2", "two"),
                user("u"),
                calls(&["c3"]),
            ],
            vec![],
            vec![
                (a, vec![said("x"), used("c1"), used("c2")]),
                (u, vec![result("c2", "two"), missing("c1"), said("u")]),
                (a, vec![said("x"), used("c3")]),
                (u, vec![missing("c3")]),
            ],
        ),
        // A result without its call, and a second result for the same call, become text.
        (
            vec![
                user("u"),
                tool_message("c0", "lost"),
                tool_message("c0", " "),
                calls(&["c1"]),
                tool_message("c1", "one"),
                tool_message("c1", "twice"),
            ],
            vec![],
            vec![
                (u, vec![said("u"), said("lost"), said(NO_OUTPUT)]),
                (a, vec![said("x"), used("c1")]),
                (u, vec![result("c1", "one"), said("twice")]),
            ],
        ),
        // Consecutive messages of one role are one turn; empty messages are left out.
        (
            vec![
                user("a"),
                assistant(vec![text("b")], vec![]),
                message("user", vec![text(" \n")]),
                message("exit", vec![text("no")]),
                assistant(vec![text("c ")], vec![call("c1", "bash", "{}")]),
                message("user", vec![]),
                user("d"),
            ],
            vec![],
            vec![
                (u, vec![said("a")]),
                (a, vec![said("b"), said("c "), used("c1")]),
                (u, vec![missing("c1"), said("d")]),
            ],
        ),
    ];
    for (messages, system, turns) in vectors {
        let history = encoded(messages.clone());
        let turns: Vec<Value> = turns
            .into_iter()
            .map(|(role, content)| json!({"role": role, "content": content}))
            .collect();
        assert_eq!(list(history.turns()), json!(turns), "{messages:?}");
        assert_eq!(list(&history.system()), json!(system), "{messages:?}");
        assert_eq!(history.count(), messages.len());
    }
}

#[test]
fn a_change_behind_the_end_is_refused() {
    let mut history = encoded(vec![user("u")]);
    assert_eq!(apply(&mut history, &Change::tail(2, vec![])), Err(1));
    assert_eq!(apply(&mut history, &Change::tail(1, vec![])), Ok(()));
    assert_eq!(apply(&mut history, &Change::tail(0, vec![])), Ok(()));
    assert_eq!(history.turns(), b"");
}

fn marked(mut message: Message) -> Message {
    message.extra = Some(r#"{"cache_control":{"type":"ephemeral"}}"#.to_owned());
    message
}

#[test]
fn the_kept_turns_equal_encoding_from_scratch() {
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let mut history: Vec<Message> = Vec::new();
        let mut kept = History::default();
        for step in 0..30 {
            let start = match dice.roll(3) {
                0 => dice.roll(history.len() + 1),
                1 => history.len().saturating_sub(1),
                _ => history.len(),
            };
            let messages: Vec<Message> = (0..dice.roll(4))
                .map(|i| {
                    let words = format!("{seed} {step} {i} \"ü\n");
                    let id = format!("c{}", dice.roll(4));
                    match dice.roll(11) {
                        10 => {
                            let mut output = tool_message(&id, &words);
                            output.content.push(image("data:image/png;base64,AAAA"));
                            output
                        }
                        0 => user(&words),
                        1 => marked(user(&words)),
                        2 => calls(&[&id, "c9"]),
                        3 => tool_message(&id, &words),
                        4 => marked(tool_message(&id, &words)),
                        5 => message("exit", vec![text(&words)]),
                        6 => message("system", vec![text(&words)]),
                        7 => user(""),
                        8 => tool_message("c9", &words),
                        _ => assistant(
                            vec![opaque(FORMAT, r#"{"type":"thinking","thinking":"t"}"#)],
                            vec![],
                        ),
                    }
                })
                .collect();
            history.truncate(start);
            history.extend(messages.iter().cloned());
            apply(&mut kept, &Change::tail(start, messages)).unwrap();
            let fresh = encoded(history.clone());
            let show = |history: &History| String::from_utf8_lossy(history.turns()).into_owned();
            assert_eq!(show(&kept), show(&fresh), "seed {seed}, step {step}");
            assert_eq!(kept.system(), fresh.system());
            for turns in list(fresh.turns()).as_array().unwrap().windows(2) {
                assert_ne!(turns[0]["role"], turns[1]["role"]);
            }
        }
    }
}

/// Run with `cargo test --release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let step = |number: usize, is_last: bool| {
        let id = format!("toolu_{number}");
        let thinking = json!({"type": "thinking", "thinking": "hm ".repeat(100), "signature": "s".repeat(300)});
        let mut output = tool_message(&id, &"a line of output\n".repeat(60));
        if is_last {
            output = marked(output);
        }
        [
            assistant(
                vec![opaque(FORMAT, &thinking.to_string()), text("I look at it.")],
                vec![call(&id, "bash", r#"{"command": "ls -la /some/where"}"#)],
            ),
            output,
        ]
    };
    let mut messages = vec![message("system", vec![text("s")]), user("the task")];
    messages.extend((0..100).flat_map(|number| step(number, false)));
    messages.extend(step(100, true));
    let mut history = encoded(messages);
    let format = configured(&json!({}));
    let count = 98;
    let (mut laid, mut own, mut copy) = (Vec::new(), Vec::new(), Vec::new());
    for number in 101..101 + count {
        // The old mark is removed, the new one is set.
        let [_, old] = step(number - 1, false);
        let [action, output] = step(number, true);
        let change = Change::tail(history.count() - 1, vec![old, action, output]);
        let start = Instant::now();
        history.apply(&format, &change).unwrap();
        laid.push(start.elapsed());
        let body = format.body(&history, &[]);
        own.push(start.elapsed());
        let start = Instant::now();
        let copied = std::hint::black_box(body.clone());
        copy.push(start.elapsed());
        assert_eq!(copied.len(), body.len());
    }
    laid.sort();
    own.sort();
    copy.sort();
    println!(
        "{} messages, {} bytes: the change {:?}, a step {:?}, copying alone {:?}",
        history.count(),
        history.turns().len(),
        laid[count / 2],
        own[count / 2],
        copy[count / 2]
    );
}

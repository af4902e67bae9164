//! SWE-agent's test vectors, and random changes compared with a plain function of the history.

use super::*;
use mswea_sdk::testing::{Driver, check_fresh_instances, configure};
use std::time::Instant;

fn observation(number: usize) -> [Message; 2] {
    let id = format!("c{number}");
    [
        Message::new("assistant", format!("step {number}")),
        Message::tool(id, format!("output of {number}\nand more\n")),
    ]
}

/// A history with `count` observations, the task being number 0.
fn history(count: usize) -> Vec<Message> {
    let mut messages = vec![
        Message::new("system", "s"),
        Message::new("user", "the task"),
    ];
    messages.extend((1..count).flat_map(observation));
    messages
}

/// The numbers of the observations that are whole.
fn kept(view: &[Message]) -> Vec<usize> {
    view.iter()
        .filter(|message| ["tool", "user"].contains(&message.role.as_str()))
        .enumerate()
        .filter(|(_, message)| !message.text().starts_with("Old environment output"))
        .map(|(number, _)| number)
        .collect()
}

#[test]
fn kept_numbers() {
    for (n, polling, count, expected) in [
        (1, 1, 1, vec![0]),
        (1, 1, 5, vec![0, 4]),
        (3, 1, 8, vec![0, 5, 6, 7]),
        (5, 1, 6, vec![0, 1, 2, 3, 4, 5]),
        (5, 1, 7, vec![0, 2, 3, 4, 5, 6]),
        (5, 3, 8, vec![0, 1, 2, 3, 4, 5, 6, 7]),
        (5, 3, 9, vec![0, 4, 5, 6, 7, 8]),
        (5, 3, 12, vec![0, 7, 8, 9, 10, 11]),
        (2, 5, 4, vec![0, 1, 2, 3]),
        (2, 5, 10, vec![0, 8, 9]),
    ] {
        let mut driver = Driver::<LastNObservations>::new(json!({ "n": n, "polling": polling }));
        let view = driver.apply(Change::all(history(count)));
        assert_eq!(
            kept(view),
            expected,
            "n {n}, polling {polling}, {count} observations"
        );
        // The same history, extended step by step.
        let mut driver = Driver::<LastNObservations>::new(json!({ "n": n, "polling": polling }));
        driver.apply(Change::all(history(1)));
        for number in 1..count {
            driver.apply(Change::tail(2 * number, observation(number).to_vec()));
        }
        assert_eq!(
            kept(driver.view()),
            expected,
            "step by step: {n}, {polling}, {count}"
        );
    }
}

/// SWE-agent's own test: with 3 kept, all but these and the first are elided.
#[test]
fn all_but_the_kept_and_the_first_are_elided() {
    for count in 1..12 {
        let mut driver = Driver::<LastNObservations>::new(json!({ "n": 3 }));
        let whole = kept(driver.apply(Change::all(history(count)))).len();
        assert_eq!(count - whole, count.saturating_sub(3 + 1), "{count}");
    }
}

#[test]
fn demonstrations_are_untouched_and_not_counted() {
    let demo = |mut message: Message| {
        message.extra = Some(r#"{"is_demo":true,"returncode":0}"#.to_owned());
        message
    };
    // In front of the task: a demonstration as one text, and one as messages.
    let mut messages = vec![
        Message::new("system", "s"),
        demo(Message::new("user", "here is how")),
    ];
    messages.extend(observation(7).map(demo));
    messages.extend(observation(8).map(demo));
    let demos = messages.len();
    messages.extend(history(4).drain(1..));
    let mut driver = Driver::<LastNObservations>::new(json!({ "n": 1 }));
    let view = driver.apply(Change::all(messages.clone()));
    assert_eq!(view[..demos], messages[..demos]);
    assert_eq!(kept(&view[demos..]), [0, 3]);

    // A demonstration does not count as the task (number 0), which is never elided.
    let mut messages = vec![demo(Message::new("user", "here is how"))];
    messages.extend((1..3).flat_map(observation));
    let mut driver = Driver::<LastNObservations>::new(json!({ "n": 1 }));
    assert_eq!(driver.apply(Change::all(messages.clone())), messages);
}

#[test]
fn an_old_observation_keeps_its_place() {
    let mut driver = Driver::<LastNObservations>::new(json!({ "n": 1 }));
    let view = driver.apply(Change::all(history(4)));
    assert_eq!(
        view[3],
        Message::tool("c1", "Old environment output: (2 lines omitted)")
    );
    assert_eq!(view[7], observation(3)[1]);
}

#[test]
fn plain_text_observations_count() {
    let mut messages = history(1);
    for text in ["a", "b", "c"] {
        let mut message = Message::new("user", text);
        message.extra = Some(r#"{"returncode":0}"#.to_owned());
        messages.extend([Message::new("assistant", "x"), message]);
    }
    // A message of a user is no observation.
    messages.push(Message::new("user", "please hurry"));
    let mut driver = Driver::<LastNObservations>::new(json!({ "n": 1 }));
    let view = driver.apply(Change::all(messages));
    let texts: Vec<_> = view.iter().map(Message::text).collect();
    let old = "Old environment output: (1 lines omitted)";
    assert_eq!(
        texts,
        [
            "s",
            "the task",
            "x",
            old,
            "x",
            old,
            "x",
            "c",
            "please hurry"
        ]
    );
}

fn tagged(number: usize, tag: &str) -> [Message; 2] {
    let [action, mut output] = observation(number);
    output.extra = Some(json!({ "tags": [tag] }).to_string());
    [action, output]
}

#[test]
fn tags_decide() {
    let mut messages = history(1);
    messages.extend(tagged(1, "keep_output"));
    messages.extend(observation(2));
    messages.extend(observation(3));
    messages.extend(tagged(4, "remove_output"));
    let mut driver = Driver::<LastNObservations>::new(json!({ "n": 2 }));
    assert_eq!(kept(driver.apply(Change::all(messages.clone()))), [0, 1, 3]);

    let config = json!({
        "n": 2,
        "always_keep_output_for_tags": [],
        "always_remove_output_for_tags": ["keep_output"],
    });
    let mut driver = Driver::<LastNObservations>::new(config);
    assert_eq!(kept(driver.apply(Change::all(messages))), [0, 3, 4]);
}

#[test]
fn only_what_turned_is_sent_again() {
    // With 10 observations known, the next is number 10, at 21.
    // With each step: where the change begins, and how many messages it brings.
    for (polling, expected) in [
        (1, [(15, 3), (17, 3), (19, 3)]),
        (3, [(20, 2), (13, 5), (24, 2)]),
    ] {
        let mut driver = Driver::<LastNObservations>::new(json!({ "n": 3, "polling": polling }));
        driver.apply(Change::all(history(10)));
        let starts = [10, 11, 12].map(|number| {
            driver.apply(Change::tail(2 * number, observation(number).to_vec()));
            (driver.last_start(), driver.last_len())
        });
        assert_eq!(starts, expected, "polling {polling}");
    }
}

/// The processor as a plain function of the whole history.
fn plain(messages: &[Message], config: &Value) -> Vec<Message> {
    let mut driver = Driver::<LastNObservations>::new(config.clone());
    driver.apply(Change::all(messages.to_vec())).to_vec()
}

#[test]
fn any_change_gives_the_same_view_as_the_whole_history() {
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for n in 1..4 {
        for polling in 1..5 {
            let config = json!({ "n": n, "polling": polling });
            let mut changes = vec![Change::all(history(2))];
            let mut known = 4;
            for _ in 0..60 {
                let start = if random(3) == 0 {
                    random(known + 1)
                } else {
                    known
                };
                let mut messages = Vec::new();
                for number in 0..random(3) {
                    messages.extend(match random(7) {
                        6 => tagged(number, "").map(|mut message| {
                            message.role = "user".to_owned();
                            message.extra = Some(r#"{"is_demo":true}"#.to_owned());
                            message
                        }),
                        0 => tagged(number, "keep_output"),
                        1 => tagged(number, "remove_output"),
                        2 => [Message::new("user", "u"), Message::new("assistant", "a")],
                        _ => observation(number),
                    });
                }
                known = start + messages.len();
                changes.push(Change::tail(start, messages));
            }
            let views = check_fresh_instances::<LastNObservations>(&config, &changes);
            let mut whole = Vec::new();
            for (change, view) in changes.into_iter().zip(views) {
                change.apply(&mut whole);
                assert_eq!(view, plain(&whole, &config));
                assert_eq!(view.len(), whole.len());
            }
        }
    }
}

#[test]
fn bad_configs() {
    for (config, pointer) in [
        (json!({}), None),
        (json!({ "n": 0 }), Some(r#"{"pointer":"/n"}"#)),
        (
            json!({ "n": 1, "polling": 0 }),
            Some(r#"{"pointer":"/polling"}"#),
        ),
        (json!({ "n": 1, "m": 1 }), None),
    ] {
        let error = configure::<LastNObservations>(config.clone())
            .err()
            .expect("it is bad");
        assert_eq!(error.code, "invalid-config");
        assert_eq!(error.extra.as_deref(), pointer, "{config}");
    }
}

/// Run with `cargo test --release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    for (n, polling) in [(5, 1), (5, 10), (20, 1)] {
        let config = json!({ "n": n, "polling": polling });
        let mut processor = configure::<LastNObservations>(config).expect("the config is good");
        let long = |number| {
            let [action, mut output] = observation(number);
            output.content = vec![mswea_sdk::types::ContentPart::text("a line\n".repeat(150))];
            output.extra = Some(r#"{"returncode":0,"timestamp":1.5}"#.to_owned());
            [action, output]
        };
        processor
            .apply(Change::all(history(200)))
            .expect("it applies");
        let changes: Vec<_> = (200..400)
            .map(|number| Change::tail(2 * number, long(number).to_vec()))
            .collect();
        let start = Instant::now();
        for change in changes {
            processor.apply(change).expect("it applies");
        }
        println!(
            "n {n}, polling {polling}: {:?} a step",
            start.elapsed() / 200
        );
    }
}

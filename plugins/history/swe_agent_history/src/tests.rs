//! SWE-agent's test vectors for every type, and the time of a step.

mod random;

use super::*;
use mswea_sdk::testing::{Driver, configure, take_log};
use mswea_sdk::types::{ContentPart, Image, Message, ToolCall};
use std::time::Instant;

fn view(config: Value, history: &[Message]) -> Vec<Message> {
    Driver::<SweAgentHistory>::new(config)
        .apply(Change::all(history.to_vec()))
        .to_vec()
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

/// An observation of a run with plain text.
fn observed(text: &str) -> Message {
    Message {
        extra: Some(r#"{"returncode":0,"x":1}"#.to_owned()),
        ..Message::new("user", text)
    }
}

fn demo(mut message: Message) -> Message {
    message.extra = Some(r#"{"is_demo":true,"returncode":0}"#.to_owned());
    message
}

fn called(calls: &[(&str, &str)], extra: Option<&str>) -> Message {
    let call = |(id, name): &(&str, &str)| ToolCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: "{}".to_owned(),
        extra: None,
    };
    Message {
        tool_calls: calls.iter().map(call).collect(),
        extra: extra.map(str::to_owned),
        ..Message::new("assistant", "I call")
    }
}

#[test]
fn default_shows_everything() {
    let history = [
        Message::new("system", "s"),
        observed("1:x"),
        Message::new("other", ""),
    ];
    assert_eq!(view(json!({ "type": "default" }), &history), history);
}

/// Indexes of the messages that have this tag.
fn tagged(view: &[Message], tag: &str) -> Vec<usize> {
    let has = |message: &Message| {
        let extra = message.extra_value();
        extra["tags"]
            .as_array()
            .is_some_and(|tags| tags.contains(&json!(tag)))
    };
    (0..view.len()).filter(|index| has(&view[*index])).collect()
}

#[test]
fn observations_of_functions_are_tagged() {
    let bash = |commands: &str| format!(r#"{{"actions":{commands}}}"#);
    let history = [
        Message::new("user", "the task"),
        // 1: two calls, whose results are in the opposite order.
        called(&[("a", "edit"), ("b", "open")], None),
        Message::tool("b", "opened"),
        Message::tool("a", "edited"),
        // 4: the host's own tool, selected by the first word of its command.
        called(
            &[("c", "bash"), ("d", "bash")],
            Some(&bash(
                r#"[{"command":" open x","tool_call_id":"c"},{"command":"opened","tool_call_id":"d"}]"#,
            )),
        ),
        Message::tool("c", "opened"),
        Message::tool("d", "not"),
        // 7: plain text, with two actions.
        called(
            &[],
            Some(&bash(r#"[{"command":"ls"},{"command":"open y"}]"#)),
        ),
        observed("listed"),
        observed("opened"),
        observed("one too many"),
        // 11: nothing to elide; a message of a user is no observation.
        called(&[], Some(&bash(r#"[{"command":"open z"}]"#))),
        Message::new("user", "stop"),
        // 13: a demonstration.
        demo(called(&[("e", "open")], None)),
        demo(Message::tool("e", "shown")),
    ];
    let config = |compat: bool, names: &[&str]| {
        json!({
            "type": "tag_tool_call_observations", "tags": ["t", "u"],
            "function_names": names, "compat": compat,
        })
    };
    for (names, compat, expected) in [
        (&["open"][..], false, vec![2, 5, 9]),
        (&["edit", "ls"], false, vec![3, 8]),
        (&["bash"], false, vec![5, 6]),
        (&[], false, vec![]),
        (&["nothing"], false, vec![]),
        // SWE-agent's own: the action is tagged, and only calls have names.
        (&["open"], true, vec![1, 13]),
        (&["bash", "ls"], true, vec![4]),
        (&[], true, vec![]),
    ] {
        let view = view(config(compat, names), &history);
        assert_eq!(tagged(&view, "t"), expected, "{names:?}, compat {compat}");
        assert_eq!(tagged(&view, "u"), expected, "{names:?}, compat {compat}");
        assert_eq!(texts(&view), texts(&history));
    }
    let tagged = view(config(false, &["ls"]), &history).swap_remove(8);
    let expected = r#"{"tags":["t","u"],"returncode":0,"x":1}"#;
    assert_eq!(tagged.extra.as_deref(), Some(expected));
}

fn window(file: &str, lines: &str) -> String {
    format!("[File: {file} (9 lines total)]\n(1 more lines above)\n{lines}(3 more lines below)\n")
}

fn closed(file: &str, lines: usize) -> String {
    window(
        file,
        &format!("Outdated window with {lines} lines omitted...\n"),
    )
}

#[test]
fn only_the_last_window_of_a_file_stays() {
    let ab = format!("{}{}", window("a", "1:x\n"), window("b", "2:y\n3:z\n"));
    let history = [
        Message::new("user", window("a", "1:the task\n")),
        demo(observed(&window("a", "1:demo\n"))),
        observed(&window("a", "1:x\n2:y\n")),
        Message::new("assistant", window("a", "1:x\n")),
        Message::tool("c", window("b", "1:x\n")),
        observed("7:numbered, of no file"),
        observed(&ab),
        observed(&window("a", "4:x\n")),
    ];
    let seen = view(json!({ "type": "closed_window" }), &history);
    let mut expected = texts(&history);
    expected[2] = closed("a", 2);
    expected[4] = closed("b", 1);
    expected[6] = format!("{}{}", closed("a", 1), window("b", "2:y\n3:z\n"));
    assert_eq!(texts(&seen), expected);
    assert_eq!(seen[2].extra, history[2].extra);

    // The rules of SWE-agent: only users' messages, including the task; one window per file; a
    // message with line numbers and without a file is removed.
    let seen = view(json!({ "type": "closed_window", "compat": true }), &history);
    let mut expected = texts(&history);
    expected[0] = closed("a", 1);
    expected[2] = closed("a", 2);
    let first = ab.find("1:x").expect("it is there");
    let last = ab.find("3:z\n").expect("it is there") + 4;
    expected[6].replace_range(first..last, "Outdated window with 3 lines omitted...\n");
    expected.remove(5);
    assert_eq!(texts(&seen), expected);
}

#[test]
fn windows_of_one_message_and_of_parts() {
    let twice = format!("{}{}", window("a", "1:x\n"), window("a", "2:y\n"));
    let mut parts = observed(&window("a", "5:x\n"));
    parts.content.push(ContentPart::text(window("b", "1:y\n")));
    parts.content.push(image("data:,"));
    let history = [observed(&twice), parts, observed(&window("b", "3:z\n"))];
    let seen = view(json!({ "type": "closed_window" }), &history);
    assert_eq!(
        seen[0].text(),
        format!("{}{}", closed("a", 1), closed("a", 1))
    );
    assert_eq!(
        seen[1].content,
        [
            ContentPart::text(window("a", "5:x\n")),
            ContentPart::text(closed("b", 1)),
            image("data:,"),
        ]
    );
}

#[test]
fn matches_are_removed() {
    let vectors = [
        // Greedy, over lines.
        (json!({}), "z<diff>1</diff>m<diff>2</diff>e", "ze"),
        (json!({}), "z<diff>\n1\n</diff>e", "ze"),
        (json!({}), "no <diff> at all", "no <diff> at all"),
        (
            json!({ "remove": ["<a>.*?</a>"] }),
            "z<a>1</a>m<a>2</a>e",
            "zme",
        ),
        // One processor after the other.
        (json!({ "remove": ["b", "ac"] }), "xabcx", "xx"),
        (json!({ "remove": [] }), "<diff></diff>", "<diff></diff>"),
        (json!({ "remove": ["x*"] }), "axbxx", "ab"),
        (json!({ "remove": ["$0"] }), "$0", "$0"),
    ];
    for (mut config, text, expected) in vectors {
        config["type"] = json!("remove_regex");
        for role in ["system", "user", "assistant", "tool"] {
            let seen = view(config.clone(), &[Message::new(role, text)]);
            assert_eq!(seen[0].text(), expected, "{config} {text}");
        }
    }
}

#[test]
fn an_expression_that_takes_too_long_is_told_once() {
    let text = "a".repeat(5000);
    let history = [Message::new("user", &text), Message::new("user", &text)];
    let config = json!({ "type": "remove_regex", "remove": [r"(?=(a+)+)(a+)+\1+[bc]", r"(?=(a+)+)(a+)+\1+[bd]"] });
    take_log();
    assert_eq!(view(config, &history), history);
    let told: Vec<String> = take_log().into_iter().map(|(_, line)| line).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains(r"[bc]` matches in it: the search takes too long"));
}

#[test]
fn the_last_messages_keep_their_matches() {
    let mut listed = Message::new("user", "a<diff>1</diff>b");
    listed.content.push(image("data:,<diff></diff>"));
    listed.content.push(ContentPart::text("<diff>2</diff>c"));
    let history = [
        listed,
        Message::new("user", "<diff></diff>"),
        Message::new("user", "<diff></diff>"),
    ];
    for (keep_last, cleaned) in [(0, 3), (1, 2), (2, 1), (3, 0), (9, 0)] {
        let config = json!({ "type": "remove_regex", "keep_last": keep_last });
        let mut expected = history.clone();
        for message in &mut expected[..cleaned] {
            let first = message.content.len() > 1;
            message.content[0] = ContentPart::text(if first { "ab" } else { "" });
            if first {
                message.content[2] = ContentPart::text("c");
            }
        }
        assert_eq!(view(config, &history), expected, "{keep_last}");
    }
}

fn image(url: &str) -> ContentPart {
    ContentPart::Image(Image {
        url: url.to_owned(),
        extra: None,
    })
}

#[test]
fn images_are_cut_out_of_texts() {
    let text = ContentPart::text;
    let vectors = [
        (
            "see ![a cat](data:image/png;base64,QUJD) here",
            vec![
                text("see ![a cat](data:"),
                image("data:image/png;base64,QUJD"),
                text(") here"),
            ],
        ),
        // Two, side by side.
        (
            "![a](data:image/png;base64,QQ==)![](data:image/webp;base64,Qg==)",
            vec![
                text("![a](data:"),
                image("data:image/png;base64,QQ=="),
                text(")![](data:"),
                image("data:image/webp;base64,Qg=="),
                text(")"),
            ],
        ),
        (
            "![a](data:image/jpg;base64,QQ==)",
            vec![
                text("![a](data:"),
                image("data:image/jpeg;base64,QQ=="),
                text(")"),
            ],
        ),
        // A type that is not allowed, before one that is.
        (
            "![a](data:image/gif;base64,QQ==)\n![b](data:image/png;base64,QQ==)",
            vec![
                text("![a](data:image/gif;base64,QQ==)\n![b](data:"),
                image("data:image/png;base64,QQ=="),
                text(")"),
            ],
        ),
        // The alternative text of an image may contain the beginning of another image.
        (
            "!![![x](data:image/png;base64,QQ==)",
            vec![
                text("!![![x](data:"),
                image("data:image/png;base64,QQ=="),
                text(")"),
            ],
        ),
    ];
    let config = json!({ "type": "image_parsing" });
    for (source, expected) in vectors {
        for role in ["user", "tool"] {
            let seen = view(config.clone(), &[Message::new(role, source)]);
            assert_eq!(seen[0].content, expected, "{source}");
        }
        for role in ["system", "assistant"] {
            let history = [Message::new(role, source)];
            assert_eq!(view(config.clone(), &history), history);
        }
    }
    for source in [
        "",
        "no image",
        "![a](data:image/gif;base64,QQ==)",
        "![a](data:image/png;base64,)",
        "![a](data:image/png;base64,QQ==",
        "![a](data:;base64,QQ==)",
        "![a](data:image/png,QQ==)",
        "![a](https://x/y.png)",
        "[a](data:image/png;base64,QQ==)",
    ] {
        let history = [Message::new("user", source)];
        assert_eq!(view(config.clone(), &history), history, "{source}");
    }
    let config = json!({ "type": "image_parsing", "allowed_mime_types": ["image/gif"] });
    let seen = view(
        config,
        &[Message::new("user", "![a](data:image/gif;base64,QQ==)")],
    );
    assert_eq!(seen[0].content.len(), 3);
}

#[test]
fn many_beginnings_without_an_end_cost_no_more() {
    for piece in [
        "![",
        "![](data:",
        "![](data:;",
        "![x](data:y;base64,",
        "[File:",
        "1:\n[File: ",
    ] {
        let text = piece.repeat(1_000_000 / piece.len());
        let start = Instant::now();
        for kind in ["image_parsing", "closed_window"] {
            view(json!({ "type": kind }), &[observed(&text)]);
        }
        assert!(
            start.elapsed().as_secs() < 4,
            "{piece}: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn a_step_costs_what_it_changes() {
    // For each type: the number of messages that a step of two messages returns for a history of
    // 2,000.
    for (config, brought) in [
        (json!({ "type": "default" }), 2),
        (json!({ "type": "image_parsing" }), 2),
        (json!({ "type": "remove_regex", "keep_last": 10 }), 5),
        (json!({ "type": "closed_window" }), 4),
        (json!({ "type": "closed_window", "compat": true }), 4),
        (
            json!({ "type": "tag_tool_call_observations", "function_names": ["open"] }),
            2,
        ),
    ] {
        let step = |number: usize| {
            let file = format!("f{}", number % 10);
            [
                Message::new("assistant", "a"),
                observed(&window(&file, "1:x\n")),
            ]
        };
        let mut driver = Driver::<SweAgentHistory>::new(config.clone());
        driver.apply(Change::all((0..1_000).flat_map(step).collect()));
        driver.apply(Change::tail(2_000, step(0).to_vec()));
        let sent = driver.last_len();
        assert!(sent <= brought, "{config}: {sent}");
        assert_eq!(driver.view().len(), 2_002);
    }
}

#[test]
fn bad_configs() {
    for (config, pointer) in [
        (json!({}), None),
        (json!({ "type": "last_n_observations" }), None),
        (json!({ "type": "default", "n": 1 }), None),
        (json!({ "type": "remove_regex", "keep_last": -1 }), None),
        (
            json!({ "type": "remove_regex", "remove": ["a", "("] }),
            Some(r#"{"pointer":"/remove/1"}"#),
        ),
    ] {
        let error = configure::<SweAgentHistory>(config.clone())
            .err()
            .expect("it is bad");
        assert_eq!(error.code, "invalid-config");
        assert_eq!(error.extra.as_deref(), pointer, "{config}");
    }
}

/// The file of which the host makes a plugin for each type.
#[test]
fn every_type_is_a_variant() {
    let variants: Vec<Value> =
        serde_json::from_str(include_str!("../variants.json")).expect("it is JSON");
    let names: Vec<&str> = variants.iter().filter_map(|v| v["name"].as_str()).collect();
    let schema: Value =
        serde_json::from_str(&SweAgentHistory::describe().config_schema).expect("it is JSON");
    // All types but `default` are variants: `default` changes nothing, and its name would say
    // nothing.
    let names: Vec<&str> = ["default"].into_iter().chain(names).collect();
    assert_eq!(json!(names), schema["properties"]["type"]["enum"]);
    for variant in &variants {
        assert_eq!(variant["config"], json!({ "type": variant["name"] }));
        assert!(
            variant["summary"]
                .as_str()
                .is_some_and(|summary| summary.len() > 20)
        );
        configure::<SweAgentHistory>(variant["config"].clone()).expect("it is good");
    }
    for example in schema["examples"].as_array().expect("there are some") {
        configure::<SweAgentHistory>(example.clone()).expect("it is good");
    }
}

/// Run with `cargo test --release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    for kind in [
        "default",
        "closed_window",
        "remove_regex",
        "image_parsing",
        "tag_tool_call_observations",
    ] {
        let config = json!({ "type": kind, "function_names": ["open"] });
        let mut processor = configure::<SweAgentHistory>(config).expect("the config is good");
        let step = |number: usize| {
            let text = window(
                &format!("f{}", number % 10),
                &"1:a line of code\n".repeat(100),
            );
            [called(&[], None), observed(&text)]
        };
        let first = Change::all((0..200).flat_map(step).collect());
        processor.apply(first).expect("it applies");
        let changes: Vec<_> = (200..400)
            .map(|number| Change::tail(2 * number, step(number).to_vec()))
            .collect();
        let start = Instant::now();
        for change in changes {
            processor.apply(change).expect("it applies");
        }
        println!("{kind}: {:?} a step", start.elapsed() / 200);
    }
}

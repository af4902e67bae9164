//! Which outputs are summarised, what is asked, and the view.

use super::*;
use mswea_sdk::testing::{
    Driver, check_fresh_instances_answering, configure, reply_text, set_render,
};

/// Fills in the variables of the question.
fn with_render() {
    set_render(|template, vars| {
        let mut text = template.to_owned();
        for (name, value) in vars.as_object().unwrap() {
            let plain = value.as_str().map(str::to_owned);
            let value = plain.unwrap_or_else(|| value.to_string());
            text = text.replace(&format!("{{{{ {name} }}}}"), &value);
        }
        Ok(text)
    });
}

fn config() -> Value {
    json!({
        "system_template": "",
        "instance_template": "{{ command }}|{{ observation }}|{{ window_length }}",
    })
}

fn observation(number: usize) -> Message {
    let note = format!("see file {number}.");
    let long = json!({
        "command": format!("cat {number}"),
        "file": "f",
        "note": note,
        "text": format!("text {number}"),
    });
    let text = format!("OBSERVATION:\n{note}\n(Open file: n/a)");
    Message {
        extra: Some(json!({ "returncode": 0, KEY: long }).to_string()),
        ..Message::tool("c", text)
    }
}

fn answer(query: &Query) -> Reply {
    let question: Vec<String> = query.messages.iter().map(Message::text).collect();
    reply_text(&format!(" [{}] \n", question.join("+")))
}

#[test]
fn a_summary_follows_its_note() {
    with_render();
    let mut driver = Driver::<OutputSummary>::new(config()).answering(answer);
    let mut demo = observation(3);
    demo.extra = demo
        .extra
        .map(|extra| extra.replacen('{', "{\"is_demo\":true,", 1));
    let mut cut = observation(2);
    cut.content = vec![ContentPart::Text("see fi<cut>".to_owned())];
    let history = vec![
        demo,
        Message::new("user", "task"),
        observation(1),
        Message::tool("c", "short"),
        cut,
    ];
    let view = driver.apply(Change::all(history.clone())).to_vec();
    let texts: Vec<String> = view.iter().map(Message::text).collect();
    assert_eq!(
        texts[2],
        "OBSERVATION:\nsee file 1.\n\nSUMMARY:\n[cat 1|text 1|105]\n(Open file: n/a)"
    );
    assert_eq!(
        texts[4],
        "see fi<cut>\nsee file 2.\n\nSUMMARY:\n[cat 2|text 2|105]"
    );
    // The whole text is not passed on.
    assert_eq!(view[2].extra.as_deref(), Some("{\"returncode\":0}"));
    assert_eq!(view[..2], history[..2]);
    assert_eq!(view[3], history[3]);
    driver.apply(Change::tail(5, vec![Message::new("assistant", "x")]));
    assert_eq!((driver.questions(), driver.last_start()), (0, 5));
}

#[test]
fn the_question_has_a_system_message_unless_it_is_empty() {
    with_render();
    let config = json!({ "system_template": "at most {{ summarizer_window_length }}", "instance_template": "{{ file }}", "window_length": 7 });
    let mut driver = Driver::<OutputSummary>::new(config).answering(|query| {
        let roles: Vec<&str> = query.messages.iter().map(|it| it.role.as_str()).collect();
        assert_eq!(roles, ["system", "user"]);
        answer(query)
    });
    let view = driver.apply(Change::all(vec![observation(1)]));
    assert!(view[0].text().contains("[at most 7+f]"), "{view:?}");
    let refused = configure::<OutputSummary>(json!({ "instance_template": " " }));
    assert!(refused.is_err_and(|error| error.message.contains("`instance_template`")));
}

#[test]
fn a_fresh_instance_sees_the_same() {
    with_render();
    let reply = || Message::new("assistant", "x");
    let step = |from: usize, count: usize| {
        let outputs = (0..count).map(|number| observation(from + number));
        [reply()].into_iter().chain(outputs).collect::<Vec<_>>()
    };
    let changes = [
        Change::all(vec![Message::new("user", "task")]),
        Change::tail(1, step(0, 1)),
        Change::tail(3, step(1, 12)),
        Change::tail(16, step(13, 2)),
        // The last output is another one.
        Change::tail(18, vec![observation(77), reply()]),
        Change::tail(2, vec![observation(0)]),
    ];
    let views = check_fresh_instances_answering::<OutputSummary>(&config(), &changes, answer);
    let summaries = |view: &[Message]| {
        let texts = view.iter().map(Message::text);
        texts.filter(|text| text.contains("SUMMARY:")).count()
    };
    let counts: Vec<usize> = views.iter().map(|view| summaries(view)).collect();
    // Of twelve outputs of one reply, eight get a summary.
    assert_eq!(counts, [0, 1, 9, 11, 11, 1]);
    assert!(views[4][18].text().contains("text 77"));
}

#[test]
fn answers_without_a_text_are_no_summaries_and_long_ones_are_cut() {
    with_render();
    let config = json!({ "instance_template": "{{ file }}", "window_length": 2 });
    for (text, expected) in [
        (String::new(), None),
        (" \n\t".to_owned(), None),
        (" short\n".to_owned(), Some("short".to_owned())),
        ("é".repeat(400), Some("é".repeat(400))),
        (
            "é".repeat(407),
            Some("é".repeat(400) + "\n[7 more characters of this summary are left out]"),
        ),
    ] {
        let reply = reply_text(&text);
        let driver = Driver::<OutputSummary>::new(config.clone());
        let mut driver = driver.answering(move |_| reply.clone());
        let view = driver.apply(Change::all(vec![observation(1)]));
        let whole = expected.map_or_else(String::new, |it| format!("\n\nSUMMARY:\n{it}"));
        assert_eq!(
            view[0].text(),
            format!("OBSERVATION:\nsee file 1.{whole}\n(Open file: n/a)")
        );
    }
}
